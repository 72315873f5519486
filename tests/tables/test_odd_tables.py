"""Odd tables: whatever is in a file, its rows come back as they were, or one line says what is wrong and where."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import resource
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import audit
import wordprob
from wordprob import score_table
from wordprob.cli import cli
from wordprob.errors import EncodingError, InputError, InputWarning, OptionError, OutputError, WordprobError
from wordprob.tables import formats
from wordprob.tables.formats.compression import OPENERS

SCORER = wordprob.load("exact:bow")
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16"]


def scored(data: bytes, format: str, **options) -> bytes:
    """Score a table whose texts are in the column ``text``; return it in its own format."""
    return score_table(data, SCORER, input_format=format, text_column="text", **options).render(format)


# --- rows come back byte for byte -------------------------------------------------------------------------------------


def test_a_line_break_in_a_table_of_one_column():
    out = scored(b'text\n"She\nsaw"\nthe mark\n', "tsv").decode()
    rows = list(csv.reader(io.StringIO(out, newline=""), delimiter="\t"))
    assert [row[0] for row in rows] == ["text", "She\nsaw", "the mark"]


def test_quotation_marks_in_a_table_of_one_column():
    out = scored(b'text\n"Yes\nthe mark\n', "tsv").decode()
    assert [line.split("\t")[0] for line in out.splitlines()] == ["text", '"Yes', "the mark"]


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_blank_rows_of_one_column_stay(format):
    out = scored(b"text\nShe\n\n\nsaw\n\n", format).decode()
    separator = formats.SEPARATORS[format]
    assert [line.split(separator)[0] for line in out.splitlines()] == ["text", "She", "", "", "saw", ""]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_blank_rows_of_several_columns_stay(newline):
    given = ["", "text,x", "", "She saw,1", "", "", "the mark,2", ""]
    data = newline.join([*given, ""]).encode()
    for options in ({}, {"per_word": True}):
        out = scored(data, "csv", **options).decode().split(newline)
        beginnings = [",".join(line.split(",")[:2]) for line in out]
        assert list(dict.fromkeys(beginnings)) == list(dict.fromkeys(given))
        assert [n for n, line in enumerate(beginnings) if not line][:2] == [0, 2]
        assert beginnings.count("") == given.count("") + 1, "each blank row once, and the end of the file"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_stay_after_a_header_with_a_line_break(newline):
    data = f'text,"two\nlines"{newline}She,1{newline}saw,2{newline}'.encode()
    out = scored(data, "csv").decode()
    assert out.startswith('text,"two\nlines",')
    assert out.count(newline) - (newline == "\n") == 3
    assert out.endswith(newline)


def test_each_row_keeps_its_own_line_end():
    out = scored(b"text,x\r\nShe,1\nsaw,2\r\nthe,3", "csv").decode()
    ends = [line[len(line.rstrip("\r\n")) :] for line in out.splitlines(keepends=True)]
    assert ends == ["\r\n", "\n", "\r\n", "\r\n"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_json_lines_keep_mark_line_ends_and_encoding(encoding, newline):
    lines = ['{"text": "She", "x": "é"}', '  {"text": "saw", "x": 1.50 } ']
    data = (newline.join(lines) + newline).encode(encoding)
    out = scored(data, "jsonl")
    assert out[:2] == data[:2]
    text = out.decode(encoding)
    own = [line.rstrip().removesuffix("}").rstrip() for line in lines]
    assert all(line.startswith(start) for line, start in zip(text.split(newline), own, strict=False))
    assert text.count("\n") == 2
    assert text.count("\r") == data.decode(encoding).count("\r")


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


def check_delimited(rows, delimiter, newline, quoting, encoding):
    """Write a table as a spreadsheet program would, score it, and compare every own byte."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    width = len(rows[0])
    writer.writerow(["text", *(f"c{n}" for n in range(width))])
    writer.writerows(("She saw", *row) for row in rows)
    written = buffer.getvalue()
    format = "tsv" if delimiter == "\t" else "csv"
    try:
        out = scored(written.encode(encoding), format).decode(encoding)
    except InputError as error:
        assert "line" in str(error), "an error says where"  # noqa: PT017
        return
    back = list(csv.reader(io.StringIO(out, newline=""), delimiter=delimiter))
    assert [row[1 : width + 1] for row in back[1:]] == [list(row) for row in rows]
    assert len({len(row) for row in back}) == 1


ROWS = st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[CELLS] * width), min_size=1, max_size=5))
DELIMITED = (
    ROWS,
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from(ENCODINGS),
)


def unambiguous(rows, delimiter, newline, quoting) -> bool:
    """Return False for what can be read in two ways.

    In a TSV, a line within a quoted cell may look like a row of its own. Where lines end in a line feed, Python does
    not quote a carriage return, which then looks like part of a line end.
    """
    if quoting == csv.QUOTE_ALL:
        return True
    cells = "".join(cell for row in rows for cell in row)
    return not (delimiter == "\t" and "\t" in cells) and not (newline == "\n" and "\r" in cells)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(*DELIMITED)
@example([("\r",)], ",", "\r\n", csv.QUOTE_MINIMAL, "utf-16")
def test_odd_delimited_tables(rows, delimiter, newline, quoting, encoding):
    assume(unambiguous(rows, delimiter, newline, quoting))
    check_delimited(rows, delimiter, newline, quoting, encoding)


@pytest.mark.audit
@pytest.mark.slow
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(*DELIMITED)
def test_many_odd_delimited_tables(rows, delimiter, newline, quoting, encoding):
    assume(unambiguous(rows, delimiter, newline, quoting))
    check_delimited(rows, delimiter, newline, quoting, encoding)
    audit.record("odd delimited tables", {"the same rows again": 1})


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda children: st.lists(children, max_size=2) | st.dictionaries(st.text(max_size=3), children, max_size=2),
    max_leaves=4,
)


def check_jsonlines(rows, ascii_only, newline, encoding):
    objects = [{"text": "She saw", "own": value} for value in rows]
    lines = [json.dumps(row, ensure_ascii=ascii_only) for row in objects]
    try:
        data = "".join(line + newline for line in lines).encode(encoding)
    except UnicodeEncodeError:  # a lone surrogate that is not escaped can be in no file
        return
    out = scored(data, "jsonl").decode(encoding)
    assert out.count(newline) == len(rows)
    for line, own, row in zip(out.split(newline), lines, objects, strict=False):
        assert line.startswith(own.removesuffix("}"))
        assert {**json.loads(line), **row} == json.loads(line)


JSON_LINES = (
    st.lists(JSON_VALUES, min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(ENCODINGS),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(*JSON_LINES)
def test_odd_json_lines(rows, ascii_only, newline, encoding):
    check_jsonlines(rows, ascii_only, newline, encoding)


@pytest.mark.audit
@pytest.mark.slow
@settings(max_examples=800, deadline=None, suppress_health_check=list(HealthCheck))
@given(*JSON_LINES)
def test_many_odd_json_lines(rows, ascii_only, newline, encoding):
    check_jsonlines(rows, ascii_only, newline, encoding)
    audit.record("odd JSON lines", {"the same rows again": 1})


def check_any_bytes(data: bytes, format: str) -> None:
    """Read and write what is no table at all, or barely one: it works, or an error of ours says why not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            table = score_table(data, SCORER, input_format=format, text_column="text")
    except WordprobError as error:
        assert "\n" not in str(error), "one line"  # noqa: PT017
        return
    for target in formats.FORMATS:
        try:
            table.render(target)
        except WordprobError as error:
            assert "\n" not in str(error), "one line"  # noqa: PT017


def table_bytes(format: str) -> bytes:
    frame = pd.DataFrame({"text": ["She saw", "the mark"], "x": [1, 2]})
    return formats.render_frame(frame, format, {})


FORMATS = st.sampled_from(["csv", "tsv", "jsonl", "parquet", "xlsx"])
DAMAGE = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=4)


def damaged(format: str, damage, cut: float) -> bytes:
    data = bytearray(table_bytes(format))
    for position, value in damage:
        data[int(position * (len(data) - 1))] = value
    return bytes(data[: int(cut * len(data))])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FORMATS, DAMAGE, st.sampled_from([1.0, 1.0, 0.5, 0.9]))
def test_damaged_tables(format, damage, cut):
    check_any_bytes(damaged(format, damage, cut), format)


@pytest.mark.audit
@pytest.mark.slow
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(FORMATS, DAMAGE, st.floats(0, 1))
def test_many_damaged_tables(format, damage, cut):
    check_any_bytes(damaged(format, damage, cut), format)
    audit.record("damaged tables", {"read, or one line": 1})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=60), FORMATS)
def test_any_bytes(data, format):
    check_any_bytes(data, format)


# --- encodings --------------------------------------------------------------------------------------------------------

QUOTED = 'id,text\n1,"“Yes,” she said – it’s the mark…"\n2,naïve\n'


def test_windows_files_are_read_announced_and_written_as_such():
    with pytest.warns(
        InputWarning, match="taken for Windows-1252. Line 2 reads '1,\"“Yes,” she said – it’s the mark…\"'"
    ):
        out = scored(QUOTED.encode("cp1252"), "csv")
    text = out.decode("cp1252")
    assert [line.startswith(own) for line, own in zip(text.splitlines(), QUOTED.splitlines(), strict=True)] == [
        True
    ] * 3
    utf8 = scored(QUOTED.encode(), "csv").decode()
    assert text == utf8, "the same numbers as from UTF-8"


def test_utf16_without_a_mark_is_announced_and_written_as_such():
    data = QUOTED.encode("utf-16-le")
    with pytest.warns(InputWarning, match="taken for UTF-16"):
        out = scored(data, "csv")
    assert out.decode("utf-16-le") == scored(QUOTED.encode(), "csv").decode()


def test_an_encoding_that_is_named_is_not_announced():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = scored("text,x\nОна,1\n".encode("cp1251"), "csv", encoding="cp1251")
        assert scored(QUOTED.encode("utf-16"), "csv", encoding="utf-16")[:2] == b"\xff\xfe"
        scored(QUOTED.encode(), "csv")
    assert out.decode("cp1251").splitlines()[1].startswith("Она,1,")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("text\nОна увидела знак\n", "cp1251"),
        ("text\nZażółć gęślą jaźń dziewczyna zobaczyła znak\n", "cp1250"),
        ("text\n彼女は印を見た。とても良い天気です\n", "shift_jis"),
        ("text\n她看见了那个标记。今天天气很好\n", "gb18030"),
        ("text\nMüller fährt “so” über die Straße\n", "mac_roman"),
    ],
)
def test_other_encodings_are_asked_for(text, encoding):
    with pytest.raises(EncodingError, match="is not UTF-8: line 2 .*`encoding`"):
        scored(text.encode(encoding), "csv")
    assert (
        scored(text.encode(encoding), "csv", encoding=encoding).decode(encoding).splitlines()[1].startswith(text[5:9])
    )


@pytest.mark.parametrize(
    "text", ["Müller", "It’s fine", "El niño comió ¿qué?", "Åsa gick på ön", "L’été le garçon", "col·lega"]
)
def test_short_western_texts_are_taken_for_windows(text):
    with pytest.warns(InputWarning, match="Windows-1252"):
        assert scored(f"text,x\n{text},1\n".encode("cp1252"), "csv").decode("cp1252").splitlines()[1].startswith(text)


def test_an_encoding_is_for_text_files(tmp_path):
    SCORER.score("She saw").write(tmp_path / "x.parquet")
    with pytest.raises(OptionError, match="`encoding` is for text files"):
        formats.read(tmp_path / "x.parquet", encoding="cp1252")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PAR1\x15\x04\x00", "a Parquet file"),
        (b"PK\x03\x04\x00\x00", "an Excel workbook"),
        (b"ARROW1\x00\x00", "a Feather"),
        (b"\x1f\x8b\x08\x00", "compressed with gzip"),
    ],
)
def test_other_files_under_the_name_of_a_table(data, message):
    with pytest.raises(InputError, match=f"it is {message}"):
        formats.read(data, "csv")


@pytest.mark.parametrize("name", ["x.feather", "x.arrow", "x.dta", "x.rds"])
def test_files_of_other_programs_say_what_to_do(tmp_path, name):
    with pytest.raises(InputError, match="Parquet|CSV"):
        formats.read(tmp_path / name)


@pytest.mark.parametrize(
    ("extension", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_compressed_tables(tmp_path, extension, compress):
    path = tmp_path / f"stimuli.csv{extension}"
    path.write_bytes(compress(b"text,x\nShe saw,007\n"))
    found = score_table(path, SCORER)
    assert found.render("csv").decode().splitlines()[1].startswith("She saw,007,")
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(InputError, match=r"stimuli\.csv\.\w+ cannot be read: it is damaged or breaks off"):
        score_table(path, SCORER)


# --- what a format cannot hold ----------------------------------------------------------------------------------------


def rows_with(value) -> bytes:
    return "".join(json.dumps({"text": "She saw", "own": own}) + "\n" for own in ("plain", value)).encode()


@pytest.mark.parametrize(
    ("value", "format", "message"),
    [
        ("a\x01b", "xlsx", r"the control character U\+0001 \(cell B3\)"),
        ("\ud800", "xlsx", r"surrogate pair \(U\+D800\), which is not a character \(cell B3\)"),
        ("x" * 40_000, "xlsx", r"a text of 40,000 characters \(cell B3\): a cell may have 32,767"),
        (["list"], "xlsx", r"\(cell B3\)"),
        (7, "parquet", r"column 'own': row 2 holds 7 \(int\), and the rows before it str"),
        ("\ud800", "parquet", "own"),
        ("\ud800", "csv", r"line 3: half of a surrogate pair \(U\+D800\), which is not a character, cannot be written"),
    ],
)
def test_a_value_that_a_format_cannot_hold_is_named(value, format, message):
    table = score_table(rows_with(value), SCORER, input_format="jsonl")
    with pytest.raises(OutputError, match=message) as failure:
        table.render(format)
    assert "\n" not in str(failure.value)
    assert table.render("jsonl").count(b"\n") == 2, "in its own format every value stays as it was written"


def test_nested_json_is_json_in_a_csv_file():
    nested = {"a": [1, None, "é"], "b": True}
    table = score_table(rows_with(nested), SCORER, input_format="jsonl")
    for format in ("csv", "tsv"):
        rows = list(csv.DictReader(io.StringIO(table.render(format).decode()), delimiter=formats.SEPARATORS[format]))
        assert rows[0]["own"] == "plain"
        assert json.loads(rows[1]["own"]) == nested


@pytest.mark.parametrize("format", ["jsonl", "xlsx"])
def test_an_infinite_number_that_a_format_cannot_hold_is_announced(format):
    frame = pd.DataFrame({"text": ["She", "saw"], "rt": [1.5, float("inf")], "own": [float("-inf"), "x"]})
    with pytest.warns(InputWarning, match="2 infinite numbers are missing in it, in the columns rt, own") as warned:
        formats.render_frame(frame, format, {})
    assert len(warned) == 1


def test_long_whole_numbers_stay_whole(tmp_path):
    pytest.importorskip("openpyxl")
    number = 12345678901234567890
    table = score_table(rows_with(number), SCORER, input_format="jsonl")
    assert formats.read(table.render("xlsx"), "xlsx").cells("own") == ["plain", str(number)]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("[" * 100_000 + "]" * 100_000, "line 2: not JSON"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "line 2: not JSON"),
        ("1" * 5_000, "line 2: not JSON"),
    ],
    ids=["lists", "objects", "digits"],
)
def test_json_that_python_cannot_read_is_one_line(tmp_path, cell, message):
    path = tmp_path / "deep.jsonl"
    path.write_text('{"text": "She"}\n{"text": "saw", "own": ' + cell + "}\n")
    command = [sys.executable, "-m", "wordprob", "score", str(path), "--model", "exact:bow"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 400


def test_numbers_with_many_digits_come_back():
    digits = "1" * 4_000
    data = ('{"text": "She saw", "own": ' + digits + "}\n").encode()
    table = score_table(data, SCORER, input_format="jsonl")
    assert digits.encode() in table.render("jsonl")
    for format in ("csv", "xlsx", "parquet"):
        try:
            table.render(format)
        except OutputError as error:
            assert "\n" not in str(error)  # noqa: PT017


# --- Excel ------------------------------------------------------------------------------------------------------------


def far_cell_workbook(coordinate: str) -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["text", "x"])
    book.active.append(["She saw", 1])
    book.active[coordinate] = "stray"
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def test_a_far_cell_costs_no_memory():
    data = far_cell_workbook("XFD1048576")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"1,048,576 rows and 16,384 columns.*cell XFD1048576 lies far"):
        formats.read(data, "xlsx", name="far.xlsx")
    grown_kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kilobytes < 400_000


def test_a_cell_some_way_off_is_part_of_the_table():
    sheet = formats.read(far_cell_workbook("D5"), "xlsx")
    assert sheet.columns == ("text", "x", "Unnamed: 2", "Unnamed: 3")
    assert sheet.cells("Unnamed: 3") == [None, None, None, "stray"]


def odd_workbook() -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["text", "own"], ["She saw", "#N/A"], ["the mark", -5], ["She", "one"], ["the", None]):
        sheet.append(row)
    sheet["B3"].number_format = "yyyy-mm-dd"
    sheet.merge_cells("B4:B5")
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def test_errors_and_impossible_dates_of_a_workbook_stay():
    openpyxl = pytest.importorskip("openpyxl")
    with pytest.warns(InputWarning, match="merged cells"):
        out = scored(odd_workbook(), "xlsx")
    book = openpyxl.load_workbook(io.BytesIO(out))
    assert (book.active["B2"].data_type, book.active["B2"].value) == ("e", "#N/A")
    with zipfile.ZipFile(io.BytesIO(out)) as parts:
        assert b"<v>-5</v>" in parts.read("xl/worksheets/sheet1.xml")
    assert book.active["B3"].number_format == "yyyy-mm-dd"


def test_merged_cells_are_announced():
    with pytest.warns(InputWarning, match=r"the input has merged cells \(B4:B5\)") as warned:
        formats.read(odd_workbook(), "xlsx")
    assert len(warned) == 1, "in one line"


@pytest.mark.parametrize("text", ["one\r\ntwo", "one\rtwo", "a_x000D_b", "a_x005F_x000D_b", "_x0001_", "_x00e9_"])
def test_line_ends_inside_cells_of_a_workbook_stay(text):
    pytest.importorskip("openpyxl")
    data = formats.render_frame(pd.DataFrame({"text": ["She"], "own": [text]}), "xlsx", {})
    assert formats.read(data, "xlsx").cells("own") == [text]
    assert formats.read(scored(data, "xlsx"), "xlsx").cells("own") == [text]


def test_sheets_that_are_left_out_are_named(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for title in ("Items", "Fillers", "Norms"):
        book.create_sheet(title).append(["text"])
        book[title].append(["She saw"])
    book.save(tmp_path / "x.xlsx")
    with pytest.warns(InputWarning, match="only the sheet 'Items' is read; the result will not have Fillers, Norms"):
        formats.read(tmp_path / "x.xlsx", sheet="Items")


@pytest.mark.parametrize("part", ["xl/workbook.xml", "xl/worksheets/sheet1.xml", "xl/styles.xml"])
@pytest.mark.parametrize("content", [b"", b"<", b"<a><b></a>"])
def test_a_damaged_workbook_is_one_line(part, content):
    pytest.importorskip("openpyxl")
    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(table_bytes("xlsx"))) as whole, zipfile.ZipFile(data, "w") as broken:
        for name in whole.namelist():
            broken.writestr(name, content if name == part else whole.read(name))
    with pytest.raises(InputError) as failure:
        formats.read(data.getvalue(), "xlsx", name="broken.xlsx")
    assert "broken.xlsx" in str(failure.value)
    assert "\n" not in str(failure.value)


# --- formulas ---------------------------------------------------------------------------------------------------------

FORMULAS = ["=1+1", "+x", "-dash", "@SUM(A1)", "-1.5", "+2", "plain", '="a""b"']


def test_formulas_are_escaped_on_request(tmp_path):
    table = pd.DataFrame({"text": ["She saw"] * len(FORMULAS), "=note": FORMULAS})
    expected = ["'=1+1", "'+x", "'-dash", "'@SUM(A1)", "-1.5", "+2", "plain", '\'="a""b"']
    data = table.to_csv(index=False).encode()
    for source, format in ((data, "csv"), (table, None)):
        result = score_table(source, SCORER, input_format=format)
        assert pd.read_csv(io.BytesIO(result.render("csv")), dtype=str)["=note"].tolist() == FORMULAS
        for target in ("csv", "tsv"):
            out = io.BytesIO(result.render(target, escape_formulas=True))
            back = pd.read_csv(out, dtype=str, sep=formats.SEPARATORS[target])
            assert back["'=note"].tolist() == expected
    words = SCORER.score("=1+1 saw", words="whitespace")
    assert "'=1+1" in words.render("csv", escape_formulas=True).decode()
    assert "'=1+1" not in words.render("jsonl", escape_formulas=True).decode()


def test_the_flag_for_formulas(tmp_path):
    Path(tmp_path / "x.csv").write_text("text,own\nShe saw,=1+1\n")
    command = [sys.executable, "-m", "wordprob", "score", "x.csv", "--model", "exact:bow", "--escape-formulas"]
    subprocess.run([*command, "-o", "out.csv"], cwd=tmp_path, check=True)
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("She saw,'=1+1,")


# --- compressed files that expand to any size ------------------------------------------------------------------------


def bomb(path, n_bytes):
    """Write a compressed file that expands to this many bytes."""
    with OPENERS[path.suffix](path, "wb") as file:
        for _ in range(n_bytes // 10**6):
            file.write(b"a" * 10**6)
    return path


@pytest.mark.parametrize("name", ["x.csv.gz", "x.txt.bz2", "x.jsonl.xz"])
def test_a_small_file_that_expands_is_not_read_to_its_end(tmp_path, name):
    """The limit holds while the file is read: memory stays near it."""
    path = bomb(tmp_path / name, 64 * 10**6)
    code = (
        "import resource, sys; from wordprob.tables.formats.compression import size_limit;"
        "from wordprob.tables.formats.encoding import read_bytes;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    with size_limit('4MB'): read_bytes(sys.argv[1])\n"
        "except ValueError as error: print(error)\n"
        "assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32_000"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "but more than 4,000,000 when decompressed" in done.stdout


def test_the_limit_is_an_option_of_the_command(tmp_path):
    path = tmp_path / "texts.txt.gz"
    with gzip.open(path, "wt") as file:
        file.write("She saw the mark\n" * 100)
    arguments = ["score", str(path), "--model", "exact:bow", "-o", str(tmp_path / "out.tsv")]
    refused = CliRunner().invoke(cli, ["--max-size", "1KB", *arguments])
    assert isinstance(refused.exception, InputError)
    assert "more than 1,000 when decompressed" in str(refused.exception)
    refused = CliRunner().invoke(cli, ["--max-size", "much", *arguments])
    assert isinstance(refused.exception, OptionError)
    assert CliRunner().invoke(cli, ["--max-size", "1MB", *arguments]).exit_code == 0
