"""The options that every front end shares, each declared once and checked when it is given.

A command, a corpus run, the server and a study do not repeat these declarations. They derive their flags, settings and
schemas from the fields below, so that what one of them accepts, the others accept too.

>>> ScoringOptions(unit="nats").unit
'nats'
>>> ScoringOptions(unit="bit")
Traceback (most recent call last):
wordprob.errors.OptionError: no unit is called 'bit'; use bits or nats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

from wordprob.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from wordprob.core.word_definition import WordDefinition

DEFAULT_MODEL = "smollm2-135m"
DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("auto", "float32", "bfloat16", "float16")
UNITS = ("bits", "nats")
SPELLINGS = ("own", "all")
MAX_OPEN = 128
UNSET: Any = object()
"""Stands for no value where ``None`` is one."""

Check = Callable[[Any], object]
"""Raises :class:`OptionError` for a value that is not allowed."""

CHECKS: dict[str, Check] = {}
"""The checks of values that name something, by what they name. The rooms that know the names do them."""


def register_check(names: str) -> Callable[[Check], Check]:
    """Register a function as the check of all options whose values name this.

    Parameters
    ----------
    names
        What the values name, as options declare it.
    """

    def register(check: Check) -> Check:
        CHECKS[names] = check
        return check

    return register


@dataclass(frozen=True)
class OptionInfo:
    """What a front end needs to know about an option besides its type and default.

    Attributes
    ----------
    help
        One sentence for ``--help``, the settings of a run and the server's schema.
    noun
        What a value of the option is called in messages: a unit, a device.
    choices
        The values allowed, where they are few.
    minimum
        The least value of a number.
    flags
        The option's names on the command line, by default its own with dashes; ``None`` keeps it to Python.
    command_line_default
        The default on the command line, where that is another one.
    names
        What a value is the name of, where a higher room knows the names, and its check was registered
        (:func:`register_check`).
    check
        Raises for a value that is not allowed, where nothing of a higher room is needed to tell.
    """

    help: str
    noun: str = "value"
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    flags: tuple[str, ...] | None = ()
    command_line_default: Any = UNSET
    names: str = ""
    check: Check | None = None


def option(default: Any, help: str, **info: Any) -> Any:
    """Declare an option: a dataclass field that carries its :class:`OptionInfo`."""
    return field(default=default, metadata={"option": OptionInfo(help, **info)})


def info_of(declared: Field[Any]) -> OptionInfo:
    """Return what was declared about an option."""
    info: OptionInfo = declared.metadata["option"]
    return info


@dataclass(frozen=True)
class Options:
    """Base of all sets of options: values are checked when a set is made."""

    what: ClassVar[str] = "option"
    """What one of these is called in messages."""

    def __post_init__(self) -> None:
        for declared in fields(self):
            check_value(declared, getattr(self, declared.name))

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the options, in their order."""
        return [declared.name for declared in fields(cls)]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a set of options from names and values; a name that does not exist is an error."""
        cls.check_names(values)
        return cls(**values)

    @classmethod
    def check_names(cls, given: Iterable[str], others: Sequence[str] = ()) -> None:
        """Raise for a name that is no option; ``others`` are names that could be meant as well."""
        for name in given:
            if name not in cls.names():
                known = [*cls.names(), *others]
                raise OptionError(f"there is no {cls.what} called '{name}'. {did_you_mean(name, known)}")

    @classmethod
    def check_used(cls, given: Iterable[str], *used: str) -> None:
        """Raise for an option that a caller would ignore; ``used`` names those that it uses."""
        for name in given:
            if name in cls.names() and name not in used:
                raise OptionError(f"`{name}` has no effect here; leave it out. It takes: {', '.join(used)}.")

    def updated(self, values: Mapping[str, Any], others: Sequence[str] = ()) -> Self:
        """Return the same options with other values; a name that does not exist is an error.

        Parameters
        ----------
        values
            The new values, by name.
        others
            Names of further keywords that the caller takes, which a wrong name may stand for.

        Examples
        --------
        >>> ScoringOptions(unit="nats").updated({"spellings": "all"}).unit
        'nats'
        """
        self.check_names(values, others)
        return replace(self, **values) if values else self

    @classmethod
    def pick(cls, values: Mapping[str, Any]) -> Self:
        """Make a set of options from those of the values that belong to it."""
        return cls(**{name: value for name, value in values.items() if name in cls.names()})

    def to_dict(self, *left_out: str) -> dict[str, Any]:
        """Return names and values, which are those of the keywords of the functions that take these options.

        Options that go another way are left out by name.
        """
        return {name: getattr(self, name) for name in self.names() if name not in left_out}

    def changed(self) -> dict[str, Any]:
        """Return the options that differ from their defaults.

        Examples
        --------
        >>> ScoringOptions(unit="nats", spellings="own").changed()
        {'unit': 'nats'}
        """
        defaults = {declared.name: declared.default for declared in fields(self)}
        return {name: value for name, value in self.to_dict().items() if value != defaults[name]}


def check_value(declared: Field[Any], value: Any) -> None:
    """Raise :class:`OptionError` unless a value is allowed for a declared option."""
    info, allowed_types = info_of(declared), str(declared.type)
    if value is None and "None" in allowed_types:
        return
    if info.choices and value not in info.choices:
        allowed = f"{', '.join(info.choices[:-1])} or {info.choices[-1]}"
        raise OptionError(f"no {info.noun} is called '{value}'; use {allowed}.")
    if info.minimum is not None:
        noun = "number" if "float" in allowed_types else "whole number"
        is_number = isinstance(value, Real if noun == "number" else Integral) and not isinstance(value, bool)
        if not (is_number and value >= info.minimum):
            raise OptionError(f"`{declared.name}` is {value!r}; it must be a {noun} of at least {info.minimum}.")
    if info.check is not None:
        info.check(value)
    if info.names:
        CHECKS[info.names](value)


@dataclass(frozen=True)
class ModelOptions(Options):
    """Which model to open, and how."""

    what: ClassVar[str] = "option of a model"

    model: str = option(
        DEFAULT_MODEL,
        "Short name, hub id (or NAME@REVISION), directory, .gguf file, or the https:// address of a server.",
        flags=("-m", "--model"),
        names="model",
    )
    bos: str | int | None = option(None, "Start-of-text token, or 'none'; the document-start token by default.")
    chat_template: str | None = option(
        None,
        "Score texts as messages of this role, inside the model's chat template.",
        noun="role",
        choices=("user", "assistant"),
    )
    chat_prompt: str | None = option(None, "What the user says before the assistant's message; for assistant only.")
    device: str = option("auto", "Device that runs the model.", noun="device", choices=DEVICES)
    dtype: str = option("auto", "Precision of the model's weights.", noun="dtype", choices=DTYPES)
    compile: bool = option(False, "Compile the model first, which takes a minute or so: faster on a GPU.")
    revision: str | None = option(None, "Branch, tag or commit of a model on the hub.")
    trust_remote_code: bool = option(False, "Run code that comes with the model.")
    adapter: str | None = option(None, "PEFT adapter to put on the model: a directory or a hub id.")
    quantize: str | None = option(
        None,
        "Load the weights in 4 bits (needs bitsandbytes) or 8 bits (needs torchao).",
        noun="quantization",
        choices=("4bit", "8bit"),
    )
    device_map: str | Mapping[str, str | int] | None = option(
        None,
        "Divide the model among devices: auto, balanced, balanced_low_0, sequential, or JSON from modules to devices.",
        names="device map",
    )
    model_kwargs: str | Mapping[str, Any] | None = option(
        None,
        "Further arguments of transformers' from_pretrained, as JSON.",
        names="arguments of from_pretrained",
    )
    masking: str = option(
        "within_word_l2r",
        "Masked models: mask a token with the later ones of its word (within_word_l2r), or alone (original).",
        noun="kind of masking",
        choices=("within_word_l2r", "original"),
    )
    tokenizer: str | None = option(
        None, "Tokenizer of a model on a server: hub id, directory or .gguf file. By default what the server names."
    )
    top_logprobs: int = option(20, "Tokens that a model on a server lists at each place.", minimum=1)


def check_tolerance(tolerance: float) -> None:
    """Raise, unless this is a number above 0."""
    if not isinstance(tolerance, int | float) or not tolerance > 0:
        raise OptionError(
            f"`tolerance` is {tolerance}; it must be a number of bits above 0, such as 0.01, or inf to ask the model "
            "nothing further."
        )


@dataclass(frozen=True)
class ScoringOptions(Options):
    """What a word is, which columns come out, and how texts are read.

    Methods of :class:`wordprob.Scorer` take these as plain keywords, and :meth:`wordprob.Scorer.with_options` returns a
    scorer that has them as defaults.

    Attributes
    ----------
    words
        ``whitespace``, ``punctuation``, ``characters``, ``regex:PATTERN``, or a
        :class:`wordprob.core.words.WordDefinition`.
    boundary
        What ends a word: ``rule``, the rule by which words are found (for lists, the coarsest rule under which the
        words of a text end where they do); ``none``, for the probability that the text continues with the characters of
        the word, whatever comes next; or the name of another rule.
    unit
        ``bits`` or ``nats``.
    min_context
        For texts longer than the model's context: how many tokens each word has before it, at least.
    max_context
        The most context that a word may have: a number of tokens (``50`` or ``"50tokens"``) or of words
        (``"10words"``). Each word is then scored as if the text began that much before it, at the beginning of a word.
        By default the context is all of the text before the word.
    extras
        Further columns: ``token_entropy``, the entropy of the next token where the word begins, ``token_rank`` of the
        token that came there (formerly ``entropy`` and ``rank``, which are still accepted); ``word_entropy`` (or
        ``word_entropy_2``, of order 2) of the word that could come there, ``word_rank`` of the word that came.
    estimators
        Further estimators that were registered; each adds a column ``surprisal_<name>``.
    spellings
        ``own`` counts the tokenizer's own spellings of a word. ``all`` counts every token sequence that writes it as
        well, and adds ``surprisal_all`` with the bounds ``surprisal_all_low`` and ``surprisal_all_high``.
    tolerance
        For all spellings: how wide the interval between the bounds may stay, in bits. With infinity, the model is asked
        nothing further.
    max_open
        How many beginnings of a word a search expands, at most. It has one meaning for every search: for all spellings
        of a word, for next words after a context, and for the entropy and rank of the words that could come.
    readers
        Processes that do everything except run the model, for a fast GPU; 0 uses threads of this process. ``None``
        starts as many as pay.
    """

    what: ClassVar[str] = "option of scoring"

    words: str | WordDefinition = option(
        "whitespace",
        "What a word is: whitespace, punctuation, characters, regex:PATTERN, or list:FILE.",
        flags=("-w", "--words"),
        names="word definition",
    )
    boundary: str = option(
        "rule",
        "What ends a word: the rule that finds words, none (anything may follow), or another rule.",
        names="rule for the end of a word",
    )
    unit: str = option("bits", "Unit of surprisal.", noun="unit", choices=UNITS, flags=("-u", "--unit"))
    min_context: int | None = option(
        None, "The least context of a word, in tokens, for texts longer than the model's context.", minimum=1
    )
    max_context: str | int | None = option(
        None,
        "The most context that a word may have: tokens (50) or words (10words). By default all of the text before it.",
        names="context limit",
    )
    extras: Sequence[str] = option((), "Further columns.", flags=None, names="further columns")
    estimators: Sequence[str] = option((), "Further estimates of surprisal.", flags=None, names="estimators")
    spellings: str = option(
        "own",
        "Spellings of a word that count: own (the tokenizer's), or all, which adds surprisal_all and its bounds.",
        noun="kind of spellings",
        choices=SPELLINGS,
    )
    tolerance: float = option(
        0.01,
        "All spellings, models on a server: how wide an interval may be, in bits; inf asks the model nothing further.",
        check=check_tolerance,
    )
    max_open: int = option(
        MAX_OPEN, "Searches for spellings and for words: beginnings of a word that are expanded, at most.", minimum=1
    )
    readers: int | None = option(
        0,
        "Processes that do everything except run the model; 0 uses threads. By default a few where a GPU has a lot "
        "of text to read.",
        minimum=0,
        command_line_default=None,
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "extras", tuple(self.extras))
        object.__setattr__(self, "estimators", tuple(self.estimators))
        super().__post_init__()
        if "prefixes_opened" in self.extras and self.spellings != "all":
            raise OptionError(
                "`prefixes_opened` counts what the search for every spelling expanded, and only own spellings are "
                "counted; choose all as `spellings`, or leave it out."
            )


class ScoringKeywords(TypedDict, total=False):
    """The fields of :class:`ScoringOptions` but ``words``, as the type of plain keywords: ``**options``."""

    boundary: str
    unit: str
    min_context: int | None
    max_context: str | int | None
    extras: Collection[str]
    estimators: Collection[str]
    spellings: str
    tolerance: float
    max_open: int
    readers: int | None


@dataclass(frozen=True)
class TableLayout(Options):
    """How a table holds its texts, and what is added to it.

    Functions that take a table, such as :func:`wordprob.score_table`, accept these as one object or as plain keywords.

    Attributes
    ----------
    input_format, sheet, decimal, encoding
        The format of a file without the usual extension, the sheet of a workbook, the decimal mark of what is added to
        a CSV file, and the encoding of a text file, where the file does not show them.
    text_column
        The column that holds a text on each row; the new columns describe whole texts.
    word_column
        The column that holds a word on each row; the new columns describe words. With ``text_column`` as well, the
        text is as that column has it, on every row, and the words are looked up in it.
    group_by
        The columns that tell which rows make a text. Rows of a text stand together, in the order of its words.
    space_after
        A column of true and false: whether a space comes after the word. By default one always does.
    per_word
        For a text on each row: return a row for each word, with the columns of its text.
    sum_by
        For a word on each row: return a row for each region, consecutive words with the same value in this column.
    prefix
        Put before the names of all new columns.
    target_column
        For a text on each row: the column that holds the critical word or words of the text. The new columns describe
        these words only. Several columns (a list, or names with commas) give a row for each, and ``region`` says which.
    context_column
        For a context on each row: the column that holds it. Only the targets of ``target_column`` are scored, as what
        comes next; a context that several rows share is run once. A row without a context or a target has no value.
    separator
        What stands between context and target, unless either brings white space of its own.
    source_column
        For encoder–decoder models: the column that holds the source of each text, such as the sentence that the text
        translates.
    marks
        For a text on each row: ``stars`` if the text marks its regions as in ``The puppet *fell* down.``, ``bars`` if
        it is divided as in ``The puppet | fell | down.`` There is a row for each region, and marks are not scored.
    region_names
        The names of such regions, in their order; their numbers by default.
    start_column, end_column
        For a stretch of a text on each row: the columns that say where it starts and ends in the text of
        ``text_column``, in characters from 0; ``text[start:end]`` is scored. Rows with the same text stand together.
    offsets
        For a word on each row: add where the word starts and ends in its text.
    predictors
        Add what a regression needs besides surprisal: ``length``, ``frequency``, and the surprisals, lengths and
        frequencies of the three words before (``surprisal_prev1``, …), which are missing where a text begins.
    frequencies
        Where frequencies come from: ``wordfreq:LANGUAGE``, or a file of words and counts or log p. English by default.

    Examples
    --------
    >>> TableLayout(text_column="sentence", per_word=True).changed()
    {'text_column': 'sentence', 'per_word': True}
    """

    what: ClassVar[str] = "option of a table"
    reading: ClassVar[tuple[str, ...]] = ("input_format", "sheet", "decimal", "encoding")
    """Options that say how a file is read."""

    input_format: str | None = option(
        None, "csv, tsv, jsonl, parquet or xlsx, or text for plain texts; by default the file's ending."
    )
    encoding: str | None = option(
        None, "Encoding of the file, such as cp1252; by default detected from its bytes, and announced."
    )
    sheet: str | None = option(None, "Sheet of an Excel file that has several.")
    decimal: str | None = option(
        None, "Decimal mark in CSV; by default the file's.", noun="decimal mark", choices=(".", ",")
    )
    text_column: str | None = option(None, "Column with a text on each row.")
    word_column: str | None = option(None, "Column with a word on each row.")
    group_by: str | Sequence[str] | None = option(
        None, "Columns whose values identify a text, such as item,condition; or none."
    )
    space_after: str | None = option(None, "Column of true/false: whether a space follows the word. Default: always.")
    per_word: bool = option(False, "For texts on rows: return a row for each of their words.")
    sum_by: str | None = option(None, "For words on rows: add up each region, named by this column.")
    prefix: str = option("", "Prefix for the names of all new columns.")
    target_column: str | Sequence[str] | None = option(
        None, "Column with the critical word or words of a text or context; only these are scored. Or several: a,b."
    )
    context_column: str | None = option(
        None, "Column with the context of each row's targets, which are scored after it."
    )
    separator: str = option(
        " ", "What stands between the context and what follows, unless one has white space there. Default: a space."
    )
    source_column: str | None = option(None, "For encoder–decoder models: column with the source of each text.")
    marks: str | None = option(
        None, "Regions are marked in the texts: stars (The puppet *fell*.) or bars (The puppet | fell.)."
    )
    region_names: str | Sequence[str] = option("", "Names of the marked regions in their order, with commas.")
    start_column: str | None = option(
        None, "For a stretch of a text on each row: column with its start, in characters from 0."
    )
    end_column: str | None = option(None, "Column with its end: the stretch is text[start:end].")
    offsets: bool = option(False, "For words on rows: add where each starts and ends in its text.")
    predictors: bool = option(False, "Add length, frequency, and the values of the three words before each word.")
    frequencies: str | None = option(
        None, "For --predictors: wordfreq:LANGUAGE, or a file of words and counts or log p; English by default."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for declared in fields(self):
            value = getattr(self, declared.name)
            is_string = declared.type == "str" or (declared.type == "str | None" and value is not None)
            if is_string and not isinstance(value, str):
                raise OptionError(f"`{declared.name}` is {value!r}; it must be a string.")

    def how_to_read(self) -> dict[str, Any]:
        """Return the options that say how a file is read, by name."""
        return {name: getattr(self, name) for name in self.reading}

    @classmethod
    def split(
        cls, layout: TableLayout | None, keywords: Mapping[str, Any], others: Sequence[str] = ()
    ) -> tuple[TableLayout, dict[str, Any]]:
        """Divide plain keywords into a layout and options of scoring.

        Parameters
        ----------
        layout
            The layout as one object, in which keywords replace values.
        keywords
            Options of tables and of scoring, by name.
        others
            Names of further keywords that the caller takes, which a wrong name may stand for.
        """
        of_table = {name: value for name, value in keywords.items() if name in cls.names()}
        of_scoring = {name: value for name, value in keywords.items() if name not in of_table}
        ScoringOptions.check_names(of_scoring, [*cls.names(), *others])
        return (layout or cls()).updated(of_table), of_scoring
