"""The probability of a word in every spelling, by writing down every token sequence: slow, and short."""

from __future__ import annotations

import numpy as np

from brute_force import BruteForce, Interval, WordValue, _log_sum, is_space


class AllSequences(BruteForce):
    """Sums over all token sequences that write a word after the tokenizer's own spellings of what comes before it."""

    def all_words(self, text, segments, definition):
        """Return the words (``segments``) of a text; without a definition, anything may follow each of them."""
        values = []
        place = 0
        for word in segments:
            reached = self.event(text[:place], definition) if place else self.start(text)
            numerator = self._numerator(text, place, word.end, definition)
            values.append(WordValue(word.text, Interval(reached.low - numerator.high, reached.high - numerator.low)))
            place = word.end
        return values

    def _numerator(self, text, place, end, definition):
        """Return the log-mass of all that sets out from a cover of ``text[:place]`` and writes up to ``end``."""
        terms = []
        for cover, beyond in self._starts(text, place, definition):
            rest = text[place:end].encode()
            if rest.startswith(beyond):
                self._write(cover, rest[len(beyond) :], text[:end], definition, terms)
            elif beyond.startswith(rest):
                held = beyond[len(rest) :]
                terms += self._closed(cover, held, text[:end], definition)
        return Interval(*(_log_sum(terms, side) for side in (0, 1)))

    def _starts(self, text, place, definition):
        if place:
            return self.covers(text[:place], definition)
        start = (self.vocabulary.start,)
        if not self.dummy_space:
            return [(start, b"")]
        p = self.distribution(start)
        spaced = enumerate(self.vocabulary.token_bytes)
        return [((*start, token), piece[1:]) for token, piece in spaced if piece[:1] == b" " and p[token] > 0]

    def _write(self, ids, rest, left, definition, terms):
        """Add every way to write the rest after ids."""
        if not rest:
            terms += self._closed(ids, b"", left, definition)
            return
        for size in range(1, len(rest) + 1):
            for token in self._ids_of(rest[:size]):
                self._write((*ids, token), rest[size:], left, definition, terms)
        for piece, tokens in self._pieces_over(rest):
            for token in tokens:
                terms += self._closed((*ids, token), piece[len(rest) :], left, definition)

    def _closed(self, ids, beyond, left, definition):
        """Return a term for a sequence that reaches the end, unless what it holds beyond does not end the word."""
        first = beyond.decode("utf-8", "ignore")[:1]
        if definition is not None and first and not _rule_ends(definition, left, first):
            return []
        if beyond and not first and beyond[0] in range(0x80, 0xC0):
            return []  # bytes that no text has
        return [(self.log_prob(ids), self.closes(ids, beyond, left, definition))]

    def _ids_of(self, piece):
        return self._index.get(piece, ())

    @property
    def _index(self):
        if "_token_index" not in self.__dict__:
            self._token_index = {}
            for token, piece in self._tokens:
                self._token_index.setdefault(piece, []).append(token)
        return self._token_index

    def _pieces_over(self, rest):
        return [(piece, tokens) for piece, tokens in self._index.items() if piece.startswith(rest) and piece != rest]


def _rule_ends(definition, left, character):
    text = left + character
    return is_space(character) or any(word.end == len(left) for word in definition.segment(text))


__all__ = ["AllSequences", "np"]
