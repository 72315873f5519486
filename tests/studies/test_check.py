"""The words after a context add up to one, and the check that says so notices when they do not."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from flat_lm import FlatLM
from wordprob import Scorer, check_sum
from wordprob.cli import cli
from wordprob.errors import InputError, OptionError
from wordprob.models.exact import FAMILIES, ExactLM

EVERYTHING = 100_000


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("context", ["", "She", "She saw the", "the mark", "She saw the mark."])
def test_everything_adds_up_to_one(family, definition, context):
    model = ExactLM.bigram(family)
    check = check_sum(Scorer(model), context, definition, max_open=EVERYTHING)
    true = model.followers(context, definition)
    assert check.total == pytest.approx(1.0, abs=1e-12)
    assert (check.unopened, check.other_spellings, check.missing, check.fault) == (0.0, 0.0, (), "")
    assert {**check.probabilities, "<end>": check.end} == pytest.approx({"<end>": 0.0, **true}, abs=1e-12)


def test_what_is_not_looked_into_is_accounted_for():
    model = ExactLM.bigram("bow")
    check = check_sum(Scorer(model), "She saw the", "punctuation", max_open=2)
    assert check.opened == 2
    assert check.unopened > 0.1
    assert check.total + check.unopened == pytest.approx(1.0, abs=1e-12)
    assert not check.fault


def test_white_space_after_the_context_belongs_to_the_next_word():
    scorer = Scorer(ExactLM.bigram("bow"))
    assert check_sum(scorer, "She saw the ").probabilities == check_sum(scorer, "She saw the").probabilities


class Wrong(Scorer):
    """A scorer that makes the words after a context more, or less, probable than they are."""

    def __init__(self, model, factor):
        super().__init__(model)
        self.factor = factor

    def score_continuations(self, *arguments, **options):
        table = super().score_continuations(*arguments, **options)
        frame = table.to_pandas()
        frame["surprisal"] -= np.log(self.factor)
        table.to_pandas = lambda: frame
        return table


@pytest.mark.parametrize(("factor", "reason"), [(1.2, "above one by 0.2"), (0.9, "0.1 is missing from the sum")])
def test_a_wrong_probability_is_a_fault(factor, reason):
    check = check_sum(Wrong(ExactLM.bigram("bow"), factor), "She saw the")
    assert reason in check.fault


@pytest.mark.parametrize("context", ["", "She saw", "It was"])
def test_a_real_tokeniser(tokenizer_of, context):
    """The tokens and the words of a real vocabulary; every token is about as likely as the others."""
    check = check_sum(Scorer(FlatLM(tokenizer_of("small-bow"))), context, "whitespace", max_open=20)
    assert check.opened == 20
    assert not check.fault
    # what is not expanded counts in full, also tokens that stop inside a character, which may not begin a word
    assert -0.02 < check.unexplained < 2e-4


def test_a_small_real_model(load_model):
    check = check_sum(load_model("small-llama2"), "Once upon a time, there was a", "whitespace", max_open=30)
    assert check.probabilities[" little"] > 0.2
    assert 0.5 < check.total < 1
    assert not check.fault
    assert -0.05 < check.unexplained < 2e-4, "tokens that stop inside a character may not begin a word"


@pytest.mark.parametrize("context", ["", "She", "She saw the"])
def test_runs_of_characters_add_up(context):
    """What ends after a mark, without another word, is not a word's; it is accounted for."""
    check = check_sum(Scorer(ExactLM.bigram("bow")), context, r"regex:\w+")
    assert check.fault == ""
    assert abs(check.unexplained) < 1e-12


def test_what_cannot_be_checked_is_said(tokenizer_of):
    scorer = Scorer(ExactLM.bigram("bow"))
    with pytest.raises(OptionError, match="Use whitespace, punctuation, or one class"):
        check_sum(scorer, "She", r"regex:\w{1,3}")
    with pytest.raises(OptionError, match="`max_open` is 0; it must be a whole number of at least 1"):
        check_sum(scorer, "She", max_open=0)
    with pytest.raises(InputError, match="leave out white space"):
        check_sum(Scorer(FlatLM(tokenizer_of("small-openai-gpt"))), "she")


def test_the_command():
    result = CliRunner().invoke(cli, ["check", "She saw the", "--model", "exact:bow", "--top", "2"])
    assert result.exit_code == 0
    assert "0.220000  ␣mark\n" in result.output
    assert "Correct: everything adds up to one." in result.output
    assert result.output.count("\n") == 9


def test_the_command_ends_in_an_error_if_the_sum_is_wrong(monkeypatch):
    monkeypatch.setattr("wordprob.scoring.loading.load", lambda **_: Wrong(ExactLM.bigram("bow"), 1.2))
    result = CliRunner().invoke(cli, ["check", "She saw the"])
    assert result.exit_code == 1
    assert "This is a fault: the sum is above one by 0.2." in result.output
