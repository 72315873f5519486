"""The two studies: tables in, results out.

Nothing here knows a model. :mod:`~wordprob.analysis.reading_times` asks how well surprisal predicts reading times,
:mod:`~wordprob.analysis.word_lengths` how well it predicts the lengths of words; both take tables of scored words and
return a frozen ``Result``, which :mod:`~wordprob.analysis.report` writes and :mod:`~wordprob.analysis.plots` draws.
"""
