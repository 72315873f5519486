"""The table: schema, units, files."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

import wordprob
from wordprob import WordTable
from wordprob.errors import InputError, OptionError, OutputError
from wordprob.tables.files import check_output, write_whole
from wordprob.tables.schema import COLUMNS, TEXT_COLUMNS


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


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet", "jsonl"])
def test_written_and_read_again(table, tmp_path, ending):
    path = table.write(tmp_path / f"scored.{ending}")
    again = WordTable.read(path)
    pd.testing.assert_frame_equal(again.to_pandas(), table.to_pandas(), check_dtype=False)
    assert again.metadata == table.metadata
    assert again.unit == "bits"


HARD = ['"quoted"', "it's", "NA", "null", "#hash", "a,b", "naïve", "中文", "\\back", "'"]


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet", "jsonl"])
def test_hard_words_survive(tmp_path, ending):
    scored = wordprob.load("exact:bow").score(" ".join(HARD))
    assert WordTable.read(scored.write(tmp_path / f"x.{ending}")).to_pandas()["word"].tolist() == HARD


def test_plain_pandas_reads_it(table, tmp_path):
    path = table.write(tmp_path / "scored.tsv")
    frame = pd.read_csv(path, sep="\t")
    assert np.allclose(frame["surprisal"], table.to_pandas()["surprisal"], atol=0)


def test_r_reads_it(tmp_path):
    if shutil.which("Rscript") is None:
        pytest.skip("needs Rscript, which is not installed")
    path = wordprob.load("exact:bow").score(" ".join(HARD)).write(tmp_path / "x.tsv")
    code = f'd <- read.delim("{path}", encoding="UTF-8", na.strings=""); cat(nrow(d), class(d$n_tokens), d$word[5])'
    out = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=True).stdout
    assert out == f"{len(HARD)} integer #hash"


def test_missing_numbers_are_empty_not_zero(tmp_path):
    scored = wordprob.load("exact:bow").score("the marker", words=["the", "mark", "er"])
    text = scored.write(tmp_path / "x.tsv").read_text(encoding="utf-8")
    assert [line.split("\t")[7] for line in text.splitlines()[2:]] == ["", ""]
    rows = [json.loads(line) for line in scored.to_text("jsonl").splitlines()]
    assert [row["surprisal"] for row in rows[1:]] == [None, None]
    assert all("no rule says" in row["note"] for row in rows[1:])
    assert scored.missing() == {"no rule says that a word ends here": 2}


def test_what_has_no_probability_says_so():
    scored = wordprob.load("exact:bow").score("mark the the")
    row = json.loads(scored.to_text("jsonl").splitlines()[0])
    assert row["surprisal"] is None
    assert row["note"] == "probability zero"
    assert np.isposinf(scored.to_pandas()["surprisal"][0])


def test_nothing_is_overwritten_or_half_written(table, tmp_path):
    path = tmp_path / "scored.tsv"
    table.write(path)
    with pytest.raises(OutputError, match="exists already.*--force"):
        table.write(path)
    table.write(path, force=True)

    def fails(aside):
        aside.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="No space left"):
        write_whole(path, fails)
    assert path.read_text(encoding="utf-8").startswith("text_id")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["scored.tsv", "scored.tsv.meta.json"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("x.txt", "cannot tell a format"), ("no/such/x.tsv", "there is no directory"), (".", "is a directory")],
)
def test_bad_outputs_are_refused_beforehand(tmp_path, name, message):
    with pytest.raises((OutputError, OptionError), match=message):
        check_output(tmp_path / name, None if name != "." else "tsv")


def test_unwritable_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(OutputError, match="no permission"):
        check_output(tmp_path / "x.tsv")


def test_reading_what_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        WordTable.read(tmp_path / "x.tsv")
