"""A small tokenizer for models whose truth is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import regex

from wordprob.core.vocabulary import Tokens, Vocabulary, all_spans, build_vocabulary

START_ID = 0

START, END_OF_TEXT = "<start>", "<end>"
"""Two control tokens, ids 0 and 1 of every toy vocabulary."""


class ToyTokenizer:
    """Splits a text into chunks by a pattern, and each chunk from left to right into its longest known pieces.

    Parameters
    ----------
    chunks
        A regular expression; its matches are tokenized one by one.
    lexicon
        The known pieces; every single character in them is added.
    prefix, suffix
        Put before and after every text: SentencePiece puts a space in front, and a space at the end marks the last
        word as a final one.
    """

    def __init__(self, chunks: str, lexicon: Sequence[str], prefix: str = "", suffix: str = "") -> None:
        characters = sorted({c for piece in lexicon for c in piece} | set(" .amrk"))
        pieces = [START, END_OF_TEXT, *dict.fromkeys([*lexicon, *characters])]
        self._chunks = regex.compile(chunks)
        self._prefix, self._suffix = prefix, suffix
        self._ids = {piece: i for i, piece in enumerate(pieces) if i > 1}
        self._longest_piece = max(map(len, self._ids))
        self.vocabulary: Vocabulary = build_vocabulary(
            pieces, self.ids, added={i: p for p, i in self._ids.items()}, control={0, 1}, start=0, ends=[1]
        )

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text; characters without a piece are skipped."""
        whole = self._prefix + text + self._suffix if text else ""
        return [i for chunk in self._chunks.findall(whole) for i in self._greedy(chunk)]

    def _greedy(self, chunk: str) -> Iterator[int]:
        begin = 0
        while begin < len(chunk):
            longest = min(len(chunk), begin + self._longest_piece)
            end = next((end for end in range(longest, begin, -1) if chunk[begin:end] in self._ids), None)
            if end is None:
                begin += 1  # a character without a piece
            else:
                yield self._ids[chunk[begin:end]]
                begin = end

    def encode(self, texts: Sequence[str]) -> Sequence[Tokens]:
        """Tokenize each text, with byte spans."""
        return all_spans(texts, [self.ids(t) for t in texts], self.vocabulary, None)

    def cut(self, text: str, place: int) -> tuple[int, int] | None:
        """Return None: the texts of a toy are short and need not be cut."""
        return None
