"""Reads token sequences as texts that go on from a context: where the next word is, and whether it is written so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from wordprob.core.alignment import align
from wordprob.core.atoms import atoms_of
from wordprob.core.bounded_cache import SizedCache
from wordprob.core.characters import is_white_space
from wordprob.core.text import Document, TextBatch
from wordprob.core.vocabulary import Tokens, Vocabulary
from wordprob.core.word_definition import WordDefinition
from wordprob.covers.next_tokens import NextTokens
from wordprob.covers.next_word_beginnings import Beginning
from wordprob.covers.spellings import SpellingFinder
from wordprob.models.protocol import Tokenizer

RECENT_CHARACTERS = (12, 20, 40)
"""About so many characters before the last word of a context are tokenized again with each next word: the first of
these numbers for which that is safe."""

MAX_PIECE_TOKENS = 200_000
"""Tokens of pieces of text that are remembered, at most, before all are forgotten."""


class TokenizedPieces:
    """Short pieces of texts with their tokens: many are the same after different contexts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: SizedCache[str, tuple[int, ...]] = SizedCache(MAX_PIECE_TOKENS, len)

    def encode(self, pieces: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the tokens of each piece."""
        self._ids.forget_if_full()
        new = [piece for piece in dict.fromkeys(pieces) if piece not in self._ids]
        if new:
            for piece, tokens in zip(new, self._tokenizer.encode(new), strict=True):
                self._ids[piece] = tuple(tokens.ids.tolist())
        return [self._ids[piece] for piece in pieces]


class ContextReader:
    """Reads token sequences that begin with a context.

    Parameters
    ----------
    tokens
        What is known about the vocabulary.
    tokenizer
        The tokenizer.
    definition
        What a word is.
    context
        The text so far, without white space at its end.
    pieces
        Pieces of texts that were tokenized before, perhaps after other contexts.
    finder
        Finds the tokenizer's own spellings of words: the same as for texts that are scored.
    """

    def __init__(
        self,
        tokens: NextTokens,
        tokenizer: Tokenizer,
        definition: WordDefinition,
        context: str,
        pieces: TokenizedPieces | None = None,
        finder: SpellingFinder | None = None,
    ) -> None:
        self._pieces = pieces or TokenizedPieces(tokenizer)
        self._finder = finder or _finder(tokens, tokenizer, definition)
        self.tokens = tokens
        self.tokenizer = tokenizer
        self.definition = definition
        self.context = context
        self.vocabulary: Vocabulary = tokenizer.vocabulary
        self._own: dict[tuple[tuple[int, ...], int], bool] = {}
        self._covers: dict[str, set[tuple[int, ...]]] = {}
        self._marked_bytes = 1 if self.vocabulary.first_word_marked else 0
        """Bytes of the tokens that are not in the text: a space before the first word."""
        self._given: bytes = b" " * self._marked_bytes + context.encode()
        """The bytes that every token sequence must begin with."""
        spaces = [place for place, character in enumerate(context) if is_white_space(character)]
        self._last_chunk = spaces[-1] + 1 if spaces else 0
        """Where what stands after the last white space begins."""

    @cached_property
    def _own_tokens(self) -> Tokens:
        """The tokens of the context itself."""
        return self.tokenizer.encode([self.context])[0]

    @cached_property
    def own_ids(self) -> tuple[int, ...]:
        """The tokens of the context itself, with the start."""
        return (*self.vocabulary.start_ids, *self._own_tokens.ids.tolist())

    @cached_property
    def root(self) -> tuple[int, ...]:
        """The tokens that are left as they are: those before the context's last word, but for one."""
        words = self.definition.segment(self.context)
        place = len(self.context[: words[-2].end].encode()) if len(words) > 1 else 0
        count = max(0, int(np.searchsorted(self._own_tokens.ends, place, side="right")) - 1)
        return self.own_ids[: len(self.vocabulary.start_ids) + count]

    @cached_property
    def _n_root_bytes(self) -> int:
        """How many bytes the root writes."""
        return sum(len(self.vocabulary.token_bytes[token]) for token in self.root)

    @cached_property
    def last_word_start(self) -> int:
        """Where the context's last word begins."""
        return self.definition.segment(self.context)[-1].start

    @cached_property
    def ends_with_word(self) -> bool:
        """Whether a word of the context ends where it does."""
        words = self.definition.segment(self.context)
        return bool(words) and words[-1].end == len(self.context)

    def separator_length(self, continuation: str) -> int:
        """Return how many characters stand before the next word, with which a continuation of the context begins."""
        following = self._next_word(self.context + continuation)
        return 0 if following is None else following[0] - len(self.context)

    # --- texts and words ---

    def _keeps_context(self, ids: tuple[int, ...], text: str) -> bool:
        """Return True if the context's last word ends where it should, and is written as the tokenizer writes it."""
        place = len(self.context)
        if not place:
            return not is_white_space(text[:1])
        ended = len(text) == place or self._has_word_end(text, place)
        return ended and self._is_own(ids, text, place)

    def text_of(self, beginning: Beginning) -> str:
        """Return the text of a beginning, without a cut-off last character."""
        return self._text(beginning.data) or ""

    def next_word_end(self, text: str) -> int:
        """Return where the word after the context ends, as far as it goes; 0 if there is none."""
        following = self._next_word(text)
        return 0 if following is None else following[1]

    def _words(self, text: str) -> list[tuple[int, int]]:
        """Return where the words stand, from the last white space in the context on."""
        begin = self._last_chunk
        return [(begin + word.start, begin + word.end) for word in self.definition.segment(text[begin:])]

    def _next_word(self, text: str) -> tuple[int, int] | None:
        """Return where the word after the context stands, as far as it goes."""
        return next(((start, end) for start, end in self._words(text) if start >= len(self.context)), None)

    def _text(self, data: bytes) -> str | None:
        """Return the text of some bytes, without a cut-off last character; None for what is no text."""
        data = data[self._marked_bytes :]
        for cut in range(min(4, len(data) + 1)):
            try:
                text = data[: len(data) - cut].decode()
            except UnicodeDecodeError:
                continue
            return text if cut == 0 or _begins_character(data[len(data) - cut :]) else None
        return None

    def _is_cut_off(self, data: bytes, text: str) -> bool:
        """Return True if the last character of some bytes is not complete."""
        return len(data) > len(text.encode()) + self._marked_bytes

    # --- spellings ---

    def _is_own(self, ids: tuple[int, ...], text: str, end: int) -> bool:
        """Return True if the tokenizer writes some text that has a word end at this place with these tokens so far."""
        cover = self._cover(ids, len(text[:end].encode()) + self._marked_bytes)
        key = (cover, end)
        if key not in self._own:
            self._own[key] = cover in self.own_covers([text[:end]])[0]
        return self._own[key]

    def note_own(self, beginning: Beginning) -> None:
        """Note it if the tokenizer writes the text of a beginning with its tokens, and a word ends where it does."""
        text = self.text_of(beginning)
        if self._encoded([text]) == [beginning.ids] and self._has_word_end(text, len(text)):
            self._own[beginning.ids, len(text)] = True

    def piece_of(self, beginning: Beginning) -> str:
        """Return what must be tokenized of the text of a beginning."""
        return self._cut(self.text_of(beginning))[1]

    def own_covers(self, texts: Sequence[str]) -> list[set[tuple[int, ...]]]:
        """Return the ways in which the tokenizer writes each text, before whatever can come where its last word ends.

        Each is a sequence of tokens, from the start on; the last one may reach over the end of the text.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._covers]
        if new:
            batch = TextBatch([Document(number, text) for number, text in enumerate(new)])
            alignment = align(batch, *self.definition.spans(batch), self.tokenizer.encode(new))
            last_words = alignment.word_offsets[1:] - 1
            start_ids = self.vocabulary.start_ids
            for text, covers in zip(new, self._finder.covers(alignment, last_words), strict=True):
                self._covers[text] = {(*start_ids, *cover) for cover in covers}
        return [self._covers[text] for text in texts]

    def _has_word_end(self, text: str, place: int) -> bool:
        """Return True if a word of a text ends at a place."""
        return any(end == place for _, end in self._words(text))

    def _encoded(self, texts: Iterable[str]) -> list[tuple[int, ...]]:
        """Return the tokens of texts that begin with the context, with the start."""
        cuts = [self._cut(text) for text in texts]
        rests = self._pieces.encode([rest for _, rest in cuts])
        return [kept + ids for (kept, _), ids in zip(cuts, rests, strict=True)]

    def _cut(self, text: str) -> tuple[tuple[int, ...], str]:
        """Return the first tokens of a text that begins with the context, with the start, and the rest of the text."""
        place = len(self.context)
        cut = self.tokenizer.cut(text, place) if place else None
        if cut is not None and cut[0] == place:
            return self.own_ids, text[cut[1] :]
        kept, n_characters = self._tokenized_apart
        return kept, text[n_characters:]

    @cached_property
    def _tokenized_apart(self) -> tuple[tuple[int, ...], int]:
        """The first tokens of a long context, and how many characters they write, which no next word changes."""
        n_start = len(self.vocabulary.start_ids)
        for recent in RECENT_CHARACTERS:
            place = self._last_chunk - recent
            cut = self.tokenizer.cut(self.context, place) if place > 0 else None
            if cut is not None:
                first, rest = self.tokenizer.encode([self.context[: cut[0]], self.context[cut[1] :]])
                together = (*first.ids.tolist(), *rest.ids.tolist())
                if together == self.own_ids[n_start:] and n_start + len(first.ids) <= len(self.root):
                    return self.own_ids[: n_start + len(first.ids)], cut[1]
        return self.vocabulary.start_ids, 0

    def _cover(self, ids: tuple[int, ...], size: int) -> tuple[int, ...]:
        """Return the shortest beginning of the ids that writes this many bytes."""
        begin, written = 0, 0
        if size > self._n_root_bytes and ids[: len(self.root)] == self.root:
            begin, written = len(self.root), self._n_root_bytes
        for place in range(begin, len(ids)):
            written += len(self.vocabulary.token_bytes[ids[place]])
            if written >= size:
                return ids[: place + 1]
        return ids


def _finder(tokens: NextTokens, tokenizer: Tokenizer, definition: WordDefinition) -> SpellingFinder:
    vocabulary = tokenizer.vocabulary
    return SpellingFinder(tokenizer.encode, vocabulary, definition, atoms_of(vocabulary, definition, tokens.vocab_size))


def _begins_character(data: bytes) -> bool:
    """Return True if these few bytes are the beginning of a character."""
    size = 2 if 0xC2 <= data[0] < 0xE0 else 3 if 0xE0 <= data[0] < 0xF0 else 4 if 0xF0 <= data[0] < 0xF5 else 0
    return len(data) < size and all(0x80 <= byte < 0xC0 for byte in data[1:])
