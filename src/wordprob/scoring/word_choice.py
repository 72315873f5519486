"""Which words of the texts are scored, and what ends each of them.

Words come from a rule, or they are given: as lists of words, or as places in the text. What ends a given word is the
coarsest built-in rule under which all words of its text end where they do, unless the user names another with
``boundary``. Where that rule does not end a word, anything may follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from wordprob.core.characters import is_white_space
from wordprob.core.pattern_words import Regex
from wordprob.core.span_words import WithoutBoundaries
from wordprob.core.text import Document, Word
from wordprob.core.user_words import locate, rule_for
from wordprob.core.word_definition import WordDefinition
from wordprob.core.words import define
from wordprob.errors import InputError

Span = tuple[int, int]
"""Where a stretch of a text starts and ends, in characters."""

GivenWords = Sequence[str] | Sequence[Span] | Sequence[Sequence[str]] | Sequence[Sequence[Span]]
"""The words themselves, or where they stand: a list for each text, or one list for one text."""

Words = str | WordDefinition | GivenWords

BY_RULE = "rule"
NO_BOUNDARY = "none"

ATOMS_FOR_GIVEN_WORDS = "punctuation"
"""The definition by which the vocabulary is cut into atoms where words are given: fine enough for the other rules."""


@dataclass(frozen=True)
class WordChoice:
    """The words of texts.

    Attributes
    ----------
    definition
        What cuts the vocabulary into atoms, and the texts into words, unless the words are given.
    given
        The words of each text, where they are given.
    rules
        For each text, what ends its words, where they are given.
    unscored
        For each text, the numbers of words that only stand between those that were given.
    description
        What tables say that a word is.
    """

    definition: WordDefinition
    description: str
    given: list[Sequence[Word]] | None = None
    rules: list[WordDefinition] | None = None
    unscored: list[Sequence[int]] | None = None

    def of_texts(self, positions: Sequence[int]) -> WordChoice:
        """Return the same for the texts at these positions only."""
        if self.given is None:
            return self
        given = [self.given[position] for position in positions]
        rules = None if self.rules is None else [self.rules[position] for position in positions]
        unscored = None if self.unscored is None else [self.unscored[position] for position in positions]
        return replace(self, given=given, rules=rules, unscored=unscored)

    def of_part(self, part: slice) -> dict[str, Any]:
        """Return the words of some consecutive texts, as the fields of a chunk that hold them."""
        return {
            "user_words": None if self.given is None else self.given[part],
            "rules": None if self.rules is None else self.rules[part],
            "unscored": None if self.unscored is None else self.unscored[part],
        }


def choose_words(words: Words, boundary: str, documents: Sequence[Document]) -> WordChoice:
    """Return the words of texts, from a rule or as they are given."""
    if isinstance(words, str) or not isinstance(words, Sequence):
        definition = define(words)
        _check_matches(definition, documents)
        return _by_rule(definition, boundary, documents)
    begins = [0] * len(documents)
    return _given(words, boundary, documents, begins, "text")


def choose_words_of_continuations(
    words: Words, boundary: str, documents: Sequence[Document], begins: Sequence[int]
) -> WordChoice:
    """Return the same for continuations, which begin at these places: the words of their contexts follow the rule."""
    if isinstance(words, str) or not isinstance(words, Sequence):
        return _by_rule(define(words), boundary, documents)
    return _given(words, boundary, documents, begins, "continuation")


def _by_rule(definition: WordDefinition, boundary: str, documents: Sequence[Document]) -> WordChoice:
    if boundary == BY_RULE:
        return WordChoice(definition, definition.name)
    if boundary == NO_BOUNDARY:
        return WordChoice(WithoutBoundaries(definition), f"{definition.name}, boundary none")
    rule = define(boundary)
    segmented: list[Sequence[Word]] = [definition.segment(document.text) for document in documents]
    return WordChoice(rule, f"{definition.name}, boundary {boundary}", segmented, [rule] * len(documents))


def _given(
    words: GivenWords, boundary: str, documents: Sequence[Document], begins: Sequence[int], what: str
) -> WordChoice:
    located: list[list[Word]] = []
    for document, begin, given in zip(documents, begins, _lists(words, len(documents)), strict=True):
        where = f"{what} {document.id}"
        found = _place(document.text[begin:], given, where)
        located.append([Word(word.text, word.start + begin, word.end + begin) for word in found])
    rules = [
        _rule(document.text, text_words, boundary) for document, text_words in zip(documents, located, strict=True)
    ]
    filled, unscored = [], []
    for document, begin, rule, text_words in zip(documents, begins, rules, located, strict=True):
        with_gaps, gaps = _fill_gaps(document.text, begin, text_words)
        context = _context_words(document.text[:begin], rule)
        filled.append([*context, *with_gaps])
        unscored.append([len(context) + gap for gap in gaps])
    names = sorted({rule.name for rule in rules})
    atoms = define(ATOMS_FOR_GIVEN_WORDS) if boundary in (BY_RULE, NO_BOUNDARY) else define(boundary)
    description = "given, boundary none" if boundary == NO_BOUNDARY else f"given, by {' or '.join(names)}"
    return WordChoice(atoms, description, list(filled), rules, list(unscored))


def _rule(text: str, words: Sequence[Word], boundary: str) -> WordDefinition:
    """Return what ends the given words of a text."""
    if boundary == BY_RULE:
        return rule_for([text], [words])
    rule = define(ATOMS_FOR_GIVEN_WORDS if boundary == NO_BOUNDARY else boundary)
    return WithoutBoundaries(rule) if boundary == NO_BOUNDARY else rule


def _context_words(context: str, rule: WordDefinition) -> list[Word]:
    return list(rule.segment(context)) if context else []


def _lists(words: GivenWords, n_texts: int) -> list[Sequence[str] | Sequence[Span]]:
    """Return a list of words, or of places, for each text; one list may be given for one text."""
    is_one_list = bool(words) and all(isinstance(word, str) or _is_span(word) for word in words)
    lists = [words] if is_one_list else list(words)
    if len(lists) != n_texts:
        raise InputError(f"{n_texts} texts but {len(lists)} word lists; give one list for each text.")
    return lists  # type: ignore[return-value]


def _is_span(word: object) -> bool:
    """Return True for a pair of whole numbers."""
    return isinstance(word, tuple) and len(word) == 2 and all(isinstance(place, Integral) for place in word)


def _place(text: str, given: Sequence[str] | Sequence[Span], where: str) -> list[Word]:
    """Return given words with their places."""
    if given and all(_is_span(word) for word in given):
        return _spans(text, given, where)  # type: ignore[arg-type]
    return locate(text, [str(word) for word in given], where)


def _spans(text: str, spans: Sequence[Span], where: str) -> list[Word]:
    """Return stretches of a text; raise unless they lie in it, one after the other."""
    found, position = [], 0
    for place in spans:
        start, end = map(int, place)  # numpy has whole numbers of its own
        if not 0 <= start < end <= len(text):
            raise InputError(
                f"{where}: ({start}, {end}) is not a span of it; it has {len(text)} characters, and a span starts "
                "before it ends."
            )
        if start < position:
            raise InputError(
                f"{where}: ({start}, {end}) begins before the one before it ends, at {position}; give them in order."
            )
        found.append(Word(text[start:end], start, end))
        position = end
    return found


def _fill_gaps(text: str, begin: int, words: Sequence[Word]) -> tuple[list[Word], list[int]]:
    """Return words with those put in that stand between them, and the numbers of these.

    White space before a word belongs to it. Anything else between two words is a word that is not scored.
    """
    filled: list[Word] = []
    gaps: list[int] = []
    position = begin
    for word in words:
        gap = text[position : word.start]
        if gap and not all(map(is_white_space, gap)):
            content = gap.strip()
            start = position + gap.find(content)
            gaps.append(len(filled))
            filled.append(Word(content, start, start + len(content)))
        filled.append(word)
        position = word.end
    return filled, gaps


def _check_matches(definition: WordDefinition, documents: Sequence[Document]) -> None:
    """Raise for a pattern that finds no word in any text."""
    if not isinstance(definition, Regex):
        return
    with_text = [document.text for document in documents if document.text.strip()]
    if with_text and not any(definition.segment(text) for text in with_text):
        raise InputError(f"the pattern in '{definition.name}' matches nothing in the {len(documents)} texts given.")
