"""wordprob: the probability of a word, from a language model that speaks in subwords.

>>> import wordprob
>>> scorer = wordprob.load("exact:bow")
>>> scorer.score("She saw the mark").unit
'bits'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wordprob import option_checks as _option_checks  # noqa: F401  importing it registers the checks
from wordprob._version import __version__

if TYPE_CHECKING:
    from wordprob.errors import WordprobError
    from wordprob.scoring.loading import load
    from wordprob.scoring.model_report import model_report
    from wordprob.scoring.results import ScoredTable, WordTable
    from wordprob.scoring.scorer import Scorer
    from wordprob.stimuli.pairs import score_pairs
    from wordprob.stimuli.table_scoring import score_table
    from wordprob.studies.check import check_sum

__all__ = [
    "ScoredTable",
    "Scorer",
    "WordTable",
    "WordprobError",
    "__version__",
    "check_sum",
    "load",
    "model_report",
    "score_pairs",
    "score_table",
]

_LAZY_IMPORTS = {
    "ScoredTable": "wordprob.scoring.results",
    "Scorer": "wordprob.scoring",
    "WordTable": "wordprob.scoring.results",
    "WordprobError": "wordprob.errors",
    "check_sum": "wordprob.studies.check",
    "load": "wordprob.scoring.loading",
    "model_report": "wordprob.scoring.model_report",
    "score_pairs": "wordprob.stimuli.pairs",
    "score_table": "wordprob.stimuli.table_scoring",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    from importlib import import_module

    if name not in _LAZY_IMPORTS:
        raise AttributeError(f"module 'wordprob' has no attribute '{name}'")
    return getattr(import_module(_LAZY_IMPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
