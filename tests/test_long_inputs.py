"""Long inputs without a place to cut them: time grows with their length, and Ctrl-C ends the work."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from wordprob import load
from wordprob.models.exact import ToyTokenizer
from wordprob.models.huggingface.tokenizer import interruptible

SECONDS_OF_LINEAR_WORK = 10
"""Many times what linear work takes here, and a fraction of what quadratic work takes."""


@pytest.mark.parametrize("text", ["mark" * 4000, "x" * 16000, "\n" * 16000])
def test_the_toy_takes_linear_time_without_spaces(text):
    scorer = load("exact:bow")
    start = time.process_time()
    scorer.score(text)
    assert time.process_time() - start < SECONDS_OF_LINEAR_WORK


def test_the_longest_piece_is_found_wherever_it_begins():
    tokenizer = ToyTokenizer(r"\w+", ["mark", "marker", "er"])
    pieces = [tokenizer.vocabulary.tokens[i] for i in tokenizer.ids("markermarkerermar")]
    assert pieces == ["marker", "marker", "er", "m", "a", "r"]


def test_a_call_that_does_not_notice_ctrl_c_is_interrupted():
    """It goes on in its thread, which ends with the process."""
    done = threading.Event()
    main = threading.main_thread().ident
    threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interruptible(lambda: done.wait(60))
    assert time.monotonic() - start < SECONDS_OF_LINEAR_WORK
    done.set()


def test_results_and_errors_pass_through():
    assert interruptible(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 / 0)


def test_a_long_text_without_spaces_has_the_tokens_of_its_parts(tokenizer_of):
    tokenizer = tokenizer_of("smollm2")
    [tokens] = tokenizer.encode(["\n" * 100_000])
    assert tokens.ends[-1] == 100_000
    assert tokens.exact
