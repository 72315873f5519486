"""Corpus runs: any amount of text into a folder, on one machine or on Ray; a run that stops can be resumed.

>>> sorted(__all__)[:4]
['CorpusOptions', 'Execution', 'Progress', 'RunProgress']
"""

from wordprob.runs.merging import finished, is_run, merge, types
from wordprob.runs.run_progress import RunProgress
from wordprob.runs.runner import resume, run
from wordprob.runs.settings import CorpusOptions, Execution, RunSettings
from wordprob.runs.status import Status, status
from wordprob.runs.verification import Verification, verify

Progress = RunProgress
"""The shorter name of :class:`RunProgress`."""

Settings = RunSettings
"""The shorter name of :class:`RunSettings`."""

__all__ = [
    "CorpusOptions",
    "Execution",
    "Progress",
    "RunProgress",
    "RunSettings",
    "Settings",
    "Status",
    "Verification",
    "finished",
    "is_run",
    "merge",
    "resume",
    "run",
    "status",
    "types",
    "verify",
]
