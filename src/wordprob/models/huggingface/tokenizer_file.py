"""Whether a tokenizer, as transformers loads it, writes texts as its own file says.

transformers may rebuild steps of a fast tokenizer from its configuration, so that ``tokenizer.json`` alone would give
other tokens. The model is scored with what transformers loads; a user should know that the two differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wordprob.models.huggingface.chunked_tokenization import PROBE_TEXT

FILE_NAME = "tokenizer.json"
PROBES = (
    "She saw the mark.",
    " She saw it",
    "\nShe",
    "It's 5'2\"  (or so) …",
    "½ naïve ﬁne cafe\u0301 中文",
    PROBE_TEXT,
)
SHOWN_CHARACTERS = 20


def difference_from_file(tokenizer: Any) -> str:
    """Return in a few words where a loaded tokenizer differs from its file; an empty string if it does not.

    Parameters
    ----------
    tokenizer
        What ``AutoTokenizer.from_pretrained`` returned.
    """
    loaded = getattr(tokenizer, "backend_tokenizer", None)
    path = _file_of(tokenizer)
    if loaded is None or path is None:
        return ""
    from tokenizers import Tokenizer

    stored = Tokenizer.from_file(str(path))
    stored.no_truncation()
    stored.no_padding()
    stored.encode_special_tokens = loaded.encode_special_tokens
    for probe in PROBES:
        as_loaded, as_stored = (_tokens(backend, probe) for backend in (loaded, stored))
        if as_loaded != as_stored:
            return f"'{_shown(probe)}' is {_start(as_loaded, as_stored)}, by {FILE_NAME} {_start(as_stored, as_loaded)}"
    return ""


def _file_of(tokenizer: Any) -> Path | None:
    """Return the tokenizer's file, in its folder or in the cache of the hub; nothing is fetched."""
    name = str(tokenizer.name_or_path)
    if Path(name).is_dir():
        path = Path(name) / FILE_NAME
        return path if path.is_file() else None
    from transformers.utils import cached_file

    try:
        found = cached_file(name, FILE_NAME, local_files_only=True)
    except (OSError, ValueError):
        return None
    return None if found is None else Path(found)


def _tokens(backend: Any, text: str) -> list[str]:
    return list(backend.encode(text, add_special_tokens=False).tokens)


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def _start(tokens: Sequence[str], others: Sequence[str]) -> str:
    """Return tokens up to the first that differs."""
    same = next((n for n, pair in enumerate(zip(tokens, others, strict=False)) if pair[0] != pair[1]), len(others))
    return " ".join(tokens[: same + 1]) or "nothing"
