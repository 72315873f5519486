"""How much of a text may come before a word: so many tokens, or so many words.

>>> parse_limit("10words")
ContextLimit(count=10, unit='words')
>>> str(parse_limit(50))
'50 tokens'
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wordprob.errors import OptionError

TOKENS = "tokens"
WORDS = "words"
PATTERN = re.compile(r"\s*(\d+)\s*(tokens?|words?|)\s*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class ContextLimit:
    """The most context that a word may have.

    Attributes
    ----------
    count
        How many tokens or words.
    unit
        ``tokens`` or ``words``.
    """

    count: int
    unit: str

    def __str__(self) -> str:
        return f"{self.count} {self.unit if self.count != 1 else self.unit[:-1]}"


def parse_limit(value: str | int) -> ContextLimit:
    """Return the limit that a value of ``max_context`` stands for.

    Parameters
    ----------
    value
        A number of tokens (``50`` or ``"50tokens"``) or of words (``"10words"``).
    """
    match = None if isinstance(value, bool) else PATTERN.fullmatch(str(value))
    if match is None:
        raise OptionError(
            f"`max_context` is {value!r}; give a number of tokens, such as 50, or a number of words, such as 10words."
        )
    unit = WORDS if match[2].lower().startswith("word") else TOKENS
    return ContextLimit(int(match[1]), unit)
