"""The alphabet that byte-level tokenisers write bytes in."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1)
def byte_alphabet() -> dict[str, int]:
    """Return which byte each printable stand-in is.

    Bytes that print keep their own character; the other 68 take the code points from 256 on, in order.

    >>> byte_alphabet()["Ġ"], byte_alphabet()["a"]
    (32, 97)
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(hidden)}
