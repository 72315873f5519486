"""Corpus runs: any amount of text into a directory, on one machine or on Ray, killed and resumed at will.

>>> sorted(__all__)[:4]
['Execution', 'RunProgress', 'RunSettings', 'Status']
"""

from wordprob.runs.merging import finished, is_run, merge, types
from wordprob.runs.runner import RunProgress, resume, run
from wordprob.runs.settings import Execution, RunSettings
from wordprob.runs.status import Status, status

__all__ = [
    "Execution",
    "RunProgress",
    "RunSettings",
    "Status",
    "finished",
    "is_run",
    "merge",
    "resume",
    "run",
    "status",
    "types",
]
