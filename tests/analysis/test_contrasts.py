"""Contrasts by item, against scipy's paired t-test and by hand; and the figures."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from wordprob.analysis import contrast_plots, outputs, region_plots, text_plots
from wordprob.analysis.contrasts import SUMMARY, Design, caption, contrast
from wordprob.analysis.plot_columns import PlotColumns
from wordprob.errors import InputError, OptionError, OutputError

RNG = np.random.default_rng(3)


def words(items: int = 8) -> pd.DataFrame:
    """Two conditions, three words each, the last two of them critical; numbers as text, as files have them."""
    rows = [
        (n, level, 2 * n + k, w, region, "mark$", str(RNG.normal(3 + 2 * k, 1)))
        for n in range(items)
        for k, level in enumerate(("plain", "odd"))
        for w, region in enumerate(("start", "critical", "critical"))
    ]
    names = ["item", "condition", "text_id", "word_id", "region", "word", "surprisal"]
    return pd.DataFrame(rows, columns=names).assign(note="")


def test_contrast_agrees_with_a_paired_t_test_of_the_sums():
    frame = words()
    found = contrast(frame, Design(levels=["odd", "plain"], where={"region": "critical"}))
    kept = frame[frame["region"] == "critical"].assign(surprisal=lambda f: f["surprisal"].astype(float))
    sums = kept.groupby(["condition", "item"])["surprisal"].sum()
    truth = stats.ttest_rel(sums["odd"], sums["plain"])
    row = found.summary.iloc[0]
    assert row["contrast"] == "odd - plain"
    assert (row["t"], row["p_t"], row["df"]) == pytest.approx((truth.statistic, truth.pvalue, 7))
    low, high = truth.confidence_interval()
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((low, high))
    assert row["d_z"] == pytest.approx(row["difference"] / row["sd"])
    flips = stats.permutation_test(
        (sums["odd"] - sums["plain"],), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert row["p_permutation"] == pytest.approx(flips.pvalue)
    assert found.items["difference"].tolist() == pytest.approx((sums["odd"] - sums["plain"]).tolist())
    assert list(found.items.columns) == ["measure", "item", "condition_odd", "condition_plain", "difference", "note"]
    assert "region critical" in caption(found)


def test_texts_of_an_item_are_averaged_and_models_are_separate():
    frame = pd.concat([words(3).assign(model=name, surprisal_naive=1) for name in ("a", "b")], ignore_index=True)
    twice = pd.concat([frame, frame.assign(text_id=frame["text_id"] + 100)], ignore_index=True)
    one, two = (contrast(table, Design(levels=["odd", "plain"])) for table in (frame, twice))
    assert two.summary["difference"].tolist() == pytest.approx(one.summary["difference"].tolist())
    assert one.summary[["model", "measure"]].values.tolist() == [
        ["a", "surprisal"], ["b", "surprisal"], ["a", "surprisal_naive"], ["b", "surprisal_naive"],
    ]  # fmt: skip
    assert list(one.summary.columns) == list(SUMMARY)


def test_items_with_missing_values_are_left_out_with_the_reason():
    frame = words(4)
    frame.loc[1, ["surprisal", "note"]] = ["", "a token crosses the word's boundary"]
    frame.loc[7, ["surprisal", "note"]] = ["inf", "probability zero"]
    frame = frame.drop(index=frame[(frame["item"] == 2) & (frame["condition"] == "odd")].index)
    found = contrast(frame, Design(levels=["odd", "plain"]))
    assert found.items["note"].tolist() == [
        "a token crosses the word's boundary", "probability zero", "no row in condition odd", "",
    ]  # fmt: skip
    assert found.summary[["n_items", "n_missing"]].values.tolist() == [[1, 3]]
    assert math.isnan(found.summary["p_t"][0]), "one item is no test"


def test_several_rows_without_text_id_need_combine():
    frame = words(3).drop(columns=["text_id"]).assign(surprisal=[1.0, 2.0, 3.0] * 6)
    with pytest.raises(InputError, match="item 0 has 3 rows in condition plain.*`combine` is sum"):
        contrast(frame, Design())
    sums = contrast(frame, Design(combine="sum")).items
    means = contrast(frame, Design(combine="mean")).items
    assert (sums["condition_odd"][0], means["condition_odd"][0]) == (6.0, 2.0)
    with pytest.raises(OptionError, match="sum or mean"):
        contrast(frame, Design(combine="median"))


@pytest.mark.parametrize(
    ("design", "message"),
    [
        (Design(item="itm"), "no column 'itm'. Did you mean item"),
        (Design(condition="region", levels=["start"]), "a contrast is of two conditions"),
        (Design(levels=["odd", "even"]), "no condition is called 'even'.*It holds: plain; odd"),
        (Design(where={"region": "critcal"}), "no row has 'critcal' in column 'region'. Did you mean critical"),
        (Design(measures=["word"]), "48 values that are not numbers"),
    ],
)
def test_bad_designs_are_refused(design, message):
    with pytest.raises(InputError, match=message):
        contrast(words(), design)


def test_three_conditions_need_levels():
    frame = words().assign(condition=lambda f: np.where(f["item"] == 0, "third", f["condition"]))
    with pytest.raises(
        InputError, match="holds 3: third; plain; odd. Choose two of them as `levels`, for example third,plain"
    ):
        contrast(frame, Design())


@pytest.mark.parametrize("column", SUMMARY)
def test_every_column_is_documented(column):
    page = Path(__file__).resolve().parents[2] / "docs/reference.md"
    assert f"| `{column}` |" in page.read_text(encoding="utf-8")


# --- figures -------------------------------------------------------------------------------------------------------


def test_plot_text_draws_the_chosen_texts():
    frame = words(3).assign(surprisal_naive="1.0")
    frame.loc[1, "surprisal"] = ""
    figure = text_plots.plot_text(frame, texts=["0", "3"], naive=True, unit="bits")
    assert len(figure.axes) == 2
    first = figure.axes[0]
    assert [label.get_text() for label in first.get_xticklabels()] == ["mark$"] * 3
    assert not any(label.get_parse_math() for label in first.get_xticklabels()), "a dollar is a dollar"
    corrected, naive = first.get_lines()
    assert np.isnan(corrected.get_ydata()[1]), "a missing value is a gap"
    assert naive.get_ydata().tolist() == [1.0, 1.0, 1.0]
    assert first.get_ylabel() == "surprisal (bits)"


def test_plot_text_breaks_long_texts_and_draws_every_model():
    frame = pd.concat(
        [pd.DataFrame({"text_id": 0, "word": "w", "surprisal": np.arange(40.0), "model": name}) for name in "ab"]
    )
    figure = text_plots.plot_text(frame)
    assert [len(axes.get_lines()) for axes in figure.axes] == [2, 2, 2]
    assert figure.axes[2].get_lines()[0].get_ydata().tolist() == [36.0, 37.0, 38.0, 39.0]


def test_plot_text_by_group():
    columns = PlotColumns(texts=("item", "condition"))
    figure = text_plots.plot_text(words(3), columns, ["item=1"])
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "item = 1, condition = plain", "item = 1, condition = odd",
    ]  # fmt: skip
    with pytest.raises(InputError, match="no text has item = 9; 'item' holds 0; 1; 2"):
        text_plots.plot_text(words(3), columns, ["item=9"])
    with pytest.raises(OptionError, match="does not name a column and a value"):
        text_plots.plot_text(words(3), columns, ["item=1,odd"])
    with pytest.raises(InputError, match="16 texts to draw.*`texts`, for example 'text_id=0'"):
        text_plots.plot_text(words(8))


def test_regions_are_means_of_sums_over_texts():
    frame = words()
    figure = region_plots.by_region(frame, "condition", "region")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["start", "critical"]
    values = frame.assign(v=frame["surprisal"].astype(float))
    sums = values.groupby(["text_id", "condition", "region"])["v"].sum().groupby(["condition", "region"]).mean()
    drawn = [container.lines[0].get_ydata().tolist() for container in axes.containers]
    assert drawn == [pytest.approx([sums[c, "start"], sums[c, "critical"]]) for c in ("plain", "odd")]


def test_contrast_figure_and_its_files(tmp_path):
    result = contrast(words(), Design(levels=["odd", "plain"]))
    for ending in ("pdf", "png", "svg"):
        path = outputs.check_image(tmp_path / f"x.{ending}")
        outputs.write_image(path, contrast_plots.contrast(result, unit="bits"))
        assert path.stat().st_size > 1000
    left, right = contrast_plots.contrast(result).axes
    assert len(left.get_lines()) == 9
    assert "p = " in right.get_title()
    with pytest.raises(OutputError, match="exists already"):
        outputs.check_image(tmp_path / "x.pdf")
    with pytest.raises(OptionError, match=r"\.pdf, \.png, \.svg"):
        outputs.check_image(tmp_path / "x.tiff")
