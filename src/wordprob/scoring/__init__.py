"""Texts in, table out."""

from wordprob.scoring.scorer import Scorer

__all__ = ["Scorer"]
