"""The long form of what docs/trust.md promises: random damage, with a seed, for a limited time.

``make audit`` sets the variables below. Without them, each test tries a few cases, always the same ones.
"""

from __future__ import annotations

import os
import random
import time
import zlib
from collections import Counter
from collections.abc import Iterator

SEED = int(os.environ.get("WORDPROB_AUDIT_SEED", "0"))
SECONDS = float(os.environ.get("WORDPROB_AUDIT_SECONDS", "0"))
"""How long each test goes on; with 0, it tries its number of cases."""

FOUND: dict[str, Counter[str]] = {}
"""What was tried, and how often each outcome was found."""


def cases(what: str, few: int) -> Iterator[random.Random]:
    """Yield a source of chance for each case: ``few`` of them, or as many as there is time for."""
    number = 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end if SECONDS else number < few:
        yield random.Random(zlib.crc32(f"{SEED} {what} {number}".encode()))
        number += 1


def record(what: str, outcomes: dict[str, int] | Counter[str]) -> None:
    """Keep how often each outcome was found, for the summary."""
    FOUND.setdefault(what, Counter()).update(outcomes)


def summary() -> list[str]:
    """Return a line for everything that was tried."""
    return [
        f"{what}: {sum(outcomes.values()):,} tried: "
        + ", ".join(f"{count:,} {name}" for name, count in outcomes.most_common())
        for what, outcomes in FOUND.items()
    ]


def mutated(data: bytes, chance: random.Random, before: int | None = None) -> bytes:
    """Return bytes with a few changes: bits flipped, bytes replaced, parts cut out, doubled or cut off."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4, 8])):
        place = chance.randrange(min(before or len(changed), len(changed)) or 1)
        size = chance.choice([1, 1, 2, 4, 8, 64])
        match chance.randrange(5):
            case 0 | 1:
                changed[place : place + 1] = bytes([(changed[place] if changed else 0) ^ (1 << chance.randrange(8))])
            case 2:
                changed[place : place + size] = chance.choice([b"\0", b"\xff", b"\x7f", b"9"]) * size
            case 3:
                changed[place : place + size] = chance.randbytes(size)
            case 4 if chance.random() < 0.2:
                del changed[place:]
            case 4:
                changed[place:place] = changed[place : place + size]
    return bytes(changed)
