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
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from wordprob.core.alignment import align
from wordprob.core.arrays import Ints, cumulative_offsets, segment_sums
from wordprob.core.characters import is_white_space
from wordprob.core.context_limit import WORDS, ContextLimit
from wordprob.core.text import Document, TextBatch, Word
from wordprob.core.word_definition import WordDefinition
from wordprob.models.protocol import Tokenizer
from wordprob.scoring.batching import MAX_TEXTS_PER_CHUNK, chunk_slices
from wordprob.scoring.prepare import context_words
from wordprob.scoring.prepared_batch import Chunk
from wordprob.scoring.word_choice import WordChoice
from wordprob.tables.batch_scores import BatchScores, TextTotals

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

    def own_words(self) -> list[Word]:
        """Return the words of the text that are in the excerpt, with their places in it."""
        inside = self.words[self.n_words_before : bisect_left(self.words, self.stop, key=_start_of)]
        cut = [Word(word.text[: self.stop - word.start], word.start, min(word.end, self.stop)) for word in inside]
        return [Word(word.text, word.start - self.start, word.end - self.start) for word in cut]

    @property
    def n_words_before(self) -> int:
        """How many words of the text come before the excerpt."""
        return bisect_left(self.words, self.start, key=_start_of)


@dataclass(frozen=True)
class LimitedTexts:
    """Texts that are scored with a limit on the context.

    Attributes
    ----------
    documents
        The texts, with what comes before a continuation.
    sources
        What the rows of the table are about: the texts, or the continuations alone.
    begins
        Where in each text the part begins that is scored.
    choice
        The words of the texts.
    shares_context
        Whether the texts have their contexts in common.
    """

    documents: Sequence[Document]
    sources: Sequence[Document]
    begins: Sequence[int]
    choice: WordChoice
    shares_context: bool = False

    def chunks(self, limit: ContextLimit, tokenizer: Tokenizer, chunk_characters: int) -> list[Chunk]:
        """Return what is scored, in chunks of about so many characters.

        A chunk has all excerpts of some texts, or some excerpts of one text that goes on in the next chunk.
        """
        words = self._words()
        excerpts = _excerpts(self.documents, words, self._first_scored(words), limit, tokenizer)
        lengths = [sum(excerpt.stop - excerpt.start for excerpt in of_text) for of_text in excerpts]
        chunks = []
        for part in chunk_slices(lengths, MAX_TEXTS_PER_CHUNK, chunk_characters):
            texts = range(part.start, part.stop)
            if len(texts) > 1:
                chunks.append(self._chunk(texts, [excerpts[text] for text in texts]))
            else:
                chunks += self._chunks_of_text(part.start, excerpts[part.start], chunk_characters)
        return chunks

    def _words(self) -> list[list[Word]]:
        """Return the words of each text."""
        if self.choice.given is not None:
            return [list(words) for words in self.choice.given]
        batch = TextBatch(self.documents)
        starts, ends = self.choice.definition.spans(batch)
        words: list[list[Word]] = [[] for _ in self.documents]
        texts = np.searchsorted(batch.text_starts, starts, side="right") - 1
        for text, start, end in zip(texts.tolist(), starts.tolist(), ends.tolist(), strict=True):
            origin = int(batch.text_starts[text])
            words[text].append(Word(batch.text[start:end], start - origin, end - origin))
        return words

    def _first_scored(self, words: Sequence[Sequence[Word]]) -> list[int]:
        """Return which word of each text is the first that is scored."""
        batch = TextBatch(self.documents)
        spans = [(word.start, word.end) for words_of_text in words for word in words_of_text]
        origins = np.repeat(batch.text_starts[:-1], [len(words_of_text) for words_of_text in words])
        starts, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T + origins
        first: list[int] = context_words(batch, starts, ends, self.begins).tolist()
        return first

    def _chunks_of_text(self, text: int, excerpts: Sequence[Excerpt], chunk_characters: int) -> list[Chunk]:
        """Return the chunks of one text."""
        lengths = [excerpt.stop - excerpt.start for excerpt in excerpts]
        parts = list(chunk_slices(lengths, MAX_TEXTS_PER_CHUNK, chunk_characters))
        chunks = [self._chunk([text], [excerpts[part]]) for part in parts]
        return [*(chunk._replace(continues=True) for chunk in chunks[:-1]), chunks[-1]]

    def _chunk(self, texts: Sequence[int], excerpts: Sequence[Sequence[Excerpt]]) -> Chunk:
        """Return a chunk of these texts, with these excerpts of each."""
        own = [(text, excerpt) for text, of_text in zip(texts, excerpts, strict=True) for excerpt in of_text]
        documents = [
            Document(self.documents[text].id, self.documents[text].text[excerpt.start : excerpt.stop])
            for text, excerpt in own
        ]
        chunk = Chunk(
            documents,
            context_lengths=[excerpt.scored_start for _, excerpt in own],
            scored_ends=[excerpt.scored_end for _, excerpt in own],
            offset_origins=[self.begins[text] - excerpt.start for text, excerpt in own],
            source_documents=[self.sources[text] for text in texts],
            n_excerpts=[len(of_text) for of_text in excerpts],
            shares_context=self.shares_context,
        )
        definition = self.choice.definition
        if self.choice.given is None and _finds_words(definition, documents, [excerpt for _, excerpt in own]):
            return chunk
        return chunk._replace(
            user_words=[excerpt.own_words() for _, excerpt in own],
            rules=[definition if self.choice.rules is None else self.choice.rules[text] for text, _ in own],
            unscored=[self._unscored(text, excerpt) for text, excerpt in own],
        )

    def _unscored(self, text: int, excerpt: Excerpt) -> list[int]:
        """Return which words of an excerpt only stand between those that the user gave."""
        if self.choice.unscored is None:
            return []
        before = excerpt.n_words_before
        inside = len(excerpt.own_words())
        return [n - before for n in self.choice.unscored[text] if 0 <= n - before < inside]


def _start_of(word: Word) -> int:
    return word.start


def _finds_words(definition: WordDefinition, documents: Sequence[Document], excerpts: Sequence[Excerpt]) -> bool:
    """Return True if a definition finds the same words in the excerpts that it found in the whole texts."""
    batch = TextBatch(documents)
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


# --- and together again -----------------------------------------------------------------------------------------------


def join_excerpts(scores: BatchScores, chunk: Chunk) -> BatchScores:
    """Return the scores of texts from those of their excerpts; other scores come back unchanged."""
    if chunk.n_excerpts is None:
        return scores
    offsets = cumulative_offsets(chunk.n_excerpts)
    firsts, stops = offsets[:-1], offsets[1:]
    totals = scores.totals
    scored = _sums(totals.scored, firsts, stops)
    # An excerpt that has none of the words that were asked for adds nothing; a text that has none has no probability.
    of_excerpts = np.where(totals.words == 0, 0.0, totals.words_log_prob)
    words_log_prob = segment_sums(of_excerpts, firsts, stops)
    joined = TextTotals(
        words=_sums(totals.words, firsts, stops),
        scored=scored,
        surprisal=segment_sums(totals.surprisal, firsts, stops),
        tokens=_sums(totals.tokens, firsts, stops),
        token_log_prob=segment_sums(totals.token_log_prob, firsts, stops),
        words_log_prob=np.where((scored == 0) & ~np.isneginf(words_log_prob), np.nan, words_log_prob),
        end=totals.end[stops - 1],
        is_partial=_sums(totals.is_partial.astype(np.int64), firsts, stops) > 0,
    )
    return replace(scores, counts=_sums(scores.counts, firsts, stops), totals=joined)


def _sums(values: Ints, firsts: Ints, stops: Ints) -> Ints:
    """Return the sums of whole numbers."""
    return segment_sums(values.astype(np.float64), firsts, stops).astype(np.int64)
