"""Corpus runs: any amount of text into a folder, on one machine or on Ray, killed and resumed at will.

>>> sorted(__all__)[:4]
['Execution', 'Progress', 'Settings', 'Status']
"""

from wordprob.runs.merging import finished, is_run, merge, types
from wordprob.runs.runner import Progress, resume, run
from wordprob.runs.settings import Execution, Settings
from wordprob.runs.state import Status, status

__all__ = [
    "Execution",
    "Progress",
    "Settings",
    "Status",
    "finished",
    "is_run",
    "merge",
    "resume",
    "run",
    "status",
    "types",
]
