"""Words that the user gives as a list: where they are in the text, and which rule ends them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wordprob.core.characters import is_white_space
from wordprob.core.text import Word
from wordprob.core.word_definition import WordDefinition
from wordprob.core.words import define
from wordprob.errors import AlignmentError


def locate(text: str, words: Sequence[str], where: str = "the text") -> list[Word]:
    """Find the given words in ``text``, in order, with nothing but white space between them.

    >>> locate("He can't.", ["He", "ca", "n't", "."])[2]
    Word(text="n't", start=5, end=8)
    """
    located = []
    position = 0
    for number, word in enumerate(words, start=1):
        while position < len(text) and is_white_space(text[position]):
            position += 1
        if not word or word.isspace():
            raise AlignmentError(f"{where}: word {number} of the list is empty; leave it out.")
        if not text.startswith(word, position):
            raise AlignmentError(
                f"{where}: word {number} of the list is '{word}', but the text continues with "
                f"'{text[position : position + 30]}' (character {position}). The list must give every word of the "
                "text, in order, as it is spelled there."
            )
        located.append(Word(word, position, position + len(word)))
        position += len(word)
    rest = text[position:].strip()
    if rest:
        raise AlignmentError(
            f"{where}: the list ends before the text does; left over: '{rest[:30]}' (character {position})."
        )
    return located


def rule_for(texts: Iterable[str], located: Iterable[Sequence[Word]]) -> WordDefinition:
    """Return the coarsest built-in rule under which given words end where they do."""
    for text, words in zip(texts, located, strict=True):
        if any(word.end < len(text) and not is_white_space(text[word.end]) for word in words):
            return define("punctuation")
    return define("whitespace")
