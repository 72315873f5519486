"""Plain text files that are read whole: one text on each line, or one word on each line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from wordprob.errors import InputError
from wordprob.tables.formats.encoding import decode, read_bytes


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a file, blank ones included."""
    text, _ = decode(read_bytes(path), str(path))
    return lines_of(text, str(path))


def lines_of(text: str, source: str) -> list[str]:
    r"""Return the lines of a text; the line break at its end starts no further line.

    Examples
    --------
    >>> lines_of("She saw\r\n\nthe mark\n", "texts.txt")
    ['She saw', '', 'the mark']
    """
    if not text:
        raise InputError(f"{source} is empty; it should have one text on each line.")
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def paragraphs_of(text: str, source: str) -> list[str]:
    r"""Return the parts of a text between blank lines, with the line breaks that they have inside.

    Examples
    --------
    >>> paragraphs_of("She saw\nthe mark.\n\n\nThe end.\n", "story.txt")
    ['She saw\nthe mark.', 'The end.']
    """
    return ["\n".join(block) for block in blocks_of(lines_of(text, source))]


def read_word_lists(path: str | Path) -> list[list[str]]:
    """Return the words of each text, from a file with one word on each line and a blank line between texts."""
    return blocks_of(read_lines(path))


def blocks_of(lines: Iterable[str]) -> list[list[str]]:
    """Return the words between blank lines, one list for each text.

    Examples
    --------
    >>> blocks_of(["She", "saw", "", "", "the", "mark"])
    [['She', 'saw'], ['the', 'mark']]
    """
    blocks: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]
