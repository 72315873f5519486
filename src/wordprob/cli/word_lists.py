"""Words given in a file: what ``--words list:FILE`` stands for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wordprob.cli.options import read_lines
from wordprob.errors import InputError
from wordprob.sources.plain_text import blocks_of

PREFIX = "list:"


def is_word_list(words: str) -> bool:
    """Return True if the value of ``--words`` names a file of words rather than a definition."""
    return words.startswith(PREFIX)


def words_for(words: str, texts: Sequence[str]) -> str | list[list[str]]:
    """Return a word definition as it was given, or for ``list:FILE`` the list of words of each text."""
    if not is_word_list(words):
        return words
    path = Path(words.removeprefix(PREFIX))
    return match_texts(blocks_of(read_lines(path)), texts, str(path))


def match_texts(blocks: Sequence[list[str]], texts: Sequence[str], source: str) -> list[list[str]]:
    """Return a list of words for each text: the next block, or no words for a blank text.

    >>> match_texts([["She", "saw"]], ["She saw", ""], "words.txt")
    [['She', 'saw'], []]
    """
    n_texts = sum(bool(text.strip()) for text in texts)
    if n_texts != len(blocks):
        raise InputError(
            f"{n_texts} texts that are not blank but {len(blocks)} lists of words in {source}; put one word on each "
            "line and a blank line between texts."
        )
    remaining = iter(blocks)
    return [next(remaining) if text.strip() else [] for text in texts]
