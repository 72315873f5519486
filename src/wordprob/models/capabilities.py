"""What a model can do: known from its name or its configuration before it is loaded, and from the model afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
