"""The corpora's own releases, one row for each participant and word: from file to means to study.

No release is at hand here. The files are made up, in the published formats: the headers and shapes are theirs, the
words and times are not.
"""

import json
import math
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from wordprob import corpora
from wordprob.analysis.reading_time_preparation import Cleaning, average, count_times
from wordprob.cli.reading_times import reading_times
from wordprob.errors import AlignmentError, EncodingError, InputError, UnsupportedError

TEXTS = ["She saw the mark", "She saw the marker", "She saw the mark saw"] * 4
PEOPLE = ("sa", "sb", "sc", "sd", "se", "sf")

Readings = dict[tuple[str, int, int], float]
"""Participant, text (from 1), word (from 0): the time."""


def made_up(skips: bool) -> Readings:
    random = np.random.default_rng(7)
    times = {
        (who, text, word): float(round(180 + 25 * len(spelt) + random.normal(0, 20)))
        for who in PEOPLE
        for text, line in enumerate(TEXTS, start=1)
        for word, spelt in enumerate(line.split())
    }
    times["sa", 1, 1] = 90_000.0  # an outlier
    if skips:
        times |= dict.fromkeys([key for key in times if random.random() < 0.2], 0.0)
    return times


def means(times: Readings) -> dict[tuple[int, int], float]:
    """The paper's protocol, spelt out: |z| > 3 of the log over all times but 0, then the mean of what is left."""
    logs = [math.log(time) for time in times.values() if time > 0]
    centre = sum(logs) / len(logs)
    spread = math.sqrt(sum((x - centre) ** 2 for x in logs) / len(logs))
    kept: dict[tuple[int, int], list[float]] = {}
    for (_, text, word), time in times.items():
        if time == 0 or abs(math.log(time) - centre) <= 3 * spread:
            kept.setdefault((text, word), []).append(time)
    return {place: sum(values) / len(values) for place, values in kept.items()}


# --- files in the published formats --------------------------------------------------------------------------------


def natural_stories(folder: Path, times: Readings) -> None:
    """As in a copy of its repository."""
    folder = folder / "naturalstories_RTS"
    folder.mkdir()
    rows = [
        {"WorkerId": who, "WorkTimeInSeconds": 1000, "correct": 6, "item": text, "zone": word + 1, "RT": time,
         "word": TEXTS[text - 1].split()[word], "nItem": 6, "meanItemRT": 1, "sdItemRT": 1, "gmeanItemRT": 1,
         "gsdItemRT": 1}
        for (who, text, word), time in times.items()
    ]  # fmt: skip
    pd.DataFrame([*rows, rows[0]]).to_csv(folder / "processed_RTs.tsv", sep="\t", index=False)
    tokens = [(word, n, text) for text, line in enumerate(TEXTS, 1) for n, word in enumerate(line.split(), 1)]
    pd.DataFrame(tokens, columns=["word", "zone", "item"]).to_csv(folder / "all_stories.tok", sep="\t", index=False)


EYE = (
    "RECORDING_SESSION_LABEL,Participant_ID,Word_Unique_ID,Text_ID,Word_Number,Sentence_Number,Word_In_Sentence_Number,"
    "Word,Word_Cleaned,Word_Length,Total_Response_Count,Unique_Count,OrthographicMatch,OrthoMatchModel,IsModalResponse,"
    "ModalResponse,ModalResponseCount,Certainty,POS_CLAWS,Word_Content_Or_Function,Word_POS,POSMatch,POSMatchModel,"
    "InflectionMatch,InflectionMatchModel,LSA_Context_Score,LSA_Response_Match_Score,IA_ID,IA_LABEL,TRIAL_INDEX,IA_LEFT,"
    "IA_RIGHT,IA_TOP,IA_BOTTOM,IA_AREA,IA_FIRST_FIXATION_DURATION,IA_FIRST_FIXATION_INDEX,"
    "IA_FIRST_FIXATION_VISITED_IA_COUNT,IA_FIRST_FIXATION_X,IA_FIRST_FIXATION_Y,IA_FIRST_FIX_PROGRESSIVE,"
    "IA_FIRST_FIXATION_RUN_INDEX,IA_FIRST_FIXATION_TIME,IA_FIRST_RUN_DWELL_TIME,IA_FIRST_RUN_FIXATION_COUNT,"
    "IA_FIRST_RUN_END_TIME,IA_FIRST_RUN_FIXATION_.,IA_FIRST_RUN_START_TIME,IA_DWELL_TIME,IA_FIXATION_COUNT,IA_RUN_COUNT,"
    "IA_SKIP,IA_REGRESSION_IN,IA_REGRESSION_IN_COUNT,IA_REGRESSION_OUT,IA_REGRESSION_OUT_COUNT,IA_REGRESSION_OUT_FULL,"
    "IA_REGRESSION_OUT_FULL_COUNT,IA_REGRESSION_PATH_DURATION,IA_FIRST_SACCADE_AMPLITUDE,IA_FIRST_SACCADE_ANGLE,"
    "IA_FIRST_SACCADE_END_TIME,IA_FIRST_SACCADE_START_TIME"
).split(",")
NORM = (
    "Word_Unique_ID,Text_ID,Text,Word_Number,Sentence_Number,Word_In_Sentence_Number,Word,Response,Response_Count,"
    "Total_Response_Count,Response_Proportion"
).split(",")


def eye_row(who: str, text: int, number: float | str, word: str, time: float) -> dict[str, object]:
    """A word that was skipped at first pass has no first run, or one that began later."""
    run = "NA" if time == 0 and number != 3 else time or 240.0
    return {"Participant_ID": who, "Text_ID": text, "Word_Number": number, "Word": word, "IA_LABEL": f"{word} ",
            "IA_FIRST_RUN_DWELL_TIME": run, "IA_SKIP": int(time == 0)}  # fmt: skip


def write_provo(folder: Path, rows: list[dict[str, object]], texts: list[tuple[int, str]]) -> None:
    eye = pd.DataFrame(rows).reindex(columns=EYE).fillna("NA")
    eye.to_csv(folder / "Provo_Corpus-Eyetracking_Data.csv", index=False, encoding="mac_roman")
    norms = pd.DataFrame([{"Text_ID": text, "Text": line} for text, line in texts]).reindex(columns=NORM).fillna("NA")
    norms.to_csv(folder / "Provo_Corpus-Predictability_Norms.csv", index=False, encoding="mac_roman")


def provo(folder: Path, times: Readings) -> None:
    rows = [
        eye_row(who, text, word + 1 if word else "NA", TEXTS[text - 1].split()[word] if word else "NA", time)
        for (who, text, word), time in times.items()
    ]
    write_provo(folder, rows, list(enumerate(TEXTS, start=1)) * 2)


def brown(folder: Path, times: Readings) -> None:
    rows = [
        {"word": TEXTS[text - 1].split()[word], "code": f"{text}-{word}", "subject": who, "text_id": text - 1,
         "text_pos": word, "word_in_exp": n, "time": time}
        for n, ((who, text, word), time) in enumerate(times.items())
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(folder / "brown_spr.csv")


def write_dundee(
    folder: Path, texts: list[str], fixations: dict[tuple[str, int], list[tuple[int, float, int]]]
) -> None:
    (folder / "texts").mkdir()
    (folder / "eye-tracking").mkdir()
    for text, line in enumerate(texts, start=1):
        info = [f"{w:<20} {text} 1 1 {n} {n} 5 {len(w)} {len(w)} 0 0 0 {n} 7" for n, w in enumerate(line.split(), 1)]
        (folder / "texts" / f"tx{text:02d}wrdp.dat").write_text("\n".join(info) + "\n", encoding="cp1252")
    for (who, text), rows in fixations.items():
        lines = ["WORD TEXT LINE OLEN WLEN XPOS WNUM FDUR OBLP WDLP FXNO TXFR"]
        for number, time, order in rows:
            word = texts[text - 1].split()[number - 1][:20]
            lines.append(f"{word} {1 if order else -99} 1 {len(word)} {len(word)} 9 {number} {time:g} 3 3 {order} 7")
        path = folder / "eye-tracking" / f"{who}{text:02d}ma2p.dat"
        path.write_text("\n".join(lines) + "\n", encoding="cp1252")


def dundee(folder: Path, times: Readings) -> None:
    """Every gaze of two fixations; a participant who is left out; skipped words with a row of zeros."""
    fixations: dict[tuple[str, int], list[tuple[int, float, int]]] = {}
    for (who, text, word), time in [*times.items(), *((("sg", t, w), 5000.0) for (_, t, w) in times)]:
        rows = fixations.setdefault((who, text), [])
        order = 2 * len(rows) + 1
        rows += [(word + 1, time - 80, order), (word + 1, 80.0, order + 1)] if time else [(word + 1, 0.0, 0)]
    write_dundee(folder, TEXTS, fixations)


def meco_frame(times: Readings, words: list[str] = TEXTS) -> pd.DataFrame:
    return pd.DataFrame([
        {"uniform_id": f"fi_{who}", "lang": "fi", "subid": who, "trialid": float(text), "sentnum": 1.0,
         "ianum": word + 1.0, "ia": words[text - 1].split(" ")[word], "skip": float(time == 0), "nrun": 1.0,
         "dur": time + 50, "firstrun.skip": 0.0, "firstrun.dur": time or math.nan, "firstfix.dur": 100.0}
        for (who, text, word), time in times.items()
    ])  # fmt: skip


def write_r(path: Path, **tables: object) -> None:
    """Write objects as R does; ``joint_data`` is joint.data."""
    rdata = pytest.importorskip("rdata")
    # The package writes columns of objects, but not text in Arrow's memory.
    plain = {
        name.replace("_", "."): table.astype(dict.fromkeys(table.select_dtypes("string"), object))
        if isinstance(table, pd.DataFrame)
        else table
        for name, table in tables.items()
    }
    rdata.write_rda(path, plain)


def meco(folder: Path, times: Readings) -> None:
    frame = meco_frame(times)
    both = pd.concat([frame, frame.assign(lang="ge", ia="andere")])
    both.to_csv(folder / "joint_data_trimmed.csv", index=False, na_rep="NA")


RELEASES: dict[str, tuple[Callable[[Path, Readings], None], bool]] = {
    "natural_stories-raw": (natural_stories, False),
    "provo-raw": (provo, True),
    "brown-raw": (brown, False),
    "dundee": (dundee, True),
    "meco-fi-raw": (meco, True),
}


@pytest.mark.parametrize("name", RELEASES)
def test_from_file_to_means(name: str, tmp_path: Path) -> None:
    write, skips = RELEASES[name]
    times = made_up(skips)
    write(tmp_path, times)
    found = corpora.load(name, tmp_path)
    assert list(found.texts) == TEXTS
    assert found.words["word"].tolist() == " ".join(TEXTS).split()
    assert found.readings is not None
    if name == "provo-raw":  # its first words have no number
        times = {key: time for key, time in times.items() if key[2] > 0}
    assert len(found.readings) == len(times)
    rows = average(found.words, found.readings, Cleaning())
    expected = means(times)
    for row in rows.itertuples():
        assert row.time == pytest.approx(expected.get((row.text_id, row.word_id), math.nan), nan_ok=True)
        assert row.word_len == len(row.word)
    counts = count_times(found.readings["time"].to_numpy(), Cleaning())
    assert counts["outliers"] == 1
    assert counts["zero"] == sum(time == 0 for time in times.values())


@pytest.mark.parametrize("name", RELEASES)
def test_release_can_be_studied(name: str, tmp_path: Path) -> None:
    write, skips = RELEASES[name]
    (tmp_path / "data").mkdir()
    write(tmp_path / "data", made_up(skips))
    (tmp_path / "unigrams.csv").write_text("she,40\nsaw,90\nthe,100\nmark,7\nmarker,3\n", encoding="utf-8")
    arguments = ["--corpus", name, "--data-dir", tmp_path / "data", "--frequencies", tmp_path / "unigrams.csv",
                 "--model", "exact:bow", "--spillover", 0, "--baseline", "time ~ word_len", "--n-folds", 4,
                 "-o", tmp_path / "results"]  # fmt: skip
    done = CliRunner().invoke(reading_times, [str(a) for a in arguments], catch_exceptions=False, standalone_mode=False)
    about = json.loads((tmp_path / "results" / "provenance.json").read_text(encoding="utf-8"))
    assert about["cleaning"][name]["participants"] == len(PEOPLE)
    assert about["cleaning"][name]["outliers"] == 1
    assert about["citations"][name]
    assert f"{name}: {about['cleaning'][name]['times']} times" in done.stderr
    assert about["datasets"][0]["used"] == 52 - (12 if name == "provo-raw" else 0)
    assert len(pd.read_csv(tmp_path / "results" / "summary.tsv", sep="\t")) == 3


# --- what is odd about each ----------------------------------------------------------------------------------------


def test_natural_stories_without_its_word_list_uses_the_papers_text(tmp_path: Path) -> None:
    """Without the release's own word list, the paper's text; a word that differs is named."""
    text = " ".join(f"w{n}" for n in range(200))
    (tmp_path / "natural_stories.txt").write_text(text + "\n", encoding="utf-8")
    rows = pd.DataFrame(
        {"WorkerId": "a", "item": 1, "zone": range(1, 201), "RT": range(200, 400), "word": text.split()}
    )
    rows.assign(word=rows["word"].replace("w7", "v7")).to_csv(tmp_path / "processed_RTs.tsv", sep="\t", index=False)
    found = corpora.load("natural_stories-raw", tmp_path)
    assert found.texts == (text,)
    assert "text 1 word 7: 'v7', the text has 'w7'" in found.notes[0]
    assert any("differs from the registered file" in note for note in found.notes)
    assert "realigned" in found.notes[-1]


def test_natural_stories_shifted_by_one_word_is_refused(tmp_path: Path) -> None:
    natural_stories(tmp_path, made_up(False))
    path = tmp_path / "naturalstories_RTS" / "processed_RTs.tsv"
    rows = pd.read_csv(path, sep="\t")
    rows.assign(zone=rows["zone"] + 1).to_csv(path, sep="\t", index=False)
    with pytest.raises(AlignmentError, match=r"times do not fit the text: text 1 word 1: 'She', the text has 'saw'"):
        corpora.load("natural_stories-raw", tmp_path)


def test_provo_with_changed_words_and_skipped_numbers(tmp_path: Path) -> None:
    """Numbers that skip, words that a spreadsheet changed, another encoding, a text in two spellings."""
    line = "Most doesn't help; 90% of women’s rights — true it. It is."
    words = [(2, "doesn't"), (3, "help"), (4, "0.9"), (5, "of"), (6, "women?s"), (8, "rights"), (9, "TRUE"), (10, "it"),
             (11, "It"), (12, "is")]  # fmt: skip
    rows = [eye_row(who, 1, number, word, 200.0) for who in "ab" for number, word in words]
    write_provo(tmp_path, rows, [(1, line.replace("doesn't", "doesn’t")), (1, line)])
    found = corpora.load("provo-raw", tmp_path)
    assert found.texts == (line,)
    assert found.readings is not None
    assert found.readings["word_id"].tolist()[:10] == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11]
    write_provo(tmp_path, [*rows, eye_row("a", 1, 13, "nowhere", 200.0)], [(1, line)])
    with pytest.raises(AlignmentError, match=r"text 1 word 13: 'nowhere' is not in the text"):
        corpora.load("provo-raw", tmp_path)


def test_brown_words_that_contain_spaces(tmp_path: Path) -> None:
    columns = ["word", "code", "subject", "text_id", "text_pos", "word_in_exp", "time"]
    rows = [(word, "c", who, 0, n, n, 300) for who in "ab" for n, word in enumerate(["In", "N. Y. --", "NA"])]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "brown_spr.csv")
    assert corpora.load("brown-raw", tmp_path).texts == ("In N.Y., NA",)
    pd.DataFrame([row for row in rows if row[4] != 1], columns=columns).to_csv(tmp_path / "brown_spr.csv")
    with pytest.raises(AlignmentError, match="words are missing before text 1 word 2"):
        corpora.load("brown-raw", tmp_path)


def test_dundee_first_pass_gaze_durations(tmp_path: Path) -> None:
    """A gaze lasts until the eye leaves; a second visit does not count, nor a first one after a later word."""
    text = "A incomprehensibilities, met (her) twice"
    fixations = [(1, 100, 1), (1, 50, 4), (2, 200, 6), (3, 70, 2), (3, 80, 3), (3, 90, 5), (4, 0, 0), (5, 60, 7)]
    write_dundee(tmp_path, [text], {("sa", 1): fixations, ("sg", 1): fixations})
    found = corpora.load("dundee", tmp_path)
    assert found.texts == (text,)
    assert found.readings is not None
    assert found.readings["time"].tolist() == [100, 0, 150, 0, 60]
    assert set(found.readings["participant"]) == {"sa"}
    assert not [note for note in found.notes if "spelt otherwise" in note], "a word cut off is the same word"
    path = tmp_path / "texts" / "tx01wrdp.dat"
    path.write_text(path.read_text(encoding="cp1252").replace(" 3 7\n", " 9 7\n"), encoding="cp1252")
    with pytest.raises(InputError, match=r"tx01wrdp.dat: the words should be numbered 1, 2, …"):
        corpora.load("dundee", tmp_path)


def test_meco_blank_words_and_gaps_are_closed(tmp_path: Path) -> None:
    """An empty word, and a number that nobody has, are no words."""
    times = {(who, 1, word): 200.0 + word for who in "ab" for word in (0, 1, 2, 4)}
    meco_frame(times, ["Yksi  talo kissa oli"]).to_csv(tmp_path / "joint_data_trimmed.csv", index=False)
    found = corpora.load("meco-fi-raw", tmp_path)
    assert found.texts == ("Yksi talo oli",)
    assert found.readings is not None
    assert found.readings["time"].tolist() == [200, 202, 204] * 2


def test_meco_from_an_r_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = made_up(True)
    frame = meco_frame(times)
    write_r(tmp_path / "joint_data_trimmed.rda", joint_data=frame)
    found = corpora.load("meco-fi-raw", tmp_path)
    assert found.readings is not None
    assert found.readings["time"].tolist() == list(times.values())
    # Version 2 of the release calls two columns otherwise.
    newer = tmp_path / "newer"
    newer.mkdir()
    frame.rename(columns={"ianum": "wordnum", "ia": "word"}).to_csv(
        newer / "joint_l1_data_trimmed_version2.1.csv", index=False
    )
    pd.testing.assert_frame_equal(corpora.load("meco-fi-raw", newer).readings, found.readings)
    with pytest.raises(InputError, match="no rows whose lang is 'tr'"):
        corpora.load("meco-tr-raw", newer)
    monkeypatch.setitem(sys.modules, "rdata", None)
    with pytest.raises(UnsupportedError, match=r"pip install rdata; or in R: load"):
        corpora.load("meco-fi-raw", tmp_path)


def test_columns_of_an_r_file_may_be_factors_and_integers_with_missing_values(tmp_path: Path) -> None:
    times = made_up(True)
    frame = meco_frame(times)
    words = frame["ia"].astype("string").where(frame.index != 3)
    frame = frame.assign(lang=frame["lang"].astype("category"), ia=words)
    for name in ("skip", "trialid", "ianum", "firstrun.dur"):
        frame[name] = frame[name].round().astype("Int32")
    frame.loc[5, "skip"] = pd.NA
    for folder in ("r", "csv"):
        (tmp_path / folder).mkdir()
    write_r(tmp_path / "r/joint_data_trimmed.rda", other=[1], joint_data=frame)
    frame.assign(ia=words.fillna("")).to_csv(tmp_path / "csv/joint_data_trimmed.csv", index=False, na_rep="NA")
    by_r, by_csv = (corpora.load("meco-fi-raw", tmp_path / folder) for folder in ("r", "csv"))
    assert by_r.texts == by_csv.texts
    pd.testing.assert_frame_equal(by_r.readings, by_csv.readings)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R")
@pytest.mark.parametrize("version", [2, 3])
def test_meco_from_a_file_that_r_wrote(tmp_path: Path, version: int) -> None:
    """A table of a class of its own, with words that are not ASCII."""
    pytest.importorskip("rdata")
    times = {(who, 1, word): 200.0 + word for who in "ab" for word in range(3)}
    meco_frame(times, ["Äiti söi λόγος"]).to_csv(tmp_path / "in.csv", index=False, na_rep="NA")
    script = f"""joint.data <- read.csv("in.csv", encoding = "UTF-8", stringsAsFactors = TRUE)
        class(joint.data) <- c("tbl_df", "tbl", "data.frame")
        save(joint.data, file = "joint_data_trimmed.rda", version = {version})"""
    subprocess.run(["Rscript", "-e", script], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "in.csv").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = corpora.load("meco-fi-raw", tmp_path)
    assert found.texts == ("Äiti söi λόγος",)
    assert found.readings is not None
    assert found.readings["time"].tolist() == list(times.values())


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"data": [1, 2]}, r"has no table joint\.data; it has data"),
        ({"joint_data": [1, 2]}, r"has no table joint\.data; it has joint\.data"),
        (b"RDX3", r"cannot be read as a file of R"),
    ],
)
def test_an_r_file_with_something_else(tmp_path: Path, contents: bytes | dict[str, object], message: str) -> None:
    pytest.importorskip("rdata")
    path = tmp_path / "joint_data_trimmed.rda"
    if isinstance(contents, bytes):
        path.write_bytes(contents)
    else:
        write_r(path, **contents)
    with pytest.raises(InputError, match=message):
        corpora.load("meco-fi-raw", tmp_path)


# --- bad files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RELEASES)
def test_error_for_an_empty_folder_says_what_to_get(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the folder has no .*, which .* is read from\. (Ask|Get|They are at)"):
        corpora.load(name, tmp_path)


def test_missing_columns_wrong_numbers_and_encodings_are_refused(tmp_path: Path) -> None:
    brown(tmp_path, made_up(False))
    rows = pd.read_csv(tmp_path / "brown_spr.csv", index_col=0)
    rows.drop(columns="subject").to_csv(tmp_path / "brown_spr.csv")
    with pytest.raises(InputError, match=r"no column 'subject'.*It has: .*text_pos"):
        corpora.load("brown-raw", tmp_path)
    rows.astype({"time": object}).assign(time=["fast", *rows["time"][1:]]).to_csv(tmp_path / "brown_spr.csv")
    with pytest.raises(InputError, match=r"column 'time' holds values that are not numbers: row 1: 'fast'"):
        corpora.load("brown-raw", tmp_path)
    (tmp_path / "brown_spr.csv").write_bytes("word,subject,text_id,text_pos,time\ncaf\xe9,a,0,0,1\n".encode("latin-1"))
    with pytest.raises(EncodingError, match="brown_spr.csv is not in the encoding"):
        corpora.load("brown-raw", tmp_path)
