"""Targets after contexts of their own: tables, several contexts in Python, and candidates as rows."""

from __future__ import annotations

import io
import sys

import numpy as np
import pandas as pd
import pytest

import wordprob
from wordprob.errors import InputError, InputWarning, OptionError
from wordprob.models.exact import ExactLM

TABLE = pd.DataFrame(
    {
        "item": ["007", "2", "3"],
        "context": ["She saw the", "She saw", "She saw the"],
        "target_a": ["mark", "the mark", "marked mark"],
        "target_b": ["marker", "the marker", "mark"],
    }
)
VALUES = ["surprisal", "surprisal_naive", "before", "after"]


def score(table, targets="target_a", model="exact:bow", **options):
    scored = wordprob.score_table(table, model, context_column="context", target_column=targets, **options)
    return scored.to_pandas()


def whole_texts(scorer, table, targets, **options):
    """Return the values of each target by scoring the whole text, and adding up the words after the context."""
    rows = []
    for _, row in table.iterrows():
        for column in targets:
            words = scorer.score(f"{row['context']} {row[column]}", **options).to_pandas()
            words = words[words["start"] > len(row["context"])]
            rows.append([words["surprisal"].sum(), words["surprisal_naive"].sum()])
    return np.array(rows)


@pytest.fixture
def wordprob_command(monkeypatch, capsys):
    """Run a command in this process on the exact model; return its exit code and what it printed."""
    from wordprob.cli import main

    def command(*arguments, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        monkeypatch.setattr(sys, "argv", ["wordprob", *arguments, "--model", "exact:bow"])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, *capsys.readouterr()

    return command


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["whitespace", "punctuation"])
@pytest.mark.parametrize("targets", [["target_a"], ["target_a", "target_b"]])
def test_targets_have_the_values_of_whole_texts(words, targets):
    scorer = wordprob.Scorer(ExactLM.bigram("bow"))
    frame = score(TABLE, targets, scorer, words=words)
    expected = whole_texts(scorer, TABLE, targets, words=words)
    assert np.abs(frame[["surprisal", "surprisal_naive"]].to_numpy() - expected).max() < 1e-12
    assert frame["item"].tolist() == [item for item in TABLE["item"] for _ in targets]
    assert frame["word"].tolist() == [row[column] for _, row in TABLE.iterrows() for column in targets]
    names = targets if len(targets) > 1 else ["target"]
    assert frame["region"].tolist() == names * len(TABLE)


def test_the_words_of_targets():
    frame = score(TABLE, "target_a,target_b", per_word=True)
    assert frame["word"].tolist() == ["mark", "marker", "the", "mark", "the", "marker", "marked", "mark", "mark"]
    assert frame["item"].tolist() == ["007", "007", "2", "2", "2", "2", "3", "3", "3"]
    assert frame["start"].tolist() == [0, 0, 0, 4, 0, 4, 0, 7, 0]
    summed = score(TABLE, "target_a,target_b")
    totals = frame.groupby("text_id")["surprisal"].sum().to_numpy()
    assert np.allclose(totals, summed["surprisal"], atol=1e-12)


@pytest.mark.parametrize("per_word", [False, True])
def test_no_row_is_lost_and_every_missing_value_has_its_reason(per_word):
    table = TABLE.assign(context=["She saw the", None, "She saw the"], target_b=["", "mark", "..."])
    with pytest.warns(InputWarning) as warned:
        frame = score(table, "target_a,target_b", words=r"regex:\w+", per_word=per_word)
    assert [str(warning.message) for warning in warned] == [
        "1 of 6 targets has no value: no target in 'target_b' (the first: the data frame, row 1)",
        "2 of 6 targets have no value: no context in 'context' (the first: the data frame, row 2)",
    ]
    frame = frame.groupby(["item", "region"], sort=False).first()
    assert len(frame) == 6
    notes = frame["note"].tolist()
    assert notes == ["", "no target in 'target_b'", *["no context in 'context'"] * 2, "", "no word in '...'"]
    assert (frame["surprisal"].isna() == (frame["note"] != "")).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context_column": "contxt", "target_column": "target_a"}, "no column 'contxt'"),
        ({"context_column": "context", "target_column": "target_a,target_c"}, "no column 'target_c'"),
        ({"context_column": "context"}, "needs `target_column`"),
        (
            {"context_column": "context", "target_column": "target_a", "text_column": "item"},
            "`text_column` does not go",
        ),
        ({"context_column": "context", "target_column": "target_a", "predictors": True}, "`predictors` does not go"),
        ({"context_column": "context", "target_column": ["target_a", 3]}, "`target_column` is"),
    ],
)
def test_wrong_columns_are_named(options, message):
    with pytest.raises((InputError, OptionError), match=message):
        wordprob.score_table(TABLE, "exact:bow", **options)


def test_a_table_without_any_target_is_refused():
    with pytest.raises(InputError, match="no target in 'target_a', and no other row"):
        score(TABLE.assign(target_a=""))


def test_several_targets_of_a_sentence():
    table = pd.DataFrame({"sentence": ["She saw the mark", "the marker"], "one": ["saw", ""], "two": ["mark", "the"]})
    frame = wordprob.score_table(table, "exact:bow", text_column="sentence", target_column="one,two").to_pandas()
    assert frame["region"].tolist() == ["one", "two"] * 2
    assert frame["word"].tolist() == ["saw", "mark", "", "the"]
    assert frame["note"].tolist() == ["", "", "no target on this row", ""]
    table = table.assign(one="", two="")
    with pytest.raises(InputError, match="column 'one' or 'two' names no target on any row"):
        wordprob.score_table(table, "exact:bow", text_column="sentence", target_column="one,two")


def test_the_command_returns_the_lines_as_they_were(wordprob_command):
    lines = 'item,context,a,b\n"007",She saw the,mark,marker\n8,"She, saw",,mark\n'
    code, out, err = wordprob_command(
        *["score", "-", "--input-format", "csv", "--context-column", "context", "--target-column", "a,b"], stdin=lines
    )
    assert code == 0, err
    rows = out.splitlines()
    assert [row[: len('"007",She')] for row in rows[1:]] == ['"007",She', '"007",She', '8,"She, s', '8,"She, s']
    assert "1 of 4 targets has no value: no target in 'a' (the first: standard input, line 3)" in err
    frame = pd.read_csv(io.StringIO(out))
    assert frame["region"].tolist() == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    "arguments", [["--text", "a b", "--context-column", "x"], ["--text", "a b", "--separator", ""]]
)
def test_contexts_are_those_of_tables(wordprob_command, arguments):
    code, _, err = wordprob_command("score", *arguments)
    assert code == 2
    assert "--context-column" in err


# --- Python -----------------------------------------------------------------------------------------------------------


def test_one_context_for_each_continuation_or_every_pair():
    scorer = wordprob.load("exact:bow")
    contexts, continuations = ["She saw the", "She saw"], ["mark", "the mark"]
    pairwise = scorer.score_continuations(contexts, continuations).to_pandas()
    crossed = scorer.score_continuations(contexts, continuations, crossed=True).to_pandas()
    alone = [scorer.score_continuations(context, continuations).to_pandas() for context in contexts]
    assert np.array_equal(crossed[VALUES], pd.concat(alone)[VALUES], equal_nan=True)
    assert crossed["text_id"].tolist() == [0, 1, 1, 2, 3, 3]
    assert np.array_equal(pairwise[VALUES], crossed[crossed["text_id"].isin([0, 3])][VALUES])
    with pytest.raises(InputError, match="2 contexts but 1 continuation; give one continuation for each context"):
        scorer.score_continuations(contexts, ["mark"])
    with pytest.raises(InputError, match="context 1 is not a string"):
        scorer.score_continuations(["She", None], ["saw", "saw"])


def test_contexts_that_repeat_or_contain_each_other_are_run_once(load_model):
    scorer = load_model("small-bow")
    cache = scorer.model.prefix_cache
    before = cache.contexts_run
    contexts = ["It was in the evening that", "It was in the evening", "It was in the evening that"]
    table = scorer.score_continuations(contexts, ["she", "that", "he"])
    assert cache.contexts_run == before + 1
    whole = [f"{context} {word}" for context, word in zip(contexts, ["she", "that", "he"], strict=True)]
    last = scorer.score(whole).to_pandas().groupby("text_id")["surprisal"].last()
    assert np.allclose(table.to_pandas()["surprisal"], last, atol=1e-4)


def test_candidates_after_several_contexts():
    scorer = wordprob.load("exact:bow")
    table = scorer.score_candidates(["She saw the", "the"], ["mark", "marker"], "punctuation", share=True)
    frame = table.to_pandas()
    assert frame["context"].tolist() == ["She saw the", "She saw the", "the", "the"]
    assert frame.groupby("context")["share"].sum().round(12).tolist() == [1.0, 1.0]
    assert len(table) == 4
    assert len(scorer.score_candidates("She saw the", ["mark"])) == 1


def test_candidates_without_a_value_have_reasons():
    scorer = wordprob.load("exact:bow")
    frame = scorer.score_candidates("She saw the", ["mark", "", "mark"], share=True).to_pandas()
    assert frame["note"].tolist() == ["no share: a candidate has no value", "no words", frame["note"][0]]
    assert frame["share"].isna().all()
    assert frame["probability"].notna().tolist() == [True, False, True]
    impossible = scorer.score_candidates("She saw the", ["She", "saw"], share=True).to_pandas()
    assert impossible["probability"].tolist() == [0.0, 0.0]
    assert impossible["note"].str.contains("no share: all candidates have the probability 0").all()
    mixed = scorer.score_candidates("She saw the", ["She", ""], share=True).to_pandas()
    assert mixed["note"].tolist() == ["probability zero; no share: a candidate has no value", "no words"]
    with pytest.raises(InputError, match="no candidates"):
        scorer.score_candidates("She", [])


@pytest.mark.parametrize(("option", "value"), [("crossed", True), ("crossed", False), ("ids", ["a", "b"])])
def test_options_that_mean_nothing_for_candidates_are_refused(option, value):
    """Both would give the rows of candidates the values of others, or none."""
    scorer = wordprob.load("exact:bow")
    with pytest.raises(OptionError, match=f"`{option}` is not an option of candidates.*leave it out"):
        scorer.score_candidates(["She saw the", "She"], ["mark", "saw"], **{option: value})


def test_every_candidate_is_scored_after_every_context():
    scorer = wordprob.load("exact:bow")
    frame = scorer.score_candidates(["She saw the", "She"], ["mark", "saw"]).to_pandas()
    assert frame[["context", "candidate"]].to_numpy().tolist() == [
        ["She saw the", "mark"],
        ["She saw the", "saw"],
        ["She", "mark"],
        ["She", "saw"],
    ]
    alone = [
        scorer.score_candidates(context, [word]).to_pandas()
        for context, word in zip(frame["context"], frame["candidate"], strict=True)
    ]
    np.testing.assert_allclose(frame["probability"], [each["probability"][0] for each in alone], rtol=1e-12)
    assert frame["probability"].iloc[-1] == pytest.approx(0.657, abs=1e-3)


def test_candidates_with_all_spellings_have_probabilities_and_shares_of_these():
    scorer = wordprob.load("exact:leaky")
    options = {"spellings": "all", "tolerance": 1e-6, "max_open": 5000}
    frame = scorer.score_candidates("the", ["mark", "marker", "era ed"], share=True, **options).to_pandas()
    np.testing.assert_allclose(frame["probability_all"], 2 ** -frame["surprisal_all"])
    np.testing.assert_allclose(frame["share_all"], frame["probability_all"] / frame["probability_all"].sum())
    np.testing.assert_allclose(frame["probability"], 2 ** -frame["surprisal"])
    np.testing.assert_allclose(frame["share"], frame["probability"] / frame["probability"].sum())
    assert (frame["probability_all"] > frame["probability"]).all()
    assert list(frame.columns[:5]) == ["candidate", "surprisal", "probability", "share", "probability_all"]
    without = scorer.score_candidates("the", ["mark"], **options).to_pandas()
    assert "probability_all" in without
    assert "share_all" not in without
    own = scorer.score_candidates("the", ["mark"], share=True).to_pandas()
    assert "probability_all" not in own


def test_a_candidate_without_a_value_leaves_the_others_without_shares_of_all_spellings():
    scorer = wordprob.load("exact:leaky")
    frame = scorer.score_candidates("the", ["mark", ""], share=True, spellings="all").to_pandas()
    assert frame["share_all"].isna().all()
    assert frame["probability_all"].notna().tolist() == [True, False]
    assert frame["note"][0] == "no share: a candidate has no value"
