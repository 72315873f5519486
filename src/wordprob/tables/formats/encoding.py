"""From bytes to text and back: UTF-8, UTF-16, Windows-1252, or the encoding that the user names.

UTF-8, and files that begin with a byte order mark, are certain. Anything else is a guess: it is announced with a
:class:`wordprob.errors.InputWarning`, or it is an error where no guess is good enough.
"""

from __future__ import annotations

import codecs
import re
import warnings
from pathlib import Path
from typing import NamedTuple

from wordprob.errors import EncodingError, InputError, InputWarning, OptionError, OutputError
from wordprob.tables.formats.compression import DAMAGED, compression_of, read_whole

UTF8_MARK = codecs.BOM_UTF8
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""The bytes that a file may begin with, and the encoding that they stand for."""

WINDOWS = "cp1252"
OTHER_WESTERN = "mac_roman"
"""The encoding of old Mac programs, whose files must not be taken for Windows-1252."""

OFTEN_USED = (
    "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp932", "cp949", "gb18030", "big5", "koi8_r",
    "mac_roman",
)  # fmt: skip
"""Encodings that a message may suggest."""

NAMES = {"cp1252": "Windows-1252", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}
"""What encodings are called in messages."""

BINARY_FILES = {
    b"PAR1": ("a Parquet file", ".parquet"),
    b"PK\x03\x04": ("an Excel workbook or another ZIP archive", ".xlsx"),
    b"ARROW1": ("a Feather (Arrow) file", ""),
    b"FEA1": ("a Feather file", ""),
    b"\x1f\x8b": ("compressed with gzip", ".gz"),
    b"BZh": ("compressed with bzip2", ".bz2"),
    b"\xfd7zXZ": ("compressed with xz", ".xz"),
    b"%PDF": ("a PDF file", ""),
    b"\xd0\xcf\x11\xe0": ("an old Office file", ""),
}
"""How files begin that are not text: what they are, and the extension that they are read with."""

NOT_WESTERN = re.compile(r"[^\W\d_a-zA-Z]{3}|[^\W\d_][¡-¶¸-»¿×÷†‡ˆ‰‹›˜™€•„‚ƒ][^\W\d_]")
"""What words of Western languages do not have: three letters in a row beyond a–z, or a sign between two letters.

charset-normalizer alone takes short Mac, Greek and Japanese files for Windows-1252: of German tables with ten words, as
old Macs wrote them, one in seven.
"""

SAMPLE_BYTES = 100_000
"""How much of a file is used to detect its encoding."""

SHARE_OF_ZEROS = 0.3
"""The least share of zeros among the high bytes of UTF-16, in any language with spaces and marks."""

MAX_SHOWN_CHARACTERS = 60
"""How much of a line is quoted in a message."""


class Encoding(NamedTuple):
    """How a file's text is stored: the codec, and the byte order mark that the file begins with."""

    codec: str = "utf-8"
    mark: bytes = b""

    def encode(self, text: str, where: str = "the table") -> bytes:
        """Return text as bytes; raise :class:`OutputError` that names the line for what the encoding cannot hold."""
        try:
            return self.mark + text.encode(self.codec)
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            raise OutputError(
                f"{where}, line {line}: {describe_character(text[error.start])} cannot be written in {self.codec}."
            ) from None


UTF8 = Encoding()


def describe_character(character: str) -> str:
    r"""Return a character for messages, by its number where it cannot be printed.

    Examples
    --------
    >>> print(describe_character("é"), "|", describe_character("\ud800"), "|", describe_character("\x01"))
    'é' | half of a surrogate pair (U+D800), which is not a character, | the control character U+0001
    """
    number = f"U+{ord(character):04X}"
    if "\ud800" <= character <= "\udfff":
        return f"half of a surrogate pair ({number}), which is not a character,"
    return f"'{character}'" if character.isprintable() else f"the control character {number}"


def read_bytes(path: str | Path) -> bytes:
    """Return a file's bytes, decompressed; raise :class:`InputError` if it cannot be read."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a directory; name a file in it.")
    if not path.exists():
        raise InputError(f"no such file: {path}")
    try:
        return read_whole(path)
    except DAMAGED as error:
        reason = getattr(error, "strerror", None) or error
        damaged = "it is damaged or breaks off: " if compression_of(path) else ""
        raise InputError(f"{path} cannot be read: {damaged}{reason}") from error


def check_encoding(name: str) -> str:
    """Return the codec of an encoding that a user names; raise :class:`OptionError` if there is none.

    Examples
    --------
    >>> check_encoding("Windows-1252"), check_encoding("latin1")
    ('cp1252', 'iso8859-1')
    """
    try:
        codec = codecs.lookup(name)
        "".encode(codec.name)  # fails for codecs such as base64, which are not for text
    except (LookupError, ValueError):
        raise OptionError(
            f"no encoding is called '{name}'; use utf-8, utf-16, cp1252 (Windows), latin-1, mac-roman, cp1251, "
            "shift-jis, gb18030 or another that Python knows."
        ) from None
    return codec.name


def decode(data: bytes, where: str, encoding: str | None = None) -> tuple[str, Encoding]:
    r"""Return the text of ``data`` without a byte order mark, and its encoding.

    Parameters
    ----------
    data
        A file.
    where
        Its name, for messages.
    encoding
        The encoding, if the user has named it; detected in the bytes otherwise.

    Examples
    --------
    >>> decode(b"\xff\xfea\x00", "x.txt")
    ('a', Encoding(codec='utf-16-le', mark=b'\xff\xfe'))
    """
    chosen = _chosen(data, encoding) if encoding else _certain(data) or _guess(data, where)
    try:
        return data.removeprefix(chosen.mark).decode(chosen.codec), chosen
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise EncodingError(
            f"{where} cannot be read as {chosen.codec}: byte {error.start}, in line {line}, is not valid. Choose "
            "another `encoding`, or save the file as UTF-8."
        ) from None


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


# --- which encoding ---------------------------------------------------------------------------------------------------


def _chosen(data: bytes, name: str) -> Encoding:
    """Return the encoding that the user named, with the byte order mark that the file has."""
    codec = check_encoding(name)
    marked = _marked(data)
    if marked is not None and marked.codec.startswith(codec.removesuffix("-sig")):
        return marked
    return Encoding({"utf-16": "utf-16-le", "utf-32": "utf-32-le", "utf-8-sig": "utf-8"}.get(codec, codec))


def _certain(data: bytes) -> Encoding | None:
    """Return the encoding of a file with a byte order mark, or of UTF-8; ``None`` for anything else."""
    marked = _marked(data)
    if marked is not None:
        return marked
    if b"\0" in data[:SAMPLE_BYTES] or not _is_utf8(data):
        return None
    return UTF8


def _marked(data: bytes) -> Encoding | None:
    for mark, codec in BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return Encoding(codec, mark)
    return None


def _guess(data: bytes, where: str) -> Encoding:
    """Return the likely encoding of a file that is not UTF-8, and announce it; raise if none is likely."""
    _check_text_file(data, where)
    if b"\0" in data[:SAMPLE_BYTES]:
        guess = _utf16(data, where)
    elif _is_windows(data):
        guess = Encoding(WINDOWS)
    else:
        raise EncodingError(_not_utf8(data, where))
    _announce(data, where, guess)
    return guess


def _check_text_file(data: bytes, where: str) -> None:
    """Raise for a file that begins as one of another kind does."""
    for beginning, (kind, extension) in BINARY_FILES.items():
        if data.startswith(beginning):
            advice = f" Give it the ending {extension}." if extension else " Save it as CSV or text."
            raise EncodingError(f"{where} is not plain text: by its first bytes it is {kind}.{advice}")


def _utf16(data: bytes, where: str) -> Encoding:
    """Return UTF-16 without a byte order mark; raise unless the zeros in the file show that it is UTF-16."""
    sample = data[: SAMPLE_BYTES - SAMPLE_BYTES % 2]
    pairs = max(1, len(sample) // 2)
    shares = {"utf-16-be": sample[0::2].count(0) / pairs, "utf-16-le": sample[1::2].count(0) / pairs}
    codec = max(shares, key=lambda name: shares[name])
    if shares[codec] < SHARE_OF_ZEROS or min(shares.values()) > 0:
        raise EncodingError(f"{where} has NUL bytes: it is not plain text. Save it as UTF-8 and try again.")
    return Encoding(codec)


def _is_windows(data: bytes) -> bool:
    """Return True if a file reads well as Windows-1252, and better than as what old Macs wrote."""
    from charset_normalizer import from_bytes

    try:
        text = data.decode(WINDOWS)
    except UnicodeDecodeError:
        return False
    if _first_utf8_line(data) is not None or NOT_WESTERN.search(text):
        return False
    matches = from_bytes(_sample(data), cp_isolation=[WINDOWS, OTHER_WESTERN], preemptive_behaviour=False)
    disorder = {match.encoding: match.chaos for match in matches}
    return WINDOWS in disorder and disorder[WINDOWS] <= min(disorder.values())


def _sample(data: bytes) -> bytes:
    """Return the lines with characters beyond ASCII, which show the encoding; of a short file all lines."""
    if len(data) <= SAMPLE_BYTES:
        return data
    telling = [line for line in data.split(b"\n") if not line.isascii()]
    return b"\n".join(telling)[:SAMPLE_BYTES]


def _announce(data: bytes, where: str, guess: Encoding) -> None:
    name = NAMES.get(guess.codec, guess.codec)
    example = ""
    if guess.codec == WINDOWS:
        number = _first_other_line(data)
        example = f" Line {number} reads '{_shown_line(data, number, WINDOWS)}'."
    message = f"{where} is not UTF-8; it is taken for {name}.{example} If that is wrong, name its `encoding`."
    warnings.warn(message, InputWarning, stacklevel=2)


# --- messages ---------------------------------------------------------------------------------------------------------


def _not_utf8(data: bytes, where: str) -> str:
    """Return a message that names the first line that is not UTF-8, and what the encoding may be."""
    number = _first_other_line(data)
    problem = f"{where} is not UTF-8: line {number} has other bytes"
    utf8_line = _first_utf8_line(data)
    if utf8_line is not None:
        n_wrong = sum(not _is_utf8(line) for line in data.split(b"\n"))
        shown = _shown_line(data, number, WINDOWS)
        return (
            f"{problem}, and line {utf8_line} is UTF-8, so the file mixes encodings ({n_wrong} lines are not UTF-8). "
            f"In Windows-1252, line {number} would read '{shown}'. Save the file as UTF-8 throughout."
        )
    likely = _likely(data)
    if not likely:
        return f"{problem}. Save the file as UTF-8 (Excel: 'CSV UTF-8'), or name its `encoding`, for example cp1252."
    readings = " or ".join(f"{codec} ('{_shown_line(data, number, codec)}')" for codec in likely)
    return f"{problem}. Its encoding may be {readings}. Name it with `encoding`, or save the file as UTF-8."


def _likely(data: bytes) -> list[str]:
    """Return the codecs that the detector finds most likely, at most three."""
    from charset_normalizer import from_bytes

    matches = from_bytes(_sample(data), cp_isolation=list(OFTEN_USED), preemptive_behaviour=False)
    return [match.encoding for match in list(matches)[:3]]


def _shown_line(data: bytes, number: int, codec: str) -> str:
    """Return a line of a file for a message."""
    line = data.split(b"\n")[number - 1].decode(codec, "replace").strip()
    return line if len(line) <= MAX_SHOWN_CHARACTERS else line[:MAX_SHOWN_CHARACTERS] + "…"


def _first_other_line(data: bytes) -> int:
    """Return the number of the first line that is not UTF-8."""
    return next(number for number, line in enumerate(data.split(b"\n"), start=1) if not _is_utf8(line))


def _first_utf8_line(data: bytes) -> int | None:
    """Return the number of the first line that has more than ASCII and is UTF-8; ``None`` if there is none."""
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.isascii() and _is_utf8(line):
            return number
    return None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
