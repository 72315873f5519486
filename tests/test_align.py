"""Words and tokens put together."""

from __future__ import annotations

import numpy as np
import pytest

from wordprob import vocab, words
from wordprob.align import Cut, Place, Speller, align, byte_offsets, inner_boundaries


@pytest.mark.parametrize("text", ["", "abc", "café", "中x😀é", "a\u0301"])
def test_byte_offsets(text):
    assert byte_offsets(text).tolist() == [len(text[:i].encode()) for i in range(len(text) + 1)]


def aligned(tokenizer, text, rule):
    tokens = tokenizer.encode([text])[0]
    found = rule.segment(text)
    alignment = align(text, found, tokens)
    spelled = [
        [tokenizer.vocabulary.tokens[i] for i in tokens.ids[slice(*alignment.slice(n))]] for n in range(len(found))
    ]
    return alignment, spelled


def test_separators_belong_to_the_word_after_them(tokenizer_of):
    _, spelled = aligned(tokenizer_of("gpt2"), "She  saw\n2 marks", words.Whitespace())
    assert spelled == [["She"], ["Ġ", "Ġsaw"], ["Ċ", "2"], ["Ġmarks"]]


def test_joined_newlines_belong_to_the_word_before(tokenizer_of):
    alignment, spelled = aligned(tokenizer_of("qwen2_5"), "the mark?\n\nBye", words.Whitespace())
    assert spelled[1] == ["Ġmark", "?ĊĊ"]
    assert alignment.cuts == (Cut.CLEAN, Cut.JOINED, Cut.CLEAN)


def test_a_token_across_a_boundary_is_shared(tokenizer_of):
    alignment, spelled = aligned(tokenizer_of("gpt2"), 'He said "no." Yes', words.Punctuation())
    assert spelled[4:6] == [['."'], []]
    assert alignment.cuts[4] is Cut.SHARED


def test_a_character_over_several_tokens_stays_with_its_word(tokenizer_of):
    alignment, spelled = aligned(tokenizer_of("gpt2"), "It’s 😀 ok", words.Punctuation())
    assert spelled == [["It"], ["âĢ", "Ļ", "s"], ["ĠðŁĺ", "Ģ"], ["Ġok"]]
    assert set(alignment.cuts) == {Cut.CLEAN}


def test_an_end_of_word_mark_reaches_over_the_space(tokenizer_of):
    alignment, spelled = aligned(tokenizer_of("fiction-eow"), "She saw the mark.", words.Whitespace())
    assert spelled == [["She▁"], ["saw▁"], ["the▁"], ["mark", "."]]
    assert alignment.cuts == (Cut.JOINED, Cut.JOINED, Cut.JOINED, Cut.CLEAN)


def speller_of(tokenizer, rule):
    atoms = vocab.atoms(tokenizer.vocabulary, rule)
    return Speller(tokenizer.encode, tokenizer.vocabulary, rule, atoms)


def spellings(tokenizer, rule, before, chunk):
    tokens = tokenizer.encode([before + chunk])[0]
    first = int(np.searchsorted(tokens.starts, len(before.encode())))
    place = Place(before, chunk, chunk.strip(), tuple(tokens.ids[first:].tolist()), False)
    found = speller_of(tokenizer, rule).spellings([place])[0]
    return {tuple(tokenizer.vocabulary.tokens[i] for i in s.ids): s.boundary for s in found}


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
    tokenizer = tokenizer_of("qwen2_5")
    text = "mark?\n\nWhat?"
    tokens = tokenizer.encode([text])[0]
    place = Place("mark?", "\n\nWhat?", "What?", tuple(tokens.ids[2:].tolist()), True)
    found = speller_of(tokenizer, words.Whitespace()).spellings([place])[0]
    assert found
    assert all(tokenizer.vocabulary.tokens[s.ids[0]] == "What" for s in found)


def test_inner_boundaries_need_one(tokenizer_of):
    assert inner_boundaries(tokenizer_of("gpt2").vocabulary, words.Whitespace()) == {}
    assert "\n\n" in inner_boundaries(tokenizer_of("qwen2_5").vocabulary, words.Whitespace())[b"?"]
