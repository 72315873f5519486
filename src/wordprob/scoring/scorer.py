"""The Scorer: the one place that knows the whole path."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import regex

from wordprob._version import __version__
from wordprob.core import words as words_module
from wordprob.core.text import Document, Word
from wordprob.core.words import WordDefinition
from wordprob.errors import InputError
from wordprob.models.protocol import LanguageModel
from wordprob.scoring.ahead import Chunk, PreparedRequests, RequestSettings, ready
from wordprob.scoring.batching import text_batches
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.long_text import joined, sections
from wordprob.scoring.page import BatchScorer, Progress
from wordprob.scoring.prepare import TextPreparer
from wordprob.scoring.worker_pool import score_in_workers, useful_workers
from wordprob.tables.batch_scores import BatchScores
from wordprob.tables.result import WordTable
from wordprob.tables.schema import required_statistics, unit_size

Given = Sequence[str] | Sequence[Sequence[str]]

TEXTS = 8192
"""Texts on a page, at most."""

BATCHES = 128
"""Characters on a page, about, for each token that the model takes at a time: some thirty batches."""

FIRST = 1 << 16
"""Characters of the first page, where pages are larger: the model need not wait long for it."""

TOGETHER = 1 << 20
"""Characters of whole texts that share a context, on a page: the context is run once for each."""

BEHIND = 2
"""Pages that may wait to be put together."""

SURROGATE = regex.compile(r"[\ud800-\udfff]")


class Scorer:
    """Scores words with a language model.

    Parameters
    ----------
    model
        A :class:`wordprob.models.protocol.LanguageModel`; :func:`wordprob.load` makes one from a name.

    Examples
    --------
    >>> from wordprob.models.exact import ExactLM
    >>> table = Scorer(ExactLM.bigram("bow")).score(["She saw the mark"], unit="nats")
    >>> table.to_pandas()[["word", "surprisal", "surprisal_naive"]].round(3).values.tolist()[3]
    ['mark', 1.514, 0.0]
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self._one = BatchScorer(model)
        self._readers: dict[str, TextPreparer] = {}

    def score(
        self,
        texts: str | Iterable[str],
        words: str | Given = "whitespace",
        *,
        unit: str = "bits",
        ids: Sequence[int | str] | None = None,
        min_context: int | None = None,
        extras: Collection[str] = (),
        progress: Progress | None = None,
        readers: int | None = 0,
    ) -> WordTable:
        """Return the surprisal of every word of every text.

        Parameters
        ----------
        texts
            One text or several. They are scored independently and are never changed.
        words
            ``whitespace``, ``punctuation``, ``regex:PATTERN``, or the words themselves: a list for each text (or one
            list for one text).
        unit
            ``bits`` or ``nats``.
        ids
            Names for the texts; counted from 0 by default.
        min_context
            For texts longer than the model's context: how many tokens each word has before it, at least.
        extras
            Further columns: ``entropy`` of the next token where the word begins, ``rank`` of the token that came there.
        progress
            Called with the numbers of texts done and in all; a long text counts as several.
        readers
            Processes that do everything but run the model, for a fast GPU; by default threads of this one do. ``None``
            for as many as pay; a script that asks for some needs ``if __name__ == "__main__":``.
        """
        unit_size(unit)
        statistics = required_statistics(extras)
        documents = _documents(texts, ids)
        rule, located = _definition(words, documents)
        if readers is None:
            readers = useful_workers(self.model.batch_tokens, sum(len(d.text) for d in documents))
        settings = RequestSettings(self._one.start, self._one.room, min_context, bool(statistics))
        parts = self._parts(
            documents, rule, located, settings, BATCHES * self.model.batch_tokens // (4 if readers else 1)
        )
        if readers:
            scored = score_in_workers(self.model, self._reader(rule), parts, settings, statistics, readers, progress)
        else:
            scored = self._score(rule, parts, settings, statistics, progress)
        return WordTable.build(joined(zip(scored, parts, strict=True)), self._metadata(rule, words), unit, extras)

    def score_continuations(
        self,
        context: str,
        continuations: Iterable[str],
        words: str = "whitespace",
        *,
        unit: str = "bits",
        ids: Sequence[int | str] | None = None,
        separator: str = " ",
        progress: Progress | None = None,
    ) -> WordTable:
        """Return the surprisal of each continuation's words, given the context.

        The values are those of scoring the whole texts, but what they share is computed once. Offsets are into the
        continuation.

        Parameters
        ----------
        context
            What comes before; may be empty.
        continuations
            What may come next: words or longer stretches, as many as you like.
        words, unit, ids, progress
            As for :meth:`score`; words are found by a rule, not given.
        separator
            Put between context and continuation, unless either brings white space of its own.

        Examples
        --------
        >>> from wordprob.models.exact import ExactLM
        >>> table = Scorer(ExactLM.bigram("bow")).score_continuations("She saw the", ["mark", "marker"], "punctuation")
        >>> (2 ** -table.to_pandas()["surprisal"]).round(3).tolist()
        [0.4, 0.35]
        """
        unit_size(unit)
        rest = _documents(continuations, ids)
        rule = words_module.define(words)
        together = [_join(context, part.text, separator) for part in rest]
        cut = list(text_batches((len(text) for text, _ in together), TEXTS, TOGETHER))
        whole = [Document(part.id, text) for part, (text, _) in zip(rest, together, strict=True)]
        begins = [begin for _, begin in together]
        parts = [Chunk(whole[c], begins=begins[c], origins=begins[c], said=rest[c]) for c in cut]
        scored = self._score(rule, parts, RequestSettings(self._one.start, self._one.room), (), progress)
        metadata = {**self._metadata(rule, words), "context": context}
        return WordTable.build(joined(zip(scored, parts, strict=True)), metadata, unit)

    def _score(
        self,
        rule: WordDefinition,
        parts: Sequence[Chunk],
        settings: RequestSettings,
        extras: Collection[str],
        progress: Progress | None,
    ) -> Iterator[BatchScores]:
        """Score pages one after another: the next is read and the last put together while the model is at one."""
        reader, total = self._reader(rule), sum(len(part.documents) for part in parts)
        finished: deque[Future[BatchScores]] = deque()
        done = 0
        with ThreadPoolExecutor(1) as pool:
            for page, part in zip(ready(reader, parts, settings), parts, strict=True):
                found = CollectedScores.nothing(page.reading)
                taken = [
                    pool.submit(found.take, page.reading, answers, page.sets)
                    for answers in self._one.ask(page, reader, progress, done, total)
                ]
                finished.append(pool.submit(self._finish, page, taken, found, part, extras))
                done += len(part.documents)
                if len(finished) > BEHIND:
                    yield finished.popleft().result()
            while finished:
                yield finished.popleft().result()

    def _finish(
        self,
        page: PreparedRequests,
        taken: Sequence[Future[None]],
        found: CollectedScores,
        part: Chunk,
        extras: Collection[str],
    ) -> BatchScores:
        for answers in taken:
            answers.result()
        return self._one.finish(page, found, part, extras)

    def _parts(
        self,
        documents: Sequence[Document],
        rule: WordDefinition,
        located: Sequence[Sequence[Word]] | None,
        settings: RequestSettings,
        size: int,
    ) -> list[Chunk]:
        """Cut texts into pages, large for a model that takes much at a time, and a text alone on one into sections."""
        found = []
        for page in text_batches([len(d.text) for d in documents], TEXTS, size, max(size // 16, FIRST)):
            part = Chunk(documents[page], None if located is None else located[page])
            if located is None and len(part.documents) == 1:
                found += sections(part.documents[0], rule, self.model.tokenizer, settings, size)
            else:
                found.append(part)
        return found

    def _reader(self, rule: WordDefinition) -> TextPreparer:
        if rule.name not in self._readers:
            self._readers[rule.name] = TextPreparer(self.model.tokenizer, self.model.vocab_size, rule)
        return self._readers[rule.name]

    def _metadata(self, rule: WordDefinition, chosen: str | Given) -> dict[str, str]:
        vocabulary = self.model.tokenizer.vocabulary
        return {
            **self.model.metadata,
            "tokenizer": vocabulary.fingerprint,
            "words": rule.name if isinstance(chosen, str) else f"given, by {rule.name}",
            "estimator": "corrected",
            "start_token": "" if self._one.start is None else vocabulary.tokens[self._one.start],
            "end_tokens": " ".join(vocabulary.tokens[i] for i in vocabulary.ends),
            "wordprob": __version__,
        }


def _join(context: str, continuation: str, separator: str) -> tuple[str, int]:
    """Return the whole text, and where the continuation begins in it."""
    touching = not context or context[-1:].isspace() or continuation[:1].isspace()
    head = context if touching else context + separator
    return head + continuation, len(head)


def _documents(texts: str | Iterable[str], ids: Sequence[int | str] | None) -> list[Document]:
    found = [texts] if isinstance(texts, str) else list(texts)
    for n, text in enumerate(found):
        if not isinstance(text, str):
            raise InputError(f"text {n} is not a string but {type(text).__name__}: {text!r:.60}")
        if not text.isascii() and SURROGATE.search(text):
            raise InputError(
                f"text {n} has a lone surrogate, which is no character; was it decoded with surrogateescape?"
            )
    names = list(range(len(found))) if ids is None else list(ids)
    if len(names) != len(found):
        raise InputError(f"{len(found)} texts but {len(names)} ids; give one for each.")
    return [Document(name, text) for name, text in zip(names, found, strict=True)]


def _definition(
    chosen: str | Given, documents: Sequence[Document]
) -> tuple[WordDefinition, list[Sequence[Word]] | None]:
    """Return the rule that says what ends a word, and the words themselves where they were given."""
    if isinstance(chosen, str):
        rule = words_module.define(chosen)
        full = [d.text for d in documents if d.text.strip()]
        if isinstance(rule, words_module.Regex) and full and not any(rule.segment(text) for text in full):
            raise InputError(f"the pattern in '{rule.name}' matches nothing in the {len(documents)} texts given.")
        return rule, None
    lists = [chosen] if chosen and all(isinstance(w, str) for w in chosen) else list(chosen)
    if len(lists) != len(documents):
        raise InputError(f"{len(documents)} texts but {len(lists)} word lists; give one list for each text.")
    located: list[Sequence[Word]] = [
        words_module.locate(d.text, [str(w) for w in g], f"text {d.id}") for d, g in zip(documents, lists, strict=True)
    ]
    return words_module.rule_for((d.text for d in documents), located), located
