"""Long contexts that many texts share: tokenized once, and no part of the texts; no number depends on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import wordprob
from conftest import SMALL_TOKENIZERS, TOKENIZERS
from small_tokenizers import transformers_tokenizer
from tiny_models import build
from wordprob.covers.search import Prefixes
from wordprob.models.huggingface.tokenizer import HFTokenizer
from wordprob.options import ScoringOptions
from wordprob.scoring import shared_contexts
from wordprob.scoring.contexts import TextContexts
from wordprob.scoring.continuations import continuations_of, with_heads
from wordprob.scoring.passages import Chunk, choose_words
from wordprob.scoring.requests import prefix_ids, window_requests
from wordprob.scoring.shared_contexts import encode_sharing, heads_of

SENTENCE = "It was in the evening that she came home, and nobody had seen her since the day before; a naïve “guess”."
CONTEXT = f"{' '.join([SENTENCE] * 7)} In the garden of the old house"
AFTER = ["she", "was, as", "nobody", 'said, "no."', "Elizabeth's", "naïve", "she"]
TEXTS = [f"{CONTEXT} {after}" for after in AFTER] + ["Another text", CONTEXT]
LENGTHS = [len(CONTEXT) + 1] * len(AFTER) + [8, len(CONTEXT)]
FAMILIES = ["pythia", "llama2", "llama3"]
"""Tokenizers that write a space before a word, one of which puts a space before every text."""


@pytest.fixture(scope="module", params=FAMILIES)
def scorer(request, tokenizer_of):
    return wordprob.Scorer(build(request.param, tokenizer_of))


def heads(scorer, max_text_tokens=None):
    contexts = [text[:length] for text, length in zip(TEXTS, LENGTHS, strict=True)]
    return heads_of(TEXTS, contexts, scorer.model.tokenizer, max_text_tokens)


def whole_contexts(monkeypatch):
    """Take texts as they are."""
    monkeypatch.setattr(shared_contexts, "MIN_CONTEXT_CHARACTERS", 1 << 20)
    monkeypatch.setattr(shared_contexts, "_last_cut", lambda text, end, tokenizer: None)


@pytest.mark.parametrize(
    "options", [{}, {"words": "punctuation", "extras": ["token_entropy", "token_rank"]}, {"spellings": "all"}]
)
def test_no_value_depends_on_the_head_of_a_context(scorer, monkeypatch, options):
    with_head = scorer.score_continuations(CONTEXT, AFTER, **options)
    assert all(len(head.ids) > 50 for head in heads(scorer)[: len(AFTER)])
    whole_contexts(monkeypatch)
    assert not any(len(head.ids) for head in heads(scorer))
    without = scorer.score_continuations(CONTEXT, AFTER, **options)
    for frame, other in ((with_head.to_pandas(), without.to_pandas()), (with_head.texts(), without.texts())):
        for column in frame.columns:
            if frame[column].dtype.kind in "fiu":
                found, expected = frame[column].to_numpy(float), other[column].to_numpy(float)
                limit = 0.011 if "_all" in column or column == "prefixes_opened" else 1e-4
                assert np.allclose(found, expected, rtol=1e-5, atol=limit, equal_nan=True), column
            else:
                assert frame[column].tolist() == other[column].tolist(), column


def test_a_context_is_tokenized_once(scorer, monkeypatch):
    tokenizer = scorer.model.tokenizer
    encode = type(tokenizer).encode
    n_characters = 0

    def counting(self, texts):
        nonlocal n_characters
        n_characters += sum(map(len, texts))
        return encode(self, texts)

    candidates = [f"{word} {number}" for number in range(50) for word in AFTER]
    scorer.score_continuations(CONTEXT, candidates[:7])
    monkeypatch.setattr(type(tokenizer), "encode", counting)
    scorer.score_continuations(CONTEXT, candidates)
    assert n_characters < 0.3 * len(candidates) * len(CONTEXT)


def prepared_continuations(scorer, max_text_tokens):
    texts = continuations_of(CONTEXT, [*AFTER, " ".join(AFTER)], None, " ", crossed=False)
    choice = choose_words("whitespace", "rule", texts.passages, after_contexts=True)
    settings = replace(scorer.settings(ScoringOptions()), max_text_tokens=max_text_tokens)
    passages = with_heads(choice, texts.contexts, scorer.model.tokenizer, max_text_tokens)
    return scorer.preparer(choice.definition).prepare(Chunk(passages, shares_context=True), settings)


@pytest.mark.parametrize("max_text_tokens", [None, 90])
def test_requests_have_the_ids_before_the_end_of_their_window(scorer, max_text_tokens):
    prepared = prepared_continuations(scorer, max_text_tokens)
    asked = window_requests(prepared)
    windows = [(text, window) for text, of_text in enumerate(prepared.windows) for window in of_text]
    expected = [prefix_ids(prepared, text, window, window.last + 1).tolist() for text, window in windows]
    found = [request.ids.tolist() for request in asked.requests]
    assert found == [ids for ids in expected if ids in found]
    assert set(asked.texts.tolist()) == set(range(len(AFTER) + 1))


@pytest.mark.parametrize("max_text_tokens", [None, 90])
def test_what_does_not_fit_is_left_out_of_the_beginning(scorer, max_text_tokens):
    prepared = prepared_continuations(scorer, max_text_tokens)
    lengths = np.diff(prepared.alignment.token_offsets).tolist()
    places = [(text, row) for text, length in enumerate(lengths) for row in range(0, length + 1, 3)]
    texts, rows = np.array(places).T
    endings = [tuple(range(n % 3)) for n in range(len(places))]
    numbers, batch_rows = np.arange(len(places)), rows + prepared.alignment.token_offsets[texts] + texts
    prefixes = Prefixes.scored(numbers, batch_rows, np.zeros(len(places)), [None] * len(places), endings)
    found = TextContexts(prepared, shortens=True).sequences(prefixes)
    n_start = len(prepared.start_ids)
    for number, ((text, row), ending) in enumerate(zip(places, endings, strict=True)):
        window = [each for each in prepared.windows[text] if each.first <= row][-1]
        whole = [*prefix_ids(prepared, text, window, row).tolist(), *ending]
        kept = whole[n_start:] if max_text_tokens is None else whole[n_start:][-max_text_tokens:]
        assert found.ids_of(number).tolist() == whole[:n_start] + kept


def test_a_text_that_may_not_fit_keeps_its_head(scorer):
    """A head is never cut off, so text and head must fit into the model's context whatever the tokens are."""
    assert all(len(head.ids) for head in heads(scorer)[: len(AFTER)])
    n_head = len(heads(scorer)[0].ids)
    n_bytes = [len(text[heads(scorer)[0].stop :].encode()) + 1 for text in TEXTS[: len(AFTER)]]
    limit = n_head + sorted(n_bytes)[3]
    found = heads(scorer, limit)[: len(AFTER)]
    assert [bool(len(head.ids)) for head in found] == [n_head + count <= limit for count in n_bytes]


def test_texts_longer_than_the_model_reads(scorer, monkeypatch):
    monkeypatch.setattr(scorer.model, "max_tokens", 150)
    table = scorer.score_continuations(CONTEXT, AFTER).to_pandas()
    last = scorer.score(TEXTS[: len(AFTER)]).to_pandas()
    last = last[last["start"] > len(CONTEXT)].reset_index(drop=True)
    assert table["context_tokens"].tolist() == last["context_tokens"].tolist()
    assert np.allclose(table["surprisal"], last["surprisal"], rtol=1e-5, atol=1e-4)


def test_a_model_without_a_start_token(tokenizer_of, monkeypatch):
    tokenizer = HFTokenizer(transformers_tokenizer("small-gpt-neox"), bos="none")
    model = build("pythia", lambda name: tokenizer)
    scorer = wordprob.Scorer(model)
    found = scorer.score_continuations(CONTEXT, AFTER).to_pandas()
    whole_contexts(monkeypatch)
    expected = scorer.score_continuations(CONTEXT, AFTER).to_pandas()
    assert np.allclose(found["surprisal"], expected["surprisal"], rtol=1e-5, atol=1e-4)
    assert found["context_tokens"].tolist() == expected["context_tokens"].tolist()


@pytest.mark.parametrize("name", [*SMALL_TOKENIZERS, *TOKENIZERS])
def test_tokens_of_texts_with_a_shared_context(tokenizer_of, name):
    tokenizer = tokenizer_of(name)
    found = encode_sharing(tokenizer, TEXTS, LENGTHS)
    for tokens, expected in zip(found, tokenizer.encode(TEXTS), strict=True):
        assert tokens.ids.tolist() == expected.ids.tolist()
        assert tokens.starts.tolist() == expected.starts.tolist()
        assert tokens.ends.tolist() == expected.ends.tolist()
        assert tokens.exact == expected.exact
