"""``wordprob report`` and ``wordprob.render``: what goes into the file, and what is refused."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest

import wordprob
from wordprob.cli import main
from wordprob.errors import InputError, OutputError
from wordprob.render import payload, report, write_report
from wordprob.scoring.results import WordTable

NASTY = ["</script><img src=x onerror=alert(1)>", "<!--", "&lt;", '"quoted"', "'", "$title", "\u2028", "naïve"]


@pytest.fixture(scope="module")
def table():
    return wordprob.load("exact:bow").score(["She saw the mark.", "the marker"])


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))


def nasty_table(**metadata: str) -> WordTable:
    frame = pd.DataFrame({"word": NASTY, "surprisal": 1.0, "text_id": "<b>", "note": "</script>"})
    return WordTable(frame, pd.DataFrame(), {"unit": "bits", **metadata})


def run(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["wordprob", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0), capsys.readouterr().err


def test_the_payload_holds_the_table(table):
    data = payload(table)
    frame = table.to_pandas()
    assert data["unit"] == "bits"
    assert data["metadata"] == table.metadata
    assert data["columns"]["word"] == frame["word"].tolist()
    assert data["columns"]["text"] == ["0", "0", "0", "0", "1", "1"]
    assert data["columns"]["surprisal"] == pytest.approx(frame["surprisal"], abs=1e-4)
    assert {len(column) for column in data["columns"].values()} == {len(frame)}


def test_what_is_missing_or_infinite_is_null():
    frame = pd.DataFrame({"word": list("abc"), "surprisal": [1.23456, np.nan, np.inf], "note": ["", "why", None]})
    columns = payload(WordTable(frame, pd.DataFrame(), {"unit": "nats"}))["columns"]
    assert columns["surprisal"] == [1.2346, None, None]
    assert columns["note"] == ["", "why", ""]
    assert columns["text"] == ["", "", ""], "without text_id all rows are one text"
    assert "surprisal_naive" not in columns, "what is not there is not made up"


def test_columns_with_other_names_can_be_specified():
    frame = pd.DataFrame(
        {
            "Wort": ["a", "b"],
            "item": [1, 2],
            "condition": ["x", "y"],
            "wp_surprisal": [1.0, 2.0],
            "surprisal": ["?", "!"],
        }
    )
    table = WordTable(frame, pd.DataFrame(), {})
    columns = payload(table, word_column="Wort", prefix="wp_", group_by=["item", "condition"])["columns"]
    assert columns["word"] == ["a", "b"]
    assert columns["surprisal"] == [1, 2]
    assert columns["text"] == ["1 · x", "2 · y"]


def test_the_metadata_says_which_columns_hold_what():
    frame = pd.DataFrame(
        {"Wort": ["a", "b", "."], "item": [1, 1, 2], "s_surprisal": ["1.5", "NA", ""], "gap": ["TRUE", "no", "yes"]}
    )
    metadata = {"word_column": "Wort", "prefix": "s_", "group_by": "item", "space_after": "gap", "unit": "bits"}
    columns = payload(WordTable(frame, pd.DataFrame(), metadata))["columns"]
    assert columns["word"] == ["a", "b", "."]
    assert columns["text"] == ["1", "1", "2"]
    assert columns["surprisal"] == [1.5, None, None]
    assert columns["space"] == [True, False, True]


def test_a_wide_table_becomes_a_choice_of_model():
    frame = pd.DataFrame(
        {"word": ["a", "b"], "surprisal_m/1": [1.0, 2.0], "note_m/1": ["", "n"], "surprisal_m-2": [3.0, 4.0], "rt": 0}
    )
    metadata = {"unit": "bits", "models": {"m/1": {"dtype": "x"}, "m-2": {}}}
    columns = payload(WordTable(frame, pd.DataFrame(), metadata))["columns"]
    assert columns["model"] == ["m/1", "m/1", "m-2", "m-2"]
    assert columns["word"] == ["a", "b", "a", "b"]
    assert columns["surprisal"] == [1, 2, 3, 4]
    assert columns["note"] == ["", "n", "", ""]


def test_the_page_is_complete_and_loads_nothing(table):
    page = report(table, title="Ours")
    assert page.startswith("<!doctype html>")
    assert "<title>Ours</title>" in page
    outside = re.sub(r'"http://www\.w3\.org/2000/svg"', "", page)  # the name of SVG, not an address
    assert not re.search(r"https?:|//[a-z]+\.[a-z]|@import|url\(", outside.split('id="data"')[0])
    assert not re.search(r"<(link|img|iframe|object|embed)\b|\ssrc=", page.split('id="data"')[0])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_words_cannot_become_markup():
    page = report(nasty_table(model="</script><b>"), title="</title><script>alert(1)</script>")
    assert data_of(page)["columns"]["word"] == NASTY
    assert page.count("</script>") == 2, "the data's and the script's, nothing else's"
    assert page.count("<script") == 2
    assert "<img" not in page
    assert "<title>&lt;/title&gt;" in page


def test_pages_are_reproducible(table):
    assert report(table) == report(table)


def test_write_report_writes_whole_or_nothing(table, tmp_path):
    path = write_report(table, tmp_path / "r.html")
    assert path.read_text(encoding="utf-8") == report(table)
    with pytest.raises(OutputError, match="exists already"):
        write_report(table, path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="no column surprisal"):
        write_report(WordTable(pd.DataFrame({"word": ["a"]}), pd.DataFrame(), {}), path, force=True)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet", "jsonl"])
def test_the_command_reads_what_score_writes(monkeypatch, capsys, tmp_path, table, ending):
    table.write(tmp_path / f"scored.{ending}")
    code, err = run(monkeypatch, capsys, "report", str(tmp_path / f"scored.{ending}"))
    assert (code, err) == (0, "")
    data = data_of((tmp_path / "scored.html").read_text(encoding="utf-8"))
    assert data["columns"]["word"] == table.to_pandas()["word"].tolist()
    assert data["unit"] == "bits"
    assert data["metadata"]["model"] == "exact:bow"


def test_a_region_that_is_not_there_cannot_be_outlined(monkeypatch, capsys, tmp_path):
    (tmp_path / "x.csv").write_text("word,surprisal,region\nShe,1,start\nsaw,2,end\n")
    arguments = ("report", str(tmp_path / "x.csv"), "-o", str(tmp_path / "r.html"), "--outline")
    code, err = run(monkeypatch, capsys, *arguments, "region=critical")
    assert (code, "no row has 'critical' in the column 'region'. It has: start; end." in err) == (1, True)
    code, err = run(monkeypatch, capsys, *arguments, "zone=critical")
    assert (code, "has no column 'zone'" in err) == (1, True)
    code, err = run(monkeypatch, capsys, *arguments, "region=end")
    assert (code, err) == (0, "")


BAD = {
    "cols.tsv": (b"a\tb\n1\t2\n", r"no column word and no column surprisal\. Its columns: a, b\. Score it first"),
    "empty.tsv": (b"", r"empty\.tsv"),
    "none.csv": (b"word,surprisal\n", "has no words|no rows"),
    "text.csv": (b"word,surprisal\na,1\nb,lots\n", "column surprisal should hold numbers, but row 2 has 'lots'"),
    "ragged.csv": (b"word,surprisal\na,1\nb,2,3\n", "line 3"),
    "russian.tsv": ("word\tsurprisal\nзнак\t1\n".encode("cp1251"), r"russian\.tsv is not UTF-8: line 2"),
    "bad.parquet": (b"garbage", r"bad\.parquet cannot be read as (?i:parquet)"),
    "bad.jsonl": (b'{"word": "a"\n', r"bad\.jsonl"),
    "x.docx": (b"", "is a Word document"),
    "x.rtf": (b"", "cannot tell (a|the) format"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_scored_table_is_an_error(monkeypatch, capsys, tmp_path, name):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    code, err = run(monkeypatch, capsys, "report", str(tmp_path / name), "-o", str(tmp_path / "r.html"))
    assert code == (2 if name == "x.rtf" else 1)
    assert re.search(message, err)
    assert err.count("\n") == 1, "one line"
    assert [p.name for p in tmp_path.iterdir()] == [name], "nothing half-written"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.tsv"], "no such file"),
        (["t.tsv", "-o", "no/r.html"], "no directory no"),
        (["t.tsv", "-o", "."], "is a directory; name a file in it, for example surprisal.html"),
        (["t.tsv", "--group-by", "item,text_id"], "there is no column item to group by. The columns: text_id"),
        (["t.tsv", "-o", "t.tsv"], "exists already"),
    ],
)
def test_wrong_arguments_are_explained(monkeypatch, capsys, tmp_path, table, arguments, message):
    monkeypatch.chdir(tmp_path)
    table.write("t.tsv")
    before = (tmp_path / "t.tsv").read_bytes()
    code, err = run(monkeypatch, capsys, "report", *arguments)
    assert code == 1
    assert message in err
    assert (tmp_path / "t.tsv").read_bytes() == before
    assert not list(tmp_path.glob("*.html"))


def test_the_report_can_be_opened_in_the_browser(monkeypatch, capsys, tmp_path, table):
    opened = []
    monkeypatch.setattr("click.launch", opened.append)
    table.write(tmp_path / "t.tsv")
    assert run(monkeypatch, capsys, "report", str(tmp_path / "t.tsv"), "--open")[0] == 0
    assert opened == [str(tmp_path / "t.html")]


def test_broken_metadata_is_an_error(tmp_path, table):
    table.write(tmp_path / "t.tsv")
    (tmp_path / "t.tsv.meta.json").write_text("{broken")
    with pytest.raises(InputError, match=r"t\.tsv\.meta\.json is not JSON"):
        WordTable.read(tmp_path / "t.tsv")
