"""Stretches of texts by their character offsets: in a table, and from Python."""

from __future__ import annotations

import io
import sys

import numpy as np
import pandas as pd
import pytest

import wordprob
from wordprob import score_table
from wordprob.cli import main
from wordprob.errors import InputError, OptionError

SCORER = wordprob.load("exact:bow")
COLUMNS = {"text_column": "text", "start_column": "start", "end_column": "end"}
SPANS = pd.DataFrame(
    {
        "item": [1, 1, 2, 3],
        "text": ["She saw the mark", "She saw the mark", "the marker", "She saw the mark"],
        "start": [4, 12, 4, 8],
        "end": [7, 16, 10, 16],
        "rt": [250, 310, 290, 480],
    }
)


def surprisals(text, spans, **options):
    return SCORER.score(text, words=spans, **options).to_pandas()["surprisal"].tolist()


def test_rows_come_back_with_the_values_of_their_stretches():
    scored = score_table(SPANS, SCORER, **COLUMNS).to_pandas()
    pd.testing.assert_frame_equal(scored[list(SPANS.columns)], SPANS)
    assert scored["word"].tolist() == ["saw", "mark", "marker", "the mark"]
    wanted = [
        *surprisals("She saw the mark", [(4, 7), (12, 16)]),
        *surprisals("the marker", [(4, 10)]),
        *surprisals("She saw the mark", [(8, 16)]),
    ]
    assert scored["surprisal"].tolist() == wanted
    assert scored["note"].tolist() == ["", "", "", ""]


def test_without_a_boundary():
    scored = score_table(SPANS, SCORER, **COLUMNS, boundary="none").to_pandas()
    assert scored["surprisal"].tolist()[2] == surprisals("the marker", [(4, 10)], boundary="none")[0]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "xlsx"])
def test_every_format(tmp_path, ending):
    plain = score_table(SPANS, SCORER, **COLUMNS)
    frame = SPANS.astype({"start": float}) if ending == "xlsx" else SPANS
    path = tmp_path / f"spans.{ending}"
    if ending in ("csv", "tsv"):
        frame.to_csv(path, sep="," if ending == "csv" else "\t", index=False)
    elif ending == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif ending == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_excel(path, index=False)
    scored = score_table(path, SCORER, **COLUMNS)
    assert scored.to_pandas()["surprisal"].tolist() == plain.to_pandas()["surprisal"].tolist()
    assert scored.metadata["start_column"] == "start"


def test_the_command(tmp_path, monkeypatch, capsys):
    def call_command(*arguments):
        monkeypatch.setattr(sys, "argv", ["wordprob", *map(str, arguments)])
        try:
            main()
        except SystemExit as stop:
            return (int(stop.code or 0), *capsys.readouterr())
        raise AssertionError("the command does not end")

    path = tmp_path / "spans.csv"
    SPANS.to_csv(path, index=False)
    flags = ("--text-column", "text", "--start-column", "start", "--end-column", "end", "-m", "exact:bow")
    code, out, err = call_command("score", path, *flags)
    assert (code, err) == (0, "")
    scored = pd.read_csv(io.StringIO(out))
    assert list(scored.columns[:5]) == list(SPANS.columns)
    assert scored["word"].tolist() == ["saw", "mark", "marker", "the mark"]
    path.write_text(path.read_text().replace("12,16", "12,17"))
    code, out, err = call_command("score", path, *flags)
    assert (code, out) == (1, "")
    assert err == f"wordprob: {path}, line 3: the stretch from 12 to 17 is not in its text, which has 16 characters.\n"


BAD = {
    "beyond": ({"end": [7, 17, 10, 16]}, r"row 2: the stretch from 12 to 17 is not in its text, which has 16"),
    "negative": ({"start": [-1, 12, 4, 8]}, r"row 1: the stretch from -1 to 7 is not in its text"),
    "empty": ({"start": [4, 16, 4, 8]}, r"row 2: the stretch from 16 to 16 is empty"),
    "backwards": ({"start": [4, 12, 10, 8], "end": [7, 16, 4, 16]}, r"row 3: the stretch from 10 to 4 is empty"),
    "overlapping": ({"end": [13, 16, 10, 16]}, r"row 2: .* begins before .* ends, at 13.*`group_by`"),
    "a fraction": ({"start": [4, 12.5, 4, 8]}, r"row 2: column 'start' holds 12.5; an offset is a whole number"),
    "a word": ({"start": ["4", "12", "x", "8"]}, r"row 3: column 'start' holds 'x'; an offset is a whole number"),
    "missing": ({"end": [7, None, 10, 16]}, r"row 2: column 'end' holds no number"),
    "infinite": ({"end": [7, np.inf, 10, 16]}, r"row 2: column 'end' holds inf"),
    "a space": ({"start": [3, 12, 4, 8], "end": [4, 16, 10, 16]}, r"row 1: .* nothing but white space"),
}


@pytest.mark.parametrize("change", BAD)
def test_bad_offsets_name_their_row(change):
    values, message = BAD[change]
    with pytest.raises(InputError, match=message):
        score_table(SPANS.assign(**values), SCORER, **COLUMNS)


def test_group_by_tells_equal_texts_apart():
    table = SPANS.iloc[[0, 0]].assign(item=[1, 2])
    with pytest.raises(InputError, match="`group_by`"):
        score_table(table, SCORER, **COLUMNS)
    scored = score_table(table, SCORER, **COLUMNS, group_by="item").to_pandas()
    assert scored["surprisal"].nunique() == 1
    with pytest.raises(InputError, match="not that of the row before"):
        score_table(SPANS.assign(item=1), SCORER, **COLUMNS, group_by="item")


@pytest.mark.parametrize(
    "options",
    [
        {"text_column": "text", "start_column": "start"},
        {"start_column": "start", "end_column": "end"},
        {**COLUMNS, "word_column": "text"},
        {**COLUMNS, "sum_by": "item"},
        {**COLUMNS, "per_word": True},
        {**COLUMNS, "target_column": "text"},
        {**COLUMNS, "words": "punctuation"},
        {**COLUMNS, "offsets": True},
    ],
)
def test_options_that_do_not_go_together(options):
    with pytest.raises(OptionError, match="`"):
        score_table(SPANS, SCORER, **options)


def test_numbers_of_numpy_are_offsets():
    spans = [(np.int64(4), np.int64(7)), (np.int32(12), np.int32(16))]
    assert surprisals("She saw the mark", spans) == surprisals("She saw the mark", [(4, 7), (12, 16)])
    frame = SCORER.score("She saw the mark").to_pandas()
    assert surprisals("She saw the mark", list(zip(frame["start"], frame["end"], strict=True)))


def test_words_on_rows_with_their_offsets():
    table = pd.DataFrame({"item": [1, 1, 2, 2], "word": ["She", "saw", "the", "mark"]})
    scored = score_table(table, SCORER, group_by="item", offsets=True).to_pandas()
    assert scored[["start", "end"]].values.tolist() == [[0, 3], [4, 7], [0, 3], [4, 8]]
    assert "start" not in score_table(table, SCORER, group_by="item").to_pandas().columns
    with pytest.raises(OptionError, match="`per_word`"):
        score_table(pd.DataFrame({"text": ["She saw"]}), SCORER, text_column="text", offsets=True)
