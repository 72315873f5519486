"""Every token as bytes.

Tokenisers write their pieces in a handful of conventions. Which one is at hand is read off the pieces themselves, then
checked on real text: the bytes of a text's tokens must be the text's bytes. What a tokeniser does with first words,
with punctuation and with white space is found by asking it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from wordprob.core.arrays import Ints, concat_ranges
from wordprob.core.arrays import cumulative_offsets as cumulative
from wordprob.core.byte_alphabet import byte_alphabet


@dataclass(frozen=True)
class Tokens:
    """What the tokeniser made of one text.

    ``starts`` and ``ends`` are byte offsets into the text's UTF-8 form. A token may reach beyond the text's
    end (an end-of-word mark that stands for a space nobody typed). ``exact`` says that the tokens' bytes are the
    text's bytes; otherwise the tokeniser rewrote the text and the spans are its own account of it.
    """

    ids: Ints
    starts: Ints
    ends: Ints
    exact: bool = True


@dataclass(frozen=True)
class Vocabulary:
    """Every token as bytes, whatever its tokeniser's convention.

    Attributes
    ----------
    pieces
        Bytes of each token; ``None`` for control tokens, which stand for no text.
    convention
        How the tokeniser writes pieces: ``byte-level``, ``metaspace``, ``</w>``, ``@@``, ``##`` or ``plain``.
    family
        ``bow`` or ``eow``: where white space goes, into the token after it or the one before it; ``none`` if
        tokens hold no white space at all.
    marked
        Tokens that end a pre-token by a mark that is not text (``</w>``, the absence of ``@@``).
    mark_is_space
        Whether such a mark always stands for white space or the end (``@@``), or also for a switch to
        punctuation (``</w>`` of a tokeniser that splits punctuation first).
    spaced
        Tokens that begin a pre-token by a mark that is not text (the absence of ``##``).
    first_word_marked
        Whether the first word of a text gets the mark that other words get.
    start, ends
        The document-start id, and every id that ends a document.
    """

    pieces: tuple[bytes | None, ...]
    convention: str
    family: str
    marked: NDArray[np.bool_]
    spaced: NDArray[np.bool_]
    mark_is_space: bool
    first_word_marked: bool
    lossy: bool
    start: int | None
    ends: tuple[int, ...]
    unknown: int | None
    fingerprint: str
    tokens: tuple[str, ...] = field(repr=False, default=())

    @property
    def size(self) -> int:
        """Number of ids the tokeniser knows."""
        return len(self.pieces)

    @cached_property
    def written(self) -> tuple[bytes, ...]:
        """Bytes of each token, none for a control token."""
        return tuple(piece or b"" for piece in self.pieces)

    @cached_property
    def lengths(self) -> Ints:
        """Number of bytes of each token."""
        return np.array([len(piece) for piece in self.written], dtype=np.int64)


METASPACE = "▁"


PROBES = ("mark", "She saw the mark.", "a b", "It is a test (of sorts), isn't it?", "wall wall, wall")


Encode = Callable[[str], Sequence[int]]


Offsets = Callable[[], Sequence[tuple[int, int]]]


OffsetsOf = Callable[[int], Sequence[tuple[int, int]]]


def convention_of(pieces: Collection[str]) -> str:
    """Tell how these pieces are written, by what most of them look like."""
    few = max(1, len(pieces) // 50)
    if sum(p.endswith("</w>") for p in pieces) > few:
        return "</w>"
    if sum(p.endswith("@@") for p in pieces) > few:
        return "@@"
    if sum(p.startswith("##") for p in pieces) > few:
        return "##"
    if sum(p.startswith(METASPACE) or p.endswith(METASPACE) for p in pieces) > few:
        return "metaspace"
    alphabet = byte_alphabet()
    if sum("Ġ" in p for p in pieces) > few and all(c in alphabet for p in pieces for c in p):
        return "byte-level"
    return "plain"


def piece_bytes(piece: str, convention: str) -> bytes:
    r"""Return the bytes a piece stands for.

    >>> piece_bytes("Ġcaf", "byte-level"), piece_bytes("▁caf", "metaspace"), piece_bytes("<0xC3>", "metaspace")
    (b' caf', b' caf', b'\xc3')
    """
    if convention == "byte-level":
        return bytes(byte_alphabet()[c] for c in piece)
    if convention == "metaspace":
        if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
            return bytes([int(piece[3:5], 16)])
        return piece.replace(METASPACE, " ").encode()
    if convention == "##":
        return piece.removeprefix("##").encode()
    return piece.removesuffix(convention).encode() if convention in ("</w>", "@@") else piece.encode()


def family_of(pieces: Iterable[bytes | None], convention: str) -> str:
    """Tell whether tokens take white space in front (``bow``), behind (``eow``) or not at all (``none``)."""
    if convention in ("</w>", "@@"):
        return "eow"
    if convention == "##":
        return "bow"
    texts = [p for p in pieces if p and p.strip()]
    before, behind = sum(p[:1] == b" " for p in texts), sum(p[-1:] == b" " for p in texts)
    if before == behind == 0:
        return "none"
    return "bow" if before >= behind else "eow"


def build_vocabulary(
    pieces: Sequence[str],
    encode: Encode,
    *,
    added: Mapping[int, str],
    control: Collection[int],
    start: int | None,
    ends: Sequence[int],
    unknown: int | None = None,
) -> Vocabulary:
    """Put a tokeniser's pieces and its own answers together.

    Parameters
    ----------
    pieces
        The tokeniser's spelling of every id.
    encode
        Text to ids, without special tokens.
    added
        Ids whose content is plain text whatever the convention.
    control
        Ids that stand for no text.
    start, ends, unknown
        The document-start id, the ids that end a document, and the id for what cannot be written.
    """
    silent = {*control, *ends, unknown}
    convention = convention_of({p for i, p in enumerate(pieces) if i not in added and i not in silent})
    texts = tuple(
        None if i in silent else added[i].encode() if i in added else piece_bytes(p, convention)
        for i, p in enumerate(pieces)
    )
    marks = _marks(pieces, convention, control)
    spaced = np.array([convention == "##" and not p.startswith("##") for p in pieces])
    answers = [(probe, encode(probe)) for probe in PROBES]
    return Vocabulary(
        pieces=texts,
        convention=convention,
        family=family_of(texts, convention),
        marked=marks,
        spaced=spaced,
        mark_is_space=_mark_is_space(encode, marks),
        first_word_marked=_first_word_marked(texts, encode),
        lossy=any(_joined(texts, ids).strip() != probe.encode() for probe, ids in answers),
        start=start,
        ends=tuple(dict.fromkeys(ends)),
        unknown=unknown,
        fingerprint=fingerprint(pieces, [ids for _, ids in answers]),
        tokens=tuple(pieces),
    )


def _marks(pieces: Sequence[str], convention: str, control: Collection[int]) -> NDArray[np.bool_]:
    if convention == "</w>":
        marked = [p.endswith("</w>") for p in pieces]
    elif convention == "@@":
        marked = [not p.endswith("@@") for p in pieces]
    else:
        marked = [False] * len(pieces)
    return np.array([m and i not in control for i, m in enumerate(marked)])


def _joined(pieces: Sequence[bytes | None], ids: Sequence[int]) -> bytes:
    return b"".join(pieces[i] or b"" for i in ids)


def _mark_is_space(encode: Encode, marked: NDArray[np.bool_]) -> bool:
    """A mark that also stands before a full stop is no sign of white space."""
    return not any(bool(marked[i]) for i in list(encode("mark.mark"))[:-1])


def _first_word_marked(pieces: Sequence[bytes | None], encode: Encode) -> bool:
    first = [_joined(pieces, encode(word)) for word in ("mark", "a", "The", "2")]
    return any(first) and all(text.startswith(b" ") for text in first if text)


def fingerprint(pieces: Sequence[str], answers: Iterable[Sequence[int]]) -> str:
    """Return a short digest of a vocabulary and of what the tokeniser does with the probe texts."""
    digest = hashlib.sha256("\n".join(pieces).encode("utf-8", "surrogatepass"))
    for ids in answers:
        digest.update(np.asarray(ids, dtype=np.int64).tobytes())
    return digest.hexdigest()[:16]


def all_spans(
    texts: Sequence[str], ids: Sequence[Sequence[int]], vocabulary: Vocabulary, offsets: OffsetsOf | None
) -> list[Tokens]:
    """Find where the tokens of many texts stand; all at once where they simply add up to the texts.

    :func:`byte_spans` is the readable twin.
    """
    edges = cumulative(map(len, ids))
    flat = np.fromiter(chain.from_iterable(ids), dtype=np.int64, count=int(edges[-1]))
    written, sizes = _all_written(flat, vocabulary), vocabulary.lengths[flat]
    data = [t.encode("utf-8", "surrogatepass") for t in texts]
    ends = np.cumsum(sizes)
    for dummy in (0, 1):
        expected = [d and b" " + d for d in data] if dummy else data
        borders = cumulative([len(d) for d in expected])
        if written == b"".join(expected) and np.array_equal(np.append(0, ends)[edges], borders):
            ends -= np.repeat(borders[:-1] + dummy, np.diff(edges))
            starts, exact = np.maximum(ends - sizes, 0), not vocabulary.marked.any()
            bounds = pairwise(edges.tolist())
            return [Tokens(flat[a:b], starts[a:b], ends[a:b], exact) for a, b in bounds]
    return [
        byte_spans(text, np.array(row, dtype=np.int64), vocabulary, None if offsets is None else partial(offsets, n))
        for n, (text, row) in enumerate(zip(texts, ids, strict=True))
    ]


def _all_written(ids: Ints, vocabulary: Vocabulary) -> bytes:
    """Return the bytes of tokens, end to end; each different token is looked up once."""
    there = np.zeros(vocabulary.size, dtype=bool)
    there[ids] = True
    used = np.flatnonzero(there)
    data = np.frombuffer(b"".join(map(vocabulary.written.__getitem__, used.tolist())), dtype=np.uint8)
    begins = np.zeros(vocabulary.size, dtype=np.int64)
    begins[used] = cumulative(vocabulary.lengths[used])[:-1]
    return data[concat_ranges(begins[ids], vocabulary.lengths[ids])].tobytes()


def byte_spans(text: str, ids: Ints, vocabulary: Vocabulary, offsets: Offsets | None) -> Tokens:
    """Find where each token stands in ``text``, in bytes of its UTF-8 form.

    The tokens' own bytes settle it when they add up to the text, a dummy space in front allowed for. Otherwise the
    tokeniser rewrote the text: its character offsets are taken, or, where it has none, its pieces are
    looked for one after another.
    """
    pieces = [vocabulary.written[i] for i in ids.tolist()]
    data, whole = text.encode("utf-8", "surrogatepass"), b"".join(pieces)
    dummy = 1 if whole == b" " + data else 0
    if whole[dummy:] == data or (whole.startswith(data) and whole[len(data) :] == b" "):
        ends = np.cumsum([len(p) for p in pieces], dtype=np.int64) - dummy
        starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]])[: len(pieces)]
        return Tokens(ids, np.maximum(starts, 0), ends, exact=not vocabulary.marked.any())
    if offsets is not None:
        at = np.concatenate([[0], np.cumsum([len(c.encode("utf-8", "surrogatepass")) for c in text], dtype=np.int64)])
        spans = np.asarray(offsets(), dtype=np.int64).reshape(-1, 2)
        return Tokens(ids, at[spans[:, 0]], at[spans[:, 1]], exact=False)
    return _search(text, ids, pieces)


def _search(text: str, ids: Ints, pieces: Sequence[bytes]) -> Tokens:
    """Look for the pieces one after another; an unknown one takes what lies before the next found."""
    data, at = text.encode("utf-8", "surrogatepass"), 0
    spans: list[tuple[int, int]] = []
    for piece in pieces:
        found = data.find(piece, at) if piece.strip() else -1
        blank = data[at:found].strip() if found >= 0 else b"?"
        begin = found if found >= 0 and (not blank or not spans or spans[-1][0] == spans[-1][1]) else at
        end = begin + (len(piece) if begin == found else 0)
        spans.append((begin, end))
        at = end
    array = np.array(spans, dtype=np.int64).reshape(-1, 2)
    return Tokens(ids, array[:, 0], array[:, 1], exact=False)
