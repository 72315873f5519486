"""Options are declared once and checked when they are given; every front end has them."""

from __future__ import annotations

import pytest

from wordprob.core.words import Punctuation
from wordprob.errors import OptionError, UnknownModelError
from wordprob.options import ModelOptions, ScoringOptions, info_of, option


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
    from dataclasses import fields

    for declared in fields(options):
        assert info_of(declared).help.endswith("."), declared.name


def test_a_declared_option_is_a_field():
    assert option(3, "A number.", minimum=1).metadata["option"].minimum == 1
