"""The formats of tables, and the extensions of their files."""

from __future__ import annotations

from pathlib import Path

from wordprob.errors import InputError
from wordprob.tables.files import FORMATS as FORMATS_IN_PARTS
from wordprob.tables.formats.compression import inner_extension

FORMATS = {**FORMATS_IN_PARTS, "xlsx": ".xlsx"}
"""The formats of tables, and the extension that each is written with."""

EXTENSIONS = {extension: name for name, extension in FORMATS.items()} | {".ndjson": "jsonl", ".tab": "tsv"}
"""The extensions that are read, and the format of each."""

FOREIGN_EXTENSIONS = {
    ".xls": "is an old Excel file; save it as .xlsx",
    ".ods": "is an OpenDocument sheet; save it as .xlsx or CSV",
    ".numbers": "is a Numbers file; export it as .xlsx or CSV",
    ".json": "is JSON; write an object on each line (.jsonl)",
    ".sav": "is an SPSS file; export it as CSV",
    ".feather": "is a Feather file; arrow::write_parquet(d, 'stimuli.parquet') or d.to_parquet makes a Parquet file",
    ".arrow": "is an Arrow file; arrow::write_parquet(d, 'stimuli.parquet') or d.to_parquet makes a Parquet file",
    ".dta": "is a Stata file; export it as CSV",
    ".sas7bdat": "is a SAS file; export it as CSV",
    ".pkl": "is a pickled Python object; d.to_parquet('stimuli.parquet') makes a Parquet file",
    ".docx": "is a Word document; save it as plain text",
    ".pdf": "is a PDF file; save its text as plain text",
    ".rds": "is an R file; write.csv(d, 'stimuli.csv', row.names = FALSE) makes a CSV",
    ".rdata": "is an R file; write.csv(d, 'stimuli.csv', row.names = FALSE) makes a CSV",
}
"""Files that people have and that cannot be read, with what to do instead."""


def format_of(path: str | Path) -> str | None:
    """Return the format of a table by its file's extension; ``None`` for any other extension, which is text.

    The extension of a compression is ignored: ``stimuli.csv.gz`` is CSV.
    """
    extension = inner_extension(path)
    if extension in FOREIGN_EXTENSIONS:
        raise InputError(f"{Path(path).name} {FOREIGN_EXTENSIONS[extension]}.")
    return EXTENSIONS.get(extension)
