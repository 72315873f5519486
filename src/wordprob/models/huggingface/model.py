"""A Hugging Face causal language model behind the protocol: forward pass, head and prefix cache put together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.core.atoms import Atoms
from wordprob.errors import ModelError, listing
from wordprob.models import threads
from wordprob.models.huggingface import self_checks
from wordprob.models.huggingface.forward import FIRST_IDS, Forward
from wordprob.models.huggingface.head import Head, NotFiniteError, PendingScores
from wordprob.models.huggingface.packed_cache import PackedCache
from wordprob.models.huggingface.tokenizer import HFTokenizer
from wordprob.models.protocol import (
    HALF_PRECISION_NATS,
    SINGLE_PRECISION_NATS,
    Capabilities,
    PrefixStates,
    Request,
    Scores,
)
from wordprob.models.request_arrays import RequestArrays, ScoreArrays, ScoreBatches

if TYPE_CHECKING:
    import torch

SINGLE_PRECISION_BYTES = 4
BATCHES_IN_FLIGHT = 8
"""Batches that a GPU is given before the scores of the first one are read."""
UNDECLARED_MAX_TOKENS = 4096
"""The context of networks that do not declare one."""
PROBE_TEXT = "She saw the mark."
"""A text that every model is tried on when it is opened."""
PROBE_SENTENCE = "She saw the mark on the old wall, and then she went home."
"""Where the tokens come from on which shortcuts are tried."""
MAX_TOKENS_SHOWN = 8
"""How many tokens an error message quotes."""
CONTEXT_LENGTH_OPTIONS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
"""Names under which configurations declare it."""

Step = TypeVar("Step")


class HFModel:
    """A causal model and its tokenizer.

    Parameters
    ----------
    network
        A transformers model with a language-modelling head.
    tokenizer
        Its tokenizer.
    metadata
        Where it came from.
    compile
        Compile the part that runs whole sequences.
    packed
        Run sequences one after another in one row, without padding; by default on a GPU.
    may_change
        Whether the user has the network in hand, and may change it between calls.

    Attributes
    ----------
    network
        As given.
    forward
        What runs the network.
    head
        What makes scores of hidden states.
    prefix_cache
        What runs requests from the states of their contexts.
    packed
        Whether sequences are run one after another, as far as the network allows it.
    compiled
        Whether whole sequences are run by compiled code.
    """

    def __init__(
        self,
        network: Any,
        tokenizer: HFTokenizer,
        metadata: Mapping[str, str],
        *,
        compile: bool = False,
        packed: bool | None = None,
        may_change: bool = False,
    ) -> None:
        threads.torch_is_used()
        self.network = network
        self.tokenizer = tokenizer
        self.metadata = dict(metadata)
        self.compiled = compile
        self.packed = network.device.type == "cuda" if packed is None else packed
        self.may_change = may_change
        self.max_tokens: int | None = context_length(network.config)
        self._lock = threading.Lock()
        self._set_up()

    def _set_up(self) -> None:
        """Run the self-checks, and choose how to run the network by what they find."""
        self._last_layer = self._describe_last_layer()
        self.forward = Forward(self.network, self._probe_ids())
        self.vocab_size = self_checks.require_causal_logits(self.forward, self._name)
        self._check_vocabulary()
        linear = self.network.get_output_embeddings()
        if self_checks.head_is_plain(self.forward, linear):
            self.forward.trunk = self.network.base_model
        else:
            linear = None
        self.head = Head(self.forward, linear, self.vocab_size)
        self._check_logits()
        self.forward.masks_padding = not self_checks.padding_is_unseen(self.forward)
        if self.packed:
            self.forward.varlen = self_checks.checked_varlen_attention(self.forward)
        self.prefix_cache = self_checks.choose_prefix_cache(self.forward, self.head)
        if self.compiled:
            self.forward.run_whole_batch = self_checks.compiled_trunk(self.forward)

    def _probe_ids(self) -> Ints:
        """Return a few different tokens of an ordinary sentence, on which the network can be tried."""
        n_embedded = self.network.get_input_embeddings().weight.shape[0]
        ids = self.tokenizer.encode([PROBE_SENTENCE])[0].ids.tolist()
        ordinary = [token for token in dict.fromkeys(ids) if token < n_embedded]
        return np.array(ordinary[: len(FIRST_IDS)]) if len(ordinary) >= len(FIRST_IDS) else FIRST_IDS

    def _describe_last_layer(self) -> tuple[int, ...]:
        """Return what changes when the user trains or replaces the head, or hooks into it or the network."""
        head = self.network.get_output_embeddings()
        weight = getattr(head, "weight", None)
        identity = [id(head), id(weight)]
        if weight is not None and not weight.is_inference():
            identity.append(weight._version)
        for module in (self.network, head):
            identity += getattr(module, "_forward_hooks", {})
            identity += getattr(module, "_forward_pre_hooks", {})
        return tuple(identity)

    def _follow_changes(self) -> None:
        """Run the self-checks again if the user has changed the last layer, which a shortcut may leave out."""
        with self._lock:
            if self._describe_last_layer() != self._last_layer:
                self._set_up()

    @property
    def batch_tokens(self) -> int:
        """How many tokens are run at a time."""
        return self.forward.budget.tokens

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do."""
        cache = self.prefix_cache
        packed = cache if isinstance(cache, PackedCache) else None
        keeps_states = cache.usable and not self.compiled and (packed is not None or not self.forward.on_gpu)
        is_half = self.network.dtype.itemsize < SINGLE_PRECISION_BYTES
        return Capabilities(
            keeps_states=keeps_states,
            shares_beginnings=keeps_states and packed is None,
            max_kept_tokens=None if packed is None else packed.max_kept_tokens,
            may_change=self.may_change,
            precision_nats=HALF_PRECISION_NATS if is_half else SINGLE_PRECISION_NATS,
        )

    @property
    def weight_bytes(self) -> int:
        """The memory that the network's parameters and buffers take."""
        return int(self.network.get_memory_footprint())

    @property
    def shortcuts(self) -> dict[str, str]:
        """What the self-checks decided: how the network is run."""
        return {
            "head": "the network's own logits" if self.head.linear is None else "applied to the last hidden states",
            "padding": "masked" if self.forward.masks_padding else "not masked: the network does not see it",
            "shared contexts": "run once" if self.prefix_cache.usable else "run again for each continuation",
            "several texts in a row": "padded" if self.forward.varlen is None else "run without padding",
        }

    @property
    def head_weight(self) -> torch.Tensor:
        """The weights of the network's language-modelling head, ``[V, H]``."""
        weight: torch.Tensor = self.network.get_output_embeddings().weight
        return weight

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Return the scores of requests, each run in full, as they are ready.

        On a GPU the first batches are under way when this returns. Several threads may call it at the same time.
        """
        self._follow_changes()
        arrays = RequestArrays.of(requests)
        return self._read_ahead(self._launch_in_full(np.arange(len(arrays)), arrays, atoms))

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Return the scores of requests whose contexts, ``ids[:n_context]``, are run once for all that share them.

        With ``states``, contexts are kept there for later calls, and so are requests without a context. A request that
        alone has its context, or that the network cannot go on with from the states of a context, is run in full.
        """
        self._follow_changes()
        return self._read_ahead(self._launch_shared(RequestArrays.of(requests), atoms, states))

    def _launch_in_full(self, indices: Ints, requests: RequestArrays, atoms: Atoms) -> Iterator[PendingScores]:
        scorer = self.head.scorer(atoms)
        chosen = requests.choose(indices)

        def launch(batch: list[int]) -> PendingScores:
            places = np.array(batch, dtype=np.int64)
            together = chosen.choose(places)
            states = self.forward.run_requests(together)
            return self.head.launch(indices[places], together, states, scorer)

        yield from self.forward.run_batches(chosen, launch)

    def _launch_shared(
        self, requests: RequestArrays, atoms: Atoms, states: PrefixStates | None
    ) -> Iterator[PendingScores]:
        in_full, others = self.prefix_cache.plan(requests, states)
        scorer = self.head.scorer(atoms)
        for indices, hidden in others:
            yield self.head.launch(indices, requests.choose(indices), hidden, scorer)
        yield from self._launch_in_full(in_full, requests, atoms)

    def _read_ahead(self, launches: Iterator[PendingScores]) -> ScoreBatches:
        """Return the scores of batches, oldest first, while a GPU is at work on the next ones."""
        stepwise = self._one_thread_at_a_time(launches)
        in_flight = deque(islice(stepwise, BATCHES_IN_FLIGHT if self.forward.on_gpu else 0))
        return ScoreBatches(self._named_errors(_scores(in_flight, stepwise)))

    def _named_errors(self, scores: Iterator[ScoreArrays]) -> Iterator[ScoreArrays]:
        try:
            yield from scores
        except NotFiniteError as error:
            raise self._not_finite(error.ids) from error

    def _one_thread_at_a_time(self, steps: Iterator[Step]) -> Iterator[Step]:
        """Take each step while the network is ready and no other thread takes one.

        The lock is released between steps, and the network is as it was, while the caller has the result.
        """
        end: Any = object()
        modules = list(self.network.modules())
        while True:
            with self._lock, self.forward.ready(modules):
                step = next(steps, end)
            if step is end:
                return
            yield step

    # --- what is wrong with a model ---

    @property
    def _name(self) -> str:
        return str(self.metadata.get("model", "the model"))

    def _check_vocabulary(self) -> None:
        """Raise, unless every token of the tokenizer has a logit."""
        tokens = self.tokenizer.vocabulary.tokens
        if len(tokens) <= self.vocab_size:
            return
        beyond = listing([repr(token) for token in tokens[self.vocab_size :]], shown=3)
        raise ModelError(
            f"the tokeniser of {self._name} has {len(tokens)} tokens, but the model's head only {self.vocab_size}: "
            f"{beyond} would have no probability. Use the tokeniser that the model was trained with, or a model whose "
            "head has been resized to it."
        )

    def _check_logits(self) -> None:
        """Raise, unless the network returns logits that are numbers for a short text."""
        import torch

        vocabulary = self.tokenizer.vocabulary
        ids = np.array([*vocabulary.start_ids, *self.tokenizer.encode([PROBE_TEXT])[0].ids.tolist()])
        ids = ids[: self.max_tokens]
        if not len(ids):
            return
        with self.forward.ready():
            normalisers = self.head.logits(self.forward.run_requests(RequestArrays.of([Request(ids)]))).logsumexp(
                dim=-1
            )
        wrong = torch.nonzero(~torch.isfinite(normalisers))
        if len(wrong):
            raise self._not_finite(ids[: int(wrong[0, 0]) + 1])

    def _not_finite(self, ids: Ints) -> ModelError:
        """Return the error for logits that are not numbers after some ids."""
        tokens = self.tokenizer.vocabulary.tokens
        context = " ".join(tokens[i] for i in ids[-MAX_TOKENS_SHOWN:].tolist())
        earlier = f" {len(ids) - MAX_TOKENS_SHOWN} more and" if len(ids) > MAX_TOKENS_SHOWN else ""
        damaged = _first_damaged_tensor(self.network)
        if damaged:
            reason = f"Its weights are damaged: {damaged} has values that are not finite. Fetch or convert it again."
        else:
            dtype = str(self.network.dtype).removeprefix("torch.")
            reason = f"Its dtype is {dtype}: a wider `dtype`, such as float32, may help."
        return ModelError(
            f"{self._name} returned logits that are not finite numbers (NaN or infinite) after{earlier} the tokens "
            f"{context!r}. {reason}"
        )


def _first_damaged_tensor(network: Any) -> str:
    """Return the name of the first tensor that has a value which is not finite, or nothing."""
    import torch

    for name, values in network.state_dict().items():
        is_plain = type(values) is torch.Tensor and not values.is_meta and values.is_floating_point()
        if is_plain and not torch.isfinite(values).all():
            return str(name)
    return ""


def _scores(in_flight: deque[PendingScores], launches: Iterator[PendingScores]) -> Iterator[ScoreArrays]:
    """Yield the scores of the batches in flight, oldest first; launch one more for each batch that is read."""
    for pending in launches:
        in_flight.append(pending)
        yield in_flight.popleft().scores()
    while in_flight:
        yield in_flight.popleft().scores()


def context_length(config: Any) -> int:
    """Return how many tokens a network takes at a time."""
    text_config = config.get_text_config(decoder=True)
    for name in CONTEXT_LENGTH_OPTIONS:
        length = getattr(text_config, name, None)
        if isinstance(length, int) and length > 0:
            return length
    return UNDECLARED_MAX_TOKENS
