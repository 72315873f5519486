"""What all readers of releases share: tables read with care, and words checked against the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.errors import AlignmentError, EncodingError, InputError, listing, missing_columns

if TYPE_CHECKING:
    import pandas as pd

TOLERATED = 0.01
"""Share of words that a release may spell otherwise than its text (they are listed); more, and it is misaligned."""


def read(path: Path, columns: Sequence[str], numbers: Sequence[str] = (), **how: Any) -> pd.DataFrame:
    """Read these columns of a text table; the ``numbers`` among them as numbers, ``NA`` or nothing being missing.

    All others stay as they are written: *NA* and *null* are words.
    """
    import pandas as pd

    how = {"encoding": "utf-8-sig", **how}
    try:
        header = pd.read_csv(path, nrows=0, **how)
        if message := missing_columns(str(path), columns, header.columns):
            raise InputError(message)
        empty = {name: ["", "NA"] for name in numbers}
        how["dtype"] = {name: str for name in columns if name not in numbers}
        frame: pd.DataFrame = pd.read_csv(path, usecols=list(columns), keep_default_na=False, na_values=empty, **how)
    except UnicodeDecodeError as error:
        raise EncodingError(f"{path} is not in the encoding of the release ({how['encoding']}): {error}.") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path} cannot be read as a table: {error}") from error
    for name in numbers:
        _check_numbers(frame[name], path)
    return frame


def _check_numbers(values: pd.Series, path: Path) -> None:
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(values):
        wrong = values.reset_index(drop=True)[(pd.to_numeric(values, errors="coerce").isna() & values.notna()).tolist()]
        rows = (f"row {int(row) + 1}: {value!r}" for row, value in zip(wrong.index, wrong, strict=True))
        raise InputError(f"{path}: column '{values.name}' holds what is no number: {listing(rows)}.")


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
    kinds = {"text_id": "int64", "word_id": "int64", "time": "float64"}
    return rows[["participant", *kinds]].astype(kinds).reset_index(drop=True)


def spelling(word: str) -> str:
    """Return a word's letters and digits, lower-cased: what survives spreadsheets and odd encodings."""
    return "".join(letter for letter in word.lower() if letter.isalnum())


def check_spellings(corpus: str, words: pd.DataFrame, rows: pd.DataFrame) -> tuple[str, ...]:
    """Compare the word of every row with the text's word at its place.

    A few may differ in their letters, and a note lists them; more, or a place outside the text, is an error.
    """
    seen = rows.drop_duplicates(["text_id", "word_id", "word"])
    both = seen.merge(words, on=["text_id", "word_id"], how="left", suffixes=("", "_there"))
    outside = both["word_there"].isna()
    other = both[outside | (both["word"].map(spelling) != both["word_there"].fillna("").map(spelling))]
    if outside.any() or len(other) > TOLERATED * len(words):
        raise AlignmentError(f"{corpus}: the times do not fit the text: {listing(_places(other))}.")
    return (f"{corpus}: spelt otherwise in the text: {listing(_places(other))}",) if len(other) else ()


def _places(rows: pd.DataFrame) -> Iterable[str]:
    for row in rows.itertuples():
        there = f"the text has {row.word_there!r}" if isinstance(row.word_there, str) else "the text has no such word"
        yield f"text {row.text_id} word {row.word_id}: {row.word!r}, {there}"
