"""Requests that share their contexts: ``open`` gives what ``score`` gives, and runs every context once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
import torch

import wordprob
from conftest import MODELS, shared
from tiny_models import FAMILIES, FEW, build
from tolerances import float32_log_prob_tolerance
from wordprob.core import words
from wordprob.core.arrays import cumulative_offsets
from wordprob.core.atoms import atoms_of
from wordprob.models.exact import ExactLM
from wordprob.models.huggingface import kept_sequences, prefix_cache, rest_rows, self_checks, varlen_attention
from wordprob.models.huggingface.packed_cache import PackedCache
from wordprob.models.huggingface.token_states import TokenStates
from wordprob.models.huggingface.varlen_attention import KeptPrefixes
from wordprob.models.protocol import PrefixStates, Request

IDS = np.random.default_rng(0).integers(5, 400, 400)
NO_CACHE = {"openai-gpt"}
"""An older way to write attention, which keeps no states."""


NOT_PACKED = {"gemma2", *NO_CACHE}
"""And a cap on attention, which is left to transformers."""


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, tokenizer_of):
    return build(request.param, tokenizer_of)


@pytest.fixture(scope="module", params=[name for name in FAMILIES if name not in NOT_PACKED])
def packed(request, tokenizer_of):
    """Return a model that runs requests as on a GPU: one after another, without padding."""
    model = build(request.param, tokenizer_of, packed=True)
    assert isinstance(model.prefix_cache, PackedCache)
    assert model.capabilities.keeps_states
    return model


few_families = pytest.mark.parametrize("model", FEW, indirect=True)
few_packed = pytest.mark.parametrize("packed", FEW, indirect=True)


def atoms_for(model):
    return atoms_of(model.tokenizer.vocabulary, words.Whitespace(), model.vocab_size)


@pytest.fixture(scope="module")
def atoms(model):
    return atoms_for(model)


def request(text, context, rest, **wanted):
    """Return a request for what comes after some ids of a text; the rest leaves the text."""
    ids = np.concatenate([IDS[text : text + context], np.array(rest)])
    return Request(ids, context, **wanted)


def mixed_requests():
    """Return requests of three texts of unequal lengths, of which some contexts are prefixes of others."""
    lists = [np.array([7]), np.array([8, 9])]
    extra = {"id_lists": lists, "gather": np.array([5]), "gather_lists": np.array([1])}
    return [
        request(0, 4, [7, 8], **extra),
        request(0, 40, [9]),
        request(100, 5, [10, 11, 12], statistics=("entropy", "rank"), statistics_rows=np.array([5, 6])),
        request(0, 40, [13, 14, 15]),
        request(0, 17, [16]),
        request(100, 5, [17]),
        request(200, 3, [18, 19], **{**extra, "gather": np.array([3]), "gather_lists": np.array([0])}),
        Request(np.array([20, 21, 22])),
        request(0, 4, [23]),
    ]


def assert_same(found, expected, model):
    tolerance = float32_log_prob_tolerance(model)
    found, expected = dict(found), dict(expected)
    assert found.keys() == expected.keys()
    for n, scores in expected.items():
        for name in ("target", "mass", "gathered"):
            values, others = getattr(found[n], name), getattr(scores, name)
            assert values.shape == others.shape
            assert np.allclose(values, others, atol=tolerance), (n, name, np.abs(values - others).max())
        assert found[n].statistics.keys() == scores.statistics.keys()
        for name, values in scores.statistics.items():
            # an entropy is a sum of p·log p, no term of which is more than log V times as far off
            assert np.allclose(found[n].statistics[name], values, atol=tolerance * np.log(model.vocab_size))


def count_contexts(model):
    return model.prefix_cache.contexts_run


@pytest.mark.parametrize("kept", [False, True])
def test_open_gives_what_score_gives(model, atoms, kept):
    requests = mixed_requests()
    states = PrefixStates() if kept else None
    before = count_contexts(model)
    assert model.prefix_cache.usable == (model.metadata["model"] not in NO_CACHE)
    assert_same(model.open(requests, atoms, states), model.score(requests, atoms), model)
    fitting = [r for r in requests if model.prefix_cache.fits(r)]
    window = 8 if model.metadata["model"] == "sliding" else 1000
    usable = model.metadata["model"] not in NO_CACHE
    assert len(fitting) == usable * sum(len(r.ids) < window for r in requests)
    if usable and window > 8:
        # One for each text; the third has one request. What has no context is kept too, as one for later calls.
        assert count_contexts(model) - before == (4 if kept else 2)


@few_families
def test_a_second_call_does_not_run_contexts_again(model, atoms, monkeypatch):
    first = [request(0, 6, [7]), request(100, 5, [8])]
    later = [request(0, 6, [9]), request(0, 3, [10, 11]), request(100, 5, [12])]
    states = PrefixStates()
    list(model.open(first, atoms, states))
    run, lengths = model.forward.run_trunk, []

    def watched(input_ids, **inputs):
        lengths.append(input_ids.shape[1])
        return run(input_ids=input_ids, **inputs)

    monkeypatch.setattr(model.forward, "run_trunk", watched)
    before = count_contexts(model)
    found = list(model.open(later, atoms, states))
    assert count_contexts(model) == before
    assert max(lengths) <= 4, "only the rests were run"
    monkeypatch.undo()
    assert_same(found, model.score(later, atoms), model)


@pytest.mark.parametrize("kept", [False, True])
def test_what_comes_next_in_all_requests_is_run_once(model, atoms, kept, monkeypatch):
    """The last one wants no states of what they share, another context has requests of which one is shorter."""
    lists = {"id_lists": [np.array([7])], "gather": np.array([5, 6]), "gather_lists": np.array([0, 0])}
    requests = [request(0, 5, [30, 31, 40 + n], **lists) for n in range(3)]
    requests.append(Request(requests[0].ids, 7, context_tokens=5))
    requests += [request(100, 5, [30, 31]), request(100, 5, [30]), request(200, 4, [30, 31]), request(200, 3, [32])]
    requests += [request(300 + n, 30, [30, 31]) for n in range(2) for _ in range(2)]
    monkeypatch.setattr(model.forward.budget, "tokens", 512 if kept else 256)
    cache = model.prefix_cache
    before = cache.rest_tokens_run
    states = PrefixStates() if kept else None
    found = list(model.open(requests, atoms, states))
    if cache.usable and all(cache.fits(each) for each in requests):
        # Of the first context one token of each request, of the second one all, of the third one all, of others one.
        assert cache.rest_tokens_run - before == 4 + 3 + 3 + 4
    monkeypatch.undo()
    assert_same(found, model.score(requests, atoms), model)
    assert_same(model.open(requests, atoms, states), model.score(requests, atoms), model)


def test_requests_go_on_from_earlier_ones(model, atoms):
    """Also several that go on from the same one, from none, and from one that is not kept."""
    first = [
        request(0, 6, [7], is_extended_later=True),
        request(0, 4, [8, 9], is_extended_later=True),
        request(100, 5, [10], is_extended_later=True),
        request(100, 5, [11]),
    ]
    later = [
        Request(np.append(first[0].ids, [20]), 7, context_tokens=6, is_extended_later=True),
        Request(np.append(first[1].ids, [21, 22]), 6, context_tokens=4),
        Request(np.append(first[1].ids, [23]), 4, context_tokens=4),
        Request(np.append(first[2].ids, [24]), 6, context_tokens=5),
        Request(np.append(first[2].ids, [25]), 6, context_tokens=5),
        Request(np.append(first[3].ids, [26]), 6, context_tokens=5),
        request(100, 5, [27]),
    ]
    last = [Request(np.append(later[0].ids, [30, 31]), 9, context_tokens=6)]
    cache = model.prefix_cache
    states = PrefixStates()
    run = []
    for requests in (first, later, last):
        before = cache.rest_tokens_run
        assert_same(model.open(requests, atoms, states), model.score(requests, atoms), model)
        run.append(cache.rest_tokens_run - before)
    if cache.usable and all(cache.fits(each) for each in later + last):
        # The third of the later ones wants rows of tokens that were run before: they are run again.
        assert run == [5, 1 + 2 + 3 + 1 + 1 + 2 + 1, 2]


@few_families
def test_kept_states_are_bounded_and_the_least_used_go_first(model, atoms, monkeypatch):
    states = PrefixStates()
    list(model.open([request(0, 5, [7])], atoms, states))
    kept = model.prefix_cache.kept_in(states)
    monkeypatch.setattr(kept_sequences, "MAX_KEPT_BYTES", 2 * kept.size_bytes)
    list(model.open([request(100, 5, [7])], atoms, states))
    list(model.open([request(0, 5, [8])], atoms, states))
    list(model.open([request(200, 5, [7])], atoms, states))
    assert len(kept) == 2
    assert kept.size_bytes <= kept_sequences.MAX_KEPT_BYTES
    before = count_contexts(model)
    list(model.open([request(0, 5, [9]), request(200, 5, [9])], atoms, states))
    assert count_contexts(model) == before, "used last"
    list(model.open([request(100, 5, [9])], atoms, states))
    assert count_contexts(model) == before + 1, "dropped"
    monkeypatch.setattr(kept_sequences, "MAX_KEPT_BYTES", 1)
    assert_same(model.open([request(300, 5, [9])], atoms, states), model.score([request(300, 5, [9])], atoms), model)
    assert len(kept) == 0


@few_families
def test_many_rests_take_several_rounds(model, atoms, monkeypatch):
    monkeypatch.setattr(rest_rows, "MAX_ROW_TOKENS", 4)
    monkeypatch.setattr(prefix_cache, "MAX_ROUND_BYTES", 1)
    requests = [request(text, 3 + n % 3, [30 + n, 50 + n]) for n in range(9) for text in (0, 100)]
    assert_same(model.open(requests, atoms), model.score(requests, atoms), model)


@few_families
def test_too_little_memory_makes_batches_of_rests_smaller(model, atoms, monkeypatch):
    requests = [request(text, 4, [30 + n]) for n in range(4) for text in (0, 100, 200)]
    expected = list(model.score(requests, atoms))
    run, sizes = model.forward.run_trunk, []

    def limited(input_ids, **inputs):
        sizes.append(len(input_ids))
        if len(input_ids) > 1:
            raise torch.OutOfMemoryError("out of memory")
        return run(input_ids=input_ids, **inputs)

    before = model.batch_tokens
    monkeypatch.setattr(model.forward, "run_trunk", limited)
    monkeypatch.setattr(model.forward.budget, "tokens", before)
    assert_same(model.open(requests, atoms), expected, model)
    assert max(sizes) > 1


@few_families
def test_states_of_one_model_are_not_taken_for_those_of_another(model, atoms, tokenizer_of):
    other = build(model.metadata["model"], tokenizer_of)
    with torch.no_grad():
        for parameter in other.network.parameters():
            parameter.mul_(1.1)
    requests = [request(0, 5, [7]), request(0, 5, [8])]
    states = PrefixStates()
    list(model.open(requests, atoms, states))
    assert_same(other.open(requests, atoms, states), other.score(requests, atoms), other)


@few_families
def test_threads_may_open_at_the_same_time(model, atoms):
    requests = mixed_requests()
    expected = list(model.score(requests, atoms))
    states = PrefixStates()
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda kept: list(model.open(requests, atoms, kept)), [states, None, states]))
    for found in results:
        assert_same(found, expected, model)


@few_families
def test_the_check_of_kept_states_sees_wrong_positions(model, atoms, monkeypatch):
    run = model.forward.run_trunk

    def forgets_positions(position_ids=None, **inputs):
        shifted = None if position_ids is None else torch.zeros_like(position_ids)
        return run(position_ids=shifted, **inputs)

    check = self_checks.cached_contexts_are_correct
    assert check(model.prefix_cache, model.forward, model.head)
    monkeypatch.setattr(model.forward, "run_trunk", forgets_positions)
    assert not check(model.prefix_cache, model.forward, model.head)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("small-llama2", "float32"), ("small-bow", "float32"), *product(MODELS, ["float32", "bfloat16"])],
)
def test_the_check_tells_rounding_from_positions_off_by_one(name, dtype, small_model_directory, monkeypatch):
    """With trained weights: on tokens that are in no text, stories15M hardly sees positions at all."""
    directory = shared(f"models/{name}") if name in MODELS else small_model_directory(name)
    model = wordprob.load(directory, dtype=dtype).model
    assert model.prefix_cache.usable
    run = model.forward.run_trunk

    def off_by_one(position_ids=None, **inputs):
        return run(position_ids=None if position_ids is None else position_ids + 1, **inputs)

    monkeypatch.setattr(model.forward, "run_trunk", off_by_one)
    assert not self_checks.cached_contexts_are_correct(model.prefix_cache, model.forward, model.head)


@few_families
def test_a_model_without_usable_states_runs_in_full(model, atoms, monkeypatch):
    monkeypatch.setattr(model.prefix_cache, "usable", False)
    requests = mixed_requests()
    before = count_contexts(model)
    assert_same(model.open(requests, atoms, PrefixStates()), model.score(requests, atoms), model)
    assert count_contexts(model) == before


def test_the_exact_model_opens_what_it_scores():
    model = ExactLM.bigram("bow")
    atoms = atoms_of(model.tokenizer.vocabulary, words.Whitespace(), model.vocab_size)
    ids = np.array([0, *model.tokenizer.ids("She saw the mark")])
    requests = [Request(ids, 2), Request(ids[:4], 2)]
    for (n, found), (m, expected) in zip(
        model.open(requests, atoms, PrefixStates()), model.score(requests, atoms), strict=True
    ):
        assert n == m
        assert np.array_equal(found.mass, expected.mass)
        assert np.array_equal(found.target, expected.target)


# --- without padding, as on a GPU ------------------------------------------------------------------------------------


@pytest.fixture
def rows(packed, monkeypatch):
    """Return a list of how many tokens are run in each pass."""
    run, lengths = packed.forward.run_trunk, []

    def watched(input_ids, **inputs):
        assert len(input_ids) == 1
        lengths.append(input_ids.shape[1])
        return run(input_ids=input_ids, **inputs)

    monkeypatch.setattr(packed.forward, "run_trunk", watched)
    return lengths


@pytest.mark.parametrize("kept", [False, True])
def test_packed_requests_have_the_values_of_whole_ones(packed, kept):
    requests, atoms = mixed_requests(), atoms_for(packed)
    states = PrefixStates() if kept else None
    for _ in range(2):
        assert_same(packed.open(requests, atoms, states), packed.score(requests, atoms), packed)


@few_packed
def test_a_context_and_what_continues_it_are_one_pass(packed, rows):
    first = [request(0, 6, [7]), request(100, 5, [8]), request(0, 3, [9, 10]), request(0, 6, [11])]
    later = [request(0, 6, [13]), request(0, 2, [14, 15])]
    states, atoms = PrefixStates(), atoms_for(packed)
    found = [list(packed.open(requests, atoms, states)) for requests in (first, later)]
    assert rows == [6 + 5 + 1 + 1 + 2 + 1, 1 + 2]
    for answers, requests in zip(found, (first, later), strict=True):
        assert_same(answers, packed.score(requests, atoms), packed)


@few_packed
def test_what_goes_beyond_kept_texts_is_run_alone(packed, rows):
    texts = [Request(IDS[start : start + 7]) for start in (0, 100, 200)]
    beyond = [request(start, 1 + n, [30 + n]) for start in (0, 100, 200) for n in range(5)]
    states, atoms = PrefixStates(), atoms_for(packed)
    assert_same(packed.open(texts, atoms, states), packed.score(texts, atoms), packed)
    del rows[:]
    found = list(packed.open(beyond, atoms, states))
    assert rows == [len(beyond)]
    assert_same(found, packed.score(beyond, atoms), packed)


@few_packed
def test_too_little_memory_makes_rows_shorter(packed, monkeypatch):
    requests = [request(text, 4, [30 + n]) for n in range(4) for text in (0, 100, 200)]
    requests += [Request(IDS[300:307])]
    atoms = atoms_for(packed)
    expected = list(packed.score(requests, atoms))
    run, sizes = packed.forward.run_trunk, []

    def limited(input_ids, **inputs):
        sizes.append(input_ids.shape[1])
        if input_ids.shape[1] > 10:
            raise torch.OutOfMemoryError("out of memory")
        return run(input_ids=input_ids, **inputs)

    monkeypatch.setattr(packed.forward, "run_trunk", limited)
    monkeypatch.setattr(packed.forward.budget, "tokens", packed.batch_tokens)
    states = PrefixStates()
    assert_same(packed.open(requests, atoms, states), expected, packed)
    assert max(sizes) > 10
    kept = packed.prefix_cache.kept_in(states)
    assert kept.states.n_used == 3 * 4 + 7, "of what was tried in vain, nothing is left"


@few_packed
def test_kept_states_stay_within_their_memory(packed, monkeypatch):
    """What no longer fits is dropped, and run again when it is asked for."""
    monkeypatch.setattr(packed.prefix_cache, "max_kept_bytes", 20 * packed.prefix_cache.token_bytes)
    states, atoms = PrefixStates(), atoms_for(packed)
    for _ in range(2):
        for start in range(0, 300, 10):
            requests = [request(start, 3 + start % 4, [7]), request(start + 1, 4, [8])]
            assert_same(packed.open(requests, atoms, states), packed.score(requests, atoms), packed)
            kept = packed.prefix_cache.kept_in(states)
            assert kept.states.n_used <= 20
    assert len(kept.states.layer(0)[0]) <= 60, "slots are used again"


@few_packed
def test_threads_may_open_packed_requests_at_the_same_time(packed):
    requests, atoms = mixed_requests(), atoms_for(packed)
    expected = list(packed.score(requests, atoms))
    states = PrefixStates()
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda kept: list(packed.open(requests, atoms, kept)), [states, None, states]))
    for found in results:
        assert_same(found, expected, packed)


@few_packed
def test_a_network_on_which_packing_fails_is_padded(packed, monkeypatch):
    forget = "wordprob.models.huggingface.varlen_attention._continue_one_by_one"
    monkeypatch.setattr(forget, lambda queries, *_: queries)
    chosen = self_checks.choose_prefix_cache(packed.forward, packed.head)
    assert not isinstance(chosen, PackedCache)
    assert chosen.usable


def test_rests_are_cut_into_tiles():
    """Each has a few tokens of one rest, and says where its rest begins and where the prefix is."""
    prefixes = KeptPrefixes(
        TokenStates(), 0, offsets=np.array([0, 1, 6, 8]), starts=np.array([70, 10, 40]), lengths=np.array([3, 9, 1])
    )
    tiles = prefixes.tiles(2, torch.device("cpu"))
    assert tiles.tolist() == [
        [0, 1, 0, 70, 3],
        [1, 3, 1, 10, 9],
        [3, 5, 1, 10, 9],
        [5, 6, 1, 10, 9],
        [6, 8, 6, 40, 1],
    ]
    assert prefixes.tiles(2, torch.device("cpu")) is tiles, "once for all layers"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("heads", "key_heads", "size"), [(9, 3, 64), (12, 12, 64), (8, 1, 80), (32, 8, 128)])
def test_the_kernel_does_what_its_readable_twin_does(dtype, heads, key_heads, size):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    torch.manual_seed(0)
    lengths, starts, kept = np.array([1, 2, 3, 100, 5, 1]), np.array([7, 300, 7, 1, 900, 5]), [1, 64, 200, 65, 99, 63]

    def random(n_tokens, n_heads):
        return torch.randn(n_tokens, n_heads, size, dtype=dtype)

    row = varlen_attention.Projections(*(random(lengths.sum(), n) for n in (heads, key_heads, key_heads)))
    layer = random(1000, key_heads), random(1000, key_heads)
    found = []
    for device, attend in (("cpu", varlen_attention._continue_one_by_one), ("cuda", varlen_attention._continue_fused)):
        states = TokenStates()
        states.take(999)
        states.write_layer(0, slice(0, 1000), *(each.to(device).transpose(0, 1)[None] for each in layer))
        prefixes = KeptPrefixes(states, 0, cumulative_offsets(lengths), starts, np.array(kept))
        on_device = varlen_attention.Projections(*(each.to(device) for each in row))
        found.append(attend(on_device, prefixes, 0, None).float().cpu())
    assert torch.allclose(*found, atol=1e-5 if dtype == torch.float32 else 2e-2)
