"""Words that are runs of one class of characters: the same words as the pattern's, and enumerated after contexts."""

from __future__ import annotations

import math
import pickle
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wordprob
from wordprob.core.character_runs import CharacterRuns, one_character_decides
from wordprob.core.words import define
from wordprob.errors import InputError, OptionError

PATTERNS = [r"\w+", r"\S+", r"[\w']+", r"\p{L}+", r"[^\s.,]+"]
FAMILIES = ["bow", "bow-marked", "bow-joined", "eow", "eow-unmarked"]


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=st.text("ab1 .,'-é\n(", max_size=12))
def test_the_same_words_end_at_the_same_places(pattern, text):
    by_pattern = define(f"regex:{pattern}")
    runs = one_character_decides(by_pattern)
    assert isinstance(runs, CharacterRuns)
    assert runs.name == by_pattern.name
    assert runs.segment(text) == by_pattern.segment(text)
    ends = {word.end for word in runs.segment(text)}
    for end in ends:
        start = next(word.start for word in runs.segment(text) if word.end == end)
        assert runs.ends(text[:start], text[start:end], text[end:])
        assert not any(runs.ends(text[:start], text[start:i], text[i:]) for i in range(start + 1, end))


@pytest.mark.parametrize(
    "pattern", [r"[^.]+", r"\D+", r"\w+|\d", r"a+b", r"\w{1,3}", r"mark(?:er)?|\w+", r"[[a-z]--[aeiou]]+"]
)
def test_other_patterns_are_not_runs(pattern):
    """Words that may hold white space, and patterns of more than one class."""
    assert one_character_decides(define(f"regex:{pattern}")) is None


def test_runs_are_the_same_in_another_process():
    runs = pickle.loads(pickle.dumps(CharacterRuns(r"[\w']")))
    assert runs.name == r"regex:[\w']+"
    assert [word.text for word in runs.segment("she can't")] == ["she", "can't"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_scored_as_the_pattern_is(load_model, pattern):
    texts = ["“Don't,” she said (twice).", "a well-known word... and so on", "3.14 is pi"]
    scorer = load_model("small-llama2")
    by_pattern = scorer.score(texts, f"regex:{pattern}").to_pandas()
    by_runs = scorer.score(texts, one_character_decides(define(f"regex:{pattern}"))).to_pandas()
    assert by_runs["word"].tolist() == by_pattern["word"].tolist()
    assert np.allclose(by_runs["surprisal"], by_pattern["surprisal"], rtol=0, atol=1e-4)


def truth(model, context, definition):
    """Return the probabilities of what may come next, with what stands before it, and of the end."""
    found, event, end = defaultdict(float), 0.0, 0.0
    for text, p in model.texts.items():
        ends = [word.end for word in definition.segment(text)]
        if not text.startswith(context) or (context and len(context) not in ends):
            continue
        if not context and text[:1].isspace():
            continue
        event += p
        if text == context:
            end += p
        following = [word for word in definition.segment(text) if word.start >= len(context)]
        if following:
            found[text[len(context) : following[0].end]] += p
    return {word: p / event for word, p in found.items()}, end / event


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pattern", [r"\w+", r"[\w']+"])
@pytest.mark.parametrize("context", ["", "She", "She saw the", "the mark"])
def test_next_words_of_exact_languages(family, pattern, context):
    scorer = wordprob.load(f"exact:{family}")
    expected, end = truth(scorer.model, context, define(f"regex:{pattern}"))
    if not expected:
        pytest.skip("no text begins like this")
    found = scorer.next_words(context, f"regex:{pattern}", top=1000)
    probabilities = {each.separator + each.word: each.probability for each in found.words}
    assert probabilities == pytest.approx(expected, abs=1e-12)
    assert found.end == pytest.approx(end, abs=1e-12)
    assert math.fsum([*probabilities.values(), found.end, found.rest]) == pytest.approx(1.0, abs=1e-12)
    assert all(each.word.isalnum() or "'" in each.word for each in found.words)


def test_white_space_as_a_pattern(load_model):
    scorer = load_model("small-llama2")
    by_rule = scorer.next_words("Once upon a time, there", "whitespace", top=5)
    by_pattern = scorer.next_words("Once upon a time, there", r"regex:\S+", top=5)
    assert [each.word for each in by_pattern.words] == [each.word for each in by_rule.words]
    expected = [each.probability for each in by_rule.words]
    assert [each.probability for each in by_pattern.words] == pytest.approx(expected, rel=1e-4)


def test_a_context_must_end_with_a_word():
    scorer = wordprob.load("exact:bow")
    for context in ("She saw the mark.", "..."):
        with pytest.raises(InputError, match="does not end with a word"):
            scorer.next_words(context, r"regex:\w+")
    with pytest.raises(OptionError, match="cannot be enumerated"):
        scorer.next_words("She", r"regex:\w{1,3}")
