"""One suite for every backend: what a model must do to stand behind the seam.

Each backend is judged by whole next-token distributions that come from somewhere else: the exact model's own table, the
transformers network's logits, or llama.cpp's logits one prefix at a time.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tiny_gguf
import wordprob
from completions_server import serving
from distributions import all_logits
from wordprob.core import words
from wordprob.core.atoms import atoms_of
from wordprob.models.exact import ExactLM, LeakyLM
from wordprob.models.protocol import PrefixStates, Request, capabilities_of, scores_from_logits

EXACT_TOLERANCE = 1e-9
FLOAT32_TOLERANCE = 1e-4
"""Nats: a value of a model in single precision does not depend on its batch by more than this."""


class Backend:
    """A model, how to get its logits after ids in another way, and how exact it is."""

    def __init__(self, model, logits, tolerance):
        self.model = model
        self.logits = logits
        self.tolerance = tolerance
        self.atoms = atoms_of(model.tokenizer.vocabulary, words.Whitespace(), model.vocab_size)
        self.has_statistics = capabilities_of(model).has_whole_distributions


def log_of(distributions):
    with np.errstate(divide="ignore"):
        return np.log(np.stack(distributions))


def exact(_directory):
    model = ExactLM.bigram("bow")
    yield Backend(
        model, lambda ids: log_of([model.distribution(ids[: n + 1]) for n in range(len(ids))]), EXACT_TOLERANCE
    )


def leaky(_directory):
    model = LeakyLM()
    yield Backend(model, lambda ids: log_of([model.distribution(i) for i in ids]), EXACT_TOLERANCE)


def expanded(directory):
    path = tiny_gguf.write(directory / "tiny.gguf", tiny_gguf.tensors())
    model = wordprob.load(f"gguf:{path}").model
    yield Backend(model, lambda ids: all_logits(model, ids), FLOAT32_TOLERANCE)


def llama_cpp(directory):
    pytest.importorskip("llama_cpp", reason="needs llama-cpp-python: pip install 'wordprob[llama-cpp]'")
    from wordprob.models.llama_cpp.library import LlamaContext, LlamaFile

    path = tiny_gguf.write(directory / "tiny.gguf", tiny_gguf.tensors())
    context = LlamaContext(LlamaFile(path), 200)

    def one_at_a_time(ids):
        context.clear()
        rows = []
        for n, token in enumerate(np.asarray(ids)):
            rows.append(context.decode(np.array([token]), np.array([n]), sequence=0, first_wanted=0)[0].copy())
        return np.stack(rows).astype(np.float64)

    yield Backend(wordprob.load(str(path)).model, one_at_a_time, FLOAT32_TOLERANCE)


def server(_directory):
    toy = LeakyLM()
    with serving() as running:
        model = wordprob.load(running.url, tokenizer="exact:leaky", top_logprobs=1000).model
        yield Backend(model, lambda ids: log_of([toy.distribution(i) for i in ids]), EXACT_TOLERANCE)


@pytest.fixture(scope="module", params=[exact, leaky, expanded, llama_cpp, server])
def backend(request, tmp_path_factory):
    yield from request.param(tmp_path_factory.mktemp("model"))


def ids_of(backend, text):
    vocabulary = backend.model.tokenizer.vocabulary
    return np.array([*vocabulary.start_ids, *backend.model.tokenizer.encode([text])[0].ids.tolist()])


def requests_of(backend):
    """Return requests of several lengths and contexts, with masses of lists of ids and statistics."""
    long = ids_of(backend, "the mark the marked the mark")
    short = ids_of(backend, "the marker")
    other = ids_of(backend, "the")
    lists = [np.array([2]), np.arange(3, 9)]
    statistics = ("entropy", "rank", "log_probs") if backend.has_statistics else ()
    rows = np.array([0, 1]) if statistics else np.zeros(0, dtype=np.int64)
    return [
        Request(long, gather=np.array([1, 0]), gather_lists=np.array([1, 0]), id_lists=lists),
        Request(long, first=2, gather=np.array([3]), gather_lists=np.array([1]), id_lists=lists),
        Request(short, statistics=statistics, statistics_rows=rows),
        Request(short, first=len(short) - 1),
        Request(long[:-1], first=3, context_tokens=2),
        Request(other),
        Request(long, first=2),
    ]


def assert_same(found, expected, tolerance):
    assert found.keys() == expected.keys()
    for number, scores in expected.items():
        for name in ("target", "mass", "gathered"):
            values, others = getattr(found[number], name), getattr(scores, name)
            assert values.shape == others.shape, (number, name)
            assert np.allclose(values, others, atol=tolerance, rtol=0), (number, name)
        assert found[number].statistics.keys() == scores.statistics.keys()
        for name, values in scores.statistics.items():
            assert np.allclose(found[number].statistics[name], values, atol=10 * tolerance), (number, name)


@pytest.fixture
def expected(backend):
    """The scores of the requests, from logits of the whole vocabulary."""
    scores = {}
    for number, request in enumerate(requests_of(backend)):
        scores[number] = scores_from_logits(backend.logits(request.ids)[request.first :], request, backend.atoms)
    return scores


def test_scores_are_those_of_the_whole_distribution(backend, expected):
    assert_same(dict(backend.model.score(requests_of(backend), backend.atoms)), expected, backend.tolerance)


def test_a_request_alone_and_among_others_is_the_same(backend):
    requests = requests_of(backend)
    together = dict(backend.model.score(requests * 5, backend.atoms))
    for number, request in enumerate(requests):
        alone = dict(backend.model.score([request], backend.atoms))
        assert_same({0: together[number]}, alone, backend.tolerance)
        assert_same({0: together[number + 4 * len(requests)]}, alone, backend.tolerance)


@pytest.mark.parametrize("kept", [False, True])
def test_open_gives_what_score_gives(backend, expected, kept):
    requests = requests_of(backend)
    states = PrefixStates() if kept else None
    for _ in range(3):  # what was kept in one call serves the next
        assert_same(dict(backend.model.open(requests, backend.atoms, states)), expected, backend.tolerance)


def test_many_continuations_of_one_context(backend):
    context = ids_of(backend, "the mark the")
    last = np.arange(2, min(backend.model.vocab_size, 150))
    requests = [Request(np.append(context, token), len(context)) for token in last]
    states = PrefixStates()
    found = dict(backend.model.open(requests, backend.atoms, states))
    few = [requests[0], requests[7], requests[-1]]
    expected = dict(backend.model.score(few, backend.atoms))
    assert_same({0: found[0], 1: found[7], 2: found[len(requests) - 1]}, expected, backend.tolerance)


def test_threads_may_ask_at_the_same_time(backend, expected):
    requests = requests_of(backend)
    states = PrefixStates()

    def ask(number):
        if number % 2:
            return dict(backend.model.open(requests, backend.atoms, states))
        return dict(backend.model.score(requests, backend.atoms))

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(ask, range(8)):
            assert_same(found, expected, backend.tolerance)


def test_words_conserve_probability(backend):
    """The words of a text and its end add up to its tokens, in one text, many, and one longer than the context."""
    scorer = wordprob.Scorer(backend.model)
    table = scorer.score(["the mark", "She saw the marker", "the mark the mark"])
    measured = table.texts()["conservation"].dropna()
    assert len(measured) or not backend.model.tokenizer.vocabulary.ends
    assert np.allclose(measured, 0.0, atol=10 * backend.tolerance)


def test_long_texts_are_scored_in_windows(backend):
    if backend.model.max_tokens is None:
        pytest.skip("this model takes texts of any length")
    scorer = wordprob.Scorer(backend.model)
    text = "the mark " * backend.model.max_tokens
    table = scorer.score([text.strip()], min_context=8).to_pandas()
    assert table["surprisal"].notna().all()
    assert table["context_tokens"].max() < backend.model.max_tokens
    assert (table["context_tokens"].iloc[20:] >= 8).all()
    few = scorer.score([" ".join(["the mark"] * 4)]).to_pandas()
    assert np.allclose(table["surprisal"][:7], few["surprisal"][:7], atol=10 * backend.tolerance)
