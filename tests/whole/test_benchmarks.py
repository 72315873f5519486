"""How the benchmarks use other packages and what they record, on tools made up here. Nothing is timed."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import length  # noqa: E402
import peers  # noqa: E402
import record  # noqa: E402
from worker import RUNNERS, Run, Worker  # noqa: E402

import tables  # noqa: E402
import wordprob  # noqa: E402
from tiny_models import build  # noqa: E402
from tolerances import float32_log_prob_tolerance  # noqa: E402

TEXTS = ["She saw the mark", "It was high up"]
FAKE = """
import sys, time
sys.path.insert(0, {runners!r})
import protocol

def score(texts):
    print("a package that talks")
    if "crash" in texts:
        raise ValueError("out of luck")
    if "eat" in texts:
        held = b"x" * 40_000_000
        time.sleep(0.2)
    words = [text.split() for text in texts]
    return lambda: (words, {{kind: [[len(w) + {off} for w in text] for text in words] for kind in {kinds!r}}})

protocol.serve(score, ["torch", "transformers"])
"""


@pytest.fixture
def fake(tmp_path):
    """Start tools whose surprisal of a word is its length, plus an offset."""
    started = []

    def start(name="fake", kinds=("corrected",), off=0.0):
        script = tmp_path / f"{name}.py"
        script.write_text(FAKE.format(runners=str(RUNNERS), off=off, kinds=kinds))
        started.append(Worker(sys.executable, script, "no model"))
        return started[-1]

    yield start
    for worker in started:
        worker.__exit__()


def test_a_tool_answers_with_words_and_values_whatever_it_prints(fake):
    worker = fake()
    run = worker.run(TEXTS, values=True)
    assert run.words == [text.split() for text in TEXTS]
    assert run.values == {"corrected": [[3, 3, 3, 4], [2, 3, 4, 2]]}
    assert worker.run(TEXTS).values == {}
    assert {"torch", "transformers"} == set(worker.versions)


def test_a_tool_that_fails_reports_its_last_output(fake):
    worker = fake()
    with pytest.raises(RuntimeError, match="(?s)fake gave no answer.*out of luck"):
        worker.run(["crash"])
    with pytest.raises(RuntimeError, match="out of luck"):
        worker.run(TEXTS)


def test_memory_beyond_the_loaded_model_is_measured(fake):
    worker = fake()
    assert worker.run(TEXTS).extra < 10e6
    assert 30e6 < worker.run(["eat"]).extra < 60e6


def test_a_row_has_speed_and_distance_from_ours(fake, tmp_path):
    workers = {
        "limit": fake("limit", kinds=()),
        "wordprob": fake("wordprob", kinds=("corrected", "naive")),
        "minicons": fake("minicons", kinds=("naive",), off=0.5),
    }
    runs = peers.measure(workers, TEXTS, repeats=3)
    rows = [peers.row(tool, runs, {"minicons": "0.3.39"}, tokens=10) | record.surroundings() for tool in workers]
    record.save(rows, tmp_path / "peers.csv")
    with (tmp_path / "peers.csv").open(encoding="utf-8") as file:
        limit, ours, theirs = csv.DictReader(file)
    assert limit["ratio_to_limit"] == "1.0"
    assert limit["compared"] == ours["compared"] == ""
    assert (theirs["tool"], theirs["version"], theirs["words"], theirs["repeats"]) == ("minicons", "0.3.39", "8", "3")
    assert (theirs["compared"], theirs["words_compared"]) == ("naive", "4")
    assert float(theirs["mean_difference_nats"]) == float(theirs["largest_difference_nats"]) == 0.5
    assert float(theirs["best_s"]) <= float(theirs["median_s"])


def test_texts_with_other_words_are_not_compared():
    ours = Run(1.0, 1.0, 0, [["a", "b", "c"], ["d", "e", "f"]], {"corrected": [[1, 2, 3], [4, 5, 6]]})
    theirs = Run(1.0, 1.0, 0, [["a", "b", "c"], ["d", "e"]], {"corrected": [[9, 2.5, 9], [4, 5]]})
    kind, apart = peers.differences(ours, theirs)
    assert kind == "corrected"
    assert apart.tolist() == [0.5]


def test_each_peer_has_a_runner_and_pins():
    for peer in peers.PEERS:
        assert (RUNNERS / f"run_{peer}.py").is_file()
        pins = (RUNNERS / f"requirements-{peer}.txt").read_text().split()
        assert [pin.split("==")[0].split("[")[0] for pin in pins] == [peer, "torch", "transformers"]


def test_a_text_is_cut_to_whole_words_of_a_number_of_tokens():
    tokenizer = wordprob.load("exact:bow").model.tokenizer
    for wanted in (3, 40):
        text = length.cut(tokenizer, "She saw the mark", wanted)
        assert wanted - 4 <= len(tokenizer.encode([text])[0].ids) <= wanted
        assert set(text.split()) <= {"She", "saw", "the", "mark"}


@pytest.mark.parametrize("path", sorted((BENCHMARKS / "results").glob("*.csv")), ids=lambda path: path.name)
def test_committed_results_name_the_machine_and_versions(path):
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert all(row["torch"] and (row.get("machine") or row.get("device")) for row in rows)


def test_the_tables_of_the_page_are_those_of_the_results():
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.with_tables(page) == page, "run python benchmarks/tables.py"
    assert "|" not in tables.TABLE.sub("", page), "a table that is not made from results"
    assert set(tables.TABLE.findall(page)) == set(tables.COLUMNS)


def test_a_table_is_made_from_a_file_of_results(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.table("cpu") == f"{tables.NOT_MEASURED}\n"
    record.save(
        [
            {"texts": "a.txt", "model": "m", "tokens": 3329, "ours_s": 7.009, "limit_s": 6.71}
            | {"ratio_to_limit": 1.045, "tokens_per_s": 475}
        ],
        tmp_path / "cpu.csv",
    )
    heading, rule, row = tables.table("cpu").splitlines()
    assert rule == "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    assert row == "| a.txt | m | 3,329 | 7.0 | 6.7 | 1.04 | 475 |"
    page = "before\n\n<!-- table: cpu.csv -->\n| old |\n| --- |\n\nafter\n"
    assert tables.with_tables(page) == f"before\n\n<!-- table: cpu.csv -->\n{heading}\n{rule}\n{row}\n\nafter\n"


def test_tokens_and_operations_are_counted(tokenizer_of):
    pytest.importorskip("torch")
    import text_to_table

    model = build("llama2", tokenizer_of)
    counter = text_to_table.TokenCounter(model.network)
    wordprob.Scorer(model).score(["She saw the mark"])
    assert counter.tokens >= 1 + len(model.tokenizer.encode(["She saw the mark"])[0].ids)
    assert counter.passes >= 1
    # Two layers of width 32 with four projections and three of 64, and the head; then keys and values of 10 tokens.
    each = 2 * (2 * (4 * 32 * 32 + 3 * 32 * 64) + 32 * model.vocab_size)
    assert text_to_table.flops_of(model, [10]) == 10 * each + 2 * 2 * 32 * 100


def test_the_limit_runs_on_public_names(load_model):
    import limit

    model = load_model("small-llama2").model
    pairs = limit.requests(model, TEXTS)
    assert [len(ids) for ids, _ in pairs] == [len(t.ids) + 1 for t in model.tokenizer.encode(TEXTS)]
    limit.bare(model, pairs)


def test_candidates_are_compared_with_whole_texts(load_model, tmp_path, monkeypatch):
    import candidates

    context = tmp_path / "context.txt"
    context.write_text("Once upon a time there was a little girl who went to the park. " * 50, encoding="utf-8")
    words = tmp_path / "words.txt"
    words.write_text("the dog ran home and a cat sat down with big red balls in her sunny green park today", "utf-8")
    monkeypatch.setattr(wordprob, "load", lambda: load_model("small-llama2"))
    monkeypatch.setattr(load_model("small-llama2").model, "max_tokens", 1024)
    monkeypatch.setattr(sys, "argv", ["candidates.py", str(context), str(words), str(tmp_path / "out.csv")])
    candidates.main()
    with (tmp_path / "out.csv").open(encoding="utf-8") as file:
        [row] = csv.DictReader(file)
    tolerance = float32_log_prob_tolerance(load_model("small-llama2").model, log_probs=10)
    assert float(row["largest_difference_nats"]) < tolerance
    assert int(row["candidates"]) == 19


PRIVATE = re.compile(r"(?<!self)(?<!cls)\._[a-z]\w*")


@pytest.mark.parametrize("path", sorted(BENCHMARKS.rglob("*.py")), ids=lambda path: path.name)
def test_benchmarks_use_public_names_only(path):
    assert PRIVATE.findall(path.read_text(encoding="utf-8")) == []
