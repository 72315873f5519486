"""HTML: scored words in colour, in a file of its own or on the page that ``wordprob serve`` shows.

>>> import wordprob
>>> from wordprob.render import write_report
>>> table = wordprob.load("exact:bow").score("She saw the mark")
>>> _ = write_report(table, "report.html")  # doctest: +SKIP
"""

from wordprob.render.page import payload, report, write_report

__all__ = ["payload", "report", "write_report"]
