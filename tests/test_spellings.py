"""Other ways in which the tokenizer would have written a word."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import shared
from wordprob.core import spellings as spellings_module
from wordprob.core import words
from wordprob.core.alignment import align
from wordprob.core.atoms import atoms_of
from wordprob.core.joined_tokens import joined_tokens_of
from wordprob.core.spellings import Branches, SpellingFinder, WordContext, word_contexts
from wordprob.core.text import Document, TextBatch


def finder_of(tokenizer, rule, **options):
    atoms = atoms_of(tokenizer.vocabulary, rule)
    return SpellingFinder(tokenizer.encode, tokenizer.vocabulary, rule, atoms, **options)


def written_out(alternatives, ids):
    """Return the spellings in full, from where they leave the observed one."""
    spelled = {}
    for divergence in alternatives.divergences:
        kept = ids[: len(ids) - divergence.tokens_back]
        for first in divergence.first_ids:
            spelled[(*kept, first, *divergence.rest_ids)] = divergence.boundary
    for spelling in alternatives.longer:
        spelled[(*ids[: alternatives.skipped_tokens], *spelling.ids)] = spelling.boundary
    return spelled


def spellings(tokenizer, rule, left, chunk, needs_left=False):
    tokens = tokenizer.encode([left + chunk])[0]
    first = int(np.searchsorted(tokens.starts, len(left.encode())))
    context = WordContext(left, chunk, chunk.strip(), tuple(tokens.ids[first:].tolist()), needs_left)
    found = written_out(finder_of(tokenizer, rule).find([context])[0], context.ids)
    return {tuple(tokenizer.vocabulary.tokens[i] for i in ids): boundary for ids, boundary in found.items()}


def test_most_words_of_most_tokenizers_have_one_spelling(tokenizer_of):
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
    found = spellings(tokenizer_of("qwen2_5"), words.Whitespace(), "mark?\n\n", "What?", needs_left=True)
    assert found
    assert all(ids[0] == "What" for ids in found)


def aligned(tokenizer, rule, texts):
    batch = TextBatch([Document(n, text) for n, text in enumerate(texts)])
    starts, ends = rule.spans(batch)
    return align(batch, starts, ends, tokenizer.encode(texts))


@pytest.mark.parametrize("name", ["llama3_2", "qwen2_5", "gpt2", "gemma"])
@pytest.mark.parametrize("rule", [words.Whitespace(), words.Punctuation()], ids=lambda rule: rule.name)
def test_asking_about_endings_gives_what_asking_about_whole_words_gives(tokenizer_of, name, rule):
    """The end of a word is asked about alone where no token reaches over a place in it."""
    tokenizer = tokenizer_of(name)
    text = "So the end. (Was it?) He said 'no', and she's gone: 12%! café? 1990, Mr. O'Neill... \"Oh!\" x-y."
    alignment = aligned(tokenizer, rule, [text])
    has_own_tokens = (alignment.cuts[1:] <= 1) & (alignment.cuts[:-1] == 0)
    contexts = list(word_contexts(alignment, 1 + np.flatnonzero(has_own_tokens)))
    by_ending = finder_of(tokenizer, rule).find(contexts)
    by_word = finder_of(tokenizer, rule, whole_words=True).find(contexts)
    for context, ending, word in zip(contexts, by_ending, by_word, strict=True):
        assert written_out(ending, context.ids) == written_out(word, context.ids), context.chunk
    if name in ("llama3_2", "qwen2_5") and rule.name == "whitespace":
        assert any(alternatives.skipped_tokens for alternatives in by_ending), "the short way was taken"


@pytest.mark.parametrize("name", ["gemma", "qwen2_5", "mistral-7b-v0.1", "gpt2"])
@pytest.mark.parametrize("rule", [words.Whitespace(), words.Punctuation()], ids=lambda rule: rule.name)
def test_the_filter_misses_no_word_that_a_token_reaches_over(tokenizer_of, name, rule):
    """All words of a batch are looked at together; the readable way is to look for every stem at the end of each."""
    tokenizer = tokenizer_of(name)
    joined = joined_tokens_of(tokenizer.vocabulary, rule)
    stems = [stem.decode() for stem in joined.continuations]
    text = shared("data/text/wikipedia_sample.txt").read_text(encoding="utf-8")[:20000]
    batch = TextBatch([Document(n, part) for n, part in enumerate(["?", *text.split("\n"), *stems])])
    _, ends = rule.spans(batch)
    may_differ = finder_of(tokenizer, rule).may_have_alternatives(batch, ends)
    byte_ends = batch.byte_offsets[ends].tolist()
    reached_over = np.array([joined.reaches_over(batch.utf8[max(0, end - 100) : end]) for end in byte_ends])
    assert may_differ[reached_over].all()
    assert np.sum(may_differ & ~reached_over) <= 0.01 * len(ends)


def test_continuations_need_an_inner_boundary(tokenizer_of):
    continuations = joined_tokens_of(tokenizer_of("qwen2_5").vocabulary, words.Whitespace()).continuations
    assert "\n\n" in continuations[b"?"]
    assert b" the" not in continuations


@pytest.mark.parametrize("name", ["fiction-bow", "gemma", "qwen2_5"])
@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_words_known_again_have_the_same_spellings(tokenizer_of, name, definition, monkeypatch):
    """Signatures save questions; without them, met twice, or all with one hash, the branches are the same."""
    text = shared("data/text/austen_pride.txt").read_text(encoding="utf-8")[2000:8000]
    tokenizer, rule = tokenizer_of(name), words.define(definition)
    alignment = aligned(tokenizer, rule, [line for line in text.split("\n") if line.strip()])
    chosen = np.flatnonzero((alignment.cuts <= 1) & (np.append(0, alignment.cuts)[:-1] != 2))

    def branches(finder):
        found = Branches()
        finder.add_branches(alignment, chosen, found)
        id_lists = [found.id_lists[k] for k in found.lists]
        return sorted(zip(found.boundaries, found.rows, id_lists, strict=True))

    finder = finder_of(tokenizer, rule)
    expected = branches(finder)
    assert branches(finder) == expected, "every word is known now"
    assert branches(finder_of(tokenizer, rule, whole_words=True)) == expected, "every word is asked about by itself"
    monkeypatch.setattr(spellings_module, "HASH_FACTORS", np.zeros_like(spellings_module.HASH_FACTORS))
    assert branches(finder_of(tokenizer, rule)) == expected, "all signatures have the same hash"
