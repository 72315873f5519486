"""The settings of a run: what decides its numbers, and how it is executed.

>>> RunSettings.from_dict({"model": "exact:bow", "unit": "nats"}).scoring.unit
'nats'
>>> RunSettings.from_dict({"shards": 10})
Traceback (most recent call last):
wordprob.errors.OptionError: no setting of a run is called 'shards'. Did you mean shard_texts or threads or words?
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from wordprob.errors import OptionError, did_you_mean
from wordprob.options import ModelOptions, Options, ScoringOptions, option

if TYPE_CHECKING:
    from wordprob.sources import ReadOptions

ENGINES = ("local", "ray")


def _option_of(options: type[Options], name: str) -> Any:
    """Declare an option as another set of options declares it."""
    declared = next(field for field in fields(options) if field.name == name)
    return field(default=declared.default, metadata=declared.metadata)


# --- what decides the numbers ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CorpusOptions(Options):
    """How a corpus is read and cut into shards."""

    what: ClassVar[str] = "setting of a run"

    text_column: str = option("text", "Column of the texts, in tables.")
    id_column: str | None = option(
        None, "Column of the ids; by default an id is the file's name and the record's number."
    )
    whole_file: bool = option(False, "Take each text file as one text instead of one text per line.")
    max_characters: int = option(1_000_000, "Longer texts are not scored.", minimum=1)
    shard_texts: int = option(2000, "Texts in a shard, at most.", minimum=1)
    shard_characters: int = option(250_000, "A shard with this many characters is full.", minimum=1)
    threads: int | None = option(
        None, "Processor threads of each worker; by default the cores divided by the workers.", minimum=1
    )


@dataclass(frozen=True)
class RunSettings:
    """What decides the numbers of a run; it goes into the manifest, and a run is resumed only with the same settings.

    The manifest and :func:`wordprob.runs.run` have all settings side by side, under their own names.

    Attributes
    ----------
    model
        Which model, as for :func:`wordprob.load`.
    scoring
        Words, unit and columns, as for :meth:`wordprob.Scorer.score`. Its ``readers`` is not used: see
        :class:`Execution`.
    corpus
        How inputs are read and cut into shards, and the threads of each worker: sums over several threads may differ
        in their last digits.
    """

    model: ModelOptions = field(default_factory=ModelOptions)
    scoring: ScoringOptions = field(default_factory=ScoringOptions)
    corpus: CorpusOptions = field(default_factory=CorpusOptions)

    def __post_init__(self) -> None:
        _check_words(self.scoring.words)
        _check_model_kwargs(self.model)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunSettings:
        """Make settings from names and values; those that are not given have their defaults."""
        names = list(cls().to_dict())
        for name in values:
            if name not in names:
                raise OptionError(f"no setting of a run is called '{name}'. {did_you_mean(name, names)}")
        return cls(ModelOptions.pick(values), ScoringOptions.pick(values), CorpusOptions.pick(values))

    def to_dict(self) -> dict[str, Any]:
        """Return the names and values of all settings, with lists for tuples, as JSON has them."""
        values = {**self.model.to_dict(), **self.scoring.to_dict(), **self.corpus.to_dict()}
        del values["readers"]  # decides no number, so it may change from one start to the next
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @property
    def threads(self) -> int:
        """Processor threads of each worker; 1 unless a number is set."""
        return self.corpus.threads or 1

    @property
    def read_options(self) -> ReadOptions:
        """How records are read."""
        from wordprob.sources import ReadOptions

        return ReadOptions(self.corpus.text_column, self.corpus.id_column, self.corpus.max_characters)

    def with_absolute_model_path(self) -> RunSettings:
        """Return the same settings with paths of a model and a tokenizer that are valid from any directory."""
        from wordprob.models import resolve

        model = self.model
        if model.tokenizer and Path(model.tokenizer).expanduser().exists():
            model = replace(model, tokenizer=str(Path(model.tokenizer).expanduser().resolve()))
        source = resolve(model.model)[1]
        path = Path(source).expanduser()
        if path.exists():
            backend = model.model.removesuffix(source)  # "gguf:" before a file that is not opened in the usual way
            prefix = backend if backend.endswith(":") else ""
            model = replace(model, model=f"{prefix}{path.resolve()}")
        if model.adapter is not None and Path(model.adapter).expanduser().exists():
            model = replace(model, adapter=str(Path(model.adapter).expanduser().resolve()))
        return replace(self, model=model)

    def with_revision(self, revision: str | None) -> RunSettings:
        """Return the same settings with another revision of the model."""
        from wordprob.models.registry import split_revision

        name, _ = split_revision(self.model.model)
        return replace(self, model=replace(self.model, model=name, revision=revision))


def _check_model_kwargs(model: ModelOptions) -> None:
    """Raise, unless a manifest can name the further arguments that a model is loaded with."""
    try:
        json.dumps([model.model_kwargs, model.device_map])
    except TypeError as error:
        raise OptionError(
            f"a run writes `model_kwargs` and `device_map` into its manifest, so they must be JSON: {error}."
        ) from None


def _check_words(words: object) -> None:
    """Raise, unless these are words that a manifest can name and that hold for any text."""
    allowed = "use whitespace, punctuation or regex:PATTERN"
    if not isinstance(words, str):
        raise OptionError(f"a run writes its word definition into its manifest, so it must have a name; {allowed}.")
    if words.startswith("list:"):
        raise OptionError(
            f"words is '{words}', but a list has the words of a few known texts, in their order, and a run finds the "
            f"words of any text by a rule; {allowed}. To score texts whose words are listed, use `wordprob score`, or "
            "Scorer.score from Python."
        )


# --- how a run is executed -------------------------------------------------------------------------------------------


def check_gpus_per_worker(count: float) -> None:
    """Raise, unless a worker can have this many GPUs."""
    if count < 0 or (count > 1 and count % 1):
        raise OptionError(f"gpus_per_worker is {count:g}; use a fraction below 1, or a whole number.")


@dataclass(frozen=True)
class Execution(Options):
    """How a run is executed; this may change from one start to the next.

    Attributes
    ----------
    engine
        ``local`` or ``ray``.
    workers
        Processes that hold the model.
    gpus_per_worker
        GPUs for each, a fraction to share one; 0 leaves it to ``device``.
    strict
        Stop at the first text that cannot be scored.
    ray_address
        A Ray cluster to join; without one, Ray starts on this machine, unless ``RAY_ADDRESS`` names a cluster.
    retry_errors
        Also score the finished shards again in which a text was refused by the tokeniser or the model.
    worker_timeout
        Seconds after which a worker process is replaced that neither finishes a text nor uses its processor.
    readers
        Processes of each worker that do everything except run the model, as for :meth:`wordprob.Scorer.score`.
    """

    what: ClassVar[str] = "option of a run"

    engine: str = option(
        "local", "What does the work: processes on this machine, or Ray.", noun="engine", choices=ENGINES
    )
    workers: int = option(1, "Copies of the model.", minimum=1)
    gpus_per_worker: float = option(
        0.0,
        "GPUs of each worker; 0.5 lets two workers share one.",
        check=check_gpus_per_worker,
    )
    strict: bool = option(False, "Stop at the first text that cannot be scored.")
    retry_errors: bool = option(
        False, "Score shards again in which the tokeniser or the model could not score a text (problem: scoring)."
    )
    worker_timeout: int = option(600, "Replace a worker that shows no progress for this many seconds.", minimum=1)
    ray_address: str | None = option(None, "A Ray cluster to join, for example auto; otherwise Ray starts here.")
    readers: int | None = _option_of(ScoringOptions, "readers")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ray_address is not None and self.engine != "ray":
            raise OptionError(f"ray_address is '{self.ray_address}', but the engine is {self.engine}; use engine ray.")


def default_threads(workers: int) -> int:
    """Return the threads of each worker when the machine's cores are divided among the workers."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // workers)
