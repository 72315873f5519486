"""The documentation's examples, and what lets them run quickly: the files they name, and a model that is instant."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shlex
import shutil
import string
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd
from click.testing import CliRunner

from wordprob.cli import cli
from wordprob.errors import WordprobError
from wordprob.models import exact

ROOT = Path(__file__).resolve().parents[1]
SMALL = ROOT / "tests/analysis/r/small.tsv"

# --- a model ------------------------------------------------------------------------------------------------------


class Babbler(exact.ExactLM):
    """Stands in for any model an example names: every text has a probability, from a random chain of tokens."""

    max_tokens = 512

    def __init__(self, name):
        letters = string.ascii_letters + string.digits
        pieces = [*string.printable, *"éïëñ“”‘’–—…␣", *(f" {c}" for c in letters), " the", "the", "ing", "er", ".\n"]
        super().__init__({}, exact.ToyTokenizer(r" ?\w+|[.]\n|[^\w\s]|\s", pieces), str(name))
        weights = np.random.default_rng(7).lognormal(0, 2, (self.vocab_size, self.vocab_size))
        weights[:, 0] = 0.0  # the start of a text comes once
        self._p = weights / weights.sum(axis=1, keepdims=True)

    def distribution(self, prefix):
        return self._p[int(prefix[-1])]


def stand_in(monkeypatch):
    """Let every model but the exact ones be the stand-in, and every data set of the hub be the example's prose."""
    from wordprob.models.registry import open_model, open_tokenizer

    def model(name="smollm2-135m", **options):
        return open_model(name, **options) if str(name).startswith("exact") else Babbler(name)

    def tokenizer(name, **options):
        return open_tokenizer(name, **options) if str(name).startswith("exact") else Babbler(name).tokenizer

    monkeypatch.setattr("wordprob.scoring.loading.open_model", model)
    monkeypatch.setattr("wordprob.models.registry.open_tokenizer", tokenizer)
    rows = [{"text": line} for line in _prose(8).splitlines()]
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=lambda *_, **__: rows))


# --- files --------------------------------------------------------------------------------------------------------

STIMULI = "She saw the mark on the wall.\nShe saw the marker on the wall.\n"


def files(folder):
    """Put into a folder what the examples read; what is a user's own is made up here."""
    shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
    written = {
        "stimuli.txt": STIMULI,
        "words.txt": "\n\n".join("\n".join(line.split()) for line in STIMULI.splitlines()) + "\n",
        "lexicon.txt": "mark\nmarker\nmarket\n",
        "folds.tsv": _folds(),
        "novel.txt": _prose(),
        **dict.fromkeys(("texts.txt", "others.txt", "scored_part.txt", "other_part.txt"), _prose(8)),
    }
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copy(SMALL, folder / "brown-gpt2-small.tsv")
    shutil.copy(ROOT / "examples/study/reading_times.csv", folder / "study.csv")
    (folder / "path/to/directory").mkdir(parents=True)
    (folder / "stories15M").mkdir()
    (folder / "path/to/model.gguf").touch()
    (folder / "corpus").mkdir()
    for name in ("corpus.parquet", "corpus/part.parquet"):
        pd.DataFrame({"text": _prose(8).splitlines()}).to_parquet(folder / name)
    _scored(folder)
    _tables(folder)
    (folder / "merged").mkdir()
    shutil.copy(SMALL, folder / "merged/brown-gpt2-small.tsv")
    (folder / "folds").mkdir()
    (folder / "folds/brown.tsv").write_text(written["folds.tsv"], encoding="utf-8")


def corpora(folder, shared):
    """Put the beginnings of the paper's corpora, and MECO, into a folder; say whether they are to be had."""
    paper = shared / "data/paper_reading_times"
    if not paper.is_dir() or not (shared / "data/meco").is_dir():
        return False
    (folder / "meco").symlink_to(shared / "data/meco")
    for name, count in (("brown", 2), ("natural_stories", 2), ("provo", 8)):
        target = folder / f"corpora/texts/{name}.txt"
        target.parent.mkdir(parents=True, exist_ok=True)
        texts = (paper / f"texts/{name}.txt").read_text(encoding="utf-8").splitlines(keepends=True)
        target.write_text("".join(texts[:count]), encoding="utf-8")
        for source in paper.glob(f"merged/{name}-*.tsv"):
            rows = pd.read_csv(source, sep="\t", dtype=str, keep_default_na=False)
            kept = rows[rows["text_id"].isin(rows["text_id"].unique()[:count])]
            (folder / "corpora/merged").mkdir(exist_ok=True)
            kept.to_csv(folder / "corpora/merged" / source.name, sep="\t", index=False)
    return True


def _prose(times=1):
    return (ROOT / "examples/abstract.txt").read_text(encoding="utf-8") * times


def _folds():
    keys = [line.split("\t")[:2] for line in SMALL.read_text(encoding="utf-8").splitlines()[1:]]
    return "text_id\tword_id\tfold\n" + "".join(f"{a}\t{b}\t{n % 10 + 1}\n" for n, (a, b) in enumerate(keys))


def _scored(folder):
    """Tables that were scored before."""
    from wordprob import Scorer

    scorer = Scorer(Babbler("babbler"))
    (folder / "scored").mkdir()
    scorer.score(_prose(8).splitlines()).write(folder / "scored/part.parquet")
    for name in ("scored.tsv", "surprisal.tsv"):
        scorer.score(STIMULI.splitlines()).write(folder / name)


def _tables(folder):
    """A spreadsheet of sentences, one of words, one of tagged tokens; the words also scored."""
    items = [(n, c, f"She saw {d} mark on the wall.") for n in (1, 2, 3) for c, d in (("one", "the"), ("two", "a red"))]
    sentences = pd.DataFrame(items, columns=["item", "condition", "sentence"])
    words = sentences.assign(word=sentences["sentence"].str.split()).explode("word", ignore_index=True)
    words["region"] = np.where(words["word"] == "mark", "critical", "other")
    words["plausibility"] = words["condition"].map({"one": "plausible", "two": "implausible"})
    reading = words.drop(columns="sentence")
    cost = np.random.default_rng(3).gamma(4, 2, len(reading)).round(3)
    tagged = words.assign(token=words["word"], sentence_id=words["item"].astype(str) + words["condition"], space="yes")
    for name, frame in {
        "stimuli.csv": sentences,
        "reading.csv": reading,
        "tagged.csv": tagged[["sentence_id", "token", "space", "sentence"]],
        "scored.csv": reading.assign(text_id=tagged["sentence_id"], surprisal=cost, surprisal_naive=cost),
    }.items():
        frame.to_csv(folder / name, index=False)
    if importlib.util.find_spec("openpyxl"):
        reading.to_excel(folder / "reading.xlsx", index=False)


# --- pages --------------------------------------------------------------------------------------------------------

BLOCK = re.compile(
    r"(?P<before><!-- output [^>]*-->\n)?^```(?P<kind>\w*)(?P<title>[^\n]*)\n(?P<text>.*?)^```\n", re.M | re.S
)


class Example(NamedTuple):
    """A command or a block of Python, and what the page says it prints (nothing: it does not say)."""

    kind: str
    text: str
    output: str
    real: bool
    """Whether that is what the default model prints, and no stand-in would."""


def examples(page):
    """Return the examples of a page in their order."""
    found, last = [], 0
    for block in BLOCK.finditer(page):
        kind, text = block["kind"], block["text"]
        touching = not page[last : block.start()].strip()
        last = block.end()
        if kind == "text" and touching and found and not block["title"]:
            found[-1] = found[-1]._replace(output=text, real=bool(block["before"]))
        elif kind == "python":
            found.append(Example("python", text, "", False))
        elif kind == "":
            found += [Example("shell", line, "", False) for line in commands(text)]
    return found


def commands(text):
    """Return the lines of a block that run wordprob, continued ones joined."""
    lines = text.replace("\\\n", " ").splitlines()
    steps = [step for line in lines for step in re.sub(r"\s+#.*", "", line).split(" && ")]
    return [step.strip() for step in steps if re.search(r"(^\s*|\| *)wordprob ", step)]


def run_python(text, namespace):
    """Run a block in the page's namespace and return what it printed."""
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(text, "page", "exec"), namespace)
    except WordprobError as error:
        _clear(error)
        return run_python(text, namespace)
    return printed.getvalue()


def _clear(error):
    """Take away what an example further up has written where this one writes; raise any other error."""
    found = re.match(r"(\S+) (exists already|holds .* already|holds a run of something else)", str(error))
    if found is None:
        raise error
    shutil.rmtree(found[1]) if Path(found[1]).is_dir() else Path(found[1]).unlink()


def run_shell(line):
    """Run a line as a shell would, as far as the documentation goes: pipes, files in and out, patterns of names."""
    flow = ""
    for command, source, target in _pipeline(line):
        if source:
            flow = Path(source).read_text(encoding="utf-8")
        if command[0] == "wordprob":
            flow = _wordprob(command[1:], flow)
        elif command[0] == "cat":
            flow = "".join(Path(name).read_text(encoding="utf-8") for name in command[1:])
        elif command[0] == "echo":
            flow = " ".join(command[1:]) + "\n"
        if target:
            Path(target).write_text(flow, encoding="utf-8")
    return flow


def _pipeline(line):
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    command, ends = [], {"<": "", ">": ""}
    for token in [*lexer, "|"]:
        if token == "|":
            yield [name for word in command for name in _matching(word)], ends["<"], ends[">"]
            command, ends = [], {"<": "", ">": ""}
        elif token in ends:
            ends[token] = None
        elif None in ends.values():
            ends = {sign: token if value is None else value for sign, value in ends.items()}
        else:
            command.append(token)


def _matching(word):
    """Return the files that a pattern names, or the word itself."""
    found = sorted(map(str, Path().glob(word))) if "*" in word and not word.startswith("/") else []
    return found or [word]


def _wordprob(arguments, given):
    try:
        done = CliRunner().invoke(cli, arguments, input=given, catch_exceptions=False)
    except WordprobError as error:
        _clear(error)
        return _wordprob(arguments, given)
    assert done.exit_code == 0, f"wordprob {shlex.join(arguments)}\n{done.output}"
    return done.stdout
