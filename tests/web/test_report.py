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
from wordprob.tables.result import WordTable

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
    found = payload(table)
    frame = table.to_pandas()
    assert found["unit"] == "bits"
    assert found["metadata"] == table.metadata
    assert found["columns"]["word"] == frame["word"].tolist()
    assert found["columns"]["text"] == ["0", "0", "0", "0", "1", "1"]
    assert found["columns"]["surprisal"] == pytest.approx(frame["surprisal"], abs=1e-4)
    assert {len(column) for column in found["columns"].values()} == {len(frame)}


def test_what_is_missing_or_infinite_is_null():
    frame = pd.DataFrame({"word": list("abc"), "surprisal": [1.23456, np.nan, np.inf], "note": ["", "why", None]})
    found = payload(WordTable(frame, pd.DataFrame(), {"unit": "nats"}))["columns"]
    assert found["surprisal"] == [1.2346, None, None]
    assert found["note"] == ["", "why", ""]
    assert found["text"] == ["", "", ""], "without text_id all rows are one text"
    assert "surprisal_naive" not in found, "what is not there is not made up"


def test_a_table_of_ones_own_names():
    frame = pd.DataFrame(
        {
            "Wort": ["a", "b"],
            "item": [1, 2],
            "condition": ["x", "y"],
            "wp_surprisal": [1.0, 2.0],
            "surprisal": ["?", "!"],
        }
    )
    own = WordTable(frame, pd.DataFrame(), {})
    found = payload(own, word_column="Wort", prefix="wp_", group_by=["item", "condition"])["columns"]
    assert found["word"] == ["a", "b"]
    assert found["surprisal"] == [1, 2]
    assert found["text"] == ["1 · x", "2 · y"]


def test_the_metadata_says_which_columns_hold_what():
    frame = pd.DataFrame(
        {"Wort": ["a", "b", "."], "item": [1, 1, 2], "s_surprisal": ["1.5", "NA", ""], "gap": ["TRUE", "no", "yes"]}
    )
    noted = {"word_column": "Wort", "prefix": "s_", "group_by": "item", "space_after": "gap", "unit": "bits"}
    found = payload(WordTable(frame, pd.DataFrame(), noted))["columns"]
    assert found["word"] == ["a", "b", "."]
    assert found["text"] == ["1", "1", "2"]
    assert found["surprisal"] == [1.5, None, None]
    assert found["space"] == [True, False, True]


def test_models_side_by_side_become_a_choice():
    frame = pd.DataFrame(
        {"word": ["a", "b"], "surprisal_m/1": [1.0, 2.0], "note_m/1": ["", "n"], "surprisal_m-2": [3.0, 4.0], "rt": 0}
    )
    about = {"unit": "bits", "models": {"m/1": {"dtype": "x"}, "m-2": {}}}
    found = payload(WordTable(frame, pd.DataFrame(), about))["columns"]
    assert found["model"] == ["m/1", "m/1", "m-2", "m-2"]
    assert found["word"] == ["a", "b", "a", "b"]
    assert found["surprisal"] == [1, 2, 3, 4]
    assert found["note"] == ["", "n", "", ""]


def test_the_page_is_whole_and_asks_for_nothing(table):
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
    found = data_of((tmp_path / "scored.html").read_text(encoding="utf-8"))
    assert found["columns"]["word"] == table.to_pandas()["word"].tolist()
    assert found["unit"] == "bits"
    assert found["metadata"]["model"] == "exact:bow"


BAD = {
    "cols.tsv": (b"a\tb\n1\t2\n", r"no column word and no column surprisal\. Its columns: a, b\. Score it first"),
    "empty.tsv": (b"", r"empty\.tsv"),
    "none.csv": (b"word,surprisal\n", "has no words|no rows"),
    "text.csv": (b"word,surprisal\na,1\nb,lots\n", "column surprisal should hold numbers, but row 2 has 'lots'"),
    "ragged.csv": (b"word,surprisal\na,1\nb,2,3\n", "line 3"),
    "latin.tsv": (b"word\tsurprisal\nna\xefve\t1\n", r"latin\.tsv .*(?i:0xef)"),
    "bad.parquet": (b"garbage", r"bad\.parquet cannot be read as (?i:parquet)"),
    "bad.jsonl": (b'{"word": "a"\n', r"bad\.jsonl"),
    "x.docx": (b"", "cannot tell (a|the) format"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_scored_table_is_explained(monkeypatch, capsys, tmp_path, name):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    code, err = run(monkeypatch, capsys, "report", str(tmp_path / name), "-o", str(tmp_path / "r.html"))
    assert code == 1
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


def test_it_can_be_opened_at_once(monkeypatch, capsys, tmp_path, table):
    opened = []
    monkeypatch.setattr("click.launch", opened.append)
    table.write(tmp_path / "t.tsv")
    assert run(monkeypatch, capsys, "report", str(tmp_path / "t.tsv"), "--open")[0] == 0
    assert opened == [str(tmp_path / "t.html")]


def test_metadata_that_is_broken_is_named(tmp_path, table):
    table.write(tmp_path / "t.tsv")
    (tmp_path / "t.tsv.meta.json").write_text("{broken")
    with pytest.raises(InputError, match=r"t\.tsv\.meta\.json is not JSON"):
        WordTable.read(tmp_path / "t.tsv")
