"""What goes in and what comes out of the JSON route; its OpenAPI description is made from this."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from wordprob.tables.schema import COLUMNS, TEXT_COLUMNS

COUNTS = {"word_id", "start", "n_tokens", "context_tokens", "n_words", "n_scored", "n_characters", "n_bytes"}


def _row(name: str, columns: dict[str, str], strings: set[str], counts: set[str]) -> type[BaseModel]:
    """Return a record with a field for each column of a table."""
    fields: dict[str, Any] = {}
    for column, meaning in columns.items():
        kind = (
            int | str
            if column == "text_id"
            else str
            if column in strings
            else int
            if column in counts
            else float | None
        )
        fields[column] = (kind, Field(description=meaning))
    made: type[BaseModel] = create_model(name, **fields)
    return made


WordRow = _row("Word", COLUMNS, {"word", "note"}, COUNTS | {"end"})
TextRow = _row("Text", TEXT_COLUMNS, {"note"}, COUNTS)


class ScoreRequest(BaseModel):
    """Texts to score, and how."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"texts": ["She saw the mark."], "words": "punctuation"}]}
    )

    texts: str | list[str] = Field(description="one text or several; each is scored by itself")
    model: str | None = Field(None, description="one of the names that /api/models gives; the first by default")
    words: str | list[list[str]] = Field(
        "whitespace",
        description="whitespace, punctuation, regex:PATTERN, or the words themselves: a list for each text",
    )
    unit: Literal["bits", "nats"] = "bits"
    ids: list[str] | None = Field(None, description="names for the texts; counted from 0 by default")
    format: Literal["json", "csv", "tsv", "jsonl", "html"] = Field(
        "json", description="json is the answer below; csv, tsv and jsonl are the table as a file, html the report"
    )


class ScoreResponse(BaseModel):
    """Scored words; numbers that cannot be given are null, and ``note`` says why."""

    model: str
    unit: str
    metadata: dict[str, str] = Field(description="model and revision, tokeniser, word definition, versions")
    words: list[WordRow] = Field(description="a row for each word")  # type: ignore[valid-type]
    texts: list[TextRow] = Field(description="a row for each text")  # type: ignore[valid-type]


class ModelsResponse(BaseModel):
    """What this server offers, and its limits."""

    models: list[str]
    default: str
    max_characters: int
    timeout: float = Field(description="seconds")
    version: str


class Problem(BaseModel):
    """Every answer that is an error."""

    error: str = Field(description="what is wrong and what to do")
    kind: str
