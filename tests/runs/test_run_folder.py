"""The folder of a run: nothing of the user's is touched, and whatever is damaged is noticed or does no harm."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections import Counter

import pandas as pd
import pytest

import audit
from runs_helpers import assert_same_run, call_command, finished_files, toy_corpus
from wordprob import runs
from wordprob.errors import InputError, OutputError, WordprobError
from wordprob.runs import runner
from wordprob.runs.atomic_io import read_json, write_json

TOY = {"model": "exact:bow", "threads": 1, "shard_texts": 10}
FEW_FLIPS = 120
MANY_FLIPS = 2000


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = toy_corpus(tmp_path_factory.mktemp("corpus") / "corpus.txt", 60)
    lines = path.read_text().split("\n")
    lines[15] = lines[27] = lines[55] = ""  # some errors
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def reference(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference") / "out"
    assert runs.run(corpus, folder, **TOY).complete
    return folder


@pytest.fixture
def folder(reference, tmp_path):
    """A copy of a complete run."""
    return shutil.copytree(reference, tmp_path / "out")


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# --- what is not ours ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["plan.jsonl", "thesis.part", "plan.jsonl.part", ".lock", "words/000001.parquet", "done/000001.json"]
)
def test_a_folder_with_files_of_the_user_is_refused(corpus, tmp_path, name):
    path = tmp_path / "mine" / name
    path.parent.mkdir(parents=True)
    path.write_text("the work of years")
    with pytest.raises(OutputError, match=r"holds other files .*; specify a new folder for the run"):
        runs.run(corpus, tmp_path / "mine", **TOY)
    assert contents(tmp_path / "mine") == {path: b"the work of years"}


def test_a_folder_with_a_manifest_of_another_program_is_refused(corpus, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/manifest.json").write_text('{"name": "an app", "version": "1.0"}')
    for begin in (lambda: runs.run(corpus, tmp_path / "mine", **TOY), lambda: runs.resume(tmp_path / "mine")):
        with pytest.raises(
            InputError, match=r"manifest.json is damaged or belongs to another program: it has no checksum"
        ):
            begin()
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["manifest.json"]


def test_files_of_the_user_in_a_run_stay(corpus, folder, reference):
    own = ["notes.part", "words/old.parquet.part", "words/sub/000001.parquet.part", "done/000001.json.part.part"]
    for name in (*own, "done/readme.json", "failed/why.json", "words/000001.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("mine")
    half_written = ["words/000001.parquet.part", "done/000002.json.part", "manifest.json.part", "errors.jsonl.part"]
    for name in half_written:
        (folder / name).write_text("half")
    (folder / "done/000003.json").unlink()
    assert runs.run(corpus, folder, **TOY).complete
    for name in (*own, "done/readme.json", "failed/why.json", "words/000001.txt"):
        assert (folder / name).read_text() == "mine", name
    assert not any((folder / name).exists() for name in half_written)
    assert finished_files(folder) == finished_files(reference)


def test_a_run_killed_before_its_manifest_begins_again(corpus, folder, reference, tmp_path):
    begun = tmp_path / "begun"
    begun.mkdir()
    for name in (".lock", "plan.jsonl"):
        shutil.copy(folder / name, begun / name)
    (begun / "manifest.json.part").write_text("{")
    assert runs.run(corpus, begun, **TOY).complete
    assert_same_run(begun, reference)


@pytest.mark.parametrize("name", ["words", "done", "errors"])
def test_a_file_where_a_folder_should_be(folder, name):
    shutil.rmtree(folder / name)
    (folder / name).write_text("mine")
    with pytest.raises(WordprobError, match=r"out.* could not be written: File exists"):
        runs.resume(folder)
    assert (folder / name).read_text() == "mine"


# --- damaged files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b"\xff\xfe", b'{"shard": 2}', "another shard's", "a folder"]
)
def test_an_unreadable_mark_means_not_done(corpus, folder, reference, content):
    mark = folder / "done/000002.json"
    if content == "another shard's":
        shutil.copy(folder / "done/000001.json", mark)
    elif content == "a folder":
        mark.unlink()
        mark.mkdir()
    else:
        mark.write_bytes(content)
    assert runs.status(folder).done == 5
    assert any(str(mark) in problem for problem in runs.verify(folder).problems)
    with pytest.raises(InputError, match="5 of 6 shards are done"):
        runs.types(folder)
    if content == "a folder":
        mark.rmdir()
    assert runs.resume(folder).complete
    assert_same_run(folder, reference)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_a_damaged_manifest_is_named(corpus, folder, content):
    (folder / "manifest.json").write_bytes(content)
    for use in (runs.status, runs.resume, runs.types, lambda path: runs.run(corpus, path, **TOY)):
        with pytest.raises(InputError, match=r"out/manifest.json is damaged: .* Restore it from a copy, or begin"):
            use(folder)
    assert runs.verify(folder).problems


def test_a_manifest_of_a_later_version_is_named(folder):
    manifest = {**read_json(folder / "manifest.json"), "format": 99}
    write_json(folder / "manifest.json", manifest)
    with pytest.raises(InputError, match=r"manifest.json has the format 99; this version of wordprob knows 1"):
        runs.status(folder)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_plan_is_named_and_made_again(corpus, folder, reference, damage):
    plan = folder / "plan.jsonl"
    lines = plan.read_text().splitlines(keepends=True)
    new = {"cut": lines[:3], "changed": [lines[0].replace('"records": 10', '"records": 11'), *lines[1:]], "empty": []}
    plan.write_text("".join(new[damage]))
    (folder / "done/000004.json").unlink()
    with pytest.raises(InputError, match=r"plan.jsonl is damaged: .* Delete it, then resume the run"):
        runs.resume(folder)
    assert any("plan.jsonl" in problem for problem in runs.verify(folder).problems)
    plan.unlink()
    assert runs.resume(folder).complete
    assert_same_run(folder, reference)
    assert plan.read_bytes() == (reference / "plan.jsonl").read_bytes()


def test_a_lost_plan_is_not_made_from_other_inputs(folder, tmp_path, corpus):
    manifest = read_json(folder / "manifest.json")
    manifest["plan"]["sha256"] = "0" * 64
    write_json(folder / "manifest.json", manifest)
    (folder / "plan.jsonl").unlink()
    with pytest.raises(InputError, match="has no plan, and the inputs do not give the one"):
        runs.resume(folder)


def test_what_shards_were_scored_with_is_found_in_them(folder):
    before = runs.types(folder)
    (folder / "scored_with.json").write_text("{")
    with pytest.raises(InputError, match=r"scored_with.json is damaged: .* Delete it: every shard"):
        runs.types(folder)
    (folder / "scored_with.json").unlink()
    pd.testing.assert_frame_equal(runs.types(folder), before)


@pytest.mark.parametrize("reader", ["merge words", "merge texts", "types", "word-lengths", "finished", "resume"])
def test_every_reader_of_shards_notices_a_damaged_one(folder, tmp_path, reader):
    from wordprob import studies

    kind = "texts" if reader == "merge texts" else "errors" if reader == "resume" else "words"
    damaged = sorted((folder / kind).iterdir())[-1]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 3] ^= 4
    damaged.write_bytes(data)
    readers = {
        "merge words": lambda: runs.merge(folder, tmp_path / "all.tsv"),
        "merge texts": lambda: runs.merge(folder, tmp_path / "all.tsv", "texts"),
        "types": lambda: runs.merge(folder, tmp_path / "all.tsv", "types"),
        "word-lengths": lambda: studies.word_lengths([str(folder)], (), studies.WordLengthsOptions(min_count=1)),
        "finished": lambda: runs.finished(folder),
        "resume": lambda: runs.resume(folder),
    }
    with pytest.raises(InputError, match=rf"{damaged.name} is damaged. Delete .*{damaged.stem}.json, then resume"):
        readers[reader]()
    assert not (tmp_path / "all.tsv").exists()
    (folder / f"done/{damaged.stem}.json").unlink()
    assert runs.resume(folder).complete


# --- bits that flip --------------------------------------------------------------------------------------------------


def everything_read(folder, home):
    """Return all that a user can read from a run: status, and every table."""
    status = runs.status(folder)
    tables = {name: runs.merge(folder, home / f"{name}.tsv", name, force=True) for name in ("words", "texts", "types")}
    return status, {name: path.read_bytes() for name, path in tables.items()}


def read_or_refused(folder, home, expected):
    """Return what became of a damaged run: the same values, or an error that names a file. Nothing else may happen."""
    try:
        found = everything_read(folder, home)
    except InputError as error:
        return "noticed when read" if str(folder) in str(error) else f"an error that names no file: {error}"
    return "changed nothing" if found == expected else "read as something else"


def flip_bits(folder, reference, home, count):
    """Flip single bits of random files; each is noticed by whatever reads it, or changes nothing that is read."""
    rng = random.Random(count + audit.SEED)
    expected = everything_read(folder, home)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    outcomes = Counter()
    for _ in range(count):
        path = rng.choice(files)
        data = path.read_bytes()
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        outcomes[read_or_refused(folder, home, expected)] += 1
        if runs.verify(folder).intact:
            assert read_equal(path, data, bytes(flipped)), f"{path}: the flip changed something, and verify saw nothing"
            outcomes["not seen by verify"] += 1
        path.write_bytes(data)
    assert everything_read(folder, home) == expected
    assert set(outcomes) <= {"noticed when read", "changed nothing", "not seen by verify"}
    return outcomes


def read_equal(path, before, after):
    """Return True if a JSON file means the same with other bytes; its checksum itself may be what was flipped."""

    def value(data):
        parsed = json.loads(data)
        return {name: parsed[name] for name in json.loads(before) if name in parsed and name != "sha256"}

    return path.suffix == ".json" and value(before) == value(after)


def test_flipped_bits_are_noticed_or_harmless(folder, reference, tmp_path):
    outcomes = flip_bits(folder, reference, tmp_path, FEW_FLIPS)
    assert outcomes["noticed when read"] > FEW_FLIPS / 2
    assert outcomes["not seen by verify"] < FEW_FLIPS / 10


@pytest.mark.audit
@pytest.mark.slow
def test_many_flipped_bits_are_noticed_or_harmless(folder, reference, tmp_path):
    outcomes = flip_bits(folder, reference, tmp_path, MANY_FLIPS)
    audit.record("bits flipped in a run's folder", outcomes)
    assert outcomes["noticed when read"] > MANY_FLIPS / 2


def test_a_flipped_lock_harms_nothing(folder):
    for content in (b"", b"5", b"[]", b'{"pid": 1', b"\xff" * 50):
        (folder / ".lock").write_bytes(content)
        assert runs.status(folder).running is None
        assert runs.resume(folder).complete


# --- verify ----------------------------------------------------------------------------------------------------------


def test_verify_reads_all_and_changes_nothing(folder):
    before = contents(folder)
    result = runs.verify(folder)
    assert (result.intact, result.complete, result.shards, result.done) == (True, True, 6, 6)
    expected = finished_files(folder)
    assert (result.files, result.bytes) == (len(expected), sum(map(len, expected.values())))
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda folder: (folder / "words/000002.parquet").unlink(), "shard 2: .*cannot be read: No such file"),
        (lambda folder: (folder / "errors.jsonl").write_text(""), "errors.jsonl is not what the shards' own files"),
        (lambda folder: (folder / "errors.jsonl").unlink(), "errors.jsonl is not what the shards' own files"),
        (lambda folder: change_mark(folder, words=1), "shard 2: .*rows, its mark counts 1 words"),
        (lambda folder: change_mark(folder, key="x"), "shard 2: its mark is that of other texts"),
        (lambda folder: change_mark(folder, texts=9, records=10, errors={}), "shard 2: "),
        (lambda folder: change_mark(folder, 99), "000099.json is the mark of a shard that the plan does not have"),
        (lambda folder: (folder / "failed/000001.json").write_text(""), "failed/000001.json is damaged"),
    ],
)
def test_verify_finds(folder, change, problem):
    change(folder)
    (found, *_) = runs.verify(folder).problems
    assert re.search(problem, found), found


def change_mark(folder, number=2, **values):
    """Write a mark with other values, and with the checksum that belongs to them."""
    mark = {**read_json(folder / "done/000002.json"), "shard": number, **values}
    write_json(folder / f"done/{number:06d}.json", mark)


def test_verify_as_a_command(folder):
    code, told, _ = call_command("verify", folder)
    assert code == 0
    assert "intact and complete" in told
    (folder / "done/000005.json").unlink()
    code, told, _ = call_command("verify", folder)
    assert code == 3
    assert "5 of 6 done and intact" in told
    (folder / "texts/000001.parquet").write_bytes(b"")
    code, told, _ = call_command("verify", folder, "--json")
    assert code == 1
    assert "texts/000001.parquet is damaged" in json.loads(told)["problems"][0]
    code, _, said = call_command("verify", folder / "words")
    assert code == 1
    assert "is not the folder of a run" in said


def test_permission_denied_is_told(folder):
    if not os.geteuid():
        pytest.skip("root may read everything")
    (folder / "manifest.json").chmod(0)
    with pytest.raises(InputError, match="manifest.json cannot be read: Permission denied"):
        runs.status(folder)


# --- a run that cannot begin ------------------------------------------------------------------------------------------


def test_a_run_that_is_refused_leaves_nothing(tmp_path):
    (tmp_path / "a.csv").write_text('text\n"the mark\nShe saw\n')
    with pytest.raises(InputError):
        runs.run(tmp_path / "a.csv", tmp_path / "out", model="exact:bow")
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError):
        runs.run(tmp_path / "a.csv", tmp_path / "mine", model="exact:bow")
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_run_that_is_stopped_while_it_is_planned_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("the mark\n")

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "plan_run", stop)
    with pytest.raises(KeyboardInterrupt):
        runs.run(tmp_path / "a.txt", tmp_path / "out", model="exact:bow")
    assert not (tmp_path / "out").exists()
