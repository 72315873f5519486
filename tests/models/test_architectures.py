"""State-space, hybrid and other kinds of networks: exact, whatever shortcut their self-checks allow."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import architectures  # noqa: E402

import wordprob  # noqa: E402
from wordprob.errors import ModelError, UnsupportedError  # noqa: E402

PAGE = (ROOT / "docs/architectures.md").read_text(encoding="utf-8")
WORKS = re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)
FEW = ("mamba", "mamba2", "rwkv", "jamba", "falcon_h1", "recurrent_gemma", "qwen3_next", "mixtral", "roformer", "bloom")
LARGEST_DEVIATION_NATS = 5e-5
"""Float32 rounding of small networks; any mistake is far above it."""


@pytest.fixture(scope="module")
def tokenizer():
    return architectures.byte_tokenizer()


def check(kind, tokenizer):
    row = architectures.try_kind(kind, tokenizer)
    assert row["result"] == "works"
    assert float(row["deviation_nats"]) < LARGEST_DEVIATION_NATS
    return row


@pytest.mark.parametrize("kind", FEW)
def test_scores_are_the_full_softmax(kind, tokenizer):
    check(kind, tokenizer)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in WORKS if kind not in FEW])
def test_scores_of_all_kinds_are_the_full_softmax(kind, tokenizer):
    check(kind, tokenizer)


def test_the_page_has_many_kinds():
    assert len(WORKS) >= 25
    assert set(FEW) <= set(WORKS)


def test_a_shortcut_that_would_be_wrong_is_not_taken(tokenizer):
    """RoFormer takes no positions, so what goes on from a context would be in other places than in the text."""
    assert architectures.try_kind("roformer", tokenizer)["shared_contexts"] == "run again for each continuation"
    assert architectures.try_kind("llama", tokenizer)["shared_contexts"] == "run once"


def test_words_of_a_state_space_model(tokenizer):
    network = architectures.build("mamba")
    frame = wordprob.load(network, tokenizer).score(list(architectures.TEXTS), unit="nats").to_pandas()
    assert frame["surprisal"].notna().all()
    scorer = wordprob.load(network, tokenizer)
    after = scorer.score_continuations("She saw the", ["mark", "marker"], unit="nats").to_pandas()["surprisal"]
    whole = scorer.score(["She saw the mark", "She saw the marker"], unit="nats").to_pandas()
    assert np.allclose(after, whole.loc[whole["word_id"] == 3, "surprisal"], atol=1e-4)


def test_a_network_that_looks_ahead_is_refused(tokenizer):
    with pytest.raises(UnsupportedError, match="XLNetLMHeadModel.* is not causal"):
        wordprob.load(architectures.build("xlnet"), tokenizer)


def test_a_network_that_cannot_run_says_so(tokenizer):
    network = architectures.build("mamba")
    network.backbone.layers[0].mixer.in_proj = None
    with pytest.raises(ModelError, match=r"\(MambaForCausalLM\) could not be run on a few tokens: 'NoneType'"):
        wordprob.load(network, tokenizer)
