"""Δ log-likelihood, against R, statsmodels and the authors' own numbers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wordprob.analysis import folds, regression
from wordprob.analysis.datasets import Dataset
from wordprob.analysis.input_tables import read_table
from wordprob.analysis.model_sizes import size_of
from wordprob.analysis.reading_time_results import ALL_MODELS, ReadingTimesResult
from wordprob.analysis.reading_times import ReadingTimesProtocol, analyse
from wordprob.errors import InputError, OptionError

R = Path(__file__).parent / "r"
SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "paper_reading_times"
CORPORA = ("brown", "natural_stories", "provo")
MODELS = ("gpt2-small", "pythia-70m", "pythia-14b")

# Tolerances. Everything is float64, with a rounding of 1.1e-16. Least squares by QR multiplies it by the number of
# columns, at most 17, and by their condition when all are scaled to one length (QR does not depend on units), at most
# 70 on these tables: 17 × 70 × 1.1e-16 = 1.3e-13, relative to the largest coefficient, in any order of sums.
LLH_TOLERANCE = 1e-11
"""Nats. Δ is a difference of two log-likelihoods of about 6 nats each: 2 × 6 × 1.3e-13 = 1.6e-12."""

COEFFICIENT_TOLERANCE = 1e-8
"""Relative. The smallest coefficient is 45,000 times smaller than the largest: 4.5e4 × 1.3e-13 = 6e-9."""

paper = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data/paper_reading_times is absent")


@pytest.fixture(scope="module")
def small() -> pd.DataFrame:
    return read_table(R / "small.tsv")


@pytest.fixture(scope="module")
def result(small: pd.DataFrame) -> ReadingTimesResult:
    return analyse([Dataset("small", "made-up", small)])


def test_fold_values_agree_with_r(result: ReadingTimesResult) -> None:
    expected = pd.read_csv(R / "expected_folds.tsv", sep="\t")
    computed = result.folds.sort_values(["estimate", "fold"]).reset_index(drop=True)
    assert computed["n"].tolist() == expected["n"].tolist()
    np.testing.assert_allclose(computed["delta_llh"], expected["delta_llh"], rtol=0, atol=LLH_TOLERANCE)


def test_coefficients_agree_with_r(result: ReadingTimesResult) -> None:
    expected = pd.read_csv(R / "expected_coefficients.tsv", sep="\t")
    # R names the naive columns, wordprob lets 'surprisal' stand for the estimate.
    expected["term"] = expected["term"].str.replace("surprisal_naive", "surprisal").replace("(Intercept)", "Intercept")
    both = result.coefficients.merge(expected, on=["regression", "term"], suffixes=("", "_r"))
    assert len(both) == len(expected) == len(result.coefficients)
    for column in ("estimate", "std_error", "t", "p"):
        np.testing.assert_allclose(both[column], both[f"{column}_r"], rtol=COEFFICIENT_TOLERANCE)


def test_fold_values_agree_with_statsmodels(small: pd.DataFrame) -> None:
    sm = pytest.importorskip("statsmodels.formula.api")
    frame = small.replace("", np.nan).assign(**{
        name: pd.to_numeric(small[name]) for name in ("time", "word_len", "freq", "surprisal")
    })  # fmt: skip
    frame = frame.dropna(subset=["time", "word_len", "freq", "surprisal"]).reset_index(drop=True)
    fold = np.arange(len(frame)) % 4 + 1
    found = analyse(
        [Dataset("small", "m", frame.drop(columns="surprisal_naive"), fold)],
        ReadingTimesProtocol("time ~ word_len*freq", "surprisal"),
    )
    for k, row in found.folds.set_index("fold").iterrows():
        llh = []
        for formula in ("time ~ word_len*freq", "time ~ word_len*freq + surprisal"):
            fit = sm.ols(formula, frame[fold != k]).fit()
            variance = float(np.mean(fit.resid**2))
            error = frame.loc[fold == k, "time"] - fit.predict(frame[fold == k])
            llh.append(np.mean(-0.5 * np.log(2 * np.pi * variance) - error**2 / (2 * variance)))
        assert row["delta_llh"] == pytest.approx(llh[1] - llh[0], abs=LLH_TOLERANCE)


@pytest.fixture(scope="module")
def published() -> ReadingTimesResult:
    datasets = []
    for model in MODELS:
        for corpus in CORPORA:
            frame = read_table(SHARED / "merged" / f"{corpus}-{model}.tsv")
            frame = frame.rename(columns=lambda name: name.replace("surprisal_buggy", "surprisal_naive"))
            fold = folds.look_up(frame, read_table(SHARED / "folds" / f"{corpus}.tsv"), corpus)
            datasets.append(Dataset(corpus, model, frame, fold))
    return analyse(datasets)


@paper
@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("model", MODELS)
def test_fold_values_agree_with_the_published_ones(published: ReadingTimesResult, corpus: str, model: str) -> None:
    theirs = pd.read_csv(SHARED / "delta_llh" / f"llh-{corpus}-{model}.tsv", sep="\t")
    theirs = theirs[theirs["predictor_type"] == 1]
    ours = published.folds[(published.folds["corpus"] == corpus) & (published.folds["model"] == model)]
    for estimate, name in (("corrected", "surprisal"), ("naive", "surprisal_buggy")):
        expected = theirs[theirs["name"] == name].head(10)["diff_empty"].to_numpy()
        found = ours[ours["estimate"] == estimate].sort_values("fold")["delta_llh"].to_numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=LLH_TOLERANCE)


@paper
def test_table_agrees_with_the_paper(published: ReadingTimesResult) -> None:
    table = published.markdown()
    small = next(line for line in table.splitlines() if line.startswith("| gpt2-small"))
    cells = [cell.strip().rstrip("*") for cell in small.split("|")[2:-1]]
    assert cells == ["0.02", "5.25", "5.24", "0.02", "4.35", "4.33", "0.16", "3.63", "3.47"]


@paper
@pytest.mark.parametrize("corpus", CORPORA)
def test_drawn_folds_agree_with_the_paper(corpus: str) -> None:
    frame = read_table(SHARED / "merged" / f"{corpus}-gpt2-small.tsv")
    needed = [f"{at}{name}" for at in regression.positions(3) for name in ("word_len", "freq")] + ["time"]
    complete = (frame[needed] != "").all(axis=1).to_numpy()
    given = folds.look_up(frame, read_table(SHARED / "folds" / f"{corpus}.tsv"), corpus)
    assert folds.draw(complete, 10, 42).tolist() == given.tolist()


def test_sample_agrees_with_r() -> None:
    # R 4.2.2: set.seed(42); sample(10)   and   set.seed(1); sample(5)
    assert (folds.r_sample(10, 42) + 1).tolist() == [1, 5, 10, 8, 2, 4, 6, 9, 7, 3]
    assert (folds.r_sample(5, 1) + 1).tolist() == [1, 4, 3, 5, 2]


def test_earlier_words_are_found_by_position(small: pd.DataFrame) -> None:
    """A row left out must not move the words before it closer."""
    whole = analyse([Dataset("small", "m", small)])
    assert whole.provenance["datasets"][0]["rows"] == 240
    without = small[small["word_id"] != "30"].reset_index(drop=True)
    used = analyse([Dataset("small", "m", without)]).provenance["datasets"][0]["used"]
    lost = whole.provenance["datasets"][0]["used"] - used
    assert 12 <= lost <= 16, "the word itself and the three after it, in four texts, some of them incomplete anyway"


def test_all_models_together_count_a_fold_once(small: pd.DataFrame) -> None:
    """Three copies of one model are no more evidence than one."""
    found = analyse([Dataset("small", name, small) for name in ("a", "b", "c")]).summary.set_index(
        ["model", "contrast"]
    )
    for contrast in ("corrected - baseline", "corrected - naive"):
        alone, together = found.loc[("a", contrast)], found.loc[(ALL_MODELS, contrast)]
        assert together["p"] == alone["p"]
        assert together["mean"] == pytest.approx(alone["mean"])
        assert together["p_pairs"] <= together["p"]


def test_infinite_surprisal_counts_as_missing(small: pd.DataFrame) -> None:
    surprisal = small["surprisal"].mask(small["word_id"] == "40", "inf")
    found = analyse([Dataset("small", "m", small.assign(surprisal=surprisal))])
    assert np.isfinite(found.folds["delta_llh"]).all()
    whole = analyse([Dataset("small", "m", small)])
    assert found.provenance["datasets"][0]["used"] < whole.provenance["datasets"][0]["used"]


def test_table_with_the_naive_estimate_only(small: pd.DataFrame) -> None:
    found = analyse([Dataset("small", "m", small.drop(columns="surprisal"))])
    assert set(found.summary["contrast"]) == {"naive - baseline"}
    assert "corrected" not in set(found.folds["estimate"])
    assert found.markdown().startswith("| Model | Small: Buggy |\n")


def test_model_sizes_from_names() -> None:
    assert [size_of(name) for name in ("gpt2-small", "pythia-1.4b", "pythia-14b", "smollm2-135m", "exact:bow")] == [
        124, 1400, 1400, 135, None
    ]  # fmt: skip


# --- bad input -----------------------------------------------------------------------------------------------------


def test_missing_column_is_named_in_the_error(small: pd.DataFrame) -> None:
    with pytest.raises(InputError, match=r"no column 'freq'.*It has: text_id, word_id"):
        analyse([Dataset("small", "m", small.drop(columns="freq"))])


def test_table_without_surprisals_is_refused(small: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="no surprisals"):
        Dataset("small", "m", small.drop(columns=["surprisal", "surprisal_naive"]))


def test_constant_times_are_refused(small: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="are 250; there is nothing to predict"):
        Dataset("small", "m", small.assign(time="250"))


def test_times_that_are_not_numbers_are_listed(small: pd.DataFrame) -> None:
    times = small["time"].mask(small.index == 3, "fast")
    with pytest.raises(InputError, match="row 4: 'fast'"):
        Dataset("small", "m", small.assign(time=times))


def test_too_few_rows_for_the_parameters_are_refused(small: pd.DataFrame) -> None:
    with pytest.raises(InputError, match=r"fold 1: \d+ rows to train on are too few for 13 parameters"):
        analyse([Dataset("small", "m", small.head(16))], ReadingTimesProtocol(folds=2))


def test_constant_predictor_is_refused(small: pd.DataFrame) -> None:
    with pytest.raises(InputError, match=r"terms before them say: word_len"):
        analyse([Dataset("small", "m", small.assign(word_len="4"))])


def test_rows_of_participants_are_refused(small: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="`participant`"):
        analyse([Dataset("small", "m", pd.concat([small, small]))])


def test_formulas_may_transform_variables(small: pd.DataFrame) -> None:
    protocol = ReadingTimesProtocol("log(time) ~ word_len + freq", "surprisal + prev_surprisal")
    found = analyse([Dataset("small", "m", small)], protocol)
    assert set(found.coefficients["term"]) == {"Intercept", "word_len", "freq", "surprisal", "prev_surprisal"}
    times = small["time"].mask(small["word_id"] == "12", "0")
    with pytest.raises(InputError, match="what is predicted is not finite"):
        analyse([Dataset("small", "m", small.assign(time=times))], protocol)


def test_figure_joins_models_of_one_family(small: pd.DataFrame) -> None:
    models = ("a-10m", "b-15m", "a-20m")
    protocol = ReadingTimesProtocol("time ~ word_len", "surprisal")
    axes = analyse([Dataset("small", model, small) for model in models], protocol).figure().axes[0]
    assert [len(part.lines[0].get_xdata()) for part in axes.containers] == [2, 1, 2, 1], "both estimates, two families"
    unknown = [Dataset("small", model, small) for model in ("a-one", "a-two")]
    axes = analyse(unknown, protocol).figure().axes[0]
    assert [len(part.lines[0].get_xdata()) for part in axes.containers] == [1, 1, 1, 1], "no order, no line"


def test_figure_names_families_where_names_of_models_would_overlap(small: pd.DataFrame) -> None:
    """Eleven models, two of nearly one size, in five corpora: families are named instead, and panels wrap."""
    protocol = ReadingTimesProtocol("time ~ word_len", "surprisal", folds=3)
    datasets = [Dataset(f"c{n}", model, small) for n in range(5) for model in ("a-100m", "b-101m", "a-9b")]
    figure = analyse(datasets, protocol).figure()
    assert len(figure.axes) == 5
    for axes in figure.axes:
        assert [text.get_text() for text in axes.texts] == ["a", "b"]
        assert not [label for label in axes.get_xticklabels() if "b-101m" in label.get_text()]


def test_bad_formulas_are_refused() -> None:
    with pytest.raises(OptionError, match="is not a formula"):
        ReadingTimesProtocol(baseline="time ~ word_len +* freq")
    with pytest.raises(OptionError, match="does not say what to predict"):
        ReadingTimesProtocol(baseline="word_len * freq")


def test_error_without_complete_rows_names_the_missing_variables(small: pd.DataFrame) -> None:
    with pytest.raises(InputError, match=r"all of the values that are needed: freq is missing on 3 of 3 rows; "):
        analyse([Dataset("small", "m", small.head(3).assign(freq=""))])


def test_missing_values_are_counted_by_variable(result: ReadingTimesResult, small: pd.DataFrame) -> None:
    [about] = result.provenance["datasets"]
    assert about["missing"]["freq"] == int((small["freq"] == "").sum())
    unknown = int((small["word_len"] == "").sum())
    assert about["missing"]["prev3_word_len"] == 3 * small["text_id"].nunique() + unknown


def test_same_corpus_and_model_twice_is_refused(small: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="given twice: small with m"):
        analyse([Dataset("small", "m", small), Dataset("small", "m", small)])


def test_folds_of_other_data_are_refused(small: pd.DataFrame) -> None:
    table = pd.DataFrame({"text_id": ["9"], "word_id": ["3"], "fold": ["1"]})
    with pytest.raises(InputError, match=r"does not belong to this data.*text 9 word 3"):
        folds.look_up(small, table, "folds.tsv")


def test_unknown_correction_is_refused() -> None:
    with pytest.raises(OptionError, match="bh, holm, none"):
        ReadingTimesProtocol(correction="bonferoni")
