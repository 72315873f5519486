"""Minimal pairs: totals, differences, what is preferred, and accuracies with an interval."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import wordprob
from wordprob.analysis.pair_accuracy import accuracy, wilson
from wordprob.cli import main
from wordprob.errors import InputError, OptionError
from wordprob.stimuli.pairs import read_pairs, score_pairs

SCORER = wordprob.load("exact:bow")
PAIRS = pd.DataFrame(
    {
        "pair_id": ["007", "8", "9"],
        "sentence_good": ["She saw the mark", "She saw the marker", "the mark"],
        "sentence_bad": ["She saw the marker", "She saw the mark", "the mark"],
        "phenomenon": ["noun", "noun", "none"],
    }
)


def total(text: str) -> float:
    return float(SCORER.score(text).to_pandas()["surprisal"].sum())


def test_totals_and_what_is_preferred():
    found = score_pairs(PAIRS, SCORER).to_pandas()
    pd.testing.assert_frame_equal(found[list(PAIRS.columns)], PAIRS)
    assert found["surprisal_sentence_good"].tolist() == pytest.approx([total(t) for t in PAIRS["sentence_good"]])
    assert found["surprisal_sentence_bad"].tolist() == pytest.approx([total(t) for t in PAIRS["sentence_bad"]])
    assert found["preferred"].tolist() == ["sentence_good", "sentence_bad", "neither"]
    assert found["difference"].tolist()[2] == 0


def test_accuracy_overall_and_by_a_column():
    found = accuracy(score_pairs(PAIRS, SCORER).to_pandas(), "phenomenon")
    corrected = found[found["measure"] == "surprisal"].set_index("phenomenon")
    assert corrected["accuracy"].to_dict() == {"(all)": 0.5, "noun": 0.5, "none": 0.5}
    assert corrected["n_pairs"].to_dict() == {"(all)": 3, "noun": 2, "none": 1}
    assert corrected.loc["(all)", "n_ties"] == 1
    with pytest.raises(InputError, match="no column 'phenomena'. Did you mean phenomenon"):
        accuracy(score_pairs(PAIRS, SCORER).to_pandas(), "phenomena")


def test_the_interval_is_wilsons():
    stats = pytest.importorskip("scipy.stats")
    for n_right, n in ((0, 5), (5, 5), (17, 40), (960, 1000)):
        interval = stats.binomtest(n_right, n).proportion_ci(0.95, method="wilson")
        assert wilson(n_right, n) == pytest.approx((interval.low, interval.high))
    assert all(map(math.isnan, wilson(0, 0)))


def test_the_words_that_differ_are_compared_alone():
    found = score_pairs(PAIRS[:2], SCORER, region="different").to_pandas()
    last = [SCORER.score(text).to_pandas()["surprisal"].tolist()[-1] for text in PAIRS["sentence_good"][:2]]
    assert found["surprisal_sentence_good"].tolist() == pytest.approx(last)
    same = score_pairs(PAIRS, SCORER, region="different").to_pandas()
    assert math.isnan(same["difference"][2])
    assert same["note"].tolist() == [
        "",
        "",
        "the two sentences are the same, or one only has more words: no words to compare",
    ]
    with pytest.raises(InputError, match="no two sentences differ"):
        score_pairs(PAIRS[2:], SCORER, region="different")


def test_targets_and_marks():
    table = PAIRS[:2].assign(a=["saw", "saw"], b=["saw", "saw"])
    found = score_pairs(table, SCORER, target_columns="a,b").to_pandas()
    assert found["difference"].tolist() == [0, 0]
    marked = pd.DataFrame({"good": ["She *saw* the mark"], "bad": ["the *mark*"]})
    found = score_pairs(marked, SCORER, marks="stars").to_pandas()
    assert found["surprisal_good"].tolist() == pytest.approx(
        SCORER.score("She saw").to_pandas()["surprisal"].tolist()[1:]
    )
    with pytest.raises(InputError, match="'good' has 2 regions; mark one in each"):
        score_pairs(marked.assign(good="*She* *saw*"), SCORER, marks="stars")
    with pytest.raises(OptionError, match="specify one of them"):
        score_pairs(marked, SCORER, marks="stars", region="different")


def test_several_models_long_and_wide():
    models = ["exact:bow", "exact:eow"]
    long = score_pairs(PAIRS, models).to_pandas()
    assert long["model"].tolist() == ["exact:bow"] * 3 + ["exact:eow"] * 3
    wide = score_pairs(PAIRS, models, shape="wide").to_pandas()
    assert len(wide) == 3
    assert wide["difference_exact_bow"].tolist() == long["difference"].tolist()[:3]
    pairs = read_pairs(PAIRS)
    pd.testing.assert_frame_equal(pairs.reshaped(pairs.score(models), "wide").to_pandas(), wide)
    assert len(accuracy(long)) == 4


def test_a_missing_value_is_left_out_and_explained():
    table = pd.DataFrame({"good": ["She saw", ""], "bad": ["She saw the", "She"]})
    found = score_pairs(table, SCORER)
    frame = found.to_pandas()
    assert math.isnan(frame["difference"][1])
    assert frame["preferred"].tolist() == ["good", ""]
    assert frame["note"].tolist()[1] == "good: no words"
    assert accuracy(frame)["n_missing"].tolist() == [1, 1]
    assert not np.isnan(accuracy(frame)["accuracy"]).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pair": "sentence_good"}, "`pair` is 'sentence_good'; it must be two columns"),
        ({"pair": "sentence_good,sentence_god"}, "no column 'sentence_god'. Did you mean sentence_good"),
        ({"pair": "sentence_good,sentence_good"}, "names the column 'sentence_good' twice"),
        ({"region": "verb"}, "no region is called 'verb'; use whole or different"),
        ({"table": PAIRS.assign(difference=1)}, "called difference already"),
        ({"table": PAIRS.drop(columns="sentence_bad")}, "cannot tell which columns .* Name both with `pair`"),
    ],
)
def test_what_is_wrong_is_said(options, message):
    with pytest.raises(InputError, match=message):
        score_pairs(**{"table": PAIRS, "model": SCORER, **options})


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["wordprob", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


def test_blimp_on_the_command_line(command):
    """BLiMP's own layout: JSON lines with further keys, which come back as they were."""
    lines = [
        '{"sentence_good": "She saw the mark", "sentence_bad": "the saw", "UID": "x_1", "pairID": "0"}',
        '{"sentence_good": "She saw the marker", "sentence_bad": "She saw the mark", "UID": "x_2", "pairID": "1"}',
    ]
    Path("blimp.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = ["pairs", "blimp.jsonl", "--by", "UID", "--model", "exact:bow", "-o", "out.jsonl", "--summary", "a.tsv"]
    code, out, err = command(*arguments)
    assert code == 0
    assert "guessed from the names of columns: --pair sentence_good,sentence_bad" in err
    shown = pd.read_csv(io.StringIO(out), sep="\t")
    assert shown["UID"].tolist()[:3] == ["(all)", "x_1", "x_2"]
    pd.testing.assert_frame_equal(pd.read_csv("a.tsv", sep="\t"), shown)
    written = Path("out.jsonl").read_text().splitlines()
    assert all(line.startswith(own.removesuffix("}")) for line, own in zip(written, lines, strict=True))
    assert json.loads(written[1])["preferred"] == "sentence_bad"
    about = json.loads(Path("out.jsonl.meta.json").read_text())
    assert (about["pair"], about["input"], about["region"]) == ("sentence_good,sentence_bad", "blimp.jsonl", "whole")


def test_wide_and_prefixes_on_the_command_line(command):
    PAIRS.to_csv("pairs.csv", index=False)
    models = ["--model", "exact:bow", "--model", "exact:eow"]
    options = ["--pair", "sentence_good,sentence_bad", "--shape", "wide", "--prefix", "wp_", "-o", "out.csv"]
    code, out, err = command("pairs", "pairs.csv", *models, *options)
    assert (code, err) == (0, "")
    assert pd.read_csv(io.StringIO(out), sep="\t")["model"].tolist() == ["exact:bow"] * 2 + ["exact:eow"] * 2
    assert {"wp_difference_exact_bow", "wp_preferred_exact_eow"} <= set(pd.read_csv("out.csv").columns)
    code, out, err = command("pairs", "pairs.csv", *models, "--region", "words")
    assert (code, out) == (2, "")
    assert "no region is called 'words'" in err
    assert command("pairs", "pairs.csv", "--by", "nothing", *models)[0] == 1


def test_scored_pairs_are_no_wide_table_of_models(tmp_path):
    from wordprob.analysis.input_tables import read_scored

    path = score_pairs(PAIRS, SCORER).write(tmp_path / "pairs.csv")
    frame, _ = read_scored(path)
    assert len(frame) == len(PAIRS)
    assert "model" not in frame.columns
