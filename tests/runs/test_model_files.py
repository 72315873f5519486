"""A run is resumed with the model it was begun with: the files that decide its numbers, and no others."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

import tiny_directory
import wordprob
from wordprob import runs
from wordprob.errors import InputError, ModelError
from wordprob.models import fingerprints
from wordprob.models.fingerprints import describe_path


@pytest.fixture
def begun(tmp_path):
    """Return the folders of a run and of its model."""
    model = tiny_directory.make(tmp_path / "model")
    (tmp_path / "corpus.txt").write_text("the mark\nthe name\n")
    runs.run(tmp_path / "corpus.txt", tmp_path / "out", model=str(model), shard_texts=1)
    (tmp_path / "out/done/000001.json").unlink()
    return tmp_path / "out", model


def test_files_that_a_system_or_a_user_leaves_do_not_matter(begun):
    output, model = begun
    for name in (".DS_Store", "._model.safetensors", "Thumbs.db", "README.md", "notes.txt", "trainer_state.json"):
        (model / name).write_bytes(b"\0")
    (model / "checkpoint-10").mkdir()
    (model / "checkpoint-10/config.json").write_text("{}")
    assert runs.resume(output).shards == 2


def test_the_file_that_changed_is_named(begun):
    output, model = begun
    tiny_directory.change_config(model, rms_norm_eps=0.1)
    (model / "generation_config.json").unlink()
    (model / "vocab.json").write_text("{}")
    with pytest.raises(InputError) as error:
        runs.resume(output)
    lines = [line.strip() for line in str(error.value).splitlines()]
    assert "the model's file config.json: other contents" in lines
    assert "the model's file generation_config.json: gone" in lines
    assert "the model's file vocab.json: new" in lines
    assert not any("fingerprint" in line for line in lines)


@pytest.mark.parametrize(
    "name",
    "config.json model.safetensors tokenizer.json tokenizer_config.json model-00001-of-00002.safetensors "
    "model.safetensors.index.json pytorch_model.bin tokenizer.model merges.txt vocab.txt modeling_mine.py".split(),
)
def test_files_that_decide_the_numbers(tmp_path, name):
    (tmp_path / name).write_text("1")
    before = describe_path(tmp_path)
    (tmp_path / name).write_text("2")
    after = describe_path(tmp_path)
    assert list(before["files"]) == [name]
    assert before["fingerprint"] != after["fingerprint"]


def test_one_changed_byte_of_large_weights_is_found_and_unchanged_ones_are_read_once(tmp_path, monkeypatch):
    monkeypatch.setenv("WORDPROB_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "model.safetensors"
    size = (1 << 26) + (1 << 23)
    with path.open("wb") as file:
        file.truncate(size)
    before = fingerprints.fingerprint(path)
    with path.open("r+b") as file:
        file.seek(size // 4)
        file.write(b"\1")
    assert fingerprints.fingerprint(path) != before
    expected = fingerprints.sha256(path)
    monkeypatch.setattr(fingerprints, "sha256", lambda path: pytest.fail("read again"))
    assert fingerprints.fingerprint(path) == expected


def test_verify_says_that_the_model_is_another_now(begun):
    output, model = begun
    assert not any("model" in note for note in runs.verify(output).notes)
    tiny_directory.change_weights(model, lambda tensors: {name: 2 * values for name, values in tensors.items()})
    assert any("the model's file model.safetensors: other contents" in note for note in runs.verify(output).notes)


# --- damage in place: the same size and time, other bytes ------------------------------------------------------------


def damage_in_place(path):
    """Flip a bit near the end of a file, as a failing disk does: its size and time stay."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def every_digest_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("WORDPROB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fingerprints, "MAX_UNCACHED_BYTES", 0)


def test_resuming_reads_the_weights_again(every_digest_is_kept, begun):
    output, model = begun
    damage_in_place(model / "model.safetensors")
    with pytest.raises(InputError, match="the model's file model.safetensors: other contents"):
        runs.resume(output)


def test_verify_reads_the_weights_again(every_digest_is_kept, begun):
    output, model = begun
    damage_in_place(model / "model.safetensors")
    assert any("the model's file model.safetensors: other contents" in note for note in runs.verify(output).notes)


def test_a_table_tells_the_digest_of_the_weights(tmp_path):
    model = tiny_directory.make(tmp_path / "model")
    digest = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    assert wordprob.load(model).score("the mark").metadata["weights_sha256"] == digest
    names = {"b.safetensors": "1" * 64, "a.safetensors": "2" * 64, "config.json": "3" * 64}
    printed = f"{'2' * 64}  a.safetensors\n{'1' * 64}  b.safetensors\n"
    assert fingerprints.weights_digest(names) == hashlib.sha256(printed.encode()).hexdigest()


@pytest.fixture
def on_hub(tmp_path, monkeypatch):
    """Return the file of weights of a model that is in the hub's cache as ``owner/tiny``; the hub is out of reach."""
    from huggingface_hub import constants

    model = tiny_directory.make(tmp_path / "model")
    cache = tmp_path / "hub/models--owner--tiny"
    commit = "c" * 40
    snapshot = cache / "snapshots" / commit
    for folder in (cache / "refs", cache / "blobs", snapshot):
        folder.mkdir(parents=True)
    (cache / "refs/main").write_text(commit)
    for file in model.iterdir():
        is_large = file.suffix == ".safetensors"  # small files have the names that git gives them
        name = (hashlib.sha256 if is_large else hashlib.sha1)(file.read_bytes()).hexdigest()
        file.rename(cache / "blobs" / name)
        (snapshot / file.name).symlink_to(f"../../blobs/{name}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return snapshot / "model.safetensors"


def test_weights_in_the_cache_of_the_hub_are_compared_with_the_digest_that_the_hub_told(on_hub):
    digest = on_hub.resolve().name
    assert wordprob.load("owner/tiny").score("the mark").metadata["weights_sha256"] == digest
    damage_in_place(on_hub.resolve())
    with pytest.raises(
        ModelError, match=f"files of owner/tiny .* damaged: model.safetensors: .* on the hub {digest[:9]}"
    ):
        wordprob.load("owner/tiny")


def test_a_run_with_a_model_of_the_hub_notices_damage(every_digest_is_kept, on_hub, tmp_path):
    (tmp_path / "corpus.txt").write_text("the mark\nthe name\n")
    output = tmp_path / "out"
    runs.run(tmp_path / "corpus.txt", output, model="owner/tiny", shard_texts=1)
    assert json.loads((output / "scored_with.json").read_text())["weights_sha256"] == on_hub.resolve().name
    (output / "done/000001.json").unlink()
    damage_in_place(on_hub.resolve())
    assert any("model.safetensors: SHA-256" in note for note in runs.verify(output).notes)
    with pytest.raises(InputError, match="the model's file model.safetensors: SHA-256 .* on the hub"):
        runs.resume(output)
