"""The spellings of a word drawn as a tree: every branch is a token, and its width the share of the probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SPELLINGS = 12
"""Spellings that are drawn, the most probable ones."""
MAX_LINE_POINTS = 14.0
MIN_LINE_POINTS = 0.8
ROW_INCHES = 0.42
OWN_COLOR, OTHER_COLOR = "#1b5e8c", "#b0b7bf"


class DrawnSpelling(NamedTuple):
    """A spelling: its tokens as text, its share of the word's probability, and whether it is the tokenizer's own."""

    tokens: tuple[str, ...]
    share: float
    is_own: bool


@dataclass
class _Node:
    """The spellings that begin alike up to a token."""

    token: str
    depth: int
    share: float = 0.0
    is_own: bool = False
    children: dict[str, _Node] = field(default_factory=dict)
    height: float = 0.0


def plot_spelling_tree(spellings: Sequence[DrawnSpelling], title: str, rest_share: float = 0.0) -> Figure:
    """Draw the spellings of a word.

    Parameters
    ----------
    spellings
        The spellings, the most probable first; the first :data:`MAX_SPELLINGS` are drawn.
    title
        What stands above the figure.
    rest_share
        The share of spellings that are not known, at most.
    """
    from matplotlib.figure import Figure as NewFigure

    drawn = spellings[:MAX_SPELLINGS]
    root = _tree(drawn)
    leaves = _place(root, 0)
    depth = max((len(spelling.tokens) for spelling in drawn), default=1)
    figure = NewFigure(figsize=(2.2 + 1.5 * depth, 1.2 + ROW_INCHES * max(leaves, 2)), layout="constrained")
    axes = figure.subplots()
    for child in root.children.values():
        _draw(axes, root, child)
    _label_leaves(axes, root, depth)
    left_out = sum(spelling.share for spelling in spellings[MAX_SPELLINGS:])
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(_caption(len(spellings) - len(drawn), left_out, rest_share), fontsize=8, loc="left")
    axes.set_xlim(-0.1, depth + 0.9)
    axes.set_ylim(leaves - 0.5, -0.7)
    axes.set_yticks([])
    axes.set_xticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


def _caption(n_left_out: int, left_out_share: float, rest_share: float) -> str:
    parts = ["Width: share of the word's probability. Blue: the tokeniser's own spelling."]
    if n_left_out:
        parts.append(f"{n_left_out} more have {left_out_share:.2%}.")
    if rest_share > 0.0:
        parts.append(f"Not expanded: at most {rest_share:.2%}.")
    return " ".join(parts)


def _tree(spellings: Sequence[DrawnSpelling]) -> _Node:
    root = _Node("", 0)
    for spelling in spellings:
        node = root
        for depth, token in enumerate(spelling.tokens, start=1):
            node = node.children.setdefault(token, _Node(token, depth))
            node.share += spelling.share
            node.is_own |= spelling.is_own
        node.children.setdefault("", _Node("", len(spelling.tokens), spelling.share, spelling.is_own))
    return root


def _place(node: _Node, next_leaf: int) -> int:
    """Give each node a height, the heaviest branch first; return the number of leaves so far."""
    if not node.children:
        node.height = float(next_leaf)
        return next_leaf + 1
    children = sorted(node.children.values(), key=lambda child: -child.share)
    for child in children:
        next_leaf = _place(child, next_leaf)
    node.height = children[0].height
    return next_leaf


def _draw(axes: object, parent: _Node, node: _Node) -> None:
    """Draw a token, and what comes after it."""
    if not node.token:
        return
    width = max(MIN_LINE_POINTS, MAX_LINE_POINTS * node.share)
    color = OWN_COLOR if node.is_own else OTHER_COLOR
    begin, end = node.depth - 1, node.depth
    axes.plot(  # type: ignore[attr-defined]
        [begin, begin + 0.25, end], [parent.height, node.height, node.height], color=color, linewidth=width, zorder=1
    )
    axes.text(  # type: ignore[attr-defined]
        begin + 0.62,
        node.height - 0.12,
        _visible(node.token),
        ha="center",
        va="bottom",
        fontsize=9,
        zorder=3,
        bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
    )
    for child in node.children.values():
        _draw(axes, node, child)


def _label_leaves(axes: object, node: _Node, depth: int) -> None:
    """Write the share of each spelling behind it."""
    for child in node.children.values():
        if child.children:
            _label_leaves(axes, child, depth)
        else:
            axes.text(depth + 0.1, child.height, _percent(child.share), va="center", fontsize=9)  # type: ignore[attr-defined]


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else f"{share:.2g}"


def _visible(token: str) -> str:
    """Return a token with signs for white space."""
    return token.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")
