"""What a word-length study found: correlations, the paper's table and figure, and the files that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from wordprob.analysis import outputs
from wordprob.analysis.correlations import CORRELATION_NAMES
from wordprob.analysis.study_results import ABSENT, StudyResult, latex_table, latex_text, markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADERS = ("Model", "Predictor", "Estimate", "Types", "Spearman", "Change", "Pearson", "Change")


@dataclass(frozen=True)
class WordLengthResult(StudyResult):
    """What a word-length study found.

    Attributes
    ----------
    correlations
        ``model, predictor, estimate, types, spearman, spearman_low, spearman_high, pearson, …``, and ``spearman_change,
        …``: by how much corrected predictors differ from naive ones, and those with all spellings from corrected ones.
    types
        The word types themselves, with count, length, mean surprisals and predictors, by model.
    provenance
        What was computed, and from what.
    """

    FILE_NAMES: ClassVar = (
        "correlations.tsv", "types.tsv", "table.md", "table.tex", "figure.pdf", "figure.png", "provenance.json",
    )  # fmt: skip

    correlations: pd.DataFrame = field(repr=False)
    types: pd.DataFrame = field(repr=False)
    provenance: Mapping[str, object] = field(repr=False)

    @property
    def models(self) -> list[str]:
        """The models, in the order given."""
        return list(dict.fromkeys(self.correlations["model"]))

    @property
    def caption(self) -> str:
        """What a table or figure says about itself."""
        return (
            f"Correlation with word length in characters, over types: {self.provenance['words']}. Brackets: "
            f"{self.provenance['intervals']}. Zipf is −log p of the word from {self.provenance['unigrams']}; "
            "CCH (Piantadosi) is E[s], CCH (Pimentel) E[s²]/E[s]. Change: corrected minus naive, and all spellings "
            "minus corrected."
        )

    def markdown(self) -> str:
        """Return the correlations with word length in Markdown, with their bootstrap intervals."""
        return f"{markdown_table(HEADERS, self._cells())}\n{self.caption}\n"

    def latex(self) -> str:
        """Return the same table in LaTeX (needs booktabs)."""
        rows = [[latex_text(cell) for cell in cells] for cells in self._cells()]
        return latex_table(self.caption, "lllrcccc", [rf"{' & '.join(HEADERS)} \\"], rows)

    def figure(self) -> Figure:
        """Draw the paper's figure: correlation with word length by model size, for each hypothesis and estimate."""
        from wordprob.analysis import plots

        return plots.word_lengths(self.correlations, self.sizes)

    def files(self) -> dict[str, bytes]:
        """Return the files of the result by name: tables, figures and provenance."""
        return {
            "correlations.tsv": outputs.tsv(self.correlations),
            "types.tsv": outputs.tsv(self.types),
            "table.md": self.markdown().encode("utf-8"),
            "table.tex": self.latex().encode("utf-8"),
            **outputs.images("figure", self.figure()),
            "provenance.json": outputs.provenance(self.provenance),
        }

    def _cells(self) -> list[list[str]]:
        return [_row_cells(row) for _, row in self.correlations.iterrows()]


def _row_cells(row: pd.Series) -> list[str]:
    cells = [row["model"], row["predictor"], row["estimate"] or ABSENT, str(row["types"])]
    for name in CORRELATION_NAMES:
        cells += [_interval_cell(row, name), _interval_cell(row, f"{name}_change")]
    return cells


def _interval_cell(row: pd.Series, name: str) -> str:
    if pd.isna(row[name]):
        return ABSENT
    return f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"
