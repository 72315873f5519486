"""What a reading-time study found: tables, the paper's table and figure, and the files that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, cast

import pandas as pd

from wordprob.analysis import outputs
from wordprob.analysis.study_results import ABSENT, StudyResult, latex_table, latex_text, markdown_table
from wordprob.analysis.study_table import StudyTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL_MODELS = "(all models)"
"""The name, in the summary, of all models of a corpus together."""

HEADERS = {
    "Improvement": "corrected - naive",
    "Corrected": "corrected - baseline",
    "Buggy": "naive - baseline",
    "All spellings": "all - baseline",
    "All vs. corrected": "all - corrected",
}
"""The columns of the paper's table and those of all spellings, and the contrast each shows."""

SCALE = 100
"""The paper prints hundredths of a nat."""


@dataclass(frozen=True)
class ReadingTimesResult(StudyResult):
    """What a reading-time study found.

    Attributes
    ----------
    folds
        ``corpus, model, estimate, fold, n, delta_llh``: nats a word, against the baseline.
    summary
        A row for each corpus, model and contrast: mean, standard error and 95 % interval over folds, p-values.
    coefficients
        The regressions fitted to all rows.
    provenance
        What was computed, and from what.
    words
        The words with their times and predictors, for regressions elsewhere.
    """

    FILE_NAMES: ClassVar = (
        "delta_llh.tsv", "summary.tsv", "coefficients.tsv", "table.md", "table.tex", "figure.pdf", "figure.png",
        "provenance.json",
    )  # fmt: skip

    folds: pd.DataFrame = field(repr=False)
    summary: pd.DataFrame = field(repr=False)
    coefficients: pd.DataFrame = field(repr=False)
    provenance: Mapping[str, object] = field(repr=False)
    words: StudyTable | None = field(default=None, repr=False)

    @property
    def corpora(self) -> list[str]:
        """The corpora, in the order given."""
        return list(dict.fromkeys(self.folds["corpus"]))

    @property
    def models(self) -> list[str]:
        """The models, in the order given."""
        return list(dict.fromkeys(self.folds["model"]))

    @property
    def titles(self) -> dict[str, str]:
        """What tables and figures call each corpus."""
        titles = cast("Mapping[str, str]", self.provenance["titles"])
        return {corpus: titles[corpus] for corpus in self.corpora}

    @property
    def caption(self) -> str:
        """What the table says about itself."""
        has_all = "All spellings" in self._headers
        return (
            "Δ log-likelihood of held-out reading times, 10⁻² nats per word, mean over folds. Corrected and Buggy "
            "(naive): against the regression without surprisal; Improvement: their difference. "
            f"{'All spellings: every spelling of a word is counted. ' if has_all else ''}Stars: p < .05, .01, .001 by "
            f"{self.provenance['test']}; correction: {self.provenance['correction']}."
        )

    def markdown(self) -> str:
        """Return the paper's table in Markdown: by corpus Improvement, Corrected and Buggy, in 10⁻² nats a word."""
        headers = ["Model"]
        for title in self.titles.values():
            headers += [f"{title}: {name}" for name in self._headers]
        rows = [[model, *self._cells(model)] for model in self._rows]
        return f"{markdown_table(headers, rows)}\n{self.caption}\n"

    def latex(self) -> str:
        """Return the same table in LaTeX (needs booktabs)."""
        count = len(self.corpora)
        width = len(self._headers)  # columns of a corpus
        titles = " & ".join(rf"\multicolumn{{{width}}}{{c}}{{{latex_text(title)}}}" for title in self.titles.values())
        # LaTeX counts columns from 1, and the first is the model's.
        rules = " ".join(rf"\cmidrule(lr){{{2 + width * n}-{1 + width * (n + 1)}}}" for n in range(count))
        header = [rf"& {titles} \\", rules, rf"Model & {' & '.join(self._headers * count)} \\"]
        rows = [[latex_text(model), *map(_latex_number, self._cells(model))] for model in self._rows]
        return latex_table(self.caption, f"l{'c' * width * count}", header, rows)

    def figure(self) -> Figure:
        """Draw the paper's figure: Δ log-likelihood by model size, a panel for each corpus."""
        from wordprob.analysis import plots

        return plots.reading_times(self.summary, self.titles, self.sizes)

    def files(self) -> dict[str, bytes]:
        """Return the files of the result by name: tables, figures and provenance."""
        return {
            "delta_llh.tsv": outputs.tsv(self.folds),
            "summary.tsv": outputs.tsv(self.summary),
            "coefficients.tsv": outputs.tsv(self.coefficients),
            "table.md": self.markdown().encode("utf-8"),
            "table.tex": self.latex().encode("utf-8"),
            **outputs.images("figure", self.figure()),
            "provenance.json": outputs.provenance(self.provenance),
        }

    @property
    def _rows(self) -> list[str]:
        return self.models + ([ALL_MODELS] if ALL_MODELS in set(self.summary["model"]) else [])

    @property
    def _headers(self) -> list[str]:
        """The columns that have a value somewhere; there may be one estimate only."""
        contrasts = set(self.summary["contrast"])
        return [name for name, contrast in HEADERS.items() if contrast in contrasts]

    def _cells(self, model: str) -> list[str]:
        """Return a row of the table: the mean of each corpus and contrast, with its stars."""
        rows = self.summary[self.summary["model"] == model]
        cells = {}
        for corpus, contrast, mean, stars in zip(
            rows["corpus"], rows["contrast"], rows["mean"].astype(float), rows["stars"].astype(str), strict=True
        ):
            cells[corpus, contrast] = f"{SCALE * mean:.2f}{stars}"
        contrasts = [HEADERS[name] for name in self._headers]
        return [cells.get((corpus, contrast), ABSENT) for corpus in self.corpora for contrast in contrasts]


def _latex_number(cell: str) -> str:
    """Return a cell as LaTeX: the number in mathematics, so that a minus is one, and the stars as a superscript."""
    number = cell.rstrip("*")
    if number == ABSENT:
        return "--"
    superscript = f"^{{{cell[len(number) :]}}}" if cell != number else ""
    return f"${number}{superscript}$"
