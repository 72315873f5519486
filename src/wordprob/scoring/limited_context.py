"""A limit on the context: words are scored in excerpts of their text that begin as late as the limit says.

The mass of the boundary before a word and that of the boundary after it must come from the same context, or their
ratio is no probability. So every word whose context is cut gets an excerpt of its own. An excerpt is read like a
continuation: words whose context is not cut share the first excerpt, which is the text itself, and a limit that no
text reaches changes nothing.

An excerpt begins with a word and goes on a little after the last word that is scored, so that this word is written as
it is in the whole text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wordprob.core.alignment import align
from wordprob.core.arrays import Ints
from wordprob.core.characters import is_white_space
from wordprob.core.context_limit import WORDS, ContextLimit
from wordprob.core.text import Document, TextBatch, Word
from wordprob.core.word_definition import WordDefinition
from wordprob.models.protocol import Tokenizer
from wordprob.scoring.chunks import MAX_TEXTS_PER_CHUNK, chunk_slices
from wordprob.scoring.passages import Chunk, Passage, WordChoice
from wordprob.scoring.prepare import context_words

LOOKAHEAD_CHARACTERS = 64
"""Characters after the last word of an excerpt, at most."""

MAX_TRIED_IN_VAIN = 16
"""Places where an excerpt might begin earlier that are tried one after the other, none of which fits."""


class Excerpt(NamedTuple):
    """A part of a text, from the first word of the context to a little after the last word that is scored.

    Attributes
    ----------
    start, stop
        Where it starts and ends in the text, in characters.
    words, first_scored, stop_scored
        All words of the text, and which of them are scored: ``words[first_scored:stop_scored]``.
    """

    start: int
    stop: int
    words: Sequence[Word]
    first_scored: int
    stop_scored: int

    @property
    def scored_start(self) -> int:
        """Where the first word that is scored starts, counted in the excerpt; its end, if there is no such word."""
        if self.first_scored == self.stop_scored:
            return self.stop - self.start
        return self.words[self.first_scored].start - self.start

    @property
    def scored_end(self) -> int:
        """Where the last word that is scored ends, counted in the excerpt; its end, if that is the end of the text."""
        if self.stop_scored == len(self.words):
            return self.stop - self.start
        return self.words[self.stop_scored - 1].end - self.start

    def cut_from(self, passage: Passage) -> Passage:
        """Return the excerpt of a passage, which has no words of its own yet."""
        return Passage(
            Document(passage.document.id, passage.text[self.start : self.stop]),
            context_length=self.scored_start,
            scored_end=self.scored_end,
            origin=passage.origin - self.start,
            source=passage.subject,
        )

    def with_words(self, cut: Passage, passage: Passage, definition: WordDefinition) -> Passage:
        """Return an excerpt of a passage with the words that it has there."""
        before = bisect_left(self.words, self.start, key=_start_of)
        inside = self.words[before : bisect_left(self.words, self.stop, key=_start_of)]
        words = []
        for word in inside:
            start, end = word.start - self.start, min(word.end, self.stop) - self.start
            words.append(Word(word.text[: end - start], start, end))
        unscored = None
        if passage.unscored is not None:
            unscored = [n - before for n in passage.unscored if 0 <= n - before < len(inside)]
        return cut._replace(words=words, rule=passage.rule or definition, unscored=unscored)


def limited_chunks(
    choice: WordChoice,
    limit: ContextLimit,
    tokenizer: Tokenizer,
    chunk_characters: int,
    shares_context: bool = False,
) -> list[Chunk]:
    """Return what is scored where contexts are limited, in chunks of about ``chunk_characters`` characters.

    A chunk has all excerpts of some texts, or some excerpts of one text that continues in the next chunk.

    Parameters
    ----------
    choice
        The texts and their words.
    limit
        The most context that a word may have.
    tokenizer
        The model's tokenizer.
    chunk_characters
        Characters in a chunk, about.
    shares_context
        Whether the texts have their contexts in common.
    """
    passages, words = choice.passages, _words(choice)
    documents = [passage.document for passage in passages]
    excerpts = _excerpts(documents, words, _first_scored(passages, words), limit, tokenizer)
    sizes = [sum(excerpt.stop - excerpt.start for excerpt in of_text) for of_text in excerpts]
    chunks = []
    for part in chunk_slices(sizes, MAX_TEXTS_PER_CHUNK, chunk_characters):
        own = [
            (passage, number, excerpt)
            for passage, of_text in zip(passages[part], excerpts[part], strict=True)
            for number, excerpt in enumerate(of_text)
        ]
        stretches = [slice(None)]
        if part.stop - part.start == 1:  # one text may need several chunks
            lengths = [excerpt.stop - excerpt.start for _, _, excerpt in own]
            stretches = list(chunk_slices(lengths, MAX_TEXTS_PER_CHUNK, chunk_characters))
        for stretch in stretches:
            cut = _cut(own[stretch], choice.definition)
            chunks.append(Chunk(cut, continues=stretch is not stretches[-1], shares_context=shares_context))
    return chunks


def _cut(own: Sequence[tuple[Passage, int, Excerpt]], definition: WordDefinition) -> list[Passage]:
    """Return excerpts of passages; with their words, where these are given or would not be found there."""
    cut = [excerpt.cut_from(passage)._replace(excerpt=number) for passage, number, excerpt in own]
    excerpts = [excerpt for _, _, excerpt in own]
    if all(passage.words is None for passage, _, _ in own) and _finds_words(definition, cut, excerpts):
        return cut
    return [excerpt.with_words(part, passage, definition) for part, (passage, _, excerpt) in zip(cut, own, strict=True)]


def _words(choice: WordChoice) -> list[list[Word]]:
    """Return the words of each text."""
    passages = choice.passages
    if any(passage.words is not None for passage in passages):
        return [list(passage.words or ()) for passage in passages]
    batch = TextBatch([passage.document for passage in passages])
    starts, ends = choice.definition.spans(batch)
    words: list[list[Word]] = [[] for _ in passages]
    texts = np.searchsorted(batch.text_starts, starts, side="right") - 1
    for text, start, end in zip(texts.tolist(), starts.tolist(), ends.tolist(), strict=True):
        origin = int(batch.text_starts[text])
        words[text].append(Word(batch.text[start:end], start - origin, end - origin))
    return words


def _first_scored(passages: Sequence[Passage], words: Sequence[Sequence[Word]]) -> list[int]:
    """Return which word of each text is the first that is scored."""
    batch = TextBatch([passage.document for passage in passages])
    spans = [(word.start, word.end) for words_of_text in words for word in words_of_text]
    origins = np.repeat(batch.text_starts[:-1], [len(words_of_text) for words_of_text in words])
    starts, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T + origins
    first: list[int] = context_words(batch, starts, ends, [passage.context_length for passage in passages]).tolist()
    return first


def _start_of(word: Word) -> int:
    return word.start


def _finds_words(definition: WordDefinition, cut: Sequence[Passage], excerpts: Sequence[Excerpt]) -> bool:
    """Return True if a definition finds the same words in the excerpts that it found in the whole texts."""
    batch = TextBatch([passage.document for passage in cut])
    starts, ends = definition.spans(batch)
    found = set(zip(starts.tolist(), ends.tolist(), strict=True))
    for origin, excerpt in zip(batch.text_starts.tolist(), excerpts, strict=False):
        for word in excerpt.words[excerpt.first_scored : excerpt.stop_scored]:
            place = origin + word.start - excerpt.start
            if (place, place + word.end - word.start) not in found:
                return False
    return True


# --- where excerpts begin ---------------------------------------------------------------------------------------------


def _excerpts(
    documents: Sequence[Document],
    words: Sequence[Sequence[Word]],
    first_scored: Sequence[int],
    limit: ContextLimit,
    tokenizer: Tokenizer,
) -> list[list[Excerpt]]:
    """Return the excerpts of each text: one for the words with their whole context, and one for each other word."""
    if limit.unit == WORDS:
        begins = [
            [words_of_text[n - limit.count].start if n > limit.count else 0 for n in range(len(words_of_text))]
            for words_of_text in words
        ]
    else:
        begins = _begins_within(documents, words, first_scored, limit.count, tokenizer)
    return [
        _excerpts_of_text(document.text, words_of_text, first, begins_of_text)
        for document, words_of_text, first, begins_of_text in zip(documents, words, first_scored, begins, strict=True)
    ]


def _excerpts_of_text(text: str, words: Sequence[Word], first_scored: int, begins: Sequence[int]) -> list[Excerpt]:
    """Return the excerpts of a text; ``begins`` has, for each word, where its context begins."""
    whole = first_scored
    while whole < len(words) and not begins[whole]:
        whole += 1
    excerpts = []
    if whole > first_scored or whole == len(words):
        excerpts.append(Excerpt(0, _stop(text, words, whole), words, first_scored, whole))
    for word in range(whole, len(words)):
        excerpts.append(Excerpt(begins[word], _stop(text, words, word + 1), words, word, word + 1))
    return excerpts


def _stop(text: str, words: Sequence[Word], stop_scored: int) -> int:
    """Return where an excerpt ends whose last scored word is the one before ``stop_scored``.

    It takes in one more word, and the rest up to white space, as a tokenizer may write them together.
    """
    if stop_scored >= len(words):
        return len(text)
    latest = min(words[stop_scored - 1].end + LOOKAHEAD_CHARACTERS, len(text))
    stop = min(words[stop_scored].end, latest)
    while stop < latest and not is_white_space(text[stop]):
        stop += 1
    return stop


def _begins_within(
    documents: Sequence[Document],
    words: Sequence[Sequence[Word]],
    first_scored: Sequence[int],
    max_tokens: int,
    tokenizer: Tokenizer,
) -> list[list[int]]:
    """Return, for each word, the earliest place from which no more than so many tokens come before it."""
    begins = []
    tokens = tokenizer.encode([document.text for document in documents])
    for document, words_of_text, first, text_tokens in zip(documents, words, first_scored, tokens, strict=True):
        alignment = align(TextBatch([document]), *_arrays(words_of_text), [text_tokens])
        if not len(words_of_text) or alignment.first_tokens[-1] <= max_tokens:
            begins.append([0] * len(words_of_text))
        else:
            places = _Beginnings(document.text, words_of_text, max_tokens, tokenizer)
            begins.append(places.find(alignment.first_tokens, first))
    return begins


class _Beginnings:
    """Where excerpts of a text may begin, with the text or with one of its words, and which of these are chosen.

    Parameters
    ----------
    text, words
        The text, and its words.
    max_tokens
        How many tokens may come before a word in its excerpt.
    tokenizer
        Counts them.
    """

    def __init__(self, text: str, words: Sequence[Word], max_tokens: int, tokenizer: Tokenizer) -> None:
        self._text = text
        self._words = words
        self._max_tokens = max_tokens
        self._tokenizer = tokenizer
        self._begins = [0, *(word.start for word in words if word.start)]
        self._own = np.arange(len(words)) + len(self._begins) - len(words)  # the place of each word itself

    def find(self, first_tokens: Ints, first_scored: int) -> list[int]:
        """Return where the excerpt of each word begins; ``first_tokens`` are those of the words in the whole text.

        Tokenizers are nearly local, so the first guess is nearly always right; the excerpts themselves decide.
        """
        places = self._guess(first_tokens)
        unsure = [word for word in range(first_scored, len(places)) if places[word]]
        self._begin_later(places, unsure)
        self._begin_earlier(places, unsure)
        return [self._begins[place] for place in places.tolist()]

    def _guess(self, first_tokens: Ints) -> Ints:
        """Return the earliest places that fit, if only the first word of an excerpt is written in another way."""
        following = list(range(1, len(self._words)))
        n_first = self._count(following, [self._words[word - 1].start for word in following])
        # Where an excerpt would begin among the tokens of the whole text, by the tokens that it comes to.
        begins = np.append(first_tokens[1:] - np.array(n_first, dtype=np.int64), first_tokens[-1])
        if self._own[0]:
            begins = np.append(0, begins)
        begins[0] = 0
        earliest = np.searchsorted(np.maximum.accumulate(begins), first_tokens - self._max_tokens)
        places: Ints = np.minimum(earliest, self._own)
        return places

    def _begin_later(self, places: Ints, unsure: Sequence[int]) -> None:
        """Let excerpts with too many tokens begin later, until they fit."""
        while unsure := [word for word in unsure if places[word] < self._own[word]]:
            fits = self._fits(unsure, places[unsure])
            unsure = [word for word, does_fit in zip(unsure, fits, strict=True) if not does_fit]
            places[unsure] += 1

    def _begin_earlier(self, places: Ints, unsure: Sequence[int]) -> None:
        """Let excerpts begin earlier, as long as they fit.

        Inside what is written without white space, a longer excerpt may have fewer tokens: all its places are tried.
        """
        tried = places.copy()
        while unsure := [word for word in unsure if tried[word]]:
            tried[unsure] -= 1
            fits = self._fits(unsure, tried[unsure])
            fitting = [word for word, does_fit in zip(unsure, fits, strict=True) if does_fit]
            places[fitting] = tried[fitting]
            unsure = [word for word in unsure if self._may_fit_before(int(tried[word]), int(places[word]))]

    def _may_fit_before(self, tried: int, fitting: int) -> bool:
        """Return True if an excerpt may fit that begins before a place that was tried, after which another one fits."""
        is_after_space = is_white_space(self._text[self._begins[tried] - 1]) if tried else True
        return tried == fitting or (not is_after_space and fitting - tried < MAX_TRIED_IN_VAIN)

    def _fits(self, words: Sequence[int], places: Ints) -> list[bool]:
        """Return whether each of some words has few enough tokens before it in an excerpt that begins at a place."""
        counts = self._count(words, [self._begins[place] for place in places.tolist()])
        return [count <= self._max_tokens for count in counts]

    def _count(self, chosen: Sequence[int], begins: Sequence[int]) -> list[int]:
        """Return how many tokens come before each of the chosen words in an excerpt with a word before it."""
        if not chosen:
            return []
        stops = [_stop(self._text, self._words, word + 1) for word in chosen]
        columns = zip(begins, stops, strict=True)
        excerpts = [Document(n, self._text[begin:stop]) for n, (begin, stop) in enumerate(columns)]
        batch = TextBatch(excerpts)
        # Two words of each excerpt are enough to count: the word itself, and the one before it, whose tokens end first.
        pairs = [self._words[number] for word in chosen for number in (word - 1, word)]
        starts, ends = _arrays(pairs)
        shift = np.repeat(batch.text_starts[:-1] - np.array(begins), 2)
        tokens = self._tokenizer.encode([excerpt.text for excerpt in excerpts])
        alignment = align(batch, starts + shift, ends + shift, tokens)
        counts: list[int] = (alignment.first_tokens[1::2] - alignment.token_offsets[:-1]).tolist()
        return counts


def _arrays(words: Sequence[Word]) -> tuple[Ints, Ints]:
    """Return where words start and end."""
    spans = np.array([(word.start, word.end) for word in words], dtype=np.int64).reshape(-1, 2)
    return spans[:, 0], spans[:, 1]
