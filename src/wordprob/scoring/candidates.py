"""Candidates after a context: a row for each, with its probability and, if wanted, its share among all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wordprob.core.equation import logsumexp
from wordprob.errors import InputError, OptionError
from wordprob.scoring.continuations import pair_up
from wordprob.scoring.results import WordTable
from wordprob.tables.formats import ExtendedSheet, Frame
from wordprob.tables.marks import whole_span
from wordprob.tables.regions import add_up_spans
from wordprob.tables.schema import UNITS

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.core.arrays import Floats
    from wordprob.scoring.passages import Words

LEFT_OUT = ("text_id", "word_id", "region", "word", "start", "end")
"""Columns of words that say nothing about a whole candidate."""

NOT_OPTIONS = {
    "crossed": "every candidate is scored after every context",
    "ids": "the rows are named by their contexts and candidates",
}
"""Options of continuations that candidates do not have, and why."""

NO_SHARE = "no share: a candidate has no value"
ALL_IMPOSSIBLE = "no share: all candidates have the probability 0"


class ScoresContinuations(Protocol):
    """What scores words after contexts: a :class:`wordprob.Scorer`."""

    @property
    def score_continuations(self) -> Callable[..., WordTable]:
        """Returns the surprisal of each continuation's words, given the context."""


def score_candidates(
    scorer: ScoresContinuations,
    context: str | Iterable[str],
    candidates: Iterable[str],
    words: Words | None = None,
    *,
    share: bool = False,
    **options: Any,
) -> WordTable:
    """Return a row for each candidate: its surprisal and its probability as what comes next.

    A candidate may have several words; its surprisal is that of all of them. Further columns are those of words, added
    up or taken from its first word.

    Parameters
    ----------
    scorer
        An open model.
    context
        What comes before; may be empty. Or several contexts: every candidate is scored after each of them, and the
        column ``context`` says after which.
    candidates
        What may come next: words or longer stretches.
    words
        As for :meth:`wordprob.Scorer.score_continuations`.
    share
        Add ``share``: the probability divided by that of all candidates after the same context. If a candidate has no
        value, the shares of that context are missing.
    **options
        Further keywords of :meth:`wordprob.Scorer.score_continuations`, for example ``unit``; not ``crossed`` and
        ``ids``. With ``spellings="all"`` there are ``probability_all`` and ``share_all`` too, from ``surprisal_all``.

    Examples
    --------
    >>> import wordprob
    >>> scorer = wordprob.load("exact:bow")
    >>> table = score_candidates(scorer, "She saw the", ["mark", "marker"], "punctuation", share=True)
    >>> table.to_pandas()[["candidate", "probability", "share"]].round(3).values.tolist()
    [['mark', 0.4, 0.533], ['marker', 0.35, 0.467]]
    """
    import pandas as pd

    for name in options.keys() & NOT_OPTIONS.keys():
        raise OptionError(f"`{name}` is not an option of candidates: {NOT_OPTIONS[name]}; leave it out.")
    befores, afters = pair_up(context, candidates, crossed=True)
    if not afters:
        raise InputError("there are no candidates, or no contexts; give at least one of each.")
    scored = scorer.score_continuations(befores, afters, words, **options)
    if not isinstance(context, str):
        return by_candidate(scored, pd.DataFrame({"context": befores, "candidate": afters}), share)
    scored.metadata["context"] = context
    return by_candidate(scored, pd.DataFrame({"candidate": afters}), share)


def by_candidate(scored: WordTable, own: pd.DataFrame, share: bool) -> WordTable:
    """Return a table of scored words with a row for each candidate instead.

    Parameters
    ----------
    scored
        The words of the candidates.
    own
        The first columns of the rows: the candidates, and their contexts where there are several.
    share
        Whether shares are added.
    """
    candidates = own["candidate"].tolist()
    contexts = own["context"].tolist() if "context" in own else [""] * len(candidates)
    words = scored.words()
    added = add_up_spans(words, candidates, [[whole_span(candidate)] for candidate in candidates])
    added = added.drop(columns=list(LEFT_OUT))
    added.insert(0, "surprisal", added.pop("surprisal"))
    columns: dict[str, Floats] = {}
    for suffix in ("", *(["_all"] if "surprisal_all" in added else [])):
        log_probs = -added[f"surprisal{suffix}"].to_numpy(dtype=np.float64) * UNITS[scored.unit]
        columns[f"probability{suffix}"] = np.exp(log_probs)
        if share:
            totals = log_totals(log_probs, contexts, candidates)
            with np.errstate(invalid="ignore"):
                columns[f"share{suffix}"] = np.exp(log_probs - totals)
            added["note"] = _share_notes(added["note"].tolist(), log_probs, totals)
    for place, (name, values) in enumerate(columns.items(), start=1):
        added.insert(place, name, values)
    extended = ExtendedSheet(Frame(own, "the candidates"), np.arange(len(own)), added)
    return WordTable(words, scored.texts(), scored.metadata, extended)


def log_totals(log_probs: Floats, contexts: list[str], candidates: list[str]) -> Floats:
    """Return for each candidate log p of all different candidates after the same context, added up.

    Not a number if one of them has no probability.

    Examples
    --------
    >>> np.exp(log_totals(np.log([0.1, 0.3, 0.1]), ["a"] * 3, ["x", "y", "x"])).round(2).tolist()
    [0.4, 0.4, 0.4]
    """
    of_contexts: dict[str, dict[str, float]] = {}
    for context, candidate, log_prob in zip(contexts, candidates, log_probs.tolist(), strict=True):
        of_contexts.setdefault(context, {})[candidate] = log_prob
    totals = {context: logsumexp(np.array(list(known.values()))) for context, known in of_contexts.items()}
    return np.array([totals[context] for context in contexts])


def _share_notes(notes: list[str], log_probs: Floats, totals: Floats) -> list[str]:
    """Return the notes, with the reason where a candidate has a probability but no share."""
    with_reasons = []
    for note, log_prob, total in zip(notes, log_probs.tolist(), totals.tolist(), strict=True):
        reason = ""
        if not math.isnan(log_prob) and not math.isfinite(total):
            reason = NO_SHARE if math.isnan(total) else ALL_IMPOSSIBLE
        with_reasons.append(note if reason in note else "; ".join(filter(None, [note, reason])))
    return with_reasons
