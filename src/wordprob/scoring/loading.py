"""From a name to a scorer."""

from __future__ import annotations

from pathlib import Path

from wordprob.models import open_model
from wordprob.options import DEFAULT_MODEL
from wordprob.scoring.scorer import Scorer


def load(
    model: str | Path = DEFAULT_MODEL,
    *,
    bos: str | int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    compile: bool = False,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Scorer:
    """Open a model and return a scorer for it.

    Parameters
    ----------
    model
        A short name (``wordprob models`` lists them), a Hugging Face hub id, a directory, or a ``.gguf`` file.
    bos
        The start-of-text token, by its text or id, or ``"none"``; by default the one that stands before a document.
    device
        ``auto``, ``cpu``, ``cuda`` or ``mps``.
    dtype
        ``auto`` (float32, or the checkpoint's own on a GPU), ``float32``, ``bfloat16`` or ``float16``.
    compile
        Compile the model with ``torch.compile`` first. It takes a minute or so and pays on a GPU, for long runs.
    revision
        Branch, tag or commit on the hub.
    trust_remote_code
        Run code that comes with the model. Off unless asked for.
    """
    opened = open_model(
        model,
        bos=bos,
        device=device,
        dtype=dtype,
        compile=compile,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    return Scorer(opened)


def model_label(model: str | Path) -> str:
    """Return what tables call a model: a short name as it is, a path by its last part.

    Examples
    --------
    >>> model_label("exact:bow")
    'exact:bow'
    """
    return Path(model).name.removesuffix(".gguf") if Path(model).exists() else str(model)
