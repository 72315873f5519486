"""Results as files: tidy tables, the paper's tables in Markdown and LaTeX, figures, provenance."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from wordprob.analysis import outputs, plots, reading_times, word_lengths
from wordprob.analysis.reading_times import ALL_MODELS

READING_TIMES_FILES = (
    "delta_llh.tsv", "summary.tsv", "coefficients.tsv", "table.md", "table.tex", "figure.pdf", "figure.png",
    "provenance.json",
)  # fmt: skip
WORD_LENGTHS_FILES = (
    "correlations.tsv", "types.tsv", "table.md", "table.tex", "figure.pdf", "figure.png", "provenance.json",
)  # fmt: skip

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

ABSENT = "–"

CORRELATION_HEADERS = ("Model", "Predictor", "Estimate", "Types", "Spearman", "Change", "Pearson", "Change")


# --- reading times -------------------------------------------------------------------------------------------------


def reading_times_files(result: reading_times.ReadingTimesResult) -> dict[str, bytes]:
    """Return every file of a reading-time study."""
    return {
        "delta_llh.tsv": outputs.tsv(result.folds),
        "summary.tsv": outputs.tsv(result.summary),
        "coefficients.tsv": outputs.tsv(result.coefficients),
        "table.md": reading_times_markdown(result).encode("utf-8"),
        "table.tex": reading_times_latex(result).encode("utf-8"),
        **outputs.images("figure", plots.reading_times(result)),
        "provenance.json": outputs.provenance(result.provenance),
    }


def reading_times_markdown(result: reading_times.ReadingTimesResult) -> str:
    """Return the paper's table in Markdown: for each corpus Improvement, Corrected and Buggy, in 10⁻² nats a word."""
    headers = ["Model"]
    for corpus in result.corpora:
        headers += [f"{result.titles[corpus]}: {name}" for name in _headers(result)]
    rows = [[model, *_cells(result, model)] for model in _models(result)]
    return f"{_markdown(headers, rows)}\n{_caption(result)}\n"


def reading_times_latex(result: reading_times.ReadingTimesResult) -> str:
    """Return the same table in LaTeX (needs booktabs)."""
    count = len(result.corpora)
    width = len(_headers(result))  # columns of a corpus
    titles = " & ".join(rf"\multicolumn{{{width}}}{{c}}{{{_tex(result.titles[c])}}}" for c in result.corpora)
    # LaTeX counts columns from 1, and the first is the model's.
    rules = " ".join(rf"\cmidrule(lr){{{2 + width * n}-{1 + width * (n + 1)}}}" for n in range(count))
    headers = " & ".join(_headers(result) * count)
    body = []
    for model in _models(result):
        cells = [_tex_number(cell) for cell in _cells(result, model)]
        body.append(" & ".join([_tex(model), *cells]) + r" \\")
    lines = [
        f"% {_caption(result)}",
        rf"\begin{{tabular}}{{l{'c' * width * count}}}",
        r"\toprule",
        rf"& {titles} \\",
        rules,
        rf"Model & {headers} \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _tex_number(cell: str) -> str:
    """Return a cell as LaTeX: the number in mathematics, so that a minus is one, and the stars as a superscript."""
    number = cell.rstrip("*")
    if number == ABSENT:
        return "--"
    superscript = f"^{{{cell[len(number) :]}}}" if cell != number else ""
    return f"${number}{superscript}$"


def _models(result: reading_times.ReadingTimesResult) -> list[str]:
    return result.models + ([ALL_MODELS] if ALL_MODELS in set(result.summary["model"]) else [])


def _headers(result: reading_times.ReadingTimesResult) -> list[str]:
    """Return the columns that have a value somewhere; there may be one estimate only."""
    contrasts = set(result.summary["contrast"])
    return [name for name, contrast in HEADERS.items() if contrast in contrasts]


def _cells(result: reading_times.ReadingTimesResult, model: str) -> list[str]:
    """Return a row of the table: the mean of each corpus and contrast, with its stars."""
    rows = result.summary[result.summary["model"] == model]
    cells = {}
    for corpus, contrast, mean, stars in zip(
        rows["corpus"], rows["contrast"], rows["mean"].astype(float), rows["stars"].astype(str), strict=True
    ):
        cells[corpus, contrast] = f"{SCALE * mean:.2f}{stars}"
    contrasts = [HEADERS[name] for name in _headers(result)]
    return [cells.get((corpus, contrast), ABSENT) for corpus in result.corpora for contrast in contrasts]


def _caption(result: reading_times.ReadingTimesResult) -> str:
    has_all = "All spellings" in _headers(result)
    return (
        "Δ log-likelihood of held-out reading times, 10⁻² nats per word, mean over folds. Corrected and Buggy (naive): "
        "against the regression without surprisal; Improvement: their difference. "
        f"{'All spellings: every spelling of a word is counted. ' if has_all else ''}Stars: p < .05, .01, .001 by "
        f"{result.provenance['test']}; correction: {result.provenance['correction']}."
    )


# --- word lengths --------------------------------------------------------------------------------------------------


def word_lengths_files(result: word_lengths.WordLengthResult) -> dict[str, bytes]:
    """Return every file of a word-length study."""
    return {
        "correlations.tsv": outputs.tsv(result.correlations),
        "types.tsv": outputs.tsv(result.types),
        "table.md": word_lengths_markdown(result).encode("utf-8"),
        "table.tex": word_lengths_latex(result).encode("utf-8"),
        **outputs.images("figure", plots.word_lengths(result)),
        "provenance.json": outputs.provenance(result.provenance),
    }


def word_lengths_markdown(result: word_lengths.WordLengthResult) -> str:
    """Return the correlations with word length in Markdown, with their bootstrap intervals."""
    rows = [_correlation_cells(row) for _, row in result.correlations.iterrows()]
    return f"{_markdown(CORRELATION_HEADERS, rows)}\n{result.caption}\n"


def word_lengths_latex(result: word_lengths.WordLengthResult) -> str:
    """Return the same table in LaTeX (needs booktabs)."""
    body = [" & ".join(_tex(cell) for cell in _correlation_cells(row)) for _, row in result.correlations.iterrows()]
    lines = [
        f"% {result.caption}",
        r"\begin{tabular}{lllrcccc}",
        r"\toprule",
        rf"{' & '.join(CORRELATION_HEADERS)} \\",
        r"\midrule",
        *(rf"{row} \\" for row in body),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _correlation_cells(row: pd.Series) -> list[str]:
    cells = [row["model"], row["predictor"], row["estimate"] or ABSENT, str(row["types"])]
    for name in word_lengths.CORRELATION_NAMES:
        cells += [_interval_cell(row, name), _interval_cell(row, f"{name}_change")]
    return cells


def _interval_cell(row: pd.Series, name: str) -> str:
    if pd.isna(row[name]):
        return ABSENT
    return f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"


# --- both ----------------------------------------------------------------------------------------------------------


def _markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _tex(text: str) -> str:
    for character in "_&%#":
        text = text.replace(character, rf"\{character}")
    return text.replace("²", "$^2$").replace(ABSENT, "--")
