"""Texts as tokenizers read them that leave out white space: where pre-tokens end stands a byte that no text has.

Such a tokenizer (``</w>``, ``@@``, ``##``) shows by a mark on its tokens where pre-tokens end. Whether white space was
there, the tokens do not tell: it is taken for granted where writers put it. So a text as it is read has an edge at its
white space; and where no white space is usual, tokens may have an edge or none, and write the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from wordprob.core.arrays import cumulative_offsets
from wordprob.core.characters import CONTINUES, LETTER, OPENING, SPACE, Label, character_class, usually_spaced
from wordprob.core.vocabulary import Vocabulary

EDGE, OPTIONAL_EDGE = b"\xff", b"\xfe"
"""Where a pre-token ends, and where one may end or not."""

UNKNOWN_PIECE = b"x"
"""What the unknown token is read as: one letter, nobody knows which."""


def split_edges(data: bytes) -> tuple[bytes, dict[int, bytes]]:
    r"""Return what is written in a text as it is read, and the edges by their places in that.

    >>> split_edges(b"mark" + OPTIONAL_EDGE + b"." + EDGE)
    (b'mark.', {4: b'\xfe', 5: b'\xff'})
    """
    written, edges = bytearray(), dict[int, bytes]()
    for byte in data:
        if byte >= OPTIONAL_EDGE[0]:
            edges[len(written)] = bytes([byte])
        else:
            written.append(byte)
    return bytes(written), edges


def pieces_as_read(vocabulary: Vocabulary, ids: Sequence[int], after_space: Sequence[bool]) -> list[bytes]:
    """Return the bytes of each token of a text with the edges at which pre-tokens end, or may end.

    Parameters
    ----------
    vocabulary, ids
        The vocabulary, and the tokens of the text.
    after_space
        Whether white space stands before each token in the text.
    """
    written = [UNKNOWN_PIECE if token == vocabulary.unknown else vocabulary.token_bytes[token] for token in ids]
    edges = _edges(vocabulary, ids, after_space, written)
    pieces, offset, is_closed = [], 0, True
    for token, content in zip(ids, written, strict=True):
        piece = bytearray()
        for k, byte in enumerate(content):
            # An edge belongs to the token before it if that has the mark.
            piece += b"" if k == 0 and is_closed and not vocabulary.spaced[token] else edges.get(offset + k, b"")
            piece.append(byte)
        offset += len(content)
        is_closed = bool(vocabulary.marked[token])
        pieces.append(bytes(piece) + (edges.get(offset, OPTIONAL_EDGE) if is_closed else b""))
    return pieces


def _edges(
    vocabulary: Vocabulary, ids: Sequence[int], after_space: Sequence[bool], written: Sequence[bytes]
) -> dict[int, bytes]:
    """Return the edges by their places in what is written."""
    starts = cumulative_offsets(map(len, written)).tolist()
    observed = {
        start: has_space
        for start, has_space, before, token in zip(starts[1:], after_space[1:], ids, ids[1:], strict=False)
        if vocabulary.marked[before] or vocabulary.spaced[token]
    }
    text = b"".join(written).decode("utf-8", "surrogateescape")
    places = cumulative_offsets([len(c.encode("utf-8", "surrogateescape")) for c in text]).tolist()
    edges = {0: EDGE} if ids and vocabulary.spaced[ids[0]] else {}
    last = SPACE
    for place, (left, right) in zip(places[1:], pairwise(text), strict=False):
        last = last if character_class(left) == CONTINUES else character_class(left)
        if is_spaced(vocabulary, last, character_class(right)):
            edges |= {place: EDGE if observed[place] else OPTIONAL_EDGE} if place in observed else {}
        else:
            edges[place] = OPTIONAL_EDGE
    return edges


def is_spaced(vocabulary: Vocabulary, left: Label, right: Label) -> bool:
    """Return True if an edge between characters of these classes is read as white space."""
    if vocabulary.spaced.any():
        return right in (LETTER, OPENING)
    return vocabulary.mark_is_space or usually_spaced(left, right)
