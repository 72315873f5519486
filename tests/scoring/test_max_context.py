"""A limit on the context: every word as it would be after its truncated context alone."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wordprob
from random_lm import RandomLM
from wordprob.cli import main
from wordprob.core.context_limit import ContextLimit, parse_limit
from wordprob.core.words import define
from wordprob.errors import InputError, OptionError
from wordprob.models.exact import FAMILIES, ExactLM, ToyTokenizer
from wordprob.scoring.limited_context import limited_chunks
from wordprob.scoring.passages import choose_words, passages_of

TEXTS = ["She saw the mark. the marker's mark? She marked the saw", " the mark", "", "the mark saw She"]
LIMITS = ["0words", "1word", "3words", 0, 1, 3]
COLUMNS = ["surprisal", "before", "after"]


@pytest.fixture(params=FAMILIES, scope="module")
def scorer(request):
    """A model in which every text has a probability, with the tokenizer of each family."""
    return wordprob.Scorer(RandomLM(ExactLM.bigram(request.param).tokenizer))


JUDGED = "She saw the mark. the marker saw? She marked the saw"


def truncated(text, starts, word, limit):
    """Return the context of a word that the limit in words leaves over."""
    first = max(0, word - limit.count)
    return text[0 if first == 0 else starts[first] : starts[word]]


@pytest.mark.parametrize("words", ["whitespace", "punctuation", r"regex:\w+|[^\w\s]"])
@pytest.mark.parametrize("limit", ["0words", "2words"])
def test_words_are_scored_after_their_truncated_context(scorer, words, limit):
    """Each word by itself, as a continuation of the words that the limit leaves over, is the judge."""
    frame = scorer.score(JUDGED, words, max_context=limit, unit="nats").to_pandas()
    starts = frame["start"].tolist()
    for n, row in enumerate(frame.itertuples()):
        context = truncated(JUDGED, starts, n, parse_limit(limit))
        alone = scorer.score_continuations(context, [row.word], words, unit="nats", separator="").to_pandas()
        assert row.surprisal == pytest.approx(alone["surprisal"][0], abs=1e-12), (n, row.word)
        assert row.before == pytest.approx(alone["before"][0], abs=1e-12)
        assert row.context_tokens == alone["context_tokens"][0]


def longest_excerpts(tokenizer, definition, text, limit):
    """Return where the longest excerpt for each word begins that has so many tokens before it: every start is tried."""
    words = define(definition).segment(text)
    begins = []
    for n, word in enumerate(words):
        for begin in sorted({0, *(each.start for each in words[: n + 1])}):
            (tokens,) = tokenizer.encode([text[begin:]])
            before, own = (len(text[begin:place].encode()) for place in (words[n - 1].end if n else 0, word.start))
            # A token with a part of the word is one of its own, not one before it.
            spans = zip(tokens.starts, tokens.ends, strict=True)
            n_before = sum(start < before and end <= own for start, end in spans)
            if begin == word.start or n_before <= limit:
                begins.append(begin)
                break
    return begins


def excerpts_of(tokenizer, definition, text, limit):
    """Return where the excerpt for each word begins."""
    choice = choose_words(definition, "rule", passages_of(text))
    begins = []
    for chunk in limited_chunks(choice, ContextLimit(limit, "tokens"), tokenizer, 10**6):
        for passage in chunk.passages:
            start, end = passage.context_length - passage.origin, passage.scored_end - passage.origin
            scored = [word for word in define(definition).segment(text) if start <= word.start < end]
            begins += [-passage.origin] * len(scored)
    return begins


LIMITED_TEXTS = [
    "He left.\n\nShe ran",
    "It was in 2024 that 1,234 blickets  ran.",
    "  She saw\tthe otorhinolaryngologist's naïve (mis)spelling",
    "...no?! Bulwarks",
]


@pytest.mark.parametrize(
    "name", ["small-gpt2", "small-llama2", "small-llama3", "small-qwen2", "small-gemma", "small-eow"]
)
@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_excerpts_are_the_longest_that_fit(tokenizer_of, name, definition):
    tokenizer = tokenizer_of(name)
    for text in LIMITED_TEXTS:
        for limit in range(25):
            expected = longest_excerpts(tokenizer, definition, text, limit)
            assert excerpts_of(tokenizer, definition, text, limit) == expected, (text, limit)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.text("ab .\n", min_size=1, max_size=4), max_size=10, unique=True),
    st.text("ab .\n", min_size=1, max_size=16),
    st.sampled_from(["whitespace", "punctuation", "characters"]),
    st.integers(0, 8),
)
def test_excerpts_of_random_tokenizers_are_the_longest_that_fit(pieces, text, definition, limit):
    tokenizer = ToyTokenizer(r" ?[ab]+|[.]+|\s+", (*pieces, *"ab .\n"))
    expected = longest_excerpts(tokenizer, definition, text, limit)
    assert excerpts_of(tokenizer, definition, text, limit) == expected


def test_tokens_that_are_read_for_limits_grow_with_the_text():
    """A text that is twice as long is read twice as much."""

    class Counted(ToyTokenizer):
        n_read = 0

        def encode(self, texts):
            self.n_read += sum(map(len, texts))
            return super().encode(texts)

    read = []
    for n in (200, 400):
        tokenizer = Counted(r" ?\w+", ["a", " b", "ab"])
        excerpts_of(tokenizer, "whitespace", "ab ba aab " * n, 5)
        read.append(tokenizer.n_read)
    assert read[1] < 2.1 * read[0]


@pytest.mark.parametrize("limit", [0, 1, 2, 4])
def test_tokens_are_counted_and_contexts_begin_with_a_word(scorer, limit):
    frame = scorer.score(JUDGED, max_context=limit, unit="nats").to_pandas()
    assert frame["context_tokens"].max() <= limit
    for n, row in enumerate(frame.itertuples()):
        begins = [0, *frame["start"][1 : n + 1]]
        same = [
            scorer.score_continuations(JUDGED[begin : row.start], [row.word], unit="nats", separator="").to_pandas()
            for begin in begins
        ]
        longest = next(alone for alone in same if alone["context_tokens"][0] <= limit)
        assert row.surprisal == pytest.approx(longest["surprisal"][0], abs=1e-12), n


def test_a_limit_that_no_text_reaches_changes_nothing(scorer):
    free = scorer.score(TEXTS, extras=["token_entropy", "token_rank"])
    for limit in (1000, "1000words"):
        limited = scorer.score(TEXTS, extras=["token_entropy", "token_rank"], max_context=limit)
        assert limited.to_pandas().equals(free.to_pandas())
        assert limited.texts().equals(free.texts())


@pytest.mark.parametrize("limit", LIMITS)
def test_texts_add_up(scorer, limit):
    """The summary of a text is that of its words, and its end comes after a context that is as short."""
    table = scorer.score(TEXTS, "punctuation", max_context=limit, unit="nats")
    frame, texts = table.to_pandas(), table.texts()
    assert texts["n_words"].tolist() == [14, 2, 0, 4]
    sums = frame.groupby("text_id")["surprisal"].sum()
    assert np.allclose(-texts["log_prob_words"], sums.reindex(range(4)), atol=1e-12, equal_nan=True)
    assert texts["conservation"].abs().max() < 1e-12
    assert frame["word_id"].tolist() == [*range(14), *range(2), *range(4)]
    spans = zip(frame["text_id"], frame["start"], frame["end"], strict=True)
    assert [TEXTS[text][start:end] for text, start, end in spans] == frame["word"].tolist()


@pytest.mark.parametrize("readers", [0, 2])
def test_chunks_and_workers_change_nothing(scorer, readers, monkeypatch):
    if readers and scorer.model.tokenizer.vocabulary.family != "bow":
        pytest.skip("one family is enough for processes")
    at_once = scorer.score(TEXTS, max_context="2words")
    monkeypatch.setattr("wordprob.scoring.scorer.CHARACTERS_PER_BATCH_TOKEN", 0)  # every excerpt is a chunk
    in_chunks = scorer.score(TEXTS, max_context="2words", readers=readers)
    assert in_chunks.to_pandas().equals(at_once.to_pandas())
    assert np.allclose(in_chunks.texts().drop(columns="note"), at_once.texts().drop(columns="note"), equal_nan=True)


@pytest.mark.parametrize("boundary", ["rule", "none", "punctuation"])
def test_given_words(scorer, boundary):
    """Words that end by no rule end by none in an excerpt too, and what lies between them stays context."""
    text, words = "She saw the marker. She saw the mark", [(0, 3), (12, 16), (16, 18), (18, 19), (28, 31), (32, 36)]
    free = scorer.score(text, words, boundary=boundary, unit="nats")
    unreached = scorer.score(text, words, boundary=boundary, unit="nats", max_context="1000words")
    assert unreached.to_pandas().equals(free.to_pandas())
    limited = scorer.score(text, words, boundary=boundary, unit="nats", max_context="1words")
    frame = limited.to_pandas()
    assert frame["word"].tolist() == ["She", "mark", "er", ".", "the", "mark"]
    assert frame["note"].tolist() == free.to_pandas()["note"].tolist()
    rule = "punctuation" if boundary == "rule" else boundary  # the coarsest rule under which the words end so
    alone = scorer.score("the mark", ["the", "mark"], boundary=rule, unit="nats").to_pandas()
    assert frame["surprisal"].iloc[-1] == pytest.approx(alone["surprisal"][1], abs=1e-12)
    assert np.isfinite(limited.texts()["log_prob"]).all(), "what lies between the words counts in the text"


def test_continuations(scorer):
    context = "the mark saw She"
    free = scorer.score_continuations("saw She", ["saw", "the mark", "saw the mark"], unit="nats").to_pandas()
    limited = scorer.score_continuations(
        context, ["saw", "the mark", "saw the mark"], unit="nats", max_context="2words"
    )
    frame = limited.to_pandas()
    assert frame[["word", "start", "end"]].equals(free[["word", "start", "end"]])
    first = frame["word_id"] == 0
    assert np.allclose(frame["surprisal"][first], free["surprisal"][first], atol=1e-12)
    third = scorer.score_continuations("saw the", ["mark"], unit="nats").to_pandas()
    assert frame["surprisal"].iloc[-1] == pytest.approx(third["surprisal"][0], abs=1e-12)
    assert (limited.metadata["max_context"], limited.metadata["context"]) == ("2 words", context)
    with pytest.raises(InputError, match="goes on with the context's last word"):
        scorer.score_continuations(context, ["saw"], separator="", max_context=3)


def test_values_of_a_real_model(load_model):
    scorer = load_model("small-bow")
    text = "It was in the evening that she came home, and nobody said a word about the letter."
    frame = scorer.score(text, max_context="4words").to_pandas()
    for n in (0, 5, 12, len(frame) - 1):
        context = truncated(text, frame["start"], n, ContextLimit(4, "words"))
        alone = scorer.score_continuations(context, [frame["word"][n]]).to_pandas()
        assert frame["surprisal"][n] == pytest.approx(alone["surprisal"][0], abs=1e-3)
    assert frame["context_tokens"].max() < 20


@pytest.mark.parametrize("value", ["ten", "-1", "10 sentences", "1.5", "", True])
def test_a_limit_must_be_a_number_of_tokens_or_words(value):
    with pytest.raises(OptionError, match=r"`max_context` is .*50, or a number of words, such as 10words"):
        wordprob.load("exact:bow").score("the mark", max_context=value)


def test_from_the_command_line(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["wordprob", *arguments, "--model", "exact:bow"])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code, *capsys.readouterr()

    code, out, _ = run("score", "--text", "She saw the mark", "--max-context", "1words")
    assert code == 0
    assert [row.split("\t")[6] for row in out.splitlines()[1:]] == ["0", "1", "1", "1"]
    _, limited, _ = run("candidates", "--context", "She saw the", "--candidate", "mark", "--max-context", "1words")
    _, alone, _ = run("candidates", "--context", "the", "--candidate", "mark")
    _, free, _ = run("candidates", "--context", "She saw the", "--candidate", "mark")
    assert limited == alone != free
    code, _, err = run("score", "--text", "She saw", "--max-context", "few")
    assert code == 2
    assert "--max-context is 'few'; give a number of tokens" in err
