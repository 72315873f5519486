"""The default model prints what the documentation shows."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess

import pandas as pd
import pytest

import docs_examples
import wordprob
from conftest import shared
from docs_examples import ROOT

PAGES = {page.name: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))}
SHOWN = [(name, e) for name, page in PAGES.items() for e in docs_examples.examples(page) if e.by_default_model]
NUMBER = re.compile(r"-?\d+\.\d+")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "stimuli.txt").write_text(docs_examples.STIMULI, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _default_model_once(smollm2, monkeypatch, folder):
    """Load the default model once for all examples, and run them where their files are."""
    opened = wordprob.scoring.loading.open_model

    def model(name="smollm2-135m", **options):
        return smollm2.model if name == "smollm2-135m" else opened(name, **options)

    monkeypatch.setattr("wordprob.scoring.loading.open_model", model)
    monkeypatch.chdir(folder)


def same(found, shown, tolerance=2e-3):
    """Compare two texts: words exactly, numbers to what a machine may differ by."""
    assert NUMBER.sub("#", " ".join(found.split())) == NUMBER.sub("#", " ".join(shown.split()))
    numbers = [[float(n) for n in NUMBER.findall(text)] for text in (found, shown)]
    assert numbers[0] == pytest.approx(numbers[1], abs=tolerance)


@pytest.mark.parametrize(("name", "example"), SHOWN, ids=[name for name, _ in SHOWN])
def test_output_shown(name, example):
    same(docs_examples.run_shell(example.text), example.output)


def table_after(marker):
    """Return the Markdown table that stands after a comment in study.md."""
    text = PAGES["study.md"].split(f"<!-- output of the default model: {marker} -->\n")[1].split("\n\n")[0]
    rows = [line.strip("| ").split("|") for line in text.splitlines()]
    return [[cell.strip() for cell in row] for row in [rows[0], *rows[2:]]]


def test_the_words_of_the_study():
    line = next(e.text for e in docs_examples.examples(PAGES["study.md"]) if "wordprob score" in e.text)
    docs_examples.run_shell(line)
    frame = wordprob.WordTable.read("baker.tsv").to_pandas()[14:20]
    columns = ["word", "surprisal", "surprisal_naive", "before", "after"]
    shown = pd.DataFrame(table_after("words 14 to 19 of text 0")[1:], columns=columns)
    assert frame["word"].tolist() == shown["word"].tolist()
    for column in columns[1:]:
        assert frame[column].tolist() == pytest.approx(shown[column].astype(float).tolist(), abs=2e-3)


def test_the_result_and_the_slopes_of_the_study():
    line = next(e.text for e in docs_examples.examples(PAGES["study.md"]) if "reading-times" in e.text)
    printed = docs_examples.run_shell(line)
    row = next(line for line in printed.splitlines() if line.startswith("| smollm2-135m"))
    same(row, "| " + " | ".join(table_after("reading times")[1]) + " |", tolerance=0.02)
    found = pd.read_csv("results/coefficients.tsv", sep="\t").query("regression == 'corrected'").set_index("term")
    for term, slope, error, _ in table_after("slopes")[1:]:
        per_bit = found.loc[term, ["estimate", "std_error"]] * 0.6931
        assert per_bit.tolist() == pytest.approx([float(slope), float(error)], abs=0.01)


def test_what_the_r_script_prints():
    if shutil.which("Rscript") is None:
        pytest.skip("needs Rscript, which is not installed")
    docs_examples.run_shell("wordprob score examples/study/texts.txt -o reading.tsv")
    arguments = ["examples/surprisal.R", "reading.tsv", "examples/study/reading_times.csv"]
    printed = subprocess.run(["Rscript", *arguments], capture_output=True, text=True, check=True).stdout
    shown = PAGES["r.md"].split("<!-- output of examples/surprisal.R -->\n```text\n")[1].split("```")[0]
    same(printed[: printed.index("---")], shown, tolerance=0.01)


def test_the_evidence_from_the_twins():
    models = [shared(f"models/fiction-{kind}") for kind in ("bow", "eow")]
    novel = shared("data/text/austen_pride.txt").read_text(encoding="utf-8")
    twins = runpy.run_path(str(ROOT / "benchmarks/twins.py"))
    pairs = twins["compare"](*map(wordprob.load, models), twins["choose_passages"](novel), "whitespace")
    cells = re.search(r"^\| whitespace \|(.*)\|$", PAGES["why.md"], re.M)[1]
    shown = [float(n) for n in re.findall(r"\d*\.\d+|\d+", cells.replace(",", ""))]
    found = [len(pairs), *map(float, twins["row"](pairs).split())]
    assert found == pytest.approx(shown, abs=1e-3)
    assert twins["slope"](pairs) == pytest.approx((-0.87, 0.06), abs=0.005)
    assert "slope −0.87, standard error 0.06" in PAGES["why.md"]


def test_the_made_up_times_are_those_of_the_script():
    """The committed table is what make_times.py writes, up to a millisecond of rounding."""
    made = runpy.run_path("examples/study/make_times.py")
    kept = pd.read_csv("examples/study/reading_times.csv")
    made["main"]()
    again = pd.read_csv("examples/study/reading_times.csv")
    assert kept.drop(columns="rt").equals(again.drop(columns="rt"))
    assert (kept["rt"] - again["rt"]).abs().max() <= 1
