"""What several tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
TOKENIZERS = "ctrl gemma gpt-neox gpt2 llama2 llama3_2 mistral-7b-v0.1 openai-gpt qwen2_5 smollm2".split()
MODELS = ("fiction-bow", "fiction-eow", "stories15M")


def shared(path: str) -> Path:
    """Return a path of the shared data, or skip the test by name where it is absent."""
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"needs ../shared/{path}, which is not here")
    return found


@pytest.fixture(scope="session")
def load_shared():
    """Open a model of the shared data once for all tests."""
    from wordprob import load

    opened = {}

    def opener(name: str):
        if name not in opened:
            opened[name] = load(shared(f"models/{name}"))
        return opened[name]

    return opener


@pytest.fixture(scope="session")
def smollm2():
    """The default model, fetched and converted if need be."""
    from wordprob import load

    return load()


@pytest.fixture(scope="session")
def tokenizer_of():
    """Open a real tokeniser once for all tests."""
    from wordprob.lms.tokenizers import open_tokenizer

    opened = {}

    def opener(name: str):
        if name not in opened:
            folder = "models" if name in MODELS else "tokenizers"
            opened[name] = open_tokenizer(shared(f"{folder}/{name}"))
        return opened[name]

    return opener
