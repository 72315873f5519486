"""wordsprobability: one text after another. It knows its own models by name only, so this one is made known to it."""

from __future__ import annotations

import sys

import protocol
from transformers import AutoModelForCausalLM, AutoTokenizer
from wordsprobability import get_surprisal_per_word, models
from wordsprobability.models.bow_lm import GPT2BaseModel


class Given(GPT2BaseModel):
    model_cls = AutoModelForCausalLM
    tokenizer_cls = AutoTokenizer
    model_name = sys.argv[1]


loaded = Given()


class Loaded:
    """The package makes a new model for every call; loading is not timed, so it gets the one that is there."""

    bow_symbol = Given.bow_symbol

    def __new__(cls):
        return loaded


models.MODELS["given"] = Loaded


def score(texts):
    frame = get_surprisal_per_word("\n".join(texts), "given")
    groups = [group for _, group in frame.groupby("text_id")]
    values = [group["surprisal"].astype(float).tolist() for group in groups]
    return lambda: ([group["word"].tolist() for group in groups], {"corrected": values})


protocol.serve(score, ["wordsprobability", "torch", "transformers"])
