"""Texts as messages of a chat: the template is context, and only the words of the text are scored."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest
from transformers import AutoTokenizer

import wordprob
from conftest import TOKENIZERS, shared
from random_lm import RandomLM
from small_tokenizers import save_tokenizer
from wordprob.cli import main
from wordprob.errors import InputError, ModelError, OptionError
from wordprob.models.huggingface.chat import Message
from wordprob.models.huggingface.tokenizer import HFTokenizer
from wordprob.models.registry import check_model, open_tokenizer
from wordprob.options import ModelOptions

TEXT = "She saw the mark. It can't be 2."
USER_FIRST = (
    "{% for m in messages %}{% if loop.first and m.role != 'user' %}{{ raise_exception('user first') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
)


TURNS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
DATED = (
    "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    "<|endoftext|><|im_start|>system\nToday: {{ date_string }}<|im_end|>\n"
) + TURNS
TEMPLATES = {"turns": TURNS, "dated": DATED}
NAMES = [*TEMPLATES, *(name for name in ("qwen2_5", "llama3_2") if name in TOKENIZERS)]


@pytest.fixture(scope="session")
def directory_of(tmp_path_factory):
    """Return the directory of a tokeniser with a chat template: a small one, or a real one."""

    @functools.cache
    def maker(name):
        if name not in TEMPLATES:
            return shared(f"tokenizers/{name}")
        directory = save_tokenizer("small-qwen2", tmp_path_factory.mktemp(name), eos_token="<|im_end|>")
        tokenizer = AutoTokenizer.from_pretrained(directory)
        tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
        tokenizer.chat_template = TEMPLATES[name]
        tokenizer.save_pretrained(directory)
        return directory

    return maker


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_tokens_are_those_of_the_rendered_chat(name, role, directory_of):
    """The sum of the tokens' surprisals is that of the message in the chat as transformers renders and writes it."""
    prompt = "What did she see?" if role == "assistant" else None
    scorer = wordprob.Scorer(
        RandomLM(
            open_tokenizer(directory_of(name), chat_template=role, chat_prompt=prompt), memory=50, cut_off_logit=-20.0
        )
    )
    earlier = [] if prompt is None else [{"role": "user", "content": prompt}]
    own = AutoTokenizer.from_pretrained(directory_of(name))
    rendered = own.apply_chat_template(
        [*earlier, {"role": role, "content": TEXT}],
        tokenize=False,
        date_string="26 Jul 2024",
    )
    ids = own(rendered[: rendered.rindex(TEXT) + len(TEXT)], add_special_tokens=False)["input_ids"]
    n_text = len(own(TEXT, add_special_tokens=False)["input_ids"])
    expected = 0.0
    for place in range(len(ids) - n_text, len(ids)):
        logits = scorer.model.logits(ids[:place])
        expected -= logits[ids[place]] - np.log(np.exp(logits).sum())
    table = scorer.score(TEXT, unit="nats")
    assert table.to_pandas()["surprisal_naive"].sum() == pytest.approx(expected, abs=1e-9)
    assert table.to_pandas()["context_tokens"][0] == 0, "the template is not part of the text"
    assert table.texts()["conservation"].abs().max() < 1e-9


def test_the_token_that_ends_a_message_ends_a_text(directory_of):
    plain = open_tokenizer(directory_of("dated")).vocabulary
    chat = open_tokenizer(directory_of("dated"), chat_template="assistant").vocabulary
    assert "<|im_end|>" in {chat.tokens[i] for i in chat.ends}
    assert chat.tokens[chat.start] == plain.tokens[plain.start] == "<|endoftext|>"
    assert len(chat.start_ids) > 5
    assert chat.fingerprint == plain.fingerprint


def test_a_long_text_has_the_template_in_every_window(directory_of):
    tokenizer = open_tokenizer(directory_of("turns"), chat_template="user")
    n_opening = len(tokenizer.vocabulary.start_ids)
    free = wordprob.Scorer(RandomLM(tokenizer, cut_off_logit=-20.0)).score(TEXT * 20, unit="nats").to_pandas()
    scorer = wordprob.Scorer(RandomLM(tokenizer, max_tokens=n_opening + 30, cut_off_logit=-20.0))
    limited = scorer.score(TEXT * 20, unit="nats").to_pandas()
    assert limited["context_tokens"].max() < 30
    assert np.allclose(limited["surprisal"], free["surprisal"], atol=1e-9), "the model remembers three tokens"
    with pytest.raises(InputError, match=f"takes {n_opening} tokens.*shorten `chat_prompt`"):
        wordprob.Scorer(RandomLM(tokenizer, max_tokens=n_opening)).score(TEXT)


def test_candidates_continue_a_message(directory_of):
    scorer = wordprob.Scorer(
        RandomLM(open_tokenizer(directory_of("turns"), chat_template="assistant"), cut_off_logit=-20.0)
    )
    whole = scorer.score("She saw the mark", unit="nats").to_pandas()["surprisal"].iloc[-1]
    alone = scorer.score_continuations("She saw the", ["mark"], unit="nats").to_pandas()["surprisal"][0]
    assert alone == pytest.approx(whole, abs=1e-12)


def test_a_template_may_need_the_user_first(directory_of):
    tokenizer = AutoTokenizer.from_pretrained(directory_of("turns"))
    tokenizer.chat_template = USER_FIRST
    with pytest.raises(ModelError, match=r"user first\. Say what comes before .* `chat_prompt`"):
        HFTokenizer(tokenizer, message=Message("assistant"))
    with_prompt = HFTokenizer(tokenizer, message=Message("assistant", "Hi"))
    assert with_prompt.chat.text_before.endswith("Hi<|im_end|>\n<|im_start|>assistant\n")


def test_a_template_that_changes_messages_is_refused(directory_of):
    tokenizer = AutoTokenizer.from_pretrained(directory_of("turns"))
    tokenizer.chat_template = "{% for m in messages %}<|im_start|>{{ m.content | upper }}{% endfor %}"
    with pytest.raises(ModelError, match="in another way than a text by itself"):
        HFTokenizer(tokenizer, message=Message("user"))


def test_the_date_does_not_change(directory_of):
    """A template that mentions today gives the same values tomorrow."""
    tokenizer = open_tokenizer(directory_of("dated"), chat_template="user")
    assert "26 Jul 2024" in tokenizer.chat.text_before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chat_template": "user"}, "exact:bow has no chat template"),
        ({"chat_template": "system"}, "no role is called 'system'; use user or assistant"),
        ({"chat_prompt": "Hi"}, "`chat_prompt` is what comes before the assistant's message"),
        ({"chat_template": "user", "chat_prompt": "Hi"}, "set `chat_template` to assistant"),
        ({"chat_template": "user", "bos": "none"}, "`chat_template` and `bos` both say what comes before"),
    ],
)
def test_options_that_do_not_fit(options, message):
    with pytest.raises(OptionError, match=message):
        check_model(ModelOptions(model="exact:bow", **options))


def test_a_tokeniser_without_a_template(tmp_path):
    with pytest.raises(OptionError, match="this model's tokeniser has no chat template"):
        open_tokenizer(save_tokenizer("small-gpt2", tmp_path), chat_template="user")


def test_from_the_command_line(monkeypatch, capsys, tmp_path):
    output = tmp_path / "chat.parquet"
    arguments = ["score", "--text", "She saw the mark.", "--chat-template", "assistant", "--chat-prompt", "Hi."]
    monkeypatch.setattr(sys, "argv", ["wordprob", *arguments, "-o", str(output)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code, capsys.readouterr().err
    table = wordprob.WordTable.read(output)
    assert table.metadata["chat_template"] == "assistant"
    assert table.metadata["before_text"].endswith("Hi.<|im_end|>\n<|im_start|>assistant\n")
    assert table.to_pandas()["word"].tolist() == ["She", "saw", "the", "mark."]
