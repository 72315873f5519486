"""Open a model by its name, ready to score."""

from __future__ import annotations

from pathlib import Path

from wordprob.models import open_model
from wordprob.models.registry import model_label
from wordprob.options import DEFAULT_MODEL, ModelOptions
from wordprob.scoring.scorer import Scorer

__all__ = ["load", "model_label"]


def load(
    model: str | Path = DEFAULT_MODEL,
    *,
    bos: str | int | None = None,
    chat_template: str | None = None,
    chat_prompt: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    compile: bool = False,
    revision: str | None = None,
    trust_remote_code: bool = False,
    tokenizer: str | None = None,
    top_logprobs: int = 20,
) -> Scorer:
    """Open a model and return a scorer for it.

    Parameters
    ----------
    model
        A short name (``wordprob models`` lists them), a Hugging Face hub id, a directory, a ``.gguf`` file, or
        ``BACKEND:SOURCE`` with the name of a registered backend. ``NAME@REVISION`` is a revision of a model on the hub,
        such as a checkpoint: ``pythia-160m@step1000``. The address of a server, ``https://…`` (or
        ``openai:NAME@https://…``), is a model that the server runs.
    bos
        The start-of-text token, by its text or id, or ``"none"``; by default the one that precedes a document in
        training.
    chat_template
        ``user`` or ``assistant``: texts are scored as messages of this role, inside the model's chat template. What the
        template puts before the message is context.
    chat_prompt
        For ``chat_template="assistant"``: what the user says before the assistant's message.
    device
        ``auto``, ``cpu``, ``cuda`` or ``mps``.
    dtype
        ``auto`` (the checkpoint's own on a GPU, float32 elsewhere), ``float32``, ``bfloat16`` or ``float16``.
    compile
        Compile the model with ``torch.compile`` first. It takes a minute or so and pays off on a GPU, for long runs.
    revision
        Branch, tag or commit on the hub, unless the name has it.
    trust_remote_code
        Run code that comes with the model. Off by default.
    tokenizer
        For a model on a server: where its tokenizer is, a hub id, a directory or a ``.gguf`` file; by default what the
        server names.
    top_logprobs
        For a model on a server: how many tokens it lists at each place. The more, the narrower the interval between
        ``surprisal_low`` and ``surprisal_high``.
    """
    options = ModelOptions(
        model=str(model),
        bos=bos,
        chat_template=chat_template,
        chat_prompt=chat_prompt,
        device=device,
        dtype=dtype,
        compile=compile,
        revision=revision,
        trust_remote_code=trust_remote_code,
        tokenizer=tokenizer,
        top_logprobs=top_logprobs,
    )
    return Scorer(open_model(options))
