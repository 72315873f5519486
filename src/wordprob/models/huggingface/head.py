"""Hidden states to scores: log p(target), atom masses, masses of listed ids, statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Floats, Ints, concat_ranges, cumulative_offsets
from wordprob.core.atoms import Atoms
from wordprob.kernels import HeadScorer, head_scorer, reference
from wordprob.models.huggingface.forward import Forward
from wordprob.models.protocol import STATISTICS
from wordprob.models.request_arrays import RequestArrays, ScoreArrays

if TYPE_CHECKING:
    import torch

NO_NUMBERS: Floats = np.zeros(0)
SHORT_LIST_IDS = 8
"""Lists of ids up to this length are taken id by id."""
RANK_TOLERANCE = 1e-5
"""A logit counts as larger than the target's if it is larger by more than this: the two are computed in two ways."""


class NotFiniteError(Exception):
    """The network returned logits that are not numbers, or all minus infinity, after these ids."""

    def __init__(self, ids: Ints) -> None:
        super().__init__(f"no distribution after {len(ids)} ids")
        self.ids = ids


class Head:
    """The last layer of a network, and what requests need of it.

    Parameters
    ----------
    forward
        What makes the hidden states.
    linear
        The network's language-modelling head; ``None`` where the network applies it itself, so that the hidden states
        are logits.

    Attributes
    ----------
    linear
        As given.
    vocab_size
        The number of ids that have logits.
    """

    def __init__(self, forward: Forward, linear: torch.nn.Linear | None, vocab_size: int) -> None:
        self._forward = forward
        self.linear = linear
        self.vocab_size = vocab_size
        self._latest: tuple[Atoms, HeadScorer] | None = None

    def scorer(self, atoms: Atoms) -> HeadScorer:
        """Return what turns states and targets into log-probabilities, for a partition of the vocabulary.

        The latest one is kept: requests mostly come with the same partition.
        """
        if self._latest is None or self._latest[0] is not atoms:
            self._latest = atoms, self._make_scorer(atoms)
        return self._latest[1]

    def _make_scorer(self, atoms: Atoms) -> HeadScorer:
        import torch

        atom_of_token = torch.from_numpy(atoms.atom_of_token).to(self._forward.device)
        count = len(atoms.labels)
        if self.linear is not None:
            return head_scorer(self.linear.weight, self.linear.bias, atom_of_token, count)
        members = reference.membership(atom_of_token, count)
        return lambda logits, targets: reference.score_logits(logits, targets, members)

    def logits(self, states: torch.Tensor, ids: torch.Tensor | None = None) -> torch.Tensor:
        """Return the logits of states ``[N, H]`` in float32, of all ids or of some."""
        chosen: Any = slice(None) if ids is None else ids
        if self.linear is None:
            return states[:, chosen].float()
        logits: torch.Tensor = states.float() @ self.linear.weight[chosen].float().T
        return logits if self.linear.bias is None else logits + self.linear.bias[chosen].float()

    def launch(self, indices: Ints, requests: RequestArrays, states: torch.Tensor, scorer: HeadScorer) -> PendingScores:
        """Start to compute everything that requests need of their states; nothing here waits for the device.

        Parameters
        ----------
        indices
            What the scores of each request are to be numbered with.
        requests
            The requests.
        states
            The states of the rows that they ask for, one request after another.
        scorer
            What :meth:`scorer` returned.
        """
        offsets = cumulative_offsets(requests.row_counts)
        next_ids = _next_ids(requests, offsets)
        if self._wants_distributions_only(requests, offsets):
            return PendingScores(indices, requests, offsets, self._distributions(states, next_ids))
        target, mass, normaliser = scorer(states, self._forward.to_device(next_ids))
        results = {"target": target, "mass": mass, "normaliser": normaliser}
        if len(requests.gather):
            rows = _rows_of(requests, offsets, requests.gather, requests.gather_offsets)
            results["gathered"] = self._gather(states, normaliser, rows, requests.gather_lists, requests.id_lists)
        names = list(dict.fromkeys(chain.from_iterable(requests.statistics)))
        if names:
            rows = _rows_of(requests, offsets, requests.statistics_rows, requests.statistics_offsets)
            results |= self._statistics(names, states, rows, next_ids, target + normaliser, normaliser)
        return PendingScores(indices, requests, offsets, results)

    def _wants_distributions_only(self, requests: RequestArrays, offsets: Ints) -> bool:
        """Return True if whole distributions are wanted at every row, and the masses of no atoms."""
        has_one_atom = self._latest is not None and len(self._latest[0].labels) == 1
        if not has_one_atom or any(names != ("log_probs",) for names in requests.statistics):
            return False
        return len(requests.statistics_rows) == int(offsets[-1])

    def _distributions(self, states: torch.Tensor, next_ids: Ints) -> dict[str, torch.Tensor]:
        """Return what :meth:`launch` needs where all logits are wanted, which are then computed once."""
        import torch

        log_probs = torch.empty((len(states), self.vocab_size), device=states.device)
        normalisers = []
        step = max(1, reference.MAX_LOGITS // self.vocab_size)
        for low in range(0, len(states), step):
            logits = self.logits(states[low : low + step])
            normalisers.append(logits.logsumexp(dim=1))
            torch.sub(logits, normalisers[-1][:, None], out=log_probs[low : low + step])
        target = log_probs.gather(1, self._forward.to_device(next_ids)[:, None])[:, 0]
        mass = torch.zeros((len(states), 1), device=states.device)  # all tokens are one atom
        return {"target": target, "mass": mass, "normaliser": torch.cat(normalisers), "log_probs": log_probs}

    def _gather(
        self, states: torch.Tensor, normaliser: torch.Tensor, rows: Ints, lists: Ints, id_lists: Sequence[Ints]
    ) -> torch.Tensor:
        """Return the log-mass of a list of ids at each row; ``lists`` has the number of the list for each of ``rows``.

        Short lists are taken id by id; for long ones, the logits of all their ids are computed once for each row.
        """
        import torch

        used, lists = np.unique(lists, return_inverse=True)
        id_lists = [id_lists[number] for number in used.tolist()]
        is_short = np.array([len(ids) <= SHORT_LIST_IDS for ids in id_lists])[lists]
        wide = torch.float32 if states.device.type == "mps" else torch.float64
        masses = torch.empty(len(rows), dtype=wide, device=states.device)
        for chosen, gather in ((is_short, self._gather_few), (~is_short, self._gather_many)):
            places = np.flatnonzero(chosen)
            if len(places):
                found = gather(states, normaliser, rows[places], lists[places], id_lists)
                masses[self._forward.to_device(places)] = found.to(wide)
        return masses

    def _gather_few(
        self, states: torch.Tensor, normaliser: torch.Tensor, rows: Ints, lists: Ints, id_lists: Sequence[Ints]
    ) -> torch.Tensor:
        """Return the log-masses of short lists: one logit for each row and id of its list."""
        import torch

        offsets = cumulative_offsets(map(len, id_lists))
        lengths = np.diff(offsets)[lists]
        ids = np.concatenate(id_lists)[concat_ranges(offsets[lists], lengths)]
        row_of_id = np.repeat(rows, lengths)
        number = np.repeat(np.arange(len(rows)), lengths)
        place = concat_ranges(np.zeros(len(rows), dtype=np.int64), lengths)
        wide = torch.float32 if states.device.type == "mps" else torch.float64
        table = torch.full((len(rows), SHORT_LIST_IDS), float("-inf"), dtype=wide, device=states.device)
        step = max(1, reference.MAX_LOGITS // states.shape[1])
        for low in range(0, len(ids), step):
            part = slice(low, low + step)
            chosen = self._forward.to_device(row_of_id[part])
            logits = self._single_logits(states, chosen, self._forward.to_device(ids[part]))
            cells = self._forward.to_device(number[part]), self._forward.to_device(place[part])
            table[cells] = (logits - normaliser[chosen]).to(wide)
        return table.logsumexp(dim=1)

    def _single_logits(self, states: torch.Tensor, rows: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Return the logit of one id at each of some rows, in float32."""
        if self.linear is None:
            return states[rows, ids].float()
        logits: torch.Tensor = (states[rows].float() * self.linear.weight[ids].float()).sum(dim=1)
        return logits if self.linear.bias is None else logits + self.linear.bias[ids].float()

    def _gather_many(
        self, states: torch.Tensor, normaliser: torch.Tensor, rows: Ints, lists: Ints, id_lists: Sequence[Ints]
    ) -> torch.Tensor:
        """Return the log-masses of long lists: the logits of all listed ids once, then sums."""
        import torch

        used, used_of_row = np.unique(lists, return_inverse=True)
        ids, place = np.unique(np.concatenate([id_lists[k] for k in used]), return_inverse=True)
        members = np.zeros((len(used), len(ids)), dtype=bool)
        members[np.repeat(np.arange(len(used)), [len(id_lists[k]) for k in used]), place] = True
        wide = torch.float32 if states.device.type == "mps" else torch.float64
        listed = self._forward.to_device(ids)
        members_on_device = self._forward.to_device(members)
        masses = []
        step = max(1, reference.MAX_LOGITS // max(len(ids), len(used)))
        for low in range(0, len(rows), step):
            chosen = self._forward.to_device(rows[low : low + step])
            in_list = members_on_device[self._forward.to_device(used_of_row[low : low + step])]
            log_probs = (self.logits(states[chosen], listed) - normaliser[chosen, None]).to(wide)
            masses.append(log_probs.masked_fill(~in_list, float("-inf")).logsumexp(dim=1))
        return torch.cat(masses)

    def _statistics(
        self,
        names: Sequence[str],
        states: torch.Tensor,
        rows: Ints,
        next_ids: Ints,
        target_logits: torch.Tensor,
        normaliser: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Return statistics of the next-token distribution at some rows, a few rows at a time."""
        import torch

        parts: dict[str, list[torch.Tensor]] = {name: [] for name in names}
        step = max(1, reference.MAX_LOGITS // self.vocab_size)
        for low in range(0, max(1, len(rows)), step):  # once for no rows too, so that there is something to join
            some = rows[low : low + step]
            chosen = self._forward.to_device(some)
            logits = self.logits(states[chosen])
            log_probs = logits - normaliser[chosen, None]
            for name in names:
                if name == "entropy":
                    values = -(log_probs.exp() * log_probs.clamp(min=-1e9)).sum(-1)
                elif name == "rank":
                    values = 1 + (logits > target_logits[chosen, None] + RANK_TOLERANCE).sum(-1)
                elif name == "log_probs":
                    values = log_probs
                else:  # any other one has no fast twin in torch
                    values = torch.from_numpy(STATISTICS[name](_to_numpy(log_probs), next_ids[some]))
                parts[name].append(values)
        return {name: torch.cat(values) for name, values in parts.items()}


class PendingScores:
    """The scores of a batch of requests, on which the device may still be at work.

    Everything is copied to the host as soon as it has been computed, and waited for only when it is read.

    Parameters
    ----------
    indices, requests
        The requests, and what their scores are to be numbered with.
    offsets
        ``[T + 1]``: where the rows of each request begin, and where the last ones end.
    results
        By name: ``target``, ``mass``, ``normaliser``, ``gathered`` and statistics.
    """

    def __init__(
        self, indices: Ints, requests: RequestArrays, offsets: Ints, results: Mapping[str, torch.Tensor]
    ) -> None:
        self._indices = indices
        self._requests = requests
        self._offsets = offsets
        self._results = {name: values.to("cpu", non_blocking=True) for name, values in results.items()}
        self._done = _record_event(results["target"].device)

    def scores(self) -> ScoreArrays:
        """Return the scores of all requests.

        Raises :class:`NotFiniteError` where the network returned no distribution.
        """
        if self._done is not None:
            self._done.synchronize()
        results = {name: self._copy(values) for name, values in self._results.items()}
        self._check_normalisers(results.pop("normaliser"))
        requests = self._requests
        # The last row of a request has no next id in it, so it has no target.
        has_target = np.ones(self._offsets[-1], dtype=bool)
        has_target[self._offsets[1:] - 1] = False
        return ScoreArrays(
            numbers=self._indices,
            offsets=self._offsets,
            target=results.pop("target")[has_target],
            mass=results.pop("mass"),
            gathered=results.pop("gathered", NO_NUMBERS),
            gather_offsets=requests.gather_offsets,
            statistics=results,
            statistics_offsets=requests.statistics_offsets,
            statistics_names=requests.statistics,
        )

    def _check_normalisers(self, normalisers: Floats) -> None:
        """Raise, unless there is a distribution at every row; a logit that is no number shows in its normaliser."""
        wrong = np.flatnonzero(~np.isfinite(normalisers))
        if len(wrong):
            place = int(np.searchsorted(self._offsets, wrong[0], side="right")) - 1
            request = self._requests[place]
            row = request.first + int(wrong[0] - self._offsets[place])
            raise NotFiniteError(request.ids[: row + 1])

    def _copy(self, values: torch.Tensor) -> Floats:
        """Return numbers in memory of their own: the memory that a GPU writes to is scarce."""
        numbers: Floats = values.numpy()
        return numbers if self._done is None else numbers.copy()


def _next_ids(requests: RequestArrays, offsets: Ints) -> Ints:
    """Return the id that comes after each row, for the rows of all requests; 0 after the last row of each."""
    # Row j of a request comes after ids[: j + 1], so its next id is ids[j + 1].
    n_next = requests.row_counts - 1
    next_ids = np.zeros(offsets[-1], dtype=np.int64)
    has_next = np.ones(offsets[-1], dtype=bool)
    has_next[offsets[1:] - 1] = False
    numbers = np.repeat(np.arange(len(requests)), n_next)
    next_ids[has_next] = requests.sequences.ids_at(numbers, concat_ranges(requests.firsts + 1, n_next))
    return next_ids


def _rows_of(requests: RequestArrays, offsets: Ints, rows: Ints, rows_offsets: Ints) -> Ints:
    """Return rows of requests as indices into the rows of all of them."""
    shifted: Ints = rows + np.repeat(offsets[:-1] - requests.firsts, np.diff(rows_offsets))
    return shifted


def _to_numpy(values: torch.Tensor) -> Floats:
    return values.double().cpu().numpy()


def _record_event(device: torch.device) -> torch.cuda.Event | None:
    """Return what tells when everything that was started on a GPU so far has been done."""
    import torch

    if device.type != "cuda":
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event
