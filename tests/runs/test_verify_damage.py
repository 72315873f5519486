"""Whatever happens to the folder of a finished run, ``verify`` reports it, and raises nothing but our own errors."""

from __future__ import annotations

import copy
import itertools
import json
import shutil

import pytest

from runs_helpers import TEXTS, call_command
from wordprob import runs
from wordprob.errors import WordprobError
from wordprob.runs.atomic_io import write_json

JSON_VALUES = (None, [], [None], {}, 7, -1, 0.5, "", "text", True, 10**30)
LOCK = ".lock"
"""The lock says who writes, and holds nothing of the result."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    home = tmp_path_factory.mktemp("verify")
    lines = [*TEXTS[:3], "", *TEXTS[3:5], ""]
    (home / "corpus.txt").write_text("\n".join(lines) + "\n")
    assert runs.run(home / "corpus.txt", home / "out", model="exact:bow", threads=1, shard_texts=2).complete
    assert runs.verify(home / "out").intact
    return home / "out"


@pytest.fixture
def folder(reference, tmp_path):
    return shutil.copytree(reference, tmp_path / "out")


@pytest.fixture
def restored(reference, folder):
    """A function that puts the folder back as it was."""

    def restore():
        shutil.rmtree(folder)
        shutil.copytree(reference, folder)

    return restore


def names(reference, pattern="*"):
    paths = [path for path in sorted(reference.rglob(pattern)) if path.is_file() and path.name != LOCK]
    return [str(path.relative_to(reference)) for path in paths]


def report(folder):
    """Return what verify says: everything, and the problems alone."""
    try:
        found = runs.verify(folder)
    except WordprobError as error:
        return str(error), [str(error)]
    code, told, _ = call_command("verify", folder)
    assert (code == 0) == (found.intact and found.complete), told
    return "\n".join([*found.problems, *found.notes]), list(found.problems)


def is_reported(folder, name, *, as_problem=True):
    told, problems = report(folder)
    return name in told and bool(problems or not as_problem)


def test_every_file_that_is_missing(reference, folder, restored):
    missed = []
    for name in names(reference):
        (folder / name).unlink()
        # Without its mark a shard is not done, which is no damage; and every shard holds what scored_with.json does.
        is_damage = not name.startswith(("done/", "scored_with"))
        shown = f"{name[5:11]}." if name.startswith("done/") else name
        if not is_reported(folder, shown, as_problem=is_damage):
            missed.append(name)
        restored()
    assert missed == []


def test_every_file_that_is_cut_off_emptied_or_changed(reference, folder, restored):
    missed = []
    for name in names(reference):
        data = (folder / name).read_bytes()
        for new in (b"", data[: len(data) // 2], data[:-1], data + b"\n{}", data + data, b"\xff" * 9, b"[" * 10**5):
            (folder / name).write_bytes(new)
            if not is_reported(folder, name):
                missed.append((name, new[:20]))
        restored()
    # The last byte of a JSON file is the end of a line.
    assert [miss for miss in missed if not miss[0].endswith(".json")] == []
    assert len(missed) <= len(names(reference, "*.json"))


def test_every_file_that_is_swapped_copied_over_another_or_a_folder(reference, folder, restored):
    missed = []
    for one, other in itertools.permutations(names(reference), 2):
        first, second = (folder / one).read_bytes(), (folder / other).read_bytes()
        if first == second:
            continue
        (folder / other).write_bytes(first)
        if not is_reported(folder, other):
            missed.append(("copied", one, other))
        (folder / one).write_bytes(second)
        if not report(folder)[1]:
            missed.append(("swapped", one, other))
        (folder / one).write_bytes(first)
        (folder / other).write_bytes(second)
    for name in names(reference):
        (folder / name).unlink()
        (folder / name).mkdir()
        if not is_reported(folder, name):
            missed.append(("folder", name))
        restored()
    assert missed == []


@pytest.mark.parametrize(
    "name",
    [
        "words/000099.parquet",
        "words/copy.parquet",
        "words/0000001.parquet",
        "words/000001.parquet.part",
        "words/more/000001.parquet",
        "texts/000001 (copy).parquet",
        "texts/notes.txt",
        "errors/000000.jsonl",
        "errors/000099.jsonl",
        "done/000099.json",
        "done/0000001.json",
        "done/٠٠٠٠٠١.json",
        "done/copy.json",
        "failed/000099.json",
        "failed/copy.json",
        "done/.hidden",
    ],
)
def test_every_file_that_is_added(folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    like = {"words": "words/000001.parquet", "texts": "texts/000001.parquet", "done": "done/000001.json"}
    shutil.copy(folder / like.get(name.split("/")[0], "errors/000001.jsonl"), folder / name)
    told, problems = report(folder)
    assert any(name.removesuffix("/000001.parquet") in problem for problem in problems), told


def test_files_beside_the_folders_are_listed_and_no_damage(folder):
    for name in ("all.parquet", "manifest.json.part", "figures"):
        (folder / name).mkdir() if name == "figures" else (folder / name).write_text("mine")
        told, problems = report(folder)
        assert name in told
        assert problems == []


def test_a_renamed_file(reference, folder, restored):
    missed = []
    for name in names(reference):
        (folder / name).rename(folder / f"{name}.bak")
        # Without manifest or plan, nobody can tell what else belongs to the run.
        if not is_reported(
            folder, name if name in ("manifest.json", "plan.jsonl") else f"{name}.bak", as_problem=False
        ):
            missed.append(name)
        restored()
    for one in ("words", "texts", "errors", "done"):
        (folder / one).rename(folder / f"{one}.bak")
        if f"{one}.bak" not in report(folder)[0]:
            missed.append(one)
        restored()
        shutil.rmtree(folder / one)
        (folder / one).write_text("")
        if not is_reported(folder, one):
            missed.append(f"{one} as a file")
        restored()
    assert missed == []


# --- what JSON files hold --------------------------------------------------------------------------------------------


def places(value, path=()):
    """Yield the way to every key and entry of a JSON value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from places(inner, (*path, key))


def changed(value, path, new):
    value = copy.deepcopy(value)
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = new
    return value


def json_changes(reference):
    """Yield every JSON file with another value in every place, and whether a value of that type belongs there."""
    for name in names(reference, "*.json"):
        value = json.loads((reference / name).read_text())
        for path in places(value):
            held = value
            for key in path:
                held = held[key]
            for new in JSON_VALUES:
                if new != held or type(new) is not type(held):
                    yield name, path, changed(value, path, new), type(new) is type(held)


def test_another_value_in_every_place_of_every_json_file(reference, folder):
    missed = []
    for name, path, value, _ in json_changes(reference):
        original = (folder / name).read_bytes()
        (folder / name).write_text(json.dumps(value))
        if not is_reported(folder, name.rpartition("/")[2]):
            missed.append((name, path))
        (folder / name).write_bytes(original)
    assert missed == []


USED = {
    "format",
    "settings",
    "model",
    "inputs",
    "plan",
    "shards",
    "records",
    "sha256",
    "damaged_inputs",
    "repeated_ids",
}
USED |= {"shard", "key", "texts", "words", "tokens", "without_value", "measured_words", "errors", "files", "bytes"}


def test_another_value_with_its_checksum(reference, folder):
    """A program that writes such a file with a right checksum is told of what cannot be used, and breaks nothing."""
    missed = []
    for name, path, value, is_same_type in json_changes(reference):
        if path == ("sha256",):
            continue
        original = (folder / name).read_bytes()
        value.pop("sha256")
        write_json(folder / name, value)
        _, problems = report(folder)
        if not problems and not is_same_type and path[-1] in USED and name.startswith(("manifest", "done")):
            missed.append((name, path))
        (folder / name).write_bytes(original)
    # What was scored, and from where, is described in words that nothing depends on.
    assert [miss for miss in missed if miss[1][0] not in ("inputs", "model", "settings") or len(miss[1]) == 1] == []


def test_keys_that_are_missing_or_misspelt(reference, folder):
    missed = []
    for name in names(reference, "*.json"):
        original = (folder / name).read_bytes()
        value = json.loads(original)
        for path in places(value):
            for spelling in (None, f"{path[-1]}x", str(path[-1])[::-1]):
                new = copy.deepcopy(value)
                holder = new
                for key in path[:-1]:
                    holder = holder[key]
                held = holder.pop(path[-1])
                if spelling is not None and isinstance(holder, dict):
                    holder[spelling] = held
                if new == value:
                    continue
                (folder / name).write_text(json.dumps(new))
                if not is_reported(folder, name.rpartition("/")[2]):
                    missed.append((name, path, spelling))
                write_json(folder / name, {key: entry for key, entry in new.items() if key != "sha256"})
                _, problems = report(folder)
                if not problems and path[-1] in ("sha256", "bytes") and path[0] in ("plan", "files"):
                    missed.append((name, path, spelling, "with its checksum"))
        (folder / name).write_bytes(original)
    assert missed == []


@pytest.mark.parametrize(
    "line",
    [b"null", b"[]", b"7", b"{}", b'{"shard": null}', b"\xff", b"{", pytest.param(b"[" * 10**5, id="deep")],
)
def test_a_plan_that_is_nonsense_with_its_hash_in_the_manifest(folder, line):
    import hashlib

    (folder / "plan.jsonl").write_bytes(line + b"\n")
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["sha256"]
    manifest["plan"]["sha256"] = hashlib.sha256(line + b"\n").hexdigest()
    write_json(folder / "manifest.json", manifest)
    assert is_reported(folder, "plan.jsonl")


def test_tables_that_are_nonsense_with_their_hash_in_the_mark(folder):
    import hashlib

    mark = json.loads((folder / "done/000000.json").read_text())
    del mark["sha256"]
    for name in mark["files"]:
        (folder / name).write_bytes(b"PAR1 nonsense PAR1")
        digest = hashlib.sha256(b"PAR1 nonsense PAR1").hexdigest()
        mark["files"][name] = {"bytes": 18, "sha256": digest}
    write_json(folder / "done/000000.json", mark)
    (folder / "scored_with.json").unlink()
    assert is_reported(folder, "words/000000.parquet")
