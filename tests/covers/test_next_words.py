"""The words that could come next: every word and probability of the exact models, and bounds that hold."""

from __future__ import annotations

import io
import math

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import wordprob
import wordprob.tables.metadata
from wordprob.cli import cli
from wordprob.core.words import define
from wordprob.covers.next_tokens import NextTokens
from wordprob.covers.next_word_search import NextWordSearch
from wordprob.errors import InputError, OptionError
from wordprob.models.exact import END_OF_TEXT

FAMILIES = ("bow", "bow-marked", "bow-joined", "eow", "eow-unmarked")
CONTEXTS = ("", "She", "She saw the", "the mark", "She's")


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_word_of_the_exact_models(family, context, definition):
    scorer = wordprob.load(f"exact:{family}")
    truth = scorer.model.followers(context, definition)
    found = scorer.next_words(context, definition, top=1000)
    by_text = {each.separator + each.word: each.probability for each in found.words}
    assert found.end == pytest.approx(truth.pop(END_OF_TEXT, 0.0), abs=1e-12)
    assert by_text == pytest.approx(truth, abs=1e-12)
    assert found.rest == pytest.approx(0.0, abs=1e-12)
    assert all(each.is_certain for each in found.words)


@pytest.mark.parametrize("top", [1, 2, 5])
@pytest.mark.parametrize("context", CONTEXTS)
def test_the_most_probable_words_come_first(context, top):
    scorer = wordprob.load("exact:bow")
    truth = scorer.model.followers(context, "punctuation")
    truth.pop(END_OF_TEXT, None)
    best = sorted(truth.values(), reverse=True)[:top]
    found = scorer.next_words(context, "punctuation", top=top)
    assert [each.probability for each in found.words] == pytest.approx(best, abs=1e-12)
    assert found.rest == pytest.approx(1 - sum(best) - found.end, abs=1e-12)


def test_words_up_to_a_mass():
    found = wordprob.load("exact:bow").next_words("She saw the", "punctuation", mass=0.7)
    assert [each.word for each in found.words] == ["mark", "marker"]
    assert sum(each.probability for each in found.words) >= 0.7


@pytest.mark.parametrize("max_open", [1, 2, 4, 8, 16, 64])
def test_what_is_called_certain_is(max_open):
    """Of a model that leaks onto every spelling, the words are those of a search without a limit."""
    scorer = wordprob.load("exact:leaky")
    everything = scorer.next_words("the", top=3, max_open=4000)
    assert all(each.is_certain for each in everything.words)
    found = scorer.next_words("the", top=3, max_open=max_open)
    certain = [each for each in found.words if each.is_certain]
    assert certain == list(everything.words[: len(certain)])
    assert found.opened <= max_open


def test_several_contexts_and_a_table():
    scorer = wordprob.load("exact:bow")
    both = scorer.next_words(["She", "She saw the"], top=2)
    assert [each.context for each in both] == ["She", "She saw the"]
    table = both[1].to_pandas()
    assert table["kind"].tolist() == ["word", "word", "end", "rest"]
    assert table["probability"].sum() == pytest.approx(1.0, abs=1e-12)
    assert table["surprisal"][0] == pytest.approx(-math.log2(table["probability"][0]))


def test_a_real_model(load_model):
    scorer = load_model("small-bow")
    found = scorer.next_words("It was in the", top=5, max_open=400)
    again = scorer.score_continuations("It was in the", [each.word for each in found.words], unit="nats").to_pandas()
    np.testing.assert_allclose(again["surprisal"], [-math.log(each.probability) for each in found.words], atol=1e-4)
    assert 0.0 < found.rest < 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "at least 1"),
        ({"top": 1.5}, "`top` is 1.5; it must be a whole number"),
        ({"top": "3"}, "`top` is '3'; it must be a whole number"),
        ({"mass": 1.5}, "1 at most"),
        ({"mass": math.nan}, "1 at most"),
        ({"mass": "0.5"}, "1 at most"),
        ({"max_open": 0}, "at least 1"),
        ({"max_open": math.nan}, "`max_open` is nan; it must be a whole number"),
        ({"max_open": "3"}, "`max_open` is '3'"),
        ({"max_open": None}, "`max_open` is None"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(OptionError, match=message):
        wordprob.load("exact:bow").next_words("She", **options)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (None, "`context` is None; give a text or a list of texts"),
        (3, "`context` is 3"),
        (b"She", "`context` is b'She'"),
        ({"context": "She"}, "`context` is a dict; give a text or a list of texts"),
        (pd.DataFrame({"context": ["She"]}), "`context` is a DataFrame"),
        (["a", None], "context 2 of 2 is None, which is not a text"),
    ],
)
def test_contexts_that_are_no_texts(context, message):
    with pytest.raises(InputError, match=message):
        wordprob.load("exact:bow").next_words(context)


def test_everything_else_is_never_negative():
    for context in CONTEXTS:
        found = wordprob.load("exact:bow").next_words(context, mass=1)
        assert 0.0 <= found.rest < 1e-12


def test_a_word_after_a_space_is_told_from_one_without():
    table = wordprob.load("exact:leaky").next_words("mark the", "punctuation", top=3, spellings="all").to_pandas()
    assert table["word"].tolist() == [".", "..", ".", "", ""]
    assert table["separator"].tolist() == [" ", " ", "", "", ""]


def test_the_limit_is_told():
    scorer = wordprob.load("exact:leaky")
    assert scorer.next_words("the", top=3, max_open=2).limit_reached
    assert not scorer.next_words("the", top=3, max_open=4000).limit_reached
    assert not wordprob.load("exact:bow").next_words("She saw the", top=1000).limit_reached


def test_contexts_after_which_nothing_can_come():
    scorer = wordprob.load("exact:bow")
    with pytest.raises(InputError, match="'She saw the' as another text, so the words after it cannot be enumerated"):
        wordprob.load("exact:leaky").next_words("She saw the")
    with pytest.raises(InputError, match="has probability zero: no word can follow it"):
        scorer.next_words("the the")
    with pytest.raises(InputError, match="has probability zero"):
        wordprob.check_sum(scorer, "the the")
    with pytest.raises(InputError, match="a word of the context 'the the mark' has no value"):
        scorer.next_words("the the mark")


def test_a_context_that_is_too_long(load_model):
    scorer = load_model("small-llama2")
    with pytest.raises(InputError, match=r"the context has \d+ tokens, and the model takes 256"):
        scorer.next_words("One day she saw a dog. " * 40)


def test_the_command(tmp_path):
    (tmp_path / "items.csv").write_text("item,sentence_start\n1,She saw the\n2,She\n", encoding="utf-8")
    arguments = ["next", str(tmp_path / "items.csv"), "--context-column", "sentence_start", "--model", "exact:bow"]
    result = CliRunner().invoke(cli, [*arguments, "--top", "2", "-o", str(tmp_path / "next.csv")])
    assert result.exit_code == 0, result.output
    table = pd.read_csv(tmp_path / "next.csv")
    assert table["context_id"].tolist() == [0] * 4 + [1] * 4
    assert table.groupby("context_id")["probability"].sum().tolist() == pytest.approx([1.0, 1.0])
    printed = CliRunner().invoke(cli, ["next", "--context", "She saw the", "--model", "exact:bow", "--top", "1"])
    assert "mark" in printed.output
    assert "everything else" in printed.output
    assert CliRunner().invoke(cli, ["next"]).exit_code == 2
    assert CliRunner().invoke(cli, ["next", str(tmp_path / "items.csv")]).exit_code == 2


ITEMS = "item,condition,sentence_start\n007,a,She saw the\n2,b,She\n"


def next_rows(tmp_path, *further, output="next.csv", items=ITEMS):
    """Run the command on a table, and return what it wrote."""
    (tmp_path / "items.csv").write_text(items, encoding="utf-8")
    arguments = ["next", str(tmp_path / "items.csv"), "--context-column", "sentence_start", "--model", "exact:bow"]
    result = CliRunner().invoke(cli, [*arguments, "--top", "1", "-o", str(tmp_path / output), *further])
    assert result.exit_code == 0, result.output
    return tmp_path / output


def test_the_columns_of_a_table_come_back(tmp_path):
    lines = next_rows(tmp_path).read_text(encoding="utf-8").splitlines()
    assert lines[0] == (
        "item,condition,sentence_start,context_id,context,kind,rank,separator,word,probability,surprisal,certain"
    )
    assert [line.split(",")[:3] for line in lines[1:]] == [["007", "a", "She saw the"]] * 3 + [["2", "b", "She"]] * 3


def test_columns_with_the_names_of_new_ones(tmp_path):
    items = "word,context\n1,She saw the\n"
    (tmp_path / "items.csv").write_text(items, encoding="utf-8")
    arguments = ["next", str(tmp_path / "items.csv"), "--context-column", "context", "--model", "exact:bow"]
    refused = CliRunner().invoke(cli, arguments)
    assert "has columns called word already" in str(refused.exception)
    printed = CliRunner().invoke(cli, [*arguments, "--prefix", "wp_", "--top", "1", "--format", "csv"])
    assert printed.output.startswith("word,context,wp_context_id,wp_context,wp_kind")
    (tmp_path / "items.csv").write_text("item,context\n1,She saw the\n", encoding="utf-8")
    printed = CliRunner().invoke(cli, [*arguments, "--top", "1", "--format", "csv"])
    assert printed.output.startswith("item,context,context_id,kind,rank,")


@pytest.mark.parametrize("format", ["tsv", "csv", "parquet", "jsonl"])
def test_all_formats_of_tables(tmp_path, format):
    by_ending = next_rows(tmp_path, output=f"next.{format}").read_bytes()
    assert next_rows(tmp_path, "--format", format, output="next.out").read_bytes() == by_ending
    read = {
        "tsv": lambda path: pd.read_csv(path, sep="\t"),
        "csv": pd.read_csv,
        "parquet": pd.read_parquet,
        "jsonl": lambda path: pd.read_json(path, lines=True),
    }[format]
    assert read(tmp_path / f"next.{format}")["kind"].tolist() == ["word", "end", "rest"] * 2
    assert wordprob.tables.metadata.read_metadata(tmp_path / f"next.{format}")["model"] == "exact:bow"


def test_a_table_from_standard_input(tmp_path):
    expected = next_rows(tmp_path).read_text(encoding="utf-8")
    arguments = ["next", "-", "--input-format", "csv", "--context-column", "sentence_start", "--model", "exact:bow"]
    result = CliRunner().invoke(cli, [*arguments, "--top", "1", "--format", "csv"], input=ITEMS)
    assert result.output == expected


def test_several_models():
    arguments = ["next", "--context", "She", "--model", "exact:bow", "--model", "exact:eow", "--top", "1"]
    table = pd.read_csv(io.StringIO(CliRunner().invoke(cli, [*arguments, "--format", "csv"]).output))
    assert table["model"].tolist() == ["exact:bow"] * 3 + ["exact:eow"] * 3
    printed = CliRunner().invoke(cli, arguments).output
    assert "after 'She' (exact:bow)" in printed
    assert "after 'She' (exact:eow)" in printed


def test_the_command_says_that_the_limit_stopped_the_search():
    arguments = ["next", "--context", "the", "--model", "exact:leaky", "--top", "3"]
    said = CliRunner().invoke(cli, [*arguments, "--max-open", "2"]).stderr
    assert "the search stopped when it had expanded 2 beginnings of words" in said
    assert "use --max-open 20" in said
    assert not CliRunner().invoke(cli, [*arguments, "--max-open", "4000"]).stderr


def test_the_command_shows_what_stands_before_a_word():
    arguments = ["next", "--context", "mark the", "--model", "exact:leaky", "-w", "punctuation", "--spellings", "all"]
    lines = CliRunner().invoke(cli, [*arguments, "--top", "3"]).output.splitlines()
    assert [line.split(maxsplit=2)[2] for line in lines[2:5]] == [".", "..", ".  (no space before)"]


@pytest.mark.parametrize("name", [*(f"exact:{family}" for family in FAMILIES), "exact:leaky"])
def test_contexts_together_are_searched_as_one_by_one(name, monkeypatch):
    monkeypatch.setattr("wordprob.scoring.next_word_batch.CONTEXTS_TOGETHER", 3)
    scorer = wordprob.load(name)
    contexts = (
        ["", "She", "the mark", "She saw the", ""] if name != "exact:leaky" else ["", "the", "mark", "the mark", ""]
    )
    together = scorer.next_words(contexts, "punctuation", top=4, max_open=200)
    assert together == [scorer.next_words(context, "punctuation", top=4, max_open=200) for context in contexts]


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
@pytest.mark.parametrize("context", ["in the", "no.", 'a "b', "1,0"])
@pytest.mark.parametrize("name", ["small-bow", "small-eow", "small-llama2"])
def test_own_spellings_of_a_context_are_all_found(load_model, name, context, definition):
    """The slow way: go through all tokens that keep the context, and ask of each whole spelling if it is written."""
    scorer = load_model(name)
    rule = define(definition)
    tokenizer = scorer.model.tokenizer
    tokens = NextTokens(tokenizer.vocabulary, scorer.model.vocab_size, rule)
    search = NextWordSearch(tokens, tokenizer, rule, context)
    (found,) = search.own_covers([context])
    pieces = tokenizer.vocabulary.token_bytes
    waiting = [search.root]
    slow = set()
    while waiting:
        ids = waiting.pop()
        data = b"".join(pieces[token] for token in ids)
        ahead = search._given[len(data) :]
        for token in tokens.fitting(ahead):
            longer = (*ids, token)
            if len(pieces[token]) < len(ahead):
                waiting.append(longer)
            elif (text := search._text(data + pieces[token])) is not None and search._keeps_context(longer, text):
                slow.add(longer)
    assert found == slow


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_words_have_the_values_with_which_texts_are_scored(load_model, definition):
    scorer = load_model("small-bow")
    contexts = ["It was in the", "She looked at", "No, said the"]
    for found in scorer.next_words(contexts, definition, top=20, max_open=300):
        words = [each.separator + each.word for each in found.words]
        table = scorer.score_continuations(found.context, words, definition, unit="nats", separator="").to_pandas()
        scored = table[~table["text_id"].duplicated()]["surprisal"]
        # Where characters are cut off, each of two terms may be off by 1e-4.
        np.testing.assert_allclose(scored, [-math.log(each.probability) for each in found.words], atol=2e-4)


def test_contexts_of_a_real_model_are_searched_as_one_by_one(load_model):
    scorer = load_model("small-bow")
    contexts = ["It was in the", "It was", "She looked at the", "It was in the", ""]
    together = scorer.next_words(contexts, top=6, max_open=100)
    for context, found in zip(contexts, together, strict=True):
        alone = scorer.next_words(context, top=6, max_open=100)
        assert (alone.context, alone.opened) == (found.context, found.opened)
        assert [each.word for each in alone.words] == [each.word for each in found.words]
        np.testing.assert_allclose(
            [each.probability for each in alone.words], [each.probability for each in found.words], rtol=1e-4
        )


@pytest.mark.parametrize("max_open", [4, 16, 64, 100_000])
@pytest.mark.parametrize("context", ["the", "mark", "the mark"])
def test_all_spellings_of_next_words(context, max_open):
    """The truth is a dynamic programme over all spellings of each word."""
    scorer = wordprob.load("exact:leaky")
    found = scorer.next_words(context, top=6, max_open=min(max_open, 3000), spellings="all")
    for each in found.words:
        _, truth = scorer.model.truth(context + each.separator + each.word, "whitespace")[-1]
        assert each.probability <= truth + 1e-9
        assert truth <= each.probability_high + 1e-9
    own = scorer.next_words(context, top=12, max_open=3000)
    assert found.end == pytest.approx(own.end, abs=1e-12)
    total = math.fsum([*(each.probability for each in found.words), found.end, found.rest])
    assert total == pytest.approx(1.0, abs=1e-12)
    assert found.rest > -1e-9
    if max_open > 1000:
        # within a hundredth of a bit, unless no more may be opened
        tolerance = 0.01 if found.opened < 3000 else 0.05
        in_own = {each.separator + each.word: each.probability for each in own.words}
        for each in found.words:
            assert math.log2(each.probability_high / each.probability) <= tolerance + 1e-9
            assert each.probability_high >= in_own.get(each.separator + each.word, 0.0) - 1e-9


def test_all_spellings_of_an_exact_language_are_its_own():
    scorer = wordprob.load("exact:bow")
    own = scorer.next_words("She saw the", top=100).to_pandas()
    every = scorer.next_words("She saw the", top=100, spellings="all").to_pandas()
    np.testing.assert_allclose(every["probability"], own["probability"], atol=1e-12)
    np.testing.assert_allclose(every["probability_high"], own["probability"], atol=1e-12)
    with pytest.raises(OptionError, match="use own or all"):
        scorer.next_words("She", spellings="some")


def test_a_text_where_a_table_is_meant():
    result = CliRunner().invoke(cli, ["next", "She saw the"])
    assert result.exit_code == 2
    assert 'use --context "She saw the"' in result.output
