"""Words under masked models: pseudo-surprisals.

The pseudo-surprisal of a word is the sum of −log p of its tokens, each predicted from the whole text with that token
masked (Salazar et al. 2020, ``original``), or with that token and the later ones of the same word masked (Kauf &
Ivanova 2023, ``within_word_l2r``). It is the surprisal of nothing, and nothing is corrected: the columns of surprisals
stay empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from wordprob.core.alignment import Cut
from wordprob.core.arrays import Floats
from wordprob.models.huggingface.masked import MaskedModel, MaskedToken
from wordprob.models.protocol import LanguageModel
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.estimate import estimate_batch
from wordprob.scoring.passages import Chunk
from wordprob.scoring.prepare import TextPreparer
from wordprob.scoring.prepared_batch import BatchSettings, PreparedBatch
from wordprob.scoring.requests import Progress
from wordprob.tables.schema import BatchScores

NO_SURPRISAL = "a masked model has no surprisals: see pseudo_surprisal"
NOTHING_WRITTEN = "the tokeniser writes nothing for it"
TOO_LONG = "longer than the model's context"


def score_masked(
    model: LanguageModel,
    preparer: TextPreparer,
    chunks: Sequence[Chunk],
    settings: BatchSettings,
    progress: Progress | None = None,
) -> Iterator[BatchScores]:
    """Score chunks one after the other with a model that does not predict the next token."""
    n_texts = sum(len(chunk.passages) for chunk in chunks)
    n_done = 0
    for chunk in chunks:
        prepared = preparer.prepare(chunk, settings)
        values = pseudo_surprisals(cast(MaskedModel, model), prepared)
        for word in range(prepared.alignment.n_words):
            prepared.add_note(word, NO_SURPRISAL)
        batch = estimate_batch(prepared, CollectedScores.empty(prepared))
        yield replace(batch, pseudo_surprisal=values[prepared.is_scored], note=NO_SURPRISAL)
        n_done += len(chunk.passages)
        if progress is not None:
            progress(n_done, n_texts)


def pseudo_surprisals(model: MaskedModel, prepared: PreparedBatch) -> Floats:
    """Return the pseudo-surprisal of every word of a batch, in nats."""
    alignment = prepared.alignment
    tokens: list[MaskedToken] = []
    word_of_token: list[int] = []
    values = np.zeros(alignment.n_words)
    for word in range(alignment.n_words):
        text = int(alignment.text_of_word[word])
        begin, end = alignment.token_offsets[text : text + 2].tolist()
        first, stop = int(alignment.first_tokens[word]), int(alignment.stop_tokens[word])
        if alignment.cuts[word] == Cut.EMPTY or first == stop:
            values[word] = np.nan
            prepared.add_note(word, NOTHING_WRITTEN)
            continue
        if stop - first > model.max_text_tokens:
            values[word] = np.nan
            prepared.add_note(word, TOO_LONG)
            continue
        low, high = _window(begin, end, first, stop, model.max_text_tokens)
        ids = alignment.ids[low:high]
        for token in range(first, stop):
            last = stop if model.masking == "within_word_l2r" else token + 1
            tokens.append(MaskedToken(ids, token - low, range(token - low, last - low)))
            word_of_token.append(word)
    np.add.at(values, word_of_token, -model.log_probs(tokens))
    return values


def _window(begin: int, end: int, first: int, stop: int, room: int) -> tuple[int, int]:
    """Return which tokens of a text from ``begin`` to ``end`` a word is seen with, as much before as after it.

    Examples
    --------
    >>> _window(0, 100, 50, 52, 10), _window(0, 100, 1, 2, 10), _window(0, 8, 3, 4, 10)
    ((46, 56), (0, 10), (0, 8))
    """
    if end - begin <= room:
        return begin, end
    low = first - (room - (stop - first)) // 2
    low = min(max(low, begin), end - room)
    return low, low + room
