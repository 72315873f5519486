"""From bytes to text: UTF-8, or UTF-16 with a byte order mark; otherwise an error that names the line."""

from __future__ import annotations

from pathlib import Path

from wordprob.errors import EncodingError, InputError

UTF8_MARK = b"\xef\xbb\xbf"
BYTE_ORDER_MARKS = {UTF8_MARK: "utf-8-sig", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
"""The bytes that a file may begin with, and the encoding that they stand for."""

MAX_SHOWN_CHARACTERS = 60
"""How much of a line is quoted in a message."""


def read_bytes(path: str | Path) -> bytes:
    """Return a file's bytes; raise :class:`InputError` if it cannot be read."""
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
    encoding = next((name for mark, name in BYTE_ORDER_MARKS.items() if data.startswith(mark)), "utf-8")
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


def decode_record(data: bytes) -> tuple[str, str]:
    r"""Return the text of one record of a file, and what is wrong with its bytes; empty if nothing is.

    Examples
    --------
    >>> decode_record(b"bad \xe9")
    ('', 'not UTF-8: byte 4 of the record is 0xE9')
    """
    try:
        return data.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        return "", f"not UTF-8: byte {error.start} of the record is 0x{data[error.start]:02X}"


def encode(text: str, encoding: str) -> bytes:
    """Return text in an encoding that :func:`decode` returned, with its byte order mark."""
    mark = next((mark for mark, name in BYTE_ORDER_MARKS.items() if name == encoding), b"")
    return mark + text.encode(encoding.removesuffix("-sig"))


def _not_utf8(data: bytes, position: int, where: str) -> str:
    """Return a message that names the line with the byte at ``position``, and what it would read in Windows-1252."""
    number = data.count(b"\n", 0, position) + 1
    guess = data.split(b"\n")[number - 1].decode("cp1252", "replace").strip()
    shown = guess if len(guess) <= MAX_SHOWN_CHARACTERS else guess[:MAX_SHOWN_CHARACTERS] + "…"
    return (
        f"{where} is not UTF-8: line {number} has the byte 0x{data[position]:02X} where a character should begin. In "
        f"Windows-1252 the line would read '{shown}'.{_mixed_encodings(data)} Save the file as UTF-8 (Excel: 'CSV "
        f"UTF-8'), or if it is all Latin-1: iconv -f LATIN1 -t UTF-8 '{where}' > converted.txt"
    )


def _mixed_encodings(data: bytes) -> str:
    """Return a sentence for a file of which some lines are UTF-8 and others are not; empty for any other file."""
    n_wrong = 0
    first_correct: int | None = None
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not _is_utf8(line):
            n_wrong += 1
        elif first_correct is None and not line.isascii():
            first_correct = number
    if first_correct is None:
        return ""
    return f" Line {first_correct} is UTF-8, so the file mixes encodings ({n_wrong} lines are not)."


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
