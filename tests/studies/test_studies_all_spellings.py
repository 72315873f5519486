"""Both studies with all spellings as a third estimate."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import wordprob
from wordprob import studies
from wordprob.analysis.word_types import TypeSums, WordFilter
from wordprob.errors import InputError
from wordprob.options import ScoringOptions

SCORING = ScoringOptions(spellings="all", tolerance=0.01, max_open=2000)
TEXTS = ["the marker's era", "he marked the mark", "ther the mark", "the era era"]


@pytest.fixture
def reading(tmp_path):
    """Reading times that follow the surprisals with all spellings."""
    scored = wordprob.load("exact:leaky").score(TEXTS * 6, **SCORING.to_dict("words")).to_pandas()
    noise = np.random.default_rng(1).normal(0, 5, len(scored))
    table = scored[["text_id", "word"]].assign(time=200 + 20 * scored["surprisal_all"] + noise, freq=1.0)
    table.to_csv(tmp_path / "times.csv", index=False)
    return tmp_path / "times.csv"


def test_reading_times(reading, tmp_path):
    result = studies.reading_times(
        reading, models="exact:leaky", scoring=SCORING, baseline="time ~ word_len", spillover=0
    )
    assert set(result.folds["estimate"]) == {"corrected", "naive", "all"}
    means = result.summary.set_index("contrast")["mean"]
    assert means["all - baseline"] > means["corrected - baseline"]
    assert means["all - corrected"] == pytest.approx(means["all - baseline"] - means["corrected - baseline"])
    table = result.markdown().splitlines()
    assert table[0].endswith("All spellings | Times: All vs. corrected |")
    assert [float(cell.strip(" *")) for cell in table[2].split("|")[-3:-1]] == [
        round(100 * means["all - baseline"], 2),
        round(100 * means["all - corrected"], 2),
    ]
    words = result.words.to_pandas()
    assert words["surprisal_all"].notna().all()
    assert (words["surprisal_all"] <= words["surprisal"] + 1e-9).all()
    written = {path.name for path in result.write(tmp_path / "results").iterdir()}
    assert "figure.pdf" in written


def test_word_lengths(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS * 4), encoding="utf-8")
    result = studies.word_lengths(tmp_path / "texts.txt", "exact:leaky", scoring=SCORING, min_count=1)
    estimates = result.correlations.groupby("predictor", sort=False)["estimate"].apply(list).to_dict()
    assert estimates["CCH (Piantadosi)"] == ["naive", "corrected", "all"]
    rows = result.correlations.set_index(["predictor", "estimate"])["spearman"]
    changes = result.correlations.set_index(["predictor", "estimate"])["spearman_change"]
    key = "CCH (Pimentel)"
    assert changes[key, "all"] == pytest.approx(rows[key, "all"] - rows[key, "corrected"])


def test_scored_tables_with_and_without_all_spellings_do_not_mix(tmp_path):
    sums = TypeSums(WordFilter(min_count=1))
    values = np.ones(2)
    sums.add(["a", "b"], {"corrected": values, "naive": values, "all": values})
    with pytest.raises(InputError, match="different estimates"):
        sums.add(["a", "b"], {"corrected": values, "naive": values})
    table = wordprob.load("exact:leaky").score(TEXTS, spellings="all", tolerance=0.1)
    table.write(tmp_path / "scored.tsv")
    assert pd.read_csv(tmp_path / "scored.tsv", sep="\t")["surprisal_all"].notna().all()
