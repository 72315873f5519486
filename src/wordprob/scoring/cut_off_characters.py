"""Reading on where a token holds only the first bytes of a character.

Whether such a token ends a word depends on what the character becomes. Where its mass matters, the model is asked what
comes next, until the character is whole; where it does not, the mass counts by what such a character usually becomes,
and the error is less than that mass.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.atoms import Atoms
from wordprob.core.characters import Label
from wordprob.core.cut_off_tokens import Completions, CutOffTokens
from wordprob.core.equation import effective_boundaries
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.prepare import BoundarySets, PreparedBatch
from wordprob.scoring.requests import TailScores, prefix_ids, window_of
from wordprob.scoring.rounds import Question, QuestionStep, Reply

SMALLEST_SHARE = 1e-3
"""Cut-off characters with less than this share of what ends a word are not read on."""

SMALLEST_SHARE_AT_START = 1e-6
"""The same at the beginning of texts, where reading on costs little and is done once for all of them."""

SMALLEST_SHARE_READ_ON = 2e-5
"""The same for a single token, where characters are read on."""

LONGEST_CHARACTER_BYTES = 4

MassesStep = Generator[Sequence[Question], Sequence[Reply], list[float]]
"""A step that returns the mass, for each of some readings, that turns out to end the word."""


@dataclass
class Reading:
    """A place where the next character is cut off.

    Attributes
    ----------
    ids
        What the model has seen so far.
    ending
        The labels that end the word.
    pending
        The bytes of the character so far; none at a place where cut-off characters come next.
    weight
        The probability of getting here from where the reading began.
    known
        The mass that is known to end the word where the reading began.
    n_text
        How many of the ids are a context: a model may have kept the states of these.
    log_masses
        Where a reading begins: the log-mass of every atom there, if that is known.
    began
        The number of the reading that this one goes on with.
    """

    ids: Ints
    ending: frozenset[Label]
    pending: bytes
    weight: float
    known: float
    n_text: int
    log_masses: Floats | None = None
    began: int = 0


class CutOffReader:
    """Reads cut-off characters on with a model; what it asks is put together with other questions.

    Parameters
    ----------
    atoms
        The partition of the model's vocabulary.
    tokens
        What tokens make of cut-off characters.
    """

    def __init__(self, atoms: Atoms, tokens: CutOffTokens) -> None:
        self._atoms = atoms
        self._tokens = tokens

    def read_boundaries(self, prepared: PreparedBatch, collected: CollectedScores) -> QuestionStep:
        """Read on where it matters after the words of a batch, and add what was found to the collected scores.

        Where the masses have bounds, these allow for whatever the characters may become.
        """
        if collected.bounds is not None:
            return
        known = np.exp(collected.boundaries)
        smallest = np.full(len(known), SMALLEST_SHARE)
        smallest[prepared.alignment.first_boundaries] = SMALLEST_SHARE_AT_START
        matters = (collected.ambiguous > smallest * known) & ~prepared.missing
        matters &= prepared.boundary_sets > BoundarySets.NOTHING
        boundaries = np.flatnonzero(matters)
        readings = []
        all_masses = collected.boundary_masses[boundaries]
        for boundary, log_masses in zip(boundaries.tolist(), all_masses, strict=True):
            ending = prepared.sets.labels(int(prepared.boundary_sets[boundary])) or frozenset()
            batch_row = int(prepared.alignment.boundary_rows[boundary])
            text, row = prepared.text_and_row(boundary, batch_row)
            ids, n_kept = _ids_and_kept(prepared, text, row, room=LONGEST_CHARACTER_BYTES)
            readings.append(Reading(ids, ending, b"", 1.0, float(known[boundary]), n_kept, log_masses))
        at_start = np.isin(boundaries, prepared.alignment.first_boundaries).tolist()
        collected.read_on[boundaries] = yield from self._read_on_once(readings, at_start)

    def _read_on_once(self, readings: Sequence[Reading], at_start: Sequence[bool]) -> MassesStep:
        """Return what :meth:`_read_on` does; readings at the start of texts are the same for all of them."""
        known = self._tokens.known_starts
        keys = [(reading.ids.tobytes(), reading.ending) for reading in readings]
        new = [n for n, start in enumerate(at_start) if not start or keys[n] not in known]
        found = yield from self._read_on([readings[n] for n in new])
        masses = dict(zip(new, found, strict=True))
        for n, mass in masses.items():
            if at_start[n]:
                known[keys[n]] = mass
        return [masses[n] if n in masses else known[keys[n]] for n in range(len(readings))]

    def read_tails(
        self, prepared: PreparedBatch, collected: CollectedScores, scores: Sequence[TailScores]
    ) -> QuestionStep:
        """Read on at the ends of spellings that left the text, of which these are the scores."""
        if collected.bounds is not None or not scores:
            return
        ratios = collected.branch_ratios(prepared)
        boundaries = np.array(prepared.branches.boundaries, dtype=np.int64)
        others = effective_boundaries(collected.boundaries, boundaries, ratios + collected.after_leaving)
        branches: list[int] = []
        readings: list[Reading] = []
        usual: list[float] = []
        for part in scores:
            with np.errstate(invalid="ignore"):
                known = np.exp(others[boundaries[part.branches]] - ratios[part.branches])
            for n in np.flatnonzero(part.ambiguous > SMALLEST_SHARE * known).tolist():
                branches.append(int(part.branches[n]))
                readings.append(self._reading_after_tail(prepared, branches[-1], float(known[n]), part.log_masses[n]))
                usual.append(float(part.usual[n]))
        decided = np.maximum(np.exp(collected.after_leaving[branches]) - np.array(usual), 0.0)
        found = yield from self._read_on(readings)
        with np.errstate(divide="ignore"):
            collected.after_leaving[branches] = np.log(decided + np.array(found))

    @staticmethod
    def _reading_after_tail(prepared: PreparedBatch, branch: int, known: float, log_masses: Floats) -> Reading:
        tail = prepared.branches.tails[branch]
        text, row = prepared.text_and_row(prepared.branches.boundaries[branch], prepared.branches.rows[branch])
        room = len(tail.ids) + LONGEST_CHARACTER_BYTES
        prefix, n_kept = _ids_and_kept(prepared, text, row, room)
        masses = None if tail.pending else log_masses
        return Reading(np.append(prefix, tail.ids), tail.boundary, tail.pending, 1.0, known, n_kept, masses)

    def _read_on(self, readings: Sequence[Reading]) -> MassesStep:
        """Return, for each reading, the mass that turns out to end the word."""
        distinct: dict[tuple[bytes, frozenset[Label], bytes], int] = {}
        number = [distinct.setdefault((r.ids.tobytes(), r.ending, r.pending), len(distinct)) for r in readings]
        masses = [0.0] * len(distinct)
        open_readings = []
        for n in range(len(distinct)):
            reading = replace(readings[number.index(n)], began=n)
            if reading.log_masses is None:
                open_readings.append(reading)
            else:
                open_readings += self._begin(reading, masses)
        while open_readings:
            now, open_readings = open_readings, []
            completions = [self._next_tokens(reading) for reading in now]
            questions = []
            for reading, (whole, cut_off) in zip(now, completions, strict=True):
                last = len(reading.ids) - 1
                lists = [whole, *(np.array([token]) for token in cut_off)]
                questions.append(Question(reading.ids, last, min(reading.n_text, last), lists))
            replies = yield questions
            for reading, (_, cut_off), reply in zip(now, completions, replies, strict=True):
                found = reading.weight * np.exp(np.asarray(reply.gathered, dtype=np.float64))
                masses[reading.began] += float(found[0])
                for token, weight in zip(cut_off, found[1:].tolist(), strict=True):
                    open_readings += self._go_on(reading, token, weight, masses)
        return [masses[n] for n in number]

    def _begin(self, reading: Reading, masses: list[float]) -> list[Reading]:
        """Return what to read on, where the model has told the mass of every atom; add up what is not."""
        atom_masses = np.exp(np.asarray(reading.log_masses, dtype=np.float64))
        beginnings = self._tokens.beginnings(reading.ending)
        readings = []
        for atom, token in beginnings.single:
            readings += self._go_on(reading, token, float(atom_masses[atom]), masses)
        grouped = atom_masses[list(beginnings.grouped)]
        if grouped.sum() > SMALLEST_SHARE_READ_ON * reading.known:
            readings.append(reading)
        else:
            usual = self._atoms.with_cut_off(reading.ending)
            for atom, mass in zip(beginnings.grouped, grouped.tolist(), strict=True):
                masses[reading.began] += mass * (self._atoms.labels[atom] in usual)
        return readings

    def _next_tokens(self, reading: Reading) -> Completions:
        if reading.pending:
            return self._tokens.next_tokens(reading.pending, reading.ending)
        return Completions(np.zeros(0, dtype=np.int64), self._tokens.beginnings(reading.ending).grouped_tokens)

    def _go_on(self, reading: Reading, token: int, weight: float, masses: list[float]) -> list[Reading]:
        """Return the reading that goes on with a token that is cut off, if it matters; otherwise count it."""
        if weight > SMALLEST_SHARE_READ_ON * reading.known:
            pending = reading.pending + self._tokens.bytes_of(token)
            ids = np.append(reading.ids, token)
            return [replace(reading, ids=ids, pending=pending, weight=weight, log_masses=None)]
        if self._tokens.usually_ends(reading.pending, token, reading.ending):
            masses[reading.began] += weight
        return []


def _ids_and_kept(prepared: PreparedBatch, text: int, row: int, room: int) -> tuple[Ints, int]:
    """Return what the model sees before a row of a text, and how many of these ids are a context that it keeps."""
    ids = prefix_ids(prepared, text, window_of(prepared, text, row), row, room)
    is_whole = len(ids) == len(prepared.start_ids) + int(prepared.head_lengths[text]) + row
    return ids, min(len(ids), int(prepared.n_kept_ids[text])) if is_whole else len(ids)
