"""Corpus totals: what is added up, what it is divided by, and what is not in it."""

from __future__ import annotations

import json
import math
import string
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from random_lm import RandomLM
from wordprob import Scorer, studies
from wordprob.analysis.perplexity import PERPLEXITY_COLUMNS, TOTALS, corpus_totals
from wordprob.cli import cli
from wordprob.errors import InputError, OptionError, OutputError
from wordprob.models.exact import ToyTokenizer
from wordprob.options import ScoringOptions
from wordprob.tables.metadata import read_metadata

TEXTS = ["She saw the mark", "She saw the marker", "the mark"]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


def random_scorer(start=True, ends=True):
    """A model under which every text has a probability, with or without a start and an end token."""
    letters = string.ascii_letters
    tokenizer = ToyTokenizer(r" ?\w+|[^\w\s]", [*letters, *(f" {letter}" for letter in letters), *".,é"])
    vocabulary = tokenizer.vocabulary
    tokenizer.vocabulary = replace(
        vocabulary, start=vocabulary.start if start else None, ends=vocabulary.ends if ends else ()
    )
    return Scorer(RandomLM(tokenizer))


def by_total(result):
    return result.table.set_index("total")


def test_totals_are_those_of_the_texts_divided_by_what_the_texts_hold(tmp_path):
    given = ["She saw the mark.", "a résumé", "one"]
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(given), encoding="utf-8")
    scorer = random_scorer()
    found = by_total(studies.perplexity(path, scorer))
    table = scorer.score(given, unit="nats")
    summary, words = table.texts(), table.words()
    truth = {
        "words": summary["log_prob_words"].sum(),
        "words_and_end": summary["log_prob"].sum(),
        "tokens": -words["surprisal_naive"].sum(),
    }
    assert -words["surprisal"].sum() == pytest.approx(truth["words"])
    for total, log_prob in truth.items():
        row = found.loc[total]
        assert row["log_prob"] == pytest.approx(log_prob)
        assert (row["n_texts"], row["n_words"]) == (3, 7)
        bits = -log_prob / math.log(2)
        assert row["bits_per_byte"] == pytest.approx(bits / sum(len(text.encode()) for text in given))
        assert row["bits_per_character"] == pytest.approx(bits / sum(map(len, given)))
        assert row["bits_per_word"] == pytest.approx(bits / 7)
        assert row["word_perplexity"] == pytest.approx(math.exp(-log_prob / 7))
        assert row["note"] == ""
    assert truth["words_and_end"] < truth["words"]


def test_the_exact_model_has_its_own_entropy(texts):
    """The words' total is known without any tokens: every family of tokenisers gives the same."""
    found = studies.perplexity(texts, ["exact:bow", "exact:eow"]).table
    words = found[found["total"] == "words"]["bits_per_word"]
    assert words.iloc[0] == pytest.approx(words.iloc[1], abs=1e-12)
    ends = found[found["total"] == "words_and_end"]["bits_per_word"]
    assert ends.iloc[0] == pytest.approx(ends.iloc[1], abs=1e-12)
    tokens = found[found["total"] == "tokens"]["bits_per_word"]
    assert abs(tokens.iloc[0] - tokens.iloc[1]) > 0.1, "the naive totals depend on the tokeniser"


def test_an_interval_is_that_of_a_mean_where_all_texts_are_of_one_length():
    log_probs = np.random.default_rng(3).normal(-100, 9, 60)
    sizes = dict.fromkeys(("n_words", "n_scored", "n_characters", "n_bytes"), 10)
    frame = pd.DataFrame({**dict.fromkeys(TOTALS, log_probs), **sizes, "reason": ""})
    one, other = (corpus_totals({"m": frame}, 4000, seed).iloc[0] for seed in (1, 2))
    half = 1.96 * log_probs.std() / math.sqrt(60) / math.log(2) / 10
    assert one["bits_per_word_high"] - one["bits_per_word"] == pytest.approx(half, rel=0.1)
    assert one["bits_per_word"] - one["bits_per_word_low"] == pytest.approx(half, rel=0.1)
    assert one["bits_per_word_low"] != other["bits_per_word_low"]


def test_intervals_are_the_same_with_the_same_seed(texts):
    one, again = (studies.perplexity(texts, "exact:bow", seed=1).table for _ in range(2))
    pd.testing.assert_frame_equal(one, again)
    assert (one["bits_per_byte_low"] < one["bits_per_byte"]).all()
    assert (one["bits_per_byte"] < one["bits_per_byte_high"]).all()
    np.testing.assert_allclose(one["word_perplexity_high"], 2 ** one["bits_per_word_high"])


def test_one_text_has_no_interval(tmp_path):
    (tmp_path / "one.txt").write_text("She saw the mark\n", encoding="utf-8")
    row = by_total(studies.perplexity(tmp_path / "one.txt", "exact:bow")).loc["words"]
    assert math.isnan(row["bits_per_byte_low"])
    assert row["note"] == "one text: no interval"


def test_texts_without_words_are_not_free(tmp_path):
    """A text without words has log p 0, and would make every rate smaller."""
    path = tmp_path / "texts.txt"
    path.write_text("She saw the mark\n...\n\n \nthe mark\n", encoding="utf-8")
    options = ScoringOptions(words=r"regex:\w+")
    result = studies.perplexity(path, random_scorer(), scoring=options)
    row = by_total(result).loc["words_and_end"]
    assert (row["n_texts"], row["n_texts_missing"], row["n_words"]) == (2, 1, 6)
    assert row["note"] == "1 text not in the total: no words"
    assert row["n_bytes"] == len("She saw the mark") + len("the mark")
    assert result.metadata["blank_texts"] == 2


def test_without_a_start_token_totals_are_missing_with_a_reason(texts):
    found = by_total(studies.perplexity(texts, random_scorer(start=False)))
    for total in TOTALS:
        row = found.loc[total]
        assert (row["n_texts"], row["n_texts_missing"], row["n_words_missing"]) == (0, 3, 10)
        assert math.isnan(row["log_prob"])
        assert math.isnan(row["word_perplexity"])
        assert "no start-of-text token" in row["note"]


def test_without_an_end_token_only_the_end_is_missing(texts):
    found = by_total(studies.perplexity(texts, random_scorer(ends=False)))
    assert math.isfinite(found.loc["words", "bits_per_byte"])
    assert math.isnan(found.loc["words_and_end", "bits_per_byte"])
    assert "no end-of-text token" in found.loc["words_and_end", "note"]


def test_an_impossible_text_makes_the_rates_infinite_and_the_note_says_so(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("She saw the mark\nmark She\n", encoding="utf-8")
    row = by_total(studies.perplexity(path, "exact:bow")).loc["words"]
    assert row["bits_per_word"] == row["word_perplexity"] == math.inf
    assert "1 text with probability zero" in row["note"]


def test_models_with_other_texts_are_not_comparable_and_it_is_said():
    sizes = {"n_words": [2, 2], "n_scored": [2, 2], "n_characters": [8, 8], "n_bytes": [8, 8], "reason": ["", "why"]}
    full = pd.DataFrame({**sizes, **{name: [-1.0, -2.0] for name in TOTALS}})
    part = pd.DataFrame({**sizes, **{name: [-1.0, np.nan] for name in TOTALS}})
    found = corpus_totals({"a": full, "b": part}, n_samples=10)
    assert found["note"].str.endswith("not the same texts as the other models").all()
    assert found.loc[found["model"] == "b", "note"].iloc[0].startswith("1 text not in the total: why; one text")


def test_words_that_have_no_value_of_their_own_are_counted():
    sizes = {"n_words": [5], "n_scored": [3], "n_characters": [8], "n_bytes": [8], "reason": [""]}
    found = corpus_totals({"m": pd.DataFrame({**sizes, **{name: [-1.0] for name in TOTALS}})}, n_samples=10)
    assert found["n_words_unscored"].tolist() == [2, 2, 2]


def test_every_column_is_described(texts):
    columns = set(studies.perplexity(texts, "exact:bow").table.columns)
    ends = {name.removesuffix("_low").removesuffix("_high") for name in columns}
    assert ends == set(PERPLEXITY_COLUMNS)


def test_sources_of_every_kind(texts, tmp_path):
    whole = studies.perplexity(texts, "exact:bow").table
    pd.DataFrame({"body": TEXTS}).to_parquet(tmp_path / "texts.parquet")
    parquet = studies.perplexity(tmp_path / "texts.parquet", "exact:bow", text_column="body").table
    pd.testing.assert_frame_equal(whole, parquet)
    two = studies.perplexity([texts], "exact:bow", max_texts=2)
    assert two.table["n_texts"].tolist() == [2, 2, 2]
    (tmp_path / "book.txt").write_text("She saw\nthe mark\n", encoding="utf-8")
    book = studies.perplexity(tmp_path / "book.txt", random_scorer(), whole_file=True).table
    assert (book["n_texts"].tolist(), book["n_words"].tolist()) == ([1] * 3, [4] * 3)


def test_what_is_wrong_is_said_before_a_model_is_opened(texts, tmp_path):
    (tmp_path / "blank.txt").write_text("\n \n", encoding="utf-8")
    with pytest.raises(InputError, match="there is no text in .*blank.txt"):
        studies.perplexity(tmp_path / "blank.txt", "owner/nothing")
    with pytest.raises(OptionError, match="totals need a rule"):
        studies.perplexity(texts, "owner/nothing", scoring=ScoringOptions(words="list:words.txt"))
    with pytest.raises(OptionError, match="`unit` does not apply to this study"):
        studies.perplexity(texts, "owner/nothing", scoring=ScoringOptions(unit="nats"))


# --- the command ------------------------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(cli, ["perplexity", *map(str, arguments)], catch_exceptions=False)


@pytest.mark.parametrize("ending", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_the_command_writes_a_tidy_table(texts, tmp_path, ending):
    path = tmp_path / f"totals.{ending}"
    result = run(texts, "-m", "exact:bow", "-m", "exact:eow", "-o", path, "--bootstrap", 50)
    assert result.exit_code == 0
    readers = {"csv": pd.read_csv, "tsv": lambda p: pd.read_csv(p, sep="\t"), "parquet": pd.read_parquet,
               "json": pd.read_json, "jsonl": lambda p: pd.read_json(p, lines=True)}  # fmt: skip
    table = readers[ending](path)
    assert table["model"].tolist() == ["exact:bow"] * 3 + ["exact:eow"] * 3
    assert table["total"].tolist() == [*TOTALS, *TOTALS]
    about = read_metadata(path)
    assert about["intervals"] == "95 % bootstrap over texts, 50 samples, seed 42"
    assert about["models"]["exact:eow"]["source"] == "eow"


def test_the_command_prints_a_table_or_tsv(texts, tmp_path):
    shown = run(texts, "-m", "exact:bow", "--format", "table").stdout
    assert "words_and_end" in shown
    assert "[" in shown
    piped = run(texts, "-m", "exact:bow").stdout.splitlines()
    assert piped[0].startswith("model\ttotal\tn_texts")
    assert len(json.loads(run(texts, "-m", "exact:bow", "--format", "json").stdout)) == 3


def test_the_command_reports_what_is_missing_and_writes_the_texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("She saw the mark\n\nthe mark\n", encoding="utf-8")
    result = run(path, "-m", "exact:bow", "-o", tmp_path / "totals.csv", "--texts-output", tmp_path / "each.csv")
    assert "wordprob: 1 blank text left out" in result.stderr
    each = pd.read_csv(tmp_path / "each.csv")
    assert each["n_words"].tolist() == [4, 2]
    with pytest.raises(OutputError, match="exists already"):
        run(path, "-m", "exact:bow", "-o", tmp_path / "totals.csv")
    with pytest.raises(OutputError, match="is the input"):
        run(path, "-m", "exact:bow", "-o", path, "--format", "csv", "--force")


# --- lm-evaluation-harness --------------------------------------------------------------------------------------------


def test_the_tokens_are_what_a_rolling_log_likelihood_adds_up(smollm2, tmp_path):
    """Σ log p(token | start token, tokens before), by the network itself: no boundaries, no end."""
    import torch

    text = "The cat sat on the mat, as cats do."
    (tmp_path / "text.txt").write_text(text + "\n", encoding="utf-8")
    row = by_total(studies.perplexity(tmp_path / "text.txt", smollm2)).loc["tokens"]
    tokenizer = smollm2.model.tokenizer
    ids = [tokenizer.vocabulary.start, *tokenizer.encode([text])[0].ids.tolist()]
    network = smollm2.model.network
    with torch.no_grad():
        log_probs = torch.log_softmax(network(torch.tensor([ids])).logits[0].double(), -1)
    rolling = sum(float(log_probs[n, token]) for n, token in enumerate(ids[1:]))
    assert row["log_prob"] == pytest.approx(rolling, abs=1e-3)
    assert row["word_perplexity"] == pytest.approx(math.exp(-rolling / len(text.split())), rel=1e-3)
