"""Contexts that many texts begin with: tokenized once, and kept out of the texts where they are long.

A context can be cut where its tokens are certain to stay the same (:meth:`wordprob.models.protocol.Tokenizer.cut`).
Its *head*, which is most of a long context, is then only ids that the model sees first. The texts begin with the rest
of it, as much as word definitions and spellings look at.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Ints, concat_ranges, cumulative_offsets
from wordprob.core.vocabulary import TokenizedTexts, Tokens
from wordprob.core.word_definition import LEFT_CONTEXT_CHARACTERS
from wordprob.models.protocol import Tokenizer

LAST_WORD_CHARACTERS = 32
"""Characters after the head of a context, at least, besides those that definitions look at: the last word. Spellings
need no more, as no token reaches over the cut."""
MIN_CONTEXT_CHARACTERS = 384
"""Shorter contexts stay part of their texts."""
MAX_LAST_CHARACTERS = 64
"""Characters before a place in a context among which the last cut before it is looked for."""


class ContextHead(NamedTuple):
    """The beginning of a context.

    Attributes
    ----------
    ids
        Its tokens.
    stop
        Where the rest of the context begins, in characters.
    """

    ids: Ints
    stop: int


NO_HEAD = ContextHead(np.zeros(0, dtype=np.int64), 0)

Cut = tuple[int, int]
"""Where the first part of a text ends, and where the rest begins."""
NO_CUT: Cut = (0, 0)


def heads_of(
    texts: Sequence[str],
    contexts: Sequence[str],
    tokenizer: Tokenizer,
    max_text_tokens: int | None,
    looks_back: int = LEFT_CONTEXT_CHARACTERS,
) -> list[ContextHead]:
    """Return the head of each text's context; an empty one where the context is short, or is not that of other texts.

    Parameters
    ----------
    texts, contexts
        The texts, and the context that each begins with.
    tokenizer
        The model's tokenizer.
    max_text_tokens
        How many tokens of a text fit into the model's context. A text that may have more keeps its head.
    looks_back
        How many characters before a word its definition looks at.
    """
    heads = {
        context: _head(context, tokenizer, looks_back) if count > 1 else NO_HEAD
        for context, count in Counter(contexts).items()
    }
    found = [heads[context] for context in contexts]
    if max_text_tokens is None:
        return found
    return [
        head if len(head.ids) + _most_tokens(text, head.stop) <= max_text_tokens else NO_HEAD
        for text, head in zip(texts, found, strict=True)
    ]


def _most_tokens(text: str, begin: int) -> float:
    """Return the most tokens that a text can have from a place on.

    There is one for each byte, and one for a space that is put before it.
    """
    if text.isascii():
        return len(text) - begin + 1
    text = text[begin:]
    if not unicodedata.is_normalized("NFC", text):
        return math.inf  # a tokenizer may compose and decompose characters
    return len(text.encode("utf-8", "surrogatepass")) + 1


def _head(context: str, tokenizer: Tokenizer, looks_back: int) -> ContextHead:
    if len(context) < MIN_CONTEXT_CHARACTERS:
        return NO_HEAD
    cut = _last_cut(context, len(context) - looks_back - LAST_WORD_CHARACTERS, tokenizer)
    return NO_HEAD if cut is None else ContextHead(tokenizer.encode([context[: cut[0]]])[0].ids, cut[1])


def encode_sharing(tokenizer: Tokenizer, texts: Sequence[str], context_lengths: Sequence[int]) -> Sequence[Tokens]:
    """Tokenize texts; what several of them begin with is tokenized once.

    Parameters
    ----------
    tokenizer
        The model's tokenizer.
    texts
        The texts.
    context_lengths
        How many characters at the beginning of each are a context.
    """
    contexts = [text[:length] for text, length in zip(texts, context_lengths, strict=True)]
    # Whether a text can be cut where its context ends depends on the character that comes next.
    openings = [text[: length + 1] for text, length in zip(texts, context_lengths, strict=True)]
    counts = Counter(contexts)
    cuts: dict[str, Cut] = {}
    for opening, context in dict(zip(openings, contexts, strict=True)).items():
        cut = _last_cut(opening, len(opening), tokenizer) if counts[context] > 1 else None
        cuts[opening] = cut or NO_CUT
    firsts = list(dict.fromkeys(opening[:stop] for opening, (stop, _) in cuts.items()))
    if firsts == [""]:
        return tokenizer.encode(texts)
    rests = [text[cuts[opening][1] :] for text, opening in zip(texts, openings, strict=True)]
    pieces = TokenizedTexts.of(tokenizer.encode([*firsts, *rests]))
    first_numbers = {first: number for number, first in enumerate(firsts)}
    joints = {opening: (first_numbers[opening[: cut[0]]], *_in_bytes(opening, cut)) for opening, cut in cuts.items()}
    return _join_parts(pieces, *np.array([joints[opening] for opening in openings], dtype=np.int64).T)


def _in_bytes(text: str, cut: Cut) -> Cut:
    """Return a cut in bytes."""
    stop, begin = cut
    return len(text[:stop].encode("utf-8", "surrogatepass")), len(text[:begin].encode("utf-8", "surrogatepass"))


def _last_cut(text: str, end: int, tokenizer: Tokenizer) -> Cut | None:
    """Return the last place before ``end`` at which a text can be cut, if there is one near."""
    last = None
    for size in (MAX_LAST_CHARACTERS // 16, MAX_LAST_CHARACTERS):
        place = max(0, end - size)
        while (cut := tokenizer.cut(text, place)) is not None and cut[1] <= end:
            last = cut
            place = cut[0] + 1
        if last is not None:
            break
    return last


def _join_parts(pieces: TokenizedTexts, first_numbers: Ints, stops: Ints, begins: Ints) -> TokenizedTexts:
    """Return the tokens of texts from those of their two parts.

    What lies between the two parts, a space, belongs to the first token of the rest.

    Parameters
    ----------
    pieces
        The different first parts, and then the rest of each text.
    first_numbers
        Which of the pieces each text begins with.
    stops, begins
        Where the first part of each text stops and the rest begins, in bytes.
    """
    rest_numbers = np.arange(len(pieces) - len(first_numbers), len(pieces))
    numbers = np.stack([first_numbers, rest_numbers], axis=1).ravel()
    lengths = np.diff(pieces.offsets)[numbers]
    tokens = concat_ranges(pieces.offsets[numbers], lengths)
    shifts = np.repeat(np.stack([np.zeros_like(begins), begins], axis=1).ravel(), lengths)
    offsets = cumulative_offsets(lengths)
    starts = pieces.starts[tokens] + shifts
    is_joined = (lengths[::2] > 0) & (lengths[1::2] > 0)
    starts[offsets[1:-1:2][is_joined]] = stops[is_joined]
    return TokenizedTexts(
        ids=pieces.ids[tokens],
        starts=starts,
        ends=pieces.ends[tokens] + shifts,
        offsets=offsets[::2],
        exact=pieces.exact[first_numbers] & pieces.exact[rest_numbers],
    )
