"""Words and tokens put together: which tokens a word takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from wordprob.core.arrays import Ints, cumulative_offsets
from wordprob.core.text import TextBatch
from wordprob.core.vocabulary import Tokens


class Cut(IntEnum):
    """How the tokens end where a word ends."""

    CLEAN = 0
    """A token ends there."""
    JOINED = 1
    """The last token also holds the white space that follows."""
    SHARED = 2
    """The boundary lies inside a token."""
    EMPTY = 3
    """The tokeniser wrote nothing for the word."""


@dataclass(frozen=True)
class Alignment:
    """The words and tokens of a page, put together; separators before a word are its own.

    Attributes
    ----------
    owner
        ``[W]``: the text of each word.
    words, tokens
        ``[D + 1]``: where the words and the tokens of each text begin, and where all end.
    lows, stops
        ``[W]``: the tokens of each word, ``lows[i] … stops[i] - 1`` of the page.
    cuts
        ``[W]``: how its last token ends, a :class:`Cut`.
    openings
        ``[T]``: the byte of the page at which each token starts.
    """

    owner: Ints
    words: Ints
    tokens: Ints
    lows: Ints
    stops: Ints
    cuts: NDArray[np.uint8]
    openings: Ints


def align(page: TextBatch, starts: Ints, ends: Ints, tokens: Sequence[Tokens]) -> Alignment:
    """Give every word of a page its slice of tokens."""
    edges, begun = cumulative_offsets([len(t.ids) for t in tokens]), np.searchsorted(starts, page.begins)
    counts = np.diff(begun)
    owner = np.repeat(np.arange(len(tokens)), counts)
    shift = np.repeat(page.at[page.begins[:-1]], np.diff(edges))
    openings = np.maximum.accumulate(np.concatenate([np.zeros(0, np.int64), *(t.starts for t in tokens)]) + shift)
    closings = np.concatenate([np.zeros(0, np.int64), *(t.ends for t in tokens)]) + shift
    finishes = page.at[ends]
    stops = np.searchsorted(openings, finishes, side="left")
    lows = np.append(0, stops)[:-1]
    lows[begun[:-1][counts > 0]] = edges[:-1][counts > 0]
    final = np.zeros(len(starts), dtype=bool)
    final[begun[1:][counts > 0] - 1] = True
    reach = np.append(closings, 0)[stops - 1]
    over = (reach > finishes) & (stops > edges[owner])
    following = np.append(page.at[starts], 0)[1:]
    cuts = np.where(stops == lows, Cut.EMPTY, Cut.CLEAN)
    cuts[over] = np.where((reach > following) & ~final, Cut.SHARED, Cut.JOINED)[over]
    return Alignment(owner, begun, edges, lows, stops, cuts.astype(np.uint8), openings)
