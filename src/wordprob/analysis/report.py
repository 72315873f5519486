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

HEADERS = {"Improvement": "corrected - naive", "Corrected": "corrected - baseline", "Buggy": "naive - baseline"}
"""The columns of the paper's table, and the contrast each shows."""

SCALE = 100
"""The paper prints hundredths of a nat."""

ABSENT = "–"

CORRELATION_HEADS = ("Model", "Predictor", "Estimate", "Types", "Spearman", "Change", "Pearson", "Change")


# --- reading times -------------------------------------------------------------------------------------------------


def reading_times_files(result: reading_times.Result) -> dict[str, bytes]:
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


def reading_times_markdown(result: reading_times.Result) -> str:
    """Return the paper's table in Markdown: for each corpus Improvement, Corrected and Buggy, in 10⁻² nats a word."""
    heads = _headers(result)
    head = ["Model", *(f"{result.titles[corpus]}: {name}" for corpus in result.corpora for name in heads)]
    rows = [[model, *_cells(result, model, "{:.2f}{}")] for model in _rows(result)]
    return f"{_markdown(head, rows)}\n{_caption(result)}\n"


def reading_times_latex(result: reading_times.Result) -> str:
    """Return the same table in LaTeX (needs booktabs)."""
    count, width = len(result.corpora), len(_headers(result))
    titles = " & ".join(rf"\multicolumn{{{width}}}{{c}}{{{_tex(result.titles[c])}}}" for c in result.corpora)
    rules = " ".join(rf"\cmidrule(lr){{{2 + width * n}-{1 + width * (n + 1)}}}" for n in range(count))
    heads = " & ".join(_headers(result) * count)
    cells = {model: [_starred(cell) for cell in _cells(result, model, "{:.2f}{}")] for model in _rows(result)}
    body = [" & ".join([_tex(model), *cells[model]]) + r" \\" for model in cells]
    lines = [
        f"% {_caption(result)}",
        rf"\begin{{tabular}}{{l{'c' * width * count}}}",
        r"\toprule",
        rf"& {titles} \\",
        rules,
        rf"Model & {heads} \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _starred(cell: str) -> str:
    """Raise the stars, and set a sign and a dash as signs and dashes."""
    number = cell.rstrip("*")
    raised = f"^{{{cell[len(number) :]}}}" if cell != number else ""
    return f"${number}{raised}$" if number != ABSENT else "--"


def _rows(result: reading_times.Result) -> list[str]:
    return result.models + ([ALL_MODELS] if ALL_MODELS in set(result.summary["model"]) else [])


def _headers(result: reading_times.Result) -> list[str]:
    """Return the columns that have a value somewhere; surprisals may be of one kind only."""
    there = set(result.summary["contrast"])
    return [name for name, contrast in HEADERS.items() if contrast in there]


def _cells(result: reading_times.Result, model: str, form: str) -> list[str]:
    rows = result.summary[result.summary["model"] == model]
    contrasts = [HEADERS[name] for name in _headers(result)]
    names = zip(rows["corpus"], rows["contrast"], strict=True)
    values = zip(rows["mean"].astype(float), rows["stars"].astype(str), strict=True)
    found = {key: form.format(SCALE * mean, stars) for key, (mean, stars) in zip(names, values, strict=True)}
    return [found.get((corpus, contrast), ABSENT) for corpus in result.corpora for contrast in contrasts]


def _caption(result: reading_times.Result) -> str:
    return (
        "Δ log-likelihood of held-out reading times, 10⁻² nats per word, mean over folds. Corrected and Buggy (naive): "
        "against the regression without surprisal; Improvement: their difference. Stars: p < .05, .01, .001 by "
        f"{result.provenance['test']}; correction: {result.provenance['correction']}."
    )


# --- word lengths --------------------------------------------------------------------------------------------------


def word_lengths_files(result: word_lengths.Result) -> dict[str, bytes]:
    """Return every file of a word-length study."""
    return {
        "correlations.tsv": outputs.tsv(result.correlations),
        "types.tsv": outputs.tsv(result.types),
        "table.md": word_lengths_markdown(result).encode("utf-8"),
        "table.tex": word_lengths_latex(result).encode("utf-8"),
        **outputs.images("figure", plots.word_lengths(result)),
        "provenance.json": outputs.provenance(result.provenance),
    }


def word_lengths_markdown(result: word_lengths.Result) -> str:
    """Return the correlations with word length in Markdown, with their bootstrap intervals."""
    head = list(CORRELATION_HEADS)
    rows = [_correlation_cells(row) for _, row in result.correlations.iterrows()]
    return f"{_markdown(head, rows)}\n{result.caption}\n"


def word_lengths_latex(result: word_lengths.Result) -> str:
    """Return the same table in LaTeX (needs booktabs)."""
    body = [" & ".join(_tex(cell) for cell in _correlation_cells(row)) for _, row in result.correlations.iterrows()]
    lines = [f"% {result.caption}", r"\begin{tabular}{lllrcccc}", r"\toprule",
             rf"{' & '.join(CORRELATION_HEADS)} \\", r"\midrule",
             *(rf"{row} \\" for row in body), r"\bottomrule", r"\end{tabular}"]  # fmt: skip
    return "\n".join(lines) + "\n"


def _correlation_cells(row: pd.Series) -> list[str]:
    names = [kind + change for kind in word_lengths.KINDS for change in ("", "_change")]
    form = "{:.3f} [{:.3f}, {:.3f}]"
    values = [form.format(row[n], row[f"{n}_low"], row[f"{n}_high"]) if row[n] == row[n] else ABSENT for n in names]
    return [row["model"], row["predictor"], row["estimate"] or ABSENT, str(row["types"]), *values]


# --- both ----------------------------------------------------------------------------------------------------------


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _tex(text: str) -> str:
    for character in "_&%#":
        text = text.replace(character, rf"\{character}")
    return text.replace("²", "$^2$").replace(ABSENT, "--")
