"""The parts of the search for next words, each against a slow and readable twin."""

from __future__ import annotations

import numpy as np
import pytest

import wordprob
from wordprob.core.words import define
from wordprob.covers.context_reader import ContextReader
from wordprob.covers.next_tokens import NextTokens, ProbabilitiesByAtom
from wordprob.covers.next_word_beginnings import heaviest_chain
from wordprob.scoring.next_word_batch import SearchRunner


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_probabilities_by_atom(load_model, definition, dtype):
    scorer = load_model("small-bow")
    tokens = NextTokens(scorer.model.tokenizer.vocabulary, scorer.model.vocab_size, define(definition))
    probabilities = np.random.default_rng(1).dirichlet(np.full(scorer.model.vocab_size, 0.05)).astype(dtype)
    probabilities[::7] = 0.0
    by_atom = ProbabilitiesByAtom(tokens, probabilities)
    atom_of_token, n_atoms = tokens.atoms.atom_of_token, len(tokens.atoms.labels)
    sums = [probabilities[atom_of_token == atom].sum(dtype=np.float64) for atom in range(n_atoms)]
    np.testing.assert_allclose(by_atom.sums, sums, rtol=1e-13)
    filled = np.unique(atom_of_token).tolist()
    for atoms in (filled[:1], filled[1::-1], filled):
        own = np.flatnonzero(np.isin(atom_of_token, atoms))
        assert probabilities[by_atom.most_probable(atoms)] == probabilities[own].max()
        for least in (0.0, 1e-6, 1e-3, 2.0):
            slow = [token for token in own.tolist() if probabilities[token] >= dtype(least) and probabilities[token]]
            assert by_atom.possible(atoms, least).tolist() == slow


def test_the_heaviest_chain():
    random = np.random.default_rng(2)
    for _ in range(200):
        data = [bytes(random.integers(97, 99, random.integers(0, 6)).tolist()) for _ in range(random.integers(1, 30))]
        bounds = random.random(len(data)).tolist()
        totals = {
            last: sum(bound for each, bound in zip(data, bounds, strict=True) if last.startswith(each)) for last in data
        }
        heaviest, chain = heaviest_chain(data, bounds)
        assert heaviest == pytest.approx(max(totals.values()), rel=1e-14)
        assert heaviest == pytest.approx(totals[chain[-1]], rel=1e-14)
        assert chain == sorted({each for each in data if chain[-1].startswith(each)})


@pytest.mark.parametrize("context", ["", "the", "the mark"])
def test_whether_a_word_may_be_missed(context):
    """What is remembered of the heaviest chain makes no difference: all bounds are compared again here."""
    scorer = wordprob.load("exact:leaky")
    by_memory = 0

    def compare(search):
        nonlocal by_memory
        heaviest, _ = heaviest_chain(*search._bounds())
        limit = max(search.heaviest_left, min(heaviest, search.unopened))
        for mass in (0.3 * limit, 0.999 * limit, 1.001 * limit, 3 * limit):
            assert search.may_miss(mass) == (mass < limit)
            by_memory += search._heaviest_missing is None and bool(search._heaviest_chain)
        return False

    for _ in SearchRunner(scorer, define("whitespace")).run([context], compare, 300):
        pass
    assert by_memory > 0


CONTEXTS = (
    "",
    "She",
    "It was in the",
    "In the year 1900 (",
    'He said, "No',
    "One day she saw the old dog and the cat.",
)
NEXT = (" house", " 1900", "ing", ".", ' "', " the mark", "\n\nA", " é", "'s", "  two")


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
@pytest.mark.parametrize("name", ["small-bow", "small-eow", "small-llama2"])
def test_texts_have_the_same_tokens_in_pieces(load_model, name, definition):
    scorer = load_model(name)
    tokenizer = scorer.model.tokenizer
    tokens = NextTokens(tokenizer.vocabulary, scorer.model.vocab_size, define(definition))
    for context in CONTEXTS:
        texts = [context + each for each in ("", *NEXT)]
        reader = ContextReader(tokens, tokenizer, define(definition), context)
        whole = [(*tokenizer.vocabulary.start_ids, *each.ids.tolist()) for each in tokenizer.encode(texts)]
        assert reader._encoded(texts) == whole
        for ids, size in ((ids, size) for ids in whole for size in range(1, len(context.encode()) + 4)):
            written = np.cumsum([len(tokenizer.vocabulary.token_bytes[token]) for token in ids])
            assert reader._cover(ids, size) == ids[: int(np.searchsorted(written, size)) + 1]


def test_the_model_is_asked_once_about_a_context(load_model):
    """What it says along a context when that is run is not asked for again."""
    scorer = load_model("small-bow")
    asked = []

    class Asked(SearchRunner):
        def distributions(self, requests):
            asked.extend(beginning.ids for _, beginning in requests)
            return super().distributions(requests)

    ((task,),) = Asked(scorer, define("whitespace")).run(["It was in the"], lambda _: False, 60)
    own = task.search.own_ids
    assert len(own) > len(task.search.root)
    assert not {own[:size] for size in range(len(task.search.root), len(own) + 1)} & set(asked)
    assert len(set(asked)) == len(asked)
    assert len(asked) + len(own) - len(task.search.root) + 1 == task.search.opened == 60


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
@pytest.mark.parametrize("context", ["私は", "मैं घर", "мы", "in é"])
@pytest.mark.parametrize("name", ["small-bow", "small-eow", "small-llama2"])
def test_what_is_found_and_what_is_left_make_up_one(load_model, name, context, definition):
    """A token that continues the context's last word is not in the event, even if it holds only part of a character."""
    ((task,),) = SearchRunner(load_model(name), define(definition)).run([context], lambda _: False, 30)
    search = task.search
    found = sum(word.mass for word in search.found.values()) / search.event_mass
    counted = found + search.other_spellings / search.event_mass + search.end_probability
    assert counted <= 1.0 + 1e-3
    assert counted + search.unopened / search.event_mass >= 1.0 - 1e-3
