"""What the site generates: the reference of the commands, the public names, the changes, the guide for contributors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = "<!-- public names -->"


def on_config(config: Any) -> Any:
    """Leave pages that do not exist out of the navigation."""
    config.nav = _present(config.nav, Path(config.docs_dir))
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for name, make in MADE.items():
        files.append(File.generated(config, name, content=make()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put a directive for every public name where the page asks for them."""
    return markdown.replace(PUBLIC, "\n\n".join(f"::: wordprob.{name}" for name in public_names()))


def on_page_content(html: str, **_: Any) -> str:
    """Drop the roles of docstrings (:meth: and the like), which only Sphinx knows."""
    return re.sub(r":(?:class|func|meth|mod):(?=<code>)", "", html)


def public_names() -> list[str]:
    """Return the names that ``import wordprob`` offers, functions first."""
    import wordprob

    return sorted((n for n in wordprob.__all__ if not n.startswith("_")), key=lambda n: (n[0].isupper(), n))


def _present(nav: list[Any], folder: Path) -> list[Any]:
    """Return a navigation without the pages that are neither written nor generated."""
    kept = []
    for entry in nav:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            kept.append({title: _present(target, folder)})
        elif target in MADE or (folder / target).is_file():
            kept.append(entry)
    return kept


def changes_page() -> str:
    """Return the changelog."""
    return _page_from_root("CHANGELOG.md")


def contributing_page() -> str:
    """Return the guide for contributors."""
    return _page_from_root("CONTRIBUTING.md")


def _page_from_root(name: str) -> str:
    """Return a page that is not in docs/, with its links as the site has them."""
    page = (ROOT / name).read_text(encoding="utf-8")
    return page.replace("](docs/", "](")


# --- commands -----------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """Return a page with every command: what it does, its examples, its options."""
    from wordprob.cli import COMMANDS, cli

    lines = ["# Commands", "", "Generated from the commands; `wordprob COMMAND --help` shows the same.", ""]
    lines += ["| command | |", "|---|---|"]
    lines += [f"| [`wordprob {name}`](#wordprob-{name}) | {line} |" for name, (_, line) in COMMANDS.items()]
    for name in COMMANDS:
        with click.Context(cli, info_name="wordprob") as parent:
            command = cli.get_command(parent, name)
            lines += ["", *_command(command, f"wordprob {name}", parent)]
    return "\n".join(lines) + "\n"


def _command(command: click.Command, path: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=path.split()[-1], parent=parent)
    yield from (f"## `{path}` {{ #{path.replace(' ', '-')} }}", "", *_prose(command.help or ""), "")
    yield from ("```", f"{path} {' '.join(command.collect_usage_pieces(context))}", "```", "")
    rows = [
        _row(option, context) for option in command.params if isinstance(option, click.Option) and not option.hidden
    ]
    yield from ("| option | | default |", "|---|---|---|", *rows) if rows else ()
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from ("", *_command(command.get_command(context, name), f"{path} {name}", context))


def _prose(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring; those that click must not wrap become blocks of code."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if part.startswith("\b"):
            first, *rest = part.removeprefix("\b").strip("\n").splitlines()
            yield from (first, "", "```", *(line.removeprefix("  ") for line in rest), "```", "")
        else:
            yield from (_plain(" ".join(part.split())), "")


def _row(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in sorted((*option.opts, *option.secondary_opts), key=len))
    taken = "" if option.is_flag else f" *{_plain(option.make_metavar(context))}*"
    often = " May be repeated." if option.multiple and "repeated" not in (option.help or "") else ""
    given = option.to_info_dict()["default"]
    default = "" if option.is_flag or option.multiple or given in (None, "") else f"`{given}`"
    return f"| {names}{taken} | {_plain(option.help or '')}{often} | {'required' if option.required else default} |"


def _plain(text: str) -> str:
    """Escape the characters that Markdown would interpret."""
    return re.sub(r"([\\*_<>\[\]|`])", r"\\\1", text)


MADE = {"cli.md": commands_page, "changes.md": changes_page, "contributing.md": contributing_page}
"""Pages that are generated, and the functions that return them."""
