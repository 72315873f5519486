"""Chat templates: what a model sees before and after a text that is a message of a chat.

The template of a tokenizer is rendered around a few probe texts. What it puts before them becomes the opening of every
text, and a control token right after them ends a text. This works only if the tokenizer writes a message in a chat as
it writes a text by itself, which the probes show.

A template is a program in a language of its own, Jinja, and comes with the model. It is rendered in a process of its
own, with limits on time, memory and output.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from wordprob.errors import ModelError, OptionError, first_line
from wordprob.processes import Channel, LimitedProcess, limit_memory

PROBES = ("mark", "The mark.", "2 marks", "éa", "(mark)")
"""Texts that a template is tried on."""

FIXED_DATE = "{%- macro strftime_now(format) -%}26 Jul 2024{%- endmacro %}"
"""Put before templates, some of which mention today's date: values must not change from day to day."""

RENDER_TIMEOUT_SECONDS = 10.0
MAX_RENDERED_CHARACTERS = 1_000_000
MAX_MEMORY_BYTES = 1 << 29
"""What a template may take. Those of real models take milliseconds and write some hundred characters."""

Chat = Sequence[Mapping[str, str]]


class Message(NamedTuple):
    """A message that texts are scored as.

    Attributes
    ----------
    role
        ``user`` or ``assistant``.
    prompt
        What the user says before it, if anything.
    """

    role: str
    prompt: str | None = None


class ChatFrame(NamedTuple):
    """What stands around a message.

    Attributes
    ----------
    before
        The ids before it.
    after
        The control token right after it, if there is one.
    text_before
        What the template puts before it, as text.
    """

    before: tuple[int, ...]
    after: int | None
    text_before: str


def chat_frame(tokenizer: Any, message: Message, control: set[int]) -> ChatFrame:
    """Return what a tokenizer's chat template puts around a message.

    Parameters
    ----------
    tokenizer
        A transformers tokenizer that takes special tokens in a text as such.
    message
        Whose message it is, and what comes before it.
    control
        The ids of its special tokens.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise OptionError(
            "this model's tokeniser has no chat template, so `chat_template` cannot be used; leave it out, or choose a "
            "model that was trained on chats (their names often end in Instruct)."
        )
    rendered = _render(tokenizer, message, PROBES)
    frames = {_frame(tokenizer, chat, probe, control) for chat, probe in zip(rendered, PROBES, strict=True)}
    if len(frames) > 1 or None in frames:
        raise ModelError(
            "the tokeniser writes a message in its chat template in another way than a text by itself, so "
            "`chat_template` cannot be used with this model."
        )
    frame = frames.pop()
    assert frame is not None
    return frame


def _frame(tokenizer: Any, rendered: str, text: str, control: set[int]) -> ChatFrame | None:
    """Return what stands around one text in a chat; nothing if it is not written there as it is by itself."""
    start = rendered.rfind(text)
    if start < 0:
        return None
    end = start + len(text)
    through = _ids(tokenizer, rendered[:end])
    own = _ids(tokenizer, text)
    whole = _ids(tokenizer, rendered)
    n_before = len(through) - len(own)
    if n_before < 1 or through[n_before:] != own or whole[: len(through)] != through:
        return None
    following = whole[len(through) : len(through) + 1]
    after = following[0] if following and following[0] in control else None
    return ChatFrame(tuple(through[:n_before]), after, rendered[:start])


def _render(tokenizer: Any, message: Message, texts: Sequence[str]) -> list[str]:
    """Return chats, each of which ends in one of the texts."""
    earlier = [] if message.prompt is None else [{"role": "user", "content": message.prompt}]
    chats = [[*earlier, {"role": message.role, "content": text}] for text in texts]
    renderer = LimitedProcess("wordprob.models.huggingface.chat:run_renderer", RENDER_TIMEOUT_SECONDS)
    rendered = None
    with contextlib.closing(renderer):
        try:
            template = FIXED_DATE + tokenizer.get_chat_template()
            rendered, reason = renderer.ask((template, chats, dict(tokenizer.special_tokens_map)))
        except TimeoutError:
            reason = f"it took longer than {RENDER_TIMEOUT_SECONDS:g} seconds and was stopped"
        except EOFError:
            reason = "the process that renders it ended"
        except ValueError as error:  # of several templates, none is the default one
            reason = first_line(error)
    if rendered is None:
        needs_prompt = message.role == "assistant" and message.prompt is None
        advice = " Say what comes before the assistant's message with `chat_prompt`." if needs_prompt else ""
        raise ModelError(f"the chat template of this model cannot be used in this way: {reason}.{advice}")
    return list(rendered)


def _ids(tokenizer: Any, text: str) -> list[int]:
    return [int(i) for i in tokenizer(text, add_special_tokens=False)["input_ids"]]


# --- in the process that renders -------------------------------------------------------------------------------------


def run_renderer(channel: Channel) -> None:
    """Render the chats that arrive until the channel is closed: the texts, or ``None`` and why there are none."""
    import jinja2  # noqa: F401  # before the limit: a library that is loaded takes memory too

    limit_memory(MAX_MEMORY_BYTES)
    channel.send("ready")
    while True:
        try:
            channel.send((render(*channel.receive()), ""))
        except (EOFError, OSError):
            raise
        except MemoryError:
            channel.send((None, "it takes too much memory"))
        except Exception as error:  # templates raise what they like, most often that a chat begins with the user
            channel.send((None, first_line(error)))


def render(template: str, chats: Sequence[Chat], special_tokens: Mapping[str, str]) -> list[str]:
    """Return chats as a template writes them.

    Parameters
    ----------
    template
        The source of the template.
    chats
        The messages of each chat.
    special_tokens
        Names that the template may use: ``bos_token`` and its like.
    """
    compiled = _environment().from_string(template)
    return [_joined(compiled.generate(messages=chat, add_generation_prompt=False, **special_tokens)) for chat in chats]


def _joined(pieces: Iterable[str]) -> str:
    written: list[str] = []
    n_characters = 0
    for piece in pieces:
        n_characters += len(piece)
        if n_characters > MAX_RENDERED_CHARACTERS:
            raise ModelError(f"it writes more than {MAX_RENDERED_CHARACTERS:,} characters around a text")
        written.append(piece)
    return "".join(written)


def _environment() -> Any:
    """Return the sandbox that templates are written for, with the functions and tags that transformers gives them."""
    from jinja2 import TemplateError
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}`` marks what the model writes in training; it changes nothing here."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, indent: int | None = None, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent, **options)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    return environment
