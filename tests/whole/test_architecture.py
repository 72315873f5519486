"""What the whole package keeps to: no import cycles, no name with two meanings, no import upwards by a string.

The layers of the rooms themselves are in ``[tool.importlinter]`` of pyproject.toml.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "wordprob"

# What is still open. Each of these must go; a name that no longer belongs here makes the test fail too.
OPEN_CYCLES: set[str] = set()
OPEN_CLASS_NAMES: set[str] = set()
OPEN_MODULE_NAMES: set[str] = set()

SHARED_ROLES = {"load", "model", "tokenizer"}
"""Modules that every backend has under the same name, because they do the same for it."""


def modules() -> dict[str, ast.Module]:
    """Return the syntax trees of the package by the modules' names, without ``wordprob`` before them."""
    trees = {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        trees[name] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


def repeated(places: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: found for name, found in places.items() if len(found) > 1}


# --- cycles -----------------------------------------------------------------------------------------------------------


def imports() -> dict[str, set[str]]:
    """Return what each module imports, also in functions and for the sake of types."""
    graph = grimp.build_graph("wordprob", cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def in_cycles(graph: dict[str, set[str]]) -> set[str]:
    """Return the modules that import themselves by way of others."""
    return {module for module in graph if module in reachable(graph, module)}


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    assert {module.removeprefix("wordprob.") for module in in_cycles(imports())} == OPEN_CYCLES


def test_a_cycle_is_found() -> None:
    assert in_cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {"b", "c"}


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_class_name_means_one_thing() -> None:
    places = defaultdict(list)
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    assert set(repeated(places)) == OPEN_CLASS_NAMES, repeated(places)


def test_a_module_name_means_one_thing() -> None:
    """A command may have the name of what it runs, and the main module of a room that of the room."""
    places = defaultdict(list)
    for module in modules():
        *rooms, name = module.split(".")
        is_backend = rooms[:1] == ["models"] and len(rooms) > 1
        if rooms[:1] != ["cli"] and rooms[-1:] != [name] and not (is_backend and name in SHARED_ROLES):
            places[name].append(module)
    assert set(repeated(places)) == OPEN_MODULE_NAMES, repeated(places)


# --- imports by a string ----------------------------------------------------------------------------------------------


def layers() -> dict[str, int]:
    """Return the layer of each room, the lowest being 0."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    [rooms] = [contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers"]
    return {room: n for n, layer in enumerate(reversed(rooms)) for room in re.findall(r"wordprob\.(\w+)", layer)}


def named_modules(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Yield the modules that strings of a module name, as ``wordprob.room.module`` or with ``:function`` after it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = re.fullmatch(r"wordprob\.([\w.]+)(:\w+)?", node.value)
            if match and match[1] in known:
                yield match[1]


def test_no_string_names_a_module_of_a_higher_room() -> None:
    layer = layers()
    trees = modules()
    upward = set()
    for module, tree in trees.items():
        room = module.split(".")[0]
        for named in named_modules(tree, set(trees)):
            if room in layer and layer[named.split(".")[0]] > layer[room]:
                upward.add((module, named))
    assert not upward


@pytest.mark.parametrize("value", ["wordprob.cli.run", "wordprob.cli.run:run"])
def test_a_module_in_a_string_is_found(value: str) -> None:
    assert list(named_modules(ast.parse(f"x = {value!r}"), {"cli.run"})) == ["cli.run"]
