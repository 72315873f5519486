"""Small tokenisers of every family and a model with random weights, made in the test: nothing is downloaded."""

from __future__ import annotations

import numpy as np

from wordprob.models.protocol import scores_from_logits

LETTERS = "ab"
MARKS = "▁.,"
MERGES = [("a", "b"), ("▁", "a"), ("▁a", "b"), ("b", "a"), ("ab", "a"), (".", "."), ("▁", "b")]
SPECIAL = ["<s>", "</s>", "<unk>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
FAMILIES = ("first", "always", "never", "byte fallback", "unigram", "byte-level")


class BigramLM:
    """A token bigram with random weights, over any tokeniser.

    Parameters
    ----------
    tokenizer
        The tokeniser; its document-start token is never predicted.
    seed, spread
        Of the random logits.
    cut_off_logit
        Added to tokens that hold no whole character.
    """

    batch_tokens = 512
    max_tokens = None
    metadata = {"model": "bigram"}  # noqa: RUF012

    def __init__(self, tokenizer, seed=0, spread=1.5, cut_off_logit=-25.0):
        self.tokenizer = tokenizer
        vocabulary = tokenizer.vocabulary
        self.vocab_size = vocabulary.size
        self._logits = np.random.default_rng(seed).normal(0.0, spread, (self.vocab_size, self.vocab_size))
        for token, piece in enumerate(vocabulary.token_bytes):
            if any(byte >= 0x80 for byte in piece):
                self._logits[:, token] += cut_off_logit
        if vocabulary.start not in vocabulary.ends:
            self._logits[:, vocabulary.start] = -np.inf

    def distribution(self, last):
        """Return p(next id) after an id."""
        weights = np.exp(self._logits[last])
        return weights / weights.sum()

    def score(self, requests, atoms):
        for number, request in enumerate(requests):
            yield number, scores_from_logits(self._logits[request.ids[request.first :]], request, atoms)

    def open(self, requests, atoms, states=None):
        return self.score(requests, atoms)


def small_tokenizer(family):
    """Return a tokeniser with a few tokens."""
    from transformers import PreTrainedTokenizerFast

    from wordprob.models.huggingface.tokenizer import HFTokenizer

    backend = _byte_level() if family == "byte-level" else _unigram() if family == "unigram" else _metaspace(family)
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": None if family == "byte-level" else "<unk>"}
    return HFTokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, **special))


def _metaspace(family):
    from tokenizers import Tokenizer, models, pre_tokenizers

    fallback = BYTES if family == "byte fallback" else []
    tokens = [*SPECIAL, *fallback, *LETTERS, *MARKS, *("".join(pair) for pair in MERGES)]
    vocab = {token: number for number, token in enumerate(tokens)}
    backend = Tokenizer(models.BPE(vocab, MERGES, unk_token="<unk>", byte_fallback=bool(fallback)))
    scheme = "first" if family == "byte fallback" else family
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    return backend


def _unigram():
    from tokenizers import Tokenizer, models, pre_tokenizers

    pieces = [*LETTERS, *MARKS, *("".join(pair) for pair in MERGES)]
    scores = [(piece, -1.0 / len(piece) - 0.1 * number) for number, piece in enumerate(pieces)]
    backend = Tokenizer(models.Unigram([*((name, 0.0) for name in SPECIAL), *scores], SPECIAL.index("<unk>")))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    return backend


def _byte_level():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    merges = [(left.replace("▁", "Ġ"), right) for left, right in MERGES]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<s>", "</s>", *alphabet, *("".join(pair) for pair in merges)]
    backend = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend
