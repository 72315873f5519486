r"""Long texts are tokenized in chunks, cut where the tokens are certain to stay the same; short ones are joined there.

A cut is before a single space between two letters. What each step of a tokenizer does at such a place is known:

Added tokens
    are searched for first. A tokenizer with an added token that could touch the two letters or the space is not cut.
Normalizers
    NFC neither composes nor reorders across a space: a space is a starter, and nothing composes with it. Spaces become
    ``▁`` one by one. Where a ``▁`` is put before every text, it replaces the space at the cut, which is dropped.
Pre-tokenizers
    Those that split a text at a cut do so whatever is around it: no match of a known pattern contains a letter
    followed by a space, ``\s+`` leaves no space unmatched, and no known pattern looks back. So no match crosses a
    cut, one begins there, and those on either side are found without the other side. A prefix space is not added to
    a chunk that begins with one.
The model
    then receives the same pre-tokens. Where nothing splits the text, the model must be BPE without a token that has a
    ``▁`` after something else: then no merge crosses a cut, and the merges on either side are independent.

A tokenizer with any other step receives its texts whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import regex

MAX_WHOLE_CHARACTERS = 2**16
"""Longer texts are tokenized in chunks."""

CHUNK_CHARACTERS = 2**14
"""A chunk ends at the first cut after this many characters."""

CHUNKS_AT_A_TIME = 8
"""How many chunks are tokenized together."""

PROBE_TEXT = (
    "She saw the mark. It's the marker's?  Two  spaces and   three,\ttab\tand a tab ,\nnewline and\n\n two, 12,345.67 "
    "or 2024 in all (so to say) – “quoted text” ‘or so’… naïve café or cafe\u0301 e\u0301te\u0301 là ÉTÉ и ещё слова "
    "中文 and 日本語 한국어 낱말 العربية كلمة עברית מילה हिन्दी शब्द ไทย 😀👩‍🔬 or x²\u00a0y\u2003z I'LL go "
    "<|endoftext|> or </s> a <unk> b ▁mark ▁ mark▁ Ġ or @@ ## </w> http://a.b/c?d=e f(x) = y; the end \n of it "
)
"""A text whose chunks are compared with the whole before any other text is cut."""

SPACE_MARK = "▁"
CUT_PATTERN = regex.compile(r" (?<=\p{L} )(?=\p{L})")
TOUCHES_CUT = regex.compile(r"\A[\p{L}\p{M}]|[\p{L}\p{M}][ ▁]|[ ▁][\p{L}\p{M}]|[\p{L}\p{M}]\Z|\A[ ▁]\Z")
CROSSES_CUT = regex.compile(r"[^▁]▁")

NFC = {"type": "NFC"}
REPLACE_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}
PREPEND_MARK = {"type": "Prepend", "prepend": SPACE_MARK}
KNOWN_NORMALIZERS: tuple[list[Any], ...] = (
    [],
    [REPLACE_SPACES],
    [PREPEND_MARK, REPLACE_SPACES],
    [REPLACE_SPACES, PREPEND_MARK],
)

UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
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
"""Alternatives of patterns that never match a letter followed by a space, and do not look back."""

_ALTERNATIVE = "(?:" + "|".join(map(regex.escape, ALTERNATIVES)) + ")"
KNOWN_PATTERN = regex.compile(rf"(?:{_ALTERNATIVE}\|)*\\s\+")
"""Matches patterns that are made of these alternatives and match all white space."""

Step = Mapping[str, Any]
"""The state of a normalizer or pre-tokenizer, as the ``tokenizers`` library serializes it."""


def chunks(text: str, size: int, dropped: int) -> Iterator[str]:
    """Yield a text in chunks of ``size`` characters or more, as far as there are cuts.

    ``dropped`` is what :func:`characters_dropped_at_cut` returned.

    >>> list(chunks("To be, or not to be", 1, 0))
    ['To', ' be, or', ' not', ' to', ' be']
    >>> list(chunks("To be, or not to be", 8, 1))
    ['To be, or', 'not to be']
    """
    begin = 0
    while match := CUT_PATTERN.search(text, begin + size):
        yield text[begin : match.start()]
        begin = match.start() + dropped
    yield text[begin:]


def joined_runs(texts: Sequence[str], dropped: int) -> Iterator[list[str]]:
    """Yield texts in runs that have the same tokens joined as apart: at each joint there is a cut.

    ``dropped`` is what :func:`characters_dropped_at_cut` returned.

    >>> list(joined_runs(["To be", " or", " not.", " to", "be"], 0))
    [['To be', ' or', ' not.'], [' to'], ['be']]
    """
    space = " " * dropped
    run: list[str] = []
    n_characters = 0
    for text in texts:
        joint = run[-1][-1:] + space + text[: 2 - dropped] if run else ""
        if not CUT_PATTERN.search(joint) or n_characters > CHUNK_CHARACTERS:
            if run:
                yield run
            run = []
            n_characters = 0
        run.append(text)
        n_characters += len(text)
    if run:
        yield run


def characters_dropped_at_cut(backend: Any) -> int | None:
    """Return how many characters a cut drops: 1 (the space) or 0; ``None`` where a cut could change tokens.

    Parameters
    ----------
    backend
        A ``tokenizers.Tokenizer``.
    """
    try:
        normalizers = steps_of(backend.normalizer, "normalizers")
        pre_tokenizers = steps_of(backend.pre_tokenizer, "pretokenizers")
    except Exception:  # a step written in Python, about which nothing is known
        return None
    changes = [step for step in normalizers if step != NFC]
    if changes not in KNOWN_NORMALIZERS:
        return None
    splits = _splits_at_cuts(pre_tokenizers, spaces_are_marks=REPLACE_SPACES in changes)
    if splits is None or getattr(backend.model, "dropout", None) or _has_added_token_at_cut(backend):
        return None
    if not splits and not _merges_stay_within_words(backend):
        return None
    return int(PREPEND_MARK in changes)


def steps_of(step: Any, inner: str) -> list[Step]:
    """Return a step of a tokenizer, and the steps that it has under the name ``inner``, as one list."""
    return _flat_steps(None if step is None else json.loads(step.__getstate__()), inner)


def _flat_steps(state: Step | None, inner: str) -> list[Step]:
    """Return steps, and steps within steps, as one list."""
    if state is None:
        return []
    if state["type"] != "Sequence":
        return [state]
    steps: list[Step] = []
    for part in state[inner]:
        steps += _flat_steps(part, inner)
    return steps


def _splits_at_cuts(steps: Iterable[Step], spaces_are_marks: bool) -> bool | None:
    """Return True if pre-tokenizers split a text at every cut, False if at none, and ``None`` if that is not known."""
    splits = False
    for step in steps:
        step_type = step["type"]
        if spaces_are_marks:
            # There are no spaces any more, so only a step that searches for spaces is certain to do nothing.
            if step_type != "Split" or step["pattern"] != {"String": " "} or step["invert"]:
                return None
        elif step_type == "Metaspace" and not splits and step["replacement"] == SPACE_MARK:
            spaces_are_marks = True
            splits = step["split"]
        elif step_type in ("Digits", "Punctuation"):
            continue  # letters and spaces are neither
        elif splits and step_type in ("Split", "ByteLevel"):
            continue  # it works on each side of the cut separately
        elif (step_type == "ByteLevel" and step["use_regex"]) or (step_type == "Split" and _is_known_split(step)):
            splits = True
        else:
            return None
    return splits if splits or spaces_are_marks else None


def _is_known_split(split: Step) -> bool:
    pattern = split["pattern"].get("Regex", "")
    return split["behavior"] == "Isolated" and not split["invert"] and KNOWN_PATTERN.fullmatch(pattern) is not None


def _has_added_token_at_cut(backend: Any) -> bool:
    """Return True if an added token, as written or as searched for, could touch the characters around a cut."""
    contents = {token.content for token in backend.get_added_tokens_decoder().values()}
    if backend.normalizer is not None:
        contents |= {backend.normalizer.normalize_str(content) for content in contents}
    return any(map(TOUCHES_CUT.search, contents))


def _merges_stay_within_words(backend: Any) -> bool:
    """Return True if the model never joins a ``▁`` to what comes before it."""
    model = backend.model
    if type(model).__name__ != "BPE" or model.ignore_merges:
        return False
    if model.continuing_subword_prefix or model.end_of_word_suffix or (model.unk_token or "").endswith(SPACE_MARK):
        return False
    tokens = backend.get_vocab(with_added_tokens=False)
    return SPACE_MARK in tokens and not any(map(CROSSES_CUT.search, tokens))
