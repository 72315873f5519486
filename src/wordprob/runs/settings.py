"""What a run is asked to do, checked at the door: what decides its numbers, and what only decides how it gets there."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from wordprob.core.words import define
from wordprob.errors import OptionError, did_you_mean
from wordprob.models import resolve
from wordprob.options import DEFAULT_MODEL
from wordprob.sources import ReadOptions
from wordprob.tables.schema import unit_size

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class RunSettings:
    """What decides the numbers; it goes into the manifest, and a run goes on only under the same.

    Attributes
    ----------
    model, bos, device, dtype, compile, revision, trust_remote_code
        As for :func:`wordprob.load`.
    words, unit, min_context
        As for :meth:`wordprob.Scorer.score`.
    text_column, id_column, whole_file
        How inputs are read.
    max_characters
        Longer texts are not scored.
    shard_texts, shard_characters
        A shard is full when it has so many texts or characters.
    threads
        Processor threads of each worker. Sums over several threads may differ in their last digits, so the number is
        part of what decides them.
    """

    model: str = DEFAULT_MODEL
    bos: str | int | None = None
    device: str = "auto"
    dtype: str = "auto"
    compile: bool = False
    revision: str | None = None
    trust_remote_code: bool = False
    words: str = "whitespace"
    unit: str = "bits"
    min_context: int | None = None
    text_column: str = "text"
    id_column: str | None = None
    whole_file: bool = False
    max_characters: int = 1_000_000
    shard_texts: int = 2000
    shard_characters: int = 250_000
    threads: int = 1

    def __post_init__(self) -> None:
        define(self.words)
        unit_size(self.unit)
        resolve(self.model)
        for name in ("max_characters", "shard_texts", "shard_characters", "threads"):
            if getattr(self, name) < 1:
                raise OptionError(f"{_option(name)} is {getattr(self, name)}; it must be at least 1.")

    @classmethod
    def of(cls, given: dict[str, Any]) -> RunSettings:
        """Make settings from names and values; unknown names are told."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise OptionError(f"no setting of a run is called '{name}'. {did_you_mean(name, known)}")
        return cls(**given)

    def at_home(self) -> RunSettings:
        """Return the same with a model's path that holds from any directory."""
        path = Path(resolve(self.model)[1]).expanduser()
        return replace(self, model=str(path.resolve())) if path.exists() else self

    @property
    def reading(self) -> ReadOptions:
        """How records are read."""
        return ReadOptions(self.text_column, self.id_column, self.max_characters)

    @property
    def model_options(self) -> dict[str, Any]:
        """What :func:`wordprob.load` is called with."""
        names = ("model", "bos", "device", "dtype", "compile", "revision", "trust_remote_code")
        return {name: getattr(self, name) for name in names}

    def as_dict(self) -> dict[str, Any]:
        """Return names and values."""
        return asdict(self)


@dataclass(frozen=True)
class Execution:
    """How a run gets there; it may change from one start to the next.

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
    """

    engine: str = "local"
    workers: int = 1
    gpus_per_worker: float = 0.0
    strict: bool = False
    ray_address: str | None = None

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise OptionError(f"no engine is called '{self.engine}'; use {' or '.join(ENGINES)}.")
        if self.workers < 1:
            raise OptionError(f"--workers is {self.workers}; it must be at least 1.")
        if self.gpus_per_worker < 0 or (self.gpus_per_worker > 1 and self.gpus_per_worker % 1):
            raise OptionError(f"--gpus-per-worker is {self.gpus_per_worker:g}; use a fraction, or a whole number.")
        if self.ray_address is not None and self.engine != "ray":
            raise OptionError("--ray-address is for --engine ray.")


def default_threads(workers: int) -> int:
    """Return the threads of each worker when the machine's cores are shared out."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // workers)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
