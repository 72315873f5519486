"""What the model said about boundaries, against loops over places and atoms."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import wordprob
from tiny_models import build
from wordprob.core.atoms import OpenShares
from wordprob.core.words import define
from wordprob.options import ScoringOptions
from wordprob.scoring import collect, requests
from wordprob.scoring.collect import CollectedScores, EndingColumns, ending_mass
from wordprob.scoring.passages import Chunk, passages_of
from wordprob.scoring.requests import ask_along_texts, window_requests

TEXTS = ["So it was. (Was it?) He said 'no', and she's gone.", "", "One", "It was in the evening that she came home."]


@pytest.mark.parametrize(("precision", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-13)])
def test_the_mass_that_ends_a_word_is_a_sum_over_atoms(precision, tolerance, monkeypatch):
    monkeypatch.setattr(collect, "PLACES_AT_ONCE", 8)
    random = np.random.default_rng(0)
    log_masses = random.uniform(-30, 0, (50, 20)).astype(precision)
    log_masses[7] = -80.0  # too little for sums in single precision
    kinds = random.integers(0, 3, 20)  # ends no word, ends one, cut off
    members, counted, cut_off = (kinds == 1).astype(float), (kinds == 2) * 0.5, (kinds == 2) * 0.25
    ending = EndingColumns.of(members, OpenShares(counted, cut_off))
    rows = random.permutation(50)[:37]
    found = ending_mass(log_masses, rows, ending)
    for n, row in enumerate(rows.tolist()):
        masses = [math.exp(value) for value in log_masses[row].tolist()]
        sure = math.fsum(mass for mass, kind in zip(masses, kinds, strict=True) if kind == 1)
        open_mass = math.fsum(mass for mass, kind in zip(masses, kinds, strict=True) if kind == 2)
        expected = (math.log(sure + open_mass / 2), open_mass / 2, open_mass / 4)
        np.testing.assert_allclose([values[n] for values in found], expected, rtol=tolerance, atol=tolerance)
    for some in (slice(0, 1), slice(3, 20), slice(20, 37)):
        for part, whole in zip(ending_mass(log_masses, rows[some], ending), found, strict=True):
            assert part.tolist() == whole[some].tolist(), "the same whatever other places are asked about"


def test_where_nothing_ends_a_word_there_is_no_mass():
    nothing = np.zeros(4)
    found = ending_mass(np.zeros((3, 4)), np.array([2, 0]), EndingColumns.of(nothing, OpenShares(nothing, nothing)))
    assert [values.tolist() for values in found] == [[-math.inf] * 2, [0.0] * 2, [0.0] * 2]


@pytest.mark.parametrize("max_text_tokens", [None, 8])
def test_masses_at_boundaries_are_those_of_the_answer_about_their_row(tokenizer_of, monkeypatch, max_text_tokens):
    monkeypatch.setattr(requests, "ROWS_AT_ONCE", 10)
    scorer = wordprob.Scorer(build("llama3", tokenizer_of))
    settings = replace(scorer.settings(ScoringOptions()), max_text_tokens=max_text_tokens)
    preparer = scorer.preparer(define("punctuation"))
    prepared = preparer.prepare(Chunk(passages_of(TEXTS)), settings)
    asked = window_requests(prepared)
    all_answers = list(ask_along_texts(scorer.model, preparer.atoms, prepared, asked))
    assert len(all_answers) > 1
    collected = CollectedScores.empty(prepared)
    boundaries = np.arange(len(prepared.boundary_sets))
    assert np.isnan(collected.boundary_masses[boundaries]).all()
    rows = {}
    for answers in all_answers:
        collected.add(prepared, answers)
        for window, scores in answers.scores:
            # The row after the last token of a window is answered for by the next one, after another context.
            answered = scores.mass if asked.reaches_end[window] else scores.mass[:-1]
            rows |= {int(asked.first_rows[window]) + n: mass for n, mass in enumerate(answered)}
    expected = [rows[row] for row in prepared.alignment.boundary_rows.tolist()]
    np.testing.assert_array_equal(collected.boundary_masses[boundaries], expected)
    np.testing.assert_array_equal(collected.boundary_masses[boundaries[::-2]], expected[::-2])
