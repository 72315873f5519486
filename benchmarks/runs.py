"""Corpus runs: what they survive, what they hold in memory, and what they cost beyond the scoring.

    python benchmarks/runs.py killed   [--moments 20] [--engine local|ray]
    python benchmarks/runs.py memory   --model MODEL --text TEXTS --words 10000 300000
    python benchmarks/runs.py memory   --model exact:bow --words 10000 10000000
    python benchmarks/runs.py speed    --model MODEL --text TEXTS [--words 20000] [--repeats 3]

TEXTS has one text on each line; it is repeated until there are words enough. Without it, texts are the toy language's.
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
from pathlib import Path

import record

import wordprob
from wordprob import runs

TOY = (
    "She saw the mark.",
    "the marker She saw the",
    "She marked the marker.",
    "She saw the mark",
    "the mark saw the mark",
    "saw She saw the marker",
)


def corpus(path: Path, words: int, text: str | None, sentences: int = 1) -> int:
    """Write texts of so many words in all, one a line; return how many words there are.

    Toy texts of many sentences have no probability, but they are scored all the same, and faster.
    """
    rng, count = random.Random(0), 0
    if text:
        lines = [line for line in Path(text).read_text(encoding="utf-8").split("\n") if line.strip()]
        stream = itertools.cycle(lines)
    else:
        stream = (" ".join(rng.choices(TOY, k=sentences)) for _ in itertools.count())
    with path.open("w", encoding="utf-8") as file:
        while count < words:
            line = next(stream)
            count += len(line.split())
            file.write(line + "\n")
    return count


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "wordprob", "run", *map(str, arguments)]


def files(folder: Path) -> dict[str, bytes]:
    marks = [json.loads(path.read_text()) for path in sorted((folder / "done").glob("*.json"))]
    return {name: (folder / name).read_bytes() for mark in marks for name in mark["files"]}


# --- killed ----------------------------------------------------------------------------------------------------------


def killed(given: argparse.Namespace, home: Path) -> list[dict[str, object]]:
    """Kill runs at random moments until there were enough, resume them, and compare with a run left alone."""
    text, rng = home / "corpus.txt", random.Random(given.seed)
    corpus(text, given.words[0], given.text)
    options = ["--model", given.model, "--threads", 1, "--shard-texts", 60]
    engine = ["--engine", "ray", "--workers", 2] if given.engine == "ray" else []
    begin = time.perf_counter()
    subprocess.run(command(text, *options, *engine, "-o", home / "reference"), check=True, capture_output=True)
    longest, reference = time.perf_counter() - begin, files(home / "reference")
    deaths = rounds = whole = 0
    while deaths < given.moments:
        folder = home / f"out{rounds}"
        process = subprocess.Popen(command(text, *options, *engine, "-o", folder), stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0, longest))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            deaths += 1
        process.wait()
        last = deaths == given.moments
        if last:
            subprocess.run(command(text, *options, *engine, "-o", folder), check=True, capture_output=True)
        if (folder / "manifest.json").exists() and runs.status(folder).complete:
            whole += files(folder) == reference
            rounds += 1
    return [{"what": "killed", "engine": given.engine, "kills": deaths, "runs": rounds, "identical_runs": whole}]


# --- memory ----------------------------------------------------------------------------------------------------------


def memory(given: argparse.Namespace, home: Path) -> list[dict[str, object]]:
    """Measure the peak memory of runs over corpora of several sizes."""
    rows: list[dict[str, object]] = []
    for words in given.words:
        text, folder = home / f"{words}.txt", home / f"out{words}"
        count = corpus(text, words, given.text, sentences=40)
        options = ["--model", given.model, "--threads", given.threads, "--shard-characters", given.shard_characters]
        begin = time.perf_counter()
        peak = _peak(command(text, *options, "-o", folder))
        seconds = time.perf_counter() - begin
        found = runs.status(folder)
        assert found.complete
        assert found.words == count
        row = {"what": "memory", "model": Path(given.model).name, "words": count, "shards": found.shards}
        rows.append({**row, "peak_mib": round(peak / 1024), "seconds": round(seconds, 1)})
        print(rows[-1], flush=True)
        shutil.rmtree(folder)
        text.unlink()
    return [{**row, "ratio_to_smallest": round(row["peak_mib"] / rows[0]["peak_mib"], 3)} for row in rows]


def _peak(argv: list[str]) -> int:
    """Run a command in a process of its own, whose children's peak is the command's; return kibibytes."""
    reader = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL); "
    reader += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", reader, *argv], check=True, capture_output=True, text=True)
    return int(done.stdout) if sys.platform != "darwin" else int(done.stdout) // 1024


# --- speed -----------------------------------------------------------------------------------------------------------


def speed(given: argparse.Namespace, home: Path) -> list[dict[str, object]]:
    """Measure a run against the scorer alone on the same texts, and two workers of each engine against each other.

    Times are from the first shard that is done to the last, so that loading a model, or starting Ray, does not count.
    The ways take turns; the best of each counts.
    """
    text, found = home / "corpus.txt", {}
    count = corpus(text, given.words[0], given.text)
    settings = {"model": given.model, "threads": given.threads, "shard_characters": given.shard_characters}
    ways = {
        "scorer alone": None,
        "local, 1 worker": {},
        "local, 2 workers": {"workers": 2},
        "ray, 2 workers": {"engine": "ray", "workers": 2},
    }
    for turn in range(given.repeats):
        for way, how in list(ways.items())[:: -1 if turn % 2 else 1]:
            folder = home / f"{turn} {way}"
            if how is None:
                marks = _alone(text, settings)
            else:
                runs.run(text, folder, **settings, **how)
                marks = done_marks(folder)
            found.setdefault(way, []).append(pace(marks))
            print(way, round(found[way][-1]), "words/s", flush=True)
    first = max(found["scorer alone"])
    base = {"what": "speed", "model": Path(given.model).name, "words": count, "threads": given.threads}
    return [
        {
            **base,
            "way": way,
            "repeats": given.repeats,
            "words_per_s": round(max(speeds)),
            "median_words_per_s": round(sorted(speeds)[len(speeds) // 2]),
            "ratio_to_scorer": round(max(speeds) / first, 3),
        }
        for way, speeds in found.items()
    ]


Marks = list[tuple[float, int]]
"""When each shard was done, and how many words it has."""


def done_marks(folder: Path) -> Marks:
    marks = (folder / "done").glob("*.json")
    return sorted((path.stat().st_mtime_ns / 1e9, json.loads(path.read_text())["words"]) for path in marks)


def pace(marks: Marks) -> float:
    """Return the words a second between the first shard that was done and the last."""
    return sum(words for _, words in marks[1:]) / (marks[-1][0] - marks[0][0])


def _alone(text: Path, settings: dict[str, object]) -> Marks:
    """Score the same shards with the scorer and nothing else."""
    import torch

    scorer = wordprob.load(settings["model"])
    torch.set_num_threads(int(settings["threads"]))
    held, size, marks = [], 0, []
    lines = text.read_text(encoding="utf-8").splitlines()
    for n, line in enumerate(lines):
        held.append(line)
        size += len(line)
        if size >= settings["shard_characters"] or n == len(lines) - 1:
            words = len(scorer.score(held))
            marks.append((time.perf_counter(), words))
            held, size = [], 0
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
    given = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with tempfile.TemporaryDirectory() as home:
        rows = {"killed": killed, "memory": memory, "speed": speed}[given.what](given, Path(home))
    rows = [{**row, **record.surroundings()} for row in rows]
    for row in rows:
        print(row)
    print("this process:", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, "MiB")
    if given.results:
        record.save(rows, given.results)


if __name__ == "__main__":
    main()
