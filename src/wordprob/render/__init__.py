"""HTML with scored words in colour: a report in one file, and the view that the page of ``wordprob serve`` shares.

>>> import wordprob
>>> from wordprob.render import write_report
>>> table = wordprob.load("exact:bow").score("She saw the mark")
>>> _ = write_report(table, "report.html")  # doctest: +SKIP
"""

from wordprob.render.page import payload, report, write_report

__all__ = ["payload", "report", "write_report"]
