"""Texts from files of every format: the same texts and ids, from any record on, whatever is wrong with some."""

from __future__ import annotations

import bz2
import csv
import errno
import gzip
import io
import json
import lzma
import os
import random
import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import audit
from wordprob.errors import InputError, OptionError
from wordprob.sources import ReadOptions, Source, find, lines, read, source_of
from wordprob.tables import formats

ROWS = [
    ("a", "She saw the mark."),
    ("b", 'a "quoted"\ntext, with commas\tand\ttabs'),
    ("c", "naïve 日本語 😀"),
    ("d", ""),
    ("e", "NA"),
]
COMPRESS = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def delimited(separator: str) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator)
    writer.writerows([("id", "text"), *ROWS])
    return file.getvalue().encode()


def write(tmp_path, kind: str, compression: str = ""):
    path = tmp_path / f"corpus.{kind}{compression}"
    if kind == "parquet":
        table = pa.table({"id": [i for i, _ in ROWS], "text": [t for _, t in ROWS], "other": [1] * len(ROWS)})
        pq.write_table(table, path, row_group_size=2)
        return path
    data = {
        "jsonl": lambda: "".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in ROWS).encode(),
        "csv": lambda: delimited(","),
        "tsv": lambda: delimited("\t"),
        "txt": lambda: "".join(t.replace("\n", " ") + "\n" for _, t in ROWS).encode(),
    }[kind]()
    path.write_bytes(COMPRESS[compression](data))
    return path


FORMATS = [
    *((kind, compression) for kind in ("txt", "jsonl", "csv", "tsv") for compression in COMPRESS),
    ("parquet", ""),
]


@pytest.mark.parametrize(("kind", "compression"), FORMATS)
def test_every_format(tmp_path, kind, compression):
    (source,) = find([write(tmp_path, kind, compression)])
    options = ReadOptions(id_column=None if kind == "txt" else "id")
    records = list(read(source, options))
    expected = [text.replace("\n", " ") if kind == "txt" else text for _, text in ROWS]
    assert [record.text for record, _ in records] == expected
    assert [record.number for record, _ in records] == [1, 2, 3, 4, 5]
    ids = [f"{source.name}:{n}" for n in range(1, 6)] if kind == "txt" else [row_id for row_id, _ in ROWS]
    assert [record.id for record, _ in records] == ids
    for n in range(1, 6):  # continue after every record, with and without its offset
        assert list(read(source, options, n, records[n - 1][1])) == records[n:]
        assert [record for record, _ in read(source, options, n)] == [record for record, _ in records[n:]]


def test_whole_files(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.md").write_text("three")
    files = [list(read(source, ReadOptions())) for source in find([tmp_path], whole_file=True)]
    assert [(record.id, record.text) for ((record, _),) in files] == [("a.txt", "one\ntwo\n"), ("b.md", "three")]
    ((record, _),) = read(Source("a.txt", str(tmp_path / "a.txt"), "whole"), ReadOptions(max_characters=1))
    assert record.problem == "too long"


# --- what is wrong with a record -------------------------------------------------------------------------------------


def read_records(path, **options):
    return [record for record, _ in read(source_of(path), ReadOptions(**options))]


def problems(path, **options):
    return [(record.number, record.problem) for record in read_records(path, **options) if record.problem]


def texts(path, **options):
    return [record.text for record in read_records(path, **options) if not record.problem]


def test_bytes_that_are_not_utf8(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfgood\r\nbad \xe9\r\ngood\n\xff\xfe")
    assert problems(path) == [(2, "encoding"), (4, "encoding")]
    assert texts(path) == ["good", "good"]
    assert read_records(path)[1].reason == "not UTF-8: byte 4 of the record is 0xE9"


def test_lines_that_do_not_fit_into_memory(tmp_path, monkeypatch):
    """A line that is too long is skipped in pieces, and what comes after it is read."""
    monkeypatch.setattr(lines, "PIECE_BYTES", 100)
    path = tmp_path / "a.txt"
    path.write_text("one\n" + "x" * 10_000 + "\ntwo\n" + "y" * 10_000)
    assert problems(path, max_characters=50) == [(2, "too long"), (4, "too long")]
    assert texts(path, max_characters=50) == ["one", "two"]
    records = list(read(source_of(path), ReadOptions(max_characters=50)))
    assert list(read(source_of(path), ReadOptions(max_characters=50), 2, records[1][1])) == records[2:]
    (tmp_path / "a.csv").write_text("text\none\n" + "x" * 10_000 + '\ntwo\n"' + "y\n" * 60 + '"\n')
    assert problems(tmp_path / "a.csv", max_characters=50) == [(2, "too long"), (4, "too long")]
    assert texts(tmp_path / "a.csv", max_characters=50) == ["one", "two"]


def test_a_long_cell_of_many_lines_is_one_record(tmp_path, monkeypatch):
    """No line of a cell that is too long becomes a text of its own, whatever quotation marks are in it."""
    monkeypatch.setattr(lines, "PIECE_BYTES", 100)
    for cell in ("y\n" * 500, 'say ""y"", then\n' * 300, "é" * 2000 + "\n" * 500, '""' * 1000):
        (tmp_path / "a.csv").write_text(f'id,text\n1,one\n2,"{cell}"\n3,a "bare" quote\n4,"two"\n')
        assert problems(tmp_path / "a.csv", max_characters=50) == [(2, "too long")]
        assert texts(tmp_path / "a.csv", max_characters=50) == ["one", 'a "bare" quote', "two"]
        source, options = source_of(tmp_path / "a.csv"), ReadOptions(max_characters=50)
        records = list(read(source, options))
        for n in range(1, 5):
            assert list(read(source, options, n, records[n - 1][1])) == records[n:]


@pytest.mark.parametrize(
    "content",
    [
        'id,text\n1,a\n2,"b\n3,c\n4,d\n5,e\n',
        'id,text\n1,a\n2,"b\n3,c\n4,"d"\n5,e\n',
        'id,text\n1,a\n2,"b"c\n3,d\n',
        'id,text\n1,a\n2,"' + "b\n" * 1000,
    ],
    ids=["to the end", "to the next", "closed too early", "too long"],
)
def test_quotation_marks_that_do_not_match(tmp_path, monkeypatch, content):
    """Rows are never swallowed by a cell that is not closed: the same error as for a table that is read whole."""
    monkeypatch.setattr(lines, "PIECE_BYTES", 100)
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=r"a.csv, line 3: the quotation marks do not match"):
        read_records(path, max_characters=50)
    with pytest.raises(InputError, match=r"a.csv, line 3: the quotation marks do not match"):
        formats.read(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "id;text\n1;a, b\n2;c\n"),
        ("a.csv", "id\ttext\n1\ta, b\n2\tc\n"),
        ("a.csv", 'id,text\n1,"a\nb"\n2,"c ""d"""\n3,e "f"\n'),
        ("a.csv", "text\n1 2 3\n4\n"),
        ("a.tsv", 'id\ttext\n1\t"Yes\n2\tshe said\n3\t"no" he said\n'),
        ("a.tsv", 'id\ttext\n1\t"a\nb"\n2\t"c ""d"""\n'),
        ("a.tsv", '"id"\t"text"\n"1"\t"a\tb"\n"2"\t"c"\n'),
    ],
    ids=["semicolons", "tabs", "quoted", "one column", "bare quotes", "quoted tsv", "quoted header"],
)
def test_a_table_is_read_as_a_stream_as_it_is_whole(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    assert texts(path) == formats.read(path).cells("text")
    assert problems(path) == []


def test_lines_that_end_with_carriage_returns(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"id,text\r1,a\r2,b\r")
    with pytest.raises(InputError, match=r"a.csv, line 1: a carriage return that ends no line.* convert them: tr"):
        read_records(tmp_path / "a.csv")


def test_an_error_of_the_system_is_not_the_end_of_a_file(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")

    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(lines, "raw_lines", broken)
    with pytest.raises(InputError, match=r"a.txt cannot be read: Input/output error"):
        read_records(path)


def test_a_name_that_is_not_utf8(tmp_path):
    try:
        (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("one")
    except OSError:
        pytest.skip("this file system has no such names")
    with pytest.raises(InputError, match=r"the name of 'caf\\udce9.txt' is not UTF-8.* Rename the file"):
        find([tmp_path])


def test_rows_without_a_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "x"}\n{\n[1]\n{"txt": "y"}\n{"text": 3}\n{"text": null}\n\n{"text": "\\ud800"}\n{"text": "z"}\n'
    )
    assert problems(path) == [
        (2, "format"), (3, "format"), (4, "format"), (5, "format"), (6, "empty"), (8, "encoding"),
    ]  # fmt: skip
    assert texts(path) == ["x", "", "z"]
    (tmp_path / "a.csv").write_bytes(b"id,text\n1,x\n2\n,y\n4,\xe9\n5,z\n")
    assert problems(tmp_path / "a.csv", id_column="id") == [(2, "format"), (3, "id"), (4, "encoding")]


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz", ".zst"])
def test_a_file_that_breaks_off(tmp_path, compression):
    path = tmp_path / f"a.txt{compression}"
    rng = random.Random(0)
    whole = COMPRESS[compression]("".join(f"{rng.random()}\n" for _ in range(100_000)).encode())
    path.write_bytes(whole[: len(whole) // 2])
    records = read_records(path)
    assert len(records) > 1000
    assert records[-1].problem == "file"
    assert "cannot be read on" in records[-1].reason


@pytest.mark.parametrize("kind", ["jsonl.gz", "jsonl.bz2", "jsonl.xz", "parquet"])
def test_a_file_that_is_damaged(tmp_path, kind):
    rng = random.Random(0)
    rows = [str(rng.random()) for _ in range(20_000)]
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"text": rows}), path, row_group_size=1000, compression="zstd", use_dictionary=False)
    else:
        data = "".join(json.dumps({"text": row}) + "\n" for row in rows).encode()
        path.write_bytes(COMPRESS[kind.removeprefix("jsonl")](data))
    data = bytearray(path.read_bytes())
    for n in range(len(data) // 2, len(data) // 2 + 400):
        data[n] ^= 0x55
    path.write_bytes(data)
    records = read_records(path)
    assert records[-1].problem == "file"
    assert [record.text for record in records[:50]] in (rows[:50], [""]), "what comes before the damage is read"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_missing_columns(tmp_path, kind):
    path = write(tmp_path, kind)
    with pytest.raises(
        InputError, match=r"has no column 'txt'. Did you mean text\? It has: .* Choose one with `text_column`"
    ):
        list(read(source_of(path), ReadOptions("txt")))
    with pytest.raises(InputError, match="Choose one with `id_column`"):
        list(read(source_of(path), ReadOptions("text", "number")))


# --- which files -----------------------------------------------------------------------------------------------------


def test_folders_globs_and_names(tmp_path, monkeypatch):
    for name in ("b/two.txt", "b/one.jsonl.gz", "a/three.parquet", "a/.hidden.txt", "a/picture.png", ".git/x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    sources = find([tmp_path])
    assert [source.name for source in sources] == ["a/three.parquet", "b/one.jsonl.gz", "b/two.txt"]
    assert [source.kind for source in sources] == ["parquet", "jsonl", "lines"]
    assert [source.compression for source in sources] == ["", ".gz", ""]
    assert find([f"{tmp_path}/**/*.txt"])[0].name == "two.txt"
    twice = find([tmp_path / "b/two.txt", tmp_path / "b"])
    assert [source.name for source in twice] == ["two.txt", "one.jsonl.gz"], "each file once, where it is first named"
    monkeypatch.chdir(tmp_path / "b")
    assert find(["two.txt", "../a/three.parquet"])[0].name == "b/two.txt", "the same name from everywhere"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nowhere.txt", "no such file: nowhere.txt"),
        ("*.nothing", "nothing that matches"),
        (".", "no file whose ending says"),
    ],
)
def test_inputs_without_files(tmp_path, monkeypatch, given, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        find([given])


def test_unknown_endings(tmp_path):
    (tmp_path / "a.pdf").touch()
    (tmp_path / "a.parquet.gz").touch()
    with pytest.raises(OptionError, match="`whole_file`"):
        find([tmp_path / "a.pdf"])
    with pytest.raises(OptionError, match="compressed inside"):
        find([tmp_path / "a.parquet.gz"])


def test_a_data_set_by_name(tmp_path):
    pytest.importorskip("datasets", reason="needs datasets: pip install datasets")
    write(tmp_path, "jsonl").rename(tmp_path / "train.jsonl")
    (source,) = find([f"hf:{tmp_path}:train"])
    records = list(read(source, ReadOptions(id_column="id")))
    assert [(record.id, record.text) for record, _ in records] == ROWS
    assert list(read(source, ReadOptions(id_column="id"), 3)) == records[3:]
    with pytest.raises(InputError, match="has no column 'nope'"):
        list(read(source, ReadOptions("nope")))


# --- odd tables ------------------------------------------------------------------------------------------------------

PIECES = ['"', '""', ",", "\n", "\r\n", "\n\n", "a", " b ", "1", "é", "\t", ";", '"x"', '"x\ny"', ",,", ',"z"\n', "\r"]


def odd_table(rng, suffix):
    body = "".join(rng.choices(PIECES, k=rng.randint(1, 30)))
    separator = "\t" if suffix == ".tsv" else ","
    return f"id{separator}text\n1{separator}one\n" + body.replace(",", separator)


def compare_readers(path):
    """Return how a table was read: as a stream it gives the texts that it gives whole, or an error, or problems."""
    try:
        whole = [cell for cell in formats.read(path).cells("text") if cell]
    except InputError:
        whole = None
    try:
        records = [record for record in read_records(path) if record.text or record.problem]
    except InputError:
        return "refused" if whole is None else "refused as a stream only"
    if any(record.problem for record in records):
        return "with problems" if whole is None else "with problems as a stream only"
    texts_found = [record.text for record in records]
    return "the same" if texts_found == whole else f"whole {whole}, as a stream {texts_found}"


def read_odd_tables(tmp_path, count):
    rng = random.Random(count + audit.SEED)
    outcomes = Counter()
    for n in range(count):
        suffix = rng.choice([".csv", ".tsv"])
        path = tmp_path / f"{n}{suffix}"
        path.write_bytes(odd_table(rng, suffix).encode())
        outcome = compare_readers(path)
        outcomes[outcome] += 1
        if re.search(rb"\r(?!\n)", path.read_bytes()):  # lines of such a table cannot be read one by one
            assert outcome in ("the same", "refused", "refused as a stream only", "with problems"), outcome
        else:
            assert outcome in ("the same", "refused", "with problems"), (outcome, path.read_bytes())
        path.unlink()
    return outcomes


def test_odd_tables(tmp_path):
    outcomes = read_odd_tables(tmp_path, 400)
    assert min(outcomes["the same"], outcomes["refused"], outcomes["with problems"]) > 10


@pytest.mark.audit
@pytest.mark.slow
def test_many_odd_tables(tmp_path):
    audit.record("random CSV and TSV files", read_odd_tables(tmp_path, 20_000))
