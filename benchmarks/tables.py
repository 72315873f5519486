"""The tables of docs/benchmarks.md, made from the results of the benchmarks.

    python benchmarks/tables.py

A table of the page stands after a comment with the name of its file in benchmarks/results. All of them are made again.
What was not measured since the code has changed has no file; the page then says so.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/benchmarks.md"
RESULTS = ROOT / "benchmarks/results"
NOT_MEASURED = "Not measured with this version yet."
TABLE = re.compile(r"<!-- table: (\w+)\.csv -->\n(?:.+\n)+")
"""A comment, and the lines after it up to an empty one."""

Row = Mapping[str, str]
Column = tuple[str, Callable[[Row], str]]
"""The heading of a column, and what makes a cell from a row of results."""


def plain(name: str) -> Callable[[Row], str]:
    """Return what makes a cell of a name."""
    return lambda row: row[name]


def number(name: str, digits: int = 0, unit: str = "") -> Callable[[Row], str]:
    """Return what makes a cell of a number with this many digits after the point."""
    return lambda row: f"{float(row[name]):,.{digits}f}{unit}" if row[name] else ""


def per_cent(name: str) -> Callable[[Row], str]:
    """Return what makes a cell of a share."""
    return lambda row: f"{100 * float(row[name]):.1f} %"


def tool(row: Row) -> str:
    """Return the name of a package, with its version if it is another one."""
    return row["tool"] if row["tool"] in ("limit", "wordprob") else f"{row['tool']} {row['version']}"


def how(row: Row) -> str:
    """Return in which way texts were scored on a GPU."""
    processes = next((f"{row[name]} {name}" for name in ("readers", "workers") if int(row[name])), "one process")
    return processes + (", `--compile`" if row.get("compiled") == "True" else "")


COLUMNS: dict[str, Sequence[Column]] = {
    "gpu_head": [
        ("shape", plain("shape")),
        ("trunk", number("trunk_ms", 1, " ms")),
        ("matrix product", number("matmul_ms", 1, " ms")),
        ("our head", number("fused_ms", 1, " ms")),
        ("ours / limit", number("ratio_to_limit", 2)),
        ("usual method's head", number("naive_ms", 0, " ms")),
        ("memory, ours", number("head_memory_gib", 2, " GiB")),
        ("usual", number("naive_memory_gib", 1, " GiB")),
    ],
    "text_to_table": [
        ("texts", plain("texts")),
        ("words", plain("words")),
        ("how", how),
        ("tokens", number("tokens")),
        ("tokens run ÷ tokens", number("run_per_token", 3)),
        ("seconds", number("ours_s", 2)),
        ("limit", number("limit_s", 2)),
        ("× limit", number("ratio_to_limit", 2)),
        ("limit's share of 790 TFLOP/s", per_cent("limit_flops_share")),
    ],
    "gpu": [
        ("shape", plain("shape")),
        ("how", how),
        ("tokens", number("tokens")),
        ("seconds", number("ours_s", 1)),
        ("tokens a second", number("tokens_per_s")),
        ("× limit", number("ratio_to_limit", 2)),
        ("each further token, × limit", number("further_ratio_to_limit", 2)),
    ],
    "gpu_candidates": [
        ("shape", plain("shape")),
        ("tokens of the context", number("context_tokens")),
        ("candidates", number("candidates")),
        ("ours", number("ours_ms", 1, " ms")),
        ("context's pass", number("context_ms", 1, " ms")),
        ("candidates' pass", number("candidates_ms", 1, " ms")),
        ("× limit", number("ratio_to_limit", 2)),
    ],
    "cpu": [
        ("texts", plain("texts")),
        ("model", plain("model")),
        ("tokens", number("tokens")),
        ("seconds", number("ours_s", 1)),
        ("limit", number("limit_s", 1)),
        ("× limit", number("ratio_to_limit", 2)),
        ("tokens a second", number("tokens_per_s")),
    ],
    "gguf_quantised": [
        ("way", plain("way")),
        ("memory after scoring", number("resident_mb", 0, " MB")),
        ("most memory", number("most_mb", 0, " MB")),
        ("tokens per second of processor time", number("tokens_per_cpu_s")),
    ],
    "length": [
        ("tokens", number("tokens")),
        ("µs per token", number("us_per_token")),
        ("limit", number("limit_us_per_token")),
        ("× limit", number("ratio_to_limit", 2)),
        ("memory beyond the model", number("extra_memory_mb", 0, " MB")),
        ("limit", number("limit_extra_memory_mb", 0, " MB")),
    ],
    "host": [
        ("tokeniser", plain("tokenizer")),
        ("words", plain("words")),
        ("tokens", number("tokens")),
        ("× the tokeniser's time", number("ratio_to_limit", 2)),
        ("µs per token left with readers", number("left_us_per_token", 2)),
    ],
    "peers": [
        ("tool", tool),
        ("best", number("best_s", 1, " s")),
        ("median", number("median_s", 1, " s")),
        ("tokens/s", number("tokens_per_s")),
        ("× limit", number("ratio_to_limit", 2)),
        ("memory", number("extra_memory_mb", 0, " MB")),
        ("its values are", plain("compared")),
    ],
    "all_spellings": [
        ("texts", plain("texts")),
        ("model", plain("model")),
        ("device", plain("device")),
        ("words", number("words")),
        ("beginnings per word", number("prefixes_per_word", 1)),
        ("within the tolerance", per_cent("within_tolerance")),
        ("× plain scoring", number("ratio_to_plain", 1)),
    ],
    "next_words": [
        ("contexts", number("contexts")),
        ("their tokens", number("context_tokens")),
        ("beginnings opened", number("opened")),
        ("seconds", number("seconds", 1)),
        ("each beginning ÷ a token of plain scoring", number("ratio", 2)),
        ("without the contexts' own time", number("ratio_without_contexts", 2)),
    ],
    "candidates": [
        ("tokens of the context", number("context_tokens")),
        ("candidates", number("candidates")),
        ("seconds", number("shared_s", 1)),
        ("as whole texts (estimated)", number("whole_texts_s", 0, " s")),
        ("largest difference in nats", plain("largest_difference_nats")),
    ],
}


def table(name: str) -> str:
    """Return a file of results as a table in Markdown."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return f"{NOT_MEASURED}\n"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = COLUMNS[name]
    is_name = [is_text(cell(rows[0])) for _, cell in columns]
    lines = [
        [heading for heading, _ in columns],
        ["---" if text else "---:" for text in is_name],
        *([cell(row) for _, cell in columns] for row in rows),
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def is_text(cell: str) -> bool:
    """Return True for a cell that is aligned to the left."""
    return not cell[:1].isdigit() or "process" in cell or "readers" in cell


def with_tables(page: str) -> str:
    """Return a page with the tables as they are in the files."""
    return TABLE.sub(lambda found: f"<!-- table: {found[1]}.csv -->\n{table(found[1])}", page)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
