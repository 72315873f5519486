"""Draw the rooms of the package and their imports: ``docs/figures/rooms.svg``.

    python docs/hooks/module_graph.py

The imports are read from the source, so the drawing must be made again when a room starts or stops importing another;
a test compares the two. An arrow that follows from others is left out: where ``cli`` imports ``runs`` and ``runs``
imports ``core``, there is no arrow from ``cli`` to ``core``.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

import grimp

PACKAGE = "wordprob"
DRAWING = Path(__file__).resolve().parents[1] / "figures/rooms.svg"

CAPTIONS = {
    "cli": "commands",
    "server": "web page, JSON",
    "studies": "whole studies",
    "runs": "corpus runs",
    "stimuli": "users' tables",
    "scoring": "texts to table",
    "covers": "sums over spellings",
    "models": "backends",
    "kernels": "fused arithmetic",
    "analysis": "statistics, figures",
    "corpora": "corpora by name",
    "render": "HTML reports",
    "sources": "streams of texts",
    "tables": "schema, files",
    "core": "words to equation",
    "options": "shared options",
    "option_checks": "values by name",
    "processes": "worker processes",
    "errors": "exceptions",
    "cache": "fetched files",
}
"""What each room holds, in a few words."""

NOT_DRAWN = ("_version", "__main__")

Imports = dict[str, set[str]]
Layer = list[str]

BOX_WIDTH = 118
BOX_HEIGHT = 42
BEND_WIDTH = 16
GAP = 14
LAYER_HEIGHT = 92
MARGIN = 12


# --- the imports ------------------------------------------------------------------------------------------------------


def room_of(module: str) -> str:
    """Return the room that a module is in: the name after the package's."""
    return module.split(".")[1]


def imports_of_rooms() -> Imports:
    """Return for each room the other rooms that its modules import when they run."""
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True, cache_dir=None)
    modules = [module for module in graph.modules if module != PACKAGE and room_of(module) not in NOT_DRAWN]
    imports: Imports = {room_of(module): set() for module in modules}
    for module in modules:
        for imported in graph.find_modules_directly_imported_by(module):
            if imported in modules:
                imports[room_of(module)].add(room_of(imported))
    for room, imported_rooms in imports.items():
        imported_rooms.discard(room)
    return imports


def reachable(imports: Imports, room: str) -> set[str]:
    """Return all rooms that a room imports, directly or through others."""
    found: set[str] = set()
    waiting = list(imports[room])
    while waiting:
        imported = waiting.pop()
        if imported not in found:
            found.add(imported)
            waiting += imports[imported]
    return found


def without_implied(imports: Imports) -> Imports:
    """Leave out an import that follows from others.

    >>> sorted(without_implied({"cli": {"runs", "core"}, "runs": {"core"}, "core": set()})["cli"])
    ['runs']
    """
    kept = {}
    for room, imported_rooms in imports.items():
        implied: set[str] = set()
        for imported in imported_rooms:
            implied |= reachable(imports, imported)
        kept[room] = imported_rooms - implied
    return kept


# --- where everything is drawn ----------------------------------------------------------------------------------------


def levels_of(imports: Imports) -> dict[str, int]:
    """Return the level of each room, 0 at the bottom: above all that it imports."""
    levels: dict[str, int] = {}

    def level(room: str) -> int:
        if room not in levels:
            levels[room] = 1 + max((level(imported) for imported in imports[room]), default=-1)
        return levels[room]

    for room in imports:
        level(room)
    for room in sorted(imports):  # a room that imports nothing is drawn just below those that import it
        importers = [importer for importer, imported_rooms in imports.items() if room in imported_rooms]
        if importers and not imports[room]:
            levels[room] = min(levels[importer] for importer in importers) - 1
    return levels


class Layout:
    """Places of boxes and arrows: rooms in layers, and a bend where an arrow passes a layer.

    Arrows join neighbouring layers only. One that goes further down is divided by bends, which are ordered and placed
    like rooms, so that no arrow runs through a box.
    """

    def __init__(self, imports: Imports) -> None:
        levels = levels_of(imports)
        self.layers: list[Layer] = [[] for _ in range(max(levels.values()) + 1)]
        for room in sorted(levels):
            self.layers[levels[room]].append(room)
        self.paths: list[list[str]] = []
        for room in sorted(imports):
            for imported in sorted(imports[room]):
                self.paths.append(self._bend(room, imported, levels))
        self.neighbours = self._neighbours()
        self._order()
        self.x = self._place()

    def _bend(self, room: str, imported: str, levels: dict[str, int]) -> list[str]:
        bends = []
        for level in range(levels[room] - 1, levels[imported], -1):
            bend = f"{room}>{imported}@{level}"
            self.layers[level].append(bend)
            bends.append(bend)
        return [room, *bends, imported]

    def _neighbours(self) -> dict[str, list[str]]:
        neighbours: dict[str, list[str]] = {name: [] for layer in self.layers for name in layer}
        for path in self.paths:
            for upper, lower in pairwise(path):
                neighbours[upper].append(lower)
                neighbours[lower].append(upper)
        return neighbours

    def _order(self) -> None:
        """Sort each layer by where its neighbours are, down and up several times, so that few arrows cross."""
        for sweep in range(24):
            positions = {name: i / len(layer) for layer in self.layers for i, name in enumerate(layer)}
            layer = self.layers[sweep % len(self.layers)]
            means = {name: self._mean(name, positions) for name in layer}
            layer.sort(key=lambda name, means=means: (means[name], name))

    def _mean(self, name: str, positions: dict[str, float]) -> float:
        places = [positions[neighbour] for neighbour in self.neighbours[name]]
        return sum(places) / len(places) if places else positions[name]

    def _place(self) -> dict[str, float]:
        """Return the centre of everything along a layer: near its neighbours, without overlaps."""
        x: dict[str, float] = {}
        for layer in self.layers:
            x.update(_spread(layer, dict.fromkeys(layer, 0.0)))
        for sweep in range(40):
            layer = self.layers[sweep % len(self.layers)]
            x.update(_spread(layer, {name: self._mean(name, x) for name in layer}))
        left = min(x[name] - _width(name) / 2 for name in x)
        return {name: round(place - left + MARGIN) for name, place in x.items()}

    def y(self, name: str) -> int:
        """Return the centre of something across the layers."""
        level = next(number for number, layer in enumerate(self.layers) if name in layer)
        return MARGIN + BOX_HEIGHT // 2 + LAYER_HEIGHT * (len(self.layers) - 1 - level)


def _width(name: str) -> int:
    return BEND_WIDTH if "@" in name else BOX_WIDTH


def _spread(layer: Layer, wanted: dict[str, float]) -> dict[str, float]:
    """Move what overlaps apart, in the order of the layer, and keep the middle of it all where it was wanted."""
    places: dict[str, float] = {}
    edge = float("-inf")
    for name in layer:
        places[name] = max(wanted[name], edge + _width(name) / 2)
        edge = places[name] + _width(name) / 2 + GAP
    shift = (sum(wanted.values()) - sum(places.values())) / len(layer)
    return {name: place + shift for name, place in places.items()}


# --- the drawing ------------------------------------------------------------------------------------------------------


def draw(imports: Imports) -> str:
    """Return the drawing as SVG."""
    missing = sorted(set(imports) - set(CAPTIONS))
    if missing:
        raise ValueError(f"{', '.join(missing)}: new rooms; add a caption for each in docs/hooks/module_graph.py.")
    layout = Layout(without_implied(imports))
    width = max(layout.x[name] + _width(name) // 2 for name in layout.x) + MARGIN
    height = LAYER_HEIGHT * (len(layout.layers) - 1) + BOX_HEIGHT + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" text-anchor="middle">',
        "<title>The rooms of wordprob, and which imports which</title>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#78909c"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    lines += [_arrow(layout, path) for path in layout.paths]
    for layer in reversed(layout.layers):
        lines += [_box(layout, name) for name in layer if "@" not in name]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _arrow(layout: Layout, path: list[str]) -> str:
    points = [(layout.x[name], layout.y(name)) for name in path]
    x, y = points[0]
    y += BOX_HEIGHT // 2
    curve = f"M{x} {y}"
    for name, (next_x, next_y) in zip(path[1:], points[1:], strict=True):
        end = next_y - BOX_HEIGHT // 2
        middle = (y + end) // 2
        curve += f"C{x} {middle} {next_x} {middle} {next_x} {end}"
        x, y = next_x, end
        if "@" in name:  # straight down past the boxes of this layer
            y = next_y + BOX_HEIGHT // 2
            curve += f"V{y}"
    return f'<path d="{curve}" fill="none" stroke="#78909c" marker-end="url(#head)"/>'


def _box(layout: Layout, room: str) -> str:
    x = layout.x[room]
    y = layout.y(room)
    left = x - BOX_WIDTH // 2
    top = y - BOX_HEIGHT // 2
    return (
        f'<rect x="{left}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" fill="#e0f2f1" stroke="#00796b"/>'
        f'<text x="{x}" y="{y - 3}" font-size="14" font-weight="600" fill="#263238">{escape(room)}</text>'
        f'<text x="{x}" y="{y + 13}" font-size="11" fill="#455a64">{escape(CAPTIONS[room])}</text>'
    )


def main() -> None:
    """Write the drawing."""
    DRAWING.write_text(draw(imports_of_rooms()), encoding="utf-8")


if __name__ == "__main__":
    main()
