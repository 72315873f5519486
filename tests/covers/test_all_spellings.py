"""Every spelling of a word: the search against sums over all token sequences, and against a dynamic programme."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import wordprob
from all_sequences import AllSequences
from brute_force import contexts_over
from flat_lm import FlatLM, with_start
from random_lm import RandomLM
from tiny_models import build
from wordprob import runs
from wordprob.cli import cli
from wordprob.core.text import Document
from wordprob.core.windows import windows
from wordprob.core.words import define
from wordprob.covers.search import Prefixes, Search, Searched
from wordprob.errors import InputError, OptionError, UnsupportedError
from wordprob.models.exact import START_ID, ExactLM, LeakyLM, ToyTokenizer
from wordprob.options import ScoringOptions
from wordprob.scoring.contexts import TextContexts
from wordprob.scoring.passages import NO_IDS, Chunk, Passage
from wordprob.scoring.requests import prefix_ids

EXHAUSTED = {"spellings": "all", "tolerance": 1e-13, "max_open": 100_000, "unit": "nats"}
LEAKY_TEXTS = [
    "the mark",
    "the marker's mark.",
    "marked... the era",
    " ma ther",
    "the  mark",
    "rk",
    "he'sa mark. .ark",
    "markmarkmark ed",
]
TOLERANCES_BITS = (math.inf, 3.0, 0.3, 0.01, 1e-4)


@pytest.fixture(scope="module")
def leaky():
    return wordprob.Scorer(LeakyLM())


def columns(table):
    frame = table.to_pandas()
    return frame["surprisal_all_low"].to_numpy(), frame["surprisal_all"].to_numpy(), frame["surprisal_all_high"]


# --- the leaky model --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
@pytest.mark.parametrize("text", LEAKY_TEXTS)
def test_an_exhausted_search_is_the_truth(leaky, text, definition):
    table = leaky.score(text, definition, **EXHAUSTED).to_pandas()
    truth = leaky.model.truth(text, definition)
    assert table["word"].tolist() == [word for word, _ in truth]
    np.testing.assert_allclose(np.exp(-table["surprisal_all"]), [p for _, p in truth], rtol=1e-12, atol=0)
    np.testing.assert_allclose(table["surprisal_all_low"], table["surprisal_all"], atol=1e-11)


@pytest.mark.parametrize("tolerance", TOLERANCES_BITS)
@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_the_truth_is_inside_every_interval(leaky, definition, tolerance):
    for text in LEAKY_TEXTS:
        table = leaky.score(text, definition, spellings="all", tolerance=tolerance, max_open=5000)
        low, found, high = columns(table)
        truth = [-math.log2(p) for _, p in leaky.model.truth(text, definition)]
        assert (low - 1e-12 <= truth).all()
        assert (truth <= found + 1e-12).all()
        assert (found == high).all()
        assert (found - low <= tolerance + 1e-12).all()


def test_all_spellings_are_never_less_likely_than_the_tokenizers_own(leaky):
    for text in LEAKY_TEXTS:
        table = leaky.score(text, "punctuation", spellings="all", tolerance=math.inf).to_pandas()
        assert (table["surprisal_all"] <= table["surprisal"] + 1e-12).all()


OWN_TOLERANCE_BITS = 1e-3
"""Characters that are cut off count in the tokenizer's own spellings before it is certain what they become."""


@pytest.mark.parametrize("tolerance", [math.inf, 1.0])
def test_no_tokenizers_own_spelling_is_left_out(load_model, tolerance):
    scorer = load_model("small-eow")
    text = "She saw the little marked. Bulwarks and"
    table = scorer.score(text, spellings="all", tolerance=tolerance).to_pandas()
    assert (table["surprisal_all"] <= table["surprisal"] + OWN_TOLERANCE_BITS).all()
    assert (table["surprisal_all_low"] <= table["surprisal_all"]).all()
    found = scorer.spellings("She saw the little", "marked.", tolerance=tolerance)
    row = scorer.score("She saw the little marked.", spellings="all", tolerance=tolerance).to_pandas().iloc[4]
    assert found.surprisal_all == pytest.approx(row["surprisal_all"], abs=1e-6)
    assert found.surprisal_all_low == pytest.approx(row["surprisal_all_low"], abs=1e-6)
    assert found.surprisal_all <= found.surprisal + OWN_TOLERANCE_BITS


def test_cut_off_characters_in_the_tokenizers_own_spellings_are_not_certain(tokenizer_of):
    """What is counted of them may turn out to end no word, so that it is no part of the certain mass."""
    scorer = wordprob.Scorer(FlatLM(tokenizer_of("small-gpt2")))
    reference = AllSequences(scorer.model.tokenizer, probabilities(scorer.model), prune=1e-7)
    for text in ("naïve", "It's a dax."):
        table = scorer.score(text, spellings="all", tolerance=math.inf).to_pandas()
        expected = reference.all_words(text, define("whitespace").segment(text), define("whitespace"))
        for row, value in zip(table.itertuples(), expected, strict=True):
            assert row.surprisal_all / math.log2(math.e) >= value.surprisal.low - CUT_OFF_TOLERANCE_NATS
            assert row.surprisal_all <= row.surprisal + OWN_TOLERANCE_BITS


@pytest.mark.parametrize("context", ["the mark", "the ma", "mark.", "he"])
def test_the_next_characters_and_the_end_add_up(leaky, context):
    alphabet = sorted(set("".join(piece.decode() for piece in leaky.model.tokenizer.vocabulary.token_bytes)))
    texts = [context + character for character in alphabet]
    spans = [[(0, len(context)), (len(context), len(context) + 1)] for _ in texts]
    table = leaky.score(texts, spans, boundary="none", **EXHAUSTED).to_pandas()
    after = table[table["word_id"] == 1]
    end = leaky.model.distribution(leaky.model.tokenizer.ids(context)[-1])[1] * np.exp(after["before"].iloc[0])
    assert math.fsum(np.exp(-after["surprisal_all"])) + end == pytest.approx(1.0, abs=1e-12)


class ShortWords(LeakyLM):
    """Inside a word, each token comes later in the vocabulary than the one before: words are of finitely many kinds."""

    def __init__(self, tokenizer, seed):
        super().__init__(tokenizer, seed)
        pieces = self.tokenizer.vocabulary.token_bytes
        for last in range(2, self.vocab_size):
            for token in range(2, last + 1):
                if not pieces[last].endswith(b" ") and not pieces[token].startswith(b" "):
                    self._logits[last, token] = -np.inf
        # White space comes one at a time, and not before the end of a text.
        spaces = [token for token, piece in enumerate(pieces) if piece.endswith(b" ")]
        for last in spaces:
            self._logits[last, 1] = -np.inf
            for token in range(2, self.vocab_size):
                if pieces[token].startswith(b" "):
                    self._logits[last, token] = -np.inf

    def next_words(self, last):
        """Return everything that can come after a token: a space and a word."""
        found = set()

        def grow(text, token):
            for following, piece in self._pieces():
                longer = text + piece
                if self.distribution(token)[following] == 0 or not longer.startswith(" "):
                    continue  # it cannot follow, or would go on with the word before
                word_end = longer.find(" ", 1)
                if word_end > 0:
                    found.add(longer[:word_end])
                else:
                    found.update({longer} - {" "})
                    grow(longer, following)

        grow("", last)
        return sorted(found)


@pytest.mark.parametrize("seed", range(4))
def test_the_next_words_and_the_end_add_up(seed):
    tokenizer = ToyTokenizer(r" ?[\w.]+|\s", ("a", "ab", " a", " ab", "b", "ba ", "k"))
    scorer = wordprob.Scorer(ShortWords(tokenizer, seed))
    for context in ("a", "a b", "ab"):
        last = tokenizer.ids(context)[-1]
        following = scorer.model.next_words(last)
        table = scorer.score([context + word for word in following], **EXHAUSTED).to_pandas()
        values = table[table["word_id"] == len(context.split())]["surprisal_all"]
        assert len(values) == len(following) > 10
        end = scorer.model.distribution(last)[1] / scorer.model.boundary_mass(context, last, "whitespace", "")
        assert math.fsum(np.exp(-values)) + end == pytest.approx(1.0, abs=1e-12)


# --- against a sum over all token sequences ---------------------------------------------------------------------------

CONTEXTS = contexts_over("abc .")
PIECES = st.lists(st.text("abc .", min_size=1, max_size=4), min_size=1, max_size=12, unique=True)
DEFINITIONS = ("whitespace", "punctuation", "characters")


@settings(deadline=None, max_examples=60)
@given(PIECES, st.text("abc .", min_size=1, max_size=9), st.integers(0, 1000), st.sampled_from(DEFINITIONS))
def test_random_languages(pieces, text, seed, definition):
    tokenizer = ToyTokenizer(r" ?[abc]+|[.]+ ?|\s", (*pieces, *"abc. "))
    scorer = wordprob.Scorer(LeakyLM(tokenizer, seed))
    reference = AllSequences(tokenizer, lambda ids: scorer.model.distribution(ids[-1]), prune=0, contexts=CONTEXTS)
    compare(scorer, reference, text, definition)


@settings(deadline=None, max_examples=60)
@given(
    PIECES,
    st.text("abc .", min_size=1, max_size=9),
    st.integers(0, 1000),
    st.sampled_from(DEFINITIONS),
    st.sampled_from(TOLERANCES_BITS),
    st.integers(1, 8),
)
def test_random_languages_before_the_search_is_exhausted(pieces, text, seed, definition, tolerance, max_open):
    tokenizer = ToyTokenizer(r" ?[abc]+|[.]+ ?|\s", (*pieces, *"abc. "))
    scorer = wordprob.Scorer(LeakyLM(tokenizer, seed))
    check_bounds(scorer, text, definition, tolerance, max_open)


@pytest.mark.parametrize("max_open", [1, 4])
@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("family", ["bow", "bow-marked", "bow-joined", "eow", "eow-unmarked"])
def test_families_of_tokenizers_before_the_search_is_exhausted(family, definition, max_open):
    scorer = wordprob.Scorer(LeakyLM(ExactLM.bigram(family, longest=1).tokenizer))
    for text in ("She saw the mark.", "the marker's?", "mark? She", "saw"):
        for tolerance in TOLERANCES_BITS:
            check_bounds(scorer, text, definition, tolerance, max_open)


def check_bounds(scorer, text, definition, tolerance, max_open):
    """The truth is inside the interval, and the tokenizer's own spellings are never more likely than all."""
    exact = scorer.score(text, definition, **EXHAUSTED | {"unit": "bits"}).to_pandas()
    table = scorer.score(text, definition, spellings="all", tolerance=tolerance, max_open=max_open).to_pandas()
    assert (table["surprisal_all_low"] <= exact["surprisal_all"] + 1e-11).all()
    assert (exact["surprisal_all"] <= table["surprisal_all"] + 1e-11).all()
    assert (table["surprisal_all"] <= table["surprisal"] + 1e-11).all()


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("family", ["bow", "bow-marked", "bow-joined", "eow", "eow-unmarked"])
def test_families_of_tokenizers(family, definition):
    tokenizer = ExactLM.bigram(family, longest=1).tokenizer
    scorer = wordprob.Scorer(LeakyLM(tokenizer))
    reference = AllSequences(tokenizer, lambda ids: scorer.model.distribution(ids[-1]), prune=0)
    for text in ("She saw the mark.", "the marker's?", "mark? She", "saw"):
        compare(scorer, reference, text, definition)


TEXTS = ["It's a dax.", '"No?" (he) is...', "naïve — ok", "A cat's\n\nhat"]
CUT_OFF_TOLERANCE_NATS = 1e-4
"""Cut-off characters after the word before are read on only where they have some mass."""


def slow(*cases):
    return [pytest.param(*case, marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize(
    ("name", "definition", "texts"),
    [
        ("small-gpt2", "whitespace", TEXTS[:2]),
        ("small-eow", "punctuation", TEXTS[:2]),
        ("small-llama2", "whitespace", TEXTS[3:]),
        *slow(
            ("small-qwen2", "punctuation", TEXTS),
            ("small-gpt2", "punctuation", TEXTS),
            ("small-llama2", "punctuation", TEXTS),
        ),
        *slow(("small-gpt2", "characters", TEXTS[:1]), ("small-eow", "characters", TEXTS[:1])),
    ],
)
def test_real_tokenizers(tokenizer_of, name, definition, texts):
    model = FlatLM(tokenizer_of(name))
    reference = AllSequences(model.tokenizer, probabilities(model), prune=1e-7)
    for text in texts:
        compare(wordprob.Scorer(model), reference, text, definition, CUT_OFF_TOLERANCE_NATS, search_bits=1e-3)


def probabilities(model):
    """Return p(next id) as a function of ids."""

    def distribution(ids):
        logits = model.logits(list(ids))
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    return distribution


def compare(scorer, reference, text, definition, tolerance=1e-11, search_bits=1e-13):
    table = scorer.score(text, definition, **EXHAUSTED | {"tolerance": search_bits}).to_pandas()
    rule = None if definition == "characters" else define(definition)
    expected = reference.all_words(text, define(definition).segment(text), rule)
    for row, value in zip(table.itertuples(), expected, strict=True):
        assert value.surprisal.low - tolerance <= row.surprisal_all, (text, row.word, value)
        assert row.surprisal_all_low <= value.surprisal.high + tolerance, (text, row.word, value)
        assert row.surprisal_all - row.surprisal_all_low <= search_bits


# --- the model's context is short -------------------------------------------------------------------------------------


class FewPositions(RandomLM):
    """Logits that depend on all that the model sees, which is never more than its positions hold."""

    def __init__(self, pieces, max_tokens):
        super().__init__(ToyTokenizer(r" ?\w+", (*pieces, *"ab ")), max_tokens, memory=100, impossible=[START_ID])

    def open(self, requests, atoms, states=None):
        assert all(len(request.ids) <= self.max_tokens for request in requests)
        return super().open(requests, atoms, states)

    def following(self, ids):
        """Return the bytes of each token that may come next, none for the end of the text, with its probability."""
        weights = np.exp(self.logits(ids))
        pieces = self.tokenizer.vocabulary.token_bytes
        return [(pieces[token], token, p) for token, p in enumerate(weights / weights.sum()) if p]

    def boundary(self, ids, at_start=False):
        """Return the mass of what ends a word; at the start, that of what begins a text with a letter, or ends it."""
        return sum(p for piece, _, p in self.following(ids) if not piece or piece.startswith(b" ") != at_start)

    def mass(self, ids, rest):
        """Return the mass of all token sequences after ids that write the rest of a word and end it."""
        if not rest:
            return self.boundary(ids)
        fitting = [(piece, token, p) for piece, token, p in self.following(ids) if piece and rest.startswith(piece)]
        return sum(p * self.mass([*ids, token], rest[len(piece) :]) for piece, token, p in fitting)

    def truth(self, text):
        """Return the surprisal of each word: both sides after what the model sees where the word begins."""
        tokens = self.tokenizer.ids(text)
        ends = [word.end for word in define("whitespace").segment(text)]
        rows = [0, *(len(self.tokenizer.ids(text[:end])) for end in ends)]
        seen = windows(len(tokens), np.array(rows[1:]), self.max_tokens - 1)
        found = []
        for row, begin, end in zip(rows[:-1], [0, *ends[:-1]], ends, strict=True):
            low = next(window.low for window in seen if window.first <= row <= window.last)
            context = [START_ID, *tokens[low:row]]
            found.append(-np.log(self.mass(context, text[begin:end].encode()) / self.boundary(context, begin == 0)))
        return np.array(found)


SHORT_TEXTS = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=6).map(" ".join)
SHORT_PIECES = st.lists(st.sampled_from(["aa", "ba", "aab", " a", " b", " ab", " ba", "bb"]), max_size=6, unique=True)


@settings(deadline=None, max_examples=100)
@given(SHORT_PIECES, SHORT_TEXTS, st.integers(4, 14), st.sampled_from(TOLERANCES_BITS))
def test_the_truth_is_inside_every_interval_of_a_short_context(pieces, text, max_tokens, tolerance):
    scorer = wordprob.Scorer(FewPositions(pieces, max_tokens))
    table = scorer.score(text, spellings="all", tolerance=tolerance, max_open=5000, unit="nats")
    low, found, _ = columns(table)
    truth = scorer.model.truth(text)
    assert (low - 1e-12 <= truth).all()
    assert (truth <= found + 1e-12).all()
    notes = table.to_pandas()["note"]
    is_narrow = np.isfinite(found) & (found - low <= tolerance * math.log(2) + 1e-12)
    assert (is_narrow == (notes == "")).all()


def test_spellings_that_do_not_fit_stay_in_the_interval_and_the_note_says_so():
    """The text has 8 tokens; its last word can be written in every way at 16 positions, in few at 9."""
    wide, narrow = (wordprob.Scorer(FewPositions([" ba", "aa"], n)) for n in (16, 9))
    text = "aaaa a ba ba baaa"
    assert len(wide.model.tokenizer.ids(text)) == 8
    exact = wide.score(text, **EXHAUSTED).to_pandas().iloc[-1]
    assert exact["surprisal_all"] == pytest.approx(exact["surprisal_all_low"], abs=1e-11)
    assert exact["surprisal_all"] == pytest.approx(wide.model.truth(text)[-1], abs=1e-11)
    cut = narrow.score(text, **EXHAUSTED).to_pandas().iloc[-1]
    assert cut["surprisal_all_low"] < exact["surprisal_all"] - 1e-3
    assert exact["surprisal_all"] < cut["surprisal_all"] - 1e-3
    assert (
        cut["note"]
        == "all spellings: some do not fit into the model's context, so the interval is wider than the tolerance"
    )


# --- front ends -------------------------------------------------------------------------------------------------------

SENTENCES = ["the marker's mark.", "he sa the era"]


class Counted(LeakyLM):
    """Counts the requests that go beyond texts."""

    opened = 0

    def open(self, requests, atoms, states=None):
        self.opened += sum(request.first > 0 for request in requests)
        return super().open(requests, atoms, states)


def test_an_infinite_tolerance_asks_the_model_nothing_further():
    scorer = wordprob.Scorer(Counted())
    table = scorer.score(SENTENCES, spellings="all", tolerance=math.inf, extras=["prefixes_opened"]).to_pandas()
    assert scorer.model.opened == 0
    assert table["prefixes_opened"].eq(0).all()
    assert (table["surprisal_all_low"] <= table["surprisal_all"]).all()
    assert (table["surprisal_all_low"] < table["surprisal_all"]).sum() > 4
    assert table["note"].eq("").all()
    scorer.score(SENTENCES, spellings="all")
    assert scorer.model.opened > 0


def test_a_search_that_is_stopped_says_so(leaky):
    table = leaky.score("markmarkmarkmark", spellings="all", tolerance=1e-6, max_open=3, extras=["prefixes_opened"])
    (row,) = table.to_pandas().itertuples()
    assert row.prefixes_opened == 3
    assert row.note == "all spellings: the interval is wider than the tolerance after 3 prefixes"
    assert row.surprisal_all_low <= -math.log2(leaky.model.truth("markmarkmarkmark", "whitespace")[0][1])


def test_continuations_have_the_values_of_whole_texts(leaky):
    options = {"spellings": "all", "tolerance": 1e-6, "max_open": 5000}
    found = leaky.score_continuations("the", ["mark", "marker ed"], **options).to_pandas()
    whole = leaky.score(["the mark", "the marker ed"], **options).to_pandas()
    whole = whole[whole["word_id"] > 0]
    np.testing.assert_allclose(found["surprisal_all"], whole["surprisal_all"], rtol=1e-12)


def test_a_text_on_a_row_says_why_it_has_no_value(tokenizer_of):
    table = pd.DataFrame({"text": ["", "☃ ☃☃"]})
    scorer = wordprob.Scorer(RandomLM(with_start(tokenizer_of("small-openai-gpt"))))
    scored = wordprob.score_table(table, scorer, text_column="text", spellings="all").to_pandas()
    assert scored["surprisal_all"].isna().all()
    assert "2 of its words: " in scored["note"][1]
    assert "other spellings are not known" in scored["note"][1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 0.0}, "above 0"),
        ({"tolerance": math.nan}, "above 0"),
        ({"tolerance": "much"}, "above 0"),
        ({"max_open": 0}, "at least 1"),
        ({"spellings": "every"}, "own or all"),
    ],
)
def test_bad_options(leaky, options, message):
    with pytest.raises(OptionError, match=message):
        leaky.score("the mark", **{"spellings": "all", **options})


def test_a_model_that_cannot_open():
    class ScoresOnly(LeakyLM):
        open = None

    with pytest.raises(UnsupportedError, match="ScoresOnly has no method 'open'"):
        wordprob.Scorer(ScoresOnly()).score("the mark", spellings="all")


def test_the_command_line(tmp_path):
    (tmp_path / "stimuli.csv").write_text("item,sentence\n1,the marker\n2,he's marked\n", encoding="utf-8")
    flags = ["--text-column", "sentence", "--per-word", "--model", "exact:leaky", "--spellings", "all"]
    flags += ["--tolerance", "0.001", "--max-open", "5000", "--prefixes-opened", "-o", str(tmp_path / "scored.csv")]
    result = CliRunner().invoke(cli, ["score", str(tmp_path / "stimuli.csv"), *flags])
    assert result.exit_code == 0, result.output
    table = pd.read_csv(tmp_path / "scored.csv")
    assert (table["surprisal_all"] - table["surprisal_all_low"]).between(0, 0.001).all()
    assert table["prefixes_opened"].gt(0).any()
    refused = CliRunner().invoke(
        cli, ["score", str(tmp_path / "stimuli.csv"), "--spellings", "all", "--tolerance", "-1"]
    )
    assert isinstance(refused.exception, OptionError)
    assert "`tolerance` is -1.0; it must be a number of bits above 0" in str(refused.exception)


def test_a_run(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(["the marker's mark.", "", "he sa the era"]), encoding="utf-8")
    runs.run(tmp_path / "texts.txt", tmp_path / "out", model="exact:leaky", spellings="all", tolerance=0.001)
    runs.merge(tmp_path / "out", tmp_path / "all.parquet")
    found = wordprob.WordTable.read(tmp_path / "all.parquet").to_pandas()
    assert len(found) == 7
    assert (found["surprisal_all"] - found["surprisal_all_low"]).between(0, 0.001).all()


# --- what is asked along the texts and beyond them --------------------------------------------------------------------


def prepare(scorer, texts, heads=None, definition="whitespace", **changed):
    """Prepare texts for the search for every spelling of their words."""
    settings = dataclasses.replace(scorer.settings(ScoringOptions(spellings="all")), **changed)
    documents = [Document(n, text) for n, text in enumerate(texts)]
    heads = heads or [NO_IDS] * len(texts)
    chunk = Chunk([Passage(document, head=head) for document, head in zip(documents, heads, strict=True)])
    return scorer.preparer(define(definition)).prepare(chunk, settings)


def test_the_plan_follows_the_observed_tokens(leaky):
    plan = prepare(leaky, LEAKY_TEXTS).search_plan
    pieces = leaky.model.tokenizer.vocabulary.token_bytes
    n_followed = 0
    for search, row, first, stop in zip(*plan.whole[:4], strict=True):
        word = plan.words[search]
        start = plan.start_rows[search] - word.first_row
        position = sum(len(pieces[token]) for token in word.observed[:start])
        for known, token in zip(range(first, stop), word.observed[start:], strict=True):
            assert plan.searches[known] == search
            assert plan.known_rows[known] == plan.start_rows[search] + known - first
            assert plan.transitions[known] is plan.events[search].inside(word.target[position:])
            asked = plan.id_lists[plan.lists[plan.observed_masses[known]]]
            assert asked.tolist() == [token]
            position += len(pieces[token])
            n_followed += 1
        assert position == len(word.target)
        assert row == plan.start_rows[search] + stop - first
    assert n_followed > len(plan.words)


@pytest.mark.parametrize("max_text_tokens", [None, 9, 30])
@pytest.mark.parametrize("heads", [None, [np.array([3, 4, 5, 6]), np.array([7])]])
def test_what_the_model_sees_before_prefixes(leaky, max_text_tokens, heads):
    texts = ["the marker's mark. he sa the era marked... the era", "he's markedmarkedmark"]
    prepared = prepare(leaky, texts, heads, max_text_tokens=max_text_tokens)
    words = prepared.search_plan.words
    searches, rows, all_ids = [], [], []
    for search, word in enumerate(words):
        for place in range(len(word.observed) + 1):
            for ids in ((), (8,), (9, 10)):
                searches.append(search)
                rows.append(word.first_row + place)
                all_ids.append(ids)
    whole = [prepared.search_plan.events[0].whole] * len(rows)
    prefixes = Prefixes.scored(np.array(searches), np.array(rows), np.zeros(len(rows)), whole, all_ids)
    contexts = TextContexts(prepared, prepared.search_plan.start_rows)
    fits = contexts.fits(prefixes)
    sequences = contexts.sequences(prefixes)
    n_behind = 0
    for n, (search, batch_row, ids) in enumerate(zip(searches, rows, all_ids, strict=True)):
        text = words[search].text
        origin = int(prepared.alignment.token_offsets[text]) + text
        row, start_row = batch_row - origin, int(prepared.search_plan.start_rows[search]) - origin
        window = [each for each in prepared.windows[text] if each.first <= min(row, start_row)][-1]
        before = prefix_ids(prepared, text, window, row)
        n_most = math.inf if max_text_tokens is None else max_text_tokens + len(prepared.start_ids)
        assert fits[n] == (len(before) + len(ids) <= n_most)
        if fits[n]:
            assert sequences.ids_of(n).tolist() == [*before.tolist(), *ids]
            n_behind += row > window.last
    assert fits.all() == (max_text_tokens != 9)
    assert (n_behind > 0) == (max_text_tokens == 9 and heads is None)


def test_masses_after_a_word_do_not_depend_on_the_others(tokenizer_of):
    scorer = wordprob.Scorer(FlatLM(tokenizer_of("small-gpt2")))
    event = prepare(scorer, ["She saw it."], definition="punctuation").search_plan.events[0]
    n_atoms = len(scorer.preparer(define("punctuation")).atoms.labels)
    log_masses = np.random.default_rng(1).normal(-9.0, 5.0, size=(50, n_atoms))

    def intervals(rows):
        search = Search([Searched(n, 0, 0) for n in range(len(rows))], np.zeros(len(rows)), np.full(len(rows), 0.01))
        numbers = np.arange(len(rows))
        search.open_whole(Prefixes.scored(numbers, numbers, np.zeros(len(rows)), [event.whole] * len(rows)), rows)
        return np.stack([search.log_low, search.log_high, search.log_estimate])

    apart = np.concatenate([intervals(row[None]) for row in log_masses], axis=1)
    np.testing.assert_array_equal(intervals(log_masses), apart)


def test_prefixes_are_asked_about_in_several_calls(leaky, monkeypatch):
    options = {"spellings": "all", "tolerance": 1e-6, "max_open": 200}
    at_once = leaky.score(SENTENCES, **options).to_pandas()
    monkeypatch.setattr("wordprob.covers.ask.REQUESTS_AT_ONCE", 3)
    pd.testing.assert_frame_equal(leaky.score(SENTENCES, **options).to_pandas(), at_once, check_exact=True)


# --- the spellings of one word ----------------------------------------------------------------------------------------


def test_spellings_of_a_word_add_up(leaky):
    found = leaky.spellings("the", "mark", tolerance=1e-6, max_open=5000, unit="nats")
    table = leaky.score("the mark", **EXHAUSTED).to_pandas()
    assert found.surprisal == pytest.approx(table["surprisal"][1], abs=1e-9)
    assert found.surprisal_all_low - 1e-9 <= table["surprisal_all"][1] <= found.surprisal_all + 1e-9
    assert ["".join(each.tokens).rstrip("…") for each in found.spellings if "…" not in each.tokens] == [" mark"] * sum(
        "…" not in each.tokens for each in found.spellings
    )
    own = [each for each in found.spellings if each.is_own]
    assert [each.tokens for each in own] == [(" mark",)]
    probabilities = [each.probability for each in found.spellings]
    assert probabilities == sorted(probabilities, reverse=True)
    assert len({each.tokens for each in found.spellings}) == len(found.spellings) > 5
    assert found.to_pandas()["share"].sum() <= 1.0


def test_each_spelling_has_its_own_probability(leaky):
    model = leaky.model
    found = leaky.spellings("the", "mark", tolerance=1e-6, max_open=5000, unit="nats")
    start = model.tokenizer.ids("the")[-1]
    reached = model.boundary_mass("the", start, "whitespace", "")
    for each in found.spellings:
        p, last = 1.0, start
        for token in each.ids:
            p, last = p * model.distribution(last)[token], token
        if "…" not in each.tokens:
            p *= model.boundary_mass("the mark", last, "whitespace", "")
            assert each.probability == pytest.approx(p / reached, rel=1e-9)


def test_every_own_spelling_is_marked(load_model):
    """An end-of-word tokenizer writes a word in one way before a space, and in another one at the end of a text."""
    found = load_model("small-eow").spellings("She saw the", "marks")
    assert {each.tokens for each in found.spellings if each.is_own} == {("marks",), ("mark", "s ")}
    assert found.spellings[0].is_own
    assert found.spellings[0].probability == pytest.approx(found.own_probability, rel=1e-3)


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
@pytest.mark.parametrize("family", ["bow", "bow-marked", "bow-joined", "eow", "eow-unmarked"])
def test_own_spellings_are_those_that_the_tokenizer_writes(family, definition):
    tokenizer = ExactLM.bigram(family, longest=1).tokenizer
    scorer = wordprob.Scorer(LeakyLM(tokenizer))
    found = scorer.spellings("the", "mark", definition, tolerance=1e-9, max_open=5000)
    what_ends_it = ("", " saw") if definition == "whitespace" else ("", " saw", ".", "?", "? saw", ". saw")
    written = [tuple(tokenizer.ids(f"the mark{after}")) for after in what_ends_it]
    own = [each for each in found.spellings if each.is_own]
    assert own
    for each in found.spellings:
        if each.tokens[-1] != "…":
            is_written = any(contains(ids, each.ids) for ids in written)
            assert each.is_own == is_written, (each, written)
    assert found.probability == pytest.approx(math.fsum(each.probability for each in found.spellings), rel=1e-6)


def contains(ids, part):
    """Return True if some ids are part of others, in a row."""
    return any(tuple(ids[n : n + len(part)]) == part for n in range(len(ids)))


def test_tokens_that_write_the_same_are_told_apart(load_model):
    found = load_model("small-llama2").spellings("a", "x.")
    tokens = [each.tokens for each in found.spellings]
    assert len(set(tokens)) == len(tokens)
    assert any("<0x78>" in each for each in tokens)
    assert any("x" in each for each in tokens)
    table = found.to_pandas()
    assert table["ids"].is_unique
    vocabulary = load_model("small-llama2").model.tokenizer.vocabulary
    written = [b"".join(vocabulary.token_bytes[int(token)] for token in ids.split()) for ids in table["ids"]]
    # Where several spellings are counted together ("…"), the ids leave out the last one, in which they differ.
    assert all(each.startswith(b" x.") or b" x.".startswith(each) for each in written)
    assert any(each.startswith(b" x.") for each in written)


def test_the_command_says_when_it_was_stopped():
    arguments = ["spellings", "the", "mark.", "--model", "exact:leaky", "--tolerance", "0.0001"]
    stopped = CliRunner().invoke(cli, [*arguments, "--max-open", "2"])
    assert "wider than --tolerance 0.0001 (bits): --max-open stopped the search after 2 beginnings" in stopped.output
    assert "wider" not in CliRunner().invoke(cli, [*arguments, "--max-open", "5000"]).output


def test_the_separator_of_spellings(leaky):
    arguments = ["spellings", "the", "mark", "--model", "exact:leaky"]
    spaces = CliRunner().invoke(cli, [*arguments, "--separator", "  "])
    expected = leaky.spellings("the", "mark", separator="  ")
    assert f"own spelling   {expected.surprisal:.3f} bits" in spaces.output
    assert spaces.output != CliRunner().invoke(cli, arguments).output


def test_one_word_is_asked_for(leaky):
    with pytest.raises(InputError, match="is 2 words by the definition 'whitespace'"):
        leaky.spellings("the", "mark mark")


def test_the_command_lists_and_draws(tmp_path):
    arguments = ["spellings", "the", "mark", "--model", "exact:leaky", "--top", "2"]
    result = CliRunner().invoke(
        cli, [*arguments, "-o", str(tmp_path / "mark.tsv"), "--plot", str(tmp_path / "mark.svg")]
    )
    assert result.exit_code == 0, result.output
    assert "␣mark  (the tokeniser's own)" in result.output
    assert "all spellings" in result.output
    assert "at most, in spellings not expanded" in result.output
    table = pd.read_csv(tmp_path / "mark.tsv", sep="\t")
    assert table["own"].sum() == 1
    assert "<svg" in (tmp_path / "mark.svg").read_text(encoding="utf-8")
    again = CliRunner().invoke(cli, [*arguments, "-o", str(tmp_path / "mark.tsv")])
    assert "exists" in str(again.exception)


# --- real networks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["pythia", "llama2", "sliding"])
def test_states_of_texts_are_gone_on_from(family, tokenizer_of):
    """The search goes on from the states of the pass along the text; running each prefix in full gives the same."""
    model = build(family, tokenizer_of)
    texts = ["She saw the blicket.", "It's odd"]
    options = {"spellings": "all", "tolerance": 0.3, "max_open": 40}
    kept = wordprob.Scorer(model).score(texts, **options).to_pandas()
    model.prefix_cache.usable = False
    in_full = wordprob.Scorer(model).score(texts, **options).to_pandas()
    for column in ("surprisal", "surprisal_all", "surprisal_all_low"):
        np.testing.assert_allclose(kept[column], in_full[column], atol=2e-3)


def test_the_text_is_run_once(tokenizer_of):
    model = build("pythia", tokenizer_of)
    wordprob.Scorer(model).score(["She saw the blicket.", "It's odd"], spellings="all", tolerance=0.3, max_open=20)
    # Each text, and at most the start token by itself, where a text's first character is cut off and read on.
    assert model.prefix_cache.contexts_run <= 3


# --- what is recorded, and what is refused ----------------------------------------------------------------------------


def test_the_metadata_say_how_spellings_were_counted(leaky, tmp_path):
    table = leaky.score("the mark", spellings="all", tolerance=0.5, max_open=7)
    recorded = {"spellings": "all", "tolerance": "0.5", "max_open": "7"}
    assert recorded.items() <= table.metadata.items()
    for name in ("words.parquet", "words.tsv"):
        table.write(tmp_path / name)
        assert recorded.items() <= wordprob.WordTable.read(tmp_path / name).metadata.items()
    continuations = leaky.score_continuations("the", ["mark"], spellings="all", tolerance=math.inf)
    assert continuations.metadata["tolerance"] == "inf"
    assert not recorded.keys() & leaky.score("the mark").metadata.keys()


@pytest.mark.parametrize("command", [("score", "--text", "x"), ("candidates", "--context", "x", "--candidate", "y")])
def test_a_count_of_prefixes_needs_all_spellings(command):
    result = CliRunner().invoke(cli, [*command, "--prefixes-opened", "--model", "no/such-model"])
    assert isinstance(result.exception, OptionError)
    assert "choose all as `spellings`" in str(result.exception)


def test_a_count_of_prefixes_needs_all_spellings_in_python(leaky):
    with pytest.raises(OptionError, match="choose all as `spellings`, or leave it out"):
        leaky.score("the mark", extras=["prefixes_opened"])


@pytest.mark.parametrize(
    "command",
    [
        ("spellings", "the", "mark"),
        ("candidates", "--context", "the", "--candidate", "mark"),
    ],
)
def test_a_second_model_is_refused(command):
    result = CliRunner().invoke(cli, [*command, "--model", "exact:leaky", "-m", "exact:bow"])
    assert result.exit_code == 2
    assert "--model names 2 models (exact:leaky, exact:bow); this command takes one" in result.output
