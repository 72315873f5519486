"""The public names, lazy imports, and the registry of models."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import wordprob
from wordprob.cache import sha256
from wordprob.errors import OptionError, UnknownModelError
from wordprob.models import threads
from wordprob.models.registry import (
    BACKENDS,
    CATALOGUE,
    commit,
    describe,
    gguf_backend,
    open_model,
    open_tokenizer,
    register_backend,
    resolve,
)
from wordprob.options import ModelOptions


def test_exported_names():
    assert wordprob.__all__ == [
        "ScoredTable",
        "Scorer",
        "WordTable",
        "WordprobError",
        "__version__",
        "check_sum",
        "load",
        "model_report",
        "score_pairs",
        "score_table",
    ]
    for name in wordprob.__all__:
        assert getattr(wordprob, name) is not None
    assert set(wordprob.__all__) <= set(dir(wordprob))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = wordprob.nope


def test_importing_loads_no_heavy_package():
    code = "import sys, wordprob; assert not {'torch', 'transformers', 'pandas', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


PAPER = {
    "gpt2-small": "openai-community/gpt2",
    "gpt2-medium": "openai-community/gpt2-medium",
    "gpt2-large": "openai-community/gpt2-large",
    "gpt2-xl": "openai-community/gpt2-xl",
    "pythia-70m": "EleutherAI/pythia-70m",
    "pythia-160m": "EleutherAI/pythia-160m",
    "pythia-410m": "EleutherAI/pythia-410m",
    "pythia-1.4b": "EleutherAI/pythia-1.4b",
    "pythia-2.8b": "EleutherAI/pythia-2.8b",
    "pythia-6.9b": "EleutherAI/pythia-6.9b",
    "pythia-12b": "EleutherAI/pythia-12b",
}


@pytest.mark.parametrize(("name", "hub"), PAPER.items())
def test_the_papers_models_by_their_names_on_the_hub(name, hub):
    assert resolve(name) == ("hf", hub)


def test_every_short_name_has_a_backend():
    for name, entry in CATALOGUE.items():
        assert resolve(name)[0] == entry.backend in BACKENDS
        assert entry.licence


def test_names_directories_and_files_are_resolved(tmp_path):
    assert resolve(tmp_path) == ("hf", str(tmp_path))
    assert resolve("owner/name") == ("hf", "owner/name")
    assert resolve("meta-llama/Llama-3.2-1B")[0] == "hf", "no model is refused by its name"
    assert resolve("exact") == resolve("exact:") == ("exact", "bow")
    assert resolve("exact:eow") == ("exact", "eow")
    assert resolve("hf:owner/name") == ("hf", "owner/name")
    with pytest.raises(UnknownModelError, match="no model is called 'unknown:name'"):
        resolve("unknown:name")
    (tmp_path / "m.gguf").touch()
    assert resolve(tmp_path / "m.gguf") == (gguf_backend(), str(tmp_path / "m.gguf"))
    assert resolve(f"gguf:{tmp_path / 'm.gguf'}") == ("gguf", str(tmp_path / "m.gguf"))
    with pytest.raises(UnknownModelError, match=r"pythia-1\.4b"):
        resolve("pythia-14b")


def test_a_hub_model_out_of_reach_says_so(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # the variable is read at import
    with pytest.raises(wordprob.WordprobError, match="could not be loaded"):
        wordprob.load("owner/no-such-model")


def test_models_open_by_name_or_by_options():
    by_name = open_model("exact:eow", bos="none")
    by_options = open_model(ModelOptions(model="exact:eow"))
    assert by_name.metadata == by_options.metadata
    assert open_tokenizer("exact:eow").vocabulary.fingerprint == by_name.tokenizer.vocabulary.fingerprint
    with pytest.raises(OptionError, match="no option of a model called 'dtipe'. Did you mean dtype"):
        open_model("exact", dtipe="float32")
    with pytest.raises(TypeError, match="given twice"):
        open_model(ModelOptions(model="exact"), bos="none")


# --- what a run records about a model ------------------------------------------------------------------------------


def test_models_are_described_without_opening_them(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    described = describe(ModelOptions(model=str(tmp_path)))
    files = {"config.json": sha256(tmp_path / "config.json")}
    fingerprint = described["fingerprint"]
    assert described == {"backend": "hf", "source": tmp_path.name, "fingerprint": fingerprint, "files": files}
    (tmp_path / "config.json").write_text("{ }")
    assert describe(ModelOptions(model=str(tmp_path)))["fingerprint"] != described["fingerprint"]
    file = tmp_path / "m.gguf"
    file.write_bytes(b"weights")
    assert describe(ModelOptions(model=str(file)))["source"] == "m.gguf"
    assert describe(ModelOptions(model="exact:eow")) == {"backend": "exact", "source": "eow"}
    hub = describe(ModelOptions(model="gpt2-small", revision="abc"))
    assert hub == {"backend": "hf", "source": "openai-community/gpt2", "revision": "abc"}
    wheel = describe(ModelOptions(model="smollm2-135m"))
    assert list(wheel) == ["backend", "source", "revision", "fingerprint"]


def test_only_a_model_on_the_hub_has_a_commit(tmp_path, monkeypatch):
    import huggingface_hub

    class Api:
        def model_info(self, source, revision, timeout):
            return type("Info", (), {"sha": f"{source}@{revision}"})

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    assert commit(ModelOptions(model="gpt2-small", revision="v1")) == "openai-community/gpt2@v1"
    for local in ("exact:bow", "smollm2-135m", str(tmp_path)):
        assert commit(ModelOptions(model=local)) == ""


# --- a backend in one file -----------------------------------------------------------------------------------------

TOY = """
import numpy as np
from wordprob.models.exact import ExactLM
from wordprob.models.protocol import scores_from_logits


class Toy:
    max_tokens, batch_tokens, metadata = None, 4096, {"model": "toy"}

    def __init__(self, source, options):
        self.exact = ExactLM.bigram(source)
        self.tokenizer, self.vocab_size = self.exact.tokenizer, self.exact.vocab_size

    def score(self, requests, atoms):
        for index, request in enumerate(requests):
            rows = [self.exact.distribution(request.ids[: j + 1]) for j in range(request.first, len(request.ids))]
            with np.errstate(divide="ignore"):
                yield index, scores_from_logits(np.log(rows) + 3.5, request, atoms)

    def open(self, requests, atoms, states=None):
        return self.score(requests, atoms)


load = Toy
load_tokenizer = lambda source, options: ExactLM.bigram(source).tokenizer
describe = lambda source, options: {"revision": "1"}
"""


@pytest.mark.parametrize("family", ["bow", "bow-joined", "eow", "eow-unmarked"])
def test_a_backend_is_one_file_and_one_line(family, tmp_path, monkeypatch):
    """A throw-away backend with plain logits gives what the exact model gives, to rounding error."""
    (tmp_path / "toy_backend.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "toy_backend", raising=False)
    monkeypatch.setitem(BACKENDS, "toy", "")
    register_backend("toy", "toy_backend")
    texts = ["She saw the mark", "the marker.", ""]
    options = {"words": "punctuation", "unit": "nats", "extras": ["token_entropy", "token_rank"]}
    toy = wordprob.load(f"toy:{family}").score(texts, **options)
    exact = wordprob.load(f"exact:{family}").score(texts, **options)
    columns = ["surprisal", "surprisal_naive", "before", "after", "token_entropy", "token_rank"]
    for column in columns:
        assert np.allclose(toy.to_pandas()[column], exact.to_pandas()[column], atol=1e-12, equal_nan=True), column
    assert toy.metadata["model"] == f"toy:{family}"
    assert describe(ModelOptions(model=f"toy:{family}"))["revision"] == "1"
    assert open_tokenizer(f"toy:{family}").vocabulary.size == open_model(f"exact:{family}").vocab_size


# --- threads -------------------------------------------------------------------------------------------------------


def test_a_thread_count_is_only_remembered_until_a_model_uses_torch():
    code = (
        "import sys; from wordprob.models import threads; threads.set_threads(1); assert 'torch' not in sys.modules\n"
        "import torch; torch.set_num_threads(2); threads.torch_is_used(); assert torch.get_num_threads() == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_limited_thread_count_is_restored():
    import torch

    threads.torch_is_used()
    before = torch.get_num_threads()
    with threads.limited_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        with threads.limited_threads(before + 2):
            assert torch.get_num_threads() == before + 2
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
