"""Options that several commands share, and reading of text files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from wordprob.errors import EncodingError, InputError
from wordprob.lms.catalogue import DEFAULT

Function = TypeVar("Function", bound=Callable[..., Any])


def model_options(function: Function) -> Function:
    """Add the options that choose and open a model."""
    for option in reversed(
        (
            click.option(
                "-m", "--model", default=DEFAULT, show_default=True, help="Short name, hub id, directory or .gguf file."
            ),
            click.option("--bos", help="Start-of-text token, or 'none'; the document-start token by default."),
            click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps."),
            click.option("--dtype", default="auto", show_default=True, help="auto, float32, bfloat16 or float16."),
            click.option("--revision", help="Branch, tag or commit of a model on the hub."),
            click.option("--trust-remote-code", is_flag=True, help="Run code that comes with the model."),
        )
    ):
        function = option(function)
    return function


def read_utf8(path: Path) -> str:
    """Return a file's text, or say on which line it is not UTF-8."""
    if path.is_dir():
        raise InputError(f"{path} is a directory; name a file in it.")
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise EncodingError(
            f"{path} is not UTF-8: line {line} has the byte 0x{data[error.start]:02X} where a character should begin. "
            f"If it is Latin-1: iconv -f LATIN1 -t UTF-8 '{path}' > converted.txt"
        ) from None


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file: one text a line, blank ones kept; the newline at the end of the file adds none."""
    text = read_utf8(path)
    if not text:
        raise InputError(f"{path} is empty; it should have one text on each line.")
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]
