"""Further columns about the words that could have come: entropy at the level of words, and the rank of the word.

One name adds several columns. ``word_entropy`` is Shannon's entropy, ``word_entropy_2`` that of order 2, and so
on for any order above 0.

>>> list(WordLevel.of(["word_entropy_2", "surprisal"]).columns())
['word_entropy_2', 'word_entropy_2_se', 'word_entropy_2_low', 'word_entropy_2_high']
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from wordprob.errors import OptionError

ENTROPY = "word_entropy"
RANK = "word_rank"
WORD_LEVEL: dict[str, str] = {
    ENTROPY: "entropy of the word that could come there, with its standard error and bounds",
    RANK: "rank of the word among all that could come there, as an interval",
}
"""The names, and what each adds."""
RANK_COLUMNS = {
    "word_rank_low": "rank of the word among those that could come there: at least this",
    "word_rank_high": "rank of the word: at most this",
}

_ENTROPY_NAME = re.compile(r"word_entropy(?:_(?P<order>[0-9.]+|inf))?")
_ANY_COLUMN = re.compile(r"word_entropy(?:_(?:[0-9.]+|inf))?(?:_(?:se|low|high))?|word_rank_(?:low|high)")


class WordLevelColumn(NamedTuple):
    """What a column says, whether its values are in nats, and whether they are whole numbers."""

    description: str
    in_units: bool = True
    whole: bool = False


@dataclass(frozen=True)
class WordLevel:
    """What is wanted at the level of words.

    Attributes
    ----------
    orders
        The order of the entropy in each column of entropies.
    rank
        Whether the rank is wanted.
    """

    orders: dict[str, float]
    rank: bool

    @classmethod
    def of(cls, extras: Collection[str]) -> Self:
        """Return those of some further columns that are about words."""
        orders = {name: order for name in extras if (order := order_of(name)) is not None}
        return cls(orders, RANK in extras)

    def __bool__(self) -> bool:
        """Return True if anything is wanted."""
        return bool(self.orders) or self.rank

    def columns(self) -> dict[str, WordLevelColumn]:
        """Return the columns, in their order."""
        columns: dict[str, WordLevelColumn] = {}
        for name, order in self.orders.items():
            of_order = "" if order == 1.0 else f" of order {order:g}"
            columns[name] = WordLevelColumn(f"entropy{of_order} of the word that could come there, estimated")
            columns[f"{name}_se"] = WordLevelColumn("its standard error")
            columns[f"{name}_low"] = WordLevelColumn("the least that it can be")
            if order > 1.0:
                columns[f"{name}_high"] = WordLevelColumn("the most that it can be")
        if self.rank:
            for name, description in RANK_COLUMNS.items():
                columns[name] = WordLevelColumn(description, in_units=False, whole=True)
        return columns


def order_of(name: str) -> float | None:
    """Return the order of the entropy with this name; ``None`` if it is no such name."""
    match = _ENTROPY_NAME.fullmatch(name)
    if match is None:
        return None
    try:
        return float(match["order"] or 1.0)
    except ValueError:
        return None


def is_word_level(extra: str) -> bool:
    """Return True if a name of further columns is one of these."""
    return extra == RANK or order_of(extra) is not None


def is_word_level_column(name: str) -> bool:
    """Return True if a column is one of these."""
    return _ANY_COLUMN.fullmatch(name) is not None


def entropy_names(orders: str | Sequence[float]) -> tuple[str, ...]:
    """Return the names of entropies of some orders, which may be a string with commas between them.

    >>> entropy_names("0.5,1,2")
    ('word_entropy_0.5', 'word_entropy', 'word_entropy_2')
    """
    given = [part.strip() for part in orders.split(",")] if isinstance(orders, str) else list(orders)
    names = []
    for part in given:
        try:
            order = float(part)
        except ValueError:
            order = float("nan")
        if not order > 0.0:
            raise OptionError(f"the order of an entropy is a number above 0, such as 0.5, 1 or 2, not '{part}'.")
        names.append(ENTROPY if order == 1.0 else f"{ENTROPY}_{order:g}")
    return tuple(names)
