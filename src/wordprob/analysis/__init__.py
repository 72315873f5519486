"""Studies, contrasts and figures: tables in, results out.

Nothing here knows a model. :mod:`~wordprob.analysis.reading_times` asks how well surprisal predicts reading times,
:mod:`~wordprob.analysis.word_lengths` how well it predicts the lengths of words; both take tables of scored words and
return a frozen ``Result``, which :mod:`~wordprob.analysis.report` writes and :mod:`~wordprob.analysis.plots` draws.
:mod:`~wordprob.analysis.contrasts` compares two conditions by item; :mod:`~wordprob.analysis.text_plots` draws that and
surprisal along a text or by region.
"""
