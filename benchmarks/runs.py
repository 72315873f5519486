"""Corpus runs: what they survive, how much memory they need, and what they cost beyond the scoring.

    python benchmarks/runs.py killed   [--moments 20] [--engine local|ray]
    python benchmarks/runs.py memory   --model MODEL --text TEXTS --words 10000 300000
    python benchmarks/runs.py memory   --model exact:bow --words 10000 10000000
    python benchmarks/runs.py speed    --model MODEL --text TEXTS [--words 20000] [--repeats 3]

TEXTS has one text on each line; it is repeated until there are enough words. Without it, texts are of the toy language.
Add --results FILE.csv to keep the rows. Memory is the peak of the process, and for several processes their sum.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median_high

import record

import wordprob
from wordprob import runs

TOY_TEXTS = (
    "She saw the mark.",
    "the marker She saw the",
    "She marked the marker.",
    "She saw the mark",
    "the mark saw the mark",
    "saw She saw the marker",
)

Row = dict[str, object]


def write_corpus(path: Path, words: int, text: str | None, sentences: int = 1) -> int:
    """Write texts with at least so many words in all, one a line; return how many words there are.

    Toy texts of many sentences have no probability, but they are scored all the same, and faster.
    """
    count = 0
    texts = _endless_texts(text, sentences)
    with path.open("w", encoding="utf-8") as file:
        while count < words:
            line = next(texts)
            count += len(line.split())
            file.write(line + "\n")
    return count


def _endless_texts(text: str | None, sentences: int) -> Iterator[str]:
    if text:
        yield from itertools.cycle(record.texts_in(text))
    rng = random.Random(0)
    while True:
        yield " ".join(rng.choices(TOY_TEXTS, k=sentences))


def run_command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "wordprob", "run", *map(str, arguments)]


def finished_files(folder: Path) -> dict[str, bytes]:
    contents = {}
    for mark in sorted((folder / "done").glob("*.json")):
        for name in json.loads(mark.read_text())["files"]:
            contents[name] = (folder / name).read_bytes()
    return contents


# --- killed ----------------------------------------------------------------------------------------------------------


def killed(arguments: argparse.Namespace, home: Path) -> list[Row]:
    """Kill runs at random moments, resume them, and compare them with a run that was never interrupted."""
    rng = random.Random(arguments.seed)
    corpus = home / "corpus.txt"
    write_corpus(corpus, arguments.words[0], arguments.text)
    command = [corpus, "--model", arguments.model, "--threads", 1, "--shard-texts", 60]
    if arguments.engine == "ray":
        command += ["--engine", "ray", "--workers", 2]
    start = time.perf_counter()
    _run_to_the_end(command, home / "reference")
    duration_seconds = time.perf_counter() - start
    reference = finished_files(home / "reference")
    kills = complete_runs = identical_runs = 0
    while kills < arguments.moments:
        folder = home / f"out{complete_runs}"
        kills += _kill_after(rng.uniform(0, duration_seconds), command, folder)
        if kills == arguments.moments:
            _run_to_the_end(command, folder)
        if (folder / "manifest.json").exists() and runs.status(folder).complete:
            complete_runs += 1
            identical_runs += finished_files(folder) == reference
    counts = {"kills": kills, "runs": complete_runs, "identical_runs": identical_runs}
    return [{"what": "killed", "engine": arguments.engine, **counts}]


def _run_to_the_end(command: list[object], folder: Path) -> None:
    subprocess.run(run_command(*command, "-o", folder), check=True, capture_output=True)


def _kill_after(seconds: float, command: list[object], folder: Path) -> bool:
    """Start a run and kill it after some time; return False if it ended earlier."""
    process = subprocess.Popen(run_command(*command, "-o", folder), stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    was_running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return was_running


# --- memory ----------------------------------------------------------------------------------------------------------


def memory(arguments: argparse.Namespace, home: Path) -> list[Row]:
    """Measure the peak memory of runs over corpora of several sizes."""
    rows: list[Row] = []
    for words in arguments.words:
        corpus = home / f"{words}.txt"
        folder = home / f"out{words}"
        count = write_corpus(corpus, words, arguments.text, sentences=40)
        options = ["--threads", arguments.threads, "--shard-characters", arguments.shard_characters]
        start = time.perf_counter()
        peak_kib = _peak_kib(run_command(corpus, "--model", arguments.model, *options, "-o", folder))
        seconds = time.perf_counter() - start
        status = runs.status(folder)
        assert status.complete
        assert status.words == count
        row = {"what": "memory", "model": Path(arguments.model).name, "words": count, "shards": status.shards}
        rows.append({**row, "peak_mib": round(peak_kib / 1024), "seconds": round(seconds, 1)})
        print(rows[-1], flush=True)
        shutil.rmtree(folder)
        corpus.unlink()
    return [{**row, "ratio_to_smallest": round(row["peak_mib"] / rows[0]["peak_mib"], 3)} for row in rows]


PRINT_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Runs a command as the only child of a process, whose children's peak is then the command's."""


def _peak_kib(command: list[str]) -> int:
    finished = subprocess.run([sys.executable, "-c", PRINT_PEAK, *command], check=True, capture_output=True, text=True)
    return int(finished.stdout) if sys.platform != "darwin" else int(finished.stdout) // 1024


# --- speed -----------------------------------------------------------------------------------------------------------

WAYS = {
    "scorer alone": None,
    "local, 1 worker": {},
    "local, 2 workers": {"workers": 2},
    "ray, 2 workers": {"engine": "ray", "workers": 2},
}
"""What is compared, and how the run is executed; ``None`` is no run at all."""


def speed(arguments: argparse.Namespace, home: Path) -> list[Row]:
    """Measure runs against the scorer alone on the same texts, and two workers of each engine against each other.

    Times are from the first shard that is done to the last, so that loading a model, or starting Ray, does not count.
    The ways take turns; the best of each counts.
    """
    corpus = home / "corpus.txt"
    count = write_corpus(corpus, arguments.words[0], arguments.text)
    settings = {name: getattr(arguments, name) for name in ("model", "threads", "shard_characters")}
    speeds: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(arguments.repeats):
        order = list(WAYS.items())
        if turn % 2:
            order.reverse()
        for way, execution in order:
            marks = _marks_of(corpus, home / f"{turn} {way}", settings, execution)
            speeds[way].append(pace(marks))
            print(way, round(speeds[way][-1]), "words/s", flush=True)
    base = {
        "what": "speed",
        "model": Path(arguments.model).name,
        "words": count,
        "threads": arguments.threads,
    }
    return [{**base, **_speed_row(way, speeds)} for way in speeds]


def _speed_row(way: str, speeds: dict[str, list[float]]) -> Row:
    fastest = max(speeds[way])
    return {
        "way": way,
        "repeats": len(speeds[way]),
        "words_per_s": round(fastest),
        "median_words_per_s": round(median_high(speeds[way])),
        "ratio_to_scorer": round(fastest / max(speeds["scorer alone"]), 3),
    }


Marks = list[tuple[float, int]]
"""When each shard was done, in seconds, and how many words it has."""


def _marks_of(corpus: Path, folder: Path, settings: Row, execution: Row | None) -> Marks:
    if execution is None:
        return _score_alone(corpus, settings)
    runs.run(corpus, folder, **settings, **execution)
    return done_marks(folder)


def done_marks(folder: Path) -> Marks:
    marks = []
    for path in (folder / "done").glob("*.json"):
        seconds = path.stat().st_mtime_ns / 1e9
        marks.append((seconds, json.loads(path.read_text())["words"]))
    return sorted(marks)


def pace(marks: Marks) -> float:
    """Return the words a second between the first shard that was done and the last."""
    words = sum(words for _, words in marks[1:])
    return words / (marks[-1][0] - marks[0][0])


def _score_alone(corpus: Path, settings: Row) -> Marks:
    """Score the same shards with the scorer and nothing else."""
    import torch

    scorer = wordprob.load(settings["model"])
    torch.set_num_threads(int(settings["threads"]))
    marks: Marks = []
    shard: list[str] = []
    characters = 0
    lines = corpus.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        shard.append(line)
        characters += len(line)
        if characters >= settings["shard_characters"] or number == len(lines):
            words = len(scorer.score(shard))
            marks.append((time.perf_counter(), words))
            shard = []
            characters = 0
    return marks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["killed", "memory", "speed"])
    parser.add_argument("--model", default="exact:bow")
    parser.add_argument("--text")
    parser.add_argument("--words", type=int, nargs="+", default=[20_000])
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--shard-characters", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results")
    arguments = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    measure = {"killed": killed, "memory": memory, "speed": speed}[arguments.what]
    with tempfile.TemporaryDirectory() as home:
        rows = measure(arguments, Path(home))
    rows = [{**row, **record.surroundings()} for row in rows]
    for row in rows:
        print(row)
    print("this process:", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, "MiB")
    if arguments.results:
        record.save(rows, arguments.results)


if __name__ == "__main__":
    main()
