"""Corner cases of the whole path, on small real models and on the exact one."""

from __future__ import annotations

import numpy as np
import pytest
from test_long_text_sections import full_log_probs

import wordprob
from conftest import SMALL_TOKENIZERS, TOKENIZERS, shared
from random_lm import RandomLM
from wordpiece import WordPiece
from wordprob import Scorer
from wordprob.core import words
from wordprob.errors import AlignmentError, InputError, OptionError
from wordprob.scoring.open_model import CACHED_PREPARERS

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


@pytest.mark.parametrize("name", ["small-bow", "small-eow", "small-llama2"])
@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_odd_texts_score_and_keep_their_offsets(load_model, name, definition):
    texts = list(ODD.values())
    table = load_model(name).score(texts, definition, unit="nats", ids=list(ODD))
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


def test_a_no_break_space_in_two_byte_tokens_is_a_boundary(load_model):
    """The BOW twin writes U+00A0 as two byte tokens; the word before it must still end there."""
    scorer = load_model("small-bow")
    frame = scorer.score("Hello\u00a0world", unit="nats").to_pandas()
    assert frame["n_tokens"].tolist()[1] > 2
    plain = scorer.score("Hello world", unit="nats").to_pandas()
    assert frame["after"][0] == pytest.approx(plain["after"][0], abs=0.1)
    assert frame["before"][1] == frame["after"][0]


def test_words_that_share_a_token_have_values(load_model):
    """The token stands with the word in which it ends."""
    table = load_model("small-bow").score('"Yes," he said. "No." And', "punctuation")
    frame = table.to_pandas()
    assert (frame["n_tokens"] == 0).any()
    assert frame["surprisal"].gt(0).all()
    assert frame["surprisal_naive"].notna().all()
    assert table.texts()["conservation"].abs().max() < 1e-9


def test_given_words(load_model):
    scorer = load_model("small-bow")
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


def test_words_that_no_rule_ends_are_scored_as_spans(load_model):
    scorer = load_model("small-llama2")
    frame = scorer.score("the jumpily", words=["the", "jump", "ily"]).to_pandas()
    assert frame["surprisal"].notna().all()
    assert frame["note"].str.contains("ends by no rule").tolist() == [False, True, False]
    whole = scorer.score("the jumpily", words=["the", "jumpily"], boundary="punctuation").to_pandas()
    assert frame["surprisal"][1:].sum() == pytest.approx(whole["surprisal"][1], abs=1e-6)


def test_stretches_of_a_text(load_model):
    """What lies between the stretches is context."""
    scorer = load_model("small-llama2")
    text = "She saw the big cat today."
    frame = scorer.score(text, words=[(8, 11), (16, 19)], boundary="none").to_pandas()
    assert frame["word"].tolist() == ["the", "cat"]
    every = scorer.score(text, boundary="none").to_pandas().set_index("word")
    assert frame["surprisal"].tolist() == pytest.approx(every.loc[["the", "cat"], "surprisal"].tolist(), abs=1e-5)
    for wrong, message in (
        ([(4, 99)], "is not a span"),
        ([(4, 7), (5, 9)], "give them in order"),
        ([(3, 3)], "starts"),
    ):
        with pytest.raises(InputError, match=message):
            scorer.score(text, words=wrong)


def test_a_multi_word_item_in_a_list_is_one_word(load_model):
    scorer = load_model("small-llama2")
    text = "He went to New York today"
    whole = scorer.score(text, words=["He", "went", "to", "New York", "today"]).to_pandas()
    parts = scorer.score(text).to_pandas()
    assert whole["surprisal"][3] == pytest.approx(parts["surprisal"][3] + parts["surprisal"][4], abs=1e-5)


def test_a_pattern_that_matches_nothing_is_an_error(load_model):
    with pytest.raises(InputError, match="matches nothing in the 1 texts"):
        load_model("small-llama2").score("She saw the mark", r"regex:\d+")


def test_an_undecided_pattern_says_so(load_model):
    """After "word", an apostrophe may begin "'s" or close a quotation: one would have to read on."""
    scorer = load_model("small-bow")
    text = "How do you know the word"
    frame = scorer.score(text, r"regex:\w+(?:['’]\w+)?").to_pandas()
    assert "the pattern would have to read on" in frame["note"][5]
    assert frame["note"][4] == ""
    assert (scorer.score(text, r"regex:\w+").to_pandas()["note"] == "").all()


@pytest.mark.parametrize("bad", [["ok", 3], ["ok", None]])
def test_texts_must_be_strings(load_model, bad):
    with pytest.raises(InputError, match="text 1 is not a string"):
        load_model("small-llama2").score(bad)


def test_lone_surrogates_are_refused(load_model):
    with pytest.raises(InputError, match="text 0 .* surrogate"):
        load_model("small-llama2").score("a \ud800 b")


def test_ids_must_match(load_model):
    with pytest.raises(InputError, match="2 texts but 1 ids"):
        load_model("small-llama2").score(["a", "b"], ids=["x"])


def test_progress_counts_texts(load_model):
    seen = []
    load_model("small-llama2").score(["One text", "", "Two"], progress=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (3, 3)


# --- further columns -------------------------------------------------------------------------------------------------


def test_entropy_and_rank_are_those_of_the_next_token():
    scorer = wordprob.load("exact:bow")
    frame = scorer.score("She saw the mark", unit="nats", extras=["token_entropy", "token_rank"]).to_pandas()
    ids = scorer.model.tokenizer.encode(["She saw the mark"])[0].ids.tolist()
    for n, row in frame.iterrows():
        p = scorer.model.distribution([0, *ids[:n]])
        assert row["token_entropy"] == pytest.approx(-sum(x * np.log(x) for x in p if x > 0), abs=1e-12)
        assert row["token_rank"] == 1 + sum(p > p[ids[n]])
    bits = scorer.score("She saw the mark", extras=["token_entropy"]).to_pandas()
    assert np.allclose(bits["token_entropy"] * np.log(2), frame["token_entropy"])
    assert "token_entropy" not in scorer.score("She saw the mark").to_pandas()
    with pytest.raises(OptionError, match="no further column is called 'entropie'. Did you mean"):
        scorer.score("the mark", extras=["entropie"])


def test_entropy_and_rank_of_a_real_model_are_those_of_its_distributions(load_model):
    scorer = load_model("small-llama2")
    text = 'Once upon a time there was a little girl. She said, "Oh!"'
    frame = scorer.score(text, unit="nats", extras=["token_entropy", "token_rank"]).to_pandas()
    ids = scorer.model.tokenizer.encode([text])[0].ids.tolist()
    log_probs = full_log_probs(scorer.model, [scorer.model.tokenizer.vocabulary.start, *ids])
    firsts = np.cumsum([0, *frame["n_tokens"]])[:-1].tolist()
    for k, first in enumerate(firsts):
        logs = log_probs[first]
        assert frame["token_entropy"][k] == pytest.approx(-np.sum(np.exp(logs) * logs), abs=1e-3)
        near = np.sum(np.abs(logs - logs[ids[first]]) < 1e-3)  # which of these comes first is a matter of rounding
        assert abs(frame["token_rank"][k] - (1 + np.sum(logs > logs[ids[first]]))) <= near


def test_entropy_is_missing_inside_a_token(load_model):
    frame = (
        load_model("small-bow").score('"No." And', "punctuation", extras=["token_entropy", "token_rank"]).to_pandas()
    )
    inside = frame["note"].str.contains("begins inside a token")
    assert inside.any()
    assert (frame["token_entropy"].isna() == inside).all()
    assert (frame["token_rank"].isna() == inside).all()


# --- reasons ---------------------------------------------------------------------------------------------------------


def test_a_word_without_a_value_has_one_reason_and_the_right_one():
    frame = wordprob.load("exact:bow").score("She She saw").to_pandas()
    assert frame["note"].tolist() == ["", "probability zero", "what comes before it has probability zero"]


def test_without_a_start_token_that_is_the_reason(small_model_directory):
    scorer = wordprob.load(small_model_directory("small-bow"), bos="none")
    frame = scorer.score("She saw it").to_pandas()
    assert frame["note"].tolist() == ["no start-of-text token: choose one with bos", "", ""]
    assert frame["surprisal"].isna().tolist() == [True, False, False]


# --- word definitions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SMALL_TOKENIZERS, *TOKENIZERS[::4]])
def test_a_pattern_for_white_space_gives_what_white_space_gives(tokenizer_of, name):
    """All but for four control characters, which Python counts as white space and ``\\s`` does not."""
    pieces = tokenizer_of(name).vocabulary.pieces
    separators = [i for i, piece in enumerate(pieces) if piece and set(piece) & set(b"\x1c\x1d\x1e\x1f")]
    texts = ["She saw the mark. It's here!", "“Well,” said O'Brien, “odd...”", "我 喜欢 中文。 שלום"]
    scorer = Scorer(RandomLM(tokenizer_of(name), impossible=separators, cut_off_logit=-20.0))
    by_rule, by_pattern = scorer.score(texts).to_pandas(), scorer.score(texts, r"regex:\S+").to_pandas()
    for column in ("surprisal", "before", "after"):
        assert np.allclose(by_rule[column], by_pattern[column], rtol=0, atol=1e-9, equal_nan=True), column


@pytest.mark.parametrize("pattern", [r"regex:\S+", r"regex:[^\s]+"])
def test_a_pattern_on_a_wordpiece_tokenizer_counts_the_next_word_as_a_boundary(pattern):
    """Otherwise p(w_t) would depend on w_t+1."""
    scorer = Scorer(RandomLM(WordPiece()))
    texts = ["she saw the mark", "she saw the marker.", "she saw it"]
    by_rule, by_pattern = scorer.score(texts).to_pandas(), scorer.score(texts, pattern).to_pandas()
    for column in ("surprisal", "before", "after"):
        assert np.allclose(by_rule[column], by_pattern[column], rtol=0, atol=1e-12), column
    saw = by_pattern[by_pattern["word"] == "saw"]["surprisal"]
    assert saw.nunique() == 1, "whatever follows"


def test_a_pattern_does_not_depend_on_other_vocabularies(tokenizer_of):
    """Labels of a pattern are named as a vocabulary brings them; another one used before changes nothing."""
    pattern = r"regex:[\w']+|\d\p{P}"
    alone = (
        Scorer(RandomLM(tokenizer_of("small-gpt2"), cut_off_logit=-20.0))
        .score("She can't (see) 'it'.", pattern)
        .to_pandas()
    )
    Scorer(RandomLM(tokenizer_of("small-llama2"), cut_off_logit=-20.0)).score("She", pattern)
    again = (
        Scorer(RandomLM(tokenizer_of("small-gpt2"), cut_off_logit=-20.0))
        .score("She can't (see) 'it'.", pattern)
        .to_pandas()
    )
    assert again.equals(alone)


def test_a_definition_can_be_an_object():
    scorer = wordprob.load("exact:bow")
    by_name, by_object = scorer.score("She saw.", "punctuation"), scorer.score("She saw.", words.Punctuation())
    assert by_object.to_pandas().equals(by_name.to_pandas())
    assert by_object.metadata == by_name.metadata


def test_a_scorer_keeps_only_some_definitions():
    """A server takes any pattern, for as long as it runs."""
    scorer = wordprob.load("exact:bow")
    for n in range(3 * CACHED_PREPARERS):
        scorer.score("She saw", rf"regex:\w{{1,{n + 5}}}")
    assert scorer.cached_definitions == CACHED_PREPARERS


# --- the twins ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def passages():
    novel = shared("data/text/austen_pride.txt").read_text(encoding="utf-8")
    return [p for p in novel.split("\n") if 200 < len(p) < 700 and "_" not in p][20:50]


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_corrected_twins_agree_better_than_naive_ones(load_model, passages, definition):
    """Two real models that differ only in where the tokeniser marks words."""
    bow, eow = (
        load_model(f"fiction-{kind}").score(passages, definition, unit="nats").to_pandas() for kind in ("bow", "eow")
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


def test_metadata_names_the_run(load_model):
    table = load_model("small-llama2").score("Once upon a time", unit="nats")
    assert table.metadata["model"] == "small-llama2"
    assert table.metadata["words"] == "whitespace"
    assert table.metadata["wordprob"] == wordprob.__version__
