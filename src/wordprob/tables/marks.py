"""Parts of a sentence that are asked about: a target named in a column, or regions marked in the text itself.

Marks are not part of the text: ``The puppet *fell* down.`` is scored as ``The puppet fell down.``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from wordprob.core.characters import is_white_space
from wordprob.errors import AlignmentError, InputError, OptionError, counted

MARKS = ("stars", "bars")
"""``stars``: each ``*region*`` stands between two. ``bars``: each bar ends a region, ``The puppet | fell | down.``"""

TARGET = "target"
"""The name of the region that a column of targets names."""

BAR = regex.compile(r"(\s*)\|(\s*)")

UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
"""Letters of scripts that are written without spaces."""


@dataclass(frozen=True)
class Span:
    """A part of a text: its name, and where it begins and ends."""

    name: str
    start: int
    end: int


def whole_span(text: str, name: str = "") -> Span:
    """Return the whole of a text, without white space around it.

    Examples
    --------
    >>> whole_span(" went home ")
    Span(name='', start=1, end=10)
    """
    inside = [place for place, character in enumerate(text) if not is_white_space(character)]
    return Span(name, inside[0], inside[-1] + 1) if inside else Span(name, len(text), len(text))


def check_marks(marks: str) -> None:
    """Raise unless there are such marks."""
    if marks not in MARKS:
        raise OptionError(f"no marks are called '{marks}'; use {' or '.join(MARKS)}.")


def read_marks(text: str, marks: str, names: Sequence[str] = (), where: str = "the text") -> tuple[str, list[Span]]:
    """Return a text without its marks, and the regions that they mark.

    Parameters
    ----------
    text
        A text with marks.
    marks
        ``stars`` or ``bars``.
    names
        The names of the regions in their order; their numbers by default.
    where
        The place of the text, for messages.

    Examples
    --------
    >>> read_marks("The puppet *fell* down.", "stars")
    ('The puppet fell down.', [Span(name='1', start=11, end=15)])
    >>> read_marks("The puppet | fell", "bars", ["subject", "verb"])[1]
    [Span(name='subject', start=0, end=10), Span(name='verb', start=11, end=15)]
    """
    check_marks(marks)
    plain, edges = _without_stars(text, where) if marks == "stars" else _without_bars(text, where)
    if names and len(edges) != len(names):
        counts = f"{counted(len(edges), 'region')} for {counted(len(names), 'name')}"
        raise InputError(f"{where} has {counts} ({', '.join(names)}): {text!r:.80}")
    labels = list(names) or [str(number) for number in range(1, len(edges) + 1)]
    return plain, [Span(label, start, end) for label, (start, end) in zip(labels, edges, strict=True)]


def _without_stars(text: str, where: str) -> tuple[str, list[tuple[int, int]]]:
    parts = text.split("*")
    if len(parts) % 2 == 0:
        raise InputError(f"{where} has a star that no other closes: {text!r:.80}")
    edges = []
    place = 0
    for number, part in enumerate(parts):
        if number % 2:
            if not part.strip():
                raise InputError(f"{where} has nothing between two stars: {text!r:.80}")
            edges.append((place + len(part) - len(part.lstrip()), place + len(part.rstrip())))
        place += len(part)
    return "".join(parts), edges


def _without_bars(text: str, where: str) -> tuple[str, list[tuple[int, int]]]:
    pieces: list[str] = []
    begin = 0
    for bar in BAR.finditer(text):
        before, after = text[begin : bar.start()], text[bar.end() : bar.end() + 1]
        space = " " if bar[1] or bar[2] else ""
        if not space and _would_join(before[-1:], after):
            raise InputError(f"{where} has no space at a bar between two words; write 'man | saw': {text!r:.80}")
        pieces += [before, space]
        begin = bar.end()
    pieces.append(text[begin:])
    edges = []
    place = 0
    for number, piece in enumerate(pieces):
        if number % 2 == 0 and piece.strip():
            edges.append((place + len(piece) - len(piece.lstrip()), place + len(piece.rstrip())))
        place += len(piece)
    return "".join(pieces), edges


def _would_join(before: str, after: str) -> bool:
    """Return True if two letters of a script with spaces would make one word."""
    return before.isalnum() and after.isalnum() and not UNSPACED.search(before + after)


def find_target(text: str, target: str, where: str) -> Span:
    """Return the place of a target in its text; raise unless it is there just once.

    Parameters
    ----------
    text
        The text.
    target
        A word or more, as in the text.
    where
        The place of the text, for messages.

    Examples
    --------
    >>> find_target("The puppet fell, fell.", "puppet", "row 1")
    Span(name='target', start=4, end=10)
    """
    target = target.strip()
    found = [match.start() for match in regex.finditer(regex.escape(target), text, overlapped=True)]
    whole = [start for start in found if not _inside_word(text, start, start + len(target))]
    if len(whole) == 1:
        return Span(TARGET, whole[0], whole[0] + len(target))
    if not whole:
        inside = " except inside another word" if found else ""
        raise AlignmentError(f"{where}: the target '{target}' is not in the text{inside}: {text!r:.80}")
    raise AlignmentError(
        f"{where}: the target '{target}' is in the text {len(whole)} times; mark the one that is meant with stars and "
        f"specify `marks` stars: {text!r:.80}"
    )


def _inside_word(text: str, start: int, end: int) -> bool:
    """Return True if the characters are part of a longer word, in a script with spaces."""
    return _would_join(text[start - 1 : start], text[start : start + 1]) or _would_join(
        text[end - 1 : end], text[end : end + 1]
    )


def different_parts(first: str, second: str) -> tuple[Span | None, Span | None]:
    """Return the words in which two texts differ: those between the words that they begin and end with together.

    Examples
    --------
    >>> different_parts("The cats sleep.", "The cats sleeps.")
    (Span(name='different', start=9, end=15), Span(name='different', start=9, end=16))
    """
    one, two = ([match.span() for match in regex.finditer(r"\S+", text)] for text in (first, second))
    words = [[text[start:end] for start, end in spans] for text, spans in ((first, one), (second, two))]
    n_common = min(map(len, words))
    begin = next((n for n in range(n_common) if words[0][n] != words[1][n]), n_common)
    n_left = n_common - begin
    tail = next((n for n in range(n_left) if words[0][-1 - n] != words[1][-1 - n]), n_left)
    return _span_of(one[begin : len(one) - tail]), _span_of(two[begin : len(two) - tail])


def _span_of(words: Sequence[tuple[int, int]]) -> Span | None:
    return Span("different", words[0][0], words[-1][1]) if words else None
