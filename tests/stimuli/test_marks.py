"""The critical word of a sentence: named in a column, or marked in the text."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wordprob
from wordprob import score_table
from wordprob.errors import AlignmentError, InputError, OptionError
from wordprob.stimuli.stimulus_reading import stimuli_from_texts
from wordprob.tables.marks import Span, different_parts, find_target, read_marks

SCORER = wordprob.load("exact:bow")


def surprisals(text: str) -> list[float]:
    return SCORER.score(text).to_pandas()["surprisal"].tolist()


WORDS = st.lists(st.sampled_from(["She", "saw", "the", "mark", "marker."]), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=4), st.sampled_from(["stars", "bars"]))
def test_marks_are_not_scored_and_regions_are_the_sums_of_their_words(regions, marks):
    pieces = [" ".join(words) for words in regions]
    marked = " | ".join(pieces) if marks == "bars" else " ".join(f"*{piece}*" for piece in pieces)
    plain = " ".join(pieces)
    assert read_marks(marked, marks)[0] == plain
    found = score_table(pd.DataFrame({"text": [marked]}), SCORER, text_column="text", marks=marks).to_pandas()
    truth = iter(surprisals(plain))
    sums = [sum(next(truth) for _ in words) for words in regions]
    assert found["surprisal"].tolist() == pytest.approx(sums, abs=1e-9, nan_ok=True)
    assert found["word"].tolist() == pieces
    assert found["region"].tolist() == [str(n + 1) for n in range(len(regions))]
    assert found["text"].tolist() == [marked] * len(regions), "the user's column is as it was"


def test_a_target_column():
    table = pd.DataFrame(
        {
            "item": [1, 2, 3],
            "sentence": ["She saw the mark.", "She saw the marker", "She saw"],
            "target": ["mark", "the marker", ""],
        },
        index=[7, 8, 9],
    )
    found = score_table(table, SCORER, text_column="sentence", target_column="target").to_pandas()
    pd.testing.assert_frame_equal(found[list(table.columns)], table)
    assert found["word"].tolist() == ["mark.", "the marker", ""]
    assert found["n_words"].tolist()[:2] == [1, 2]
    assert found["surprisal"].tolist()[:2] == pytest.approx(
        [surprisals("She saw the mark.")[3], sum(surprisals("She saw the marker")[2:])]
    )
    assert math.isnan(found["surprisal"].iloc[2])
    assert found["note"].tolist() == ["asked for 'mark', scored as 'mark.'", "", "no region on this row"]
    split = score_table(table, SCORER, text_column="sentence", target_column="target", words="punctuation").to_pandas()
    assert split["word"].tolist()[0] == "mark"
    assert split["note"].tolist()[0] == ""


def test_names_of_regions_and_a_row_for_each_word():
    table = pd.DataFrame({"text": ["She | saw | the mark", "the | marker | saw"]})
    options = {"text_column": "text", "marks": "bars", "region_names": "subject,verb,object"}
    found = score_table(table, SCORER, **options).to_pandas()
    assert found["region"].tolist() == ["subject", "verb", "object"] * 2
    words = score_table(table, SCORER, per_word=True, **options).to_pandas()
    assert words["word"].tolist() == ["She", "saw", "the", "mark", "the", "marker", "saw"]
    assert words["region"].tolist() == ["subject", "verb", "object", "object", "subject", "verb", "object"]
    assert words["surprisal"].tolist()[:4] == pytest.approx(surprisals("She saw the mark"))
    with pytest.raises(InputError, match=r"row 1 has 3 regions for 2 names \(a, b\)"):
        score_table(table, SCORER, text_column="text", marks="bars", region_names=["a", "b"])


def test_plain_texts_and_several_models():
    stimuli = stimuli_from_texts(["She *saw* the mark", "nothing here"], marks="stars")
    found = stimuli.score(["exact:bow", "exact:eow"], shape="wide").to_pandas()
    assert found["word"].tolist() == ["saw", ""]
    assert found["surprisal_exact_bow"].tolist()[0] == pytest.approx(surprisals("She saw the mark")[1])
    assert math.isnan(found["surprisal_exact_bow"].tolist()[1])
    assert stimuli.score("exact:bow").metadata["marks"] == "stars"


@pytest.mark.parametrize(
    ("text", "marks", "message"),
    [
        ("She *saw the mark", "stars", "row 1 has a star that no other closes: 'She "),
        ("She ** saw", "stars", "nothing between two stars"),
        ("She saw", "stars", "no text has a region marked with stars"),
        ("the man|saw", "bars", "no space at a bar between two words; write 'man . saw'"),
    ],
)
def test_marks_that_do_not_fit(text, marks, message):
    with pytest.raises(InputError, match=message):
        score_table(pd.DataFrame({"text": [text]}), SCORER, text_column="text", marks=marks)


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (
            "the mark of the mark",
            "mark",
            "the target 'mark' is in the text 2 times; mark the one that is meant with stars",
        ),
        ("the marker", "mark", "the target 'mark' is not in the text except inside another word"),
        ("the marker", "saw", "the target 'saw' is not in the text: 'the marker'"),
    ],
)
def test_targets_that_do_not_fit(text, target, message):
    with pytest.raises(AlignmentError, match=f"row 1: {message}"):
        score_table(
            pd.DataFrame({"text": [text], "target": [target]}), SCORER, text_column="text", target_column="target"
        )


def test_options_that_do_not_go_together():
    words = pd.DataFrame({"item": [1, 1], "word": ["She", "saw"], "t": ["x", "x"]})
    with pytest.raises(OptionError, match="for a text on each row; for a word on each row name regions with `sum_by`"):
        score_table(words, SCORER, word_column="word", group_by="item", target_column="t")
    texts = pd.DataFrame({"text": ["She *saw*"], "t": ["saw"]})
    with pytest.raises(OptionError, match="specify one of them"):
        score_table(texts, SCORER, text_column="text", target_column="t", marks="stars")
    with pytest.raises(OptionError, match="specify `marks` too"):
        score_table(texts, SCORER, text_column="text", region_names="a")
    with pytest.raises(OptionError, match="no marks are called 'dots'; use stars or bars"):
        score_table(texts, SCORER, text_column="text", marks="dots")
    with pytest.raises(InputError, match="called region already"):
        score_table(texts.assign(region=1), SCORER, text_column="text", marks="stars")


def test_targets_in_scripts_without_spaces():
    assert find_target("我喜欢这本书", "喜欢", "x") == Span("target", 1, 3)
    assert read_marks("我|喜欢|这本书", "bars")[0] == "我喜欢这本书"


def test_the_words_in_which_two_sentences_differ():
    spans = different_parts("The cats near the dog sleep well.", "The cats near the dog sleeps well.")
    assert [(span.start, span.end) for span in spans] == [(22, 27), (22, 28)]
    assert different_parts("a b", "a b") == (None, None)
    assert different_parts("a b c", "a c") == (Span("different", 2, 3), None)
    assert different_parts("a a", "a") == (Span("different", 2, 3), None)
