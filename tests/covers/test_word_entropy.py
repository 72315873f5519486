"""Entropy and rank at the level of words: bounds that always hold, and estimates as close as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from click.testing import CliRunner

import wordprob
from wordprob.cli import cli
from wordprob.core.entropy_bounds import PartlyKnown, entropy_bounds, entropy_estimate, rank_bounds
from wordprob.core.words import define
from wordprob.errors import OptionError
from wordprob.models.exact import END_OF_TEXT
from wordprob.scoring import word_entropy
from wordprob.scoring.results import WordTable
from wordprob.scoring.word_entropy import distributions

ORDERS = (0.5, 0.9, 1.0, 1.5, 2.0, 3.0, math.inf)
FAMILIES = ("bow", "bow-marked", "bow-joined", "eow", "eow-unmarked")
CONTEXTS = ("", "She", "She saw the", "the mark", "She's")


def true_entropy(probabilities, order):
    """Rényi's definition for distributions that may add up to less than one."""
    p = probabilities[probabilities > 0]
    if order == 1.0:
        return float(-(p * np.log(p)).sum() / p.sum())
    if math.isinf(order):
        return float(-np.log(p.max()))
    return float(np.log((p**order).sum() / p.sum()) / (1 - order))


def random_distribution(random, size):
    weights = random.pareto(1.0, size) + 1e-3
    return np.sort(weights / weights.sum())[::-1] * random.choice([1.0, 0.97])


# --- the arithmetic, on explicit distributions -----------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_bounds_hold_on_explicit_distributions(order):
    random = np.random.default_rng(1)
    for _ in range(300):
        p = random_distribution(random, int(random.integers(2, 60)))
        n_head = int(random.integers(1, len(p) + 1))
        tail = p[n_head:]
        slack = random.choice([0.0, 0.02])
        head = p[:n_head]
        known = PartlyKnown(
            head * (1 - slack), head * (1 + slack), tail.sum() + 0.05 * random.random(), tail.max(initial=0) * 1.1
        )
        low, high = entropy_bounds(known, order)
        truth = true_entropy(p, order)
        assert low <= truth + 1e-12
        assert (high is None) == (order <= 1.0)
        assert high is None or truth <= high + 1e-12


@pytest.mark.parametrize("order", ORDERS)
def test_bounds_are_attained(order):
    """With a known head and nothing else, the bounds are the truth; with equal words, the lower one is."""
    p = np.array([0.5, 0.25, 0.125, 0.0625, 0.0625])
    assert entropy_bounds(PartlyKnown(p, p, 0.0, 0.0), order).low == pytest.approx(true_entropy(p, order))
    if math.isfinite(order):
        alike = np.full(8, 0.125)
        bounds = entropy_bounds(PartlyKnown(alike[:3], alike[:3], 5 / 8, 0.125), order)
        assert bounds.low == pytest.approx(math.log(8))


@pytest.mark.parametrize("order", [0.5, 1.0, 2.0])
def test_estimates_are_as_close_as_they_say(order):
    """The truth is within three standard errors in 99 % of draws, and the estimates are right on average."""
    random = np.random.default_rng(2)
    p = random_distribution(random, 400)
    n_head, region = 8, 0.1 + p[8:].sum()
    tail = p[n_head:]
    truth = true_entropy(p, order)
    within, values = 0, []
    for _ in range(1000):
        chances = np.append(tail, region - tail.sum()) / region
        drawn = random.choice(len(tail) + 1, size=64, p=chances / chances.sum())
        sampled = np.append(tail, 0.0)[drawn]
        estimate = entropy_estimate(p[:n_head], sampled, region, tail.max(), order)
        within += abs(estimate.value - truth) <= 3 * estimate.standard_error
        values.append(estimate.value)
    assert within >= 990
    assert np.mean(values) == pytest.approx(truth, abs=5 * np.std(values) / np.sqrt(len(values)) + 0.02)


def test_ranks_on_explicit_distributions():
    random = np.random.default_rng(3)
    for _ in range(300):
        p = random_distribution(random, int(random.integers(2, 60)))
        n_head = int(random.integers(1, len(p)))
        place = int(random.integers(len(p)))
        in_tail = place >= n_head
        head = np.delete(p[:n_head], [] if in_tail else place)
        known = PartlyKnown(head, head, p[n_head:].sum(), p[n_head])
        low, high = rank_bounds(known, p[place], is_in_tail=in_tail)
        assert low <= 1 + np.sum(p > p[place] * (1 + 1e-6)) <= high
        assert in_tail or p[place] < p[n_head] or low == high


@pytest.mark.parametrize("order", [0.0, -1.0, math.nan])
def test_orders_that_mean_nothing(order):
    with pytest.raises(OptionError, match="above 0"):
        entropy_bounds(PartlyKnown(np.ones(1), np.ones(1), 0.0, 0.0), order)


# --- the exact models -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_search_without_a_limit_is_exact(family, definition):
    scorer = wordprob.load(f"exact:{family}")
    found = distributions(scorer, define(definition), CONTEXTS, max_open=10_000)
    for context, each in zip(CONTEXTS, found, strict=True):
        truth = np.array(list(scorer.model.followers(context, definition).values()))
        for order in ORDERS:
            value, error = entropy_estimate(each.head, each.sampled, each.unopened, each.known.tail_largest, order)
            bounds = entropy_bounds(each.known, order)
            assert value == pytest.approx(true_entropy(truth, order), abs=3 * error + 1e-9)
            assert bounds.low <= true_entropy(truth, order) + 1e-9
            assert bounds.high is None or true_entropy(truth, order) <= bounds.high + 1e-9


def check_draws(scorer, max_open, seeds, monkeypatch):
    """Check bounds for every seed; return by order whether the truth was within three standard errors."""
    truths = {c: np.array(list(scorer.model.followers(c, "whitespace").values())) for c in CONTEXTS}
    within = {order: [] for order in (0.5, 1.0, 2.0)}
    for seed in seeds:
        monkeypatch.setattr(word_entropy, "SEED", seed)
        found = distributions(scorer, define("whitespace"), CONTEXTS, max_open=max_open)
        for context, each in zip(CONTEXTS, found, strict=True):
            for order, results in within.items():
                truth = true_entropy(truths[context], order)
                bounds = entropy_bounds(each.known, order)
                assert bounds.low <= truth + 1e-9
                assert bounds.high is None or truth <= bounds.high + 1e-9
                value, error = entropy_estimate(each.head, each.sampled, each.unopened, each.known.tail_largest, order)
                results.append(abs(value - truth) <= 3 * error + 1e-9)
    return within


def test_the_truth_is_within_bounds_and_three_standard_errors(monkeypatch):
    within = {order: [] for order in (0.5, 1.0, 2.0)}
    for number, family in enumerate(FAMILIES):
        found = check_draws(wordprob.load(f"exact:{family}"), 2 + number, range(8), monkeypatch)
        for order, results in found.items():
            within[order] += results
    for order, results in within.items():
        assert np.mean(results) >= 0.99, order  # of 200 draws


@pytest.mark.slow
@pytest.mark.parametrize("max_open", [2, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_truth_is_within_three_standard_errors_of_many_draws(family, max_open, monkeypatch):
    for order, results in check_draws(wordprob.load(f"exact:{family}"), max_open, range(100), monkeypatch).items():
        assert np.mean(results) >= 0.99, order  # of 500 draws


@pytest.mark.parametrize("context", ["", "the", "mark"])
def test_a_model_that_leaks_onto_every_spelling(context, monkeypatch):
    """The search that goes far is the judge of the one that does not."""
    scorer = wordprob.load("exact:leaky")
    (far,) = distributions(scorer, define("whitespace"), [context], max_open=1500)
    within = []
    for seed in range(8):
        monkeypatch.setattr(word_entropy, "SEED", seed)
        (near,) = distributions(scorer, define("whitespace"), [context], max_open=24)
        for order in (1.0, 2.0):
            least, most = entropy_bounds(far.known, order)
            truth, uncertainty = entropy_estimate(far.head, far.sampled, far.unopened, far.known.tail_largest, order)
            value, error = entropy_estimate(near.head, near.sampled, near.unopened, near.known.tail_largest, order)
            bounds = entropy_bounds(near.known, order)
            assert bounds.low <= truth + 3 * uncertainty
            assert bounds.high is None or bounds.high >= least
            within.append(abs(value - truth) <= 3 * math.hypot(error, uncertainty) + 1e-9)
            assert most is None or least <= most
    assert np.mean(within) == 1.0  # of 16 draws


@pytest.mark.parametrize("family", FAMILIES)
def test_ranks_of_the_exact_models(family):
    scorer = wordprob.load(f"exact:{family}")
    texts = ["She saw the mark.", "the marker She's", "She marked the"]
    for max_open in (2, 5, 1000):
        frame = scorer.score(texts, extras=["word_rank"], max_open=max_open).to_pandas()
        for row in frame.itertuples():
            text = texts[row.text_id]
            context = text[: row.start].rstrip()
            truth = scorer.model.followers(context, "whitespace")
            truth.pop(END_OF_TEXT, None)
            if row.surprisal == math.inf or math.isnan(row.surprisal):
                assert row.word_rank_low is not row.word_rank_low or str(row.word_rank_low) == "<NA>"
                continue
            observed = truth[text[len(context) : row.end]]
            rank = 1 + sum(p > observed * (1 + 1e-6) for p in truth.values())
            assert row.word_rank_low <= rank <= row.word_rank_high
            if max_open == 1000:
                assert row.word_rank_low == row.word_rank_high == rank


# --- tables -----------------------------------------------------------------------------------------------------------

EXTRAS = ["token_entropy", "word_entropy", "word_entropy_2", "word_rank"]


def test_columns_units_and_files(tmp_path):
    scorer = wordprob.load("exact:bow")
    nats = scorer.score(["She saw the mark.", ""], extras=EXTRAS, unit="nats")
    bits = scorer.score(["She saw the mark.", ""], extras=EXTRAS).to_pandas()
    frame = nats.to_pandas()
    entropies = [name for name in frame if name.startswith("word_entropy")]
    assert entropies == [
        *("word_entropy", "word_entropy_se", "word_entropy_low"),
        *("word_entropy_2", "word_entropy_2_se", "word_entropy_2_low", "word_entropy_2_high"),
    ]
    np.testing.assert_allclose(bits[entropies] * math.log(2), frame[entropies])
    assert (bits["word_rank_low"] == frame["word_rank_low"]).all()
    nats.write(tmp_path / "words.csv")
    again = WordTable.read(tmp_path / "words.csv").to_pandas()
    np.testing.assert_allclose(again[entropies], frame[entropies])


def test_values_do_not_depend_on_the_other_texts():
    scorer = wordprob.load("exact:bow")
    options = {"extras": ["word_entropy", "word_rank"], "max_open": 3}
    alone = scorer.score("She saw the mark.", **options).to_pandas()
    together = scorer.score(["the mark", "She saw the mark.", "She"], **options).to_pandas()
    together = together[together["text_id"] == 1].reset_index(drop=True).assign(text_id=0)
    assert together.equals(alone)


def test_what_cannot_be_computed_says_why():
    scorer = wordprob.load("exact:bow")
    frame = scorer.score("the the mark", extras=["word_entropy"]).to_pandas()
    assert frame["word_entropy"].isna().tolist() == [False, False, True]
    assert "no entropy or rank of the word: the context 'the the' has probability zero" in frame["note"][2]
    frame = scorer.score("She saw", r"regex:\w+", extras=["word_entropy"]).to_pandas()
    assert frame["word_entropy"].isna().all()
    assert "Use whitespace or punctuation" in frame["note"][0]
    with pytest.raises(OptionError, match="leave `max_context` out"):
        scorer.score("She saw", extras=["word_entropy"], max_context=2)
    with pytest.raises(OptionError, match="score these instead"):
        scorer.score_continuations("She", ["saw"], extras=["word_entropy"])
    with pytest.raises(OptionError, match="word_entropy"):
        scorer.score("She saw", extras=["word_entrop"])
    with pytest.raises(OptionError, match="above 0"):
        scorer.score("She saw", extras=["word_entropy_0"])


def test_a_users_table_of_words():
    import pandas as pd

    stimuli = pd.DataFrame({"item": [1, 1, 1], "word": ["She", "saw", "the"]})
    found = wordprob.score_table(stimuli, "exact:bow", group_by="item", extras=["word_entropy", "word_rank"])
    truth = wordprob.load("exact:bow").score("She saw the", extras=["word_entropy", "word_rank"]).to_pandas()
    assert found.to_pandas()["word_entropy"].tolist() == truth["word_entropy"].tolist()
    assert found.to_pandas()["word_rank_high"].tolist() == truth["word_rank_high"].tolist()


def test_a_real_model(load_model):
    """The estimate of a short search is that of a long one; what it says about a word is what `next` says."""
    scorer = load_model("small-bow")
    contexts = ["It was in the", "She looked at"]
    short = distributions(scorer, define("whitespace"), contexts, max_open=32)
    far = distributions(scorer, define("whitespace"), contexts, max_open=200)
    for near, judge in zip(short, far, strict=True):
        for order in (1.0, 2.0):
            value, error = entropy_estimate(near.head, near.sampled, near.unopened, near.known.tail_largest, order)
            truth, left = entropy_estimate(judge.head, judge.sampled, judge.unopened, judge.known.tail_largest, order)
            assert abs(value - truth) <= 3 * math.hypot(error, left)
            assert entropy_bounds(near.known, order).low <= truth + 3 * left
    listed = scorer.next_words(contexts[0], top=5)
    first = {each.separator + each.word: each.probability for each in listed.words}
    (near,) = distributions(scorer, define("whitespace"), contexts[:1], max_open=64)
    found = dict(zip(near.words, near.head, strict=False))
    for word, probability in first.items():
        assert found[word] == pytest.approx(probability, rel=1e-3)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command(tmp_path):
    arguments = ["score", "--text", "She saw the mark.", "--model", "exact:bow", "--format", "csv"]
    flags = ["--entropy", "token,word", "--entropy-order", "0.5,1,2", "--rank", "word"]
    result = CliRunner().invoke(cli, [*arguments, *flags])
    assert result.exit_code == 0, result.output
    header = result.stdout.splitlines()[0].split(",")
    assert {"token_entropy", "word_entropy", "word_entropy_0.5", "word_entropy_2_high", "word_rank_low"} <= set(header)
    assert "token_rank" not in header
    bare = CliRunner().invoke(cli, [*arguments, "--entropy", "--rank"])
    assert {"token_entropy", "token_rank"} <= set(bare.stdout.splitlines()[0].split(","))
    (tmp_path / "texts.txt").write_text("She saw\n", encoding="utf-8")
    wrong = CliRunner().invoke(cli, ["score", "--entropy", str(tmp_path / "texts.txt"), "--model", "exact:bow"])
    assert wrong.exit_code == 2
    assert "write --entropy token before a file" in wrong.output.replace("\n", " ")
    alone = CliRunner().invoke(cli, [*arguments, "--entropy-order", "2"])
    assert "--entropy-order is for --entropy word" in alone.output
    unknown = CliRunner().invoke(cli, [*arguments, "--entropy", "word", "--entropy-order", "x"])
    assert "a number above 0" in str(unknown.exception)
