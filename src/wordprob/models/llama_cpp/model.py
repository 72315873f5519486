"""A GGUF file behind the protocol: requests are run by llama.cpp, and go on from what its cache holds.

Requests are run one after another, each from the first cell of the context on. Where tokens stand in the cells decides
in which order sums are taken, and with quantised arithmetic the last digit of a sum becomes the second one of a result.
On a CPU, running many at a time would be no faster.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.core.atoms import Atoms
from wordprob.core.bounded_cache import BoundedCache
from wordprob.errors import ModelError
from wordprob.models.batching import group_by_prefix
from wordprob.models.huggingface.tokenizer import HFTokenizer
from wordprob.models.llama_cpp.kept_states import KeptStates
from wordprob.models.llama_cpp.library import BATCH_TOKENS, LlamaContext, LlamaFile
from wordprob.models.logit_rows import LogitReducer, NotFiniteRowError, ScoresBuilder
from wordprob.models.protocol import Capabilities, PrefixStates, Request, Scores

CONTEXT_SEQUENCE, REST_SEQUENCE = 0, 1
"""The sequence that holds a context, and the one that goes on from it."""

FIRST_CELLS = 1024
"""For how many tokens there is room at first; more is made when a request needs it."""

CACHED_REDUCERS = 4
MAX_TOKENS_SHOWN = 8
"""How many tokens an error message quotes."""
PROBE_TEXT = "She saw the mark."
"""A text that every model is tried on when it is opened."""
MAX_PROBE_DIFFERENCE = 0.05
"""How far log-probabilities of the probe may be apart, in nats, when it goes on from its own beginning."""


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
        self._shared_ids: Ints | None = None  # of the context whose states are in the cells, if any
        self._reducers: BoundedCache[LogitReducer] = BoundedCache(CACHED_REDUCERS)
        self._lock = threading.RLock()
        self.capabilities = Capabilities(keeps_states=False)  # until the probe has shown that it can
        keeps_states = self._check_probe()
        self.capabilities = Capabilities(keeps_states=keeps_states, shares_beginnings=keeps_states)

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
        if not self.capabilities.keeps_states:
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
        for index in indices:
            request = requests[index]
            with self._lock:
                context = self._room_for(len(request.ids))
                context.clear()
                self._shared_ids = None
                scores = self._run(context, CONTEXT_SEQUENCE, request, 0, atoms)
                if kept is not None:
                    kept.add(request.ids, context.save(CONTEXT_SEQUENCE))
            yield index, scores

    def _go_on(
        self,
        shared_ids: Ints,
        members: Sequence[int],
        requests: Sequence[Request],
        atoms: Atoms,
        kept: KeptStates | None,
    ) -> Iterator[tuple[int, Scores]]:
        """Yield the scores of requests that begin with a context, or with the first part of it."""
        longest_rest = max(len(requests[index].ids) - requests[index].n_context for index in members)
        for index in members:
            request = requests[index]
            with self._lock:
                n_shared = len(shared_ids) if kept is None else max(len(shared_ids), kept.length_of(shared_ids))
                context = self._room_for(n_shared + longest_rest)
                if self._shared_ids is not shared_ids:  # another thread may have used the cells in between
                    self._fill(context, shared_ids, kept)
                context.copy(CONTEXT_SEQUENCE, REST_SEQUENCE, request.n_context)
                scores = self._run(context, REST_SEQUENCE, request, request.n_context, atoms)
                context.remove(REST_SEQUENCE)
            yield index, scores

    def _fill(self, context: LlamaContext, shared_ids: Ints, kept: KeptStates | None) -> None:
        """Put a context into the cells of its sequence: from what is kept, or by running it."""
        context.clear()
        self._shared_ids = None
        states = None if kept is None else kept.find(shared_ids)
        if states is not None:
            context.restore(CONTEXT_SEQUENCE, states)
        else:
            for begin in range(0, len(shared_ids), BATCH_TOKENS):
                positions = np.arange(begin, min(begin + BATCH_TOKENS, len(shared_ids)))
                context.decode(shared_ids[positions], positions, CONTEXT_SEQUENCE, first_wanted=len(positions))
            self.contexts_run += 1
            if kept is not None:
                kept.add(shared_ids, context.save(CONTEXT_SEQUENCE))
        self._shared_ids = shared_ids

    def _run(self, context: LlamaContext, sequence: int, request: Request, begin: int, atoms: Atoms) -> Scores:
        """Run the ids of a request from ``begin`` on, :data:`BATCH_TOKENS` at a time; return its scores."""
        builder = ScoresBuilder(request, self._reducers.get(id(atoms), lambda: LogitReducer(atoms)))
        for first in range(begin, len(request.ids), BATCH_TOKENS):
            positions = np.arange(first, min(first + BATCH_TOKENS, len(request.ids)))
            first_row = min(max(first, request.first), first + len(positions))
            logits = context.decode(request.ids[positions], positions, sequence, first_wanted=first_row - first)
            try:
                builder.add(first_row, logits)
            except NotFiniteRowError as error:
                raise self._not_finite(request.ids[: error.row + 1]) from error
        return builder.scores()

    def _room_for(self, n_tokens: int) -> LlamaContext:
        """Return the context, made anew with twice the room or more if it is too small."""
        if self._context is None or self._context.cells < n_tokens:
            cells = FIRST_CELLS if self._context is None else 2 * self._context.cells
            if self._context is not None:
                self._context.close()
                self._context = None
            self._shared_ids = None
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
        self.capabilities = Capabilities(keeps_states=True)
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
