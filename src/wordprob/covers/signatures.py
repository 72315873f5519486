"""By what a word is known again: the few bytes and tokens at its end that decide how else it could be written.

Most words have one spelling, and words come again and again, so the tokenizer is asked once about words that share a
signature. A signature begins at the last *unjoinable place* before the end of the word: two bytes that no token holds
together. No token reaches over it, so what stands after it is written in the same way whatever comes before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wordprob.core.alignment import Alignment, Cut
from wordprob.core.arrays import Bools, Ints
from wordprob.covers.joined_tokens import bytes_before

SIGNATURE_BYTES = 16
"""Bytes at a word's end that go into its signature, with the character before the unjoinable place."""

SIGNATURE_TOKENS = 2
"""Tokens after the unjoinable place, at most."""

NONE = -1
"""Stands for a signature, or a token, that is not there."""

HASH_FACTORS = np.random.default_rng(0).integers(0, 1 << 63, 7, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
"""An odd random factor for each number in a signature."""


class WordSignatures(NamedTuple):
    """Words by their signatures.

    Attributes
    ----------
    number
        For each word, the number of its signature; :data:`NONE` if it has none.
    distinct
        The signatures.
    examples
        For each signature, the position of a word that has it.
    """

    number: Ints
    distinct: list[bytes]
    examples: Ints


def no_signatures(count: int) -> WordSignatures:
    """Return that none of so many words has a signature."""
    return WordSignatures(np.full(count, NONE, dtype=np.int64), [], np.zeros(0, dtype=np.int64))


def alike_before(unjoinable_pairs: Bools) -> NDArray[np.uint8]:
    """Return, by 256 times a byte plus the next, a byte that can stand for the first of the two.

    Letters of one case, and digits, stand for each other before an unjoinable place, where they leave it unjoinable.
    """
    alike = np.repeat(np.arange(256, dtype=np.uint8), 256).reshape(256, 256)
    unjoinable = unjoinable_pairs.reshape(256, 256)
    for characters in (b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"1234567890"):
        example = characters[0]
        for byte in characters:
            alike[byte] = np.where(unjoinable[byte] & unjoinable[example], example, byte)
    return alike.ravel()


def word_signatures(
    alignment: Alignment, words: Ints, groups: Ints, unjoinable_pairs: Bools, alike: NDArray[np.uint8]
) -> WordSignatures:
    """Return the signatures of words.

    Parameters
    ----------
    alignment, words
        The words of a batch, by their numbers.
    groups
        For each word, a number for what ends it.
    unjoinable_pairs
        Which two bytes no token holds together.
    alike
        What :func:`alike_before` makes of them.
    """
    batch = alignment.batch
    ends = batch.byte_offsets[alignment.ends[words]]
    text_starts = batch.byte_offsets[batch.text_starts[alignment.text_of_word[words]]]

    # How many bytes follow the last unjoinable place among the last bytes before each end.
    last_bytes = bytes_before(np.frombuffer(batch.utf8, dtype=np.uint8), ends, SIGNATURE_BYTES)
    pairs = 256 * last_bytes[:, :-1].astype(np.int64) + last_bytes[:, 1:]
    unjoinable = unjoinable_pairs[pairs]
    n_bytes = 1 + np.argmax(unjoinable[:, ::-1], axis=1)
    word_range = np.arange(len(words))
    before = SIGNATURE_BYTES - 1 - n_bytes
    first_tokens = np.searchsorted(alignment.token_starts, ends - n_bytes)
    n_tokens = alignment.stop_tokens[words] - first_tokens
    has_signature = (
        unjoinable.any(axis=1)
        & (n_bytes < ends - text_starts)
        & (last_bytes[word_range, before] < 0x80)
        & (np.append(alignment.token_starts, NONE)[first_tokens] == ends - n_bytes)
        & (n_tokens >= 0)
        & (n_tokens <= SIGNATURE_TOKENS)
    )

    # One column a word: its last bytes as integers, how many they are, its group, its last two tokens, and the token
    # that reaches over its end.
    last_bytes[word_range, before] = alike[pairs[word_range, before]]
    in_signature = np.arange(SIGNATURE_BYTES) >= before[:, None]
    kept_bytes = np.where(in_signature, last_bytes, 0).astype(np.uint8).view("<u8")
    stops = alignment.stop_tokens[words]
    last_token = np.where(n_tokens >= 1, alignment.ids[np.maximum(stops - 1, 0)], NONE)
    token_before = np.where(n_tokens == 2, alignment.ids[np.maximum(stops - 2, 0)], NONE)
    over_end = np.where(alignment.cuts[words] == Cut.MID_TOKEN, np.append(alignment.ids, NONE)[stops], NONE)
    numbers = [column.astype("<u8") for column in (n_bytes, groups, last_token, token_before, over_end)]
    return _distinct(np.stack([*kept_bytes.T, *numbers]), has_signature)


def _distinct(signatures: NDArray[np.uint64], has_signature: Bools) -> WordSignatures:
    """Number the different columns of ``signatures`` among those of words that have one.

    Equal ones are found by a hash; should different ones share it, only the first of them keeps its signature.
    """
    chosen = np.flatnonzero(has_signature)
    hashes = HASH_FACTORS @ signatures[:, chosen]
    _, first, number = np.unique(hashes, return_index=True, return_inverse=True)
    examples = chosen[first]
    distinct = signatures[:, examples]
    same = (signatures[:, chosen] == distinct[:, number]).all(axis=0)
    number_of_word = np.full(len(has_signature), NONE, dtype=np.int64)
    number_of_word[chosen] = np.where(same, number, NONE)
    # As bytes, since a tuple for every signature would keep Python's garbage collector busy.
    return WordSignatures(number_of_word, [row.tobytes() for row in distinct.T], examples)
