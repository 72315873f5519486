"""Sums of columns over texts, tokenizers and definitions, kept from before the code was reorganised.

A change of these numbers is a change for users: it belongs in the changelog, with the reason. To write the table again:

    python tests/whole/test_golden.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
import wordprob
from conftest import MODELS, TOKENIZERS, shared
from random_lm import RandomLM
from wordprob.models import open_tokenizer

TABLE = Path(__file__).parent / "golden/scores.tsv"
DEFINITIONS = ("whitespace", "punctuation")
EXACT = ("bow", "bow-marked", "bow-joined", "eow", "eow-unmarked")
TEXTS = [
    "She saw the mark on the wall.",
    "How do you compute a word's probability?",
    "“Well,” said Mr. O'Brien, “it's—how shall I say?—rather odd...”",
    "Charles' letter (5' long) isn't here; the boss' car [is].",
    "  Leading spaces\tand tabs\nand newlines\n\nand more. ",
    "",
    " ",
    "3.14 is π; 10,000 ≠ 10.000!",
    "Ça va? L'été, l'amour… naïve café e\u0301te\u0301.",
    "Он сказал: «Привет, мир!» И ушёл.",
    "我喜欢吃苹果。你呢？",
    "今日は良い天気ですね。",
    "कल मैं बाज़ार गया था।",
    "ฉันรักภาษาไทย",
    "שלום עולם, מה שלומך?",
    "مرحبا بالعالم، كيف حالك؟",
    "unbelievably-long-hyphenated-word and e.g. http://a.b/c?d=e f(x) = y; 😀👩‍🔬 ok",
    "]!= x == 'no'— \"yes.\" (really?)",
    (
        "The quick brown fox jumps over the lazy dog and then it runs away from the very angry bear that lives in the "
        "dark wood near the old mill by the river, where nobody has ever been seen after the sun went down behind the "
        "hills and the moon came up over the lake. "
    )
    * 2,
]
SUMMED = (
    "n_tokens",
    "context_tokens",
    "surprisal",
    "surprisal_naive",
    "before",
    "after",
    "token_entropy",
    "token_rank",
)


def summary(table):
    """Return, for each text, the number of words, of missing values, and the sum of every column."""
    frame = table.to_pandas()
    by_text = frame.replace([float("inf"), float("-inf")], float("nan")).groupby("text_id")
    sums = by_text[list(SUMMED)].sum()
    sums.insert(0, "n_words", by_text.size())
    sums.insert(1, "n_missing", by_text["surprisal"].apply(lambda values: int(values.isna().sum())))
    return sums.reset_index()


def exact_case(family, definition):
    scorer = wordprob.load(f"exact:{family}")
    table = scorer.score(sorted(scorer.model.texts)[:400], definition, extras=("token_entropy", "token_rank"))
    return summary(table).sum(numeric_only=True).to_frame().T


def tokenizer_case(tokenizer, definition):
    model = RandomLM(tokenizer, max_tokens=64, further_ids=3)
    return summary(wordprob.Scorer(model).score(TEXTS, definition, extras=("token_entropy", "token_rank")))


def expected(case):
    table = pd.read_csv(TABLE, sep="\t")
    return table[table["case"] == case].drop(columns="case").reset_index(drop=True)


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("family", EXACT)
def test_exact_models(family, definition):
    found = exact_case(family, definition)
    pd.testing.assert_frame_equal(found, expected(f"exact:{family} {definition}"), check_dtype=False, rtol=1e-9)


QUICK = ("fiction-bow", "fiction-eow", "stories15M", "gpt2")
"""Tokenizers with which every run of the tests compares; the others take some seconds each."""


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in (*TOKENIZERS, *MODELS)]
)
def test_tokenizers(tokenizer_of, name, definition):
    found = tokenizer_case(tokenizer_of(name), definition)
    pd.testing.assert_frame_equal(found, expected(f"{name} {definition}"), check_dtype=False, rtol=1e-9, atol=1e-9)


def main():
    """Write the table again."""
    parts = [exact_case(f, d).assign(case=f"exact:{f} {d}") for f in EXACT for d in DEFINITIONS]
    for name in (*TOKENIZERS, *MODELS):
        tokenizer = open_tokenizer(shared(f"{'models' if name in MODELS else 'tokenizers'}/{name}"))
        parts += [tokenizer_case(tokenizer, d).assign(case=f"{name} {d}") for d in DEFINITIONS]
    table = pd.concat(parts, ignore_index=True)
    table.insert(0, "case", table.pop("case"))
    table.to_csv(TABLE, sep="\t", index=False, float_format="%.12g")


if __name__ == "__main__":
    main()
