"""How a tokenizer declares, in ``tokenizer.json``, that it writes its pieces.

What the pieces look like is no proof: a byte-level tokenizer with a handful of merges has hardly a piece with a ``Ġ``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from wordprob.core.vocabulary import METASPACE
from wordprob.models.huggingface.chunked_tokenization import REPLACE_SPACES, Step, steps_of

STEPS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
"""The steps of a tokenizer, and what a sequence of such steps calls them."""


def declared_convention(backend: Any) -> str | None:
    """Return the convention that a tokenizer declares, as :class:`wordprob.core.vocabulary.Vocabulary` calls it.

    Parameters
    ----------
    backend
        A ``tokenizers.Tokenizer``.

    Returns
    -------
    str or None
        ``None`` where nothing is declared, or there is no ``tokenizers.Tokenizer``.
    """
    if backend is None:
        return None
    steps = list(_declared_steps(backend))
    is_byte_level = any(step["type"] == "ByteLevel" for step in steps)
    if getattr(backend.model, "end_of_word_suffix", None) == "</w>":
        return "byte-level </w>" if is_byte_level else "</w>"
    if is_byte_level:
        return "byte-level"
    if getattr(backend.model, "continuing_subword_prefix", None) == "##":
        return "##"
    return "metaspace" if any(map(_writes_metaspace, steps)) else None


def _declared_steps(backend: Any) -> Iterator[Step]:
    """Yield all steps; one that is written in Python declares nothing."""
    for name, inner in STEPS.items():
        with suppress(Exception):
            yield from steps_of(getattr(backend, name), inner)


def _writes_metaspace(step: Step) -> bool:
    return step == REPLACE_SPACES or (step["type"] == "Metaspace" and step["replacement"] == METASPACE)
