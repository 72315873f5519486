"""A model whose weights are incomplete, or are not for it, is refused; nothing is filled in."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import tiny_directory
import tiny_gguf
from wordprob import Scorer, load
from wordprob.core.atoms import atoms_of
from wordprob.core.words import Whitespace
from wordprob.errors import ModelError
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.weights import missing_tensors

UP = "model.layers.0.mlp.up_proj.weight"
FLOAT32_NATS = 1e-4
"""How far a value may be from itself."""


def surprisals(scorer):
    return scorer.score("the mark", unit="nats").to_pandas()["surprisal"]


def without(*names):
    return lambda tensors: {name: values for name, values in tensors.items() if name not in names}


def load_without_warnings(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load(path)


@pytest.mark.parametrize("tied", [True, False])
def test_a_complete_model_loads_without_a_word(tmp_path, tied):
    path = tiny_directory.make(tmp_path, tied)
    first = surprisals(load_without_warnings(path))
    assert np.allclose(first, surprisals(load(path)), atol=FLOAT32_NATS)


def test_a_missing_tensor_is_named(tmp_path):
    path = tiny_directory.make(tmp_path)
    tiny_directory.change_weights(path, without(UP))
    with pytest.raises(ModelError, match=f"incomplete: 1 tensor .*: {UP}.* download complete") as error:
        load(path)
    assert "\n" not in str(error.value)


def test_layers_that_only_the_configuration_has(tmp_path):
    path = tiny_directory.make(tmp_path)
    tiny_directory.change_config(path, num_hidden_layers=4)
    with pytest.raises(ModelError, match=r"18 tensors .*: model\.layers\.2\..*; and 13 more"):
        load(path)


def test_an_untied_model_without_its_head(tmp_path):
    path = tiny_directory.make(tmp_path, tied=False)
    tiny_directory.change_weights(path, without("lm_head.weight"))
    with pytest.raises(ModelError, match=r"1 tensor .*: lm_head\.weight"):
        load(path)


def test_names_with_a_prefix(tmp_path):
    path = tiny_directory.make(tmp_path)
    tiny_directory.change_weights(path, lambda tensors: {f"module.{k}": v for k, v in tensors.items()})
    with pytest.raises(ModelError, match=r"there with 'module\.' before their names; save them again"):
        load(path)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path):
    path = tiny_directory.make(tmp_path)
    tiny_directory.change_weights(path, lambda tensors: {**tensors, "model.norm.weight": torch.ones(7)})
    with pytest.raises(ModelError, match=r"another shape .*: model\.norm\.weight is 7, not 32"):
        load(path)


def test_a_tensor_that_is_not_used_is_a_warning(tmp_path):
    path = tiny_directory.make(tmp_path)
    tiny_directory.change_config(path, num_hidden_layers=1)
    with pytest.warns(UserWarning, match=r"9 tensors that the model does not use: model\.layers\.1\..*and 4 more"):
        load(path)


def test_frequencies_of_older_checkpoints_are_passed_over(tmp_path):
    path = tiny_directory.make(tmp_path)
    expected = surprisals(load(path))
    frequencies = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    tiny_directory.change_weights(path, lambda tensors: {**tensors, **frequencies})
    assert np.allclose(surprisals(load_without_warnings(path)), expected, atol=FLOAT32_NATS)


def test_buffers_that_a_network_computes_may_be_missing():
    network = torch.nn.Module()
    network.rotary = torch.nn.Module()
    network.rotary.register_buffer("inv_freq", torch.ones(2))
    network.register_buffer("correction", torch.ones(2))
    network.inv_freq = torch.nn.Parameter(torch.ones(2))
    assert missing_tensors(network, ["rotary.inv_freq", "inv_freq", "correction"]) == ["correction", "inv_freq"]


# --- GGUF files, expanded ---------------------------------------------------------------------------------------------


def load_expanded(folder, tensors, **options):
    return load(f"gguf:{tiny_gguf.write(folder / 'tiny.gguf', tensors, **options)}")


@pytest.mark.parametrize("tied", [True, False])
def test_a_complete_file_loads_without_a_word(tmp_path, tied):
    tensors = {**tiny_gguf.tensors(tied), "rope_freqs.weight": tiny_gguf.tensors()["output_norm.weight"][:4]}
    path = tiny_gguf.write(tmp_path / "tiny.gguf", tensors)
    assert load_without_warnings(f"gguf:{path}").score("the mark").to_pandas()["surprisal"].notna().all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("blk.0.ffn_up.weight", rf"1 tensor .*: {UP}\. Not used: renamed\.weight"),
        ("output.weight", r"1 tensor .*: output\.weight\. Not used: renamed\.weight"),
    ],
)
def test_a_renamed_tensor_in_a_file(tmp_path, name, message):
    """A file without a head has its input embeddings as one, but not if there is a head by another name."""
    tensors = tiny_gguf.tensors(tied=False)
    tensors["renamed.weight"] = tensors.pop(name)
    with pytest.raises(ModelError, match=message):
        load_expanded(tmp_path, tensors)


def test_layers_that_a_file_only_declares(tmp_path):
    with pytest.raises(ModelError, match=r"9 tensors .*: model\.layers\.2"):
        load_expanded(tmp_path, tiny_gguf.tensors(), layers=3)


def test_a_tensor_of_another_shape_in_a_file(tmp_path):
    tensors = tiny_gguf.tensors()
    tensors["output_norm.weight"] = tensors["output_norm.weight"][:4]
    with pytest.raises(ModelError, match=r"another shape .*: model\.norm\.weight is 4, not 32"):
        load_expanded(tmp_path, tensors)


def test_a_tensor_in_a_file_that_is_not_used_is_a_warning(tmp_path):
    tensors = tiny_gguf.tensors()
    tensors["blk.0.attn_q.bias"] = tensors["output_norm.weight"]
    with pytest.warns(UserWarning, match=r"1 tensor that the model does not use: blk\.0\.attn_q\.bias"):
        load_expanded(tmp_path, tensors)


# --- a vocabulary that is too large, and logits that are no numbers --------------------------------------------------


def test_a_vocabulary_larger_than_the_head_is_refused(tmp_path):
    path = tiny_directory.make(tmp_path, vocab_size=len(tiny_gguf.TOKENS) - 2)
    size = len(tiny_gguf.TOKENS)
    with pytest.raises(
        ModelError, match=f"has {size} tokens, but the model's head only {size - 2}: 'Ġy'; 'Ġthe' would"
    ):
        load(path)


def test_a_head_larger_than_the_vocabulary_is_padding(tmp_path):
    path = tiny_directory.make(tmp_path, vocab_size=len(tiny_gguf.TOKENS) + 10)
    assert load(path).score("the mark").to_pandas()["surprisal"].notna().all()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_damaged_weights_are_found_when_the_model_is_opened(tmp_path, value):
    def damage(tensors):
        tensors["model.layers.1.mlp.down_proj.weight"][3, 5] = value
        return tensors

    path = tiny_directory.make(tmp_path)
    tiny_directory.change_weights(path, damage)
    message = rf"{path.name} returned logits that are not finite .*model\.layers\.1\.mlp\.down_proj\.weight has values"
    with pytest.raises(ModelError, match=message):
        load(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_are_no_numbers_are_found_while_scoring(tmp_path, monkeypatch, value):
    """Only after the token for ``z``; other texts have their values."""
    scorer = load(tiny_directory.make(tmp_path))
    run, z = scorer.model.forward.run_trunk, tiny_gguf.TOKENS.index("z")

    def breaks_after_z(input_ids, **inputs):
        states = run(input_ids=input_ids, **inputs)[0]
        return [torch.where((input_ids == z)[..., None], value, states)]

    for name in ("run_whole_batch", "run_trunk"):  # with and without states that are kept
        monkeypatch.setattr(scorer.model.forward, name, breaks_after_z)
    assert scorer.score("the mark").to_pandas()["surprisal"].notna().all()
    with pytest.raises(ModelError, match=r"returned logits that are not finite .* after the tokens '.*z'\. .*float32"):
        scorer.score(["the mark", "the maze"])


def test_words_far_below_the_largest_logit_have_finite_surprisals(tmp_path):
    """The logits of the end and of all that may become white space are two thousand nats below those of letters."""
    model = load(tiny_directory.make(tmp_path, tied=False)).model
    atoms = atoms_of(model.tokenizer.vocabulary, Whitespace())
    low = torch.from_numpy(np.isin(atoms.atom_of_token, atoms.columns(frozenset({"space", "end", *atoms.possible}))))
    model.network.lm_head.bias = torch.nn.Parameter(torch.where(low, -2000.0, 0.0))
    scorer = Scorer(HFModel(model.network, model.tokenizer, model.metadata))
    frame = scorer.score("the mark of the mark", unit="nats").to_pandas()
    assert np.isfinite(frame[["surprisal", "surprisal_naive", "before", "after"]].to_numpy()).all()
    assert (frame["after"] > 1900).all()
    assert (frame["surprisal"] > 0).all()
    assert not frame["note"].any()


def test_a_model_without_a_tokenizer_says_what_is_missing(tmp_path):
    path = tiny_directory.make(tmp_path / "model")
    for file in path.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match=r"it has no tokenizer\.json, .* beside the model"):
        load(path)
