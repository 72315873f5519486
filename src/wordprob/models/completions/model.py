"""A model on a server, behind the protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from wordprob.core.atoms import Atoms
from wordprob.errors import UnsupportedError
from wordprob.models.completions.dialects import Dialect
from wordprob.models.completions.listing import scores_from_listing
from wordprob.models.protocol import TOP_TOKENS_ONLY, Capabilities, PrefixStates, Request, Scores, Tokenizer

REQUESTS_AT_A_TIME = 4
"""Requests that are under way at the same time: enough to keep a server busy, few enough to be welcome."""


class ServerModel:
    """A model that a server runs.

    Parameters
    ----------
    dialect
        How the server is asked.
    tokenizer
        The model's tokenizer.
    metadata
        Where it came from.
    max_tokens
        The longest prompt that the server takes; ``None`` for no limit.
    """

    capabilities = Capabilities(has_whole_distributions=False)
    batch_tokens = 512

    def __init__(
        self, dialect: Dialect, tokenizer: Tokenizer, metadata: Mapping[str, str], max_tokens: int | None
    ) -> None:
        self._dialect = dialect
        self.tokenizer = tokenizer
        self.metadata = dict(metadata)
        self.max_tokens = max_tokens
        self.vocab_size = tokenizer.vocabulary.size

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Yield the scores of requests, a few of which are under way at the same time.

        Each sequence of ids is sent once, however many requests are about it.
        """
        for request in requests:
            if request.statistics:
                raise UnsupportedError(TOP_TOKENS_ONLY)
        members: dict[bytes, list[int]] = {}
        for index, request in enumerate(requests):
            members.setdefault(request.ids.astype(np.int64).tobytes(), []).append(index)
        groups = list(members.values())
        with ThreadPoolExecutor(REQUESTS_AT_A_TIME) as pool:
            firsts = [min(requests[index].first for index in group) for group in groups]
            ids = [requests[group[0]].ids for group in groups]
            for group, first, rows in zip(groups, firsts, pool.map(self._dialect.rows, ids, firsts), strict=True):
                for index in group:
                    request = requests[index]
                    yield index, scores_from_listing(rows[request.first - first :], request, atoms)

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Return the same as :meth:`score`: the server keeps what it likes."""
        return self.score(requests, atoms)
