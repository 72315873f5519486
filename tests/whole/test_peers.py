"""Defects of other packages, none of which may appear here."""

from __future__ import annotations

import numpy as np
import pytest

import wordprob
from distributions import next_log_probs
from tolerances import float32_log_prob_tolerance

# --- wordsprobability --------------------------------------------------------------------------------------------


def test_the_end_is_counted_once_in_the_first_words_set(load_model):
    """wordsprobability adds EOS to the start mass twice."""
    scorer = load_model("fiction-bow")
    vocabulary = scorer.model.tokenizer.vocabulary
    [logp] = next_log_probs(scorer.model, [[vocabulary.start]])
    begins = [i for i, p in enumerate(vocabulary.pieces) if (p and not p[:1].isspace()) or i in vocabulary.ends]
    expected = -np.log(np.exp(logp[begins]).sum())
    tolerance = float32_log_prob_tolerance(scorer.model)
    assert scorer.score("She saw", unit="nats").to_pandas()["before"][0] == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("gap", ["\n", "\t", "\u00a0"])
def test_newline_tab_and_no_break_space_are_boundaries(load_model, gap):
    frame = load_model("small-llama2").score(f"Hello{gap}world").to_pandas()
    assert frame["word"].tolist() == ["Hello", "world"]
    assert frame["surprisal"].notna().all()


@pytest.mark.parametrize("text", ["", "\n", "One line\n", "One\n\nTwo", "two  spaces"])
def test_blank_lines_trailing_newlines_and_double_spaces(load_model, text):
    frame = load_model("small-llama2").score(text).to_pandas()
    assert frame["word"].tolist() == text.split()


def test_accents_are_printed_as_written_with_offsets(load_model):
    frame = load_model("small-bow").score("the café here").to_pandas()
    assert frame.loc[1, ["word", "start", "end"]].tolist() == ["café", 4, 8]


def test_long_texts_are_tokenised_once(load_model):
    """wordsprobability cuts the string and tokenises again mid-way."""
    scorer = load_model("small-llama2")
    text = "The dog ran home and the cat sat down. " * 60
    calls = []
    encode = scorer.model.tokenizer.encode
    scorer.model.tokenizer.encode = lambda texts: calls.append(list(texts)) or encode(texts)
    try:
        frame = scorer.score(text).to_pandas()
    finally:
        del scorer.model.tokenizer.encode
    assert [c for c in calls if text in c] == [[text]]
    assert len(frame) == 540
    assert frame["context_tokens"][300:].min() >= 127


# --- minicons ----------------------------------------------------------------------------------------------------


def test_the_closing_term_is_the_last_words_not_the_ends(load_model):
    """With an EOS token, minicons moves the last correction onto EOS."""
    table = load_model("small-bow").score("She saw the mark", unit="nats")
    last, text = table.to_pandas().iloc[-1], table.texts().iloc[0]
    assert last["after"] > 0
    assert last["surprisal"] == pytest.approx(last["surprisal_naive"] + last["after"] - last["before"])
    assert text["end"] > 0


def test_clitics_do_not_shift_later_words(load_model):
    frame = load_model("small-bow").score("I don't know the man", "punctuation").to_pandas()
    assert frame["word"].tolist() == ["I", "don", "'t", "know", "the", "man"]
    plain = load_model("small-bow").score("I don't know the man").to_pandas()
    assert frame["surprisal_naive"].tolist()[3:] == pytest.approx(plain["surprisal_naive"].tolist()[2:])


def test_a_word_list_works(load_model):
    frame = load_model("small-bow").score("I know it", words=["I", "know", "it"]).to_pandas()
    assert len(frame) == 3


def test_the_correction_never_switches_itself_off():
    """A tokeniser without any mark has words that no rule can end, and the rows say so."""
    frame = wordprob.load("exact:eow").score("She saw the mark", "punctuation").to_pandas()
    assert (frame["after"] != 0).any()


# --- surprisal ---------------------------------------------------------------------------------------------------


def test_padding_and_the_end_are_finite(load_model):
    table = load_model("small-llama2").score(["One", "A much longer text than the other one in the batch"])
    assert np.isfinite(table.to_pandas()["surprisal"]).all()
    assert np.isfinite(table.texts()["end"]).all()


def test_no_double_start_token(load_model):
    """Llama's tokeniser adds <s> by itself; the model must see it once."""
    scorer = load_model("small-llama2")
    assert scorer.model.tokenizer.vocabulary.start not in scorer.model.tokenizer.encode(["Hello"])[0].ids


# --- pangoling, byungdoh, text-metrics, lm-evaluation-harness ----------------------------------------------------


def test_nothing_is_truncated_and_every_word_has_its_row(load_model):
    text = "word " * 700
    frame = load_model("small-llama2").score(text).to_pandas()
    assert len(frame) == 700
    assert frame["surprisal"].notna().all()


def test_the_users_text_is_never_rewritten(load_model):
    text = "Zoë’s “café” – naïve…"
    frame = load_model("small-llama2").score(text).to_pandas()
    assert [text[a:b] for a, b in zip(frame["start"], frame["end"], strict=True)] == text.split()


def test_windows_overlap(load_model):
    frame = load_model("small-llama2").score("one two three four " * 200, min_context=200).to_pandas()
    assert frame["context_tokens"][400:].min() >= 200


def test_the_unit_is_stated():
    for unit in ("bits", "nats"):
        assert wordprob.load("exact:bow").score("She saw", unit=unit).metadata["unit"] == unit
