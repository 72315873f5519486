"""The seam to whatever computes probabilities: what a model is asked, what it answers, and what it must be able to do.

A language model is a tokenizer and two methods. :meth:`LanguageModel.score` goes along observed texts;
:meth:`LanguageModel.open` goes beyond prefixes that many requests share. Both take :class:`Request` and give
:class:`Scores`. A backend that has plain logits makes its scores with :func:`scores_from_logits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints
from wordprob.core.atoms import Atoms
from wordprob.core.vocabulary import Tokens, Vocabulary

NO_ROWS: Ints = np.zeros(0, dtype=np.int64)


@dataclass(slots=True)  # not frozen: there are very many, and a frozen one takes three times as long to make
class Request:
    """A sequence of token ids, and what is wanted along it.

    Row ``j`` is the distribution over the next token after ``ids[: j + 1]``.

    Attributes
    ----------
    ids
        The tokens that the model sees, the start-of-text token included.
    first
        The first row that is wanted. The ids before it, ``ids[:first]``, are only context.
    gather, gather_lists
        Rows at which the log-mass of a list of ids is wanted, and for each the number of its list in ``id_lists``.
    id_lists
        Lists of ids. Requests that are made together share them.
    statistics
        Names of statistics of the next-token distribution that are wanted, from :data:`STATISTICS`.
    statistics_rows
        The rows at which they are wanted.
    context_tokens
        How many of the ids, at most ``first``, are a context that other requests share; ``first`` by default.
    is_extended_later
        Whether later requests will begin with these ids: a model may keep what it needs to go on from them.
    """

    ids: Ints
    first: int = 0
    gather: Ints = field(default_factory=lambda: NO_ROWS)
    gather_lists: Ints = field(default_factory=lambda: NO_ROWS)
    id_lists: Sequence[Ints] = ()
    statistics: tuple[str, ...] = ()
    statistics_rows: Ints = field(default_factory=lambda: NO_ROWS)
    context_tokens: int | None = None
    is_extended_later: bool = False

    @property
    def n_context(self) -> int:
        """How many ids the context has that is shared with other requests."""
        return self.first if self.context_tokens is None else self.context_tokens

    def next_ids(self, rows: Ints) -> Ints:
        """Return the id that comes after each of some rows; 0 after the last one, which has none."""
        following: Ints = np.append(self.ids, 0)[rows + 1]
        return following


@dataclass(frozen=True)
class Unlisted:
    """What a model leaves open that lists only its most probable tokens: probabilities, not logarithms.

    Attributes
    ----------
    mass
        ``[R]``: the probability of all tokens that are not listed.
    listed, most
        ``[R, K]``: the probability of the listed tokens of every atom, and the most that its other tokens can have.
    gathered_listed, gathered_most
        The same two for each row of ``Request.gather``.
    """

    mass: Floats
    listed: Floats
    most: Floats
    gathered_listed: Floats
    gathered_most: Floats

    def log_bounds(self, row: int, members: Bools, perhaps: Bools) -> tuple[float, float]:
        """Return the logarithms of the least and the most that some atoms have together at a row.

        Atoms that are members only perhaps count in the most alone.
        """
        possible = members | perhaps
        least = float(self.listed[row, members & ~perhaps].sum())
        unlisted = min(float(self.mass[row]), float(self.most[row, possible].sum()))
        most = min(1.0, float(self.listed[row, possible].sum()) + unlisted)
        with np.errstate(divide="ignore"):
            return float(np.log(least)), float(np.log(most))


@dataclass(slots=True)
class Scores:
    """The answer to a request, in natural logarithms, in single or double precision.

    Attributes
    ----------
    target
        ``[R - 1]``: log p of the next id of the request, for rows ``first`` … last but one.
    mass
        ``[R, K]``: log-mass of every atom, for rows ``first`` … last.
    gathered
        One number for each row of ``Request.gather``.
    statistics
        By name, one number for each of ``Request.statistics_rows``.
    unlisted
        What the masses leave open, of a model without whole distributions: then they are estimates.
    """

    target: Floats
    mass: Floats
    gathered: Floats = field(default_factory=lambda: np.zeros(0))
    statistics: Mapping[str, Floats] = field(default_factory=dict)
    unlisted: Unlisted | None = None


class PrefixStates:
    """What a model keeps of contexts between calls of :meth:`LanguageModel.open`.

    The caller makes one, passes it to every call that may share contexts, and drops it when done, which frees the
    memory. Only the model knows what is inside.
    """

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}


@runtime_checkable
class Tokenizer(Protocol):
    """Text to ids with byte spans, and the vocabulary behind it."""

    vocabulary: Vocabulary

    def encode(self, texts: Sequence[str]) -> Sequence[Tokens]:
        """Tokenize each text, without special tokens."""

    def cut(self, text: str, place: int) -> tuple[int, int] | None:
        """Return where a text can be cut, at a place or after it: where the first part ends and the rest begins.

        The two parts have the same tokens apart as together. ``None`` where that is not certain.
        """


@runtime_checkable
class LanguageModel(Protocol):
    """Anything that computes the probability of the next token.

    A model that can do more or less than a causal model in memory says so in an attribute ``capabilities``
    (:class:`Capabilities`). One that only lists its most probable tokens returns scores
    with ``unlisted``.
    """

    tokenizer: Tokenizer
    max_tokens: int | None
    """The longest sequence of ids it takes; ``None`` for no limit."""
    vocab_size: int
    """Number of ids that its distributions have; may be more than the tokenizer knows."""
    metadata: Mapping[str, str]
    """Where it comes from, for the tables it makes."""

    @property
    def batch_tokens(self) -> int:
        """About how many tokens it runs at a time."""

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Return ``(index of the request, its scores)`` for sequences that are run in full, in any order.

        Threads may ask at the same time. A model that works in the background has begun when this returns.
        """

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Return the same for sequences that share their contexts, ``ids[:n_context]``; each context is run once.

        With ``states``, a context is not run again in later calls either, nor is what a sequence begins with that was
        run in full. A model without such a shortcut may simply return :meth:`score` of the same requests.
        """


# --- what a model can do ----------------------------------------------------------------------------------------------

NO_NEXT_TOKEN = (
    "{name} is a masked model: it fills gaps and has no probabilities of what comes next. Scoring texts with it adds "
    "the column pseudo_surprisal; for surprisals, spellings or next words, use a causal model, such as gpt2-small."
)
NEEDS_SOURCE = (
    "{name} is an encoder–decoder model: it has probabilities of a target given a source. Give each text its source: "
    "`sources` in Python, `source_column` for a table."
)
TOP_TOKENS_ONLY = (
    "a server lists only the most probable tokens, and this needs whole distributions; run the model on this machine."
)

SINGLE_PRECISION_NATS = 1e-4
HALF_PRECISION_NATS = 1e-2
"""The error of a word's surprisal in the arithmetic of a network, about."""


@dataclass(frozen=True)
class Capabilities:
    """What a model can do; by default, what a causal model in memory can.

    Attributes
    ----------
    predicts_next_token
        Whether it has probabilities of what comes next; masked models have none.
    needs_source
        Whether texts need a source, as they do for encoder–decoder models.
    has_whole_distributions
        Whether it gives the probability of every token; a server lists only the most probable ones.
    opens_prefixes
        Whether it has the method ``open``.
    has_source
        Whether a source is set already, for all texts.
    keeps_states
        Whether keeping the states of texts costs next to nothing, so that what goes beyond them starts from there.
    shares_beginnings
        Whether texts that begin alike are run as one while their states are kept.
    max_kept_tokens
        How many tokens can have their states kept together, in one ``PrefixStates``; ``None`` where texts need not be
        divided for that.
    may_change
        Whether its weights, or what it is conditioned on, may change from one call to the next.
    precision_nats
        The error of a word's surprisal that its arithmetic has anyway: asking it for less beyond the texts is no use.
    """

    predicts_next_token: bool = True
    needs_source: bool = False
    has_whole_distributions: bool = True
    opens_prefixes: bool = True
    has_source: bool = False
    keeps_states: bool = False
    shares_beginnings: bool = False
    max_kept_tokens: int | None = None
    may_change: bool = False
    precision_nats: float = SINGLE_PRECISION_NATS


def capabilities_of(model: Any) -> Capabilities:
    """Return what an open model can do: what its ``capabilities`` say, if it has them; else it has the defaults."""
    declared = getattr(model, "capabilities", None)
    if isinstance(declared, Capabilities):
        return declared
    return Capabilities(opens_prefixes=callable(getattr(model, "open", None)))


# --- scores from plain logits -----------------------------------------------------------------------------------------


def entropy(log_probs: Floats, _: Ints) -> Floats:
    """Return the entropy of each row, in nats."""
    finite = np.where(np.isfinite(log_probs), log_probs, 0.0)
    entropies: Floats = -(np.exp(log_probs) * finite).sum(axis=-1)
    return entropies


def rank(log_probs: Floats, next_ids: Ints) -> Floats:
    """Return the rank of the observed next id of each row; 1 is the most probable."""
    observed = np.take_along_axis(log_probs, next_ids[:, None], axis=-1)
    ranks: Floats = 1.0 + (log_probs > observed).sum(axis=-1)
    return ranks


def log_probs(rows: Floats, _: Ints) -> Floats:
    """Return the whole distribution of each row."""
    return rows


STATISTICS: dict[str, Callable[[Floats, Ints], Floats]] = {"entropy": entropy, "rank": rank, "log_probs": log_probs}
"""Statistics of next-token distributions: functions of log-probabilities ``[N, V]`` and observed next ids ``[N]``.

They return ``[N]`` numbers, or rows of them. A statistic that is added here can be asked for by name in every request.
"""


def scores_from_logits(logits: Floats, request: Request, atoms: Atoms) -> Scores:
    """Return the scores of a request from the logits ``[R, V]`` of its rows ``first`` … last.

    This is the readable path, which backends that compute scores in another way are compared with.
    """
    normaliser = log_sum_exp(logits)
    # After ids that have no probability, every logit may be minus infinity; so are the log-probabilities then.
    normaliser = np.where(np.isfinite(normaliser), normaliser, 0.0)
    log_probs = logits - normaliser[:, None]
    next_ids = request.ids[request.first + 1 :]
    mass = np.full((len(log_probs), len(atoms.labels)), -np.inf)
    for k in range(len(atoms.labels)):
        mass[:, k] = log_sum_exp(log_probs[:, atoms.atom_of_token == k])
    gathered = [
        log_sum_exp(log_probs[None, row - request.first, request.id_lists[number]])[0]
        for row, number in zip(request.gather.tolist(), request.gather_lists.tolist(), strict=True)
    ]
    rows = request.statistics_rows
    return Scores(
        target=np.take_along_axis(log_probs[:-1], next_ids[:, None], axis=-1)[:, 0],
        mass=mass,
        gathered=np.array(gathered, dtype=np.float64),
        statistics={
            name: STATISTICS[name](log_probs[rows - request.first], request.next_ids(rows))
            for name in request.statistics
        },
    )


def log_sum_exp(values: Floats) -> Floats:
    """Return log Σ exp along the last axis; minus infinity for none."""
    top = values.max(axis=-1, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total: Floats = np.log(np.exp(values - shift[..., None]).sum(axis=-1)) + shift
    return total
