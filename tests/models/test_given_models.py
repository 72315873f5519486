"""Models that the user has in hand: loaded, hooked, adapted, quantized, divided among devices; and what is missing."""

from __future__ import annotations

import copy
import json
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner

import tiny_directory
import wordprob
from distributions import all_logits
from tolerances import float32_log_prob_tolerance
from wordprob.cli import cli
from wordprob.cli.messages import to_flags
from wordprob.errors import ModelError, OptionError, UnsupportedError
from wordprob.models.huggingface import load_arguments
from wordprob.models.huggingface.load import load_network
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.tokenizer import HFTokenizer
from wordprob.models.registry import describe
from wordprob.options import ModelOptions

TEXTS = ["She saw the mark. It's the marker's?", "Short.", "A longer text, so that the batch is padded."]

SPLIT = {
    "model.embed_tokens": "cpu",
    "model.layers.0": "cpu",
    "model.layers.1": "disk",
    "model.norm": "cpu",
    "model.rotary_emb": "cpu",
    "lm_head": "disk",
}

needs_peft = pytest.mark.skipif(find_spec("peft") is None, reason="needs peft: pip install 'wordprob[peft]'")
needs_bitsandbytes = pytest.mark.skipif(
    find_spec("bitsandbytes") is None, reason="needs bitsandbytes: pip install 'wordprob[quantize]'"
)
needs_torchao = pytest.mark.skipif(
    find_spec("torchao") is None, reason="needs torchao: pip install 'wordprob[quantize]'"
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tiny_directory.make(tmp_path_factory.mktemp("given") / "model", tied=False)


@pytest.fixture
def network(directory):
    return transformers.AutoModelForCausalLM.from_pretrained(directory)


@pytest.fixture(scope="module")
def tokenizer(directory):
    return transformers.AutoTokenizer.from_pretrained(directory)


def surprisals(scorer):
    return scorer.score(TEXTS, unit="nats").to_pandas()["surprisal"].to_numpy()


def assert_exact(scorer):
    """Compare the naive surprisal of every word with the softmax, in float64, of the network's own logits."""
    model = scorer.model
    frame = scorer.score(TEXTS, unit="nats").to_pandas()
    for number, text in enumerate(TEXTS):
        ids = model.tokenizer.encode([text])[0].ids
        logits = all_logits(model, [model.tokenizer.vocabulary.start, *ids])
        log_probs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
        total = -log_probs[np.arange(len(ids)), ids].sum()
        tolerance = float32_log_prob_tolerance(model, log_probs=len(ids))
        assert frame.loc[frame["text_id"] == number, "surprisal_naive"].sum() == pytest.approx(total, abs=tolerance)
    assert frame["surprisal"].notna().all()


def test_a_loaded_model_scores_as_its_directory_does(directory, network, tokenizer):
    expected = wordprob.load(directory)
    for scorer in (
        wordprob.load(network, tokenizer),
        wordprob.Scorer(network, tokenizer),
        wordprob.load(network, directory),
        wordprob.load(transformers.pipeline("text-generation", model=network, tokenizer=tokenizer)),
        wordprob.load(torch.nn.DataParallel(network), tokenizer),
    ):
        assert np.abs(surprisals(scorer) - surprisals(expected)).max() < 1e-4
    metadata = wordprob.load(network, tokenizer).score("a").metadata
    assert metadata["loaded"] == "by the caller, as LlamaForCausalLM"
    assert metadata["model"] == directory.name
    assert wordprob.load(network, tokenizer, bos="none").score("a b").metadata["start_token"] == ""


def test_what_was_given_is_left_as_it_was(network, tokenizer):
    """Dropout is on while the user trains, and off while texts are scored."""
    network.model.layers[0].mlp.act_fn = torch.nn.Dropout(0.9)
    network.train()
    network.model.layers[1].eval()
    before = [module.training for module in network.modules()]
    settings = tokenizer.backend_tokenizer.encode_special_tokens, network.config.use_cache
    scorer = wordprob.load(network, tokenizer)
    assert np.abs(surprisals(scorer) - surprisals(scorer)).max() < 1e-4, "no dropout"
    assert [module.training for module in network.modules()] == before
    assert (tokenizer.backend_tokenizer.encode_special_tokens, network.config.use_cache) == settings


def test_changes_to_the_network_show(network, tokenizer):
    """Ablations, hooks and training after the scorer was made; also where a shortcut would leave them out."""
    scorer = wordprob.load(network, tokenizer)
    assert scorer.model.head.linear is not None
    values = [surprisals(scorer)]
    with torch.no_grad():
        network.model.layers[0].self_attn.o_proj.weight.zero_()
    values.append(surprisals(scorer))
    inner = network.model.layers[1].mlp.register_forward_hook(lambda _, __, output: output * 0)
    values.append(surprisals(scorer))
    inner.remove()
    hook = network.lm_head.register_forward_hook(lambda _, __, output: output * 2)
    values.append(surprisals(scorer))
    assert scorer.model.head.linear is None, "the head alone no longer gives the logits"
    assert_exact(scorer)
    hook.remove()
    outer = network.register_forward_hook(lambda _, __, output: output.__setitem__("logits", output.logits * 3))
    values.append(surprisals(scorer))
    assert_exact(scorer)
    outer.remove()
    with torch.no_grad():
        network.lm_head.weight.mul_(2.5)
    values.append(surprisals(scorer))
    assert_exact(scorer)
    network.lm_head = torch.nn.Linear(network.config.hidden_size, network.config.vocab_size)
    values.append(surprisals(scorer))
    assert_exact(scorer)
    for earlier, later in pairwise(values):
        assert not np.allclose(earlier, later, atol=1e-3)


# --- adapters ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def adapted(network):
    peft = pytest.importorskip("peft", reason="needs peft: pip install 'wordprob[peft]'")
    torch.manual_seed(1)
    config = peft.LoraConfig(target_modules=["q_proj", "down_proj", "lm_head"], init_lora_weights=False, r=4)
    return peft.get_peft_model(network, config)


def test_an_adapted_model_in_hand(directory, adapted, tokenizer):
    scorer = wordprob.load(adapted, tokenizer)
    assert_exact(scorer)
    assert scorer.score("a").metadata["adapter"] == "default"
    plain = surprisals(wordprob.load(directory))
    assert not np.allclose(surprisals(scorer), plain, atol=1e-3)
    with adapted.disable_adapter():
        assert np.abs(surprisals(scorer) - plain).max() < 1e-4


def test_an_adapter_by_its_directory(directory, adapted, tokenizer, tmp_path):
    expected = surprisals(wordprob.load(adapted, tokenizer))
    adapted.save_pretrained(tmp_path / "lora")
    scorer = wordprob.load(directory, adapter=tmp_path / "lora")
    assert np.allclose(surprisals(scorer), expected, atol=1e-5)
    metadata = scorer.score("a").metadata
    assert metadata["adapter"] == "lora"
    options = ModelOptions(model=str(directory), adapter=str(tmp_path / "lora"))
    assert describe(options)["adapter"]["fingerprint"] == metadata["adapter_fingerprint"]
    command = ["score", "--text", TEXTS[0], "--model", str(directory), "--adapter", str(tmp_path / "lora")]
    result = CliRunner().invoke(cli, [*command, "--format", "jsonl", "--unit", "nats"])
    assert result.exit_code == 0, result.output
    first = json.loads(result.stdout.splitlines()[0])
    assert first["surprisal"] == pytest.approx(expected[0], abs=1e-4)
    with pytest.raises(ModelError, match="a PEFT adapter; set `model` to the model that it was made for, .*model"):
        wordprob.load(tmp_path / "lora")


def test_an_adapter_of_another_model_is_refused(adapted, tmp_path):
    other = tiny_directory.make(tmp_path / "other", hidden_size=16, num_attention_heads=2)
    adapted.save_pretrained(tmp_path / "lora")
    with pytest.raises(ModelError, match=r"could not be put on the model: .*It was made for .*model: is `model` that"):
        wordprob.load(other, adapter=tmp_path / "lora")
    with pytest.raises(ModelError, match="adapter_config.json and adapter_model.safetensors"):
        wordprob.load(other, adapter=tmp_path / "nothing")


@needs_peft
def test_an_adapter_of_virtual_tokens_is_refused(network, tokenizer):
    import peft

    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    with pytest.raises(UnsupportedError, match="virtual tokens before every text .*PromptTuningConfig"):
        wordprob.load(peft.get_peft_model(network, config), tokenizer)


# --- fewer bits, several devices --------------------------------------------------------------------------------------


@needs_bitsandbytes
def test_four_bits(directory):
    scorer = wordprob.load(directory, quantize="4bit", device="cpu")
    assert_exact(scorer)
    assert scorer.score("a").metadata["quantization"] == "bitsandbytes 4bit nf4"
    plain = surprisals(wordprob.load(directory))
    assert 1e-4 < np.abs(surprisals(scorer) - plain).max() < 1


@needs_torchao
def test_eight_bits(directory, network, tokenizer):
    scorer = wordprob.load(directory, quantize="8bit", device="cpu")
    assert_exact(scorer)
    assert scorer.score("a").metadata["quantization"] == "torchao Int8WeightOnlyConfig"
    plain = surprisals(wordprob.load(directory))
    assert 1e-5 < np.abs(surprisals(scorer) - plain).max() < 0.1
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    quantize_(network, Int8WeightOnlyConfig())
    in_hand = wordprob.load(network, tokenizer)
    assert in_hand.model.head.linear is None, "the head's weights are no plain numbers"
    assert_exact(in_hand)


def test_nothing_is_called_quantized_that_is_not(network):
    with pytest.raises(ModelError, match="none of the layers of exact:bow could be loaded with 8 bits"):
        load_arguments.check_quantized(network, ModelOptions(model="exact:bow", quantize="8bit"))


@pytest.mark.parametrize("device_map", [SPLIT, json.dumps(SPLIT), "auto"])
def test_a_model_divided_among_devices(directory, device_map):
    scorer = wordprob.load(directory, device_map=device_map)
    assert np.allclose(surprisals(scorer), surprisals(wordprob.load(directory)), atol=1e-5)
    devices = scorer.score("a").metadata["device"]
    if device_map != "auto":
        assert devices == "cpu disk"
        assert_exact(scorer)


def test_further_arguments(directory):
    scorer = wordprob.load(directory, model_kwargs={"attn_implementation": "eager"})
    assert scorer.model.network.config._attn_implementation == "eager"
    assert np.allclose(surprisals(scorer), surprisals(wordprob.load(directory)), atol=1e-5)


# --- what is missing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device_map": "everywhere"}, "`device_map` is 'everywhere'; use auto, balanced"),
        ({"model_kwargs": "[1]"}, "`model_kwargs` is .*; it must be JSON from names to values"),
        ({"model_kwargs": {"trust_remote_code": True}}, "there is the option `trust_remote_code`"),
        ({"model_kwargs": {"state_dict": {}}}, "which wordprob sets itself"),
        ({"quantize": "2bit"}, "no quantization is called '2bit'; use 4bit or 8bit"),
        ({"device_map": "auto", "device": "cpu"}, "choose one of them"),
    ],
)
def test_values_that_are_not_allowed(directory, options, message):
    with pytest.raises(OptionError, match=message):
        wordprob.load(directory, **options)


@pytest.mark.parametrize(
    "option", [{"adapter": "x"}, {"quantize": "4bit"}, {"device_map": "auto"}, {"model_kwargs": {}}]
)
def test_options_of_loading_are_for_models_that_transformers_loads(option):
    with pytest.raises(OptionError, match="is for models that transformers loads .* exact:bow is not one"):
        wordprob.load("exact:bow", **option)


@pytest.mark.parametrize(
    ("option", "package", "extra"),
    [({"quantize": "4bit"}, "bitsandbytes", "quantize"), ({"quantize": "8bit"}, "torchao", "quantize"),
     ({"adapter": "x"}, "peft", "peft")],
)  # fmt: skip
def test_a_package_that_is_not_installed(directory, monkeypatch, option, package, extra):
    monkeypatch.setattr(load_arguments, "find_spec", lambda name: None if name == package else find_spec(name))
    with pytest.raises(
        OptionError, match=rf"{package}, which is not installed; type: pip install 'wordprob\[{extra}\]'"
    ):
        wordprob.load(directory, **option)


def test_what_is_no_model_or_no_tokenizer(directory, network, tokenizer):
    with pytest.raises(OptionError, match=r"has no tokenizer; give it too, .*AutoTokenizer.from_pretrained"):
        wordprob.load(network)
    with pytest.raises(OptionError, match=r"not a tokenizers.Tokenizer. Wrap it, .*PreTrainedTokenizerFast"):
        wordprob.load(network, tokenizer.backend_tokenizer)
    with pytest.raises(OptionError, match="must be a transformers tokenizer, .* not a builtins.dict"):
        wordprob.load(network, {})
    with pytest.raises(OptionError, match="not a Linear"):
        wordprob.load(torch.nn.Linear(2, 2), tokenizer)
    with pytest.raises(OptionError, match=r"type wordprob.load\('gpt2'\)"):
        wordprob.Scorer("gpt2")
    with pytest.raises(OptionError, match="`tokenizer` is for models on a server"):
        wordprob.load(directory, tokenizer)
    with pytest.raises(OptionError, match="`device` says how to load a model, and this one is loaded already"):
        wordprob.load(network, tokenizer, device="cpu")


def test_a_model_without_a_head(directory, tokenizer):
    with pytest.raises(ModelError, match="LlamaModel has no language-model head.*AutoModelForCausalLM"):
        wordprob.load(transformers.AutoModel.from_pretrained(directory), tokenizer)
    config = transformers.AutoConfig.from_pretrained(directory, pad_token_id=0)
    classifier = transformers.AutoModelForSequenceClassification.from_config(config)
    with pytest.raises(UnsupportedError, match="does not return logits for every token"):
        wordprob.load(classifier, tokenizer)


def test_a_model_that_looks_ahead(tokenizer):
    config = transformers.BertConfig(
        vocab_size=300, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    torch.manual_seed(0)
    network = transformers.BertLMHeadModel(config)
    with pytest.raises(UnsupportedError, match="is not causal: .*depends on the tokens after it"):
        HFModel(network, HFTokenizer(copy.deepcopy(tokenizer)), {})


def test_a_model_that_the_hub_gives_to_some_people_only(monkeypatch):
    from huggingface_hub.errors import GatedRepoError

    def refuse(*_, **__):
        response = type("Response", (), {"headers": {}, "request": None, "status_code": 401})()
        try:
            raise GatedRepoError("Cannot access gated repo", response=response)
        except GatedRepoError as error:
            raise OSError("You are trying to access a gated repo.") from error

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", refuse)
    with pytest.raises(ModelError, match=r"Accept it at https://huggingface.co/owner/name, .* type: hf auth login"):
        load_network("owner/name", ModelOptions(model="owner/name"), "cpu")


def test_a_run_records_how_its_model_was_loaded(tmp_path, monkeypatch):
    from wordprob.runs.settings import RunSettings

    (tmp_path / "lora").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = RunSettings.from_dict({"model": "owner/name", "adapter": "lora", "device_map": {"": "cpu"}})
    assert settings.with_absolute_model_path().model.adapter == str(tmp_path / "lora")
    assert settings.to_dict()["device_map"] == {"": "cpu"}
    with pytest.raises(OptionError, match="a run writes `model_kwargs` and `device_map` into its manifest"):
        RunSettings.from_dict({"model": "owner/name", "model_kwargs": {"quantization_config": object()}})


def test_messages_name_flags_on_the_command_line():
    with pytest.raises(OptionError) as error:
        load_arguments.parse_device_map("everywhere")
    assert "--device-map is 'everywhere'" in to_flags(str(error.value), cli.get_command(None, "score"))
