"""Options are declared once and checked when they are given; every front end has them."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import wordprob
from wordprob.core.words import Punctuation
from wordprob.errors import OptionError, UnknownModelError
from wordprob.options import CHECKS, ModelOptions, ScoringKeywords, ScoringOptions, TableLayout, info_of, option

PACKAGE = Path(wordprob.__file__).parent


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"unit": "bit"}, "no unit is called 'bit'; use bits or nats"),
        ({"min_context": 0}, "`min_context` is 0; it must be a whole number of at least 1"),
        ({"readers": -1}, "`readers` is -1; it must be a whole number of at least 0"),
        ({"words": "whitspace"}, "no word definition is called 'whitspace'"),
        ({"words": "regex:("}, "not a regular expression"),
        ({"extras": ["entropie"]}, "no further column is called 'entropie'"),
        ({"estimators": ["correct"]}, "no estimator is called 'correct'. Did you mean corrected"),
    ],
)
def test_values_that_are_not_allowed_are_refused(given, message):
    with pytest.raises(OptionError, match=message):
        ScoringOptions(**given)


def test_a_model_must_be_there():
    with pytest.raises(UnknownModelError, match=r"pythia-1\.4b"):
        ModelOptions(model="pythia-14b")
    with pytest.raises(OptionError, match="no device is called 'gpu'; use auto, cpu, cuda or mps"):
        ModelOptions(device="gpu")


def test_names_and_values():
    options = ModelOptions.pick({"model": "exact:bow", "bos": "none", "unit": "bits"})
    assert (options.model, options.bos) == ("exact:bow", "none")
    assert ModelOptions.from_dict(options.to_dict()) == options
    with pytest.raises(OptionError, match="no option of a model called 'devise'. Did you mean device"):
        ModelOptions.from_dict({"devise": "cpu"})


def test_words_may_be_a_definition_or_a_file():
    assert ScoringOptions(words=Punctuation()).words.name == "punctuation"
    assert ScoringOptions(words="list:words.txt").words == "list:words.txt"


@pytest.mark.parametrize("options", [ModelOptions, ScoringOptions])
def test_every_option_says_what_it_is(options):
    for declared in fields(options):
        assert info_of(declared).help.endswith("."), declared.name


@pytest.mark.parametrize("options", [ModelOptions, ScoringOptions, TableLayout])
def test_what_a_value_names_is_checked(options):
    assert {info_of(declared).names for declared in fields(options)} <= {"", *CHECKS}


def test_every_check_has_an_option():
    declared = [*fields(ModelOptions), *fields(ScoringOptions)]
    assert {info_of(each).names for each in declared if info_of(each).names} == set(CHECKS)


def test_values_are_checked_whatever_was_imported():
    code = """
from wordprob.options import CHECKS, ModelOptions, ScoringOptions, OptionError
for options, name in [(ScoringOptions, "words"), (ScoringOptions, "boundary"), (ModelOptions, "device_map")]:
    try:
        options(**{name: "nope"})
    except OptionError:
        print(name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["words", "boundary", "device_map"]


def test_a_declared_option_is_a_field():
    assert option(3, "A number.", minimum=1).metadata["option"].minimum == 1


# --- one declaration --------------------------------------------------------------------------------------------------

USES = {
    "min_context": {"core/windows.py"},
    "extras": {"tables/columns.py", "tables/frames.py", "scoring/results.py", "tables/schema.py",
               "tables/word_level_columns.py", "scoring/word_entropy.py"},
    "estimators": {"tables/columns.py", "tables/schema.py"},
    "tolerance": {"options.py"},
    "max_open": {"covers/ask.py", "covers/search.py", "scoring/next_word_batch.py", "scoring/word_entropy.py"},
}  # fmt: skip
"""Modules that compute with an option and have it as a parameter. A module that only passes options on has none."""

NOUNS = {"words", "boundary", "unit", "spellings"}
"""Options whose names are nouns of the field, so that other parameters are called so too."""


def parameters():
    """Yield the module, function, name and default of every parameter in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            positional = [*node.args.posonlyargs, *node.args.args]
            defaults = [*[None] * (len(positional) - len(node.args.defaults)), *node.args.defaults]
            keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            for parameter, default in [*zip(positional, defaults, strict=True), *keywords]:
                yield path.relative_to(PACKAGE).as_posix(), node.name, parameter.arg, default


def test_an_option_of_scoring_is_a_parameter_only_where_it_is_used():
    found = {}
    for module, _, name, _ in parameters():
        if name in ScoringOptions.names() and name not in NOUNS:
            found.setdefault(name, set()).add(module)
    assert found == USES


def test_no_signature_repeats_the_default_of_an_option():
    defaults = {name: value for name, value in ScoringOptions().to_dict().items() if value is not None}
    repeated = [
        f"{module}: {function}({name}={default.value!r})"
        for module, function, name, default in parameters()
        if isinstance(default, ast.Constant) and name in defaults and default.value == defaults[name]
    ]
    assert not repeated, "use ScoringOptions, or those of the scorer"


def test_keywords_have_the_names_and_types_of_the_options():
    hints = ScoringKeywords.__annotations__
    assert ["words", *hints] == ScoringOptions.names()
    for declared in fields(ScoringOptions):
        if declared.name != "words":
            assert hints[declared.name].__forward_arg__.replace("Collection", "Sequence") == declared.type


@pytest.mark.parametrize("options", [ScoringOptions, TableLayout])
def test_every_option_is_described(options):
    described = {name.strip() for line in inspect.getdoc(options).splitlines() for name in line.split(",")}
    assert set(options.names()) <= described


def test_tables_take_few_parameters():
    assert len(inspect.signature(wordprob.score_table).parameters) == 7


# --- defaults of a scorer ---------------------------------------------------------------------------------------------

TEXT = "She saw the mark."


@pytest.fixture(scope="module")
def scorer():
    return wordprob.load("exact:bow")


def test_a_scorer_with_other_defaults(scorer):
    by_name = scorer.score(TEXT, "punctuation", unit="nats", spellings="all", extras=["token_entropy"])
    other = scorer.with_options(words="punctuation", unit="nats", spellings="all", extras=["token_entropy"])
    assert other.model is scorer.model
    assert scorer.options == ScoringOptions()
    pd.testing.assert_frame_equal(other.score(TEXT).to_pandas(), by_name.to_pandas())
    assert other.score(TEXT).metadata == by_name.metadata
    assert other.score(TEXT, "whitespace", unit="bits").metadata["words"] == "whitespace"
    assert other.with_options(unit="bits").options == other.options.updated({"unit": "bits"})
    assert other.with_options(ScoringOptions()).options == ScoringOptions()


def test_every_method_has_the_defaults_of_its_scorer(scorer):
    other = scorer.with_options(words="punctuation", unit="nats", max_open=3)
    assert other.score_continuations("She saw the", ["mark."]).to_pandas()["word"].tolist() == ["mark", "."]
    assert other.score_candidates("She saw the", ["mark"]).unit == "nats"
    found = other.next_words("She saw the", top=1)
    assert (found.unit, found.opened <= 3) == ("nats", True)
    assert scorer.with_options(unit="nats").spellings("the", "mark").unit == "nats"
    assert wordprob.check_sum(other, "She saw the").words == "punctuation"
    table = pd.DataFrame({"text": [TEXT]})
    assert wordprob.score_table(table, other, per_word=True).to_pandas()["word"].tolist()[-1] == "."
    words = pd.DataFrame({"word": ["She", "saw"], "item": [1, 1]})
    scored = wordprob.score_table(words, other, group_by="item")
    assert (len(scored.to_pandas()), scored.unit) == (2, "nats"), "what a word is says the table"


def test_given_words_go_with_any_default(scorer):
    given = scorer.with_options(words="punctuation").score("She saw", [["She", "saw"]])
    assert given.metadata["words"] == "given, by whitespace"


@pytest.mark.parametrize(
    ("wrong", "meant"), [("unitt", "unit"), ("spelling", "spellings"), ("id", "ids"), ("max_opened", "max_open")]
)
def test_a_keyword_that_does_not_exist(scorer, wrong, meant):
    with pytest.raises(OptionError, match=f"no option of scoring called '{wrong}'. Did you mean.*{meant}"):
        scorer.score(TEXT, **{wrong: "x"})
    with pytest.raises(OptionError, match="no option of scoring called 'text_colum'. Did you mean text_column"):
        wordprob.score_table(pd.DataFrame({"text": [TEXT]}), scorer, text_colum="text")


def test_an_option_that_would_be_ignored_is_refused(scorer):
    with pytest.raises(OptionError, match="`extras` has no effect here; leave it out. It takes: words, unit"):
        scorer.next_words("She saw the", extras=["token_rank"])
    with pytest.raises(OptionError, match="`tolerance` has no effect here.*It takes: words, max_open"):
        wordprob.check_sum(scorer, "She saw the", tolerance=0.1)
    with pytest.raises(OptionError, match="`readers` has no effect here"):
        scorer.spellings("the", "mark", readers=2)


def test_a_layout_as_one_object_or_by_name(scorer):
    table = pd.DataFrame({"sentence": [TEXT], "item": [1]})
    layout = TableLayout(text_column="sentence", per_word=True, prefix="wp_")
    by_object = wordprob.score_table(table, scorer, layout).to_pandas()
    by_name = wordprob.score_table(table, scorer, text_column="sentence", per_word=True, prefix="wp_").to_pandas()
    pd.testing.assert_frame_equal(by_object, by_name)
    both = wordprob.score_table(table, scorer, layout, prefix="x_").to_pandas()
    assert np.array_equal(both["x_surprisal"], by_name["wp_surprisal"])


def test_scorers_with_different_defaults_are_not_mixed(scorer):
    table = pd.DataFrame({"text": [TEXT]})
    scorers = [scorer, wordprob.load("exact:eow").with_options(unit="nats")]
    with pytest.raises(OptionError, match="different values of `unit`; specify it here"):
        wordprob.score_table(table, scorers)
    assert wordprob.score_table(table, scorers, unit="nats").unit == "nats"


def test_every_search_has_the_same_limit(scorer, monkeypatch):
    from wordprob.scoring import next_word_batch

    limits = []
    run = next_word_batch.SearchRunner.run
    monkeypatch.setattr(
        next_word_batch.SearchRunner, "run", lambda self, *given: limits.append(given[2]) or run(self, *given)
    )
    scorer.next_words("She saw the")
    wordprob.check_sum(scorer, "She saw the")
    assert limits == [ScoringOptions().max_open] * 2
