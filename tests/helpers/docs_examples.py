"""The examples of the documentation, and what they need to run quickly: the files they name, and a model in no time."""

from __future__ import annotations

import contextlib
import functools
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

from random_lm import RandomLM
from wordprob.cli import cli
from wordprob.errors import WordprobError
from wordprob.models import exact

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests/analysis/r/small.tsv"

# --- a model ------------------------------------------------------------------------------------------------------


@functools.cache
def random_model(name):
    """Return the model that is used instead of the one with this name; no text is impossible under it."""
    letters = string.ascii_letters + string.digits
    pieces = [*string.printable, *"éïëñ“”‘’–—…␣", *(f" {c}" for c in letters), " the", "the", "ing", "er", ".\n"]
    model = RandomLM(exact.ToyTokenizer(r" ?\w+|[.]\n|[^\w\s]|\s", pieces), max_tokens=512)
    model.metadata = {"model": name, "revision": "", "dtype": "float64"}
    return model


def replace_models(monkeypatch):
    """Use :class:`RandomLM` for every model except the exact ones, and the example's prose for every hub data set."""
    from wordprob.models.registry import open_model, open_tokenizer

    def model(chosen="smollm2-135m", **options):
        name = str(getattr(chosen, "model", chosen))  # a name, or options with one
        return open_model(chosen, **options) if name.startswith("exact") else random_model(name)

    def tokenizer(chosen, **options):
        name = str(getattr(chosen, "model", chosen))
        return open_tokenizer(chosen, **options) if name.startswith("exact") else random_model(name).tokenizer

    monkeypatch.setattr("wordprob.scoring.loading.open_model", model)
    monkeypatch.setattr("wordprob.models.registry.open_tokenizer", tokenizer)
    rows = [{"text": line} for line in _prose(8).splitlines()]
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=lambda *_, **__: rows))


# --- files --------------------------------------------------------------------------------------------------------

STIMULI = "She saw the mark on the wall.\nShe saw the marker on the wall.\n"


def files(folder):
    """Write the files that the examples read into a folder; files of users are made up."""
    shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
    written = {
        "stimuli.txt": STIMULI,
        "words.txt": "\n\n".join("\n".join(line.split()) for line in STIMULI.splitlines()) + "\n",
        "lexicon.txt": "mark\nmarker\nmarket\n",
        "items.csv": "item,sentence_start\n1,She saw the\n2,She went to the\n",
        "folds.tsv": _folds(),
        "novel.txt": _prose(),
        "story.txt": _prose(8),
        **dict.fromkeys(("texts.txt", "others.txt", "scored_part.txt", "other_part.txt"), _prose(8)),
    }
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copy(SMALL, folder / "brown-gpt2-small.tsv")
    shutil.copy(ROOT / "examples/study/reading_times.csv", folder / "study.csv")
    for model in ("path/to/directory", "stories15M"):
        (folder / model).mkdir(parents=True)
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
    """Write the beginnings of the paper's corpora, and MECO, into a folder; return False if they are not available."""
    paper = shared / "data/paper_reading_times"
    if not paper.is_dir() or not (shared / "data/meco").is_dir():
        return False
    (folder / "meco").symlink_to(shared / "data/meco")
    for name, count in (("brown", 1), ("natural_stories", 1), ("provo", 8)):
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
    """Write tables that have been scored."""
    from wordprob import Scorer

    scorer = Scorer(random_model("random"))
    (folder / "scored").mkdir()
    scorer.score(_prose(8).splitlines()).write(folder / "scored/part.parquet")
    for name in ("scored.tsv", "surprisal.tsv"):
        scorer.score(STIMULI.splitlines()).write(folder / name)


def _design():
    """Return scored words of a 2×2 design, with made-up surprisals."""
    design = pd.read_csv(ROOT / "examples/design.csv")
    design = design.assign(region=design["region"].replace("reflexive", "critical"))
    design = design.rename(columns={"distance": "number"})
    text_ids = design.groupby(["item", "gender", "number"], sort=False).ngroup()
    cost = np.random.default_rng(5).gamma(4, 2, len(design)).round(3)
    return design.assign(text_id=text_ids, surprisal=cost, surprisal_naive=cost)


def _tables(folder):
    """Write a table of sentences, one of words, one of tagged tokens, and the words with surprisals."""
    items = [(n, c, f"She saw {d} mark on the wall.") for n in (1, 2, 3) for c, d in (("one", "the"), ("two", "a red"))]
    sentences = pd.DataFrame(items, columns=["item", "condition", "sentence"])
    words = sentences.assign(word=sentences["sentence"].str.split()).explode("word", ignore_index=True)
    words["region"] = np.where(words["word"] == "mark", "critical", "other")
    words["plausibility"] = words["condition"].map({"one": "plausible", "two": "implausible"})
    reading = words.drop(columns="sentence")
    cost = np.random.default_rng(3).gamma(4, 2, len(reading)).round(3)
    tagged = words.assign(token=words["word"], sentence_id=words["item"].astype(str) + words["condition"], space="yes")
    pairs = pd.read_csv(ROOT / "examples/pairs.csv")
    blimp = pairs.rename(columns={"good": "sentence_good", "bad": "sentence_bad"})
    for name in ("blimp.jsonl", "anaphor_number_agreement.jsonl"):
        blimp.to_json(folder / name, orient="records", lines=True)
    for name, frame in {
        "stimuli.csv": sentences.assign(target="mark"),
        "pairs.csv": pairs,
        "design.csv": _design(),
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
    """A command, a block of Python or a file, and the output that the page shows ("" if none)."""

    kind: str
    """``shell``, ``python``, or ``file`` for a block of Python with a title: the name of the file."""
    text: str
    output: str = ""
    by_default_model: bool = False
    """True if the output is that of the default model, which :class:`RandomLM` does not give."""
    file_name: str = ""


def examples(page):
    """Return the examples of a page in their order."""
    found = []
    end_of_last = 0
    for block in BLOCK.finditer(page):
        follows_example = not page[end_of_last : block.start()].strip()
        end_of_last = block.end()
        kind, text, title = block["kind"], block["text"], block["title"].strip()
        if kind == "text" and follows_example and found and not title:
            found[-1] = found[-1]._replace(output=text, by_default_model=bool(block["before"]))
        elif kind == "python" and title:
            found.append(Example("file", text, file_name=re.fullmatch(r'title="(.+)"', title)[1]))
        elif kind == "python":
            found.append(Example("python", text))
        elif kind == "":
            found += [Example("shell", line) for line in commands(text)]
    return found


def commands(text):
    """Return the lines of a block that run wordprob; lines that end in a backslash are joined to the next."""
    lines = text.replace("\\\n", " ").splitlines()
    steps = [step for line in lines for step in re.sub(r"\s+#.*", "", line).split(" && ")]
    return [step.strip() for step in steps if re.search(r"(^\s*|\| *)wordprob ", step)]


def run_python(text, namespace):
    """Run a block in the namespace of the page and return what it printed."""
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(text, "page", "exec"), namespace)
    except WordprobError as error:
        _remove_existing_output(error)
        return run_python(text, namespace)
    return printed.getvalue()


def _remove_existing_output(error):
    """Remove the output of an earlier example that is in the way of this one; raise any other error."""
    exists = re.match(r"(\S+) (exists already|holds .* already|holds a run of something else)", str(error))
    if exists is None:
        raise error
    path = Path(exists[1])
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def run_shell(line):
    """Run a line as a shell would, with pipes, redirections and patterns of file names; return its output."""
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
    """Yield each command of a pipeline as its arguments, the file it reads and the file it writes."""
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
    """Return the files that match a pattern, or the word itself."""
    if "*" not in word or word.startswith("/"):
        return [word]
    return sorted(map(str, Path().glob(word))) or [word]


def _wordprob(arguments, standard_input):
    try:
        result = CliRunner().invoke(cli, arguments, input=standard_input, catch_exceptions=False)
    except WordprobError as error:
        _remove_existing_output(error)
        return _wordprob(arguments, standard_input)
    assert result.exit_code == 0, f"wordprob {shlex.join(arguments)}\n{result.output}"
    return result.stdout
