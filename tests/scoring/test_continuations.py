"""Candidates after a context: the values of whole texts, the context computed once."""

from __future__ import annotations

import numpy as np
import pytest

import wordprob
from wordprob.errors import AlignmentError, InputError
from wordprob.models.exact import FAMILIES, ExactLM
from wordprob.scoring.shared_contexts import MIN_CONTEXT_CHARACTERS

CONTEXT = "It was in the evening that she"
WORDS = ["came", "walked", "was", "remembered", 'said, "no."', "went home", "Elizabeth's", "."]


@pytest.mark.parametrize("family", FAMILIES)
def test_followers_of_a_context_add_up_to_one(family):
    """All words that can come next, and the end: the boundary before the first is divided out."""
    model = ExactLM.bigram(family, longest=4)
    scorer = wordprob.Scorer(model)
    true = model.followers("She saw", "punctuation")
    words = [w for w in true if w != "<end>"]
    rests = [next(t for t in model.texts if t.startswith(f"She saw{w}"))[7:] for w in words]
    table = scorer.score_continuations("She saw", rests, "punctuation", unit="nats", separator="").to_pandas()
    found = np.exp(-table.groupby("text_id")["surprisal"].first().to_numpy())
    assert np.abs(found - [true[w] for w in words]).max() < 1e-12
    assert found.sum() + true.get("<end>", 0.0) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", ["small-bow", "small-eow", "small-llama2"])
@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
@pytest.mark.parametrize("times", [1, 16])
def test_values_are_those_of_whole_texts(load_model, name, definition, times):
    """Of a long context, most is only ids that the model sees first."""
    scorer = load_model(name)
    words = [*WORDS[:-1], "half-way", "—no", '"quoted"', "été", "x" * 50]
    context = " ".join([CONTEXT] * times)
    assert (len(context) > MIN_CONTEXT_CHARACTERS) == (times > 1)
    table = scorer.score_continuations(context, words, definition, unit="nats")
    frame, begin = table.to_pandas(), len(context) + 1
    whole = scorer.score([f"{context} {w}" for w in words], definition, unit="nats").to_pandas()
    whole = whole[whole["start"] >= begin].reset_index(drop=True)
    assert frame["word"].tolist() == whole["word"].tolist()
    for column in ("surprisal", "surprisal_naive", "before", "after"):
        assert np.allclose(frame[column], whole[column], atol=1e-4, equal_nan=True), column
    assert frame["start"].tolist() == (whole["start"] - begin).tolist()
    assert frame["context_tokens"].tolist() == whole["context_tokens"].tolist()
    assert table.texts()["conservation"].dropna().abs().max() < 1e-3


def test_the_context_is_run_once(load_model, monkeypatch):
    """Also where the candidates are scored in several chunks: its states are kept between them."""
    scorer = load_model("small-bow")
    candidates = [f"word{n}" for n in range(50)]
    before = scorer.model.prefix_cache.contexts_run
    at_once = scorer.score_continuations(CONTEXT * 5, candidates).to_pandas()
    assert scorer.model.prefix_cache.contexts_run == before + 1
    monkeypatch.setattr("wordprob.scoring.scorer.SHARED_CONTEXT_CHARACTERS", 2000)
    in_chunks = scorer.score_continuations(CONTEXT * 5, candidates).to_pandas()
    assert scorer.model.prefix_cache.contexts_run == before + 2
    assert np.allclose(at_once["surprisal"], in_chunks["surprisal"], atol=1e-3)


@pytest.mark.parametrize("name", ["small-bow", "small-llama2"])
def test_other_spellings_of_candidates_go_on_from_the_context(load_model, name, monkeypatch):
    """Also those that leave a candidate after its first token, and characters that are cut off there."""
    scorer = load_model(name)
    candidates = [
        f"{word}{mark}" for word in ("word", "said", "marker", "été") for mark in ("", ".", '."', "'s", "...", "?!")
    ]
    cache, open_ = scorer.model.prefix_cache, scorer.model.open
    asked = []
    monkeypatch.setattr(
        scorer.model, "open", lambda requests, *rest: asked.append(len(requests)) or open_(requests, *rest)
    )
    before = cache.contexts_run
    found = scorer.score_continuations(CONTEXT * 3, candidates, "punctuation", unit="nats").to_pandas()
    assert cache.contexts_run == before + 1
    assert sum(asked) > len(candidates)
    monkeypatch.undo()
    whole = scorer.score([f"{CONTEXT * 3} {each}" for each in candidates], "punctuation", unit="nats").to_pandas()
    whole = whole[whole["start"] > len(CONTEXT * 3)]
    assert np.allclose(found["surprisal"], whole["surprisal"], atol=1e-4)


@pytest.mark.parametrize("name", ["small-bow", "small-eow"])
def test_words_of_continuations_may_be_given(load_model, name):
    scorer = load_model(name)
    by_rule = scorer.score_continuations(CONTEXT, ["can't.", "said no"], "punctuation").to_pandas()
    lists = [["can", "'t", "."], ["said", "no"]]
    given = scorer.score_continuations(CONTEXT, ["can't.", "said no"], lists, boundary="punctuation").to_pandas()
    assert given["word"].tolist() == by_rule["word"].tolist()
    assert given["start"].tolist() == by_rule["start"].tolist()
    assert np.allclose(given["surprisal"], by_rule["surprisal"], atol=1e-3)
    with pytest.raises(AlignmentError, match="continuation 0: word 2"):
        scorer.score_continuations(CONTEXT, ["can't."], [["can", "not"]])


def test_an_empty_context_is_a_beginning(load_model):
    scorer = load_model("small-bow")
    given = scorer.score_continuations("", ["She", "It"]).to_pandas()
    alone = scorer.score(["She", "It"]).to_pandas()
    assert np.allclose(given["surprisal"], alone["surprisal"], atol=1e-6)


def test_a_continuation_must_begin_a_word(load_model):
    with pytest.raises(InputError, match="goes on with the context's last word"):
        load_model("small-bow").score_continuations("the mark", ["er"], separator="")


def test_punctuation_may_follow_at_once(load_model):
    frame = load_model("small-bow").score_continuations("She saw it", [".", ","], "punctuation", separator="")
    assert frame.to_pandas()["surprisal"].notna().all()
