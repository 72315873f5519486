r"""Long texts in pieces, cut where their tokens are sure to stay the same.

A cut stands before a single space between two letters. What the steps of a tokeniser do there is known one by one:

Added tokens
    are looked for first. None of them can touch the two letters or the space, or no text is cut.
Normalisers
    NFC neither composes nor reorders across a space: it is a starter, and nothing composes with it. Spaces become
    ``▁`` one by one. Where a ``▁`` is put before every text, it takes the place of the space at the cut, which is
    left out.
Pre-tokenisers
    Those that part the text at a cut do so whatever stands around it: no match of a known pattern holds a letter
    with a space after it, ``\s+`` leaves no space unmatched, and no known pattern looks back. So no match crosses a
    cut, one begins there, and those on either side are found without the other side. A prefix space is not added to
    a piece that begins with one.
The model
    gets the same pre-tokens then. Where nothing parts the text, it must be BPE without a token that has a ``▁`` after
    something else: so no merge crosses a cut, and the merges on either side do not know of each other.

A tokeniser with any other step is given its texts whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import regex

LONG = 2**16
"""Texts of more characters are tokenised in pieces."""

PIECE = 2**14
"""A piece ends at the first cut after so many characters."""

BATCH = 8
"""So many pieces are tokenised at a time."""

PROBE = (
    "She saw the mark. It's the marker's?  Two  spaces and   three,\ttab\tand a tab ,\nnewline and\n\n two, 12,345.67 "
    "or 2024 in all (so to say) – “quoted text” ‘or so’… naïve café or cafe\u0301 e\u0301te\u0301 là ÉTÉ и ещё слова "
    "中文 and 日本語 한국어 낱말 العربية كلمة עברית מילה हिन्दी शब्द ไทย 😀👩‍🔬 or x²\u00a0y\u2003z I'LL go "
    "<|endoftext|> or </s> a <unk> b ▁mark ▁ mark▁ Ġ or @@ ## </w> http://a.b/c?d=e f(x) = y; the end \n of it "
)
"""A text on which pieces and whole are compared before any text is cut."""

MARK = "▁"
CUT = regex.compile(r" (?<=\p{L} )(?=\p{L})")
TOUCHING = regex.compile(r"\A[\p{L}\p{M}]|[\p{L}\p{M}][ ▁]|[ ▁][\p{L}\p{M}]|[\p{L}\p{M}]\Z|\A[ ▁]\Z")
CROSSING = regex.compile(r"[^▁]▁")

NFC = {"type": "NFC"}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
PREPEND = {"type": "Prepend", "prepend": MARK}

UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ALTERNATIVES = (
    # GPT-2
    *("'s", "'t", "'re", "'ve", "'m", "'ll", "'d", r" ?\p{L}+", r" ?\p{N}+", r" ?[^\s\p{L}\p{N}]+"),
    # GPT-4, Llama 3, Qwen
    *(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\p{N}", r"\p{N}{1,3}"),
    *(r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+"),
    # GPT-4o
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    # all of them
    *(r"\s+(?!\S)", r"\s+"),
)
"""Parts of patterns that never match a letter and a space after it, and do not look back."""

_ALTERNATIVE = "(?:" + "|".join(map(regex.escape, ALTERNATIVES)) + ")"
KNOWN = regex.compile(rf"(?:{_ALTERNATIVE}\|)*\\s\+")
"""Patterns made of these that match every white space."""

Step = Mapping[str, Any]


def cut(text: str, size: int, left_out: int) -> Iterator[str]:
    """Cut a text into pieces of ``size`` characters and more, as far as there are cuts.

    >>> list(cut("To be, or not to be", 1, 0)), list(cut("To be, or not to be", 8, 1))
    (['To', ' be, or', ' not', ' to', ' be'], ['To be, or', 'not to be'])
    """
    begin = 0
    while found := CUT.search(text, begin + size):
        yield text[begin : found.start()]
        begin = found.start() + left_out
    yield text[begin:]


def left_out(backend: Any) -> int | None:
    """Return how many characters a cut leaves out, the space or nothing; ``None`` where a cut could change tokens.

    Parameters
    ----------
    backend
        A ``tokenizers.Tokenizer``.
    """
    try:
        normalizers = _steps(_state(backend.normalizer), "normalizers")
        pre_tokenizers = _steps(_state(backend.pre_tokenizer), "pretokenizers")
    except Exception:  # a step written in Python, of which nothing is known
        return None
    changes = [step for step in normalizers if step != NFC]
    if changes not in ([], [REPLACE], [PREPEND, REPLACE], [REPLACE, PREPEND]):
        return None
    parted = _parted(pre_tokenizers, marked=REPLACE in changes)
    if parted is None or getattr(backend.model, "dropout", None) or _touched(backend):
        return None
    return int(PREPEND in changes) if parted or _words_apart(backend) else None


def _state(step: Any) -> Step | None:
    return None if step is None else json.loads(step.__getstate__())


def _steps(state: Step | None, inner: str) -> list[Step]:
    """Lay out steps within steps one after another."""
    if state is None:
        return []
    return [s for part in state[inner] for s in _steps(part, inner)] if state["type"] == "Sequence" else [state]


def _parted(steps: Iterable[Step], marked: bool) -> bool | None:
    """Say whether pre-tokenisers part a text at every cut, or at none for all that is known; ``None``: who knows.

    ``marked`` says that spaces have become ``▁``.
    """
    parted = False
    for step in steps:
        kind = step["type"]
        if marked:  # only looking for spaces, of which there are none, is sure to do nothing
            if kind != "Split" or step["pattern"] != {"String": " "} or step["invert"]:
                return None
        elif kind == "Metaspace" and not parted and step["replacement"] == MARK:
            marked, parted = True, step["split"]
        elif kind in ("Digits", "Punctuation") or (parted and kind in ("Split", "ByteLevel")):
            continue  # letters and spaces are neither; or each part goes its own way
        elif (kind == "ByteLevel" and step["use_regex"]) or (kind == "Split" and _known(step)):
            parted = True
        else:
            return None
    return parted if parted or marked else None


def _known(split: Step) -> bool:
    pattern = split["pattern"].get("Regex", "")
    return split["behavior"] == "Isolated" and not split["invert"] and KNOWN.fullmatch(pattern) is not None


def _touched(backend: Any) -> bool:
    """Say whether an added token, as it is written or as it is looked for, could touch what stands around a cut."""
    contents = {token.content for token in backend.get_added_tokens_decoder().values()}
    if backend.normalizer is not None:
        contents |= {backend.normalizer.normalize_str(content) for content in contents}
    return any(map(TOUCHING.search, contents))


def _words_apart(backend: Any) -> bool:
    """Say whether the model itself never joins a ``▁`` to what stands before it."""
    model = backend.model
    if type(model).__name__ != "BPE" or model.ignore_merges:
        return False
    if model.continuing_subword_prefix or model.end_of_word_suffix or (model.unk_token or "").endswith(MARK):
        return False
    known = backend.get_vocab(with_added_tokens=False)
    return MARK in known and not any(map(CROSSING.search, known))
