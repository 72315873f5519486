"""What a model is like, and whether it does what scoring relies on: tried out on a short text.

The checks ask only what every backend answers, so they hold for all of them. The probabilities must add up to one, and
the ways to ask for the same number must agree.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wordprob.core.atoms import atoms_of
from wordprob.core.words import define
from wordprob.models.protocol import LanguageModel, PrefixStates, Request, Scores, log_sum_exp
from wordprob.scoring.loading import load
from wordprob.scoring.scorer import Scorer

PROBE_TEXTS = (
    "She saw the mark. It's the marker's? Nobody in the village had ever seen one like it.",
    "She saw the mark",
)
"""Texts to try a model on; the second is for toys, under which the first is impossible."""
OTHER_TEXTS = (
    "Yes.",
    "A longer text, so that the others are padded, if the model pads them at all: it has many words.",
)

FULL_PRECISION_TOLERANCE_NATS = 1e-3
HALF_PRECISION_TOLERANCE_NATS = 0.1
"""How far two ways to ask for the same log-probability may be apart: rounding, in one order of sums or another."""

TIMED_TEXTS = 8
"""Copies of the text that are timed."""

BYTES_PER_MIB = 1 << 20


@dataclass(frozen=True)
class CheckResult:
    """One check: what must hold, the largest deviation from it in nats, and how much is allowed."""

    name: str
    deviation: float
    allowed: float

    @property
    def passed(self) -> bool:
        """Whether the deviation is small enough; a value that is not a number is not."""
        return bool(self.deviation <= self.allowed)


@dataclass(frozen=True)
class ModelReport:
    """What :func:`model_report` found.

    Attributes
    ----------
    facts
        By name: the tokenizer's family, start and end tokens, context length, memory, precision, device, speed.
    shortcuts
        How the model is run, as its self-checks decided when it was opened; empty for backends without shortcuts.
    checks
        The checks that were made now.
    """

    facts: Mapping[str, Any]
    shortcuts: Mapping[str, str]
    checks: Sequence[CheckResult]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers and text, as JSON has them."""
        checks = [
            {"check": check.name, "passed": check.passed, "deviation": check.deviation, "allowed": check.allowed}
            for check in self.checks
        ]
        return {**self.facts, "shortcuts": dict(self.shortcuts), "checks": checks, "passed": self.passed}


def model_report(model: Any, tokenizer: Any = None, **options: Any) -> ModelReport:
    """Open a model, check it on a short text, and return what it is like.

    Parameters
    ----------
    model
        A name, a model in hand as for :func:`wordprob.load`, or a :class:`wordprob.Scorer`.
    tokenizer, options
        As for :func:`wordprob.load`.

    Examples
    --------
    >>> report = model_report("exact:bow")
    >>> report.passed, report.facts["family"]
    (True, 'bow')
    """
    scorer = model if isinstance(model, Scorer) else load(model, tokenizer, **options)
    checks = check_language_model(scorer.model)
    return ModelReport(_facts(scorer), getattr(scorer.model, "shortcuts", {}), checks)


def _facts(scorer: Scorer) -> dict[str, Any]:
    model = scorer.model
    vocabulary = model.tokenizer.vocabulary
    metadata = model.metadata
    size_bytes = getattr(model, "weight_bytes", None)
    return {
        "model": metadata.get("model", type(model).__name__),
        "class": type(getattr(model, "network", model)).__name__,
        "family": vocabulary.family,
        "pieces": vocabulary.convention,
        "start": None if vocabulary.start is None else vocabulary.tokens[vocabulary.start],
        "end": [vocabulary.tokens[i] for i in vocabulary.ends],
        "vocabulary": vocabulary.size,
        "logits": model.vocab_size,
        "context_tokens": model.max_tokens,
        "memory_mib": None if size_bytes is None else round(size_bytes / BYTES_PER_MIB, 1),
        "dtype": metadata.get("dtype", "float64"),
        "device": metadata.get("device", "cpu"),
        "tokens_per_second": _speed(scorer),
    }


def _speed(scorer: Scorer) -> int:
    """Return how many tokens are scored in a second, when all is warm."""
    texts = [PROBE_TEXTS[0]] * TIMED_TEXTS
    scorer.score(texts)
    begin = time.perf_counter()
    scorer.score(texts)
    seconds = time.perf_counter() - begin
    tokens = TIMED_TEXTS * len(scorer.model.tokenizer.encode(texts[:1])[0].ids)
    return round(tokens / seconds)


# --- checks that hold for every backend -------------------------------------------------------------------------------


def check_language_model(model: LanguageModel) -> list[CheckResult]:
    """Check a model on a short text: what it answers must be distributions, in whichever way it is asked."""
    vocabulary = model.tokenizer.vocabulary
    atoms = atoms_of(vocabulary, define("whitespace"), model.vocab_size)
    start_ids = list(vocabulary.start_ids)
    encoded = model.tokenizer.encode([*PROBE_TEXTS, *OTHER_TEXTS])
    sequences = [np.array([*start_ids, *tokens.ids.tolist()])[: model.max_tokens] for tokens in encoded]
    answers = _answers(model, [Request(ids) for ids in sequences], atoms)
    chosen = 0 if np.isfinite(answers[0].target).all() else 1
    whole, together = sequences[chosen], answers[chosen]
    last = len(whole) - 1
    alone = _answers(model, [Request(whole)], atoms)[0]
    middle = max(1, last // 2)
    rests = [Request(whole, first=row) for row in (middle, middle, last)]
    opened = _opened(model, rests, atoms)
    rows = Request(whole, statistics=("log_probs",), statistics_rows=np.arange(last))
    full = _answers(model, [rows], atoms)[0].statistics["log_probs"]
    next_log_probs = np.take_along_axis(full, whole[1:, None], axis=-1)[:, 0]
    allowed = _tolerance(model)
    deviations = {
        "next-token probabilities add up to one": _largest(log_sum_exp(np.asarray(full, dtype=np.float64))),
        "classes of tokens add up to one": _largest(log_sum_exp(np.asarray(alone.mass, dtype=np.float64))),
        "log p of a token is that of the full softmax": _distance(alone.target, next_log_probs),
        "a text has the same values in a batch": _distance(alone.target, together.target),
        "going on from a context gives what the whole text gives": _distance(opened[0].target, alone.target[middle:]),
    }
    return [CheckResult(name, deviation, allowed) for name, deviation in deviations.items()]


def _answers(model: LanguageModel, requests: Sequence[Request], atoms: Any) -> list[Scores]:
    answers = dict(model.score(requests, atoms))
    return [answers[number] for number in range(len(requests))]


def _opened(model: LanguageModel, requests: Sequence[Request], atoms: Any) -> list[Scores]:
    answers = dict(model.open(requests, atoms, PrefixStates()))
    return [answers[number] for number in range(len(requests))]


def _tolerance(model: LanguageModel) -> float:
    is_half = model.metadata.get("dtype") in ("float16", "bfloat16")
    return HALF_PRECISION_TOLERANCE_NATS if is_half else FULL_PRECISION_TOLERANCE_NATS


def _largest(values: Any) -> float:
    return float(np.abs(np.asarray(values, dtype=np.float64)).max())


def _distance(values: Any, others: Any) -> float:
    """Return the largest difference; where both are minus infinity there is none."""
    left, right = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    same = (left == right) | (np.isneginf(left) & np.isneginf(right))
    with np.errstate(invalid="ignore"):
        return float(np.where(same, 0.0, np.abs(left - right)).max())
