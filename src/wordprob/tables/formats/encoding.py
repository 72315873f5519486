"""Bytes to text: UTF-8 or UTF-16 by its mark, or an error that says which line is something else."""

from __future__ import annotations

from pathlib import Path

from wordprob.errors import EncodingError, InputError

MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
"""What a file may begin with, and the encoding this tells."""


def read_bytes(path: str | Path) -> bytes:
    """Return a file's bytes, or say why there are none."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a directory; name a file in it.")
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def decode(data: bytes, where: str) -> tuple[str, str]:
    r"""Return the text of ``data`` without a byte order mark, and its encoding.

    Examples
    --------
    >>> decode(b"\xff\xfea\x00", "x.txt")
    ('a', 'utf-16-le')
    """
    encoding = next((name for mark, name in MARKS.items() if data.startswith(mark)), "utf-8")
    if encoding == "utf-8" and b"\0" in data[:1000]:
        raise EncodingError(
            f"{where} has NUL bytes: it is no plain text, or UTF-16 without its mark. Save it as UTF-8 and try again."
        )
    try:
        return data.decode(encoding).removeprefix("\ufeff"), encoding
    except UnicodeDecodeError as error:
        if encoding.startswith("utf-16"):
            raise EncodingError(f"{where} begins as UTF-16 but byte {error.start} is none. Save it as UTF-8.") from None
        raise EncodingError(_not_utf8(data, error.start, where)) from None


def encode(text: str, encoding: str) -> bytes:
    """Return text in an encoding that :func:`decode` named, with the mark it had."""
    mark = next((mark for mark, name in MARKS.items() if name == encoding), b"")
    return mark + text.encode(encoding.removesuffix("-sig"))


def _not_utf8(data: bytes, at: int, where: str) -> str:
    """Say on which line a file is not UTF-8, what the line may mean, and whether others are."""
    lines = data.split(b"\n")
    number = data.count(b"\n", 0, at) + 1
    guess = lines[number - 1].decode("cp1252", "replace").strip()
    shown = guess if len(guess) <= 60 else guess[:60] + "…"
    wrong = [n for n, line in enumerate(lines, 1) if not _is_utf8(line)]
    right = next((n for n, line in enumerate(lines, 1) if not line.isascii() and n not in set(wrong)), None)
    mixed = (
        "" if right is None else f" Line {right} is UTF-8, so the file mixes encodings ({len(wrong)} lines are not)."
    )
    return (
        f"{where} is not UTF-8: line {number} has the byte 0x{data[at]:02X} where a character should begin. In "
        f"Windows-1252 the line would read '{shown}'.{mixed} Save the file as UTF-8 (Excel: 'CSV UTF-8'), or if "
        f"it is all Latin-1: iconv -f LATIN1 -t UTF-8 '{where}' > converted.txt"
    )


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
