"""A model's files may come from anyone: none of them runs code, reads elsewhere or takes for ever, unless allowed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

import tiny_directory
import tiny_gguf
import wordprob
from wordprob.errors import ModelError, OptionError
from wordprob.models.huggingface import chat
from wordprob.models.huggingface.load_arguments import check_kernels
from wordprob.models.registry import open_tokenizer
from wordprob.options import ModelOptions
from wordprob.runs.atomic_io import read_json, write_json

pytestmark = pytest.mark.audit

KERNEL = "owner/kernels"


@pytest.fixture
def directory(tmp_path):
    return tiny_directory.make(tmp_path / "model")


@pytest.fixture
def kernels(monkeypatch):
    """Return the kernels that transformers was about to fetch."""
    asked = []

    def fetch(name, **_):
        asked.append(name)
        raise RuntimeError("fetched")

    monkeypatch.setattr("transformers.integrations.hub_kernels.get_kernel", fetch)
    monkeypatch.setattr("transformers.integrations.hub_kernels.is_kernels_available", lambda *_: True)
    monkeypatch.setattr("transformers.modeling_utils.is_kernels_available", lambda *_: True)
    return asked


# --- code from the hub -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["attn_implementation", "_attn_implementation"])
def test_a_configuration_cannot_name_a_kernel(directory, kernels, name):
    tiny_directory.change_config(directory, **{name: KERNEL})
    with pytest.raises(ModelError, match=f"config.json of .* to '{KERNEL}', which is code .* set `trust_remote_code`"):
        wordprob.load(directory)
    assert kernels == []


def test_an_option_cannot_name_a_kernel_without_trust(directory, kernels):
    with pytest.raises(ModelError, match=f"`model_kwargs` of .* sets attn_implementation to '{KERNEL}'"):
        wordprob.load(directory, model_kwargs={"attn_implementation": KERNEL})
    with pytest.raises(ModelError, match="flash_attention_2"):
        wordprob.load(directory, model_kwargs={"attn_implementation": "flash_attention_2"})
    assert kernels == []


def test_with_trust_a_kernel_is_fetched(directory, kernels):
    tiny_directory.change_config(directory, attn_implementation=KERNEL)
    with pytest.raises(ModelError, match="fetched"):
        wordprob.load(directory, trust_remote_code=True)
    assert kernels == [KERNEL]


def test_another_attention_than_the_configuration_names(directory, kernels):
    tiny_directory.change_config(directory, attn_implementation=KERNEL)
    scorer = wordprob.load(directory, model_kwargs={"attn_implementation": "eager"})
    assert scorer.model.network.config._attn_implementation == "eager"
    assert kernels == []


def test_configurations_inside_a_configuration_count():
    inner = SimpleNamespace(_attn_implementation=KERNEL)
    config = SimpleNamespace(_attn_implementation="sdpa", sub_configs={"text_config": None}, text_config=inner)
    with pytest.raises(ModelError, match=KERNEL):
        check_kernels(config, {}, ModelOptions(model="exact:bow"))
    with pytest.raises(ModelError, match=KERNEL):
        check_kernels(config, {"attn_implementation": {"": "eager"}}, ModelOptions(model="exact:bow"))
    check_kernels(config, {"attn_implementation": "eager"}, ModelOptions(model="exact:bow"))


@pytest.mark.parametrize("name", ["weights_only", "allow_all_kernels", "use_kernels", "token", "proxies", "auto_map"])
def test_arguments_that_are_not_allowed(directory, name):
    with pytest.raises(OptionError, match=f"`model_kwargs` has '{name}', which is not allowed; use attn_implement"):
        wordprob.load(directory, model_kwargs={name: True})


# --- files elsewhere -------------------------------------------------------------------------------------------------


def with_index(directory, place):
    """Move the weights of a model elsewhere, with an index that leads to them."""
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    path = directory / place
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path, {"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, str(place))}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def test_an_index_within_the_folder(directory):
    before = wordprob.load(directory).score("the mark").to_pandas()
    with_index(directory, "model-00001-of-00001.safetensors")
    assert wordprob.load(directory).score("the mark").to_pandas().equals(before)


@pytest.mark.parametrize("place", ["../elsewhere.safetensors", "below/../../elsewhere.safetensors", "{absolute}"])
def test_an_index_cannot_lead_out_of_the_folder(directory, tmp_path, place):
    with_index(directory, place.format(absolute=tmp_path / "other/weights.safetensors"))
    with pytest.raises(ModelError, match="says that weights are in '.*', which is not a file in the same directory"):
        wordprob.load(directory)


@pytest.mark.parametrize("contents", ["", "[]", "{}", '{"weight_map": []}', "[" * 100_000])
def test_an_index_that_is_none(directory, contents):
    (directory / "model.safetensors.index.json").write_text(contents)
    with pytest.raises(ModelError, match="cannot be read as an index of weights"):
        wordprob.load(directory)


# --- chat templates --------------------------------------------------------------------------------------------------

LOOPS = "{% for i in range(99999) %}{% for j in range(99999) %}BODY{% endfor %}{% endfor %}{{ messages[0].content }}"


def with_template(directory, template):
    tokenizer = AutoTokenizer.from_pretrained(directory)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(directory)
    return directory


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (LOOPS.replace("BODY", "x"), "it writes more than 1,000,000 characters"),
        (LOOPS.replace("BODY", ""), "it took longer than 1 seconds and was stopped"),
        ("{{ 'x' * 99999999999 }}", "it takes too much memory"),
        (
            "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
            "(memory|longer)",
        ),
        ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "maximum recursion depth"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% for %}", "Expected an expression"),
    ],
)
def test_templates_have_limits(directory, monkeypatch, template, reason):
    monkeypatch.setattr(chat, "RENDER_TIMEOUT_SECONDS", 1.0)
    begin = time.monotonic()
    with pytest.raises(ModelError, match=f"the chat template of this model cannot be used in this way: .*{reason}"):
        open_tokenizer(with_template(directory, template), chat_template="user")
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(
    "template",
    [
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]\n{{ m['content'] }}{{ eos_token }}{% endfor %}",
        "{{ bos_token }}{% for m in messages %}{% generation %}:{{ m.content }}{% endgeneration %}{% endfor %}",
        "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ {'a': 'é'} | tojson }}:{{ m.content }}"
        "{% endfor %}",
    ],
)
def test_a_template_is_rendered_as_transformers_renders_it(directory, template):
    tokenizer = AutoTokenizer.from_pretrained(with_template(directory, template))
    chats = [[{"role": "user", "content": text}] for text in chat.PROBES]
    expected = [tokenizer.apply_chat_template(messages, tokenize=False) for messages in chats]
    assert chat.render(template, chats, tokenizer.special_tokens_map) == expected


# --- what is printed -------------------------------------------------------------------------------------------------


def test_names_in_files_do_not_reach_the_screen_as_they_are(directory, tmp_path):
    """A carriage return or an escape sequence in a name could rewrite what stands on the screen."""
    name = "evil\r\x1b[2Jall is well"
    tiny_directory.change_weights(directory, lambda tensors: {**tensors, name: tensors["model.norm.weight"].clone()})
    (tmp_path / "corpus.txt").write_text("the mark\n")
    output = tmp_path / "out"
    shown = []
    for arguments in (
        ["score", str(tmp_path / "corpus.txt"), "--model", str(directory)],
        ["run", str(tmp_path / "corpus.txt"), "-o", str(output), "--model", str(directory)],
    ):
        shown.append(wordprob_command(*arguments))
    (output / "words" / f"{name}.parquet").write_bytes(b"")
    manifest = read_json(output / "manifest.json")
    write_json(output / "manifest.json", {**manifest, "settings": {**manifest["settings"], "model": name}})
    shown += [wordprob_command("verify", str(output)), wordprob_command("status", str(output))]
    for text in shown:
        assert "\r" not in text
        assert "\x1b" not in text
        assert "evil\\r\\x1b[2Jall is well" in text


def wordprob_command(*arguments):
    """Return all that a command prints."""
    command = [sys.executable, "-m", "wordprob", *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode()


# --- GGUF files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "text"), [("the", "the"), ("z", "a z"), ("q", "mark.q")])
def test_a_file_that_names_a_token_twice(tmp_path, monkeypatch, last, text):
    """It has one token less than it counts, so that the last one has no place; it may be none that loading needs."""
    merges = [*tiny_gguf.MERGES[:-1], f"Ġ {last}"] if len(last) == 1 else tiny_gguf.MERGES
    tokens = [token for token in tiny_gguf.TOKENS[:-1] if token != f"Ġ{last}"] + [f"Ġ{last}"]
    tokens[tokens.index("À")] = "Á"
    monkeypatch.setattr(tiny_gguf, "TOKENS", tokens)
    monkeypatch.setattr(tiny_gguf, "MERGES", merges)
    path = tiny_gguf.write(tmp_path / "model.gguf", tiny_gguf.tensors())
    with pytest.raises(ModelError, match="its list of tokens is incomplete. Is the file damaged?"):
        wordprob.load(f"gguf:{path}").score(f"{text} z q")


def test_layers_that_nobody_has(directory, tmp_path):
    """transformers would build all of them first."""
    tiny_directory.change_config(directory, num_hidden_layers=2**31)
    with pytest.raises(ModelError, match="declares 2,147,483,648 layers; no model has more than 2,000"):
        wordprob.load(directory)
    path = tiny_gguf.write(tmp_path / "model.gguf", tiny_gguf.tensors(), layers=2**31)
    with pytest.raises(ModelError, match="declares 2,147,483,648 layers"):
        wordprob.load(f"gguf:{path}")
