"""Tables of stimuli: the rows come back unchanged, and the new columns are those of scoring the joined text."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import wordprob
from wordprob import score_table
from wordprob.errors import AlignmentError, EncodingError, InputError, OptionError, UnsupportedError
from wordprob.options import ModelOptions, ScoringOptions
from wordprob.stimuli.stimulus_reading import read_stimuli, stimuli_from_texts
from wordprob.tables import formats
from wordprob.tables.schema import COLUMNS

SCORER = wordprob.load("exact:bow")
WORDS = ["She", "saw", "the", "mark", "marker", "marked", "mark.", "marker?", "She's"]
PIECES = ["She", "saw", "the", "mark", "marker", "'s", ".", "?"]


def frame_of(texts: list[list[str]]) -> pd.DataFrame:
    rows = [(n, f"c{n % 2}", word, 100 + k) for n, words in enumerate(texts) for k, word in enumerate(words)]
    return pd.DataFrame(rows, columns=["item", "condition", "word", "rt"])


# --- the values are those of scoring the joined text ---------------------------------------------------------------


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=5))
def test_a_word_per_row_is_the_joined_text(texts):
    table = frame_of(texts)
    found = score_table(table, SCORER, word_column="word", group_by=["item", "condition"]).to_pandas()
    pd.testing.assert_frame_equal(found[list(table.columns)], table)
    truth = SCORER.score([" ".join(words) for words in texts]).to_pandas()
    for name in ("text_id", "word_id", "n_tokens", "surprisal", "surprisal_naive", "before", "after", "note"):
        pd.testing.assert_series_equal(found[name], truth[name], check_dtype=False, rtol=0, atol=0)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PIECES), st.booleans()), min_size=1, max_size=8))
def test_space_after_is_the_joined_text(pieces):
    table = pd.DataFrame({"item": 1, "piece": [p for p, _ in pieces], "space": [s for _, s in pieces]})
    found = score_table(table, SCORER, word_column="piece", group_by="item", space_after="space").to_pandas()
    text = "".join(piece + (" " if space else "") for piece, space in pieces).rstrip(" ")
    truth = SCORER.score(text, words=[piece for piece, _ in pieces]).to_pandas()
    for name in ("surprisal", "surprisal_naive", "note"):
        pd.testing.assert_series_equal(found[name], truth[name], rtol=0, atol=0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=5), min_size=1, max_size=6))
def test_a_text_per_row_is_the_sum_of_its_words(texts):
    table = pd.DataFrame({"text": [" ".join(words) for words in texts], "n": range(len(texts))})
    found = score_table(table, SCORER, text_column="text").to_pandas()
    assert len(found) == len(table)
    words = SCORER.score(table["text"]).to_pandas()
    for n, row in found.iterrows():
        total = words.loc[words["text_id"] == n, "surprisal"].sum()
        assert row["n_words"] == len(texts[n])
        if texts[n]:
            assert row["surprisal"] == pytest.approx(total, abs=1e-9)
        else:
            assert math.isnan(row["surprisal"])
            assert row["note"] == "no words"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=7),
    st.lists(st.sampled_from(["a", "b", ""]), min_size=7, max_size=7),
)
def test_regions_add_up_to_the_words(words, labels):
    table = frame_of([words]).assign(region=labels[: len(words)])
    per_word = score_table(table, SCORER, group_by="item").to_pandas()
    if not any(table["region"]):
        with pytest.raises(InputError, match="names no region"):
            score_table(table, SCORER, group_by="item", sum_by="region")
        return
    regions = score_table(table, SCORER, group_by="item", sum_by="region").to_pandas()
    kept = per_word[per_word["region"] != ""]
    assert regions["n_words"].sum() == len(kept)
    sums = [values["surprisal"].sum(skipna=False) for values in (regions, kept)]
    assert sums[0] == pytest.approx(sums[1], abs=1e-9, nan_ok=True)
    finite = np.isfinite(regions["surprisal"])
    terms = regions["surprisal_naive"] + regions["after"] - regions["before"]
    assert np.allclose(terms[finite], regions["surprisal"][finite], atol=1e-9)


def test_several_words_in_a_cell_are_taken_together():
    table = pd.DataFrame({"item": [1, 1], "word": ["She saw", "the mark"]})
    found = score_table(table, SCORER, group_by="item").to_pandas()
    words = SCORER.score("She saw the mark").to_pandas()["surprisal"]
    assert found["surprisal"].tolist() == pytest.approx([words[:2].sum(), words[2:].sum()])
    assert found["note"].tolist() == ["2 words in one cell, taken together"] * 2
    assert found["word"].tolist() == ["She saw", "the mark"]


def test_outer_spaces_of_a_cell_are_not_text():
    table = pd.DataFrame({"item": [1, 1], "word": ["She ", " saw"]})
    found = score_table(table, SCORER, group_by="item").to_pandas()
    assert found["surprisal"].tolist() == SCORER.score("She saw").to_pandas()["surprisal"].tolist()


def test_words_looked_up_in_a_text_column():
    table = pd.DataFrame({"sentence": ["She saw  the mark."] * 5, "word": ["She", "saw", "the", "mark", "."]})
    found = score_table(table, SCORER).to_pandas()
    truth = SCORER.score("She saw  the mark.", words=["She", "saw", "the", "mark", "."]).to_pandas()
    pd.testing.assert_series_equal(found["surprisal"], truth["surprisal"], rtol=0, atol=0)


def test_a_word_that_does_not_fit_names_its_row():
    table = pd.DataFrame({"sentence": ["She saw the mark."] * 4, "word": ["She", "saw", "teh", "mark."]})
    with pytest.raises(AlignmentError, match="row 3: the word is 'teh', but the text goes on with 'the mark.'"):
        score_table(table, SCORER)
    with pytest.raises(AlignmentError, match="row 2: the rows end here, but the text goes on with 'the mark.'"):
        score_table(table[:2], SCORER)


# --- the user's own rows and columns are not changed ----------------------------------------------------------------

CELLS = st.text(st.sampled_from("ab 01.,;\t\"'\n-éNA日"), max_size=6)
AWKWARD = ["007", "NA", "1.50", "2024-01-05", "TRUE", "", "1e5", '"', "a,b", "a;b", " x ", "-0", "1,5", "NaN", "null"]


@settings(max_examples=50, deadline=None)
@example([("\t\n\t", "007")], "\t", "\n", csv.QUOTE_ALL, "utf-8")
@given(
    st.lists(st.tuples(CELLS, st.sampled_from(AWKWARD)), min_size=1, max_size=5),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_delimited_files_come_back_byte_for_byte(rows, delimiter, newline, quoting, encoding):
    if delimiter == "\t" and quoting == csv.QUOTE_MINIMAL:  # else a line and its tabs within a cell may look like a row
        assume(not any("\t" in cell and "\n" in cell for row in rows for cell in row))
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    writer.writerow(["text", "one", "two"])
    writer.writerows(("She saw", *row) for row in rows)
    data = buffer.getvalue().encode(encoding)
    scored = score_table(data, SCORER, input_format="tsv" if delimiter == "\t" else "csv")
    out, _ = formats.decode(scored.render(scored.format), "")
    back = list(csv.reader(io.StringIO(out, newline=""), delimiter=delimiter))
    assert [row[:3] for row in back[1:]] == [["She saw", *row] for row in rows]
    assert out.startswith(buffer.getvalue().split(newline)[0])
    records = buffer.getvalue().removesuffix(newline)
    if newline not in "".join(cell for row in rows for cell in row):
        assert all(line.startswith(own) for line, own in zip(out.split(newline), records.split(newline), strict=False))


@pytest.mark.parametrize("word", ["NaT", "<NA>", "NA", "nan"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "xlsx", "parquet"])
def test_words_that_look_like_missing_values_are_words(tmp_path, word, ending):
    if ending == "xlsx":
        pytest.importorskip("openpyxl")
    table = pd.DataFrame({"item": [word, word], "word": ["She", word]})
    scored = score_table(table, SCORER, group_by="item", word_column="word")
    back = formats.read(scored.write(tmp_path / f"out.{ending}")).frame()
    assert back["item"].tolist() == [word, word]
    assert back["word"].tolist() == ["She", word]


NUMBERS = st.one_of(st.integers().map(str), st.floats().map(repr), st.sampled_from(AWKWARD))


@settings(max_examples=200, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=4))
def test_cells_become_numbers_only_where_nothing_is_lost(cells):
    typed = formats.with_types(pd.DataFrame({"x": pd.Series(cells, dtype=str)}))
    assert list(csv.reader(io.StringIO(typed.to_csv(index=False)))) == [["x"], *([cell] for cell in cells)]


@pytest.mark.parametrize("decimal", [",", "."])
def test_a_european_file_keeps_its_decimals(decimal):
    data = f"item;word;rt\n1;She;1{decimal}5\n1;saw;2{decimal}25\n".encode()
    out = score_table(data, SCORER, input_format="csv").render("csv").decode()
    rows = [line.split(";") for line in out.splitlines()]
    values = [row[rows[0].index("surprisal")] for row in rows[1:]]
    truth = SCORER.score("She saw").to_pandas()["surprisal"].tolist()
    assert [float(value.replace(decimal, ".")) for value in values] == truth
    assert all(decimal in value for value in values)


def test_a_tsv_with_bare_quotation_marks():
    data = b'item\tword\n1\t"\n1\tShe\n1\t"\n'
    out = score_table(data, SCORER, input_format="tsv", group_by="item").render("tsv").decode()
    assert [line.split("\t")[1] for line in out.splitlines()] == ["word", '"', "She", '"']


def test_json_lines_come_back_as_they_were():
    lines = [
        '{"item": 1, "word": "She", "x": 1.50, "big": 12345678901234567890}',
        '{"item":1,"word":"saw","deep":{"a":[]}}',
    ]
    data = ("\n".join(lines) + "\n").encode()
    out = score_table(data, SCORER, input_format="jsonl").render("jsonl").decode().splitlines()
    assert all(line.startswith(own.removesuffix("}")) for line, own in zip(out, lines, strict=True))
    assert [json.loads(line)["surprisal"] for line in out] == SCORER.score("She saw").to_pandas()["surprisal"].tolist()


TYPED = pd.DataFrame(
    {
        "item": pd.array([1, 1], dtype="Int64"),
        "word": ["She", "saw"],
        "when": pd.to_datetime(["2024-01-05", "2024-02-01"]),
        "good": [True, False],
        "code": ["007", "NA"],
        "size": pd.Categorical(["big", "small"]),
        "gone": pd.array([None, 3], dtype="Int64"),
    }
)


def test_parquet_keeps_types_and_metadata(tmp_path):
    TYPED.to_parquet(tmp_path / "in.parquet")
    scored = score_table(tmp_path / "in.parquet", SCORER, group_by="item")
    scored.write(tmp_path / "out.parquet")
    back = pd.read_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(back[list(TYPED.columns)], pd.read_parquet(tmp_path / "in.parquet"))
    import pyarrow.parquet as pq

    about = json.loads(pq.read_schema(tmp_path / "out.parquet").metadata[b"wordprob"])
    assert (about["group_by"], about["word_column"], about["model"]) == ("item", "word", "exact:bow")


def test_excel_keeps_types_and_number_formats(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Stimuli"
    rows = [
        ["item", "word", "when", "code", "good", "share", None],
        [1, "She", dt.datetime(2024, 1, 5), "007", True, 0.5],
        [1, "=saw", dt.datetime(2024, 2, 1), "NA", False, 0.25],
    ]
    for row in rows:
        sheet.append(row)
    sheet["B3"].data_type = "s"
    sheet["C2"].number_format, sheet["F2"].number_format = "yyyy-mm-dd", "0.00%"
    book.save(tmp_path / "in.xlsx")
    score_table(tmp_path / "in.xlsx", SCORER, group_by="item").write(tmp_path / "out.xlsx")
    found = openpyxl.load_workbook(tmp_path / "out.xlsx")["Stimuli"]
    values = [[cell.value for cell in row[:6]] for row in found.iter_rows()]
    assert values == [row[:6] for row in rows]
    assert (found["C2"].number_format, found["F2"].number_format) == ("yyyy-mm-dd", "0.00%")
    assert found["B3"].data_type == "s", "a word is no formula"
    header = [cell.value for cell in found[1]]
    assert isinstance(found.cell(2, header.index("surprisal") + 1).value, float)


def test_a_data_frame_keeps_index_and_dtypes():
    table = TYPED.set_axis(["r", "s"])
    found = score_table(table, SCORER, group_by="item").to_pandas()
    pd.testing.assert_frame_equal(found[list(table.columns)], table)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "xlsx"])
def test_every_format_out(tmp_path, ending):
    if ending == "xlsx":
        pytest.importorskip("openpyxl")
    (tmp_path / "in.csv").write_text("item,word,code,rt\n1,She,007,1.5\n1,saw,,2\n", encoding="utf-8")
    scored = score_table(tmp_path / "in.csv", SCORER)
    back = formats.read(scored.write(tmp_path / f"out.{ending}")).frame()
    assert back["code"].fillna("").tolist() == ["007", ""]
    assert back["surprisal"].astype(float).tolist() == pytest.approx(scored.words()["surprisal"].tolist(), rel=1e-15)
    assert len(back.columns) == len(scored.to_pandas().columns)


# --- several models ------------------------------------------------------------------------------------------------

TABLE = frame_of([["She", "saw"], ["the", "marker"]])


def test_long_and_wide():
    one, two = (score_table(TABLE, name).to_pandas()["surprisal"].tolist() for name in ("exact:bow", "exact:eow"))
    long = score_table(TABLE, ["exact:bow", "exact:eow"]).to_pandas()
    assert long["model"].tolist() == ["exact:bow"] * 4 + ["exact:eow"] * 4
    assert long["word"].tolist() == TABLE["word"].tolist() * 2
    assert long["surprisal"].tolist() == one + two
    wide = score_table(TABLE, ["exact:bow", "exact:eow"], shape="wide").to_pandas()
    assert len(wide) == 4
    assert wide["surprisal_exact_bow"].tolist() == one
    assert wide["surprisal_exact_eow"].tolist() == two
    assert list(wide.columns).count("text_id") == 1


def test_models_are_checked_before_loading_and_loaded_one_at_a_time(monkeypatch):
    import weakref

    from wordprob.scoring import loading

    opened, open_at_load = [], []
    load = loading.load

    def opener(name, **_):
        open_at_load.append(sum(reference() is not None for reference in opened))
        scorer = load(name)
        opened.append(weakref.ref(scorer.model))
        return scorer

    monkeypatch.setattr(loading, "load", opener)
    with pytest.raises(wordprob.WordprobError, match="no model is called"):
        score_table(TABLE, ["exact:bow", "no-such-model-anywhere"])
    assert opened == []
    score_table(TABLE, ["exact:bow", "exact:eow", "exact:bow-joined"])
    assert open_at_load == [0, 0, 0]
    with pytest.raises(OptionError, match="two models are called exact:bow"):
        score_table(TABLE, ["exact:bow", "exact:bow"])
    with pytest.raises(OptionError, match="long or wide"):
        score_table(TABLE, "exact:bow", shape="tall")


def test_equal_texts_are_scored_once(monkeypatch):
    table = pd.concat([TABLE.assign(participant=p) for p in "abc"], ignore_index=True)
    seen = []
    score = type(SCORER).score

    def counting(self, texts, *rest, **options):
        seen.append(len(texts))
        return score(self, texts, *rest, **options)

    monkeypatch.setattr(type(SCORER), "score", counting)
    found = score_table(table, SCORER)
    assert seen == [2]
    assert found.metadata["group_by"] == "participant,item,condition"
    assert found.to_pandas()["surprisal"].tolist() == found.to_pandas()["surprisal"].tolist()[:4] * 3
    assert found.texts()["participant"].tolist() == list("aabbcc")


def test_progress_counts_over_all_models():
    seen = []
    score_table(TABLE, ["exact:bow", "exact:eow"], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (4, 4)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_further_columns_of_words_are_added():
    truth = SCORER.score(["She saw", "the marker"], extras=["token_entropy"]).to_pandas()["token_entropy"].tolist()
    assert score_table(TABLE, SCORER, extras=["token_entropy"]).to_pandas()["token_entropy"].tolist() == truth
    wide = score_table(TABLE, ["exact:eow", SCORER], shape="wide", extras=["token_entropy"]).to_pandas()
    assert wide["token_entropy_exact_bow"].tolist() == truth
    with pytest.raises(InputError, match="called token_entropy already"):
        score_table(TABLE.assign(token_entropy=1), SCORER, extras=["token_entropy"])
    with pytest.raises(OptionError, match="a text on each row; use `per_word`"):
        score_table(pd.DataFrame({"text": ["She saw"]}), SCORER, extras=["token_entropy"])


def test_columns_of_later_models_are_checked_too(monkeypatch):
    """A column that only scoring brings to light does not replace the user's."""
    score = type(SCORER).score

    def with_another_column(self, *arguments, **options):
        table = score(self, *arguments, **options)
        return wordprob.WordTable(table.words().assign(another=1.5), table.texts(), table.metadata)

    monkeypatch.setattr(type(SCORER), "score", with_another_column)
    assert score_table(TABLE, SCORER).to_pandas()["another"].tolist() == [1.5] * 4
    with pytest.raises(InputError, match="called another already"):
        score_table(TABLE.assign(another=1), SCORER)


def test_options_objects_do_what_keywords_do():
    stimuli = read_stimuli(TABLE)
    options = ScoringOptions(unit="nats", extras=("token_rank",))
    by_options = stimuli.score(ModelOptions("exact:bow"), options=options)
    by_keywords = stimuli.score("exact:bow", unit="nats", extras=["token_rank"])
    pd.testing.assert_frame_equal(by_options.to_pandas(), by_keywords.to_pandas())
    assert by_options.metadata == by_keywords.metadata
    assert stimuli.score(SCORER, options=options, unit="bits").unit == "bits", "a keyword overrides an option"
    several = stimuli.score([ModelOptions("exact:bow"), "exact:eow"], options=options).to_pandas()
    assert several["model"].tolist() == ["exact:bow"] * 4 + ["exact:eow"] * 4
    with pytest.raises(OptionError, match="two models are called exact:bow"):
        stimuli.score([ModelOptions("exact:bow"), SCORER])


def test_how_to_open_a_model_is_part_of_its_options(monkeypatch):
    from wordprob.scoring import loading

    opened = []

    def opener(model, **options):
        opened.append((model, options["bos"]))
        return SCORER

    monkeypatch.setattr(loading, "load", opener)
    read_stimuli(TABLE).score(ModelOptions("exact:bow", bos="none"))
    score_table(TABLE, "exact:bow", load_options={"bos": "0"})
    assert opened == [("exact:bow", "none"), ("exact:bow", "0")]


def test_plain_texts_are_a_table_without_columns():
    found = stimuli_from_texts(["She saw", "", "the mark"], [["She", "saw"], [], ["the", "mark"]]).score(SCORER)
    truth = SCORER.score(["She saw", "", "the mark"], [["She", "saw"], [], ["the", "mark"]])
    pd.testing.assert_frame_equal(found.to_pandas(), truth.to_pandas())


# --- names ---------------------------------------------------------------------------------------------------------


def test_a_name_clash_suggests_a_prefix():
    table = TABLE.assign(surprisal=1.0, note="mine")
    with pytest.raises(InputError, match="called surprisal, note already.*`prefix` wp_ makes wp_surprisal"):
        score_table(table, SCORER)
    found = score_table(table, SCORER, prefix="wp_").to_pandas()
    assert found["surprisal"].tolist() == [1.0] * 4
    assert {"wp_surprisal", "wp_note", "wp_text_id"} <= set(found.columns)


def test_the_tables_own_text_and_word_numbers_are_kept():
    table = TABLE.assign(text_id=[7, 7, 9, 9], word_id=[1, 2, 1, 2])
    found = score_table(table, SCORER).to_pandas()
    assert found["text_id"].tolist() == [7, 7, 9, 9]
    assert list(found.columns).count("word_id") == 1
    with pytest.raises(InputError, match="called text_id already"):
        score_table(TABLE.assign(text_id=[7, 7, 7, 7]), SCORER, group_by="item")
    with pytest.raises(InputError, match="called word_id already"):
        score_table(TABLE.assign(word_id=[2, 1, 1, 2]), SCORER, group_by="item")


def test_a_row_for_each_word_of_a_text():
    table = pd.DataFrame({"id": ["a", "b", "c"], "sentence": ["She saw the mark.", "", "the marker"]})
    found = score_table(table, SCORER, per_word=True, words="punctuation").to_pandas()
    truth = SCORER.score(table["sentence"], "punctuation").to_pandas()
    assert found["id"].tolist() == ["a"] * 5 + ["c"] * 2
    pd.testing.assert_frame_equal(found[list(COLUMNS)], truth, check_dtype=False)


def test_regions_keep_the_columns_that_hold_for_them():
    table = frame_of([["She", "saw", "the", "mark"]]).assign(region=["a", "a", "b", "a"], list="L1", freq=[1, 2, 3, 4])
    found = score_table(table, SCORER, group_by="item", sum_by="region")
    frame = found.to_pandas()
    assert frame["region"].tolist() == ["a", "b", "a"], "a region that comes again is another one"
    assert frame["word"].tolist() == ["She saw", "the", "mark"]
    assert "list" in frame.columns
    assert not {"rt", "freq"} & set(frame.columns)
    assert (len(found), found.n_words) == (3, 4), "rows are regions, made of words"


def test_a_region_with_a_word_that_has_no_value_has_none_and_says_why():
    table = pd.DataFrame({"item": 1, "word": ["the", "中", "mark"], "region": ["a", "b", "b"]})
    found = score_table(table, SCORER, group_by="item", sum_by="region").to_pandas()
    assert math.isnan(found["surprisal"][1])
    assert "'mark': what comes before it has probability zero" in found["note"][1]


# --- shapes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "shape"),
    [
        (["item", "Sentence"], "text"),
        (["item", "word", "rt"], "word"),
        (["Item", "Condition", "Token"], "word"),
        (["sentence_id", "word"], "word"),
    ],
)
def test_the_layout_is_told_by_column_names(columns, shape):
    cells = {"sentence": "She saw it", "word": "She", "token": "She"}
    table = pd.DataFrame({name: [cells.get(name.lower(), 1)] * 2 for name in columns})
    if shape == "word":
        table.loc[1, columns[-1] if columns[-1] != "rt" else "word"] = "saw"
    assert read_stimuli(table).layout.by_word == (shape == "word")


@pytest.mark.parametrize(
    ("value", "spaced"),
    [
        ("TRUE", True),
        ("False", False),
        ("1", True),
        ("0", False),
        ("yes", True),
        ("n", False),
        ("SpaceAfter=No", False),
    ],
)
def test_values_that_mean_a_space(value, spaced):
    table = pd.DataFrame({"item": 1, "word": ["mark", "."], "space": [value, "1"]})
    layout = read_stimuli(table, space_after="space").layout
    assert layout.texts == ["mark ." if spaced else "mark."]


def test_spacy_white_space_and_invalid_values():
    table = pd.DataFrame({"item": 1, "word": ["the", "mark", "."], "space": [" ", "", ""]})
    assert read_stimuli(table, space_after="space").layout.texts == ["the mark."]
    with pytest.raises(InputError, match="row 2: column 'space' holds 'maybe'"):
        read_stimuli(table.assign(space=["1", "maybe", "1"]), space_after="space")


def test_punctuation_on_its_own_row_gives_a_warning():
    table = pd.DataFrame({"item": 1, "word": ["the", "mark", "."], "space": [1, 0, 0]})
    assert "1 row holds punctuation alone (the first: the data frame, row 3)" in read_stimuli(table).warnings()[0]
    assert read_stimuli(table, space_after="space").warnings() == []


def test_an_empty_group_column_is_ignored():
    table = frame_of([["She", "saw"], ["the", "mark"]]).assign(list="")
    assert read_stimuli(table).layout.group_by == ("item", "condition")


# --- bad input -----------------------------------------------------------------------------------------------------

BAD = {
    "no column": (b"item,wort_x\n1,a\n", {"word_column": "word"}, InputError, "no column 'word'.*It has: item, wort_x"),
    "near column": (b"item,wrod\n1,a\n", {"word_column": "word"}, InputError, "Did you mean wrod"),
    "no texts": (b"a,b\n1,2\n", {}, InputError, "cannot tell which column.*It has: a, b.*`text_column`"),
    "no groups": (b"word,rt\nShe,2\n", {}, InputError, "which rows of the input make a text.*`group_by`"),
    "single rows": (b"item,word\n1,She\n2,saw\n", {}, InputError, "which rows of the input make a text"),
    "ragged": (
        b"item,word\n1,She\n1,saw,2\n1\n",
        {},
        InputError,
        "line 3: 3 cells where the header names 2.*2 such lines",
    ),
    "row names": (b"item,word\n1,1,She\n2,1,saw\n", {}, InputError, "row.names = FALSE"),
    "empty word": (b"item,word\n1,She\n1,\n", {}, InputError, "line 3: no word in column 'word'"),
    "split text": (b"item,word\n1,a\n2,b\n1,c\n", {}, InputError, "line 4: item = 1 comes again.*line 2.*participant"),
    "merged": (b"item,word\n1,She\n,saw\n", {}, InputError, "line 3: no value in 'item'.*merged cells"),
    "twice": (b"item,word,word\n1,a,b\n", {}, InputError, r"more than one column called 'word' \(columns 2, 3\)"),
    "no rows": (b"item,word\n", {}, InputError, "column names but no rows"),
    "nothing": (b"", {}, InputError, "is empty"),
    "quotes": (b'item,word\n1,"She\n1,saw\n', {}, InputError, "line 2: the quotation marks do not match"),
    "russian": ("word\nОна увидела знак\n".encode("cp1251"), {}, EncodingError, "line 2 .*cp1251 .'Она увидела знак'"),
    "mixed": (
        "item,word\n1,é\n".encode() + b"1,\xe9\n",
        {},
        EncodingError,
        "line 3.*line 2 is UTF-8, so the file mixes",
    ),
    "zeros": (b"item,word\n1,a\0b\0\0\n", {}, EncodingError, "has NUL bytes: it is not plain text"),
    "words too": (
        b"item,word\n1,a\n",
        {"words": "punctuation", "group_by": "item"},
        OptionError,
        "rows .* are the words",
    ),
    "per word": (b"item,word\n1,a\n", {"per_word": True, "group_by": "item"}, OptionError, "row for each word already"),
    "sum texts": (b"text\na\n", {"sum_by": "text"}, OptionError, "`sum_by` is for a word on each row"),
    "group texts": (b"text\na\n", {"group_by": "text"}, OptionError, "for a word on each row"),
    "no region": (b"item,word\n1,a\n", {"group_by": "item", "sum_by": "region"}, InputError, "no column 'region'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables_say_what_and_where(name):
    data, options, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        read_stimuli(data, input_format="csv", **options)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"word": "a"}\nnope\n', "line 2: not JSON"),
        (b'{"word": "a"}\n[1]\n', "line 2: not a JSON object but list"),
        (b'[{"word": "a"}]', "one JSON list"),
        (b"\n\n", "is empty"),
        (b'{"item": 1, "word": 1.5}\n', "line 1: column 'word' holds 1.5, which is not text"),
        (b'{"item": 1, "word": "a"}\n{"word": "b"}\n', "line 2: no value in 'item'"),
    ],
)
def test_bad_json_lines(data, message):
    with pytest.raises(InputError, match=message):
        read_stimuli(data, input_format="jsonl")


def test_excel_sheets_are_named(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Items"
    book.active.append(["text"])
    book.active.append(["She saw"])
    book.create_sheet("Fillers").append(["text"])
    path = tmp_path / "x.xlsx"
    book.save(path)
    with pytest.raises(InputError, match="2 sheets: Items, Fillers. Name one with `sheet`, for example 'Items'"):
        score_table(path, SCORER)
    with pytest.raises(InputError, match="no sheet 'items'. Did you mean Items"):
        score_table(path, SCORER, sheet="items")
    with pytest.raises(InputError, match="no rows"):
        score_table(path, SCORER, sheet="Fillers")
    assert score_table(path, SCORER, sheet="Items").n_words == 2
    book.remove(book["Fillers"])
    book.create_sheet("Empty")
    book.active["A2"] = '=CONCAT("She ", "saw")'
    book.save(path)
    with pytest.raises(InputError, match="cell A2: a formula without a value"):
        score_table(path, SCORER)
    path.write_bytes(b"no workbook")
    with pytest.raises(InputError, match=r"cannot be read as an Excel workbook"):
        score_table(path, SCORER)


def test_merged_cells_are_explained(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["item", "word"], [1, "She"], [None, "saw"]):
        book.active.append(row)
    book.save(tmp_path / "x.xlsx")
    with pytest.raises(InputError, match="row 3: no value in 'item'.*merged cells"):
        score_table(tmp_path / "x.xlsx", SCORER)


def test_excel_without_openpyxl_says_what_to_install(monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'wordprob\[excel\]'"):
        read_stimuli(b"PK", input_format="xlsx")
    from wordprob.cli.output import check_destination

    with pytest.raises(UnsupportedError, match="openpyxl"):
        check_destination(tmp_path / "out.xlsx", None, False, formats.FORMATS)


@pytest.mark.parametrize("name", ["x.xls", "x.ods", "x.rds", "x.json"])
def test_files_of_other_programs_are_explained(name):
    with pytest.raises(InputError, match=r"save it as|write\.csv|an object on each line"):
        formats.format_of(name)


def test_a_broken_parquet_file(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        score_table(tmp_path / "x.parquet", SCORER)


def test_excels_delimiter_line_is_kept():
    data = b"sep=;\r\nitem;word\r\n1;She\r\n1;saw\r\n"
    out = score_table(data, SCORER, input_format="csv").render("csv")
    assert out.startswith(b"sep=;\r\nitem;word;")
    with pytest.raises(InputError, match="line 4: 1 cells"):
        read_stimuli(b"sep=;\r\nitem;word\r\n1;She\r\n1\r\n", input_format="csv")


# --- wrong types -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": ["She saw"]}, r"a table is a data frame or a file, not a list. For texts use scorer.score\(texts\)"),
        ({"table": {"text": ["She saw"]}}, "not a dict.*pandas.DataFrame"),
        ({"table": TABLE["word"]}, "not a Series"),
        ({"table": 3}, "not a int"),
        ({"progress": "yes"}, "`progress` is 'yes'; use True for a progress bar, or a function"),
        ({"model": 3}, "a model is a name, a path, a ModelOptions or a Scorer, not a int: 3"),
        ({"model": ["exact:bow", None]}, "not a NoneType"),
        ({"group_by": 3}, "`group_by` is 3; it must be the name of a column, or a list of names"),
        ({"group_by": ["item", 3]}, "must be the name of a column"),
        ({"word_column": 3}, "`word_column` is 3; it must be a string"),
        ({"words": 3}, "`words` is 3; it must be a string"),
        ({"prefix": 1}, "`prefix` is 1"),
        ({"shape": "tall"}, "no shape is called 'tall'"),
        ({"unit": "bit"}, "no unit is called 'bit'"),
        ({"table": TABLE.iloc[:0]}, "no rows"),
    ],
)
def test_wrong_types_are_readable_errors(arguments, message):
    with pytest.raises(InputError, match=message):
        score_table(**{"table": TABLE, "model": "exact:bow", **arguments})


def test_data_frames_of_other_packages():
    import pyarrow as pa

    truth = score_table(TABLE, SCORER).to_pandas()
    pd.testing.assert_frame_equal(score_table(pa.Table.from_pandas(TABLE), SCORER).to_pandas(), truth)
    polars = pytest.importorskip("polars")
    found = score_table(polars.from_pandas(TABLE), SCORER).to_pandas()
    assert found["surprisal"].tolist() == truth["surprisal"].tolist()
