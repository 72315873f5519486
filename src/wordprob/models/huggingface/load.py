"""Any Hugging Face causal language model, by hub id or directory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wordprob.errors import ModelError, OptionError, UnsupportedError
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.tokenizer import HFTokenizer, keep_imports, load_tokenizer

DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("auto", "float32", "bfloat16", "float16")


def load(
    source: str | Path,
    *,
    name: str | None = None,
    bos: str | int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    compile: bool = False,
    revision: str | None = None,
    trust_remote_code: bool = False,
    tokenizer: HFTokenizer | None = None,
) -> HFModel:
    """Load a causal model from a hub id or a directory."""
    from transformers import AutoConfig, AutoModelForCausalLM

    keep_imports()
    where = pick_device(device)
    kind = pick_dtype(dtype, where)
    options: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": trust_remote_code}
    with quiet():
        try:
            config = AutoConfig.from_pretrained(str(source), **options)
        except Exception as error:
            raise _unreadable(source, error, trust_remote_code) from error
        require_causal(config, source)
        try:
            model = AutoModelForCausalLM.from_pretrained(str(source), dtype=kind, **options)
        except Exception as error:
            raise _unreadable(source, error, trust_remote_code) from error
        tokenizer = tokenizer or load_tokenizer(source, bos, end_ids(model), **options)
    found = HFModel(model.to(where), tokenizer, {}, compile=compile)
    origin = Path(source).name if Path(source).is_dir() else str(source)
    found.metadata = describe(
        model,
        origin if Path(source).is_dir() else name or origin,
        origin,
        revision or getattr(config, "_commit_hash", None) or "",
        compile,
    )
    return found


def describe(model: Any, name: str, source: str, revision: str, compiled: bool) -> dict[str, str]:
    """Return what a table should say about a model."""
    import torch
    import transformers

    return {
        "model": name,
        "source": source,
        "revision": revision,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device),
        **({"compiled": "yes"} if compiled else {}),
        "transformers": transformers.__version__,
        "torch": str(torch.__version__),
    }


def end_ids(model: Any) -> list[int]:
    """Return the end ids that a model's configurations name."""
    found: list[int] = []
    for config in (getattr(model, "generation_config", None), model.config):
        listed = getattr(config, "eos_token_id", None)
        found += listed if isinstance(listed, list) else [] if listed is None else [listed]
    return list(dict.fromkeys(int(i) for i in found))


def require_causal(config: Any, source: str | Path) -> None:
    """Refuse models that do not predict the next token from those before it."""
    kinds = list(getattr(config, "architectures", None) or [])
    causal = any("CausalLM" in k or k.endswith(("LMHeadModel", "DoubleHeadsModel")) for k in kinds)
    advice = "wordprob needs a causal model, such as gpt2-small or smollm2-135m; `wordprob models` lists some."
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedError(f"{source} is an encoder–decoder model ({config.model_type}); {advice}")
    if not causal and (any("MaskedLM" in k for k in kinds) or config.model_type in MASKED):
        raise UnsupportedError(f"{source} is a masked model ({config.model_type}); {advice}")


MASKED = (
    "albert",
    "bert",
    "camembert",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "modernbert",
    "roberta",
    "xlm-roberta",
)


def pick_device(device: str) -> str:
    """Return the torch device for a name, ``auto`` being the best there is."""
    import torch

    if device not in DEVICES:
        raise OptionError(f"no device is called '{device}'; use {', '.join(DEVICES)}.")
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if present[name])
    if not present[device]:
        raise OptionError(f"this machine has no {device} device that torch can use; try --device cpu.")
    return device


def count_gpus() -> int:
    """Return how many GPUs torch can use here."""
    import torch

    return torch.cuda.device_count()


def pick_dtype(dtype: str, device: str) -> Any:
    """Return the torch dtype for a name, ``auto`` being float32 but on a GPU."""
    import torch

    if dtype not in DTYPES:
        raise OptionError(f"no dtype is called '{dtype}'; use {', '.join(DTYPES)}.")
    if dtype == "auto":
        return torch.float32 if device != "cuda" else "auto"
    return getattr(torch, dtype)


def _unreadable(source: str | Path, error: Exception, trust_remote_code: bool) -> ModelError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if "trust_remote_code" in str(error) and not trust_remote_code:
        advice = "It brings its own code; if you trust it, add --trust-remote-code."
    elif Path(source).is_dir():
        advice = "The directory needs config.json, the weights (*.safetensors) and the tokeniser's files."
    else:
        advice = "Is the name right, and the hub in reach? A local directory or .gguf file works without a network."
    return ModelError(f"the model {source} could not be loaded: {reason}. {advice}")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' progress bars and advice off the user's screen."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
