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

from wordprob.core.arrays import Ints, cumulative_offsets
from wordprob.core.vocabulary import Tokens
from wordprob.models.protocol import Tokenizer
from wordprob.scoring.batching import OVERLAP_CHARACTERS

MIN_CONTEXT_CHARACTERS = 2 * OVERLAP_CHARACTERS
"""Shorter contexts stay part of their texts."""
MAX_LAST_CHARACTERS = 64
"""Characters before the end of a context among which the last cut is looked for."""


class Head(NamedTuple):
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


NO_HEAD = Head(np.zeros(0, dtype=np.int64), 0)
NO_TOKENS = Tokens(NO_HEAD.ids, NO_HEAD.ids, NO_HEAD.ids)
NO_CUT = (0, 0)


def heads_of(
    texts: Sequence[str], context_lengths: Sequence[int], tokenizer: Tokenizer, max_text_tokens: int | None
) -> list[Head]:
    """Return the head of each text's context; an empty one where the context is short, or is not that of other texts.

    Parameters
    ----------
    texts, context_lengths
        The texts, and how many characters at the beginning of each are its context.
    tokenizer
        The model's tokenizer.
    max_text_tokens
        How many tokens of a text fit into the model's context. A text that may have more keeps its head.
    """
    contexts = [text[:length] for text, length in zip(texts, context_lengths, strict=True)]
    heads = {
        context: _head(context, tokenizer) if count > 1 else NO_HEAD for context, count in Counter(contexts).items()
    }
    found = []
    for text, context in zip(texts, contexts, strict=True):
        head = heads[context]
        fits = max_text_tokens is None or len(head.ids) + _most_tokens(text[head.stop :]) <= max_text_tokens
        found.append(head if fits else NO_HEAD)
    return found


def _most_tokens(text: str) -> float:
    """Return the most tokens that a text can have: one for each byte, and one for a space that is put before it."""
    if not unicodedata.is_normalized("NFC", text):
        return math.inf  # a tokenizer may compose and decompose characters
    return len(text.encode("utf-8", "surrogatepass")) + 1


def _head(context: str, tokenizer: Tokenizer) -> Head:
    if len(context) < MIN_CONTEXT_CHARACTERS:
        return NO_HEAD
    # The first cut after this place leaves enough of the context, unless there is none for long.
    cut = tokenizer.cut(context, len(context) - OVERLAP_CHARACTERS - MAX_LAST_CHARACTERS)
    if cut is None or len(context) - cut[1] < OVERLAP_CHARACTERS:
        return NO_HEAD
    return Head(tokenizer.encode([context[: cut[0]]])[0].ids, cut[1])


def encode_sharing(tokenizer: Tokenizer, texts: Sequence[str], context_lengths: Sequence[int] | None) -> list[Tokens]:
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
    if context_lengths is None or len(texts) < 2:
        return tokenizer.encode(texts)
    contexts = [text[:length] for text, length in zip(texts, context_lengths, strict=True)]
    cuts = {context: _last_cut(context, tokenizer) for context, count in Counter(contexts).items() if count > 1}
    places = {context: cut for context, cut in cuts.items() if cut is not None}
    if not places:
        return tokenizer.encode(texts)
    rests = [text[places.get(context, NO_CUT)[1] :] for text, context in zip(texts, contexts, strict=True)]
    encoded = tokenizer.encode([*(context[: cut[0]] for context, cut in places.items()), *rests])
    firsts = dict(zip(places, encoded, strict=False))
    in_bytes = {context: _bytes_before(context, cut) for context, cut in places.items()}
    parts = [
        (firsts.get(context, NO_TOKENS), rest, *in_bytes.get(context, NO_CUT))
        for context, rest in zip(contexts, encoded[len(firsts) :], strict=True)
    ]
    return _join_parts(parts)


def _bytes_before(context: str, cut: tuple[int, int]) -> tuple[int, int]:
    """Return a cut in bytes."""
    stop, begin = cut
    return len(context[:stop].encode("utf-8", "surrogatepass")), len(context[:begin].encode("utf-8", "surrogatepass"))


def _last_cut(context: str, tokenizer: Tokenizer) -> tuple[int, int] | None:
    """Return the last place at which a context can be cut, if there is one near its end."""
    last = None
    place = max(0, len(context) - MAX_LAST_CHARACTERS)
    while (cut := tokenizer.cut(context, place)) is not None:
        last = cut
        place = cut[0] + 1
    return last


def _join_parts(parts: Sequence[tuple[Tokens, Tokens, int, int]]) -> list[Tokens]:
    """Return the tokens of texts from those of their two parts.

    Each text has its first part, its rest, and where the first part stops and the rest begins, in bytes. What lies
    between them, a space, belongs to the first token of the rest.
    """
    pieces = [piece for first, rest, _, _ in parts for piece in (first, rest)]
    lengths = np.array([len(piece.ids) for piece in pieces])
    offsets = cumulative_offsets(lengths)
    shifts = np.zeros(len(pieces), dtype=np.int64)
    shifts[1::2] = [begin for _, _, _, begin in parts]
    shift_of_token = np.repeat(shifts, lengths)
    ids = np.concatenate([piece.ids for piece in pieces])
    starts = np.concatenate([piece.starts for piece in pieces]) + shift_of_token
    ends = np.concatenate([piece.ends for piece in pieces]) + shift_of_token
    is_joined = (lengths[::2] > 0) & (lengths[1::2] > 0)
    starts[offsets[1:-1:2][is_joined]] = np.array([stop for _, _, stop, _ in parts])[is_joined]
    edges = offsets[::2].tolist()
    joined = []
    for number, (first, rest, _, _) in enumerate(parts):
        own = slice(edges[number], edges[number + 1])
        joined.append(Tokens(ids[own], starts[own], ends[own], first.exact and rest.exact))
    return joined
