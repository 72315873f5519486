"""From a list of the most probable tokens to scores, and what the list leaves open.

A server names the probability of the observed token and of the k most probable ones. No other token is more probable
than the last of these, and all others together have what is left of 1. So the mass of an atom is certain within bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.atoms import Atoms
from wordprob.core.characters import UNREACHABLE
from wordprob.models.completions.client import NonsenseError
from wordprob.models.protocol import Request, Scores, Unlisted

ROUNDING = 1e-6
"""How far the sum of listed probabilities may be from the truth because they were rounded."""

MAX_LISTED_MASS = 1.02
"""More than this is no rounding error; models in bfloat16 come near it."""


class ListedRow(NamedTuple):
    """What a server lists after some tokens.

    Attributes
    ----------
    ids, probabilities
        The listed tokens, each once, the observed one among them.
    largest_unlisted
        The most that a token has which is not listed.
    target
        log p of the observed token; not a number after the last one.
    """

    ids: Ints
    probabilities: Floats
    largest_unlisted: float
    target: float


def listed_row(listed: dict[int, float], observed: int | None, target: float, unclear: float = 0.0) -> ListedRow:
    """Return a row from log-probabilities by id, and that of the observed token.

    ``unclear`` is the probability of the likeliest token that the server lists in such a way that it could be several.
    """
    smallest = float(np.exp(min(listed.values()))) if listed else 1.0
    if observed is not None:
        listed = {**listed, observed: target}
    ids = np.fromiter(listed, dtype=np.int64, count=len(listed))
    probabilities = np.exp(np.fromiter(listed.values(), dtype=np.float64, count=len(listed)))
    return ListedRow(ids, probabilities, max(smallest, unclear), target)


def scores_from_listing(rows: Sequence[ListedRow], request: Request, atoms: Atoms) -> Scores:
    """Return the scores of a request from what is listed at its rows ``first`` … last."""
    n_atoms = len(atoms.labels)
    vocab_size = len(atoms.atom_of_token)
    sizes = np.bincount(atoms.atom_of_token, minlength=n_atoms)
    beyond = atoms.labels.index(UNREACHABLE)  # where ids go that the head has and the tokenizer does not
    listed = np.zeros((len(rows), n_atoms))
    most = np.zeros((len(rows), n_atoms))
    estimate = np.zeros((len(rows), n_atoms))
    rest = np.zeros(len(rows))
    for n, row in enumerate(rows):
        total = float(row.probabilities.sum())
        if not total <= MAX_LISTED_MASS:
            raise NonsenseError(
                f"the log-probabilities that the server lists add up to a probability of {total:.3f}, more than 1."
            )
        atom_of_listed = np.full(len(row.ids), beyond)
        known = row.ids < vocab_size
        atom_of_listed[known] = atoms.atom_of_token[row.ids[known]]
        listed[n] = np.bincount(atom_of_listed, row.probabilities, minlength=n_atoms)
        n_unlisted = sizes - np.bincount(atom_of_listed[known], minlength=n_atoms)
        rest[n] = 0.0 if len(row.ids) >= vocab_size else max(0.0, 1.0 - total) + ROUNDING
        most[n] = np.minimum(rest[n], n_unlisted * row.largest_unlisted)
        estimate[n] = np.minimum(_divided(rest[n], listed[n], n_unlisted), most[n])
    gathered_listed = np.zeros(len(request.gather))
    gathered_most = np.zeros(len(request.gather))
    for number, (place, which) in enumerate(zip(request.gather.tolist(), request.gather_lists.tolist(), strict=True)):
        row = rows[place - request.first]
        wanted = request.id_lists[which]
        is_wanted = np.isin(row.ids, wanted)
        n_missing = len(wanted) - int(is_wanted.sum())
        gathered_listed[number] = row.probabilities[is_wanted].sum()
        gathered_most[number] = min(rest[place - request.first], n_missing * row.largest_unlisted)
    unlisted = Unlisted(rest, listed, most, gathered_listed, gathered_most)
    with np.errstate(divide="ignore"):
        return Scores(
            target=np.array([row.target for row in rows[:-1]], dtype=np.float64),
            mass=np.log(listed + estimate),
            gathered=np.log(gathered_listed + gathered_most / 2),
            unlisted=unlisted,
        )


def _divided(rest: float, listed: Floats, n_unlisted: Ints) -> Floats:
    """Divide what is not listed among the atoms: half as what is listed, half by how many tokens they have left."""
    as_listed = listed / max(float(listed.sum()), ROUNDING)
    by_size = n_unlisted / max(int(n_unlisted.sum()), 1)
    share: Floats = rest * (as_listed + by_size) / 2
    return share
