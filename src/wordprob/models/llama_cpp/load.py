"""GGUF files, run by llama.cpp as they are: quantised, in a fraction of the memory of the expanded weights."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wordprob.errors import ModelError, OptionError
from wordprob.models.fingerprints import describe_path
from wordprob.models.huggingface.tokenizer import HFTokenizer
from wordprob.models.llama_cpp.library import LlamaFile, supports_gpu
from wordprob.models.llama_cpp.model import LlamaModel
from wordprob.models.llama_cpp.tokenizer import make_tokenizer
from wordprob.options import ModelOptions

HAS_CHAT_TEMPLATES = True
INSTALL = "pip install 'wordprob[llama-cpp]'"


def load(source: str, options: ModelOptions) -> LlamaModel:
    """Open a GGUF file."""
    path = _checked_path(source)
    gpu = _runs_on_gpu(path, options)
    file = LlamaFile(path, gpu=gpu)
    file.require_causal()
    metadata = {
        "model": options.model,
        "source": path.name,
        "revision": "",
        "dtype": file.description,
        "device": "gpu" if gpu else "cpu",
        "llama-cpp-python": _version(),
    }
    return LlamaModel(file, make_tokenizer(file, options), metadata)


def load_tokenizer(source: str, options: ModelOptions) -> HFTokenizer:
    """Open the tokenizer in a GGUF file; its weights are not read."""
    return make_tokenizer(LlamaFile(_checked_path(source), vocabulary_only=True), options)


def describe(source: str, _options: ModelOptions) -> dict[str, Any]:
    """Return the name and the fingerprint of the file."""
    return describe_path(Path(source).expanduser())


def _version() -> str:
    from llama_cpp import __version__

    return str(__version__)


def _checked_path(source: str) -> Path:
    if find_spec("llama_cpp") is None:
        raise ModelError(f"llama.cpp is not installed: {INSTALL}. Or expand the file: write gguf:{source}.")
    path = Path(source).expanduser()
    if not path.is_file():
        raise ModelError(f"no such file: {source}")
    return path


def _runs_on_gpu(path: Path, options: ModelOptions) -> bool:
    """Return True if the model goes onto a GPU; raise for options that only an expanded model has."""
    advice = f"To expand the file to full precision, write gguf:{path}."
    if options.dtype != "auto":
        raise OptionError(
            f"llama.cpp runs the weights of {path.name} as they are stored, so `dtype` cannot be {options.dtype}. "
            f"Leave it out. {advice}"
        )
    if options.compile:
        raise OptionError(f"`compile` is for models that torch runs, and llama.cpp runs {path.name}. {advice}")
    if options.device in ("cuda", "mps") and not supports_gpu():
        raise OptionError(
            f"llama.cpp was built without a GPU, so `device` cannot be {options.device}; use cpu. {advice}"
        )
    return options.device != "cpu" and supports_gpu()
