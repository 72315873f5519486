"""A run is resumed with the model it was begun with: the files that decide its numbers, and no others."""

from __future__ import annotations

import pytest

import tiny_directory
from wordprob import runs
from wordprob.errors import InputError
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
