"""Runs from beginning to end: numbers, folder, options, errors and bad texts."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import random
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import wordprob
from runs_helpers import TEXTS, assert_same_run, call_command, finished_files, read_shards, real_corpus, toy_corpus
from wordprob import runs
from wordprob.errors import InputError, ModelError, OptionError, OutputError
from wordprob.models.exact import ToyTokenizer
from wordprob.models.registry import commit, describe
from wordprob.options import ModelOptions
from wordprob.runs.atomic_io import read_json, write_json
from wordprob.runs.executors.worker_processes import ProcessExecutor, assign_gpus
from wordprob.runs.settings import Execution, RunSettings
from wordprob.runs.shards import ShardReader, cut_into_shards
from wordprob.sources import find
from wordprob.tables.schema import COLUMNS, TEXT_COLUMNS

TOY = {"model": "exact:bow", "threads": 1}


@pytest.fixture
def corpus(tmp_path):
    return toy_corpus(tmp_path / "corpus.txt", 100)


# --- shards ----------------------------------------------------------------------------------------------------------


def test_shards_cover_every_record_once(tmp_path):
    for name, count in (("a.txt", 7), ("b.txt", 0), ("c.txt", 23), ("d.txt.gz", 11)):
        path = toy_corpus(tmp_path / "plain", count, seed=count)
        data = path.read_bytes() if count else b""
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        path.unlink()
    sources = find([tmp_path])
    settings = RunSettings.from_dict({**TOY, "shard_texts": 4, "shard_characters": 60})
    shards = list(cut_into_shards(sources, settings))
    assert shards == list(cut_into_shards(sources, settings)), "the same plan every time"
    assert sum(shard.records for shard in shards) == 41
    assert all(shard.records <= 4 for shard in shards)
    assert any(shard.records < 4 for shard in shards[:-1]), "characters fill a shard too"
    reader = ShardReader(sources, settings.read_options)
    in_order = [record for shard in shards for record in reader.read(shard)]
    assert len({record.id for record in in_order}) == 41
    rng = random.Random(1)
    for shard in rng.choices(shards, k=60):  # in any order, and repeatedly
        begin = sum(earlier.records for earlier in shards[: shard.shard])
        assert reader.read(shard) == in_order[begin : begin + shard.records]


# --- results ---------------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_scorer(corpus, tmp_path):
    status = runs.run(corpus, tmp_path / "out", **TOY, shard_texts=30, unit="nats", words="punctuation")
    lines = corpus.read_text().splitlines()
    kept = [(f"corpus.txt:{n}", line) for n, line in enumerate(lines, start=1) if line]
    table = wordprob.load("exact:bow").score([t for _, t in kept], "punctuation", unit="nats", ids=[i for i, _ in kept])
    words, expected = read_shards(tmp_path / "out"), table.to_pandas()
    assert words.columns.tolist() == list(COLUMNS)
    pd.testing.assert_frame_equal(words, expected, check_dtype=False, rtol=1e-12)
    texts = read_shards(tmp_path / "out", "texts")
    assert texts.columns.tolist() == list(TEXT_COLUMNS)
    pd.testing.assert_frame_equal(texts, table.texts(), check_dtype=False, rtol=1e-12)
    assert (status.texts, status.words, status.records) == (len(kept), len(expected), 100)
    assert status.complete
    bits = -table.texts()["log_prob_words"].sum() / np.log(2) / len(expected)
    assert status.bits_per_word == pytest.approx(bits)
    assert status.perplexity == pytest.approx(2**bits)


def test_texts_without_a_scored_word_are_left_out_of_the_totals(tmp_path):
    (tmp_path / "a.txt").write_text("the mark\n...\nShe saw the mark\n?!\n")
    options = {**TOY, "shard_texts": 2, "words": r"regex:\w+"}
    status = runs.run(tmp_path / "a.txt", tmp_path / "out", **options)
    texts = read_shards(tmp_path / "out", "texts")
    assert texts["log_prob_words"].isna().tolist() == [False, True, False, True]
    assert texts["note"].tolist() == ["", "no words", "", "no words"]
    assert (status.texts, status.texts_left_out) == (4, 2)
    assert status.bits_per_word == pytest.approx(-texts["log_prob_words"].sum() / np.log(2) / 6)
    _, shown, _ = call_command("status", tmp_path / "out")
    assert "over 2 of 4 texts: the others have no probability" in shown


def test_an_impossible_text_makes_the_totals_infinite(tmp_path):
    (tmp_path / "a.txt").write_text("the mark\nmark the\n中\nShe saw the mark\n", encoding="utf-8")
    status = runs.run(tmp_path / "a.txt", tmp_path / "out", **TOY, shard_texts=2)
    assert (status.texts_left_out, status.impossible_texts) == (1, 1)
    assert status.bits_per_word == status.perplexity == np.inf
    _, shown, _ = call_command("status", tmp_path / "out")
    assert "inf bits a word, perplexity inf, over 3 of 4 texts" in shown
    assert "1 text with probability zero" in shown
    _, shown, _ = call_command("status", tmp_path / "out", "--json")
    assert (json.loads(shown)["bits_per_word"], json.loads(shown)["perplexity"]) == ("inf", "inf")


def test_a_perplexity_too_large_for_a_number_is_infinite(tmp_path):
    (tmp_path / "a.txt").write_text("the mark\n", encoding="utf-8")
    status = runs.run(tmp_path / "a.txt", tmp_path / "out", **TOY)
    assert replace(status, bits_per_word=1023.0).perplexity == 2.0**1023
    assert replace(status, bits_per_word=2000.0).perplexity == np.inf


def test_column_types_are_the_same_in_every_shard(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"id": 1, "text": "the mark"}\n{"id": "x", "text": "♥ ♥"}\n{"id": 2.5, "text": "saw"}\n'
    )
    runs.run(tmp_path / "a.jsonl", tmp_path / "out", **TOY, shard_texts=1, id_column="id")
    schemas = {str(pq.read_schema(path).remove_metadata()) for path in (tmp_path / "out/words").iterdir()}
    assert len(schemas) == 1
    assert sorted(read_shards(tmp_path / "out")["text_id"].unique()) == ["1", "2.5", "x"]


def test_manifest(corpus, tmp_path):
    runs.run(corpus, tmp_path / "out", **TOY, shard_texts=30)
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["inputs"][0]["sha256"] == hashlib.sha256(corpus.read_bytes()).hexdigest()
    assert manifest["inputs"][0]["bytes"] == corpus.stat().st_size
    assert manifest["settings"]["model"] == "exact:bow"
    assert manifest["plan"]["shards"] == 4
    assert manifest["versions"]["numpy"] == np.__version__
    about = json.loads(pq.read_schema(tmp_path / "out/words/000000.parquet").metadata[b"wordprob"])
    assert (about["model"], about["unit"]) == ("exact:bow", "bits")


def test_a_model_directory_has_a_fingerprint(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    before = describe(ModelOptions(model=str(tmp_path / "model")))
    (tmp_path / "model" / "config.json").write_text("[]")
    after = describe(ModelOptions(model=str(tmp_path / "model")))
    assert before["source"] == after["source"] == "model"
    assert before["fingerprint"] != after["fingerprint"]


def test_a_hub_model_is_pinned_to_its_commit(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub, "HfApi", lambda: (_ for _ in ()).throw(ConnectionError("offline")))
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda *_, **__: f"{tmp_path}/snapshots/abc123/config.json")
    assert commit(ModelOptions(model="owner/name")) == "abc123"
    assert commit(ModelOptions(model="exact:bow")) == ""


# --- resuming --------------------------------------------------------------------------------------------------------


def test_finished_shards_are_not_touched_again(corpus, tmp_path, monkeypatch):
    runs.run(corpus, tmp_path / "out", **TOY, shard_texts=30)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/words").iterdir()}
    (tmp_path / "out/done/000002.json").unlink()
    (tmp_path / "out/words/000003.parquet").write_bytes(b"cut short")
    (tmp_path / "out/words/000001.parquet.part").write_bytes(b"half")
    assert runs.status(tmp_path / "out").done == 2
    assert runs.run(corpus, tmp_path / "out", **TOY, shard_texts=30).complete
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/words").iterdir()}
    assert [path.name for path in sorted(after) if after[path] != before[path]] == ["000002.parquet", "000003.parquet"]
    runs.run(corpus, tmp_path / "reference", **TOY, shard_texts=30)
    assert_same_run(tmp_path / "out", tmp_path / "reference")


def test_the_corpus_may_move(corpus, tmp_path):
    runs.run(corpus, tmp_path / "out", **TOY)
    (tmp_path / "elsewhere").mkdir()
    moved = corpus.rename(tmp_path / "elsewhere" / "corpus.txt")
    assert runs.run(moved, tmp_path / "out", **TOY).complete
    with pytest.raises(InputError, match="no such file"):
        runs.resume(tmp_path / "out")


def test_a_changed_configuration_is_refused(corpus, tmp_path):
    runs.run(corpus, tmp_path / "out", **TOY)
    before = finished_files(tmp_path / "out")
    changed = {"model": "exact:eow", "threads": 1, "unit": "nats", "shard_texts": 7}
    with pytest.raises(InputError) as refused:
        runs.run(corpus, tmp_path / "out", **changed)
    for line in (
        "model: exact:bow before, exact:eow now",
        "unit: bits before, nats now",
        "shard_texts: 2000 before, 7 now",
    ):
        assert line in str(refused.value)
    assert "Resume that run as it was begun" in str(refused.value)
    assert finished_files(tmp_path / "out") == before


def test_a_changed_input_is_refused(corpus, tmp_path):
    runs.run(tmp_path / "corpus.txt", tmp_path / "out", **TOY)
    text = corpus.read_text()
    corpus.write_text(text.replace("She", "Shu"))
    with pytest.raises(InputError, match=r"input corpus.txt: SHA-256 \w{12}… before, \w{12}… now"):
        runs.resume(tmp_path / "out")
    corpus.write_text(text + "more\n")
    with pytest.raises(InputError, match=r"input corpus.txt: \d+ bytes before, \d+ now"):
        runs.resume(tmp_path / "out")
    corpus.write_text(text)
    assert runs.resume(tmp_path / "out").complete, "the same text, whatever its date"
    toy_corpus(tmp_path / "other.txt", 3)
    with pytest.raises(InputError, match="input other.txt: new"):
        runs.run([corpus, tmp_path / "other.txt"], tmp_path / "out", **TOY)


def test_an_input_that_changes_while_the_run_works_is_noticed(corpus, tmp_path):
    def change(progress):
        if not progress.shards:
            corpus.write_text(corpus.read_text().replace("marker", "marked"))

    with pytest.raises(InputError, match=r"is not what it was when the run was planned \(shard \d+ differs\)"):
        runs.run(corpus, tmp_path / "out", **TOY, shard_texts=10, watch=change)


def test_shards_scored_differently_are_refused(corpus, tmp_path):
    runs.run(corpus, tmp_path / "out", **TOY, shard_texts=50)
    scored = read_json(tmp_path / "out/scored_with.json")
    write_json(tmp_path / "out/scored_with.json", {**scored, "dtype": "bfloat16", "torch": "0.1"})
    (tmp_path / "out/done/000001.json").unlink()
    with pytest.raises(OutputError, match=r"scored differently before \(dtype: bfloat16 before, float64 now\)"):
        runs.resume(tmp_path / "out")


# --- bad texts -------------------------------------------------------------------------------------------------------


@pytest.fixture
def bad_corpus(tmp_path):
    good = [text.encode() for text in TEXTS]
    lines = [
        good[0],
        b"bad \xff bytes",
        good[1],
        b"a \0 nul",
        b"",
        b"x" * 10_000_000,
        b"tokeniser FAILS",
        good[2],
        b"\xc2\xa0",
    ]
    path = tmp_path / "bad.txt"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.fixture
def fragile(monkeypatch):
    def encode(self, texts, real=ToyTokenizer.encode):
        if any("FAILS" in text for text in texts):
            raise RuntimeError("cannot tokenise\nthis")
        return real(self, texts)

    monkeypatch.setattr(ToyTokenizer, "encode", encode)


def test_a_bad_text_does_not_stop_the_run(bad_corpus, fragile, tmp_path):
    status = runs.run(bad_corpus, tmp_path / "out", **TOY)
    assert status.complete
    errors = [json.loads(line) for line in (tmp_path / "out/errors.jsonl").read_text().splitlines()]
    assert [(e["record"], e["problem"]) for e in errors] == [
        (2, "encoding"), (4, "nul"), (5, "empty"), (6, "too long"), (7, "scoring"), (9, "empty"),
    ]  # fmt: skip
    assert errors[4] == {
        "text_id": "bad.txt:7",
        "source": "bad.txt",
        "record": 7,
        "problem": "scoring",
        "reason": "RuntimeError: cannot tokenise this",
    }
    assert read_shards(tmp_path / "out", "texts")["text_id"].tolist() == ["bad.txt:1", "bad.txt:3", "bad.txt:8"]
    assert status.errors == {"empty": 2, "encoding": 1, "nul": 1, "too long": 1, "scoring": 1}


@pytest.mark.parametrize(("limit", "message"), [(9, "bad.txt:2: not UTF-8"), (1, "bad.txt:2: not UTF-8")])
def test_a_strict_run_stops_at_a_bad_text(bad_corpus, tmp_path, limit, message):
    with pytest.raises(InputError, match=message):
        runs.run(bad_corpus, tmp_path / "out", **TOY, shard_texts=limit, strict=True)
    assert runs.resume(tmp_path / "out").complete, "and it can go on without"


def test_a_shard_of_which_no_text_can_be_scored_has_failed(corpus, tmp_path, monkeypatch):
    real = ToyTokenizer.encode
    monkeypatch.setattr(ToyTokenizer, "encode", lambda *_: 1 / 0)
    monkeypatch.setattr("wordprob.models.exact.ToyTokenizer.ids", ToyTokenizer.ids)
    status = runs.run(corpus, tmp_path / "out", **TOY, shard_texts=50)
    assert (status.done, len(status.failed)) == (0, 2)
    assert "ZeroDivisionError" in status.failed[0]
    assert "another text ('the') cannot be scored either" in status.failed[0]
    monkeypatch.setattr(ToyTokenizer, "encode", real)
    assert runs.resume(tmp_path / "out").complete


def test_a_corpus_without_texts_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"txt": "x"}\n')
    with pytest.raises(InputError, match="no text in 'text', only txt"):
        runs.run(tmp_path / "a.jsonl", tmp_path / "out", **TOY)
    (tmp_path / "b.txt").write_text("\n\n")
    with pytest.raises(InputError, match="there is no text"):
        runs.run(tmp_path / "b.txt", tmp_path / "out", **TOY)
    assert not (tmp_path / "out/manifest.json").exists()


# --- the folder ------------------------------------------------------------------------------------------------------


def test_a_second_run_into_the_same_folder_is_refused(corpus, tmp_path):
    def try_another(progress):
        if progress.shards == 1:
            with pytest.raises(OutputError, match=rf"another run writes into this folder: process {os.getpid()} on"):
                runs.resume(tmp_path / "out")
            assert runs.status(tmp_path / "out").running["pid"] == os.getpid()
            told.append(True)

    told = []
    runs.run(corpus, tmp_path / "out", **TOY, shard_texts=40, watch=try_another)
    assert told
    assert runs.status(tmp_path / "out").running is None


def test_file_systems_without_locks(corpus, tmp_path, monkeypatch):
    """A file is the lock; it is stale if its process is gone, but not if it is of another host."""
    import fcntl
    import socket

    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/.lock.soft").write_text(f"99999999\n{socket.gethostname()}\n")
    assert runs.run(corpus, tmp_path / "out", **TOY).complete
    assert [path.name for path in (tmp_path / "out").glob(".lock*")] == [".lock"]
    assert runs.status(tmp_path / "out").running is None
    (tmp_path / "out/.lock.soft").write_text("12\nelsewhere\n")
    assert runs.status(tmp_path / "out").running["host"] == "elsewhere"
    with pytest.raises(OutputError, match="process 12 on elsewhere"):
        runs.resume(tmp_path / "out")


def test_whoever_may_not_write_is_told_what_the_lock_file_says(corpus, tmp_path, monkeypatch):
    runs.run(corpus, tmp_path / "out", **TOY)

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert runs.status(tmp_path / "out").running is None, "a run that has ended leaves the file empty"
    (tmp_path / "out/.lock").write_text("12\nelsewhere\n")
    running = runs.status(tmp_path / "out").running
    assert (running["pid"], running["host"]) == (12, "elsewhere")


def test_a_full_disk(corpus, tmp_path, monkeypatch):
    """The unfinished shards are lost, finished ones are not, and the run can be resumed."""
    real, calls = os.fsync, []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) > 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OutputError, match="No space left on device. What is finished is safe; make room"):
        runs.run(corpus, tmp_path / "out", **TOY, shard_texts=5)
    monkeypatch.setattr(os, "fsync", real)
    assert 0 < runs.status(tmp_path / "out").done < 20
    assert not list((tmp_path / "out").rglob("*.part"))
    runs.resume(tmp_path / "out")
    runs.run(corpus, tmp_path / "reference", **TOY, shard_texts=5)
    assert_same_run(tmp_path / "out", tmp_path / "reference")


def test_folders_that_cannot_be_used(corpus, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file; specify a folder"):
        runs.run(corpus, tmp_path / "file", **TOY)
    with pytest.raises(OutputError, match="mkdir -p"):
        runs.run(corpus, tmp_path / "no" / "out", **TOY)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").touch()
    with pytest.raises(OutputError, match=r"holds other files \(thesis.doc"):
        runs.run(corpus, tmp_path / "full", **TOY)
    with pytest.raises(InputError, match="is not the folder of a run"):
        runs.resume(tmp_path / "full")
    if os.geteuid():
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(OutputError, match="Permission denied"):
            runs.run(corpus, tmp_path / "locked" / "out", **TOY)
    monkeypatch.setattr(
        os, "open", lambda *_, **__: (_ for _ in ()).throw(PermissionError(errno.EACCES, "Permission denied"))
    )
    with pytest.raises(OutputError, match="cannot be written: Permission denied"):
        runs.run(corpus, tmp_path / "out", **TOY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "exact:bw"}, "Did you mean"),
        ({"words": "wrds"}, "no word definition"),
        ({"unit": "bit"}, "no unit"),
        ({"shard_texts": 0}, "`shard_texts` is 0"),
        ({"shard_text": 1}, "Did you mean shard_texts"),
        ({"engine": "spark"}, "no engine is called 'spark'"),
        ({"workers": 0}, "`workers` is 0"),
        ({"gpus_per_worker": 1.5}, "gpus_per_worker is 1.5"),
        ({"ray_address": "auto"}, "ray_address is 'auto', but the engine is local"),
    ],
)
def test_options_are_checked_first(corpus, tmp_path, options, message):
    with pytest.raises((OptionError, ModelError), match=message):
        runs.run(corpus, tmp_path / "out", **{**TOY, **options})


def test_a_model_that_cannot_be_loaded_stops_the_run(corpus, tmp_path):
    (tmp_path / "model").mkdir()
    for workers in (1, 2):
        with pytest.raises(ModelError, match="could not be loaded"):
            runs.run(corpus, tmp_path / f"out{workers}", model=str(tmp_path / "model"), workers=workers, threads=1)


# --- GPUs ------------------------------------------------------------------------------------------------------------


def test_gpus_are_assigned_to_workers(monkeypatch):
    assert assign_gpus(3, 1, ["0", "1", "2", "3"]) == ["0", "1", "2"]
    assert assign_gpus(5, 0.25, ["2", "3"]) == ["2", "2", "2", "2", "3"]
    with pytest.raises(OptionError, match="use 4 workers or fewer"):
        assign_gpus(5, 0.5, ["0", "1"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(OptionError, match="do not fit on the 0 GPUs here"):
        ProcessExecutor(Execution(gpus_per_worker=1.0))


# --- merging ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["parquet", "tsv", "csv", "jsonl"])
def test_merge(corpus, tmp_path, monkeypatch, ending):
    from wordprob.runs import merging

    monkeypatch.setattr(merging, "ROWS_PER_GROUP", 50)
    runs.run(corpus, tmp_path / "out", **TOY, shard_texts=10)
    table = wordprob.WordTable.read(runs.merge(tmp_path / "out", tmp_path / f"all.{ending}"))
    pd.testing.assert_frame_equal(table.to_pandas(), read_shards(tmp_path / "out"), check_dtype=False)
    assert table.metadata["model"] == "exact:bow"
    assert table.unit == "bits"
    if ending == "parquet":
        assert pq.ParquetFile(tmp_path / "all.parquet").num_row_groups > 3
    with pytest.raises(OutputError, match="exists already"):
        runs.merge(tmp_path / "out", tmp_path / f"all.{ending}")


def test_merge_needs_a_complete_and_undamaged_run(corpus, tmp_path):
    runs.run(corpus, tmp_path / "out", **TOY, shard_texts=10)
    damaged = tmp_path / "out/words/000003.parquet"
    data = bytearray(damaged.read_bytes())
    data[100] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(InputError, match=r"000003.parquet is damaged. Delete .*000003.json, then resume the run in"):
        runs.merge(tmp_path / "out", tmp_path / "all.parquet")
    assert not (tmp_path / "all.parquet").exists()
    (tmp_path / "out/done/000003.json").unlink()
    with pytest.raises(InputError, match="9 of 10 shards are done.*`partial`"):
        runs.merge(tmp_path / "out", tmp_path / "all.parquet")
    runs.merge(tmp_path / "out", tmp_path / "all.parquet", partial=True)
    assert len(runs.finished(tmp_path / "out", partial=True)) == 9


def test_statistics_without_the_model(corpus, tmp_path):
    runs.run(corpus, tmp_path / "out", **TOY, shard_texts=10)
    words = read_shards(tmp_path / "out")
    types = runs.types(tmp_path / "out").set_index("word")
    known = words[np.isfinite(words["surprisal"]) & np.isfinite(words["surprisal_naive"])]
    expected = known.groupby("word")["surprisal"].agg(["count", "mean", lambda s: s.std(ddof=0)])
    assert set(types.index) == set(expected.index)
    np.testing.assert_allclose(
        types.loc[expected.index, ["count", "surprisal", "surprisal_sd"]], expected, rtol=1e-9, atol=1e-7
    )
    runs.merge(tmp_path / "out", tmp_path / "texts.tsv", "texts")
    texts = pd.read_csv(tmp_path / "texts.tsv", sep="\t")
    np.testing.assert_allclose(texts["perplexity"], read_shards(tmp_path / "out", "texts")["perplexity"])


# --- commands --------------------------------------------------------------------------------------------------------


def test_commands(corpus, tmp_path):
    out = tmp_path / "out"
    code, _, said = call_command("run", corpus, "-o", out, "--model", "exact:bow", "--shard-texts", 20, "--threads", 1)
    assert code == 0
    assert "5 of 5 done, 0 left, 0 failed" in said
    assert "words/s" in said
    code, told, _ = call_command("status", out)
    assert code == 0
    assert "complete" in told
    code, told, _ = call_command("status", out, "--json")
    assert json.loads(told)["done"] == 5
    assert call_command("run", "--resume", out)[0] == 0
    assert call_command("merge", out, "-o", tmp_path / "all.parquet")[0] == 0
    assert call_command("merge", out, "--table", "types", "--case", "lower", "-o", tmp_path / "types.tsv")[0] == 0
    assert "She" not in (tmp_path / "types.tsv").read_text()
    code, _, said = call_command("run", corpus, "-o", out, "--model", "exact:eow")
    assert code == 1
    assert "model: exact:bow before, exact:eow now" in said
    assert call_command("run", "--resume", out, "--unit", "nats")[0] == 2
    assert call_command("run", corpus)[0] == 2
    assert call_command("run", "-o", out)[0] == 2


def test_a_bar_on_a_terminal(corpus, tmp_path, monkeypatch):
    from wordprob.cli.run import run

    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr("tqdm.std._screen_shape_wrapper", lambda: lambda _: (150, 40))
    monkeypatch.setattr(sys, "stderr", screen)
    arguments = [str(corpus), "-o", str(tmp_path / "out"), "--model", "exact:bow", "--shard-texts", "20"]
    with pytest.raises(SystemExit):
        run.main(arguments, standalone_mode=True)
    assert "/100 [" in screen.getvalue()
    assert "words/s, shards: " in screen.getvalue()
    assert "complete" in screen.getvalue()


def test_word_lengths_reads_a_run(corpus, tmp_path):
    out, common = tmp_path / "out", ("--min-count", 1, "--bootstrap", 5)
    runs.run(corpus, out, **TOY, shard_texts=20)
    assert call_command("word-lengths", out, *common, "-o", tmp_path / "a")[0] == 0
    runs.merge(out, tmp_path / "all.parquet")
    assert call_command("word-lengths", tmp_path / "all.parquet", *common, "-o", tmp_path / "b")[0] == 0
    a, b = (pd.read_csv(tmp_path / name / "correlations.tsv", sep="\t") for name in "ab")
    pd.testing.assert_frame_equal(a, b)
    (out / "done/000001.json").unlink()
    code, _, said = call_command("word-lengths", out, *common, "-o", tmp_path / "c")
    assert code == 0
    assert "4 of 5 shards" in said


# --- a real model ----------------------------------------------------------------------------------------------------


def test_one_and_two_processes_agree_on_a_real_model(tmp_path, small_model_directory):
    corpus = real_corpus(tmp_path / "corpus.txt", 8)
    settings = {"model": str(small_model_directory("small-llama2")), "threads": 1, "shard_texts": 2}
    runs.run(corpus, tmp_path / "one", **settings)
    runs.run(corpus, tmp_path / "two", **settings, workers=2)
    assert_same_run(tmp_path / "two", tmp_path / "one")
