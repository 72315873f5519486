"""What is to be scored: passages of text, which of their words, and what ends each word.

A :class:`Passage` is a text that the model reads, with what is known about it: which part of it is only context, which
words were given and what ends them, and what the rows of the table are about. A whole text, a continuation after its
context, a section of a long text and an excerpt with limited context are all passages.

Words come from a rule, or they are given: as lists of words, or as places in the text. What ends a given word is the
coarsest built-in rule under which all words of its text end where they do, unless the user names another with
``boundary``. Where that rule does not end a word, anything may follow it.

>>> [passage.document for passage in passages_of(["She saw", "the mark"], ids=["a", "b"])]
[Document(id='a', text='She saw'), Document(id='b', text='the mark')]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import NamedTuple

import numpy as np
import regex

from wordprob.core.arrays import Ints
from wordprob.core.characters import is_white_space
from wordprob.core.pattern_words import Regex
from wordprob.core.span_words import WithoutBoundaries
from wordprob.core.text import Document, Word
from wordprob.core.user_words import locate, rule_for
from wordprob.core.word_definition import WordDefinition
from wordprob.core.words import define
from wordprob.errors import InputError

NO_IDS: Ints = np.zeros(0, dtype=np.int64)

SURROGATE = regex.compile(r"[\ud800-\udfff]")

Span = tuple[int, int]
"""Where a stretch of a text starts and ends, in characters."""

GivenWords = Sequence[str] | Sequence[Span] | Sequence[Sequence[str]] | Sequence[Sequence[Span]]
"""The words themselves, or where they stand: a list for each text, or one list for one text."""

Rule = str | WordDefinition
"""A word definition, or its name."""

Words = Rule | GivenWords

BY_RULE = "rule"
NO_BOUNDARY = "none"

ATOMS_FOR_GIVEN_WORDS = "punctuation"
"""The definition by which the vocabulary is cut into atoms where words are given: fine enough for the other rules."""


class Passage(NamedTuple):
    """A text to score.

    Attributes
    ----------
    document
        The text that the model reads, and its id.
    context_length
        How many characters at its beginning are context only.
    scored_end
        Where its last scored word ends; what follows only shows how that word is written. ``None``: all words after
        the context are scored.
    words
        Its words, where they were given. In a chunk they are given for all passages or for none.
    rule
        What ends the given words.
    unscored
        The indices of given words that were filled in between those that the user gave; ``None`` if the words come
        from a rule.
    origin
        The position in the text that offsets of words are counted from; it may lie before the text.
    source
        What the rows of the table are about, where that is not the text itself.
    excerpt
        The number of the passage among the excerpts of its source, each of which has a context of its own; ``None`` if
        it is no excerpt. The excerpts of a source follow one another.
    head
        Tokens that the model reads before the text, besides those that come before every text: the beginning of a long
        context. Text and head together fit into the model's context. Passages with the same head hold the same array.
    """

    document: Document
    context_length: int = 0
    scored_end: int | None = None
    words: Sequence[Word] | None = None
    rule: WordDefinition | None = None
    unscored: Sequence[int] | None = None
    origin: int = 0
    source: Document | None = None
    excerpt: int | None = None
    head: Ints = NO_IDS

    @property
    def text(self) -> str:
        """The text that the model reads."""
        return self.document.text

    @property
    def subject(self) -> Document:
        """What the rows of the table are about."""
        return self.document if self.source is None else self.source


@dataclass(frozen=True)
class Chunk:
    """Passages that are scored together.

    Attributes
    ----------
    passages
        The passages.
    continues
        Whether the source of the only passage, or of all excerpts, continues in the next chunk.
    shares_context
        Whether the passages have their contexts in common with each other and with further chunks.
    """

    passages: Sequence[Passage]
    continues: bool = False
    shares_context: bool = False

    @property
    def documents(self) -> list[Document]:
        """The texts that the model reads."""
        return [passage.document for passage in self.passages]

    @property
    def n_characters(self) -> int:
        """How many characters the model reads."""
        return sum(len(passage.document.text) for passage in self.passages)

    def without_sources(self) -> Chunk:
        """Return what a worker process needs: the model does not read the sources."""
        if all(passage.source is None for passage in self.passages):
            return self
        return replace(self, passages=[passage._replace(source=None) for passage in self.passages])


# --- texts as the user gives them -------------------------------------------------------------------------------------


def check_texts(texts: str | Iterable[str], what: str = "text") -> list[str]:
    """Return one text or several as a list; raise for what is not text.

    Parameters
    ----------
    texts
        The texts.
    what
        What one of them is called in messages.
    """
    if isinstance(texts, Mapping | bytes) or hasattr(texts, "columns"):
        raise InputError(
            f"{what}s are a string or a list of strings, not a {type(texts).__name__}. For a table use "
            "wordprob.score_table(table, scorer); for one of its columns, scorer.score(table['text'])."
        )
    strings = [texts] if isinstance(texts, str) else list(texts)
    for n, text in enumerate(strings):
        if not isinstance(text, str):
            raise InputError(f"{what} {n} is not a string but {type(text).__name__}: {text!r:.60}")
        if not text.isascii() and SURROGATE.search(text):
            raise InputError(
                f"{what} {n} has a lone surrogate, which is not a character; was it decoded with surrogateescape?"
            )
    return strings


def passages_of(texts: str | Iterable[str], ids: Sequence[int | str] | None = None) -> list[Passage]:
    """Check texts and their ids, and return a passage for each."""
    return list(map(Passage, with_ids(check_texts(texts), ids)))


def with_ids(strings: Sequence[str], ids: Sequence[int | str] | None) -> list[Document]:
    """Return texts that have been checked with their ids; by default they are numbered."""
    names = range(len(strings)) if ids is None else list(ids)
    if len(names) != len(strings):
        raise InputError(f"{len(strings)} texts but {len(names)} ids; give one for each.")
    return list(map(Document, names, strings))


# --- their words ------------------------------------------------------------------------------------------------------


class WordChoice(NamedTuple):
    """The words of texts.

    Attributes
    ----------
    definition
        What cuts the vocabulary into atoms, and the texts into words, unless the words are given.
    description
        What tables say that a word is.
    passages
        The texts, with their words and what ends them where the words are given.
    """

    definition: WordDefinition
    description: str
    passages: list[Passage]

    @property
    def n_characters(self) -> int:
        """How many characters the texts have."""
        return sum(len(passage.document.text) for passage in self.passages)

    def at(self, positions: Sequence[int]) -> WordChoice:
        """Return the same for the texts at these positions, in this order."""
        return self._replace(passages=[self.passages[position] for position in positions])


def choose_words(words: Words, boundary: str, passages: list[Passage], *, after_contexts: bool = False) -> WordChoice:
    """Return the words of texts, from a rule or as they are given.

    Parameters
    ----------
    words, boundary
        As for :meth:`wordprob.Scorer.score`.
    passages
        The texts.
    after_contexts
        Whether they are continuations: given words are then those of the continuations alone, and the words of their
        contexts follow the rule.
    """
    if not isinstance(words, str) and isinstance(words, Sequence):
        return _given(words, boundary, passages, "continuation" if after_contexts else "text")
    definition = define(words)
    if not after_contexts:
        _check_matches(definition, passages)
    if boundary == BY_RULE:
        return WordChoice(definition, definition.name, passages)
    if boundary == NO_BOUNDARY:
        return WordChoice(WithoutBoundaries(definition), f"{definition.name}, boundary none", passages)
    rule = define(boundary)
    segmented = [passage._replace(words=definition.segment(passage.text), rule=rule) for passage in passages]
    return WordChoice(rule, f"{definition.name}, boundary {boundary}", segmented)


def _given(words: GivenWords, boundary: str, passages: Sequence[Passage], what: str) -> WordChoice:
    lists = _lists(words, len(passages))
    chosen = [_with_words(passage, given, boundary, what) for passage, given in zip(passages, lists, strict=True)]
    atoms = define(ATOMS_FOR_GIVEN_WORDS) if boundary in (BY_RULE, NO_BOUNDARY) else define(boundary)
    names = sorted({passage.rule.name for passage in chosen if passage.rule is not None})
    description = "given, boundary none" if boundary == NO_BOUNDARY else f"given, by {' or '.join(names)}"
    return WordChoice(atoms, description, chosen)


def _with_words(passage: Passage, given: Sequence[str] | Sequence[Span], boundary: str, what: str) -> Passage:
    """Return a passage with the words that were given for what comes after its context."""
    text, begin = passage.text, passage.context_length
    found = _place(text[begin:], given, f"{what} {passage.document.id}")
    placed = [Word(word.text, word.start + begin, word.end + begin) for word in found]
    rule = _rule(text, placed, boundary)
    with_gaps, gaps = _fill_gaps(text, begin, placed)
    context = list(rule.segment(text[:begin])) if begin else []
    unscored = [len(context) + gap for gap in gaps]
    return passage._replace(words=[*context, *with_gaps], rule=rule, unscored=unscored)


def _rule(text: str, words: Sequence[Word], boundary: str) -> WordDefinition:
    """Return what ends the given words of a text."""
    if boundary == BY_RULE:
        return rule_for([text], [words])
    rule = define(ATOMS_FOR_GIVEN_WORDS if boundary == NO_BOUNDARY else boundary)
    return WithoutBoundaries(rule) if boundary == NO_BOUNDARY else rule


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


def _check_matches(definition: WordDefinition, passages: Sequence[Passage]) -> None:
    """Raise for a pattern that finds no word in any text."""
    if not isinstance(definition, Regex):
        return
    with_text = [passage.text for passage in passages if passage.text.strip()]
    if with_text and not any(definition.segment(text) for text in with_text):
        raise InputError(f"the pattern in '{definition.name}' matches nothing in the {len(passages)} texts given.")
