"""Encoder–decoder models, such as T5 and BART: the words of a target given a source.

The decoder is a causal model of the target, so everything that holds for causal models holds for it, the correction at
the boundaries of words too. :class:`DecoderGivenSource` makes it look like one: the source is encoded once, and every
batch of targets is run with its states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wordprob.core.atoms import Atoms
from wordprob.errors import InputError, ModelError, OptionError
from wordprob.models.huggingface.forward import Forward
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.tokenizer import HFTokenizer
from wordprob.models.protocol import NEEDS_SOURCE, Capabilities, PrefixStates, Request, Scores

PROBE_SOURCE = "She saw the mark."
"""The source that a model is tried on when it is opened."""


class DecoderGivenSource:
    """A decoder and the states of its source, with what :class:`HFModel` needs of a causal network.

    Parameters
    ----------
    network
        A transformers model with an encoder and a decoder.
    """

    def __init__(self, network: Any) -> None:
        self._network = network
        self._ready = Forward(network).ready
        self._states: Any = None
        self._mask: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def get_output_embeddings(self) -> None:
        """Return nothing, so that the network's own logits are taken: some scale the states before the head."""
        return

    def encode(self, source_ids: Sequence[int]) -> None:
        """Run the encoder on a source; targets are run with its states from now on."""
        import torch

        ids = torch.tensor([list(source_ids)], device=self._network.device)
        self._mask = torch.ones_like(ids)
        with self._ready():
            self._states = self._network.get_encoder()(input_ids=ids, attention_mask=self._mask)[0]

    def __call__(self, input_ids: Any, attention_mask: Any = None) -> Any:
        """Run the decoder on targets."""
        from transformers.modeling_outputs import BaseModelOutput

        count = len(input_ids)
        return self._network(
            encoder_outputs=BaseModelOutput(last_hidden_state=self._states.expand(count, -1, -1)),
            attention_mask=self._mask.expand(count, -1),
            decoder_input_ids=input_ids,
            decoder_attention_mask=attention_mask,
            use_cache=False,
        )


class EncoderDecoderModel(HFModel):
    """An encoder–decoder model: a causal model of the target once a source is set."""

    def __init__(self, network: Any, tokenizer: HFTokenizer, metadata: Mapping[str, str]) -> None:
        decoder = DecoderGivenSource(network)
        self._decoder = decoder
        self.source: str | None = None
        decoder.encode(tokenizer.transformers_tokenizer(PROBE_SOURCE)["input_ids"])
        # With every source it is another model of targets, so nothing is remembered from one to the next.
        super().__init__(decoder, tokenizer, {**metadata, "kind": "encoder-decoder"}, may_change=True)

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do."""
        return replace(super().capabilities, needs_source=True, has_source=self.source is not None)

    def set_source(self, source: str | None) -> None:
        """Set the source that the targets of the following calls belong to; ``None`` for none."""
        self.source = source
        if source is None:
            return
        ids = self.tokenizer.transformers_tokenizer(source)["input_ids"]
        most = getattr(self.network.config, "max_position_embeddings", None)
        if isinstance(most, int) and len(ids) > most:
            raise InputError(f"a source has {len(ids)} tokens, and the model's encoder takes {most}: {source!r:.60}")
        self._decoder.encode(ids)

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Return the scores of targets, given the source."""
        self.require_source()
        return super().score(requests, atoms)

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Return the scores of targets, given the source."""
        self.require_source()
        return super().open(requests, atoms, states)

    def require_source(self) -> None:
        """Raise, unless a source is set."""
        if self.source is None:
            raise OptionError(NEEDS_SOURCE.format(name=self.metadata.get("model", "the model")))


def target_start_ids(network: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return what the decoder sees before every target: its start token, and what the tokenizer puts before a text."""
    start = getattr(network.config, "decoder_start_token_id", None)
    if start is None:
        start = getattr(getattr(network, "generation_config", None), "decoder_start_token_id", None)
    if start is None:
        raise ModelError(
            f"the configuration of {type(network).__name__} has no decoder_start_token_id, so it is not known what a "
            "target begins with; set it."
        )
    with_special = list(tokenizer("a")["input_ids"])
    plain = list(tokenizer("a", add_special_tokens=False)["input_ids"])
    before = with_special[: with_special.index(plain[0])] if plain and plain[0] in with_special else []
    return (int(start), *map(int, before))
