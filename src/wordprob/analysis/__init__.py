"""Analyses and figures of scored words: tables in, results out. Nothing here imports a model.

The statistics of the two studies are in :mod:`~wordprob.analysis.reading_times` (how well surprisal predicts reading
times) and :mod:`~wordprob.analysis.word_lengths` (how well it predicts the lengths of words). Both take tables of
scored words and return a frozen result, which :mod:`~wordprob.analysis.plots` draws; :mod:`wordprob.studies` computes
such a result from texts.
:mod:`~wordprob.analysis.contrasts` compares two conditions by item, :mod:`~wordprob.analysis.factorial` two factors,
and :mod:`~wordprob.analysis.contrast_plots` draws both. :mod:`~wordprob.analysis.text_plots` draws surprisal word by
word, :mod:`~wordprob.analysis.region_plots` by region.
"""
