"""The exact language model judges the estimators: every position of every text, to 1e-12."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from brute_force import brute_force_on
from wordprob import Scorer
from wordprob.core import words
from wordprob.errors import OptionError
from wordprob.models.exact import CHAIN, FAMILIES, ExactLM, ToyTokenizer, enumerate_texts

DEFINITIONS = ("whitespace", "punctuation")
CASES = [(family, definition) for family in FAMILIES for definition in DEFINITIONS]


@cache
def scored(family: str, definition: str):
    model = ExactLM.bigram(family, longest=5)
    return model, Scorer(model).score(list(model.texts), definition, unit="nats")


def truths(model: ExactLM, definition: str, texts=None) -> tuple[list[float], list[float]]:
    """True probabilities of all words, and of all ends, from strings alone."""
    rule = words.define(definition)
    reach = cache(lambda prefix: model.prefix_probability(prefix, definition))
    start = cache(lambda spaced: model.start_probability(" " if spaced else ""))
    found, ends = [], []
    for text in model.texts if texts is None else texts:
        before = start(text[:1].isspace())
        for word in rule.segment(text):
            after = reach(text[: word.end])
            found.append(after / before)
            before = after
        ends.append(model.texts[text] / before)
    return found, ends


@pytest.mark.parametrize(("family", "definition"), CASES)
def test_corrected_is_the_truth_at_every_position(family, definition):
    model, table = scored(family, definition)
    true, ends = truths(model, definition)
    assert np.abs(np.exp(-table.to_pandas()["surprisal"]) - true).max() < 1e-12
    assert np.abs(np.exp(-table.texts()["end"]) - ends).max() < 1e-12


@pytest.mark.parametrize(("family", "definition"), CASES)
def test_naive_is_not_the_truth_but_in_theorem_1(family, definition):
    model, table = scored(family, definition)
    error = np.abs(np.exp(-table.to_pandas()["surprisal_naive"]) - truths(model, definition)[0]).max()
    if (family, definition) == ("eow", "whitespace"):
        assert error < 1e-12
    else:
        assert error > 0.2


@pytest.mark.parametrize(("family", "definition"), CASES)
def test_all_words_and_the_end_add_up_to_one(family, definition):
    """Σ_w p(w | w_<t) + p(end | w_<t) = 1, each follower scored by the estimator."""
    model = ExactLM.bigram(family, longest=4)
    scorer, rule = Scorer(model), words.define(definition)
    contexts = {t[: w.end] for t in list(model.texts)[:40] for w in rule.segment(t)} | {""}
    contexts = {c for c in contexts if model.prefix_probability(c, definition) > 0}
    for context in sorted(contexts)[:25]:
        total = 0.0
        for follower in model.followers(context, definition):
            text = next(t for t in model.texts if _goes_on(rule, t, context, follower))
            count = len(rule.segment(context))
            table = scorer.score(text, definition, unit="nats")
            end = follower == "<end>"
            value = table.texts()["end"][0] if end else table.to_pandas()["surprisal"][count]
            total += np.exp(-value)
        assert total == pytest.approx(1.0, abs=1e-12)


def _goes_on(rule, text, context, follower):
    if follower == "<end>":
        return text == context
    reached = context + follower
    ends = {w.end for w in rule.segment(text)}
    return text.startswith(reached) and len(reached) in ends and (not context or len(context) in ends)


@pytest.mark.parametrize(("family", "definition"), CASES)
def test_conservation_and_the_itemised_terms(family, definition):
    _, table = scored(family, definition)
    frame = table.to_pandas()
    assert table.texts()["conservation"].abs().max() < 1e-12
    itemised = frame["surprisal_naive"] + frame["after"] - frame["before"]
    assert np.abs(frame["surprisal"] - itemised).max() < 1e-12


def test_the_printed_fix_2_is_wrong():
    """The paper's formula adds the unmarked spelling above the line only; the ratio of Z adds it below as well."""
    model = ExactLM.bigram("eow-unmarked", longest=5)
    vocabulary, definition = model.tokenizer.vocabulary, "punctuation"
    text, context = "She saw the mark saw", "She saw the mark "
    ids = {piece: vocabulary.tokens.index(piece) for piece in ("She ", "saw ", "saw", "the ", "mark ")}
    c = [0, *(ids[p] for p in ("She ", "saw ", "the ", "mark "))]
    ends = [i for i, t in enumerate(vocabulary.tokens) if t.strip() in ("?", ".", "'s") or i in vocabulary.ends]
    p = model.distribution
    printed = p(c)[ids["saw"]] * p([*c, ids["saw"]])[ends].sum() + p(c)[ids["saw "]]
    truth = model.prefix_probability(text, definition) / model.prefix_probability(context.strip(), definition)
    ours = np.exp(-Scorer(model).score(text, definition, unit="nats").to_pandas()["surprisal"].iloc[-1])
    assert ours == pytest.approx(truth, abs=1e-12)
    assert abs(printed - truth) > 0.1


def test_joined_newlines_matter():
    """Without the joined spelling, a word before a line break would look less likely than it is."""
    _, table = scored("bow-joined", "whitespace")
    frame = table.to_pandas()
    assert (frame["after"] < -0.1).any()


def test_unknown_family_names_the_known():
    with pytest.raises(OptionError, match="bow-joined"):
        ExactLM.bigram("bow-join")


# --- random languages --------------------------------------------------------------------------------------------

SHAPES = {
    "bow": (r" ?\w+|[.,]|\s", "", ""),
    "bow-marked": (r" ?\w+|[.,]|\s", " ", ""),
    "bow-joined": (r" ?\w+|[.,]\n*|\s", "", ""),
    "eow": (r"\w+ ?|[.,] ?|\s", "", " "),
    "eow-unmarked": (r"\w+ ?|[.,] ?|\s", "", ""),
}


@st.composite
def languages(draw):
    lexicon = draw(st.lists(st.text("ab", min_size=1, max_size=3), min_size=2, max_size=4, unique=True))
    marks = draw(st.sampled_from([[], ["."], [".", ","]]))
    chain = {}
    for word in ["", *lexicon, *marks]:
        options = [*lexicon, ""] if word in ("", *marks) else [*lexicon, *marks, ""]
        weights = draw(st.lists(st.integers(1, 9), min_size=len(options), max_size=len(options)))
        chain[word] = {w: x / sum(weights) for w, x in zip(options, weights, strict=True)}
    shape = draw(st.sampled_from(sorted(SHAPES)))
    substrings = sorted({w[i:j] for w in lexicon for i in range(len(w)) for j in range(i + 1, len(w) + 1)})
    forms = [*substrings, *(f" {s}" for s in substrings), *(f"{s} " for s in [*substrings, *marks]), ".\n", ",\n", "\n"]
    pieces = draw(st.lists(st.sampled_from(forms), max_size=10, unique=True))
    newline = draw(st.sampled_from([0.0, 0.3]))
    chunks, prefix, suffix = SHAPES[shape]
    texts = enumerate_texts(chain, 3, newline, frozenset(marks), frozenset(marks))
    return ExactLM(texts, ToyTokenizer(chunks, [*pieces, "a", "b", ".", ",", "\n"], prefix, suffix))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(languages(), st.sampled_from(DEFINITIONS))
def test_random_lexicons_and_vocabularies(model, definition):
    table = Scorer(model).score(list(model.texts), definition, unit="nats")
    true, ends = truths(model, definition)
    assert np.abs(np.exp(-table.to_pandas()["surprisal"]) - true).max() < 1e-12
    assert np.abs(np.exp(-table.texts()["end"]) - ends).max() < 1e-12


# --- languages full of boundaries ----------------------------------------------------------------------------------

# What follows what; each piece brings its own white space.
APOSTROPHES = {
    "": {"Charles": 0.5, "5": 0.3, "'": 0.2},
    "Charles": {"'": 0.4, "'s": 0.3, " mark": 0.2, "": 0.1},
    "5": {"'": 0.5, "'s": 0.2, " mark": 0.3},
    "'": {" mark": 0.4, "mark": 0.2, "s": 0.1, ".": 0.1, "": 0.2},
    "'s": {" mark": 0.7, "": 0.3},
    "s": {" mark": 0.5, "": 0.5},
    " mark": {"'": 0.3, "'s": 0.2, "": 0.5},
    "mark": {"'": 0.6, "": 0.4},
    ".": {"": 1.0},
}
COMBINING = {
    "": {"क": 0.6, "e": 0.4},
    "क": {"ि": 0.4, "त": 0.2, " क": 0.2, "।": 0.1, "": 0.1},
    "ि": {"त": 0.4, " क": 0.2, "।": 0.2, "": 0.2},
    "त": {"ा": 0.5, " क": 0.3, "": 0.2},
    "ा": {"त": 0.4, "।": 0.3, "": 0.3},
    " क": {"ि": 0.5, "त": 0.3, "": 0.2},
    "।": {"": 0.5, " क": 0.5},
    "e": {"\u0301": 0.5, "t": 0.3, "": 0.2},
    "\u0301": {"t": 0.4, "e": 0.3, "।": 0.1, "": 0.2},
    "t": {"": 0.6, "e": 0.4},
}
MARKS = {
    "": {"x": 0.6, "(": 0.2, '"': 0.2},
    "x": {".": 0.3, "]": 0.3, "?": 0.2, " x": 0.1, "": 0.1},
    " x": {".": 0.4, "?": 0.3, "": 0.3},
    ".": {'"': 0.4, ".": 0.2, "x": 0.1, " x": 0.2, "": 0.1},
    '"': {"x": 0.4, " x": 0.3, "": 0.3},
    "]": {"!": 0.5, "=": 0.2, ".": 0.2, "": 0.1},
    "!": {"=": 0.6, "!": 0.2, "": 0.2},
    "=": {"x": 0.7, "": 0.3},
    "?": {")": 0.5, "?": 0.2, " x": 0.2, "": 0.1},
    ")": {" x": 0.5, ".": 0.3, "": 0.2},
    "(": {"x": 0.8, "±": 0.2},
    "±": {"x": 1.0},
}
HYPHENS = {
    "": {"half": 0.6, "away": 0.3, "a": 0.1},
    "half": {"-": 0.5, " a": 0.3, "": 0.2},
    "-": {"way": 0.5, "a": 0.2, "-": 0.2, "": 0.1},
    "way": {" a": 0.4, "-": 0.3, "": 0.3},
    "away": {"-": 0.4, " half": 0.4, "": 0.2},
    "a": {" half": 0.5, "way": 0.3, "": 0.2},
    " a": {"way": 0.5, "-": 0.3, "": 0.2},
    " half": {"-": 0.6, "": 0.4},
}
TWO_WORDS = {
    "": {"one": 0.4, " one": 0.3, "\n": 0.1, "of": 0.2},
    "one": {" of": 0.6, " the": 0.2, "": 0.2},
    " one": {" of": 0.7, "": 0.3},
    "\n": {"one": 0.5, " one": 0.2, "\n": 0.1, "": 0.2},
    "of": {" the": 0.6, " one": 0.2, "": 0.2},
    " of": {" the": 0.7, " one": 0.2, "\n": 0.1},
    " the": {" one": 0.4, "\n": 0.3, "": 0.3},
}
UNSPACED = {
    "": {"我": 0.6, "你": 0.4},
    "我": {"喜": 0.6, "。": 0.2, "": 0.2},
    "你": {"喜": 0.3, "我": 0.3, "欢": 0.4},
    "喜": {"欢": 0.6, "我": 0.2, "": 0.2},
    "欢": {"你": 0.4, "。": 0.4, "": 0.2},
    "。": {"你": 0.5, "": 0.5},
}
WORDS = r" ?[\w\p{M}]+|'s|\s|[^\w\s]+"
LETTERS_ONLY = r"'s| ?\p{L}+| ?\d+|\s|[^\p{L}\d\s]+\p{L}*"
ENDINGS = r"[\w\p{M}]+ ?|[^\w\s]+ ?|\s"
ANYTHING = r"(?s).+"
LANGUAGES = {
    "apostrophes": (APOSTROPHES, [WORDS, ENDINGS], ["Charles", "'s", "' ", "mark", " mark", "mark ", "s "]),
    "apostrophes glued": (APOSTROPHES, [LETTERS_ONLY, ANYTHING], ["Charles", "'s", "'m", "s'", " mark", "mark'", "5'"]),
    "combining marks": (COMBINING, [WORDS, LETTERS_ONLY], ["कि", "ित", " क", "तात", "ात", "\u0301t", "e\u0301", "त।"]),
    "combining marks glued": (COMBINING, [ANYTHING, ENDINGS], ["ित", "ि ", "ि।", "\u0301e", "क ", "े", "त क"]),
    "marks after marks": (
        MARKS,
        [WORDS, ANYTHING],
        ['."', ".", "?)", "]!=", "!=", "=x", '" x', "..", "(±", "±x", " x"],
    ),
    "marks after marks, ends marked": (MARKS, [ENDINGS], ['." ', '."', "?) ", "]!=", "x ", "]! ", "=x", ". ", "?"]),
    "hyphens": (HYPHENS, [ENDINGS, ANYTHING], ["half", "way ", "way", "away ", "away", "-way ", "- ", "half-", "a "]),
    "hyphens, words marked": (HYPHENS, [WORDS, LETTERS_ONLY], ["half", " half", "-way", "way", " a", "away", " away"]),
    "tokens of two words": (
        TWO_WORDS,
        [ANYTHING],
        ["one", " of", " of the", "of the one", " one", "\n\n", "the\n", "e o"],
    ),
    "white space in front": (TWO_WORDS, [WORDS, ENDINGS], [" one", "one ", "one", " of", "the ", "of ", "\n", "\n\n"]),
    "unspaced words": (UNSPACED, [WORDS, ANYTHING], ["我喜", "喜欢", "欢你", "你喜欢", "。你", "欢。", "我"]),
}
"""For each language: what follows what, patterns that cut texts into chunks, and the pieces of the vocabulary."""

HARD_CASES = [
    (name, number, affix)
    for name, (_, chunks, _) in LANGUAGES.items()
    for number in range(len(chunks))
    for affix in (("", ""), (" ", ""), ("", " "))
    if not (affix[1] and chunks[number] is not ENDINGS)
]
"""Every language under each way to cut texts, without and with a space added in front, or behind."""


@cache
def hard(name, number, affix, longest=5):
    """Return one of the languages under one of its tokenizers."""
    chain, chunks, lexicon = LANGUAGES[name]
    texts = enumerate_texts(chain, longest, attached=frozenset(chain))
    characters = sorted({character for text in texts for character in text})
    return ExactLM(texts, ToyTokenizer(chunks[number], [*lexicon, *characters], *affix))


def assert_words_are_the_truth(model, definition):
    texts = [text for text in model.texts if text.strip()]
    table = Scorer(model).score(texts, definition, unit="nats")
    true, ends = truths(model, definition, texts)
    found = np.exp(-table.to_pandas()["surprisal"].to_numpy())
    frame = table.to_pandas()
    wrong = np.flatnonzero(~(np.abs(found - true) < 1e-12))
    shown = [(texts[frame["text_id"][i]], frame["word"][i], found[i], true[i]) for i in wrong[:5]]
    assert not shown, f"{len(wrong)} of {len(true)} words, for example {shown}"
    assert np.abs(np.exp(-table.texts()["end"]) - ends).max() < 1e-12


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize(("name", "number", "affix"), HARD_CASES)
def test_every_word_of_a_language_full_of_boundaries(name, number, affix, definition):
    assert_words_are_the_truth(hard(name, number, affix, 4), definition)


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize(("name", "number", "affix"), HARD_CASES)
def test_brute_force_agrees_with_the_truth(name, number, affix, definition):
    """The judge of the other models is judged here; no word of ours is involved."""
    assert_brute_force_is_the_truth(hard(name, number, affix, 4), definition, texts=3)


def assert_brute_force_is_the_truth(model, definition, texts):
    reference, rule = brute_force_on(model), words.define(definition)
    for text in sorted(filter(str.strip, model.texts), key=len)[-texts:]:
        found = [np.exp(-value.surprisal.low) for value in reference.words(text, rule)]
        assert found == pytest.approx([p for _, p in model.truth(text, definition)], abs=1e-12)
        places = [(k, k + 1) for k in range(len(text))]
        found = [np.exp(-value.surprisal.low) for value in reference.spans(text, places)]
        assert found == pytest.approx([p for _, p in model.span_truth(text, places)], abs=1e-12)


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize(("name", "number", "affix"), HARD_CASES)
def test_the_words_after_every_context_add_up_to_one(name, number, affix, definition):
    model = hard(name, number, affix, 4)
    contexts = {text[: word.end] for text in model.texts for word in words.define(definition).segment(text)}
    check_sums(model, definition, ["", *sorted(contexts)[:12]])


def check_sums(model, definition, contexts):
    """Each follower is scored as a word (a character, without a definition); with the end they add up to one."""
    spaced = [" "] if any(text[:1].isspace() for text in model.texts) else []
    for context in [*contexts, *spaced]:
        followers = model.followers(context, definition)
        total = 0.0
        for follower, true in followers.items():
            is_empty_text = follower == "<end>" and not context.strip()
            # There is nothing to score in a text without a word.
            total += (
                true if is_empty_text else _scored_follower(model, definition, context.strip() and context, follower)
            )
        assert total == pytest.approx(1.0, abs=1e-12), (context, followers)


def _scored_follower(model, definition, context, follower):
    """Return the probability of what follows a context, by our estimator; the end of an empty text by the truth."""
    scorer, reached = Scorer(model), context + follower
    if follower == "<end>":
        last = [text for text in model.texts if text.startswith(context) and _is_last(definition, text, context)]
        tables = [scorer.score(text, **_units(definition, text, len(context)), unit="nats") for text in last]
        return sum(float(np.exp(-table.texts()["end"][0])) for table in tables)
    text = next(t for t in model.texts if t.startswith(reached) and _reached(definition, t, context, reached))
    units = _units(definition, text, len(context), len(reached))
    frame = scorer.score(text, **units, unit="nats").to_pandas()
    return float(np.exp(-frame["surprisal"][frame["end"] == len(reached)].iloc[0]))


def _is_last(definition, text, context):
    """Return True if a text has no word after a context; white space may follow it."""
    if definition is None:
        return text == context
    ends = [word.end for word in words.define(definition).segment(text)]
    return bool(ends) and ends[-1] == len(context)


def _reached(definition, text, context, reached):
    """Return True if a word of a text ends where the context does, and one where the next word does."""
    ends = {0} | {word.end for word in words.define(definition).segment(text)} if definition else None
    return ends is None or {len(context), len(reached)} <= ends


def _units(definition, text, *places):
    """Return how a text is to be cut: by a definition, or into spans that end at these places."""
    if definition:
        return {"words": definition}
    ends = sorted({place for place in places if place})
    return {"words": list(zip([0, *ends[:-1]], ends, strict=True)), "boundary": "none"}


# --- spans ----------------------------------------------------------------------------------------------------------


def all_cuts(text, sizes=(1, 2, 3)):
    """Return a text cut into spans of one character each, of two, and of three."""
    for size in sizes:
        yield [(start, min(start + size, len(text))) for start in range(0, len(text), size)]


@pytest.mark.parametrize(("name", "number", "affix"), HARD_CASES)
def test_every_span_of_a_language_full_of_boundaries(name, number, affix):
    model = hard(name, number, affix, 4)
    assert_spans_are_the_truth(model, [text for text in model.texts if text.strip()][::7])


def assert_spans_are_the_truth(model, texts):
    cuts = [(text, spans) for text in texts for spans in all_cuts(text)]
    table = Scorer(model).score(
        [text for text, _ in cuts], words=[spans for _, spans in cuts], boundary="none", unit="nats"
    )
    true = [p for text, spans in cuts for _, p in model.span_truth(text, spans)]
    assert np.abs(np.exp(-table.to_pandas()["surprisal"]) - true).max() < 1e-12


@pytest.mark.parametrize(("name", "number", "affix"), HARD_CASES)
def test_the_characters_after_every_context_add_up_to_one(name, number, affix):
    model = hard(name, number, affix, 3)
    contexts = {text[:k] for text in model.texts for k in range(1, len(text)) if text[:k].strip()}
    check_sums(model, None, ["", *sorted(contexts)[::5][:12]])


@pytest.mark.parametrize("family", FAMILIES)
def test_spans_of_the_worked_example(family):
    model = ExactLM.bigram(family, longest=4)
    assert_spans_are_the_truth(model, [text for text in model.texts if text][:20])


def test_characters_are_spans_of_one():
    model = hard("unspaced words", 1, ("", ""), 4)
    for text in list(model.texts)[:10]:
        frame = Scorer(model).score(text, words="characters", boundary="none", unit="nats").to_pandas()
        assert frame["word"].tolist() == list(text)
        true = [p for _, p in model.span_truth(text, [(k, k + 1) for k in range(len(text))])]
        assert np.abs(np.exp(-frame["surprisal"]) - true).max() < 1e-12


def test_one_list_of_spans_for_one_text():
    model = hard("tokens of two words", 0, ("", ""), 4)
    text, spans = "one of the", [(0, 2), (2, 4), (4, 10)]
    found = Scorer(model).score(text, words=spans, boundary="none", unit="nats").to_pandas()
    listed = Scorer(model).score([text], words=[spans], boundary="none", unit="nats").to_pandas()
    assert found["surprisal"].tolist() == listed["surprisal"].tolist()
    assert np.exp(-found["surprisal"]).tolist() == pytest.approx(
        [p for _, p in model.span_truth(text, spans)], abs=1e-12
    )


# --- patterns -------------------------------------------------------------------------------------------------------

PATTERNS = [r"\w+[.?]?", r"m\w+|\S+", r"mark(?:er)?|\w+", r"\w+$", r"\w+\s\w+", r"\w{1,3}", r"(?r)\w+", r"\w+|[^\w\s]"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("family", ["bow", "eow-unmarked"])
def test_a_pattern_is_right_or_refused(family, pattern):
    """A value is the truth, or it is missing or marked by a note, or the pattern is refused with a reason."""
    model = ExactLM.bigram(family, longest=4)
    try:
        texts = [text for text in model.texts if words.define(f"regex:{pattern}").segment(text)][:40]
        frame = Scorer(model).score(texts, f"regex:{pattern}", unit="nats").to_pandas()
    except OptionError:
        return
    rule = words.define(f"regex:{pattern}")
    true = [p for text in texts for p in pattern_truth(model, rule, text)]
    certain = (frame["note"] == "") & frame["surprisal"].notna()
    assert np.abs(np.exp(-frame["surprisal"]) - true)[certain].max() < 1e-12
    assert (certain | frame["note"].ne("")).all()


def pattern_truth(model, rule, text):
    """Return the probability of each word given that the words before it are these, at these places."""
    found = [(word.start, word.end) for word in rule.segment(text)]
    before = model.start_probability(text)
    for count, (_, end) in enumerate(found, start=1):
        same = [
            p for t, p in model.texts.items() if t.startswith(text[:end]) and _spans(rule, t)[:count] == found[:count]
        ]
        yield sum(same) / before
        before = sum(same)


def _spans(rule, text):
    return [(word.start, word.end) for word in rule.segment(text)]


# --- random languages full of boundaries ----------------------------------------------------------------------------


@st.composite
def hard_languages(draw):
    """Any texts over a few characters, with any weights, under any vocabulary of their substrings."""
    alphabet = draw(st.sampled_from(["ab' ", "a\u0301. ", 'a."! ', "a-b\n ", "ab]!= ", "喜a。 ", "a's'. "]))
    texts = draw(st.lists(st.text(alphabet, max_size=5), min_size=3, max_size=14, unique=True))
    weights = draw(st.lists(st.integers(1, 9), min_size=len(texts), max_size=len(texts)))
    substrings = sorted({t[i:j] for t in texts for i in range(len(t)) for j in range(i + 1, min(i + 4, len(t)) + 1)})
    pieces = draw(st.lists(st.sampled_from(substrings), max_size=12, unique=True)) if substrings else []
    chunks = draw(st.sampled_from([WORDS, LETTERS_ONLY, ENDINGS, ANYTHING]))
    prefix, suffix = draw(st.sampled_from([("", ""), (" ", ""), ("", " ")]))
    language = {text: weight / sum(weights) for text, weight in zip(texts, weights, strict=True)}
    note(f"{language}, pieces {pieces}, chunks {chunks}, space in front {prefix!r}, behind {suffix!r}")
    return ExactLM(language, ToyTokenizer(chunks, [*pieces, *alphabet], prefix, suffix))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(hard_languages(), st.sampled_from(DEFINITIONS))
def test_random_languages_full_of_boundaries(model, definition):
    assume(any(text.strip() for text in model.texts) and _is_injective(model))
    assert_words_are_the_truth(model, definition)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(hard_languages())
def test_random_spans(model):
    texts = [text for text in model.texts if text.strip()]
    assume(texts and _is_injective(model))
    assert_spans_are_the_truth(model, texts)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(hard_languages(), st.sampled_from(DEFINITIONS))
def test_brute_force_on_random_languages(model, definition):
    assume(any(text.strip() for text in model.texts) and _is_injective(model))
    assert_brute_force_is_the_truth(model, definition, texts=4)


def _is_injective(model):
    """Return True if no two texts have the same tokens, and every text's tokens are all of it."""
    tokens = model.tokenizer.encode(list(model.texts))
    return len({tuple(t.ids.tolist()) for t in tokens}) == len(tokens) and all(t.exact for t in tokens)


def test_the_example_chain_is_a_distribution():
    for word, following in CHAIN.items():
        assert sum(following.values()) == pytest.approx(1.0), word


def test_a_spelling_that_only_a_line_break_brings_out():
    """Ends are marked everywhere but before a line break, and no token joins the two."""
    chain = {"": {"a": 1.0}, "a": {".": 0.5, "a": 0.3, "": 0.2}, ".": {"a": 0.6, "": 0.4}}
    chunks, prefix, suffix = SHAPES["eow"]
    texts = enumerate_texts(chain, 3, 0.3, frozenset("."), frozenset("."))
    model = ExactLM(texts, ToyTokenizer(chunks, ["a", ". ", ".", "\n"], prefix, suffix))
    table = Scorer(model).score(list(model.texts), "whitespace", unit="nats")
    true, _ = truths(model, "whitespace")
    assert np.abs(np.exp(-table.to_pandas()["surprisal"]) - true).max() < 1e-12
