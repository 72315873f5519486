"""How many tokens a network runs for given texts: a guard of the speed that needs no GPU.

What is asked beyond the texts starts from their kept states, padded as on a CPU or packed as on a GPU, and costs its
own tokens. Tokens are counted where they enter the network, padding included.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import shared
from tiny_models import build
from tolerances import float32_log_prob_tolerance
from wordprob.models.huggingface.model import HFModel
from wordprob.scoring.scorer import Scorer

STORY = [
    "Once upon a time there was a little girl named Lily. She loved to play outside in the park with her dog.",
    'One day, she saw a big red ball. "Look, Mom!" she said. "Can we take it home?"',
    "Her mom smiled and said that the ball belonged to a boy. Lily was sad, but she gave it back to him.",
    'The boy was very happy. He said, "Thank you, Lily. Do you want to play with me?" They played all day long.',
]
RARE = ["Grüße aus Zürich – “naïve” café…", "Она увидела знак. 她看见了那个标记。"]
"""Texts in which many tokens end in the middle of a character."""


@contextmanager
def counting(model):
    """Count the tokens that the network runs, and those that are asked for beyond contexts."""
    counts = SimpleNamespace(run=0, texts=0, beyond=0, contexts=0)
    open_, score = model.open, model.score

    def count(_, inputs, __):
        counts.run += inputs[0].numel()

    def watched(ask):
        def asked(requests, *arguments):
            for request in requests:
                has_context = request.n_context > 0
                counts.texts += 0 if has_context else len(request.ids)
                counts.beyond += len(request.ids) - request.n_context if has_context else 0
                counts.contexts += request.n_context
            return ask(requests, *arguments)

        return asked

    hook = model.network.get_input_embeddings().register_forward_hook(count)
    model.open, model.score = watched(open_), watched(score)
    try:
        yield counts
    finally:
        hook.remove()
        del model.open, model.score


def packed_twin(model):
    """Return the same network, run as on a GPU."""
    twin = HFModel(model.network, model.tokenizer, model.metadata, packed=True)
    assert twin.capabilities.keeps_states
    return twin


@pytest.mark.parametrize("words", ["whitespace", "punctuation"])
@pytest.mark.parametrize("name", ["pythia", "llama2", "mistral"])
def test_packed_questions_run_their_own_tokens_and_nothing_else(name, words, tokenizer_of):
    model = build(name, tokenizer_of, packed=True)
    texts = STORY + RARE
    with counting(model) as kept:
        found = Scorer(model).score(texts, words, unit="nats")["surprisal"].to_numpy()
    n_tokens = sum(1 + len(tokens.ids) for tokens in model.tokenizer.encode(texts))
    assert kept.texts == n_tokens
    assert kept.beyond > 0
    assert kept.run == n_tokens + kept.beyond
    model.prefix_cache.usable = False
    with counting(model) as in_full:
        expected = Scorer(model).score(texts, words, unit="nats")["surprisal"].to_numpy()
    assert in_full.run == n_tokens + in_full.beyond + in_full.contexts
    assert in_full.contexts > in_full.beyond, "questions have contexts that are not run again"
    assert np.allclose(found, expected, atol=float32_log_prob_tolerance(model, log_probs=20), equal_nan=True)


def test_worker_processes_ask_from_kept_states_too(tokenizer_of):
    model = build("mistral", tokenizer_of, packed=True)
    with counting(model) as threads:
        expected = Scorer(model).score(STORY + RARE, "punctuation", unit="nats")["surprisal"].to_numpy()
    with counting(model) as workers:
        found = Scorer(model).score(STORY + RARE, "punctuation", unit="nats", readers=2)["surprisal"].to_numpy()
    assert workers.run == workers.texts + workers.beyond == threads.run
    assert np.allclose(found, expected, atol=float32_log_prob_tolerance(model, log_probs=20), equal_nan=True)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("words", "most"), [("whitespace", 1.04), ("punctuation", 1.10)])
def test_a_model_in_its_own_domain_runs_few_more_tokens_than_the_texts_have(load_model, packed, words, most):
    model = load_model("stories15M").model
    model = packed_twin(model) if packed else model
    with counting(model) as counts:
        Scorer(model).score(STORY, words)
    assert counts.run <= most * counts.texts, (counts.run, counts.texts)


@pytest.mark.parametrize("packed", [False, True])
def test_the_default_model_runs_few_more_tokens_than_paragraphs_have(smollm2, packed):
    lines = shared("data/text/wikipedia_sample.txt").read_text(encoding="utf-8").split("\n")
    paragraphs = [line for line in lines if 200 < len(line) < 400][:5]
    model = packed_twin(smollm2.model) if packed else smollm2.model
    with counting(model) as counts:
        Scorer(model).score(paragraphs)
    assert counts.run <= 1.15 * counts.texts, (counts.run, counts.texts)
