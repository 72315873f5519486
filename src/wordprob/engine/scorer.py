"""The Scorer: the one place that knows the whole path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from wordprob import estimators, plan
from wordprob import words as words_module
from wordprob._version import __version__
from wordprob.align import Cut
from wordprob.engine.reader import NO_START, Branch, Job, Reader
from wordprob.errors import InputError
from wordprob.table import TextScores, WordTable, unit_size
from wordprob.types import END, Document, Floats, LanguageModel, Request, Word, WordDefinition

Progress = Callable[[int, int], None]
Given = Sequence[str] | Sequence[Sequence[str]]

CHUNK = 256
"""Texts in hand at a time."""

PREFIXES = 2048
"""Branches in hand at a time."""

UNDECIDED = 0.01
"""A row says so when more than this share of what may follow leaves open whether the word has ended."""

NO_END = "no end-of-text token"


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
        progress: Progress | None = None,
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
        progress
            Called with the numbers of texts done and in all.
        """
        unit_size(unit)
        documents = _documents(texts, ids)
        rule, segmented = _segment(words, documents)
        reader = self._reader(rule)
        scored: list[TextScores] = []
        for low in range(0, len(documents), CHUNK):
            part = slice(low, low + CHUNK)
            jobs = reader.read(documents[part], segmented[part], own=not isinstance(words, str))
            self._complete(jobs, reader, min_context, progress, low, len(documents))
            scored += [self._finish(job, reader, job.document, 0) for job in jobs]
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
        parts = _documents(continuations, ids)
        rule = words_module.define(words)
        joined = [_join(context, part.text, separator) for part in parts]
        segmented = [rule.segment(text) for text, _ in joined]
        reader, scored = self._reader(rule), []
        for low in range(0, len(parts), CHUNK):
            chosen = range(low, min(low + CHUNK, len(parts)))
            jobs = reader.read(
                [Document(parts[n].id, joined[n][0]) for n in chosen],
                [segmented[n] for n in chosen],
                given=[_given(segmented[n], joined[n][1], parts[n]) for n in chosen],
            )
            self._complete(jobs, reader, None, progress, low, len(parts))
            scored += [self._finish(job, reader, parts[n], joined[n][1]) for n, job in zip(chosen, jobs, strict=True)]
        metadata = {**self._metadata(rule, words), "context": context}
        return WordTable.build(scored, metadata, unit)

    def _complete(
        self, jobs: Sequence[Job], reader: Reader, min_context: int | None, progress: Progress | None, low: int, of: int
    ) -> None:
        """Ask the model for all that the jobs need."""
        for done in self._ask(jobs, reader, min_context):
            if progress is not None:
                progress(low + done, of)
        self._follow(jobs, reader)

    def _reader(self, rule: WordDefinition) -> Reader:
        if rule.name not in self._readers:
            self._readers[rule.name] = Reader(self.model, rule)
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

    # --- asking the model ---

    def _ask(self, jobs: Sequence[Job], reader: Reader, min_context: int | None) -> Iterator[int]:
        """Fill in what the model says along the observed texts; yield the number of texts done."""
        requests: list[Request] = []
        origin: list[tuple[int, plan.Window, list[Branch]]] = []
        left = [0] * len(jobs)
        for n, job in enumerate(jobs):
            self._plan(job, min_context, len(reader.atoms.labels))
            for window, leaving in job.leaving().items():
                if (request := self._request(job, window, leaving)) is not None:
                    requests.append(request)
                    origin.append((n, window, leaving))
                    left[n] += 1
        done = left.count(0)
        for k, scores in self.model.score(requests, reader.atoms):
            n, window, leaving = origin[k]
            job, first = jobs[n], max(window.first, window.low + (self._start is None), jobs[n].first_row)
            rows, known = window.last + 1 - first, min(window.last + 1, len(job.tokens.ids)) - first
            job.mass[first : first + rows] = scores.mass[:rows]
            job.target[first : first + known] = scores.target[:known]
            for branch, logs in zip(leaving, scores.gathered, strict=True):
                branch.log_prob = estimators.logsumexp(logs)
            left[n] -= 1
            if not left[n]:
                done += 1
                yield done

    def _plan(self, job: Job, min_context: int | None, width: int) -> None:
        count = len(job.tokens.ids)
        room = None if self.model.max_tokens is None else self.model.max_tokens - (self._start is not None)
        job.windows = plan.windows(count, job.alignment.stops, room, min_context)
        job.target = np.full(count, np.nan)
        job.mass = np.full((count + 1, width), np.nan)

    def _request(self, job: Job, window: plan.Window, leaving: Sequence[Branch]) -> Request | None:
        ids = self._head(job, window, window.last + 1)
        if not ids or window.last < job.first_row:
            return None
        offset = window.low + (self._start is None)
        gather = tuple((b.at - offset, b.first) for b in leaving)
        first = max(window.first, job.first_row) - offset
        return Request(np.array(ids, dtype=np.int64), max(first, 0), gather)

    def _head(self, job: Job, window: plan.Window, row: int) -> list[int]:
        """Return what the model sees before ``row``: the start token and the window's tokens."""
        start = [] if self._start is None else [self._start]
        return start + [int(i) for i in job.tokens.ids[window.low : row]]

    def _follow(self, jobs: Sequence[Job], reader: Reader) -> None:
        """Follow every branch past its first id: log p of the ids after it, and B at its end."""
        steps = (step for job in jobs for step in self._steps(job))
        for part in iter(lambda: list(islice(steps, PREFIXES)), []):
            for n, logs in self.model.next_logprobs([prefix for _, prefix, _ in part]):
                branch, _, following = part[n]
                if following is not None:
                    branch.log_prob += float(logs[following])
                elif branch.boundary is not None:
                    branch.log_mass = estimators.logsumexp(logs[reader.members(branch.boundary)])

    def _steps(self, job: Job) -> Iterator[tuple[Branch, list[int], int | None]]:
        """Yield what must be known along the branches: after which prefix, and of which id (none: of the boundary)."""
        for window, branches in job.leaving().items():
            for branch in branches:
                head = self._head(job, window, branch.at)
                off = [branch.first[0], *branch.rest]
                for k in range(1, len(off) + (branch.boundary is not None)):
                    yield branch, head + off[:k], off[k] if k < len(off) else None

    # --- the equation ---

    def _finish(self, job: Job, reader: Reader, document: Document, shift: int) -> TextScores:
        """Put the equation's terms together for the words after those given; offsets move by ``shift``."""
        given, stops = job.given, job.alignment.stops
        boundary = np.full(len(job.words) + 1, np.nan)
        boundary[given:] = [_boundary(job, i, reader) for i in range(given, len(job.words) + 1)]
        end = _end(job, reader) if self.model.tokenizer.vocabulary.ends else np.nan
        scores = estimators.estimate(job.target, stops, boundary, end)
        unsplit = _unsplit(job)
        scores.naive[unsplit] = scores.corrected[unsplit] = np.nan
        firsts = [0, *stops.tolist()[:-1]] if len(stops) else []
        begin = job.row(given)
        return TextScores(
            document=document,
            words=[Word(w.text, w.start - shift, w.end - shift) for w in job.words[given:]] if shift else job.words,
            n_tokens=np.diff(stops, prepend=0)[given:].tolist(),
            context_tokens=[row - job.window_of(row).low for row in firsts[given:]],
            surprisal=scores.corrected[given:],
            naive=scores.naive[given:],
            before=scores.before[given:],
            after=scores.after[given:],
            notes=["; ".join(dict.fromkeys(self._notes(job, i, scores, reader))) for i in range(given, len(job.words))],
            tokens=len(job.tokens.ids) - begin,
            token_log_prob=float(np.sum(job.target[begin:])) + end - float(boundary[given]),
            words_log_prob=_words_log_prob(job, boundary),
            end=scores.end,
            note=NO_START if self._start is None else NO_END if not self.model.tokenizer.vocabulary.ends else "",
        )

    def _notes(self, job: Job, i: int, scores: estimators.WordScores, reader: Reader) -> Iterator[str]:
        yield from job.notes[i]
        if i == 0 and self._start is None:
            yield NO_START
        if i + 1 in job.undecided:
            masses = job.mass[job.row(i + 1), reader.columns(job.undecided[i + 1])]
            if (share := float(np.exp(estimators.logsumexp(masses)))) > UNDECIDED:
                yield f"for {share:.0%} of what may follow, the pattern would have to read on"
        if np.isposinf(scores.corrected[i]):
            yield "probability zero"


def _boundary(job: Job, i: int, reader: Reader) -> float:
    """Return log B̃ at boundary ``i``."""
    if i in job.missing:
        return float("nan")
    row, labels = job.row(i), job.boundaries[i]
    observed = 0.0 if labels is None else estimators.logsumexp(job.mass[row, reader.columns(labels)])
    low = job.row(i - 1) if i else 0
    taken = float(np.sum(job.target[low:row]))
    others = [(float(np.sum(job.target[low : b.at])) + b.log_prob - taken, b.log_mass) for b in job.branches.get(i, ())]
    return estimators.effective_boundary(observed, others)


def _end(job: Job, reader: Reader) -> float:
    return estimators.logsumexp(job.mass[-1, reader.columns(frozenset({END}))])


def _unsplit(job: Job) -> NDArray[np.bool_]:
    """Mark the words whose tokens cannot be told from their neighbours'."""
    crossed = np.array([cut is Cut.SHARED for cut in job.alignment.cuts], dtype=bool)
    empty = np.array([cut is Cut.EMPTY for cut in job.alignment.cuts], dtype=bool)
    before = np.concatenate([[False], crossed[:-1]]) if len(crossed) else crossed
    unsplit: NDArray[np.bool_] = crossed | before | empty
    return unsplit


def _words_log_prob(job: Job, boundary: Floats) -> float:
    """Return log p of the words from the tokens, whether or not each word has a value of its own."""
    if len(job.words) == job.given:
        return 0.0
    between = job.target[job.row(job.given) : job.row(len(job.words))]
    return float(np.sum(between)) + float(boundary[-1]) - float(boundary[job.given])


def _join(context: str, continuation: str, separator: str) -> tuple[str, int]:
    """Return the whole text, and where the continuation begins in it."""
    touching = not context or context[-1:].isspace() or continuation[:1].isspace()
    head = context if touching else context + separator
    return head + continuation, len(head)


def _given(found: Sequence[Word], begin: int, part: Document) -> int:
    """Return how many words come before the continuation, which must begin a word of its own."""
    for word in found:
        if word.start < begin < word.end:
            raise InputError(
                f"continuation {part.id} ('{part.text[:30]}') goes on with the context's last word: together they make "
                f"'{word.text[:40]}'. Put a space between them, or move the whole word into the continuation."
            )
    return sum(word.end <= begin for word in found)


def _documents(texts: str | Iterable[str], ids: Sequence[int | str] | None) -> list[Document]:
    found = [texts] if isinstance(texts, str) else list(texts)
    for n, text in enumerate(found):
        if not isinstance(text, str):
            raise InputError(f"text {n} is not a string but {type(text).__name__}: {text!r:.60}")
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise InputError(
                f"text {n} has a lone surrogate, which is no character; was it decoded with surrogateescape?"
            )
    names = list(range(len(found))) if ids is None else list(ids)
    if len(names) != len(found):
        raise InputError(f"{len(found)} texts but {len(names)} ids; give one for each.")
    return [Document(name, text) for name, text in zip(names, found, strict=True)]


def _segment(chosen: str | Given, documents: Sequence[Document]) -> tuple[WordDefinition, list[list[Word]]]:
    """Cut all documents into words, and return the rule that says what ends one."""
    if isinstance(chosen, str):
        rule = words_module.define(chosen)
        found = [rule.segment(d.text) for d in documents]
        if (
            isinstance(rule, words_module.Regex)
            and documents
            and not any(found)
            and any(d.text.strip() for d in documents)
        ):
            raise InputError(f"the pattern in '{rule.name}' matches nothing in the {len(documents)} texts given.")
        return rule, found
    lists = [chosen] if chosen and all(isinstance(w, str) for w in chosen) else list(chosen)
    if len(lists) != len(documents):
        raise InputError(f"{len(documents)} texts but {len(lists)} word lists; give one list for each text.")
    located = [
        words_module.locate(d.text, [str(w) for w in g], f"text {d.id}") for d, g in zip(documents, lists, strict=True)
    ]
    return words_module.rule_for((d.text for d in documents), located), located
