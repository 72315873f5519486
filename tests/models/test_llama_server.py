"""A real server on the loopback: llama.cpp's own, as the package xllamacpp has it, with SmolLM2's GGUF file."""

from __future__ import annotations

import numpy as np
import pytest

import wordprob
from wordprob.models import default_model

xllamacpp = pytest.importorskip("xllamacpp", reason="needs llama.cpp's server: pip install xllamacpp")

TEXT = "She saw the mark."
MAX_ERROR_NATS = 0.5
"""How far log p of a token may be from the expanded model's: the server's arithmetic is quantised."""


@pytest.fixture(scope="module")
def address():
    """The address of a server that is ended after the tests."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(default_model.gguf_file())
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = 1024
    parameters.n_parallel = 1
    parameters.warmup = False
    parameters.verbosity = 0
    server = xllamacpp.Server(parameters)
    yield server.listening_address
    del server


def test_a_real_server_agrees_with_the_expanded_model(address, smollm2):
    assert address.startswith("http://127.0.0.1:")
    scorer = wordprob.load(address)
    assert scorer.model.metadata["asked_by"] == "llama.cpp"
    found = scorer.score(TEXT, unit="nats", tolerance=1.0).to_pandas()
    expected = smollm2.score(TEXT, unit="nats").to_pandas()
    assert found["n_tokens"].tolist() == expected["n_tokens"].tolist()
    error = np.abs(found["surprisal_naive"] - expected["surprisal_naive"])
    assert (error < MAX_ERROR_NATS * found["n_tokens"]).all()
    assert (found["surprisal_low"] <= expected["surprisal"] + MAX_ERROR_NATS * found["n_tokens"]).all()
    assert (found["surprisal_high"] >= expected["surprisal"] - MAX_ERROR_NATS * found["n_tokens"]).all()
    is_wide = found["surprisal_high"] - found["surprisal_low"] > np.log(2)
    assert (found["note"].str.contains("wider than the tolerance") == is_wide).all()


def test_a_longer_list_is_inside_a_shorter_one(address):
    """The same server, listing more: every interval gets narrower, and lies in the one before."""
    few, many = (wordprob.load(address, top_logprobs=top).score(TEXT).to_pandas() for top in (10, 2000))
    assert np.allclose(few["surprisal_naive"], many["surprisal_naive"], atol=1e-4)
    assert (few["surprisal_low"] <= many["surprisal_low"] + 1e-4).all()
    assert (few["surprisal_high"] >= many["surprisal_high"] - 1e-4).all()
    assert (many["surprisal_high"] - many["surprisal_low"]).mean() < 0.5
