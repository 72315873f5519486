"""What all readers of releases share: columns read without guessing, and words compared with the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.errors import AlignmentError, EncodingError, InputError, listing, missing_columns

if TYPE_CHECKING:
    import pandas as pd

MAX_DIFFERENT_SHARE = 0.01
"""Share of words that a release may spell differently from its text (they are listed); with more, it is misaligned."""


def read_columns(path: Path, columns: Sequence[str], numbers: Sequence[str] = (), **csv_options: Any) -> pd.DataFrame:
    """Read some columns of a text table.

    Parameters
    ----------
    path
        The file.
    columns
        The columns to read. Cells stay as they are written: *NA* and *null* are words.
    numbers
        Those of the columns that hold numbers; there an empty cell and ``NA`` are missing.
    csv_options
        Options of :func:`pandas.read_csv`: releases differ in separators, quotes and encodings.
    """
    import pandas as pd

    csv_options = {"encoding": "utf-8-sig", **csv_options}
    try:
        header = pd.read_csv(path, nrows=0, **csv_options)
        message = missing_columns(str(path), columns, header.columns)
        if message:
            raise InputError(message)
        frame: pd.DataFrame = pd.read_csv(
            path,
            usecols=list(columns),
            dtype={name: str for name in columns if name not in numbers},
            keep_default_na=False,
            na_values={name: ["", "NA"] for name in numbers},
            **csv_options,
        )
    except UnicodeDecodeError as error:
        encoding = csv_options["encoding"]
        raise EncodingError(f"{path} is not in the encoding of the release ({encoding}): {error}.") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path} cannot be read as a table: {error}") from error
    for name in numbers:
        _check_numbers(frame[name], path)
    return frame


def _check_numbers(values: pd.Series, path: Path) -> None:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values):
        return
    is_wrong = pd.to_numeric(values, errors="coerce").isna() & values.notna()
    wrong = values.reset_index(drop=True)[is_wrong.tolist()]
    rows = (f"row {row + 1}: {value!r}" for row, value in zip(wrong.index.tolist(), wrong, strict=True))
    raise InputError(f"{path}: column '{values.name}' holds values that are not numbers: {listing(rows)}.")


def texts_of(rows: pd.DataFrame) -> dict[int, list[str]]:
    """Return the words of each text, from rows of ``text_id`` and ``word`` that are in order."""
    texts: dict[int, list[str]] = {}
    for text, word in zip(rows["text_id"], rows["word"], strict=True):
        texts.setdefault(int(text), []).append(str(word))
    return texts


def words_of(texts: Mapping[int, Sequence[str]]) -> pd.DataFrame:
    """Return ``text_id, word_id, word`` for the words of some texts."""
    import pandas as pd

    rows = [(text, n, word) for text, words in texts.items() for n, word in enumerate(words)]
    return pd.DataFrame(rows, columns=["text_id", "word_id", "word"])


def readings_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return ``participant, text_id, word_id, time`` of checked rows."""
    types = {"text_id": "int64", "word_id": "int64", "time": "float64"}
    return rows[["participant", *types]].astype(types).reset_index(drop=True)


def spelling(word: str) -> str:
    """Return a word's letters and digits, lower-cased: spreadsheets and wrong encodings change the other characters."""
    return "".join(letter for letter in word.lower() if letter.isalnum())


def check_spellings(corpus: str, words: pd.DataFrame, rows: pd.DataFrame) -> tuple[str, ...]:
    """Compare the word of every row with the text's word at its place.

    A few may differ in their letters, and a note lists them; more, or a place outside the text, is an error.
    """
    distinct = rows.drop_duplicates(["text_id", "word_id", "word"])
    pairs = distinct.merge(words, on=["text_id", "word_id"], how="left", suffixes=("", "_of_text"))
    outside_text = pairs["word_of_text"].isna()
    spelt_differently = pairs["word"].map(spelling) != pairs["word_of_text"].fillna("").map(spelling)
    different = pairs[outside_text | spelt_differently]
    if outside_text.any() or len(different) > MAX_DIFFERENT_SHARE * len(words):
        raise AlignmentError(f"{corpus}: the times do not fit the text: {listing(_describe_rows(different))}.")
    if different.empty:
        return ()
    return (f"{corpus}: spelt otherwise in the text: {listing(_describe_rows(different))}",)


def _describe_rows(rows: pd.DataFrame) -> Iterable[str]:
    for row in rows.itertuples():
        in_text = "the text has no such word"
        if isinstance(row.word_of_text, str):
            in_text = f"the text has {row.word_of_text!r}"
        yield f"text {row.text_id} word {row.word_id}: {row.word!r}, {in_text}"
