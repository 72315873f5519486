"""Long inputs without a place to cut them: time grows with their length, and Ctrl-C ends the work."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time

import pandas as pd
import psutil
import pytest

from wordprob import load
from wordprob.models.exact import ToyTokenizer
from wordprob.models.huggingface.tokenizer import interruptible
from wordprob.scoring.background import BackgroundThread

GIVE_UP_SECONDS = 120
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
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # other tests may have left another one
    threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            interruptible(lambda: done.wait(60))
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - start < SECONDS_OF_LINEAR_WORK
    done.set()


def test_results_and_errors_pass_through():
    assert interruptible(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 / 0)


def test_a_long_text_without_spaces_has_the_tokens_of_its_parts(tokenizer_of):
    tokenizer = tokenizer_of("small-gpt2")
    [tokens] = tokenizer.encode(["\n" * 100_000])
    assert tokens.ends[-1] == 100_000
    assert tokens.exact


def test_ctrl_c_does_not_wait_for_the_thread_that_works_ahead():
    release = threading.Event()
    start = time.monotonic()

    def work():
        with BackgroundThread() as thread:
            thread.submit(release.wait, 60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() - start < SECONDS_OF_LINEAR_WORK
    release.set()


def test_an_error_waits_for_the_thread_and_drops_what_has_not_begun():
    begun, failing, done = threading.Event(), threading.Event(), []

    def first():
        begun.set()
        failing.wait(GIVE_UP_SECONDS)
        done.append("first")

    def work():
        with BackgroundThread() as thread:
            thread.submit(first)
            thread.submit(done.append, "second")
            begun.wait()
            failing.set()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert done == ["first"]


def wait_until_busy(process, cpu_seconds):
    """Wait until a process has worked for so long, however busy the machine is."""
    times = psutil.Process(process.pid).cpu_times
    deadline = time.monotonic() + 120
    while sum(times()[:2]) < cpu_seconds and time.monotonic() < deadline:
        time.sleep(0.1)


def test_ctrl_c_ends_scoring_at_once_and_leaves_nothing(tmp_path, small_model_directory):
    letters = random.Random(1).choices("abcdefghijklmnop", k=10_000_000)
    (tmp_path / "long.txt").write_text("".join(letters), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "wordprob",
        "score",
        "long.txt",
        "-o",
        "out.tsv",
        "-m",
        str(small_model_directory("small-llama2")),
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_until_busy(process, cpu_seconds=7)  # by then it tokenises
    assert process.poll() is None
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - start < SECONDS_OF_LINEAR_WORK
    assert process.returncode == 130
    assert err.endswith("wordprob: stopped.\n")
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["long.txt"]


# --- empty texts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["exact:bow", "exact:bow-marked"])
def test_empty_texts_have_the_values_of_one(model):
    scorer = load(model)
    texts = ["", "the mark", "", "", "She saw the mark", ""]
    together = scorer.score(texts)
    one_by_one = [scorer.score(text).texts() for text in texts]
    columns = [name for name in together.texts().columns if name != "text_id"]
    pd.testing.assert_frame_equal(together.texts()[columns], pd.concat(one_by_one, ignore_index=True)[columns])
    assert together.texts()["text_id"].tolist() == list(range(6))
    assert together.to_pandas()["text_id"].tolist() == [1, 1, 4, 4, 4, 4]


def test_empty_texts_between_given_words():
    texts = ["", "the mark", "", "saw"]
    scored = load("exact:bow").score(texts, words=[[], ["the", "mark"], [], ["saw"]], ids=["a", "b", "c", "d"])
    assert scored.texts()["text_id"].tolist() == ["a", "b", "c", "d"]
    assert scored.to_pandas()["text_id"].tolist() == ["b", "b", "d"]


def test_a_hundred_thousand_empty_texts_take_no_time():
    scorer = load("exact:bow")
    start = time.process_time()
    assert len(scorer.score([""] * 100_000).texts()) == 100_000
    assert time.process_time() - start < SECONDS_OF_LINEAR_WORK
