"""The Scorer: the one place that knows the whole path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
import regex
from numpy.typing import NDArray

from wordprob import estimators, plan
from wordprob import words as words_module
from wordprob._version import __version__
from wordprob.align import Cut
from wordprob.engine.ahead import Part, Ready, Settings, head, ready
from wordprob.engine.found import Ask, Found
from wordprob.engine.reader import NO_START, Follow, Reader, Reading
from wordprob.errors import InputError, OptionError, did_you_mean
from wordprob.table import EXTRAS, PageScores, WordTable, unit_size
from wordprob.types import Document, Floats, LanguageModel, Scores, Word, WordDefinition, sums

Progress = Callable[[int, int], None]
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

PREFIXES = 2048
"""Branches in hand at a time."""

UNDECIDED = 0.01
"""A row says so when more than this share of what may follow leaves open whether the word has ended."""

NO_END = "no end-of-text token"
SURROGATE = regex.compile(r"[\ud800-\udfff]")


class Scorer:
    """Scores words with a language model.

    Parameters
    ----------
    model
        Anything that satisfies :class:`wordprob.types.LanguageModel`; :func:`wordprob.load` makes one from a name.

    Examples
    --------
    >>> from wordprob.lms.exact import ExactLM
    >>> table = Scorer(ExactLM.bigram("bow")).score(["She saw the mark"], unit="nats")
    >>> table.to_pandas()[["word", "surprisal", "surprisal_naive"]].round(3).values.tolist()[3]
    ['mark', 1.514, 0.0]
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self._readers: dict[str, Reader] = {}

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
        readers: int = 0,
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
            Called with the numbers of texts done and in all.
        readers
            Processes that read texts while the model runs, for a fast GPU; by default a thread of this one does.
        """
        unit_size(unit)
        _check_extras(extras)
        documents = _documents(texts, ids)
        rule, located = _definition(words, documents)
        cut = self._pages([len(d.text) for d in documents])
        parts = [Part(documents[c], None if located is None else located[c]) for c in cut]
        settings = Settings(self._start, self._room, min_context, bool(extras))
        scored = self._score(rule, parts, parts, settings, extras, progress, readers)
        return WordTable.build(scored, self._metadata(rule, words), unit)

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
        >>> from wordprob.lms.exact import ExactLM
        >>> table = Scorer(ExactLM.bigram("bow")).score_continuations("She saw the", ["mark", "marker"], "punctuation")
        >>> (2 ** -table.to_pandas()["surprisal"]).round(3).tolist()
        [0.4, 0.35]
        """
        unit_size(unit)
        rest = _documents(continuations, ids)
        rule = words_module.define(words)
        joined = [_join(context, part.text, separator) for part in rest]
        cut = list(plan.pages((len(text) for text, _ in joined), TEXTS, TOGETHER))
        whole = [Document(part.id, text) for part, (text, _) in zip(rest, joined, strict=True)]
        parts = [Part(whole[c], begins=[begin for _, begin in joined[c]]) for c in cut]
        rows = [Part(rest[c]) for c in cut]
        scored = self._score(rule, parts, rows, Settings(self._start, self._room), (), progress)
        return WordTable.build(scored, {**self._metadata(rule, words), "context": context}, unit)

    def _score(
        self,
        rule: WordDefinition,
        parts: Sequence[Part],
        rows: Sequence[Part],
        settings: Settings,
        extras: Collection[str],
        progress: Progress | None,
        readers: int = 0,
    ) -> list[PageScores]:
        """Score pages one after another: the next is read and the last put together while the model is at one.

        ``rows`` are the documents that the table's rows speak of.
        """
        reader, total = self._reader(rule), sum(len(part.documents) for part in parts)
        finished: list[Future[PageScores]] = []
        done = 0
        with ThreadPoolExecutor(1) as pool:
            for page, part, said in zip(ready(reader, parts, settings, readers), parts, rows, strict=True):
                answers = self._ask(page, reader, progress, done, total)
                self._follow(page.reading, reader)
                finished.append(pool.submit(self._finish, page, answers, said.documents, part.begins, extras))
                done += len(part.documents)
                for early in finished[-BEHIND - 1 : -BEHIND]:
                    early.result()
        return [page.result() for page in finished]

    def _pages(self, lengths: Sequence[int]) -> list[slice]:
        """Cut texts into pages: large for a model that takes much at a time, so that little is padded."""
        size = BATCHES * self.model.batch_tokens
        return list(plan.pages(lengths, TEXTS, size, max(size // 16, FIRST)))

    def _reader(self, rule: WordDefinition) -> Reader:
        if rule.name not in self._readers:
            self._readers[rule.name] = Reader(self.model.tokenizer, self.model.width, rule)
        return self._readers[rule.name]

    def _metadata(self, rule: WordDefinition, chosen: str | Given) -> dict[str, str]:
        vocabulary = self.model.tokenizer.vocabulary
        return {
            **self.model.metadata,
            "tokenizer": vocabulary.fingerprint,
            "words": rule.name if isinstance(chosen, str) else f"given, by {rule.name}",
            "estimator": "corrected",
            "start_token": "" if self._start is None else vocabulary.tokens[self._start],
            "end_tokens": " ".join(vocabulary.tokens[i] for i in vocabulary.ends),
            "wordprob": __version__,
        }

    @property
    def _start(self) -> int | None:
        return self.model.tokenizer.vocabulary.start

    @property
    def _room(self) -> int | None:
        """How many tokens of a text fit into the model's context."""
        return None if self.model.max_tokens is None else self.model.max_tokens - (self._start is not None)

    # --- asking the model ---

    def _ask(
        self, page: Ready, reader: Reader, progress: Progress | None, before: int, total: int
    ) -> list[tuple[Ask, Scores]]:
        """Return what the model says along the observed texts, and tell how many of them are done."""
        left = np.bincount([ask.text for ask in page.asks], minlength=len(page.reading.page.documents))
        done, found = int(np.sum(left == 0)), []
        for k, scores in self.model.score([ask.request for ask in page.asks], reader.atoms):
            ask = page.asks[k]
            found.append((ask, scores))
            left[ask.text] -= 1
            if not left[ask.text]:
                done += 1
                if progress is not None:
                    progress(before + done, total)
        return found

    def _follow(self, reading: Reading, reader: Reader) -> None:
        """Follow the branches that go on: log p of the ids after the first, and B at their end."""
        steps = (step for n in reading.branches.follow for step in self._steps(reading, n))
        for part in iter(lambda: list(islice(steps, PREFIXES)), []):
            for n, logs in self.model.next_logprobs([prefix for _, prefix, _ in part]):
                follow, _, following = part[n]
                if following is not None:
                    follow.log_prob += float(logs[following])
                elif follow.boundary is not None:
                    follow.log_mass = estimators.logsumexp(logs[reader.members(follow.boundary)])

    def _steps(self, reading: Reading, branch: int) -> Iterator[tuple[Follow, list[int], int | None]]:
        """Yield what must be known along a branch: after which prefix, and of which id (none: of the boundary)."""
        follow, text = reading.branches.follow[branch], reading.text_of(reading.branches.boundaries[branch])
        at = reading.branches.rows[branch] - int(reading.rows[reading.first[text]])
        before = head(reading, text, reading.window_of(text, at), at, self._start).tolist()
        for k in range(1, len(follow.ids) + (follow.boundary is not None)):
            yield follow, before + list(follow.ids[:k]), follow.ids[k] if k < len(follow.ids) else None

    # --- the equation ---

    def _finish(
        self,
        page: Ready,
        answers: Sequence[tuple[Ask, Scores]],
        documents: Sequence[Document],
        begins: Sequence[int] | None,
        extras: Collection[str],
    ) -> PageScores:
        """Put the equation's terms together for the words after those given.

        ``documents`` are what the rows speak of; they begin at ``begins`` in the texts that were read.
        """
        reading, found = page.reading, Found.nothing(page.reading)
        found.take(reading, answers, page.sets)
        found.settle(reading)
        alignment, given, texts = reading.alignment, reading.given, np.arange(len(documents))
        end = found.end if self.model.tokenizer.vocabulary.ends else np.full(len(documents), np.nan)
        before, after = found.boundary[reading.after - 1], found.boundary[reading.after]
        terms = estimators.estimate(found.target, alignment.lows, alignment.stops, before, after)
        unsplit = _unsplit(reading)
        for values in (terms.naive, terms.corrected, found.entropy, found.rank):
            values[unsplit] = np.nan
        keep = reading.local >= given[alignment.owner]
        shift = (reading.page.begins[:-1] + (0 if begins is None else np.array(begins)))[alignment.owner]
        opening, closing = reading.first + given, np.append(reading.first[1:], len(reading.sets)) - 1
        low, stop = reading.rows[opening] - texts, reading.rows[closing] - texts
        between = sums(found.target, low, stop)
        rest = sums(found.target, stop, alignment.tokens[1:]) + end
        with np.errstate(invalid="ignore"):  # what has no probability has no end either
            words_log_prob = between + found.boundary[closing] - found.boundary[opening]
            ending = found.boundary[closing] - rest
        place, notes = np.cumsum(keep) - 1, self._notes(reading, found, terms.corrected)
        return PageScores(
            documents=documents,
            counts=np.bincount(alignment.owner[keep], minlength=len(documents)),
            data=reading.page.data,
            spans=(reading.page.at[reading.starts[keep]], reading.page.at[reading.ends[keep]]),
            starts=(reading.starts - shift)[keep],
            ends=(reading.ends - shift)[keep],
            n_tokens=(alignment.stops - alignment.lows)[keep],
            context_tokens=reading.context()[keep],
            surprisal=terms.corrected[keep],
            naive=terms.naive[keep],
            before=terms.before[keep],
            after=terms.after[keep],
            extras={name: getattr(found, name)[keep] for name in extras},
            notes={int(place[word]): note for word, note in notes.items() if keep[word]},
            tokens=alignment.tokens[1:] - low,
            token_log_prob=between + rest - found.boundary[opening],
            words_log_prob=np.where(opening == closing, 0.0, words_log_prob),
            end=ending,
            note=NO_START if self._start is None else NO_END if not self.model.tokenizer.vocabulary.ends else "",
        )

    def _notes(self, reading: Reading, found: Found, corrected: Floats) -> dict[int, str]:
        """Return what is to be said about words, by word."""
        for boundary, share in found.undecided.items():
            if share > UNDECIDED:
                word = boundary - reading.text_of(boundary) - 1
                reading.note(word, f"for {share:.0%} of what may follow, the pattern would have to read on")
        if self._start is None:
            for word in np.flatnonzero(reading.local == 0).tolist():
                reading.note(word, NO_START)
        for word in np.flatnonzero(np.isposinf(corrected)).tolist():
            reading.note(word, "probability zero")
        for word in np.flatnonzero(np.isnan(corrected)).tolist():
            if word not in reading.notes:
                reading.note(word, "what comes before it has probability zero")
        return {word: "; ".join(dict.fromkeys(reasons)) for word, reasons in reading.notes.items()}


def _unsplit(reading: Reading) -> NDArray[np.bool_]:
    """Mark the words whose tokens cannot be told from their neighbours'."""
    crossed = reading.alignment.cuts == Cut.SHARED
    before = np.append(False, crossed)[:-1] & (reading.local > 0)
    found: NDArray[np.bool_] = crossed | before | (reading.alignment.cuts == Cut.EMPTY)
    return found


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


def _check_extras(extras: Collection[str]) -> None:
    for name in extras:
        if name not in EXTRAS:
            raise OptionError(f"no further column is called '{name}'. {did_you_mean(name, EXTRAS)}")
