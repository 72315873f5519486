"""Damaged files of models: refused in one line, or another digest tells that they are not the same model."""

from __future__ import annotations

import shutil
import warnings
from collections import Counter

import pytest

import audit
import tiny_directory
import tiny_gguf
import wordprob
from wordprob.errors import WordprobError
from wordprob.models.fingerprints import describe_path

pytestmark = pytest.mark.audit

TEXT = "the mark of a name. We saw 2 marks"


def outcome(model, path, before) -> str:
    """Score with a model whose files were changed; anything but an error of ours ends the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            table = wordprob.load(model, device="cpu").score(TEXT)
        except WordprobError as error:
            assert "\n" not in str(error).strip()  # noqa: PT017
            return "refused"
    if table.to_pandas().equals(before["table"]):
        return "the same numbers"
    assert describe_path(path)["fingerprint"] != before["fingerprint"]
    return "other numbers, another digest"


def scored(model, path):
    table = wordprob.load(model, device="cpu").score(TEXT).to_pandas()
    return {"table": table, "fingerprint": describe_path(path)["fingerprint"]}


def test_mutated_directories(tmp_path):
    original = tiny_directory.make(tmp_path / "model")
    before = scored(original, original)
    found = Counter()
    for chance in audit.cases("directories", 12):
        copy = tmp_path / "copy" / "model"
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.copytree(original, copy)
        file = chance.choice(sorted(copy.iterdir()))
        file.write_bytes(audit.mutated(file.read_bytes(), chance))
        found[outcome(copy, copy, before)] += 1
    audit.record("files of a model's directory, damaged", found)
    assert found["refused"]


@pytest.mark.parametrize("part", ["header", "weights"])
def test_mutated_gguf_files(tmp_path, part):
    original = tiny_gguf.write(tmp_path / "model.gguf", tiny_gguf.tensors())
    before = scored(f"gguf:{original}", original)
    data = original.read_bytes()
    header = data.rindex(b"ffn_norm.weight") + 64  # the last name in the list of tensors, and a bit
    found = Counter()
    for chance in audit.cases(f"gguf {part}", 12):
        copy = tmp_path / "copy" / "model.gguf"
        copy.parent.mkdir(exist_ok=True)
        changed = audit.mutated(data, chance, header) if part == "header" else audit.mutated(data, chance)
        copy.write_bytes(changed)
        found[outcome(f"gguf:{copy}", copy, before)] += 1
    audit.record(f"GGUF files, damaged in the {part}", found)
    assert sum(found.values()) >= 12 or audit.SECONDS
