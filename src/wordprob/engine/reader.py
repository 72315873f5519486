"""From a text to a job for the model: its words, its tokens, the boundaries to weigh and the branches to follow."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from wordprob import plan, vocab
from wordprob.align import Alignment, Cut, Place, Speller, align
from wordprob.types import (
    END,
    SPACE,
    UNREACHABLE,
    Document,
    Floats,
    Ints,
    Label,
    LanguageModel,
    Spelling,
    Tokens,
    Word,
    WordDefinition,
)

SHARED = "a token crosses the word's boundary"
EMPTY = "the tokeniser wrote nothing for this word"
NO_RULE = "no rule says that a word ends here"
NO_START = "no start-of-text token: choose one with bos"


@dataclass
class Branch:
    """Other spellings of a word that leave the observed path at row ``at`` by one of the ids ``first``.

    After that they go ``rest``, and then B is the mass of ``boundary`` (1 if that is ``None``). Spellings whose one
    last token holds the boundary are kept together; ``first`` then has many ids. No ``first``: the spelling
    stays on the observed path up to row ``at`` and the boundary is certain there.
    """

    at: int
    first: tuple[int, ...]
    rest: tuple[int, ...]
    boundary: frozenset[Label] | None
    log_prob: float = 0.0
    """log p of the ids off the observed path."""
    log_mass: float = 0.0
    """log B after them."""


@dataclass
class Job:
    """A text with everything found out about it so far; boundary ``i`` is the one before word ``i``."""

    document: Document
    words: Sequence[Word]
    tokens: Tokens
    alignment: Alignment
    boundaries: list[frozenset[Label] | None]
    missing: set[int] = field(default_factory=set)
    """Boundaries that have no mass."""
    notes: list[list[str]] = field(default_factory=list)
    undecided: dict[int, frozenset[Label]] = field(default_factory=dict)
    branches: dict[int, list[Branch]] = field(default_factory=dict)
    """By the boundary they lead to."""
    given: int = 0
    """Words at the beginning that are context only."""
    windows: list[plan.Window] = field(default_factory=list)
    target: Floats = field(default_factory=lambda: np.zeros(0))
    mass: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def row(self, boundary: int) -> int:
        """Return the row of the distribution at a boundary."""
        return int(self.alignment.stops[boundary - 1]) if boundary else 0

    @property
    def first_row(self) -> int:
        """The first row whose distribution is needed: that of the last word given, for the boundary after it."""
        return self.row(self.given - 1) if self.given else 0

    def window_of(self, row: int) -> plan.Window:
        """Return the window that answers for a row."""
        return self.windows[bisect_right(self.windows, row, key=lambda w: w.first) - 1]

    def leaving(self) -> dict[plan.Window, list[Branch]]:
        """Return the branches that leave the observed path, by the window they leave it in."""
        found: dict[plan.Window, list[Branch]] = {window: [] for window in self.windows}
        for branch in (b for branches in self.branches.values() for b in branches if b.first):
            found[self.window_of(branch.at)].append(branch)
        return found


class Reader:
    """Reads texts under one word definition, for one model."""

    def __init__(self, model: LanguageModel, rule: WordDefinition) -> None:
        self._tokenizer = model.tokenizer
        self._vocabulary = model.tokenizer.vocabulary
        self._rule = rule
        self.atoms = vocab.atoms(self._vocabulary, rule, model.width)
        self._labels = np.array(self.atoms.labels, dtype=object)[self.atoms.of]
        self._speller = Speller(self._tokenizer.encode, self._vocabulary, rule, self.atoms)
        self._columns: dict[frozenset[Label], list[int]] = {}

    def columns(self, labels: frozenset[Label]) -> list[int]:
        """Return the atoms of these labels."""
        if labels not in self._columns:
            self._columns[labels] = self.atoms.columns(labels)
        return self._columns[labels]

    def members(self, labels: frozenset[Label]) -> Ints:
        """Return the ids of all tokens with these labels."""
        return np.flatnonzero(np.isin(self.atoms.of, self.columns(labels)))

    @cached_property
    def start_labels(self) -> frozenset[Label]:
        """What a text can begin with, where it does not begin with white space."""
        spaces = {lab for lab in self.atoms.labels if lab.split(":")[0] == SPACE}
        if self._vocabulary.first_word_marked:
            return frozenset(spaces | {END})
        return frozenset(self.atoms.labels) - spaces - {UNREACHABLE}

    def read(
        self,
        documents: Sequence[Document],
        segmented: Sequence[Sequence[Word]],
        own: bool = False,
        given: Sequence[int] | None = None,
    ) -> list[Job]:
        """Tokenise, align and find every word's spellings.

        Parameters
        ----------
        documents, segmented
            The texts and their words.
        own
            Whether the words are the user's own and need not follow the rule.
        given
            For each text, how many words at its beginning are context only.
        """
        tokens = self._tokenizer.encode([d.text for d in documents])
        jobs = [
            self._align(document, found, written, own, skipped)
            for document, found, written, skipped in zip(
                documents, segmented, tokens, given or [0] * len(documents), strict=True
            )
        ]
        places = [(job, i, place) for job in jobs for i, place in self._places(job)]
        spelled = self._speller.spellings([place for _, _, place in places])
        for (job, i, _), spellings in zip(places, spelled, strict=True):
            self._branch(job, i, spellings)
        return jobs

    # --- boundaries ---

    def _align(self, document: Document, found: Sequence[Word], tokens: Tokens, own: bool, given: int) -> Job:
        job = Job(document, found, tokens, align(document.text, found, tokens), [self._start(tokens)], given=given)
        needed = range(max(given - 1, 0), len(found))
        job.boundaries += [None] * len(found)
        job.notes = [self._rewriting(job, i) if i in needed else [] for i in range(len(found))]
        for i in needed:
            cut = job.alignment.cuts[i]
            if cut is Cut.CLEAN:
                self._weigh(job, i, own)
            elif cut is Cut.EMPTY:
                job.boundaries[i + 1] = job.boundaries[i]
                if not job.notes[i]:
                    job.notes[i].append(EMPTY)
            elif cut is Cut.SHARED:
                self._without(job, i + 1, SHARED)
        return job

    @staticmethod
    def _without(job: Job, boundary: int, reason: str) -> None:
        """Give up a boundary, and tell the words on both sides of it why."""
        job.missing.add(boundary)
        for i in (boundary - 1, boundary):
            if i < len(job.words):
                job.notes[i].append(reason)

    def _start(self, tokens: Tokens) -> frozenset[Label]:
        if len(tokens.ids) and self._labels[tokens.ids[0]] not in self.start_labels:
            return frozenset(self.atoms.labels) - {UNREACHABLE}
        return self.start_labels

    def _weigh(self, job: Job, i: int, own: bool) -> None:
        """Settle what ends word ``i``, and make sure that what really follows it is counted."""
        text, word, row = job.document.text, job.words[i], job.row(i + 1)
        before = text[max(0, word.start - 2) : word.start]
        labels = self._speller.boundary(before, word.text, int(job.tokens.ids[row - 1]))
        job.boundaries[i + 1] = labels
        if labels is None:
            return
        if undecided := self._rule.undecided(before, word.text, self.atoms.labels):
            job.undecided[i + 1] = undecided
        if row == len(job.tokens.ids) or self._labels[job.tokens.ids[row]] in labels:
            return
        opening = self._rule.label(text[word.end : word.end + 2])
        if own and not self._rule.boundaries(before, word.text, [opening]):
            self._without(job, i + 1, NO_RULE)
            return
        job.branches.setdefault(i + 1, []).append(Branch(self._past_character(job, i), (), (), None))

    def _past_character(self, job: Job, i: int) -> int:
        """Return the row at which the tokens have written the whole first character after word ``i``."""
        text, word = job.document.text, job.words[i]
        finish = len(text[: word.end + 1].encode("utf-8", "surrogatepass"))
        row = job.row(i + 1) + 1
        while row < len(job.tokens.ids) and job.tokens.ends[row - 1] < finish:
            row += 1
        return row

    def _rewriting(self, job: Job, i: int) -> list[str]:
        """Say what became of a word that the tokeniser did not take as it stands."""
        if job.tokens.exact:
            return []
        low, high = job.alignment.slice(i)
        ids = job.tokens.ids[low:high].tolist()
        if self._vocabulary.unknown in ids:
            return ["the tokeniser does not know all of it"]
        written = b"".join(self._vocabulary.pieces[k] or b"" for k in ids).decode("utf-8", "replace").strip()
        if written == job.words[i].text or job.alignment.cuts[i] is not Cut.CLEAN:
            return []
        return [f"read by the tokeniser as '{written}'"]

    # --- spellings ---

    def _places(self, job: Job) -> Iterator[tuple[int, Place]]:
        text, done = job.document.text, 0
        for i, word in enumerate(job.words):
            low, high = job.alignment.slice(i)
            joined = i > 0 and job.alignment.cuts[i - 1] is Cut.JOINED
            open_end = job.alignment.cuts[i] in (Cut.CLEAN, Cut.JOINED) and i + 1 not in job.missing
            if i + 1 >= job.given and open_end and (i == 0 or job.alignment.cuts[i - 1] is not Cut.SHARED):
                ids = tuple(job.tokens.ids[low:high].tolist())
                yield i, Place(text[max(0, done - 200) : done], text[done : word.end], word.text, ids, joined)
            done = word.end

    def _branch(self, job: Job, i: int, spellings: Sequence[Spelling]) -> None:
        """Turn the other spellings of word ``i`` into branches off the observed path."""
        low, _ = job.alignment.slice(i)
        observed = job.tokens.ids[low:].tolist()
        gathered: dict[int, list[int]] = {}
        branches = job.branches.setdefault(i + 1, []) if spellings else []
        for spelling in spellings:
            shared = plan.common(spelling.ids, observed)
            off = spelling.ids[shared:]
            if len(off) == 1 and spelling.boundary is None:
                gathered.setdefault(low + shared, []).append(off[0])
            elif off:
                branches.append(Branch(low + shared, off[:1], off[1:], spelling.boundary))
        branches += [Branch(at, tuple(ids), (), None) for at, ids in gathered.items()]
        if self._vocabulary.start is None and any(b.first and b.at == 0 for b in branches):
            del job.branches[i + 1]
            self._without(job, i + 1, NO_START)
