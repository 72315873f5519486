"""The table of words: columns, units, metadata, files."""

from __future__ import annotations

import json
import math
import os
import shutil
import string
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import wordprob
from random_lm import RandomLM
from wordprob import ScoredTable, WordTable, score_table
from wordprob.core.text import Document
from wordprob.errors import InputError, OptionError, OutputError
from wordprob.models.exact import ToyTokenizer
from wordprob.tables.files import check_output, write_whole
from wordprob.tables.schema import (
    COLUMNS,
    EXTRA_COLUMNS,
    EXTRAS,
    TEXT_COLUMNS,
    BatchScores,
    Column,
    TextTotals,
    register_column,
)


@pytest.fixture(scope="module")
def table():
    return wordprob.load("exact:bow").score(["She saw the mark.", "", "the marker"], unit="bits")


def test_columns(table):
    assert list(table.to_pandas().columns) == list(COLUMNS)
    assert list(table.texts().columns) == list(TEXT_COLUMNS)
    assert table.to_pandas()["text_id"].tolist() == [0, 0, 0, 0, 2, 2]
    assert table.texts()["n_words"].tolist() == [4, 0, 2], "a blank text is kept, with no words"


def test_units(table):
    nats = wordprob.load("exact:bow").score(["She saw the mark.", "", "the marker"], unit="nats")
    ratio = nats.to_pandas()["surprisal"] / table.to_pandas()["surprisal"]
    assert np.allclose(ratio, math.log(2))
    assert (table.unit, nats.unit) == ("bits", "nats")
    with pytest.raises(OptionError, match="bits or nats"):
        wordprob.load("exact:bow").score("the mark", unit="bans")


def test_metadata(table):
    wanted = {
        "model",
        "revision",
        "tokenizer",
        "words",
        "estimator",
        "unit",
        "start_token",
        "end_tokens",
        "dtype",
        "wordprob",
    }
    assert wanted <= set(table.metadata)


def test_summary_by_text(table):
    words, text = table.to_pandas(), table.texts().iloc[0]
    total = words.loc[words["text_id"] == 0, "surprisal"].sum()
    assert text["bits_per_word"] == pytest.approx(total / 4)
    assert text["bits_per_character"] == pytest.approx(total / 17)
    assert text["perplexity"] == pytest.approx(2 ** (total / 4))
    assert text["log_prob"] == pytest.approx(-(total + text["end"]) * math.log(2))
    assert text["log_prob_words"] == pytest.approx(-total * math.log(2))


def test_a_text_without_a_scored_word_has_no_log_p(table):
    texts = table.texts()
    assert np.isnan(texts["log_prob_words"][1])
    assert texts["note"].tolist() == ["", "no words", ""]
    assert texts["log_prob"][1] == pytest.approx(-texts["end"][1] * math.log(2)), "the empty text has a probability"
    per_text = -table.texts()["log_prob_words"].dropna() / table.texts()["n_words"]
    assert len(per_text.dropna()) == 2


def test_a_text_of_words_without_a_value_has_no_log_p():
    (text,) = wordprob.load("exact:bow").score("中").texts().to_dict("records")
    assert text["n_words"] == 1
    assert math.isnan(text["log_prob_words"])
    assert math.isnan(text["log_prob"])
    assert text["note"] == "none of its words has a value: the tokeniser wrote nothing for this word"


def test_a_word_of_probability_zero_is_no_missing_value():
    texts = wordprob.load("exact:bow").score(["mark", "saw saw"]).texts()
    assert texts["log_prob_words"].tolist() == [-math.inf, -math.inf]
    assert texts["note"].tolist() == ["none of its words has a value: probability zero", ""]


def test_a_text_of_other_characters_than_words_has_no_log_p():
    texts = wordprob.load("exact:bow").score(["...", "", "She"], words=r"regex:\w+").texts()
    assert texts[["log_prob", "log_prob_words"]].isna().to_numpy().tolist() == [
        [True, True],
        [False, True],
        [False, False],
    ]
    assert texts["note"].tolist() == ["no words", "no words", ""]


def test_perplexity_is_infinite_where_the_probability_is_zero_or_too_small():
    scorer = wordprob.load("exact:bow")
    texts = scorer.score(["She saw", "mark", "saw saw"]).texts()
    assert np.isinf(texts["perplexity"]).tolist() == [False, True, True]
    limited = scorer.score("mark", max_context="1words").texts()
    assert limited[["log_prob_words", "perplexity"]].to_numpy().tolist() == [[-math.inf, math.inf]]


def test_perplexity_too_large_for_a_number_is_infinite_and_log_p_is_not():
    class Unlikely(RandomLM):
        def logits(self, prefix):
            return 3000 * super().logits(prefix)

    letters = string.ascii_letters
    scorer = wordprob.Scorer(Unlikely(ToyTokenizer(r" ?\w+", [*letters, *(f" {letter}" for letter in letters)])))
    text = scorer.score("the mark").texts().iloc[0]
    assert text["bits_per_word"] > 1024
    assert math.isfinite(text["log_prob_words"])
    assert text["perplexity"] == math.inf


def test_words_between_those_given_do_not_count():
    text = "She saw the mark"
    scorer = wordprob.load("exact:bow")
    everything = scorer.score(text, unit="nats")
    scored = scorer.score(text, words=[(4, 7), (12, 16)], unit="nats")
    (summary,) = scored.texts().to_dict("records")
    total = scored.to_pandas()["surprisal"].sum()
    assert summary["log_prob_words"] == pytest.approx(-total, abs=1e-12)
    assert summary["bits_per_word"] == pytest.approx(total / 2 / math.log(2))
    assert summary["log_prob"] == pytest.approx(everything.texts()["log_prob"][0]), "that of the whole text"
    assert abs(summary["conservation"]) < 1e-12
    assert math.isnan(summary["bits_per_character"])
    assert math.isnan(summary["bits_per_byte"])
    assert summary["note"] == "only some of its words were given: no bits per character or byte"


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet", "jsonl"])
def test_written_and_read_again(table, tmp_path, ending):
    path = table.write(tmp_path / f"scored.{ending}")
    again = WordTable.read(path)
    pd.testing.assert_frame_equal(again.to_pandas(), table.to_pandas(), check_dtype=False)
    assert again.metadata == table.metadata
    assert again.unit == "bits"


UNUSUAL_WORDS = ['"quoted"', "it's", "NA", "null", "#hash", "a,b", "naïve", "中文", "\\back", "'"]


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet", "jsonl"])
def test_unusual_words_survive(tmp_path, ending):
    scored = wordprob.load("exact:bow").score(" ".join(UNUSUAL_WORDS))
    assert WordTable.read(scored.write(tmp_path / f"x.{ending}")).to_pandas()["word"].tolist() == UNUSUAL_WORDS


def test_pandas_reads_it(table, tmp_path):
    path = table.write(tmp_path / "scored.tsv")
    frame = pd.read_csv(path, sep="\t")
    assert np.allclose(frame["surprisal"], table.to_pandas()["surprisal"], atol=0)


def test_r_reads_it(tmp_path):
    if shutil.which("Rscript") is None:
        pytest.skip("needs Rscript, which is not installed")
    path = wordprob.load("exact:bow").score(" ".join(UNUSUAL_WORDS)).write(tmp_path / "x.tsv")
    code = f'd <- read.delim("{path}", encoding="UTF-8", na.strings=""); cat(nrow(d), class(d$n_tokens), d$word[5])'
    out = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=True).stdout
    assert out == f"{len(UNUSUAL_WORDS)} integer #hash"


def test_missing_numbers_are_empty_not_zero(tmp_path):
    reason = "what comes before it has probability zero"
    scored = wordprob.load("exact:bow").score("She 中 saw the")
    text = scored.write(tmp_path / "x.tsv").read_text(encoding="utf-8")
    assert [line.split("\t")[7] for line in text.splitlines()[3:]] == ["", ""]
    rows = [json.loads(line) for line in scored.to_text("jsonl").splitlines()]
    assert [row["surprisal"] for row in rows[2:]] == [None, None]
    assert all(reason in row["note"] for row in rows[2:])
    assert scored.missing() == {reason: 2}


def test_probability_zero_has_a_note():
    scored = wordprob.load("exact:bow").score("mark the the")
    row = json.loads(scored.to_text("jsonl").splitlines()[0])
    assert row["surprisal"] is None
    assert row["note"] == "probability zero"
    assert np.isposinf(scored.to_pandas()["surprisal"][0])


def test_files_are_neither_overwritten_nor_half_written(table, tmp_path):
    path = tmp_path / "scored.tsv"
    table.write(path)
    with pytest.raises(OutputError, match="exists already.*`force`"):
        table.write(path)
    table.write(path, force=True)

    def fails(temporary):
        temporary.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="No space left"):
        write_whole(path, fails)
    assert path.read_text(encoding="utf-8").startswith("text_id")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["scored.tsv", "scored.tsv.meta.json"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("x.txt", "cannot tell a format"), ("no/such/x.tsv", "there is no directory"), (".", "is a directory")],
)
def test_bad_output_paths_are_refused(tmp_path, name, message):
    with pytest.raises((OutputError, OptionError), match=message):
        check_output(tmp_path / name, None if name != "." else "tsv")


def test_unwritable_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(OutputError, match="no permission"):
        check_output(tmp_path / "x.tsv")


def test_reading_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        WordTable.read(tmp_path / "x.tsv")


# --- one class for texts and for users' tables -----------------------------------------------------------------------


def test_texts_and_tables_have_one_result_class(table):
    assert ScoredTable is WordTable
    stimuli = pd.DataFrame({"item": [0, 0, 0, 0], "word": ["She", "saw", "the", "mark."]})
    scored = score_table(stimuli, "exact:bow", group_by="item")
    assert type(scored) is type(table) is WordTable
    columns = ["surprisal", "surprisal_naive", "before", "after"]
    pd.testing.assert_frame_equal(scored.words()[columns], table.words()[columns][:4])
    assert repr(table) == "<WordTable: 6 words of 3 texts, bits, exact:bow>"
    assert repr(scored) == "<WordTable: 4 rows, 4 words of 1 text, bits, exact:bow>"


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet", "jsonl"])
def test_a_scored_table_is_written_and_read_again(tmp_path, ending):
    stimuli = pd.DataFrame({"item": [1, 1], "word": ["She", "saw"], "rt": [310, 287]})
    scored = score_table(stimuli, "exact:bow", group_by="item")
    again = ScoredTable.read(scored.write(tmp_path / f"scored.{ending}"))
    pd.testing.assert_frame_equal(again.to_pandas(), scored.to_pandas(), check_dtype=False)
    assert again.metadata == scored.metadata


def test_words_go_into_a_workbook(table, tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.read_excel(table.write(tmp_path / "words.xlsx"), keep_default_na=False)
    assert frame["word"].tolist() == table.words()["word"].tolist()


def test_a_missing_further_column_is_a_missing_number_when_read(tmp_path):
    scored = wordprob.load("exact:bow").score(
        "the marker", words=["the", "mark", "er"], extras=["token_rank", "token_entropy"]
    )
    again = WordTable.read(scored.write(tmp_path / "x.csv"))
    pd.testing.assert_frame_equal(again.to_pandas(), scored.to_pandas(), check_dtype=False)


# --- further columns ------------------------------------------------------------------------------------------------


@pytest.fixture
def doubled_entropy():
    """Register a column for one test: twice the entropy."""
    column = Column(
        "doubled_entropy",
        "twice the entropy",
        lambda batch: 2 * batch.statistics["entropy"],
        in_units=True,
        statistics=("entropy",),
    )
    register_column(column)
    yield column
    del EXTRA_COLUMNS[column.name]


def test_a_registered_column_is_scored(doubled_entropy, tmp_path):
    assert EXTRAS["doubled_entropy"] == "twice the entropy"
    scorer = wordprob.load("exact:bow")
    scored = scorer.score(
        ["She saw the mark", "the"], extras=["token_rank", "doubled_entropy", "token_entropy"], unit="nats"
    )
    frame = scored.to_pandas()
    assert list(frame.columns) == [*list(COLUMNS)[:-1], "token_rank", "doubled_entropy", "token_entropy", "note"]
    assert frame["doubled_entropy"].tolist() == (2 * frame["token_entropy"]).tolist()
    in_bits = scorer.score(["She saw the mark", "the"], extras=["doubled_entropy"]).to_pandas()
    assert np.allclose(in_bits["doubled_entropy"] * math.log(2), frame["doubled_entropy"])
    assert "token_rank" not in in_bits.columns
    again = WordTable.read(scored.write(tmp_path / "scored.parquet"))
    assert again.to_pandas()["doubled_entropy"].tolist() == frame["doubled_entropy"].tolist()


def test_a_registered_column_goes_into_a_users_table(doubled_entropy):
    stimuli = pd.DataFrame({"item": [1, 1], "word": ["She", "saw"]})
    found = score_table(stimuli, "exact:bow", group_by="item", extras=["doubled_entropy"]).to_pandas()
    truth = wordprob.load("exact:bow").score("She saw", extras=["doubled_entropy"]).to_pandas()
    assert found["doubled_entropy"].tolist() == truth["doubled_entropy"].tolist()
    with pytest.raises(InputError, match="called doubled_entropy already"):
        score_table(stimuli.assign(doubled_entropy=1), "exact:bow", group_by="item", extras=["doubled_entropy"])


def test_a_registered_column_has_a_flag(tmp_path):
    """In a process of its own, as flags are made when a command is imported."""
    code = """
from wordprob.cli import main
from wordprob.tables.schema import Column, register_column
register_column(Column("bytes", "bytes of the word", lambda batch: batch.spans[1] - batch.spans[0]))
main()
"""
    arguments = ["score", "--text", "the naïve", "--model", "exact:bow", "--bytes", "--format", "csv"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines()]
    assert [row[rows[0].index("bytes")] for row in rows[1:]] == ["3", "6"]


def test_names_of_columns_are_distinct(doubled_entropy):
    for name in ("surprisal", "token_rank", "doubled_entropy"):
        with pytest.raises(OptionError, match=f"a column called '{name}' already"):
            register_column(Column(name, "", lambda batch: batch.starts))
    with pytest.raises(OptionError, match="called 'entropie'. Did you mean word_entropy or token_entropy"):
        wordprob.load("exact:bow").score("the mark", extras=["entropie"])


def test_further_estimates_have_columns():
    documents = [Document(0, "the mark"), Document("b", "saw")]
    numbers = np.arange(3.0)
    batch = BatchScores(
        documents=documents,
        counts=np.array([2, 1]),
        data=b"the mark\nsaw\n",
        spans=(np.array([0, 4, 9]), np.array([3, 8, 12])),
        starts=np.array([0, 4, 0]),
        ends=np.array([3, 8, 3]),
        n_tokens=np.ones(3, dtype=np.int64),
        context_tokens=np.zeros(3, dtype=np.int64),
        surprisal=numbers,
        naive=numbers,
        before=numbers,
        after=numbers,
        notes={1: "a note"},
        totals=TextTotals(
            *([np.array([2, 1])] * 2), np.zeros(2), np.array([2, 1]), *([np.zeros(2)] * 3), np.zeros(2, dtype=bool)
        ),
        statistics={"rank": numbers},
        estimates={"other": math.log(2) * numbers},
    )
    frame = WordTable.build([batch], {}, "bits", ["token_rank"]).to_pandas()
    assert list(frame.columns) == [*list(COLUMNS)[:-1], "surprisal_other", "token_rank", "note"]
    assert frame["surprisal_other"].tolist() == [0, 1, 2]
    assert frame["text_id"].tolist() == [0, 0, "b"]
    assert frame["word"].tolist() == ["the", "mark", "saw"]
    assert frame["word_id"].tolist() == [0, 1, 0]
    assert frame["note"].tolist() == ["", "a note", ""]


def test_ranks_are_whole_numbers_also_where_one_is_missing(tmp_path):
    scorer = wordprob.load("exact:bow")
    table = scorer.score(["She saw", "mark er"], words=[["She", "saw"], ["mark", "er"]], extras=["token_rank"])
    assert str(table.to_pandas()["token_rank"].dtype) == "Int64"
    assert "1.0" not in [line.split("\t")[-2] for line in table.to_text("tsv").splitlines()]
    missing = table.to_pandas()
    missing.loc[1, "token_rank"] = None
    text = wordprob.WordTable(missing, table.texts(), table.metadata).to_text("tsv")
    assert [line.split("\t")[-2] for line in text.splitlines()][:3] == ["token_rank", "1", ""]
    for ending in ("parquet", "csv", "jsonl"):
        path = table.write(tmp_path / f"x.{ending}")
        assert wordprob.WordTable.read(path).to_pandas()["token_rank"].tolist()[:2] == [1, 1]
