"""Masked language models, such as BERT: log p of tokens that are masked, given what is on both sides.

These are no probabilities of a text: the tokens of a text are predicted one by one, each from all others, so that the
product is the probability of nothing. What is summed over a word is its *pseudo*-log-likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.atoms import Atoms
from wordprob.errors import ModelError, UnsupportedError
from wordprob.models import threads
from wordprob.models.batching import padded_batches
from wordprob.models.huggingface.forward import Forward
from wordprob.models.huggingface.tokenizer import HFTokenizer
from wordprob.models.protocol import NO_NEXT_TOKEN, Capabilities, PrefixStates, Request, Scores

RESERVED_POSITIONS = {"roberta": 2, "xlm-roberta": 2, "xlm-roberta-xl": 2, "camembert": 2, "longformer": 2, "mpnet": 2}
"""Positions of the declared context that hold no token: some kinds count positions from the padding's id on."""


@dataclass(frozen=True)
class MaskedToken:
    """A token that is to be predicted.

    Attributes
    ----------
    ids
        The tokens of the text, without special tokens.
    place
        Which of them is predicted.
    masked
        Which of them are masked; ``place`` is one.
    """

    ids: Ints
    place: int
    masked: Sequence[int]


class MaskedModel:
    """A masked language model and its tokenizer.

    Parameters
    ----------
    network
        A transformers model with a head for masked tokens.
    tokenizer
        Its tokenizer.
    metadata
        Where it came from.
    masking
        What is masked with a token: ``within_word_l2r`` or ``original``; see
        :class:`wordprob.options.ModelOptions`.
    """

    capabilities = Capabilities(predicts_next_token=False)

    def __init__(
        self, network: Any, tokenizer: HFTokenizer, metadata: Mapping[str, str], masking: str = "within_word_l2r"
    ) -> None:
        threads.torch_is_used()
        self.network = network
        self.tokenizer = tokenizer
        self.masking = masking
        self.metadata = {**metadata, "kind": "masked", "masking": masking}
        self._name = self.metadata.get("model", "the model")
        self._forward = Forward(network)
        self._mask_id = tokenizer.transformers_tokenizer.mask_token_id
        if self._mask_id is None:
            raise ModelError(f"the tokeniser of {self._name} has no mask token, which a masked model needs.")
        self._before, self._after = _special_ids(tokenizer)
        declared = int(network.config.max_position_embeddings)
        self.max_tokens: int | None = declared - RESERVED_POSITIONS.get(network.config.model_type, 0)
        self.vocab_size = self._check_logits()

    @property
    def batch_tokens(self) -> int:
        """How many tokens are run at a time."""
        return self._forward.budget.tokens

    @property
    def max_text_tokens(self) -> int:
        """How many tokens of a text fit between the special tokens."""
        return (self.max_tokens or 0) - len(self._before) - len(self._after)

    def log_probs(self, tokens: Sequence[MaskedToken]) -> Floats:
        """Return log p of each token that is predicted, in nats."""
        import torch

        rows = [self._row(token) for token in tokens]
        found = np.full(len(tokens), np.nan)
        for batch in padded_batches([len(row) for row in rows], self.batch_tokens):
            ids, mask = self._forward.pad([rows[index] for index in batch])
            places = torch.tensor([len(self._before) + tokens[index].place for index in batch], device=ids.device)
            targets = torch.tensor([int(tokens[index].ids[tokens[index].place]) for index in batch], device=ids.device)
            with self._forward.ready():
                logits = self.network(input_ids=ids, attention_mask=mask).logits
                chosen = logits[torch.arange(len(batch), device=ids.device), places].double()
                values = torch.log_softmax(chosen, dim=-1).gather(1, targets[:, None])[:, 0]
            found[batch] = values.cpu().numpy()
        if not np.isfinite(found).all():
            raise ModelError(f"{self._name} returned logits that are not finite numbers; a wider `dtype` may help.")
        return found

    def _row(self, token: MaskedToken) -> Ints:
        ids = token.ids.copy()
        ids[list(token.masked)] = self._mask_id
        return np.concatenate([self._before, ids, self._after])

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Raise: a masked model has no distribution of the next token."""
        raise UnsupportedError(NO_NEXT_TOKEN.format(name=self._name))

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Raise: a masked model has no distribution of the next token."""
        return self.score(requests, atoms)

    def _check_logits(self) -> int:
        """Return how many logits a token has; raise unless all of the tokenizer's tokens have one."""
        import torch

        kind = type(self.network).__name__
        ids = torch.tensor([[*self._before, self._mask_id, *self._after]], device=self._forward.device)
        with self._forward.ready():
            logits = getattr(self.network(input_ids=ids), "logits", None)
        if logits is None or logits.shape[:2] != ids.shape:
            raise UnsupportedError(
                f"{self._name} ({kind}) does not return logits for every token. Load it with "
                "transformers.AutoModelForMaskedLM."
            )
        size = self.tokenizer.vocabulary.size
        if size > logits.shape[2]:
            raise ModelError(
                f"the tokeniser of {self._name} has {size} tokens, but the model's head only {logits.shape[2]}. Use "
                "the tokeniser that the model was trained with."
            )
        return int(logits.shape[2])


def _special_ids(tokenizer: HFTokenizer) -> tuple[Ints, Ints]:
    """Return the ids that a tokenizer puts before and after a text."""
    transformers_tokenizer = tokenizer.transformers_tokenizer
    with_special = list(transformers_tokenizer("a")["input_ids"])
    plain = list(transformers_tokenizer("a", add_special_tokens=False)["input_ids"])
    for before in range(len(with_special) - len(plain) + 1):
        if with_special[before : before + len(plain)] == plain:
            after = with_special[before + len(plain) :]
            return np.array(with_special[:before], dtype=np.int64), np.array(after, dtype=np.int64)
    return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
