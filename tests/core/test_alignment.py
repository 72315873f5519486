"""Words and tokens put together."""

from __future__ import annotations

import pytest

from wordprob.core import words
from wordprob.core.alignment import Cut, align
from wordprob.core.text import Document, TextBatch


@pytest.mark.parametrize("text", ["", "abc", "café", "中x😀é", "a\u0301"])
def test_byte_offsets(text):
    expected = [len(text[:i].encode()) for i in range(len(text) + 1)]
    line_break = [len(text.encode()) + 1]
    assert TextBatch([Document(0, text)]).byte_offsets.tolist() == expected + line_break


def aligned(tokenizer, text, rule):
    """Align a text between two others: what is said of it must not depend on its neighbours."""
    batch = TextBatch([Document(0, "Before it."), Document(1, text), Document(2, "And after")])
    starts, ends = rule.spans(batch)
    tokens = tokenizer.encode([d.text for d in batch.documents])
    alignment = align(batch, starts, ends, tokens)
    numbers = alignment.words_of_text(1)
    assert [alignment.word(w) for w in numbers] == [w.text for w in rule.segment(text)]
    names = tokenizer.vocabulary.tokens
    spelled = []
    for word in numbers:
        ids = alignment.ids[alignment.first_tokens[word] : alignment.stop_tokens[word]]
        spelled.append([names[i] for i in ids])
    return [Cut(c) for c in alignment.cuts[numbers]], spelled


def test_separators_belong_to_the_word_after_them(tokenizer_of):
    _, spelled = aligned(tokenizer_of("small-gpt2"), "She  saw\n2 marks", words.Whitespace())
    assert spelled == [["She"], ["Ġ", "Ġsaw"], ["Ċ", "2"], ["Ġmarks"]]


def test_joined_newlines_belong_to_the_word_before(tokenizer_of):
    cuts, spelled = aligned(tokenizer_of("small-qwen2"), "the mark?\n\nBye", words.Whitespace())
    assert spelled[1] == ["Ġmark", "?ĊĊ"]
    assert cuts == [Cut.CLEAN, Cut.INCLUDES_SPACE, Cut.CLEAN]


def test_a_boundary_inside_a_token(tokenizer_of):
    cuts, spelled = aligned(tokenizer_of("small-gpt2"), 'He said "no." Yes', words.Punctuation())
    assert spelled[4:6] == [[], ['."']]
    assert cuts[4] is Cut.MID_TOKEN


def test_a_character_over_several_tokens_stays_with_its_word(tokenizer_of):
    cuts, spelled = aligned(tokenizer_of("small-gpt2"), "It’s 😁 ok", words.Punctuation())
    assert spelled == [["It"], ["âĢĻ", "s"], ["Ġ", "ðŁ", "ĺ", "ģ"], ["Ġok"]]
    assert set(cuts) == {Cut.CLEAN}


def test_an_end_of_word_mark_reaches_over_the_space(tokenizer_of):
    cuts, spelled = aligned(tokenizer_of("small-eow"), "She saw the mark.", words.Whitespace())
    assert spelled == [["She▁"], ["saw▁"], ["the▁"], ["mark", "."]]
    assert cuts == [Cut.INCLUDES_SPACE, Cut.INCLUDES_SPACE, Cut.INCLUDES_SPACE, Cut.CLEAN]


def test_boundaries_and_rows_are_numbered_along_the_batch(tokenizer_of):
    """A text has one boundary more than words, and one row more than tokens."""
    texts = ["She saw", "", "the mark."]
    batch = TextBatch([Document(n, text) for n, text in enumerate(texts)])
    tokens = tokenizer_of("small-gpt2").encode(texts)
    alignment = align(batch, *words.Whitespace().spans(batch), tokens)
    assert alignment.first_boundaries.tolist() == [0, 3, 4]
    assert alignment.boundary_after.tolist() == [1, 2, 5, 6]
    assert alignment.boundary_rows.tolist() == [0, 1, 2, 3, 4, 5, 7]
    assert alignment.index_in_text.tolist() == [0, 1, 0, 1]
    assert [alignment.text_of_boundary(b) for b in range(7)] == [0, 0, 0, 1, 2, 2, 2]
    assert [len(alignment.tokens_of_text(d)) for d in range(3)] == [2, 0, 3]
