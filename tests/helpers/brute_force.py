"""Word probabilities by brute force: slow, short, and written from the definition alone.

The probability of a word is a ratio of two events, ``p(w_t | w_<t) = Z(E_t) / Z(E_{t-1})``. An event says: *the text
begins with these characters, and what follows starts a new word* (or, for a span: *and anything may follow*). Its mass
is a sum over covers. A cover is the shortest beginning of some text's tokens that reaches the end of the given
characters. Here the covers are found by writing down many texts that begin in this way, and tokenizing each of them
from its first character to its last:

* the characters alone, and the characters with a character of every Unicode class behind them;
* for every token of the vocabulary that could begin inside the characters and reach beyond them: the characters, and
  what that token holds beyond them; a character that it cuts off is completed in several ways.

A text counts only if the word definition, applied to the whole of it, ends a word at the place in question. A cover
that reaches beyond the place counts in full. One that ends there is followed by a token that must end the word; one
that stops inside the next character is read on until that character is complete. Branches lighter than ``prune`` are
not read on: every mass is an interval, and their weight is its width.

What is left out, because the tokens do not show where white space is: ``</w>`` where marks also stand before
punctuation, and ``##``. With ``@@``, a token without the mark is followed by white space or the end, always. Texts
whose tokens are not their bytes (a tokenizer that composes accents) are not used as examples.
"""

from __future__ import annotations

import codecs
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

SCRIPTS = "éßжאاकிกあ가喜"
SPACES = ["", " ", " a", "  a", " .", "\n", "\na", "\n\n", "\n\na", "\t", "\ta", "\r\n", "\u00a0a", "\u3000a"]
AFTER = ["", "a", " ", " a", "\n"]
"""What is written behind the rest of a token that reaches beyond a place."""
INNER_BYTES = (0x80, 0x8C, 0x99, 0xA6, 0xB3, 0xBF)
"""Bytes with which characters that are cut off are completed."""


class Interval(NamedTuple):
    """A number that is known to lie between two others."""

    low: float
    high: float


class WordValue(NamedTuple):
    """A word (or span) and its surprisal in nats."""

    text: str
    surprisal: Interval


class NextCharacters(NamedTuple):
    """What tokens make of a character: token ``tokens[k]`` completes ``characters[which[k]]``; others cut it off."""

    characters: list[str]
    tokens: np.ndarray
    which: np.ndarray
    cut_off: list[tuple[int, bytes]]


def examples() -> list[str]:
    """Return a character of every kind: all printable ASCII, and the first others of every Unicode category."""
    found: dict[str, list[str]] = {}
    for point in range(0x80, 0x20000):
        character = chr(point)
        kind = unicodedata.category(character)
        if kind != "Cs" and len(found.setdefault(kind, [])) < 2:
            found[kind].append(character)
    ascii_characters = [chr(point) for point in range(0x21, 0x7F)]
    return [*ascii_characters, *(c for kind in found.values() for c in kind), *SCRIPTS, "’", "“", "”", "—", "…", "。"]


RIGHT_CONTEXTS = [*SPACES, *(c + more for c in examples() for more in ("", "a"))]


def is_space(character: str) -> bool:
    """Return True for white space as Unicode has it, without four control characters that Python counts as well."""
    return character.isspace() and character not in "\x1c\x1d\x1e\x1f"


def first_character(data: bytes) -> str | bytes | None:
    """Return the first character of these bytes; the bytes if it is cut off; None if they can begin no character."""
    for size in range(1, min(4, len(data)) + 1):
        try:
            return data[:size].decode()
        except UnicodeDecodeError:
            continue
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data[:4])
    except UnicodeDecodeError:
        return None
    return data or None


def completed(data: bytes) -> Iterator[str]:
    """Yield strings that begin with these bytes: themselves, or with a cut-off last character completed."""
    for missing in range(4):
        choices = (
            range(0x80, 0xC0) if missing == 1 else INNER_BYTES
        )  # the last byte decides between a mark and a letter
        found = [data + bytes(tail) for tail in product(choices, repeat=missing)]
        strings = [whole.decode("utf-8", "ignore") for whole in found]
        valid = [string for string, whole in zip(strings, found, strict=True) if string.encode() == whole]
        if valid:
            yield from valid
            return


@cache
def kind(character: str) -> str:
    """Return a character that stands for this one: the first that was asked for of those that are alike.

    Letters, digits, combining marks and spaces of one Unicode category are alike; every other sign is by itself.
    """
    category = unicodedata.category(character)
    return character if category[0] in "PS" else _FIRST_OF.setdefault((category, is_space(character)), character)


_FIRST_OF: dict[tuple[str, bool], str] = {}


@cache
def possible_kinds(data: bytes) -> frozenset[str]:
    """Return a character of every kind that a cut-off character can become."""
    size = 2 if data[0] < 0xE0 else 3 if data[0] < 0xF0 else 4
    found = set()
    for tail in product(range(0x80, 0xC0), repeat=size - len(data)):
        try:
            found.add(kind((data + bytes(tail)).decode()))
        except UnicodeDecodeError:
            continue
    return frozenset(found)


def ends_word(definition, text: str, place: int) -> bool:
    """Return True if the definition has a word of this text end at a place."""
    return any(word.end == place for word in definition.segment(text))


def contexts_over(characters: Collection[str]) -> list[str]:
    """Return every string of at most two of these characters."""
    return ["", *characters, *(a + b for a in characters for b in characters)]


class BruteForce:
    """Events, words and spans under a model that is a tokenizer and a function.

    Parameters
    ----------
    tokenizer
        With ``encode`` and ``vocabulary``.
    distribution
        Returns p(next id) after ids, the start token included. If it has a method ``ahead``, that is told which ids
        will be asked about together.
    prune
        Cut-off characters are read on where they have at least this probability.
    kept
        Number of distributions that are remembered.
    contexts
        What is tried behind a place, besides the rests of tokens.
    """

    def __init__(
        self,
        tokenizer,
        distribution: Callable[[Sequence[int]], np.ndarray],
        prune: float = 1e-7,
        kept: int = 64,
        contexts: Sequence[str] = RIGHT_CONTEXTS,
    ) -> None:
        self.tokenizer = tokenizer
        self.contexts = contexts
        self.vocabulary = tokenizer.vocabulary
        self.prune = prune
        self.distribution = lru_cache(maxsize=kept)(distribution)
        self._ahead = getattr(distribution, "ahead", lambda _: None)
        self._events: dict[tuple[str, object], Interval] = {}
        self._following: dict[bytes, NextCharacters] = {}
        self._log_prob: dict[tuple[int, ...], float] = {(self.vocabulary.start,): 0.0}

    # --- words and spans ---

    def words(self, text: str, definition) -> list[WordValue]:
        """Return the words of a text by a definition."""
        segments = definition.segment(text)
        events = [self.start(text), *(self.event(text[: word.end], definition) for word in segments)]
        return _values([word.text for word in segments], events)

    def spans(self, text: str, spans: Sequence[tuple[int, int]]) -> list[WordValue]:
        """Return stretches of a text, one after the other; nothing but white space may lie between them."""
        events = [self.start(text), *(self.event(text[:end], None) for _, end in spans)]
        return _values([text[start:end] for start, end in spans], events)

    def end(self, text: str, definition) -> Interval:
        """Return the surprisal of the end after a text that ends in a word."""
        ids = (self.vocabulary.start, *self.tokenizer.encode([text])[0].ids.tolist())
        reached = self.event(text, definition)
        log_p = self.log_prob(ids) + float(np.log(self.p_end(ids)))
        return Interval(reached.low - log_p, reached.high - log_p)

    # --- events ---

    def event(self, left: str, definition) -> Interval:
        """Return log Z of *the text begins with* ``left`` *and a word ends there*; without a definition, any text."""
        if (left, definition) not in self._events:
            self._events[left, definition] = self._event(left, definition)
        return self._events[left, definition]

    def _event(self, left: str, definition) -> Interval:
        covers = self.covers(left, definition)
        terms = [(self.log_prob(cover), self.closes(cover, beyond, left, definition)) for cover, beyond in covers]
        return Interval(*(_log_sum(terms, side) for side in (0, 1)))

    def covers(self, left: str, definition) -> list[tuple[tuple[int, ...], bytes]]:
        """Return every cover of the event, the start token included, with the bytes it holds beyond ``left``."""
        place, found = len(left.encode()), {}
        texts = [left + rest for rest in self.rests(left, definition)]
        for text, tokens in zip(texts, self.tokenizer.encode(texts), strict=True):
            last = int(np.searchsorted(tokens.ends, place))
            cover = (self.vocabulary.start, *tokens.ids[: last + 1].tolist())
            if cover in found or last == len(tokens.ids) or not self._is_example(text, tokens, len(left), definition):
                continue
            piece = self.vocabulary.token_bytes[cover[-1]]
            found[cover] = piece[len(piece) - (int(tokens.ends[last]) - place) :]
        return sorted(found.items())

    def closes(self, cover: tuple[int, ...], beyond: bytes, left: str, definition) -> Interval:
        """Return the probability that what follows a cover satisfies the event."""
        if definition is None and self.final_space and left.endswith(" ") and not beyond:
            p_end = self.p_end(cover)  # the space is the one that the tokenizer adds: the text is shorter
            return Interval(1.0 - p_end, 1.0 - p_end)
        if definition is None or self._is_marked(cover[-1]) or isinstance(first_character(beyond), str):
            return Interval(1.0, 1.0)
        return self.mass(cover, beyond, lambda character: _ends(definition, left, character), end=not beyond)

    def start(self, text: str) -> Interval:
        """Return log Z of where a text begins: with white space, or without."""
        spaced = is_space(text[:1])
        start = (self.vocabulary.start,)
        fits = lambda character: is_space(character) == spaced  # noqa: E731
        if not self.dummy_space:
            found = self.mass(start, b"", fits, end=not spaced)
        else:
            found = self._mass_after_dummy_space(start, fits, end=not spaced)
        return Interval(float(np.log(found.low)), float(np.log(found.high)))

    # --- masses of next tokens ---

    def mass(
        self, ids: tuple[int, ...], pending: bytes, fits: Callable[[str], bool], end: bool, weight: float = 1.0
    ) -> Interval:
        """Return the probability that the character after ``ids`` fits (``end``: or that the text ends).

        ``pending`` are the first bytes of that character, where the last token of ``ids`` cuts it off.
        """
        p = self.distribution(ids)
        following = self._next_characters(pending)
        fitting = np.array([fits(character) for character in following.characters], dtype=bool)
        low = p[following.tokens[fitting[following.which]]].sum()
        low += self.p_end(ids) if end else 0.0
        high = low
        outcomes = {token: {fits(c) for c in possible_kinds(joined)} for token, joined in following.cut_off}
        open_tokens = {token for token, found in outcomes.items() if len(found) == 2}
        heavy = {token for token in open_tokens if weight * p[token] >= self.prune}
        self._ahead([(*ids, token) for token in sorted(heavy)])
        for token, joined in following.cut_off:
            if token not in open_tokens:
                further = Interval(*[float(outcomes[token] == {True})] * 2)
            elif token in heavy:
                further = self.mass((*ids, token), joined, fits, False, weight * p[token])
            else:
                further = Interval(0, 1)
            low += p[token] * further.low
            high += p[token] * further.high
        return Interval(low, high)

    def _mass_after_dummy_space(self, start: tuple[int, ...], fits: Callable[[str], bool], end: bool) -> Interval:
        """Return the same for the first character of a text that is written with a space in front."""
        p = self.distribution(start)
        low = high = self.p_end(start) if end else 0.0
        for token, piece in enumerate(self.vocabulary.token_bytes):
            if not piece.startswith(b" "):
                continue
            first = first_character(piece[1:])
            if isinstance(first, str):
                further = Interval(*[float(fits(first))] * 2)
            else:
                further = self.mass((*start, token), first or b"", fits, end=False, weight=p[token])
            low += p[token] * further.low
            high += p[token] * further.high
        return Interval(low, high)

    def _next_characters(self, pending: bytes) -> NextCharacters:
        """Return what each token makes of the character that ``pending`` begins."""
        if pending not in self._following:
            numbers: dict[str, int] = {}
            cut_off: list[tuple[int, bytes]] = []
            tokens, which = [], []
            for token, piece in self._inner_tokens if pending else self._tokens:
                first = first_character(pending + piece[:4])
                if isinstance(first, str):
                    tokens.append(token)
                    which.append(numbers.setdefault(kind(first), len(numbers)))
                elif first is not None:
                    cut_off.append((token, first))
            self._following[pending] = NextCharacters(
                list(numbers), np.array(tokens, dtype=int), np.array(which, dtype=int), cut_off
            )
        return self._following[pending]

    @cached_property
    def _tokens(self) -> list[tuple[int, bytes]]:
        """Tokens that stand for text, with their bytes."""
        pairs = enumerate(self.vocabulary.token_bytes)
        return [(token, piece) for token, piece in pairs if piece and token not in self.vocabulary.ends]

    @cached_property
    def _inner_tokens(self) -> list[tuple[int, bytes]]:
        """Those that begin inside a character."""
        return [(token, piece) for token, piece in self._tokens if 0x80 <= piece[0] < 0xC0]

    # --- texts that may come about ---

    def rests(self, left: str, definition) -> list[str]:
        """Return what may stand behind ``left``; with a definition, what it ends a word before."""
        tails = [tail for beyond in self._beyond(left) for tail in completed(beyond)]
        rests = dict.fromkeys([*self.contexts, *(tail + after for tail in tails for after in AFTER)])
        return [rest for rest in rests if definition is None or not rest or _ends(definition, left, rest[0])]

    def _beyond(self, left: str) -> set[bytes]:
        """Return what tokens that begin inside ``left`` (or in a dummy space) hold beyond it."""
        data = (b" " if self.dummy_space else b"") + left.encode()
        found = set()
        for size in range(1, min(len(data), self._longest) + 1):
            opening = data[-size:]
            for piece in self._pieces[bisect_left(self._pieces, opening) :]:
                if not piece.startswith(opening):
                    break
                found.add(piece[size:])
        return found - {b""}

    @cached_property
    def _pieces(self) -> list[bytes]:
        return sorted(set(self.vocabulary.token_bytes))

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._pieces))

    @cached_property
    def dummy_space(self) -> bool:
        """Whether the tokenizer puts a space in front of every text."""
        ids = self.tokenizer.encode(["a"])[0].ids.tolist()
        return b"".join(self.vocabulary.token_bytes[i] for i in ids) == b" a"

    @cached_property
    def final_space(self) -> bool:
        """Whether the tokenizer puts a space behind every text."""
        ids = self.tokenizer.encode(["a"])[0].ids.tolist()
        return b"".join(self.vocabulary.token_bytes[i] for i in ids) == b"a "

    # --- small things ---

    def p_end(self, ids: tuple[int, ...]) -> float:
        """Return the probability that the text ends after these ids."""
        p = self.distribution(ids)
        return float(sum(p[i] for i in self.vocabulary.ends))

    def log_prob(self, ids: tuple[int, ...]) -> float:
        """Return log p of ids after the start token."""
        if ids not in self._log_prob:
            with np.errstate(divide="ignore"):
                self._log_prob[ids] = self.log_prob(ids[:-1]) + float(np.log(self.distribution(ids[:-1])[ids[-1]]))
        return self._log_prob[ids]

    def _is_example(self, text: str, tokens, place: int, definition) -> bool:
        """Return True if the event contains a text, and its tokens are what it is.

        White space alone is no example: it does not show at which end the tokenizer added a space.
        """
        written = bool(text.strip()) and (tokens.exact or bool(self.vocabulary.marked.any()))
        known = self.vocabulary.unknown not in tokens.ids
        return written and known and (definition is None or ends_word(definition, text, place))

    def _is_marked(self, token: int) -> bool:
        """Return True if white space or the end always follows this token, although it holds none."""
        return bool(self.vocabulary.marked[token]) and self.vocabulary.mark_is_space


def _ends(definition, left: str, character: str) -> bool:
    """Return True if a word that ends ``left`` ends before this character.

    The built-in definitions cut at white space, so what stands before the last white space need not be looked at
    again, and they look at one character on the right (``test_boundaries.test_one_character_decides``).
    """
    return _chunk_ends(definition, _last_chunk(left), character)


@lru_cache(maxsize=1 << 18)
def _chunk_ends(definition, chunk: str, character: str) -> bool:
    return ends_word(definition, chunk + character, len(chunk))


def _last_chunk(text: str) -> str:
    start = len(text)
    while start and not text[start - 1].isspace():
        start -= 1
    return text[start:]


def _log_sum(terms: Sequence[tuple[float, Interval]], side: int) -> float:
    """Return log Σ p·B for log p and one side of B."""
    top = max(log_p for log_p, _ in terms)
    return top + float(np.log(sum(np.exp(log_p - top) * closes[side] for log_p, closes in terms)))


def _values(texts: Sequence[str], events: Sequence[Interval]) -> list[WordValue]:
    """Return surprisals from the log-masses of events, each contained in the one before it."""
    return [
        WordValue(text, Interval(before.low - after.high, before.high - after.low))
        for text, before, after in zip(texts, events[:-1], events[1:], strict=True)
    ]


def brute_force_on(model) -> BruteForce:
    """Return the brute force on an exact language model: what stands behind a place are its own characters."""
    characters = sorted({character for text in model.texts for character in text})
    return BruteForce(model.tokenizer, model.distribution, contexts=contexts_over(characters))
