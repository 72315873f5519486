"""Designs with two factors, against a repeated-measures analysis of variance by hand; within-item intervals."""

from __future__ import annotations

import io
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from wordprob.analysis import contrast_plots, outputs, region_plots
from wordprob.analysis.contrasts import SUMMARY, Design, contrast
from wordprob.analysis.factorial import FactorialDesign, caption, factorial
from wordprob.analysis.intervals import within_intervals
from wordprob.analysis.plot_columns import PlotColumns
from wordprob.analysis.region_means import region_means
from wordprob.errors import InputError, OptionError

RNG = np.random.default_rng(7)
DESIGN = FactorialDesign(("gender", "number"), where={"region": "critical"})


def study(items: int = 10) -> pd.DataFrame:
    rows = []
    text = 0
    for item in range(items):
        for gender in ("match", "mismatch"):
            for number in ("sg", "pl"):
                base = 5 + 2 * (gender == "mismatch") + 1.5 * (gender == "mismatch") * (number == "pl") + item
                for word, region in enumerate(("start", "critical", "critical")):
                    rows.append((item, gender, number, text, word, region, f"w{word}", base + RNG.normal()))
                text += 1
    names = ["item", "gender", "number", "text_id", "word_id", "region", "word", "surprisal"]
    return pd.DataFrame(rows, columns=names).assign(note="")


def cells_of(frame: pd.DataFrame) -> np.ndarray:
    critical = frame[frame["region"] == "critical"]
    sums = critical.groupby(["item", "gender", "number"], sort=False)["surprisal"].sum()
    return sums.to_numpy().reshape(-1, 4)


def test_effects_are_those_of_an_analysis_of_variance():
    frame = study()
    found = factorial(frame, DESIGN)
    cells = cells_of(frame)
    assert found.items[found.cells].to_numpy() == pytest.approx(cells)
    assert found.summary["contrast"].tolist() == ["gender: match - mismatch", "number: sg - pl", "gender x number"]
    main = cells[:, :2].mean(axis=1) - cells[:, 2:].mean(axis=1)
    interaction = (cells[:, 0] - cells[:, 1]) - (cells[:, 2] - cells[:, 3])
    for row, effect in ((0, main), (2, interaction)):
        truth = stats.ttest_1samp(effect, 0)
        assert found.summary["t"][row] == pytest.approx(truth.statistic)
        assert found.summary["p_t"][row] == pytest.approx(truth.pvalue)
        assert found.summary["difference"][row] == pytest.approx(effect.mean())
    # F of the interaction, from sums of squares: t² of the effect.
    n = len(cells)
    contrast_mean = (cells @ np.array([0.5, -0.5, -0.5, 0.5])).mean()
    residual = (cells @ np.array([0.5, -0.5, -0.5, 0.5])).var(ddof=1)
    assert found.summary["t"][2] ** 2 == pytest.approx(n * contrast_mean**2 / residual)
    means = found.summary.loc[2, ["mean_first", "mean_second"]].tolist()
    assert means[0] - means[1] == pytest.approx(found.summary["difference"][2])
    assert set(found.summary.columns) == set(SUMMARY) - {"model"}
    assert "lmer(surprisal ~ gender * number + (1 | item), data = d)" in caption(found, "bits")


def test_levels_models_and_missing_cells():
    frame = study(4)
    reverse = factorial(frame, FactorialDesign(("gender", "number"), (["mismatch", "match"], []), where=DESIGN.where))
    forward = factorial(frame, DESIGN)
    assert reverse.summary["difference"][0] == pytest.approx(-forward.summary["difference"][0])
    assert reverse.summary["difference"][1] == pytest.approx(forward.summary["difference"][1])
    both = pd.concat([frame.assign(model=name) for name in ("a", "b")])
    assert factorial(both, DESIGN).summary["model"].tolist() == ["a"] * 3 + ["b"] * 3
    partial = frame[~((frame["item"] == 1) & (frame["gender"] == "match") & (frame["number"] == "pl"))]
    found = factorial(partial, DESIGN)
    assert found.summary["n_items"].tolist() == [3] * 3
    assert found.summary["n_missing"].tolist() == [1] * 3
    assert found.items["note"].tolist()[1] == "no row in match, pl"


def test_what_is_wrong_is_said():
    frame = study(3)
    with pytest.raises(OptionError, match="both factors are 'gender'"):
        factorial(frame, FactorialDesign(("gender", "gender")))
    with pytest.raises(InputError, match="no column 'numbers'. Did you mean number"):
        factorial(frame, FactorialDesign(("gender", "numbers")))
    with pytest.raises(InputError, match="a contrast is of two conditions, but column 'number' holds 3"):
        factorial(pd.concat([frame, frame.assign(number="dual")]), DESIGN)


def test_within_item_intervals_are_moreys():
    values = RNG.normal(size=(12, 4)) + np.arange(12)[:, None] * 5
    normed = values - values.mean(axis=1, keepdims=True) + values.mean()
    se = normed.std(axis=0, ddof=1) / math.sqrt(12) * math.sqrt(4 / 3)
    assert within_intervals(values) == pytest.approx(se * stats.t.ppf(0.975, 11))
    # With two conditions, the interval of each is that of their difference, divided by the square root of two.
    pair = values[:, :2]
    of_difference = stats.t.ppf(0.975, 11) * (pair[:, 0] - pair[:, 1]).std(ddof=1) / math.sqrt(12)
    assert within_intervals(pair) == pytest.approx([of_difference / math.sqrt(2)] * 2)


def test_means_a_word_for_regions_of_unequal_length():
    frame = pd.DataFrame(
        {"item": [1, 1, 1], "condition": ["a", "a", "b"], "text_id": [0, 0, 1], "surprisal": [2.0, 4.0, 3.0]}
    )
    sums, means = (contrast(frame, Design(combine=how)) for how in (None, "mean"))
    assert sums.items[["condition_a", "condition_b"]].values.tolist() == [[6.0, 3.0]]
    assert means.items[["condition_a", "condition_b"]].values.tolist() == [[3.0, 3.0]]
    regions = pd.DataFrame(
        {"item": [1, 1], "condition": ["a", "b"], "text_id": [0, 1], "n_words": ["2", "1"], "surprisal": [6.0, 3.0]}
    )
    found = contrast(regions, Design(combine="mean"))
    assert found.items[["condition_a", "condition_b"]].values.tolist() == [[3.0, 3.0]]


# --- figures ---------------------------------------------------------------------------------------------------------


def all_text(figure) -> str:
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text))


def test_the_figure_of_a_factorial_design():
    figure = contrast_plots.factorial(factorial(study(), DESIGN), unit="bits", model="smollm2-135m")
    shown = all_text(figure)
    assert "smollm2-135m" in shown
    assert "permutation test" in shown
    assert "gender × number" in shown
    assert "Morey" in shown


def test_the_figure_of_a_contrast_names_test_and_model_and_has_minus_signs():
    result = contrast(study().rename(columns={"gender": "condition"}), Design(where={"region": "critical"}))
    shown = all_text(contrast_plots.contrast(result, unit="bits", model="smollm2-135m"))
    assert "smollm2-135m" in shown
    assert "permutation test" in shown
    assert "−" in shown
    assert " - " not in shown


def test_figures_have_fonts_that_journals_take():
    result = contrast(study().rename(columns={"gender": "condition"}), Design())
    data = outputs.image(contrast_plots.contrast(result), "pdf")
    assert b"/Type3" not in data
    assert b"/CIDFontType2" in data or b"/TrueType" in data


def test_conditions_differ_without_colour():
    figure = region_plots.by_region(study(), "gender", "region", item="item")
    lines = [line for line in figure.axes[0].lines if line.get_marker() not in ("None", "", "|", "_", 2, 3)]
    assert len({line.get_marker() for line in lines}) == 2
    assert len({line.get_linestyle() for line in lines}) == 2


def test_regions_by_two_factors_with_within_item_intervals():
    frame = study()
    means = region_means(frame, ["gender", "number"], "region", PlotColumns(), "item")
    critical = means[means["region"] == "critical"]
    assert critical["condition"].tolist() == ["match, sg", "match, pl", "mismatch, sg", "mismatch, pl"]
    cells = cells_of(frame)
    assert critical["mean"].to_numpy() == pytest.approx(cells.mean(axis=0))
    assert critical["half_width"].to_numpy() == pytest.approx(within_intervals(cells))
    plain = region_means(frame, ["gender", "number"], "region", PlotColumns(), None)
    assert (plain["half_width"].to_numpy() > means["half_width"].to_numpy()).all(), "items differ much"
    shown = all_text(region_plots.by_region(frame, "gender,number", "region", item="item", model="m"))
    assert "within-item" in shown
    assert "Morey" in shown
    assert "over texts" in all_text(region_plots.by_region(frame, "gender", "region"))
    words = region_means(frame, ["gender"], "region", PlotColumns(), None, combine="mean")
    sums = region_means(frame, ["gender"], "region", PlotColumns(), None)
    of_critical = [table[table["region"] == "critical"]["mean"].to_numpy() for table in (words, sums)]
    assert of_critical[0] * 2 == pytest.approx(of_critical[1])


def test_a_region_that_some_texts_lack_is_drawn_in_its_place():
    rows = [
        (0, "near", "subject"),
        (0, "near", "verb"),
        (1, "far", "subject"),
        (1, "far", "clause"),
        (1, "far", "verb"),
    ]
    frame = pd.DataFrame(rows, columns=["text_id", "distance", "region"]).assign(surprisal=1.0)
    means = region_means(frame, ["distance"], "region", PlotColumns(), None)
    assert list(dict.fromkeys(means["region"])) == ["subject", "clause", "verb"]


def test_the_legend_of_four_conditions_fits():
    figure = region_plots.by_region(study(), "gender,number", "region", item="item")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    box = figure.legends[0].get_window_extent(canvas.get_renderer())
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_a_png_can_be_drawn():
    figure = contrast_plots.factorial(factorial(study(), DESIGN))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    assert buffer.getvalue().startswith(b"\x89PNG")


def test_a_design_without_a_complete_item_is_drawn_without_a_warning(recwarn):
    frame = study(2).assign(surprisal=float("nan"))
    outputs.image(contrast_plots.factorial(factorial(frame, DESIGN)), "png")
    assert not [str(warning.message) for warning in recwarn if "legend" in str(warning.message)]
