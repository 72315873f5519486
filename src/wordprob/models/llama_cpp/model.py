"""A GGUF file behind the protocol: requests are run by llama.cpp, and go on from what its cache holds."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.atoms import Atoms
from wordprob.core.bounded_cache import BoundedCache
from wordprob.errors import ModelError
from wordprob.models.batching import group_by_prefix
from wordprob.models.huggingface.tokenizer import HFTokenizer
from wordprob.models.llama_cpp.kept_states import KeptStates
from wordprob.models.llama_cpp.library import BATCH_TOKENS, MAX_SEQUENCES, LlamaContext, LlamaFile
from wordprob.models.logit_rows import LogitReducer, NotFiniteRowError, ScoresBuilder
from wordprob.models.protocol import PrefixStates, Request, Scores

CONTEXT_SEQUENCE = 0
"""The sequence that holds a context which others go on from."""

FIRST_CELLS = 1024
"""For how many tokens there is room at first; more is made when a request needs it."""

CACHED_REDUCERS = 4
MAX_TOKENS_SHOWN = 8
"""How many tokens an error message quotes."""
PROBE_TEXT = "She saw the mark."
"""A text that every model is tried on when it is opened."""
MAX_PROBE_DIFFERENCE = 0.05
"""How far log-probabilities of the probe may be apart, in nats, when it goes on from its own beginning."""


class SequenceRun(NamedTuple):
    """A sequence to run: its number, its ids, how many of them its cells hold already, and what it answers.

    Attributes
    ----------
    sequence
        The number of the sequence in the context.
    begin
        How many of the ids have been run.
    index
        The number of the request that it answers; ``None`` for a context.
    """

    sequence: int
    ids: Ints
    begin: int
    index: int | None


class LlamaModel:
    """A GGUF file and its tokenizer.

    Parameters
    ----------
    file
        The file, opened with its weights.
    tokenizer
        Its tokenizer.
    metadata
        Where it came from.

    Attributes
    ----------
    contexts_run
        How many contexts have been run so far for requests that go on from them.
    """

    batch_tokens = BATCH_TOKENS

    def __init__(self, file: LlamaFile, tokenizer: HFTokenizer, metadata: Mapping[str, str]) -> None:
        self.file = file
        self.tokenizer = tokenizer
        self.metadata = dict(metadata)
        self.vocab_size = file.vocab_size
        self.max_tokens: int | None = file.max_tokens
        self.contexts_run = 0
        self._context: LlamaContext | None = None
        self._owner: Ints | None = None  # the ids of the context whose states are in its sequence, if any
        self._reducers: BoundedCache[LogitReducer] = BoundedCache(CACHED_REDUCERS)
        self._lock = threading.RLock()
        self.keeps_states = file.keeps_positions and self._check_probe()

    # --- the protocol ---

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Yield the scores of requests, each run in full. Several threads may call it at the same time."""
        yield from self._run_in_full(range(len(requests)), requests, atoms, None)

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Yield the scores of requests whose contexts, ``ids[:n_context]``, are run once for all that share them.

        With ``states``, contexts are kept there for later calls, and so are requests without a context.
        """
        if not self.keeps_states:
            yield from self.score(requests, atoms)
            return
        kept = None if states is None else self._kept_in(states)
        with_context = [index for index, request in enumerate(requests) if request.n_context > 0]
        in_full = [index for index, request in enumerate(requests) if request.n_context == 0]
        shared = []
        for group in group_by_prefix([requests[index].ids[: requests[index].n_context] for index in with_context]):
            members = [with_context[place] for place in group.members]
            if len(members) == 1 and kept is None:
                in_full.append(members[0])
            else:
                longest = requests[with_context[group.longest]]
                shared.append((longest.ids[: longest.n_context], members))
        yield from self._run_in_full(in_full, requests, atoms, kept)
        for context, members in shared:
            yield from self._go_on(context, members, requests, atoms, kept)

    def _kept_in(self, states: PrefixStates) -> KeptStates:
        kept: KeptStates = states.entries.setdefault(self, KeptStates())
        return kept

    # --- running ---

    def _run_in_full(
        self, indices: Sequence[int], requests: Sequence[Request], atoms: Atoms, kept: KeptStates | None
    ) -> Iterator[tuple[int, Scores]]:
        for group in _groups([(index, len(requests[index].ids)) for index in indices], MAX_SEQUENCES):
            runs = [SequenceRun(number, requests[index].ids, 0, index) for number, index in enumerate(group)]
            with self._lock:
                context = self._room_for(sum(len(run.ids) for run in runs))
                context.clear()
                scores = self._run(context, runs, requests, atoms)
                if kept is not None:
                    for run in runs:
                        kept.add(run.ids, context.save(run.sequence))
            yield from scores

    def _go_on(
        self,
        shared_ids: Ints,
        members: Sequence[int],
        requests: Sequence[Request],
        atoms: Atoms,
        kept: KeptStates | None,
    ) -> Iterator[tuple[int, Scores]]:
        """Yield the scores of requests that begin with a context, or with the first part of it."""
        lengths = [(index, len(requests[index].ids) - requests[index].n_context) for index in members]
        for number, group in enumerate(_groups(lengths, MAX_SEQUENCES - 1)):
            rests = sum(len(requests[index].ids) - requests[index].n_context for index in group)
            with self._lock:
                # Another thread may have used the context between two groups: then it has to be filled again.
                context = self._room_for(self._longest_kept(shared_ids, kept) + rests)
                if number == 0 or self._owner is not shared_ids:
                    self._fill(context, shared_ids, requests, atoms, kept)
                runs = []
                for place, index in enumerate(group):
                    n_context = requests[index].n_context
                    context.copy(CONTEXT_SEQUENCE, place + 1, n_context)
                    runs.append(SequenceRun(place + 1, requests[index].ids, n_context, index))
                scores = self._run(context, runs, requests, atoms)
                for run in runs:
                    context.remove(run.sequence)
                self._owner = shared_ids
            yield from scores

    @staticmethod
    def _longest_kept(shared_ids: Ints, kept: KeptStates | None) -> int:
        """Return for how many tokens there must be room when a context is restored, or run."""
        return len(shared_ids) if kept is None else max(len(shared_ids), kept.length_of(shared_ids))

    def _fill(
        self,
        context: LlamaContext,
        shared_ids: Ints,
        requests: Sequence[Request],
        atoms: Atoms,
        kept: KeptStates | None,
    ) -> None:
        """Put a context into the cells of its sequence: from what is kept, or by running it."""
        context.clear()
        states = None if kept is None else kept.find(shared_ids)
        if states is not None:
            context.restore(CONTEXT_SEQUENCE, states)
            return
        self._run(context, [SequenceRun(CONTEXT_SEQUENCE, shared_ids, 0, None)], requests, atoms)
        self.contexts_run += 1
        if kept is not None:
            kept.add(shared_ids, context.save(CONTEXT_SEQUENCE))

    def _run(
        self, context: LlamaContext, runs: Sequence[SequenceRun], requests: Sequence[Request], atoms: Atoms
    ) -> list[tuple[int, Scores]]:
        """Run sequences, :data:`BATCH_TOKENS` tokens at a time, and return the scores of the requests they answer."""
        self._owner = None
        reducer = self._reducers.get(id(atoms), lambda: LogitReducer(atoms))
        builders = {run.index: ScoresBuilder(requests[run.index], reducer) for run in runs if run.index is not None}
        for batch in _batches(runs):
            ids = np.concatenate([run.ids[begin:end] for run, begin, end in batch])
            positions = np.concatenate([np.arange(begin, end) for _, begin, end in batch])
            sequences = np.concatenate([np.full(end - begin, run.sequence) for run, begin, end in batch])
            first_rows = [_first_row(run, requests) for run, _, _ in batch]
            wanted = np.concatenate(
                [np.arange(begin, end) >= row for (_, begin, end), row in zip(batch, first_rows, strict=True)]
            )
            logits = context.decode(ids, positions, sequences, wanted)
            place = 0
            for (run, begin, end), row in zip(batch, first_rows, strict=True):
                first = max(begin, row)
                if first < end and run.index is not None:
                    self._add(builders[run.index], run, first, logits[place : place + end - first])
                    place += end - first
        return [(index, builder.scores()) for index, builder in builders.items()]

    def _add(self, builder: ScoresBuilder, run: SequenceRun, first_row: int, logits: Floats) -> None:
        try:
            builder.add(first_row, logits)
        except NotFiniteRowError as error:
            raise self._not_finite(run.ids[: error.row + 1]) from error

    def _room_for(self, n_tokens: int) -> LlamaContext:
        """Return the context, made anew with twice the room or more if it is too small."""
        if self._context is None or self._context.cells < n_tokens:
            cells = FIRST_CELLS if self._context is None else 2 * self._context.cells
            if self._context is not None:
                self._context.close()
                self._context = None
            self._owner = None
            self._context = LlamaContext(self.file, max(cells, n_tokens))
        return self._context

    # --- what is wrong with a model ---

    def _check_probe(self) -> bool:
        """Raise, unless the logits of a short text are numbers; return True if they can go on from its beginning."""
        from wordprob.core.atoms import atoms_of
        from wordprob.core.words import Whitespace

        vocabulary = self.tokenizer.vocabulary
        ids = np.array([*vocabulary.start_ids, *self.tokenizer.encode([PROBE_TEXT])[0].ids.tolist()], dtype=np.int64)
        ids = ids[: self.max_tokens]
        if len(ids) < 2:
            return False
        atoms = atoms_of(vocabulary, Whitespace(), self.vocab_size)
        expected = dict(self.score([Request(ids)], atoms))[0]
        if not self.file.keeps_positions:
            return False
        self.keeps_states = True
        half = len(ids) // 2
        requests = [Request(ids, half), Request(ids[:-1], half), Request(ids, half - 1)]
        found = dict(self.open(requests, atoms))[0]
        self.contexts_run = 0
        return bool(np.abs(found.target - expected.target[half:]).max(initial=0.0) < MAX_PROBE_DIFFERENCE)

    def _not_finite(self, ids: Ints) -> ModelError:
        tokens = self.tokenizer.vocabulary.tokens
        context = " ".join(tokens[i] for i in ids[-MAX_TOKENS_SHOWN:].tolist())
        earlier = f" {len(ids) - MAX_TOKENS_SHOWN} more and" if len(ids) > MAX_TOKENS_SHOWN else ""
        return ModelError(
            f"{self.metadata.get('model', 'the model')} returned logits that are not finite numbers (NaN or infinite) "
            f"after{earlier} the tokens {context!r}. Its weights may be damaged: fetch or convert it again."
        )


def _groups(lengths: Sequence[tuple[int, int]], max_sequences: int) -> Iterator[list[int]]:
    """Yield indices in groups that are run together: each index comes with how many tokens it runs."""
    group: list[int] = []
    tokens = 0
    for index, length in lengths:
        if group and (tokens + length > BATCH_TOKENS or len(group) == max_sequences):
            yield group
            group, tokens = [], 0
        group.append(index)
        tokens += length
    if group:
        yield group


def _batches(runs: Sequence[SequenceRun]) -> Iterator[list[tuple[SequenceRun, int, int]]]:
    """Yield batches of at most :data:`BATCH_TOKENS` tokens: parts of sequences, each from one token up to another."""
    batch: list[tuple[SequenceRun, int, int]] = []
    room = BATCH_TOKENS
    for run in runs:
        begin = run.begin
        while begin < len(run.ids):
            end = min(len(run.ids), begin + room)
            batch.append((run, begin, end))
            room -= end - begin
            begin = end
            if room == 0:
                yield batch
                batch, room = [], BATCH_TOKENS
    if batch:
        yield batch


def _first_row(run: SequenceRun, requests: Sequence[Request]) -> int:
    """Return the first row whose logits a run needs; none of a context."""
    return len(run.ids) if run.index is None else requests[run.index].first
