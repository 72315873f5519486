"""Reading on where a token holds only the first bytes of a character.

Whether such a token ends a word depends on what the character becomes. A share of its mass counts as ending the word
(:meth:`wordprob.core.atoms.Atoms.open_shares`), and by how much that may be off is known. Where that is too much, the
model is asked what comes next, until the character is whole: first after the tokens that leave most open, until what is
left open matters no longer.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.atoms import EITHER_SHARE, Atoms
from wordprob.core.characters import Label, character_bytes
from wordprob.core.equation import effective_boundaries
from wordprob.covers.cut_off_tokens import LARGEST_ERROR, Completions, CutOffTokens
from wordprob.covers.rounds import Question, QuestionStep, Reply
from wordprob.scoring.boundary_sets import BoundarySets
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.prepared_batch import PreparedBatch
from wordprob.scoring.requests import TailScores, prefix_ids, window_of

SMALLEST_SURE_SHARE = 0.01
"""The error is measured by what surely ends the word, or by this share of B if that is more."""

LARGEST_ERROR_AT_START = 1e-5
"""The same at the beginning of texts, where reading on is done once for all of them."""

ERROR_PER_ROUND = 0.75
"""How much of the error that is still allowed may be made in one round; characters take up to three."""

LONGEST_CHARACTER_BYTES = 4

NO_TOKENS: Ints = np.zeros(0, dtype=np.int64)

MassesStep = Generator[Sequence[Question], Sequence[Reply], list[float]]
"""A step that returns the mass, for each of some readings, that turns out to end the word."""


class OpenMasses(NamedTuple):
    """The masses of tokens that are cut off, what counts as ending the word, and by how much that may be off."""

    masses: Floats
    counted: Floats
    errors: Floats


@dataclass(frozen=True)
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
    error
        By how much the mass that turns out to end the word may be off.
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
    error: float
    n_text: int
    log_masses: Floats | None = None
    began: int = 0

    @property
    def takes_longer(self) -> bool:
        """Whether the character may still be cut off after the next token."""
        return not self.pending or len(self.pending) < character_bytes(self.pending[0]) - 1


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
        errors = allowed_errors(known, collected.counted)
        errors[prepared.alignment.first_boundaries] *= LARGEST_ERROR_AT_START / LARGEST_ERROR
        matters = (collected.error > errors) & ~prepared.missing
        matters &= prepared.boundary_sets > BoundarySets.NOTHING
        boundaries = np.flatnonzero(matters)
        readings = []
        all_masses = collected.boundary_masses[boundaries]
        for boundary, log_masses in zip(boundaries.tolist(), all_masses, strict=True):
            ending = prepared.sets.labels(int(prepared.boundary_sets[boundary])) or frozenset()
            batch_row = int(prepared.alignment.boundary_rows[boundary])
            text, row = prepared.text_and_row(boundary, batch_row)
            ids, n_kept = _ids_and_kept(prepared, text, row, room=LONGEST_CHARACTER_BYTES)
            readings.append(Reading(ids, ending, b"", 1.0, float(errors[boundary]), n_kept, log_masses))
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
        counted: list[float] = []
        for part in scores:
            with np.errstate(invalid="ignore"):
                known = np.exp(others[boundaries[part.branches]] - ratios[part.branches])
            errors = LARGEST_ERROR * known
            for n in np.flatnonzero(part.error > errors).tolist():
                branches.append(int(part.branches[n]))
                readings.append(self._reading_after_tail(prepared, branches[-1], float(errors[n]), part.log_masses[n]))
                counted.append(float(part.counted[n]))
        decided = np.maximum(np.exp(collected.after_leaving[branches]) - np.array(counted), 0.0)
        found = yield from self._read_on(readings)
        with np.errstate(divide="ignore"):
            collected.after_leaving[branches] = np.log(decided + np.array(found))

    @staticmethod
    def _reading_after_tail(prepared: PreparedBatch, branch: int, error: float, log_masses: Floats) -> Reading:
        tail = prepared.branches.tails[branch]
        text, row = prepared.text_and_row(prepared.branches.boundaries[branch], prepared.branches.rows[branch])
        room = len(tail.ids) + LONGEST_CHARACTER_BYTES
        prefix, n_kept = _ids_and_kept(prepared, text, row, room)
        masses = None if tail.pending else log_masses
        return Reading(np.append(prefix, tail.ids), tail.boundary, tail.pending, 1.0, error, n_kept, masses)

    def _read_on(self, readings: Sequence[Reading]) -> MassesStep:
        """Return, for each reading, the mass that turns out to end the word."""
        distinct: dict[tuple[bytes, frozenset[Label], bytes], Reading] = {}
        numbers = []
        for reading in readings:
            key = (reading.ids.tobytes(), reading.ending, reading.pending)
            numbers.append(distinct.setdefault(key, replace(reading, began=len(distinct))).began)
        masses = [0.0] * len(distinct)
        open_readings: list[Reading] = []
        for reading in distinct.values():
            open_readings += [reading] if reading.log_masses is None else self._begin(reading, masses)
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
                further = found[1:]
                open_masses = OpenMasses(further, EITHER_SHARE * further, EITHER_SHARE * further)
                open_readings += self._go_on(reading, cut_off, open_masses, masses)
        return [masses[number] for number in numbers]

    def _begin(self, reading: Reading, masses: list[float]) -> list[Reading]:
        """Return what to read on, where the model has told the mass of every atom."""
        atom_masses = np.exp(np.asarray(reading.log_masses, dtype=np.float64))
        beginnings = self._tokens.beginnings(reading.ending)
        shares = self._atoms.open_shares(reading.ending)
        terms = (atom_masses, atom_masses * shares.counted, atom_masses * shares.error)
        open_masses = OpenMasses(
            *(np.append(each[beginnings.single], each[beginnings.grouped].sum()) for each in terms)
        )
        return self._go_on(reading, (*beginnings.single_tokens, None), open_masses, masses)

    def _next_tokens(self, reading: Reading) -> Completions:
        if reading.pending:
            return self._tokens.next_tokens(reading.pending, reading.ending)
        return Completions(NO_TOKENS, self._tokens.beginnings(reading.ending).grouped_tokens)

    def _go_on(
        self, reading: Reading, tokens: Sequence[int | None], open_masses: OpenMasses, masses: list[float]
    ) -> list[Reading]:
        """Return the readings that go on with tokens that are cut off; those that leave little open are counted.

        The token ``None`` stands for all those at the place itself whose mass is only known together.
        """
        order = np.argsort(open_masses.errors)
        errors = np.cumsum(open_masses.errors[order])
        n_left = int(np.searchsorted(errors, ERROR_PER_ROUND * reading.error, side="right"))
        error = float(errors[n_left - 1]) if n_left else 0.0
        masses[reading.began] += float(open_masses.counted[order[:n_left]].sum())
        readings = []
        for place in order[n_left:].tolist():
            further, token = replace(reading, log_masses=None), tokens[place]
            if token is not None:
                ids, pending = np.append(reading.ids, token), reading.pending + self._tokens.bytes_of(token)
                further = replace(further, ids=ids, pending=pending, weight=float(open_masses.masses[place]))
            readings.append(further)
        n_longer = sum(further.takes_longer for further in readings)
        return [replace(further, error=(reading.error - error) / max(1, n_longer)) for further in readings]


def allowed_errors(masses: Floats, counted: Floats) -> Floats:
    """Return by how much each B may be off, of which so much is counted for characters that are cut off.

    These may turn out not to end the word: then what surely ends it is all that is left.
    """
    errors: Floats = LARGEST_ERROR * np.maximum(masses - counted, SMALLEST_SURE_SHARE * masses)
    return errors


def _ids_and_kept(prepared: PreparedBatch, text: int, row: int, room: int) -> tuple[Ints, int]:
    """Return what the model sees before a row of a text, and how many of these ids are a context that it keeps."""
    ids = prefix_ids(prepared, text, window_of(prepared, text, row), row, room)
    is_whole = len(ids) == len(prepared.start_ids) + int(prepared.head_lengths[text]) + row
    return ids, min(len(ids), int(prepared.n_kept_ids[text])) if is_whole else len(ids)
