"""Chat templates: what a model sees before and after a text that is a message of a chat.

The template of a tokenizer is rendered around a few probe texts. What it puts before them becomes the opening of every
text, and a control token right after them ends a text. This works only if the tokenizer writes a message in a chat as
it writes a text by itself, which the probes show.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from wordprob.errors import ModelError, OptionError

PROBES = ("mark", "The mark.", "2 marks", "éa", "(mark)")
"""Texts that a template is tried on."""

FIXED_DATE = "{%- macro strftime_now(format) -%}26 Jul 2024{%- endmacro %}"
"""Put before templates, some of which mention today's date: values must not change from day to day."""


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
    frames = {_frame(tokenizer, message, probe, control) for probe in PROBES}
    if len(frames) > 1 or None in frames:
        raise ModelError(
            "the tokeniser writes a message in its chat template in another way than a text by itself, so "
            "`chat_template` cannot be used with this model."
        )
    frame = frames.pop()
    assert frame is not None
    return frame


def _frame(tokenizer: Any, message: Message, text: str, control: set[int]) -> ChatFrame | None:
    """Return what stands around one text; nothing if the text is not written there as it is by itself."""
    rendered = _render(tokenizer, message, text)
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


def _render(tokenizer: Any, message: Message, text: str) -> str:
    """Return a chat that ends in a text."""
    earlier = [] if message.prompt is None else [{"role": "user", "content": message.prompt}]
    messages = [*earlier, {"role": message.role, "content": text}]
    try:
        template = FIXED_DATE + tokenizer.get_chat_template()
        return str(tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False))
    except Exception as error:  # templates raise what they like, most often that a chat begins with the user
        needs_prompt = message.role == "assistant" and message.prompt is None
        advice = " Say what comes before the assistant's message with `chat_prompt`." if needs_prompt else ""
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(". ")
        raise ModelError(f"the chat template of this model cannot be used in this way: {reason}.{advice}") from error


def _ids(tokenizer: Any, text: str) -> list[int]:
    return [int(i) for i in tokenizer(text, add_special_tokens=False)["input_ids"]]
