"""wordprob: the probability of a word, from a language model that speaks in subwords.

>>> import wordprob
>>> scorer = wordprob.load("exact:bow")
>>> scorer.score("She saw the mark").unit
'bits'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wordprob._version import __version__

if TYPE_CHECKING:
    from wordprob.engine import Scorer
    from wordprob.errors import WordprobError
    from wordprob.loading import load
    from wordprob.stimuli import ScoredTable, score_table
    from wordprob.table import WordTable

__all__ = ["ScoredTable", "Scorer", "WordTable", "WordprobError", "__version__", "load", "score_table"]

_HOMES = {
    "ScoredTable": "wordprob.stimuli",
    "Scorer": "wordprob.engine",
    "WordTable": "wordprob.table",
    "WordprobError": "wordprob.errors",
    "load": "wordprob.loading",
    "score_table": "wordprob.stimuli",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'wordprob' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
