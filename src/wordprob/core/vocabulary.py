"""Every token as bytes, and where the tokens of a text stand.

Tokenizers write their pieces in a handful of conventions. Which one is used is what the tokenizer declares, or else
what its pieces look like; it is then checked on real text: the bytes of a text's tokens must be the text's bytes. What
a tokenizer does with first words, with punctuation and with white space is found by asking it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import chain
from typing import overload

import numpy as np

from wordprob.core.arrays import Bools, Ints, concat_ints, concat_ranges, cumulative_offsets, slices_of
from wordprob.errors import ModelError

METASPACE = "▁"
PROBES = ("mark", "She saw the mark.", "a b", "It is a test (of sorts), isn't it?", "wall wall, wall")
"""Texts that tokenizers are tried on."""

Encode = Callable[[str], Sequence[int]]
CharacterSpans = Sequence[tuple[int, int]]
"""A tokenizer's own account of where its tokens stand, in characters."""


@dataclass(frozen=True)
class Tokens:
    """What the tokenizer made of one text.

    Attributes
    ----------
    ids
        The tokens.
    starts, ends
        Where each stands, in bytes of the text's UTF-8 form. A token may reach beyond the end of the text (an
        end-of-word mark that stands for a space nobody typed).
    exact
        Whether the tokens' bytes are the text's bytes. Otherwise the tokenizer rewrote the text, and the spans are its
        own account of it.
    """

    ids: Ints
    starts: Ints
    ends: Ints
    exact: bool = True


@dataclass(frozen=True)
class TokenizedTexts(Sequence[Tokens]):
    """What the tokenizer made of several texts, end to end.

    Attributes
    ----------
    ids, starts, ends
        ``[T]``: the tokens of all texts, and where each stands in its own text, as in :class:`Tokens`.
    offsets
        ``[D + 1]``: where the tokens of each text begin, and where all end.
    exact
        ``[D]``: as in :class:`Tokens`.
    """

    ids: Ints
    starts: Ints
    ends: Ints
    offsets: Ints
    exact: Bools

    @classmethod
    def of(cls, texts: Sequence[Tokens]) -> TokenizedTexts:
        """Put the tokens of texts end to end, unless they are already."""
        if isinstance(texts, TokenizedTexts):
            return texts
        return cls(
            ids=concat_ints(text.ids for text in texts),
            starts=concat_ints(text.starts for text in texts),
            ends=concat_ints(text.ends for text in texts),
            offsets=cumulative_offsets([len(text.ids) for text in texts]),
            exact=np.array([text.exact for text in texts], dtype=bool),
        )

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.exact)

    @overload
    def __getitem__(self, number: int) -> Tokens: ...

    @overload
    def __getitem__(self, number: slice) -> list[Tokens]: ...

    def __getitem__(self, number: int | slice) -> Tokens | list[Tokens]:
        """Return the tokens of a text, or of several."""
        if isinstance(number, slice):
            return [self._text(n) for n in range(len(self))[number]]
        return self._text(range(len(self))[number])

    def __iter__(self) -> Iterator[Tokens]:
        """Yield the tokens of each text."""
        for part, exact in zip(slices_of(self.offsets), self.exact.tolist(), strict=True):
            yield Tokens(self.ids[part], self.starts[part], self.ends[part], exact)

    def _text(self, number: int) -> Tokens:
        part = slice(*self.offsets[number : number + 2].tolist())
        return Tokens(self.ids[part], self.starts[part], self.ends[part], bool(self.exact[number]))


@dataclass(frozen=True)
class Vocabulary:
    """Every token as bytes, whatever its tokenizer's convention.

    Attributes
    ----------
    pieces
        Bytes of each token; ``None`` for control tokens, which stand for no text.
    convention
        How the tokenizer writes pieces: ``byte-level``, ``metaspace``, ``</w>``, ``byte-level </w>``, ``@@``, ``##`` or
        ``plain``.
    family
        ``bow`` or ``eow``: where white space goes, into the token after it or the one before it; ``none`` if
        tokens hold no white space at all.
    marked
        Tokens that end a pre-token by a mark that is not text (``</w>``, the absence of ``@@``).
    mark_is_space
        Whether such a mark always stands for white space or the end (``@@``), or also for a switch to
        punctuation (``</w>`` of a tokenizer that splits punctuation first).
    spaced
        Tokens that begin a pre-token by a mark that is not text (the absence of ``##``).
    first_word_marked
        Whether the first word of a text gets the mark that other words get.
    lossy
        Whether the tokenizer changes the text it is given.
    start, ends
        The document-start id, and every id that ends a document.
    opening
        Further ids between the start and every text: the rest of what a chat template puts before a message.
    unknown
        The id for what cannot be written.
    fingerprint
        A short digest of the vocabulary and of what the tokenizer does with :data:`PROBES`.
    tokens
        The tokenizer's own spelling of each token.
    """

    pieces: tuple[bytes | None, ...]
    convention: str
    family: str
    marked: Bools
    spaced: Bools
    mark_is_space: bool
    first_word_marked: bool
    lossy: bool
    start: int | None
    ends: tuple[int, ...]
    unknown: int | None
    fingerprint: str
    tokens: tuple[str, ...] = field(repr=False, default=())
    opening: tuple[int, ...] = ()

    @property
    def start_ids(self) -> tuple[int, ...]:
        """What the model sees before every text: the start token, if there is one, and the opening."""
        return self.opening if self.start is None else (self.start, *self.opening)

    @cached_property
    def leaves_out_space(self) -> bool:
        """Whether tokens bear marks instead of white space."""
        return bool(self.marked.any() or self.spaced.any())

    def shown_marks(self, token: int) -> tuple[str, str]:
        """Return the marks before and after a token that stand for no text, as the tokenizer writes them."""
        name = self.tokens[token]
        before = "##" if self.convention == "##" and name.startswith("##") else ""
        after = next((mark for mark in ("</w>", "@@") if self.convention.endswith(mark) and name.endswith(mark)), "")
        return before, after

    @property
    def size(self) -> int:
        """Number of ids the tokenizer knows."""
        return len(self.pieces)

    @property
    def key(self) -> tuple[object, ...]:
        """What tells this vocabulary from others, for caches."""
        return self.fingerprint, self.size, self.start, self.ends, self.unknown

    @cached_property
    def token_bytes(self) -> tuple[bytes, ...]:
        """Bytes of each token, none for a control token."""
        return tuple(piece or b"" for piece in self.pieces)

    @cached_property
    def lengths(self) -> Ints:
        """Number of bytes of each token."""
        return np.array([len(piece) for piece in self.token_bytes], dtype=np.int64)


# --- pieces to bytes --------------------------------------------------------------------------------------------------


def convention_of(pieces: Collection[str]) -> str:
    """Tell how these pieces are written, by what most of them look like."""
    few = max(1, len(pieces) // 50)
    if sum(piece.endswith("</w>") for piece in pieces) > few:
        return "byte-level </w>" if _spells_bytes(pieces) else "</w>"
    if sum(piece.endswith("@@") for piece in pieces) > few:
        return "@@"
    if sum(piece.startswith("##") for piece in pieces) > few:
        return "##"
    if sum(piece.startswith(METASPACE) or piece.endswith(METASPACE) for piece in pieces) > few:
        return "metaspace"
    alphabet = byte_alphabet()
    if sum("Ġ" in piece for piece in pieces) > few and all(c in alphabet for piece in pieces for c in piece):
        return "byte-level"
    return "plain"


def _spells_bytes(pieces: Collection[str]) -> bool:
    """Return True if pieces that end words in ``</w>`` stand for bytes: there is one for each byte, and no others."""
    alphabet = byte_alphabet()
    contents = {piece.removesuffix("</w>") for piece in pieces}
    return contents.issuperset(alphabet) and all(c in alphabet for content in contents for c in content)


@lru_cache(maxsize=1)
def byte_alphabet() -> dict[str, int]:
    """Return which byte each character of byte-level tokenizers stands for.

    Bytes that print keep their own character; the other 68 take the code points from 256 on, in order.

    >>> byte_alphabet()["Ġ"], byte_alphabet()["a"]
    (32, 97)
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(hidden)}


def piece_bytes(piece: str, convention: str) -> bytes:
    r"""Return the bytes a piece stands for.

    >>> piece_bytes("Ġcaf", "byte-level"), piece_bytes("▁caf", "metaspace"), piece_bytes("<0xC3>", "metaspace")
    (b' caf', b' caf', b'\xc3')
    """
    if convention.startswith("byte-level"):
        alphabet, content = byte_alphabet(), piece.removesuffix("</w>")
        is_written_in_it = all(character in alphabet for character in content)
        return bytes(map(alphabet.__getitem__, content)) if is_written_in_it else content.encode()
    if convention == "metaspace":
        is_byte = len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
        return bytes([int(piece[3:5], 16)]) if is_byte else piece.replace(METASPACE, " ").encode()
    if convention == "##":
        return piece.removeprefix("##").encode()
    if convention in ("</w>", "@@"):
        return piece.removesuffix(convention).encode()
    return piece.encode()


def family_of(pieces: Iterable[bytes | None], convention: str) -> str:
    """Tell whether tokens take white space in front (``bow``), behind (``eow``) or not at all (``none``)."""
    if convention.endswith(("</w>", "@@")):
        return "eow"
    if convention == "##":
        return "bow"
    texts = [piece for piece in pieces if piece and piece.strip()]
    in_front = sum(piece[:1] == b" " for piece in texts)
    behind = sum(piece[-1:] == b" " for piece in texts)
    if in_front == behind == 0:
        return "none"
    return "bow" if in_front >= behind else "eow"


# --- asking the tokenizer ---------------------------------------------------------------------------------------------


def build_vocabulary(
    pieces: Sequence[str],
    encode: Encode,
    *,
    added: Mapping[int, str],
    control: Collection[int],
    start: int | None,
    ends: Sequence[int],
    unknown: int | None = None,
    opening: Sequence[int] = (),
    convention: str | None = None,
) -> Vocabulary:
    """Put a tokenizer's pieces and its own answers together.

    Parameters
    ----------
    pieces
        The tokenizer's spelling of every id.
    encode
        Text to ids, without special tokens.
    added
        Ids whose content is plain text whatever the convention.
    control
        Ids that stand for no text.
    start, ends, unknown, opening
        The document-start id, the ids that end a document, the id for what cannot be written, and further ids before
        every text.
    convention
        How the tokenizer declares that it writes pieces; by default what most of them look like.
    """

    def encode_checked(text: str) -> Sequence[int]:
        ids = encode(text)
        _check_ids(np.array(ids, dtype=np.int64), len(pieces))
        return ids

    probed = [(probe, encode_checked(probe)) for probe in PROBES]
    without_text = {*control, *ends, unknown}
    if convention is None:
        convention = convention_of({p for i, p in enumerate(pieces) if i not in added and i not in without_text})
    as_bytes: list[bytes | None] = []
    for i, piece in enumerate(pieces):
        if i in without_text:
            as_bytes.append(None)
        else:
            as_bytes.append(added[i].encode() if i in added else piece_bytes(piece, convention))
    marked = _marked(pieces, convention, control)
    return Vocabulary(
        pieces=tuple(as_bytes),
        convention=convention,
        family=family_of(as_bytes, convention),
        marked=marked,
        spaced=np.array([convention == "##" and not piece.startswith("##") for piece in pieces]),
        mark_is_space=_mark_is_space(encode_checked, marked),
        first_word_marked=_first_word_marked(as_bytes, encode_checked),
        lossy=any(_join(as_bytes, ids).strip() != probe.encode() for probe, ids in probed),
        start=start,
        ends=tuple(dict.fromkeys(ends)),
        unknown=unknown,
        fingerprint=fingerprint(pieces, [ids for _, ids in probed]),
        tokens=tuple(pieces),
        opening=tuple(opening),
    )


def _check_ids(ids: Ints, size: int) -> None:
    """Raise for an id that has no token: a damaged file may name a token twice, and has then fewer than it counts."""
    outside = ids[(ids < 0) | (ids >= size)]
    if len(outside):
        raise ModelError(
            f"the tokeniser writes the id {outside[0]}, but has the {size} tokens 0 to {size - 1}: its list of tokens "
            "is incomplete. Is the file damaged? Fetch or convert the model again."
        )


def _marked(pieces: Sequence[str], convention: str, control: Collection[int]) -> Bools:
    """Return True for pieces that end a pre-token by a mark that is not text."""
    if convention.endswith("</w>"):
        marked = [piece.endswith("</w>") for piece in pieces]
    elif convention == "@@":
        marked = [not piece.endswith("@@") for piece in pieces]
    else:
        marked = [False] * len(pieces)
    return np.array([mark and i not in control for i, mark in enumerate(marked)])


def _join(pieces: Sequence[bytes | None], ids: Sequence[int]) -> bytes:
    return b"".join(pieces[i] or b"" for i in ids)


def _mark_is_space(encode: Encode, marked: Bools) -> bool:
    """Return True unless a mark also stands before a full stop, where it is no sign of white space."""
    return not any(bool(marked[i]) for i in list(encode("mark.mark"))[:-1])


def _first_word_marked(pieces: Sequence[bytes | None], encode: Encode) -> bool:
    """Return True if texts of one word are written with white space in front."""
    first_words = [_join(pieces, encode(word)) for word in ("mark", "a", "The", "2")]
    return any(first_words) and all(text.startswith(b" ") for text in first_words if text)


def fingerprint(pieces: Sequence[str], answers: Iterable[Sequence[int]]) -> str:
    """Return a short digest of a vocabulary and of what the tokenizer does with the probe texts."""
    digest = hashlib.sha256("\n".join(pieces).encode("utf-8", "surrogatepass"))
    for ids in answers:
        digest.update(np.asarray(ids, dtype=np.int64).tobytes())
    return digest.hexdigest()[:16]


# --- where tokens stand -----------------------------------------------------------------------------------------------


def all_spans(
    texts: Sequence[str],
    ids: Sequence[Sequence[int]],
    vocabulary: Vocabulary,
    spans_of: Callable[[int], CharacterSpans] | None,
) -> TokenizedTexts:
    """Find where the tokens of many texts stand; all at once where they simply add up to the texts.

    :func:`byte_spans` is the readable twin.

    Parameters
    ----------
    texts, ids
        The texts, and the tokens of each.
    vocabulary
        What the ids stand for.
    spans_of
        Returns the tokenizer's own character spans for the text with this number, where it has any.
    """
    token_offsets = cumulative_offsets(map(len, ids))
    all_ids = np.fromiter(chain.from_iterable(ids), dtype=np.int64, count=int(token_offsets[-1]))
    _check_ids(all_ids, vocabulary.size)
    written = _bytes_of(all_ids, vocabulary)
    sizes = vocabulary.lengths[all_ids]
    ends = np.cumsum(sizes)
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    for dummy_space in (0, 1):  # SentencePiece may put a space in front of every text
        expected = [data and b" " + data for data in encoded] if dummy_space else encoded
        byte_borders = cumulative_offsets([len(data) for data in expected])
        if dummy_space and not vocabulary.first_word_marked and not any(data.strip() for data in encoded):
            continue  # nothing but spaces: one may have been added on either side
        if written == b"".join(expected) and np.array_equal(np.append(0, ends)[token_offsets], byte_borders):
            ends -= np.repeat(byte_borders[:-1] + dummy_space, np.diff(token_offsets))
            starts = np.maximum(ends - sizes, 0)
            exact = np.full(len(texts), not vocabulary.marked.any())
            return TokenizedTexts(all_ids, starts, ends, token_offsets, exact)
    one_by_one = [
        byte_spans(text, np.array(row, dtype=np.int64), vocabulary, None if spans_of is None else partial(spans_of, n))
        for n, (text, row) in enumerate(zip(texts, ids, strict=True))
    ]
    return TokenizedTexts.of(one_by_one)


def _bytes_of(ids: Ints, vocabulary: Vocabulary) -> bytes:
    """Return the bytes of tokens, end to end; each different token is looked up once."""
    occurs = np.zeros(vocabulary.size, dtype=bool)
    occurs[ids] = True
    used = np.flatnonzero(occurs)
    data = np.frombuffer(b"".join(map(vocabulary.token_bytes.__getitem__, used.tolist())), dtype=np.uint8)
    begins = np.zeros(vocabulary.size, dtype=np.int64)
    begins[used] = cumulative_offsets(vocabulary.lengths[used])[:-1]
    return data[concat_ranges(begins[ids], vocabulary.lengths[ids])].tobytes()


def byte_spans(
    text: str, ids: Ints, vocabulary: Vocabulary, character_spans: Callable[[], CharacterSpans] | None
) -> Tokens:
    """Find where each token stands in ``text``, in bytes of its UTF-8 form.

    The tokens' own bytes settle it when they add up to the text, a dummy space in front allowed for. Otherwise the
    tokenizer rewrote the text: its character spans are taken, or, where it has none, its pieces are looked for one
    after another.
    """
    pieces = [vocabulary.token_bytes[i] for i in ids.tolist()]
    data, written = text.encode("utf-8", "surrogatepass"), b"".join(pieces)
    space_added_behind = written.startswith(data) and written[len(data) :] == b" "
    dummy_space = 1 if written == b" " + data else 0
    if dummy_space and space_added_behind:  # nothing but spaces: other texts tell on which side one was added
        dummy_space = int(vocabulary.first_word_marked)
    if written[dummy_space:] == data or space_added_behind:
        ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64) - dummy_space
        starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]])[: len(pieces)]
        return Tokens(ids, np.maximum(starts, 0), ends, exact=not vocabulary.marked.any())
    if character_spans is None:
        return _search_pieces(data, ids, pieces)
    byte_offsets = cumulative_offsets([len(character.encode("utf-8", "surrogatepass")) for character in text])
    spans = np.asarray(character_spans(), dtype=np.int64).reshape(-1, 2)
    return Tokens(ids, byte_offsets[spans[:, 0]], byte_offsets[spans[:, 1]], exact=False)


def _search_pieces(data: bytes, ids: Ints, pieces: Sequence[bytes]) -> Tokens:
    """Look for the pieces one after another; an unknown one takes what lies before the next one that is there."""
    position = 0
    spans: list[tuple[int, int]] = []
    for piece in pieces:
        place = data.find(piece, position) if piece.strip() else -1
        skipped = data[position:place].decode("utf-8", "replace").strip() if place >= 0 else "?"
        after_unknown = not spans or spans[-1][0] == spans[-1][1]
        present = place >= 0 and (not skipped or after_unknown)
        start = place if present else position
        position = start + (len(piece) if start == place else 0)
        spans.append((start, position))
    array = np.array(spans, dtype=np.int64).reshape(-1, 2)
    return Tokens(ids, array[:, 0], array[:, 1], exact=False)
