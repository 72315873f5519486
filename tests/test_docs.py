"""The docs cannot go stale: what they name exists, what exists is named, their examples run, and the site builds."""

from __future__ import annotations

import importlib.util
import os
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
from wordprob.cli import COMMANDS, cli
from wordprob.tables.schema import COLUMNS, EXTRAS, TEXT_COLUMNS

PAGES = {
    page.name: page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
NOT_RUN = {
    "wordprob serve": "it runs until it is stopped; tests of its own start and stop it",
    "--engine ray": "it needs a cluster; tests of its own start one",
    "--gpus-per-worker": "it needs GPUs",
}
"""Examples that cannot run here, by what is in them, and why."""


def command(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def leaves(found: click.Command, path: str):
    """Yield a command, and the commands in it if it is a group."""
    yield path, found
    if isinstance(found, click.Group):
        context = click.Context(found)
        for name in found.list_commands(context):
            yield from leaves(found.get_command(context, name), f"{path} {name}")


# --- nothing is left out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_taught_on_a_page_and_shows_examples(name):
    assert any(f"wordprob {name}" in page for page in PAGES.values())
    assert docs_examples.commands(command(name).help or ""), "its --help has no examples"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does(name):
    for path, found in leaves(command(name), f"wordprob {name}"):
        mute = [option.opts for option in found.params if isinstance(option, click.Option) and not option.help]
        assert not mute, path


@pytest.mark.parametrize("name", COMMANDS)
def test_the_generated_reference_has_every_command_and_option(name, hooks):
    page = hooks.commands_page()
    for path, found in leaves(command(name), f"wordprob {name}"):
        section = page.split(f"## `{path}` {{", 1)[1].split("\n## ")[0]
        for option in found.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert f"`{max(option.opts, key=len)}`" in section, f"{path} {option.opts}"


@pytest.mark.parametrize("column", [*COLUMNS, *EXTRAS, *TEXT_COLUMNS])
def test_every_column_is_documented(column):
    assert f"| `{column}` |" in PAGES["reference.md"]


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [name for name in PAGES if name != "README.md" and f": {name}\n" not in navigation] == []


def test_options_in_the_docs_exist():
    known = {
        option
        for name in COMMANDS
        for _, found in leaves(command(name), name)
        for parameter in found.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help", "--version"}
    for name, page in PAGES.items():
        for example in docs_examples.examples(page):
            if example.kind == "shell":
                used = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", example.text.split("#")[0]))
                assert used <= known, f"{name}: {example.text}"


def test_links_between_pages_lead_somewhere(hooks):
    made = {f"docs/{name}" for name in hooks.MADE}
    for name, page in PAGES.items():
        folder = ROOT if name == "README.md" else ROOT / "docs"
        for target in re.findall(r"\]\(([^)#:]+\.(?:md|png))(?:#[^)]*)?\)", page):
            path = (folder / target).resolve()
            assert path.exists() or path.relative_to(ROOT).as_posix() in made, f"{name}: {target}"


# --- every example runs -------------------------------------------------------------------------------------------


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    """A folder with the files that examples speak of, and an instant model in place of every real one."""
    docs_examples.files(tmp_path)
    docs_examples.stand_in(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")


def run_all(found):
    """Run examples in their order; skip, in the end, by the names of those that lack data."""
    namespace, left = {}, []
    for example in found:
        if example.kind == "python":
            printed = docs_examples.run_python(example.text, namespace)
        elif any(part in example.text for part in NOT_RUN):
            continue
        elif (line := with_data(example.text)) is None:
            left.append(example.text)
            continue
        else:
            printed = docs_examples.run_shell(line)
        if example.output and not example.real:
            assert lines(printed) == lines(example.output), example.text
    if left:
        pytest.skip(f"all others ran; these need corpora that are not here: {'; '.join(left)}")


def with_data(line):
    """Point an example at corpora that are here, so that nothing is fetched; None if they are not."""
    named = set(re.findall(r"--corpus (\S+)", line))
    if not named:
        return line
    if not named <= {"brown", "natural_stories", "provo", "paper", "meco"}:
        return None
    if not Path("corpora").is_dir() and not docs_examples.corpora(Path(), SHARED):
        return None
    return line if "--data-dir" in line else f"{line} --data-dir corpora"


def lines(text):
    """Return the words of each line; a zero has no sign, whichever side of it rounding error lies."""
    return [re.sub(r"-(?=0\.0+\b)", "", line).split() for line in text.strip("\n").splitlines()]


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize("name", PAGES)
def test_the_examples_of_a_page_run(name):
    run_all(docs_examples.examples(PAGES[name]))


@pytest.mark.usefixtures("surroundings")
def test_the_examples_in_the_help_run():
    """All in one folder and in the order of the commands: some read what others wrote."""
    helps = [found.help or "" for name in COMMANDS for _, found in leaves(command(name), name)]
    run_all(
        [docs_examples.Example("shell", line, "", False) for text in helps for line in docs_examples.commands(text)]
    )


def test_an_example_that_prints_something_else_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "```python\nprint(1)\n```\n\n```text\n2\n```\n\n```\nwordprob score --nonsense\n```\n"
    first, second = docs_examples.examples(page)
    with pytest.raises(AssertionError):
        run_all([first])
    with pytest.raises(AssertionError, match="--nonsense"):
        run_all([second])


# --- R ------------------------------------------------------------------------------------------------------------


def rscript(*arguments):
    if shutil.which("Rscript") is None:
        pytest.skip("needs Rscript, which is not here")
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
    docs_examples.run_shell("wordprob score examples/study/texts.txt -o surprisal.tsv")
    printed = rscript("examples/surprisal.R", "surprisal.tsv", "examples/study/reading_times.csv")
    assert re.search(r"^surprisal_before +-?\d", printed, re.M)
    assert "Analysis of Variance Table" in printed


def test_the_reticulate_script_runs():
    if "TRUE" not in rscript("-e", 'cat(requireNamespace("reticulate", quietly = TRUE))'):
        pytest.skip("needs the R package reticulate, which is not here")
    printed = rscript(ROOT / "examples/reticulate.R", "exact:bow")
    assert re.search(r"0 +mark +1\.3219\d* +0\.0", printed)


# --- the site -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs/hooks/site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, env=surroundings)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


class Loaded(HTMLParser):
    """Collects what a browser would fetch for a page, and the anchors in it."""

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
    parser = Loaded()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def test_the_site_builds_strictly_with_every_page(site, hooks):
    made = {page.name for page in site.glob("*.html")}
    assert {f"{name.removesuffix('.md')}.html" for name in (*PAGES, *hooks.MADE) if name != "README.md"} <= made


def test_the_site_loads_nothing_from_outside(site):
    for page in site.rglob("*.html"):
        outside = [url for url in read(page).fetched if re.match(r"\s*(https?:)?//", url)]
        assert outside == [], page.name
    for sheet in site.rglob("*.css"):
        urls = re.findall(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')]+)", sheet.read_text(encoding="utf-8"))
        assert urls == [], sheet.name


def test_what_the_site_loads_is_there(site):
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
