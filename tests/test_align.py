"""Words and tokens put together."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import shared
from wordprob.core import words
from wordprob.core.alignment import Cut, align
from wordprob.core.atoms import atoms_of
from wordprob.core.spellings import Speller, WordContext, inner_boundaries
from wordprob.core.text import Document, TextBatch


@pytest.mark.parametrize("text", ["", "abc", "café", "中x😀é", "a\u0301"])
def test_byte_offsets(text):
    assert TextBatch([Document(0, text)]).at.tolist() == [len(text[:i].encode()) for i in range(len(text) + 1)] + [
        len(text.encode()) + 1
    ]


def aligned(tokenizer, text, rule):
    """Align a text between two others: what is said of it must not depend on its neighbours."""
    page = TextBatch([Document(0, "Before it."), Document(1, text), Document(2, "And after")])
    starts, ends = rule.spans(page)
    tokens = tokenizer.encode([d.text for d in page.documents])
    alignment = align(page, starts, ends, tokens)
    ids = np.concatenate([t.ids for t in tokens])
    here = range(*alignment.words[1:3])
    assert [page.text[starts[w] : ends[w]] for w in here] == [w.text for w in rule.segment(text)]
    spelled = [[tokenizer.vocabulary.tokens[i] for i in ids[alignment.lows[w] : alignment.stops[w]]] for w in here]
    return [Cut(c) for c in alignment.cuts[here]], spelled


def test_separators_belong_to_the_word_after_them(tokenizer_of):
    _, spelled = aligned(tokenizer_of("gpt2"), "She  saw\n2 marks", words.Whitespace())
    assert spelled == [["She"], ["Ġ", "Ġsaw"], ["Ċ", "2"], ["Ġmarks"]]


def test_joined_newlines_belong_to_the_word_before(tokenizer_of):
    cuts, spelled = aligned(tokenizer_of("qwen2_5"), "the mark?\n\nBye", words.Whitespace())
    assert spelled[1] == ["Ġmark", "?ĊĊ"]
    assert cuts == [Cut.CLEAN, Cut.JOINED, Cut.CLEAN]


def test_a_token_across_a_boundary_is_shared(tokenizer_of):
    cuts, spelled = aligned(tokenizer_of("gpt2"), 'He said "no." Yes', words.Punctuation())
    assert spelled[4:6] == [['."'], []]
    assert cuts[4] is Cut.SHARED


def test_a_character_over_several_tokens_stays_with_its_word(tokenizer_of):
    cuts, spelled = aligned(tokenizer_of("gpt2"), "It’s 😀 ok", words.Punctuation())
    assert spelled == [["It"], ["âĢ", "Ļ", "s"], ["ĠðŁĺ", "Ģ"], ["Ġok"]]
    assert set(cuts) == {Cut.CLEAN}


def test_an_end_of_word_mark_reaches_over_the_space(tokenizer_of):
    cuts, spelled = aligned(tokenizer_of("fiction-eow"), "She saw the mark.", words.Whitespace())
    assert spelled == [["She▁"], ["saw▁"], ["the▁"], ["mark", "."]]
    assert cuts == [Cut.JOINED, Cut.JOINED, Cut.JOINED, Cut.CLEAN]


def speller_of(tokenizer, rule):
    atoms = atoms_of(tokenizer.vocabulary, rule)
    return Speller(tokenizer.encode, tokenizer.vocabulary, rule, atoms)


def written_out(others, ids):
    """Return the spellings in full, from where they leave the observed one."""
    found = {(*ids[: len(ids) - e.back], i, *e.rest): e.boundary for e in others.divergences for i in e.first}
    return found | {(*ids[: others.skipped], *s.ids): s.boundary for s in others.longer}


def spellings(tokenizer, rule, before, chunk, anchored=False):
    tokens = tokenizer.encode([before + chunk])[0]
    first = int(np.searchsorted(tokens.starts, len(before.encode())))
    place = WordContext(before, chunk, chunk.strip(), tuple(tokens.ids[first:].tolist()), anchored)
    found = written_out(speller_of(tokenizer, rule).others([place])[0], place.ids)
    return {tuple(tokenizer.vocabulary.tokens[i] for i in ids): boundary for ids, boundary in found.items()}


def test_most_words_of_most_tokenisers_have_one_spelling(tokenizer_of):
    for name in ("gpt2", "gpt-neox", "smollm2"):
        assert spellings(tokenizer_of(name), words.Whitespace(), "She saw the", " mark.") == {}


def test_a_carriage_return_joined_to_a_full_stop_is_found(tokenizer_of):
    """SentencePiece vocabularies trained on web pages have such tokens too."""
    found = spellings(tokenizer_of("mistral-7b-v0.1"), words.Whitespace(), "She saw the", " mark.")
    assert found == {("▁mark", ".\r"): None}


@pytest.mark.parametrize("name", ["llama3_2", "qwen2_5"])
def test_joined_punctuation_and_newlines_are_found(tokenizer_of, name):
    found = spellings(tokenizer_of(name), words.Whitespace(), "How do you compute its", " probability?")
    assert {("Ġprobability", "?Ċ"), ("Ġprobability", "?ĊĊ")} <= set(found)
    assert all(boundary is None for boundary in found.values())


def test_end_of_word_twins_are_found(tokenizer_of):
    found = spellings(tokenizer_of("fiction-eow"), words.Punctuation(), "She saw the", " mark")
    assert found == {("mark▁",): None}
    found = spellings(tokenizer_of("fiction-eow"), words.Whitespace(), "She saw the", " mark.")
    assert found == {("mark", ".▁"): None}


def test_punctuation_that_the_definition_splits_counts_as_a_right_context(tokenizer_of):
    found = spellings(tokenizer_of("gpt2"), words.Punctuation(), "She saw the mark", ".")
    assert {('."',), (".)",)} <= set(found)
    assert ("..",) not in found, "an ellipsis is another word"


def test_the_real_left_context_is_asked_when_a_joined_token_came_before(tokenizer_of):
    found = spellings(tokenizer_of("qwen2_5"), words.Whitespace(), "mark?\n\n", "What?", anchored=True)
    assert found
    assert all(ids[0] == "What" for ids in found)


@pytest.mark.parametrize("name", ["llama3_2", "qwen2_5", "gpt2", "gemma"])
@pytest.mark.parametrize("rule", [words.Whitespace(), words.Punctuation()])
def test_what_follows_a_seam_is_spelled_alike_whatever_comes_before_it(tokenizer_of, name, rule, monkeypatch):
    """The end of a word is asked about alone where no token reaches over its seam; asking about all of it agrees."""
    tokenizer = tokenizer_of(name)
    speller = speller_of(tokenizer, rule)
    text = "So the end. (Was it?) He said 'no', and she's gone: 12%! café? 1990, Mr. O'Neill... \"Oh!\" x-y."
    page = TextBatch([Document(0, text)])
    starts, ends = rule.spans(page)
    tokens = tokenizer.encode([text])
    alignment = align(page, starts, ends, tokens)
    places = []
    for n in range(1, len(starts)):
        if alignment.cuts[n] <= Cut.JOINED and alignment.cuts[n - 1] == Cut.CLEAN:
            ids = tuple(tokens[0].ids[alignment.lows[n] : alignment.stops[n]].tolist())
            before = text[: ends[n - 1]]
            places.append(WordContext(before, text[ends[n - 1] : ends[n]], text[starts[n] : ends[n]], ids, False))
    quick = speller.others(places)
    monkeypatch.setattr(speller, "has_seams", False)
    slow = speller.others(places)
    for place, one, other in zip(places, quick, slow, strict=True):
        assert written_out(one, place.ids) == written_out(other, place.ids), place.chunk
    if name in ("llama3_2", "qwen2_5") and rule.name == "whitespace":
        assert any(others.skipped for others in quick), "the short way was taken"


@pytest.mark.parametrize("name", ["gemma", "qwen2_5", "mistral-7b-v0.1", "gpt2"])
@pytest.mark.parametrize("rule", [words.Whitespace(), words.Punctuation()])
def test_no_word_that_a_token_could_swallow_is_passed_over(tokenizer_of, name, rule):
    """All words of a page are looked at together; the readable way is to look for every stem at the end of each."""
    speller = speller_of(tokenizer_of(name), rule)
    stems = [stem.decode() for stem in inner_boundaries(tokenizer_of(name).vocabulary, rule)]
    text = shared("data/text/wikipedia_sample.txt").read_text(encoding="utf-8")[:20000]
    page = TextBatch([Document(n, part) for n, part in enumerate(["?", *text.split("\n"), *stems])])
    _, ends = rule.spans(page)
    asked = speller.worth_asking(page, ends)
    swallowed = np.array([speller._swallows(page.data[max(0, at - 100) : at]) for at in page.at[ends].tolist()])
    assert asked[swallowed].all()
    assert np.sum(asked & ~swallowed) <= 0.01 * len(ends)


def test_inner_boundaries_need_one(tokenizer_of):
    assert inner_boundaries(tokenizer_of("gpt2").vocabulary, words.Whitespace()) == {}
    assert "\n\n" in inner_boundaries(tokenizer_of("qwen2_5").vocabulary, words.Whitespace())[b"?"]
