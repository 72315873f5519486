"""Texts that begin alike: what they share is run once, and every value is that of the text alone."""

from __future__ import annotations

import numpy as np
import pytest

import wordprob
from tiny_models import FAMILIES, build
from tolerances import float32_log_prob_tolerance
from wordprob.core.atoms import atoms_of
from wordprob.core.words import Whitespace
from wordprob.models.prefix_trees import grow_trees
from wordprob.models.protocol import PrefixStates, Request
from wordprob.scoring import shared_beginnings
from wordprob.scoring.shared_beginnings import share_beginnings

BEGINNINGS = [
    "It was in the evening that the old man",
    "She had never seen such a thing as the house",
    "There was nothing in the room except a",
]
ENDS = ["went home.", "went to bed, he said.", "fell", "was not there at all, she thought"]
TEXTS = [f"{beginning} {end}" for end in ENDS for beginning in BEGINNINGS] + ["No other text begins so.", "It"]
VALUES = ["surprisal", "surprisal_naive", "before", "after"]
MAX_DIFFERENCE_BITS = 1e-4


# --- rows as trees ----------------------------------------------------------------------------------------------------


def random_sequences(seed: int, count: int = 30) -> list[np.ndarray]:
    """Return sequences over few ids, so that many begin alike, some are equal and some contain others."""
    random = np.random.default_rng(seed)
    return [random.integers(0, 2, size=random.integers(1, 12)) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_the_paths_of_trees_are_the_sequences(seed):
    sequences = random_sequences(seed)
    trees = grow_trees(sequences)
    assert sorted(member for tree in trees for member in tree.members) == list(range(len(sequences)))
    for tree in trees:
        visible = tree.visible()
        for member, path in zip(tree.members, tree.paths, strict=True):
            assert tree.ids[path].tolist() == sequences[member].tolist()
            assert tree.positions[path].tolist() == list(range(len(path)))
            for place, token in enumerate(path.tolist()):
                assert np.flatnonzero(visible[token]).tolist() == sorted(path[: place + 1].tolist())


def test_trees_are_not_longer_than_attention_is_cheap():
    sequences = [np.array([1, 2, 3, 4, 5, n]) for n in range(1000)]
    trees = grow_trees(sequences)
    assert max(len(tree.ids) for tree in trees) <= 256
    assert sum(len(tree.ids) for tree in trees) < 1100
    beginning = np.arange(500)
    long = [np.append(beginning, np.full(400, 500 + n)) for n in range(4)]
    assert [len(tree.ids) for tree in grow_trees(long)] == [1700, 900], "twice as long as a sequence at most"
    assert len(grow_trees([np.append(np.arange(10), np.full(400, n)) for n in range(2)])) == 2


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_requests_that_share_rows_get_the_answers_they_get_alone(seed):
    """Masses of lists and statistics at shared rows are copied only if both requests want them."""
    model = wordprob.load("exact:leaky").model
    atoms = wordprob.Scorer(model).preparer(wordprob.core.words.define("punctuation")).atoms
    random = np.random.default_rng(seed)
    requests = []
    for ids in random_sequences(seed, 100):
        first = int(random.integers(0, 2)) if len(ids) > 2 else 0
        step = int(random.choice([2, 2, 3]))  # most, but not all, want the same
        gather = np.arange(first, len(ids), step)
        gather = np.concatenate([gather, gather[::2]])
        requests.append(
            Request(
                ids,
                first,
                gather=gather,
                gather_lists=np.arange(len(gather)) % 2,
                id_lists=[np.array([1, 2]), np.array([3])],
                statistics=("entropy", "rank"),
                statistics_rows=np.arange(first, len(ids) - 1, step),
            )
        )
    shared = share_beginnings(requests)
    assert shared.goes_on_from
    in_any_order = list(model.open(shared.asked, atoms))
    random.shuffle(in_any_order)
    found = dict(shared.complete(in_any_order))
    assert sorted(found) == list(range(len(requests)))
    for index, alone in model.score(requests, atoms):
        assert np.allclose(found[index].target, alone.target)
        assert np.allclose(found[index].mass, alone.mass)
        assert np.allclose(found[index].gathered, alone.gathered)
        for name, values in alone.statistics.items():
            assert np.allclose(found[index].statistics[name], values), name


@pytest.mark.parametrize("name", ["small-bow", "small-eow", "small-llama2"])
@pytest.mark.parametrize(
    "options", [{}, {"words": "punctuation", "extras": ["token_entropy", "token_rank"]}, {"spellings": "all"}]
)
def test_values_are_those_of_texts_alone(load_model, name, options):
    scorer = load_model(name)
    together = scorer.score(TEXTS, **options).to_pandas()
    alone = [scorer.score(text, **options).to_pandas() for text in TEXTS]
    for column in [column for column in together.columns if column not in ("text_id", "word", "note")]:
        expected = np.concatenate([frame[column].to_numpy(dtype=float) for frame in alone])
        values = together[column].to_numpy(dtype=float)
        # The search for all spellings may stop one step earlier or later.
        limit = 0.01 if "_all" in column or column == "prefixes_opened" else MAX_DIFFERENCE_BITS
        assert np.allclose(values, expected, rtol=0, atol=limit, equal_nan=True), column


def test_shared_tokens_are_run_once(load_model, monkeypatch):
    scorer = load_model("small-bow")
    cache = scorer.model.prefix_cache
    distinct = {tuple(ids[:n]) for ids in _token_ids(scorer) for n in range(1, len(ids) + 1)}
    before = cache.tokens_run
    scorer.score(TEXTS)
    n_run = cache.tokens_run - before
    n_tokens = sum(len(ids) for ids in _token_ids(scorer))
    assert n_run <= len(distinct) + len(TEXTS)
    assert n_run < 0.7 * n_tokens
    monkeypatch.setattr(cache, "shares_beginnings", False)
    scorer.score(TEXTS)
    assert cache.tokens_run - before - n_run == n_tokens


def _token_ids(scorer):
    start = scorer.model.tokenizer.vocabulary.start_ids
    return [[*start, *tokens.ids.tolist()] for tokens in scorer.model.tokenizer.encode(TEXTS)]


def test_texts_that_begin_alike_are_found_in_any_order(load_model, monkeypatch):
    """Also where there are more texts than are scored at a time: they are put into the same chunk."""
    scorer = load_model("small-bow")
    cache = scorer.model.prefix_cache
    before = cache.tokens_run
    expected = scorer.score(TEXTS).to_pandas()
    at_once = cache.tokens_run - before
    monkeypatch.setattr("wordprob.scoring.scorer.FIRST_CHUNK_CHARACTERS", 150)
    monkeypatch.setattr("wordprob.scoring.scorer.CHARACTERS_PER_BATCH_TOKEN", 0.3)
    in_chunks = scorer.score(TEXTS).to_pandas()
    assert cache.tokens_run - before - at_once < 1.5 * at_once
    assert in_chunks[["text_id", "word", "start"]].equals(expected[["text_id", "word", "start"]])
    assert np.allclose(in_chunks[VALUES], expected[VALUES], atol=MAX_DIFFERENCE_BITS, equal_nan=True)


def test_contexts_that_begin_alike_are_run_once(load_model):
    scorer = load_model("small-bow")
    cache = scorer.model.prefix_cache
    contexts = TEXTS[:-2]
    before = cache.tokens_run
    table = scorer.score_continuations(contexts, ["then"] * len(contexts)).to_pandas()
    n_run = cache.tokens_run - before
    assert n_run < 0.7 * sum(len(tokens.ids) + 1 for tokens in scorer.model.tokenizer.encode(contexts))
    last = scorer.score([f"{context} then" for context in contexts]).to_pandas().groupby("text_id").last()
    assert np.allclose(table["surprisal"], last["surprisal"], atol=MAX_DIFFERENCE_BITS)


def test_few_shared_tokens_are_not_worth_it():
    requests = [Request(np.array([1, 2, 3, 4])), Request(np.array([1, 2, 3, 5]))]
    assert not share_beginnings(requests).goes_on_from
    assert shared_beginnings.MIN_SHARED_TOKENS == 4


# --- every family of models -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_trees_give_what_sequences_give_alone(tokenizer_of, family):
    model = build(family, tokenizer_of)
    assert model.prefix_cache.shares_beginnings == model.prefix_cache.usable
    atoms = atoms_of(model.tokenizer.vocabulary, Whitespace(), model.vocab_size)
    ids = np.random.default_rng(0).integers(5, 400, 30)
    ends = [ids[:6], ids[10:13], ids[10:17], ids[20:21], ids[:6]]
    requests = [Request(np.concatenate([ids[:5], end]), context_tokens=0) for end in ends]
    states = PrefixStates()
    found = dict(model.open(requests, atoms, states))
    tolerance = float32_log_prob_tolerance(model)
    for index, alone in model.score(requests, atoms):
        assert np.allclose(found[index].target, alone.target, atol=tolerance)
        assert np.allclose(found[index].mass, alone.mass, atol=tolerance)
    # What goes on from the states that were kept.
    further = [Request(np.append(request.ids, 7), first=len(request.ids)) for request in requests]
    resumed = dict(model.open(further, atoms, states))
    for index, alone in model.score(further, atoms):
        assert np.allclose(resumed[index].mass, alone.mass, atol=tolerance)
