"""The JSON that the server takes and returns. FastAPI checks requests by it and describes it in ``/openapi.json``.

The fields that say how to score are derived from :class:`wordprob.options.ScoringOptions`, and the rows of an answer
from the columns in :mod:`wordprob.tables.schema`. An option or a column that is declared there appears here by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import Field as DataclassField
from dataclasses import fields
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from wordprob.options import ScoringOptions, info_of
from wordprob.tables.schema import ALL_SPELLINGS, COLUMNS, EXTRAS, TEXT_COLUMNS, estimate_name

NOT_IN_REQUESTS = ("estimators", "readers")
"""Options of scoring that mean nothing here: one text at a time needs no further processes to read it, and the columns
of an answer hold the corrected and the naive estimate."""

SCORING_FIELDS = tuple(name for name in ScoringOptions.names() if name not in NOT_IN_REQUESTS)
"""Options of scoring that a request may set."""

DESCRIPTIONS = {
    "words": "whitespace, punctuation, regex:PATTERN, or the words themselves: a list for each text",
    "extras": f"further columns of the words: {', '.join(EXTRAS)}",
}
"""Descriptions that differ from the help of the command line, where the values differ; the others are that help."""


# --- requests ---------------------------------------------------------------------------------------------------------


class RequestedTexts(BaseModel):
    """The first fields of a request."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"texts": ["She saw the mark."], "words": "punctuation"}]}
    )

    texts: str | list[str] = Field(description="one text or several; each is scored by itself")
    model: str | None = Field(None, description="one of the names that /api/models gives; the first by default")


def _scoring_declarations() -> dict[str, Any]:
    """Return pydantic's declarations of the scoring options: type, default, description and limits of each."""
    types = get_type_hints(ScoringOptions, localns={"WordDefinition": str})
    # A request cannot name a file as the command line does (list:FILE), but it can hold the words themselves.
    types["words"] = str | list[list[str]]
    options = [option for option in fields(ScoringOptions) if option.name in SCORING_FIELDS]
    return {option.name: _declaration(option, types[option.name]) for option in options}


def _declaration(option: DataclassField[Any], value_type: Any) -> tuple[Any, Any]:
    """Return pydantic's declaration of one option."""
    info = info_of(option)
    description = DESCRIPTIONS.get(option.name, info.help)
    if info.choices:
        value_type = Literal[info.choices]
    return value_type, Field(option.default, description=description, ge=info.minimum)


ScoringRequest = create_model("ScoringRequest", __base__=RequestedTexts, **_scoring_declarations())


class ScoreRequest(ScoringRequest):  # type: ignore[valid-type, misc]
    """Texts to score, and how."""

    # Problems are reported in the order of the fields, so these two come after those that ScoringRequest has.
    ids: list[str] | None = Field(None, description="names for the texts; counted from 0 by default")
    format: Literal["json", "csv", "tsv", "jsonl", "html"] = Field(
        "json", description="json is the answer below; csv, tsv and jsonl are the table as a file, html the report"
    )

    def scoring_options(self) -> dict[str, Any]:
        """Return the scoring options of the request, by name."""
        return {name: getattr(self, name) for name in SCORING_FIELDS}


DEFAULT_WORDS = 20
MOST_WORDS = 100
"""How many next words an answer lists by default, and at most."""


class NextRequest(BaseModel):
    """A context after which the next word is asked for."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"context": "She saw the", "top": 5}]})

    context: str = Field(description="the text so far; empty for first words")
    model: str | None = Field(None, description="one of the names that /api/models gives; the first by default")
    words: Literal["whitespace", "punctuation"] = Field("whitespace", description="what a word is")
    top: int | None = Field(None, description="how many words; by default 20, or 100 with mass", ge=1, le=MOST_WORDS)
    mass: float | None = Field(
        None, description="list words until they and the end have this much of the probability", gt=0.0, le=1.0
    )
    unit: Literal["bits", "nats"] = Field("bits", description="unit of surprisal")
    spellings: Literal["own", "all"] = Field(
        "own", description="spellings of a word that count: the tokenizer's own, or all"
    )
    max_open: int = Field(
        ScoringOptions.max_open, description="beginnings of words that are expanded, at most", ge=1, le=10_000
    )

    def number_of_words(self) -> int:
        """Return how many words are listed at most."""
        if self.top is not None:
            return self.top
        return DEFAULT_WORDS if self.mass is None else MOST_WORDS


# --- answers ----------------------------------------------------------------------------------------------------------

COUNTS = {"word_id", "start", "n_tokens", "context_tokens", "n_words", "n_scored", "n_characters", "n_bytes"}
"""Columns of whole numbers, in either table; ``end`` is one in the table of words only."""


def _row_model(
    name: str,
    columns: Mapping[str, str],
    strings: Collection[str],
    counts: Collection[str],
    optional: Mapping[str, str],
) -> type[BaseModel]:
    """Return a pydantic model of a table's rows, with a field for each column."""
    declarations: dict[str, Any] = {}
    for column, meaning in columns.items():
        declarations[column] = (_column_type(column, strings, counts), Field(description=meaning))
    for column, meaning in optional.items():
        declarations[column] = (float | None, Field(None, description=meaning))
    model: type[BaseModel] = create_model(name, **declarations)
    return model


def _column_type(column: str, strings: Collection[str], counts: Collection[str]) -> Any:
    if column == "text_id":
        return int | str
    if column in strings:
        return str
    if column in counts:
        return int
    return float | None


FURTHER_COLUMNS = {**{estimate_name(name): meaning for name, meaning in ALL_SPELLINGS.items()}, **EXTRAS}

WordRow = _row_model("Word", COLUMNS, strings={"word", "note"}, counts=COUNTS | {"end"}, optional=FURTHER_COLUMNS)
TextRow = _row_model("Text", TEXT_COLUMNS, strings={"note"}, counts=COUNTS, optional={})


class ScoreResponse(BaseModel):
    """Scored words; numbers that cannot be given are null, and ``note`` says why."""

    model: str
    unit: str
    metadata: dict[str, str] = Field(description="model and revision, tokeniser, word definition, versions")
    words: list[WordRow] = Field(description="a row for each word")  # type: ignore[valid-type]
    texts: list[TextRow] = Field(description="a row for each text")  # type: ignore[valid-type]


class NextRow(BaseModel):
    """A word that could come, the end of the text, or everything that is not listed."""

    kind: Literal["word", "end", "rest"]
    separator: str = Field(description="the white space before the word; empty if it follows without any")
    word: str
    probability: float
    probability_high: float | None = Field(
        None, description="with all spellings: the most that the probability can be with those that were not found"
    )
    surprisal: float | None = Field(description="null where the probability is zero")
    certain: bool = Field(description="whether no word that is not listed can be more probable")


class NextResponse(BaseModel):
    """The words that could come next, the most probable first; the probabilities add up to one."""

    model: str
    unit: str
    context: str
    limit_reached: bool = Field(description="whether max_open stopped the search before the list was certain")
    rows: list[NextRow]


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
