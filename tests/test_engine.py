"""Corner cases of the whole path, on small real models."""

from __future__ import annotations

import numpy as np
import pytest

import wordprob
from conftest import shared
from wordprob.core import words
from wordprob.errors import AlignmentError, InputError

ODD = {
    "blank": "   ",
    "empty": "",
    "trailing newline": "The mark.\n",
    "tabs": "Hello\tworld\tagain",
    "no-break space": "Hello\u00a0world again",
    "em space": "Hello\u2003world again",
    "double spaces": "She  saw   the mark",
    "leading space": "  She saw",
    "accents": "un café à côté",
    "combining": "un cafe\u0301 noir",
    "emoji": "I ❤️ you 😀👩‍🔬 yes",
    "cjk": "我 喜欢 中文。",
    "right to left": "שלום עולם, مرحبا بالعالم!",
    "control": "a\x00b \x07 c",
    "special": "the <|endoftext|> token and </s>",
    "metaspace": "a ▁ b",
    "newlines": "One.\n\nTwo?\nThree",
    "one long word": "a" * 300,
}


@pytest.mark.parametrize("name", ["fiction-bow", "fiction-eow", "stories15M"])
@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_odd_texts_score_and_keep_their_offsets(load_shared, name, definition):
    texts = list(ODD.values())
    table = load_shared(name).score(texts, definition, unit="nats", ids=list(ODD))
    frame = table.to_pandas()
    assert table.texts()["text_id"].tolist() == list(ODD)
    for key, text in ODD.items():
        rows = frame[frame["text_id"] == key]
        assert rows["word"].tolist() == [w.text for w in words.define(definition).segment(text)]
        assert [text[a:b] for a, b in zip(rows["start"], rows["end"], strict=True)] == rows["word"].tolist()
    assert (frame["surprisal"].notna() | frame["note"].ne("")).all()
    assert (frame["surprisal"].dropna() > -1e-6).all()
    conserved = table.texts()["conservation"].dropna().abs()
    assert conserved.max() < 1e-3
    if definition == "whitespace":
        assert frame["surprisal"].notna().all()


def test_a_no_break_space_in_two_byte_tokens_is_a_boundary(load_shared):
    """The BOW twin writes U+00A0 as two byte tokens; the word before it must still end there."""
    scorer = load_shared("fiction-bow")
    frame = scorer.score("Hello\u00a0world", unit="nats").to_pandas()
    assert frame["n_tokens"].tolist()[1] > 2
    plain = scorer.score("Hello world", unit="nats").to_pandas()
    assert frame["after"][0] == pytest.approx(plain["after"][0], abs=0.1)
    assert frame["before"][1] == frame["after"][0]


def test_a_token_across_words_is_missing_with_a_reason(load_shared):
    frame = load_shared("fiction-bow").score('"Yes," he said. "No." And', "punctuation").to_pandas()
    crossed = frame[frame["note"].str.contains("a token crosses")]
    assert set(crossed["word"]) >= {".", '"'}
    assert crossed["surprisal"].isna().all()
    assert crossed["surprisal_naive"].isna().all()
    assert frame.loc[frame["word"] == "And", "surprisal"].notna().all(), "words beyond it have their values"


def test_given_words(load_shared):
    scorer = load_shared("fiction-bow")
    text = "She can't see it."
    own = scorer.score(text, words=["She", "can", "'t", "see", "it", "."]).to_pandas()
    rule = scorer.score(text, "punctuation").to_pandas()
    assert own["word"].tolist() == rule["word"].tolist()
    assert np.allclose(own["surprisal"], rule["surprisal"])
    spaced = scorer.score(text, words=[text.split()]).to_pandas()
    assert np.allclose(spaced["surprisal"], scorer.score(text).to_pandas()["surprisal"])
    with pytest.raises(AlignmentError, match="text 0: word 2"):
        scorer.score(text, words=["She", "cannot"])
    with pytest.raises(InputError, match="2 texts but 1 word lists"):
        scorer.score([text, text], words=[["She"]])


def test_words_that_no_rule_ends_have_a_naive_value_only(load_shared):
    frame = load_shared("stories15M").score("the jumpily", words=["the", "jump", "ily"]).to_pandas()
    assert frame["surprisal"].isna().tolist() == [False, True, True]
    assert frame["surprisal_naive"].notna().all()


def test_a_multi_word_item_in_a_list_is_one_word(load_shared):
    scorer = load_shared("stories15M")
    text = "He went to New York today"
    whole = scorer.score(text, words=["He", "went", "to", "New York", "today"]).to_pandas()
    parts = scorer.score(text).to_pandas()
    assert whole["surprisal"][3] == pytest.approx(parts["surprisal"][3] + parts["surprisal"][4], abs=1e-6)


def test_a_pattern_that_matches_nothing_is_an_error(load_shared):
    with pytest.raises(InputError, match="matches nothing in the 1 texts"):
        load_shared("stories15M").score("She saw the mark", r"regex:\d+")


def test_a_pattern_equal_to_white_space_gives_the_same_numbers(load_shared):
    scorer = load_shared("fiction-bow")
    text = "She saw the mark. It's here!"
    by_rule, by_pattern = scorer.score(text), scorer.score(text, r"regex:\S+")
    assert np.allclose(by_rule.to_pandas()["surprisal"], by_pattern.to_pandas()["surprisal"], atol=1e-9)


def test_an_undecided_pattern_says_so(load_shared):
    """After "father", an apostrophe may begin "'s" or close a quotation: one would have to read on."""
    scorer = load_shared("fiction-bow")
    frame = scorer.score("It was his father", r"regex:\w+(?:['’]\w+)?").to_pandas()
    assert "the pattern would have to read on" in frame["note"][3]
    assert frame["note"][2] == ""
    assert (scorer.score("It was his father", r"regex:\w+").to_pandas()["note"] == "").all()


@pytest.mark.parametrize("bad", [["ok", 3], ["ok", None]])
def test_texts_must_be_strings(load_shared, bad):
    with pytest.raises(InputError, match="text 1 is not a string"):
        load_shared("stories15M").score(bad)


def test_lone_surrogates_are_refused(load_shared):
    with pytest.raises(InputError, match="text 0 .* surrogate"):
        load_shared("stories15M").score("a \ud800 b")


def test_ids_must_match(load_shared):
    with pytest.raises(InputError, match="2 texts but 1 ids"):
        load_shared("stories15M").score(["a", "b"], ids=["x"])


def test_progress_counts_texts(load_shared):
    seen = []
    load_shared("stories15M").score(["One text", "", "Two"], progress=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (3, 3)


# --- the twins ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def passages():
    novel = shared("data/text/austen_pride.txt").read_text(encoding="utf-8")
    return [p for p in novel.split("\n") if 200 < len(p) < 700 and "_" not in p][20:50]


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_corrected_twins_agree_better_than_naive_ones(load_shared, passages, definition):
    """Two real models that differ only in where the tokeniser marks words."""
    bow, eow = (
        load_shared(f"fiction-{kind}").score(passages, definition, unit="nats").to_pandas() for kind in ("bow", "eow")
    )
    assert bow["word"].tolist() == eow["word"].tolist()
    kept = bow["surprisal"].notna() & eow["surprisal"].notna() & (bow["word_id"] > 0)
    assert kept.sum() > 1500
    reference = eow["surprisal"][kept]
    naive = (bow["surprisal_naive"][kept] - reference).abs().mean()
    corrected = (bow["surprisal"][kept] - reference).abs().mean()
    assert corrected < naive
    assert (
        np.corrcoef(bow["surprisal"][kept], reference)[0, 1]
        > np.corrcoef(bow["surprisal_naive"][kept], reference)[0, 1]
    )


def test_metadata_names_the_run(load_shared):
    table = load_shared("stories15M").score("Once upon a time", unit="nats")
    assert table.metadata["model"] == "stories15M"
    assert table.metadata["words"] == "whitespace"
    assert table.metadata["wordprob"] == wordprob.__version__
