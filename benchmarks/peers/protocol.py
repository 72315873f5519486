"""How a tool is used: one JSON object a line in, two out. Standard library only: it runs in every environment.

In:    {"texts": [...], "values": true}
Out:   {"seconds": 1.5, "cpu": 2.9}                                    as soon as scoring is done
       {"words": [[...], ...], "values": {"corrected": [[...], ...]}}  surprisals in nats, if they were asked for
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time


def serve(score, packages, prepare=lambda texts: texts):
    """Report the versions once the model is loaded, then answer until the input ends.

    ``score`` takes what ``prepare`` made of the texts, which is not timed, and returns a function that lists the
    words of every text and, by kind (corrected, naive), their surprisals.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # so that what a package prints is not mistaken for an answer

    def answer(**fields):
        print(json.dumps(fields), file=answers, flush=True)

    answer(**{name: importlib.metadata.version(name) for name in packages})
    for line in sys.stdin:
        request = json.loads(line)
        given = prepare(request["texts"])
        begin = time.perf_counter(), time.process_time()
        listed = score(given)
        answer(seconds=time.perf_counter() - begin[0], cpu=time.process_time() - begin[1])
        words, values = listed() if request["values"] else ([], {})
        answer(words=words, values=values)
