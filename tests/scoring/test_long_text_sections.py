"""One long text in sections: every word has its context, and values depend on nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import wordprob
from made_up_text import book
from random_lm import RandomLM
from wordprob import Scorer
from wordprob.core.text import Document
from wordprob.core.words import define
from wordprob.models.protocol import Capabilities
from wordprob.options import ScoringOptions
from wordprob.scoring import long_text
from wordprob.scoring import scorer as scorer_module
from wordprob.scoring.passages import Chunk, Passage


@pytest.fixture(autouse=True)
def no_reading_on(monkeypatch):
    """Cut-off characters have much mass under a random model; reading them on has tests of its own and takes long."""
    monkeypatch.setattr(RandomLM, "capabilities", Capabilities(precision_nats=1e9), raising=False)


@pytest.fixture
def long():
    return book(6000)


@pytest.fixture
def small_sections(monkeypatch):
    """Let sections begin at a few hundred characters."""
    monkeypatch.setattr(scorer_module, "CHARACTERS_PER_BATCH_TOKEN", 1)
    monkeypatch.setattr(scorer_module, "FIRST_CHUNK_CHARACTERS", 1)
    monkeypatch.setattr(long_text, "SECTION_CHARACTERS_PER_WINDOW_TOKEN", 1)


def sections_of(scorer, text, words):
    settings = scorer.settings(ScoringOptions(words))
    return long_text.sections(
        Passage(Document(0, text)), define(words), scorer.model.tokenizer, settings, scorer.model.batch_tokens
    )


@pytest.mark.parametrize("name", ["small-gpt-neox", "small-llama2"])
@pytest.mark.parametrize("words", ["whitespace", "punctuation"])
def test_sections_give_what_the_whole_text_gives(name, words, long, small_sections, monkeypatch, tokenizer_of):
    texts = ["Short.", long, "", "Another short one.", long[:1500] + "“No – she said.”"]
    scorer = Scorer(RandomLM(tokenizer_of(name), max_tokens=65, memory=1))
    assert len(sections_of(scorer, long, words)) > 8
    in_sections = scorer.score(texts, words, unit="nats")
    monkeypatch.setattr(scorer_module, "sections", lambda passage, *_: [Chunk([passage])])
    whole = scorer.score(texts, words, unit="nats")
    left, right = (table.to_pandas().drop(columns="context_tokens") for table in (in_sections, whole))
    pd.testing.assert_frame_equal(left, right, rtol=1e-10)
    pd.testing.assert_frame_equal(in_sections.texts(), whole.texts(), rtol=1e-9, atol=1e-8)
    assert in_sections.texts()["conservation"].abs().max() < 1e-8
    assert in_sections.texts()["n_words"][1] == len(left[left["text_id"] == 1]) > 900
    assert (left["word"] == [texts[t][a:b] for t, a, b in zip(left.text_id, left.start, left.end, strict=True)]).all()


def test_every_word_of_a_section_has_its_context(long, small_sections, tokenizer_of):
    scorer = Scorer(RandomLM(tokenizer_of("small-llama2"), max_tokens=65))
    for least in (5, 32, 60):
        context = scorer.score(long[:3000], min_context=least).to_pandas()["context_tokens"]
        assert context[60:].min() >= least
        assert context.max() < 64


def test_values_depend_on_the_tokens_in_the_window_only(long, small_sections, load_model, monkeypatch):
    """What a real model says about a word depends on the tokens it saw, not on where a section began."""
    scorer = load_model("small-llama2")
    monkeypatch.setattr(scorer.model, "max_tokens", 48)
    assert len(sections_of(scorer, long[:3000], "whitespace")) > 3
    table = scorer.score(long[:3000], unit="nats")
    frame = table.to_pandas()
    assert np.array_equal(frame["after"][:-1], frame["before"][1:]), "one boundary between two words"
    assert table.texts()["log_prob_words"][0] == pytest.approx(-frame["surprisal"].sum(), abs=1e-3)
    assert table.texts()["n_scored"][0] == len(frame)
    tokens = scorer.model.tokenizer.encode([long[:3000]])[0]
    start = scorer.model.tokenizer.vocabulary.start
    firsts = np.cumsum(frame["n_tokens"]) - frame["n_tokens"]
    for n in range(100, len(frame), 97):
        n_context = frame["context_tokens"][n]
        ids = tokens.ids[firsts[n] - n_context : firsts[n] + frame["n_tokens"][n]].tolist()
        log_probs = full_log_probs(scorer.model, [start, *ids])
        naive = -sum(log_probs[k, ids[k]] for k in range(n_context, len(ids)))
        assert frame["surprisal_naive"][n] == pytest.approx(naive, abs=1e-3)


def full_log_probs(model, ids):
    """Return the log-distribution after every prefix, from the network itself."""
    import torch

    with torch.inference_mode():
        logits = model.network(torch.tensor([ids])).logits[0]
    return torch.log_softmax(logits.double(), dim=-1).numpy()


def test_what_cannot_be_cut_stays_whole(long):
    scorer = wordprob.load("exact:bow")
    assert len(sections_of(scorer, long, "whitespace")) == 1


def test_a_text_that_fits_is_one_window(long, small_sections, tokenizer_of):
    scorer = Scorer(RandomLM(tokenizer_of("small-gpt2"), max_tokens=4096))
    assert scorer.score(long[:2000]).to_pandas()["context_tokens"].is_monotonic_increasing
    assert len(sections_of(scorer, long, r"regex:\w+( \w+)?")) == 1, "a word may go on over a space"
