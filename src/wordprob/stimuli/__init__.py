"""A researcher's table in, the same rows out, with surprisals behind them."""

from wordprob.stimuli.layout import Layout, lay_out
from wordprob.stimuli.scored import ScoredTable
from wordprob.stimuli.scoring import Stimuli, of_texts, read_stimuli, score_table

__all__ = ["Layout", "ScoredTable", "Stimuli", "lay_out", "of_texts", "read_stimuli", "score_table"]
