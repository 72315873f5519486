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

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

from wordprob.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from wordprob.core.word_definition import WordDefinition

DEFAULT_MODEL = "smollm2-135m"
DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("auto", "float32", "bfloat16", "float16")
UNITS = ("bits", "nats")
SPELLINGS = ("own", "all")
UNSET: Any = object()
"""Stands for no value where ``None`` is one."""


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
    check
        ``module:function`` that raises for a value that names nothing. It is imported when a value is checked, so
        that this module depends on nothing.
    """

    help: str
    noun: str = "value"
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    flags: tuple[str, ...] | None = ()
    command_line_default: Any = UNSET
    check: str = ""


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
            check_value(declared.name, getattr(self, declared.name), info_of(declared))

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the options, in their order."""
        return [declared.name for declared in fields(cls)]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a set of options from names and values; a name that does not exist is an error."""
        for name in values:
            if name not in cls.names():
                raise OptionError(f"there is no {cls.what} called '{name}'. {did_you_mean(name, cls.names())}")
        return cls(**values)

    @classmethod
    def pick(cls, values: Mapping[str, Any]) -> Self:
        """Make a set of options from those of the values that belong to it."""
        return cls(**{name: value for name, value in values.items() if name in cls.names()})

    def to_dict(self, *left_out: str) -> dict[str, Any]:
        """Return names and values, which are those of the keywords of the functions that take these options.

        Options that go another way are left out by name.
        """
        return {name: getattr(self, name) for name in self.names() if name not in left_out}


def check_value(name: str, value: Any, info: OptionInfo) -> None:
    """Raise :class:`OptionError` unless a value is allowed."""
    if value is None:
        return
    if info.choices and value not in info.choices:
        allowed = f"{', '.join(info.choices[:-1])} or {info.choices[-1]}"
        raise OptionError(f"no {info.noun} is called '{value}'; use {allowed}.")
    if info.minimum is not None and value < info.minimum:
        raise OptionError(f"{name} is {value}; it must be at least {info.minimum}.")
    if info.check:
        module, function = info.check.split(":")
        getattr(import_module(module), function)(value)


@dataclass(frozen=True)
class ModelOptions(Options):
    """Which model to open, and how."""

    what: ClassVar[str] = "option of a model"

    model: str = option(
        DEFAULT_MODEL,
        "Short name, hub id (or NAME@REVISION), directory, .gguf file, or the https:// address of a server.",
        flags=("-m", "--model"),
        check="wordprob.models.registry:resolve",
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
        check="wordprob.models.huggingface.load_arguments:parse_device_map",
    )
    model_kwargs: str | Mapping[str, Any] | None = option(
        None,
        "Further arguments of transformers' from_pretrained, as JSON.",
        check="wordprob.models.huggingface.load_arguments:parse_model_kwargs",
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


@dataclass(frozen=True)
class ScoringOptions(Options):
    """What a word is, which columns come out, and how texts are read."""

    what: ClassVar[str] = "option of scoring"

    words: str | WordDefinition = option(
        "whitespace",
        "What a word is: whitespace, punctuation, characters, regex:PATTERN, or list:FILE.",
        flags=("-w", "--words"),
        check="wordprob.core.words:check_definition",
    )
    boundary: str = option(
        "rule",
        "What ends a word: the rule that finds words, none (anything may follow), or another rule.",
        check="wordprob.core.words:check_boundary",
    )
    unit: str = option("bits", "Unit of surprisal.", noun="unit", choices=UNITS, flags=("-u", "--unit"))
    min_context: int | None = option(
        None, "The least context of a word, in tokens, for texts longer than the model's context.", minimum=1
    )
    max_context: str | int | None = option(
        None,
        "The most context that a word may have: tokens (50) or words (10words). By default all of the text before it.",
        check="wordprob.core.context_limit:parse_limit",
    )
    extras: Sequence[str] = option((), "Further columns.", flags=None, check="wordprob.tables.schema:check_extras")
    estimators: Sequence[str] = option(
        (), "Further estimates of surprisal.", flags=None, check="wordprob.core.equation:check_estimators"
    )
    spellings: str = option(
        "own",
        "Spellings of a word that count: own (the tokenizer's), or all, which adds surprisal_all and its bounds.",
        noun="kind of spellings",
        choices=SPELLINGS,
    )
    tolerance: float = option(
        0.01,
        "All spellings, models on a server: how wide an interval may be, in bits; inf asks the model nothing further.",
        check="wordprob.covers.search:check_tolerance",
    )
    max_open: int = option(128, "All spellings: prefixes opened for a word, at most.", minimum=1)
    readers: int | None = option(
        0,
        "Processes that do everything except run the model; 0 uses threads. By default a few where a GPU has a lot "
        "of text to read.",
        minimum=0,
        command_line_default=None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if "prefixes_opened" in self.extras and self.spellings != "all":
            raise OptionError(
                "`prefixes_opened` counts what the search for every spelling looked into, and only own spellings are "
                "counted; choose all as `spellings`, or leave it out."
            )
