"""The documentation is complete and up to date: everything is described, its examples run, and the site builds."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest

import docs_examples
from conftest import SHARED
from docs_examples import ROOT
from wordprob.analysis.perplexity import PERPLEXITY_COLUMNS
from wordprob.analysis.study_table import STUDY_TABLE_COLUMNS
from wordprob.cli import COMMANDS, cli
from wordprob.tables.predictors import PREDICTOR_COLUMNS
from wordprob.tables.schema import COLUMNS, EXTRAS, SERVER_BOUNDS, TEXT_COLUMNS, estimate_name

PAGES = {
    page.name: page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NOT_RUN = {
    "wordprob serve": "it runs until it is stopped; the tests of the server start and stop it",
    "--engine ray": "it needs a cluster; the tests of runs start one",
    "--gpus-per-worker": "it needs GPUs",
}
"""Examples that cannot run in a test, by what is in them, and why."""


def command(name: str) -> click.Command:
    loaded = cli.get_command(click.Context(cli), name)
    assert loaded is not None
    return loaded


def subcommands(group: click.Command, path: str):
    """Yield a command, and the commands in it if it is a group."""
    yield path, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            yield from subcommands(group.get_command(context, name), f"{path} {name}")


# --- everything is described ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_explained_on_a_page_and_shows_examples(name):
    assert any(f"wordprob {name}" in page for page in PAGES.values())
    assert docs_examples.commands(command(name).help or ""), "its --help has no examples"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does(name):
    for path, described in subcommands(command(name), f"wordprob {name}"):
        options = [option for option in described.params if isinstance(option, click.Option)]
        assert [option.opts for option in options if not option.help] == [], path


@pytest.mark.parametrize("name", COMMANDS)
def test_the_generated_reference_has_every_command_and_option(name, hooks):
    page = hooks.commands_page()
    for path, described in subcommands(command(name), f"wordprob {name}"):
        section = page.split(f"## `{path}` {{", 1)[1].split("\n## ")[0]
        for option in described.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert f"`{max(option.opts, key=len)}`" in section, f"{path} {option.opts}"


@pytest.mark.parametrize(
    "column",
    [
        *COLUMNS,
        *EXTRAS,
        *map(estimate_name, SERVER_BOUNDS),
        *TEXT_COLUMNS,
        *PREDICTOR_COLUMNS,
        *STUDY_TABLE_COLUMNS,
        *PERPLEXITY_COLUMNS,
    ],
)
def test_every_column_is_documented(column):
    assert f"| `{column}` |" in PAGES["reference.md"]


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [name for name in PAGES if name != "README.md" and f": {name}\n" not in navigation] == []


def test_options_in_the_docs_exist():
    known = {
        option
        for name in COMMANDS
        for _, described in subcommands(command(name), name)
        for parameter in described.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help", "--version"}
    for name, page in PAGES.items():
        for example in docs_examples.examples(page):
            if example.kind == "shell":
                used = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", example.text.split("#")[0]))
                assert used <= known, f"{name}: {example.text}"


def test_links_between_pages_have_a_target(hooks):
    generated = {f"docs/{name}" for name in hooks.MADE}
    for name, page in PAGES.items():
        folder = ROOT if name == "README.md" else ROOT / "docs"
        for target in re.findall(r"\]\(([^)#:]+\.(?:md|png|svg))(?:#[^)]*)?\)", page):
            path = (folder / target).resolve()
            assert path.exists() or path.relative_to(ROOT).as_posix() in generated, f"{name}: {target}"


# --- every example runs -------------------------------------------------------------------------------------------


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    """A folder with the files that the examples name, and a quick model in place of every real one."""
    docs_examples.files(tmp_path)
    docs_examples.replace_models(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")


def run_all(examples):
    """Run examples in their order; skip, in the end, with a list of those that lack data."""
    namespace = {}
    without_data = []
    for example in examples:
        if example.kind == "python":
            printed = docs_examples.run_python(example.text, namespace)
        elif any(text in example.text for text in NOT_RUN):
            continue
        elif (line := with_data(example.text)) is None:
            without_data.append(example.text)
            continue
        else:
            printed = docs_examples.run_shell(line)
        if example.output and not example.by_default_model:
            assert rows(printed) == rows(example.output), example.text
    if without_data:
        pytest.skip(f"all others ran; these need corpora that are not here: {'; '.join(without_data)}")


def with_data(line):
    """Let an example read local corpora, so that nothing is fetched; return None if there are none."""
    named = set(re.findall(r"--corpus (\S+)", line))
    if not named:
        return line
    if not named <= {"brown", "natural_stories", "provo", "paper", "meco"}:
        return None
    if not Path("corpora").is_dir() and not docs_examples.corpora(Path(), SHARED):
        return None
    return line if "--data-dir" in line else f"{line} --data-dir corpora"


def rows(text):
    """Return the words of each line. The sign of a zero is dropped: it depends on rounding error."""
    return [re.sub(r"-(?=0\.0+\b)", "", line).split() for line in text.strip("\n").splitlines()]


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize("name", PAGES)
def test_the_examples_of_a_page_run(name):
    run_all(docs_examples.examples(PAGES[name]))


@pytest.mark.usefixtures("surroundings")
def test_the_examples_in_the_help_run():
    """All in one folder and in the order of the commands: some read what others wrote."""
    helps = [described.help or "" for name in COMMANDS for _, described in subcommands(command(name), name)]
    run_all([docs_examples.Example("shell", line) for text in helps for line in docs_examples.commands(text)])


def test_an_example_with_another_output_than_shown_fails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "```python\nprint(1)\n```\n\n```text\n2\n```\n\n```\nwordprob score --nonsense\n```\n"
    first, second = docs_examples.examples(page)
    with pytest.raises(AssertionError):
        run_all([first])
    with pytest.raises(AssertionError, match="--nonsense"):
        run_all([second])


def test_the_examples_for_contributors_run(tmp_path):
    """In a new process: they register things."""
    examples = docs_examples.examples(CONTRIBUTING)
    for example in examples:
        if example.kind == "file":
            (tmp_path / example.file_name).write_text(example.text, encoding="utf-8")
    code = "\n".join(example.text for example in examples if example.kind == "python")
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout) == rows("".join(example.output for example in examples))


# --- R ------------------------------------------------------------------------------------------------------------


def rscript(*arguments):
    if shutil.which("Rscript") is None:
        pytest.skip("needs Rscript, which is not installed")
    surroundings = {
        **os.environ,
        "RETICULATE_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(["Rscript", *map(str, arguments)], capture_output=True, text=True, env=surroundings)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("surroundings")
def test_the_r_script_reads_our_file_and_fits_a_model():
    docs_examples.run_shell("wordprob score examples/study/texts.txt -o reading.tsv")
    printed = rscript("examples/surprisal.R", "reading.tsv", "examples/study/reading_times.csv")
    assert re.search(r"^surprisal_before +-?\d", printed, re.M)
    assert "Analysis of Variance Table" in printed


def test_the_reticulate_script_runs():
    if "TRUE" not in rscript("-e", 'cat(requireNamespace("reticulate", quietly = TRUE))'):
        pytest.skip("needs the R package reticulate, which is not installed")
    printed = rscript(ROOT / "examples/reticulate.R", "exact:bow")
    assert re.search(r"0 +mark +1\.3219\d* +0\.0", printed)


# --- how the code is organised ------------------------------------------------------------------------------------


def test_the_drawing_of_the_rooms_shows_the_imports_as_they_are():
    graph = hook("module_graph")
    assert graph.DRAWING.read_text(encoding="utf-8") == graph.draw(graph.imports_of_rooms()), (
        "imports between rooms have changed: python docs/hooks/module_graph.py draws them again"
    )


def test_every_room_is_described_for_contributors():
    rooms_column = re.findall(r"^\| (`.+?`) \|", CONTRIBUTING, re.M)
    described = re.findall(r"`(\w+)`", " ".join(rooms_column))
    graph = hook("module_graph")
    assert sorted(described) == sorted(graph.imports_of_rooms()) == sorted(graph.CAPTIONS)


def named_in_architecture():
    """Return the names in code on the page that have a module of the package in front."""
    names = re.findall(r"`([a-z_]+(?:\.\w+)+)`", PAGES["architecture.md"])
    return [name for name in dict.fromkeys(names) if (ROOT / "src/wordprob" / name.split(".")[0]).is_dir()]


@pytest.mark.parametrize("name", named_in_architecture())
def test_what_the_path_of_a_text_names_exists(name):
    target = pkgutil.resolve_name(f"wordprob.{name}")
    assert target.__doc__


# --- the site -----------------------------------------------------------------------------------------------------


def hook(name):
    """Import a module from docs/hooks."""
    spec = importlib.util.spec_from_file_location(f"hook_{name}", ROOT / f"docs/hooks/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def hooks():
    return hook("site")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, env=surroundings)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


class PageParser(HTMLParser):
    """Collects what a browser would fetch for a page, and its anchors and links."""

    def __init__(self):
        super().__init__()
        self.fetched, self.anchors, self.links = [], set(), []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors.add(given.get("id"))
        if tag == "a":
            self.links.append(given.get("href") or "")
        elif tag == "link" and given.get("rel") in ("canonical", "prev", "next"):
            return
        else:
            self.fetched += [given[name] for name in ("src", "href", "srcset", "data", "action") if given.get(name)]
            self.fetched += re.findall(r"url\(([^)]*)\)", given.get("style") or "")


def read(page):
    parser = PageParser()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def test_the_site_has_every_page(site, hooks):
    built = {page.name for page in site.glob("*.html")}
    assert {f"{name.removesuffix('.md')}.html" for name in (*PAGES, *hooks.MADE) if name != "README.md"} <= built


def test_the_site_loads_nothing_from_outside(site):
    for page in site.rglob("*.html"):
        outside = [url for url in read(page).fetched if re.match(r"\s*(https?:)?//", url)]
        assert outside == [], page.name
    for sheet in site.rglob("*.css"):
        urls = re.findall(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')]+)", sheet.read_text(encoding="utf-8"))
        assert urls == [], sheet.name


def test_what_the_site_loads_exists(site):
    for page in site.glob("*.html"):
        for url in read(page).fetched:
            path = url.split("?")[0].split("#")[0]
            if path and not path.startswith(("data:", "/")):
                assert (page.parent / path).exists(), f"{page.name}: {url}"


def test_the_reference_pages_have_the_commands_and_the_public_names(site):
    import wordprob

    commands, names = read(site / "cli.html").anchors, read(site / "api.html").anchors
    assert {f"wordprob-{name}" for name in COMMANDS} <= commands
    assert {f"wordprob.{name}" for name in wordprob.__all__ if not name.startswith("_")} <= names
