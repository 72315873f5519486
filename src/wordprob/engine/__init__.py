"""The engine: text in, table out."""

from wordprob.engine.scorer import Scorer

__all__ = ["Scorer"]
