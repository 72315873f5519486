"""Tables on the command line, as a psycholinguist would use them."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import wordprob as package
from wordprob.cli import main
from wordprob.cli.messages import to_flags

ROOT = Path(__file__).resolve().parents[2]
EXACT = ["--model", "exact:bow"]
NAMED = ["--word-column", "word", "--group-by", "item,condition"]
READING = "item,condition,region,word,rt\n" + "".join(
    f"{item:03d},{condition},{region},{word},1.50\n"
    for item in (1, 2, 3)
    for condition, words in (("a", ("She", "saw", "the", "mark")), ("b", ("the", "marker", "She", "saw")))
    for region, word in zip(("start", "start", "critical", "critical"), words, strict=True)
)


@pytest.fixture
def wordprob(monkeypatch, capsys):
    """Run the command in this process, through its entry point, with bytes on standard input."""

    def run(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["wordprob", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("reading.csv").write_text(READING, encoding="utf-8")
    Path("sentences.csv").write_text('id,sentence\n007,"She saw the mark."\nNA,the marker\n', encoding="utf-8")
    return tmp_path


def test_the_same_rows_are_written(wordprob, folder):
    code, out, err = wordprob("score", "reading.csv", *NAMED, "-o", "scored.csv", *EXACT)
    assert (code, out, err) == (0, "", ""), "nothing is printed unless on a terminal"
    lines, own = Path("scored.csv").read_text().splitlines(), READING.splitlines()
    assert len(lines) == len(own)
    assert all(line.startswith(before + ",") for line, before in zip(lines, own, strict=True))
    about = json.loads(Path("scored.csv.meta.json").read_text())
    assert (about["group_by"], about["unit"], about["input"]) == ("item,condition", "bits", "reading.csv")
    truth = package.load("exact:bow").score("She saw the mark").to_pandas()["surprisal"].tolist()
    assert pd.read_csv("scored.csv")["surprisal"].tolist()[:4] == truth
    assert Path("reading.csv").read_text() == READING


def test_every_guess_is_one_line_on_standard_error(wordprob, folder):
    code, out, err = wordprob("score", "reading.csv", *EXACT)
    assert code == 0
    assert out.startswith("item,condition")
    assert err == (
        "wordprob: reading.csv: 24 words in 'word', 6 texts by item, condition, joined by spaces; guessed from the "
        "names of columns: --word-column word --group-by item,condition\n"
    )
    _, _, err = wordprob("score", "sentences.csv", *EXACT)
    assert err.endswith("2 texts in 'sentence'; guessed from the names of columns: --text-column sentence\n")
    Path("type.csv").write_text(READING.replace("condition", "type"), encoding="utf-8")
    code, out, err = wordprob("score", "type.csv", "-o", "scored.csv", *EXACT)
    assert (code, out) == (1, "")
    assert "specify --group-by 'item,type'" in err
    assert not Path("scored.csv").exists()


def test_texts_on_rows(wordprob, folder):
    code, out, _ = wordprob("score", "sentences.csv", *EXACT)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["id"] for row in rows] == ["007", "NA"], "a pipe gets the format that came in"
    assert [row["n_words"] for row in rows] == ["4", "2"]
    _, out, _ = wordprob("score", "sentences.csv", "--per-word", "--words", "punctuation", "--format", "tsv", *EXACT)
    assert [line.split("\t")[0] for line in out.splitlines()[1:]] == ["007"] * 5 + ["NA"] * 2


def test_standard_input(wordprob):
    code, out, err = wordprob("score", "-", "--format", "csv", *EXACT, stdin=b"She saw\n\nthe mark\n")
    assert (code, err) == (0, "")
    assert [row["text_id"] for row in csv.DictReader(io.StringIO(out))] == ["0", "0", "2", "2"]
    _, out, _ = wordprob("score", "-", "--input-format", "jsonl", *EXACT, stdin=b'{"id": 1.50, "text": "She saw"}\n')
    assert out.startswith('{"id": 1.50, "text": "She saw", "surprisal": ')
    _, out, _ = wordprob("score", "-", "--input-format", "tsv", *EXACT, stdin=b"text\tid\r\nShe\t007\r\n")
    assert out.splitlines()[1].startswith("She\t007\t")
    code, _, err = wordprob("score", "-", "--input-format", "csv", *EXACT, stdin=b"")
    assert (code, err.strip()) == (1, "wordprob: standard input is empty; its first line should name the columns.")
    code, _, err = wordprob("score", "-", *EXACT, stdin=b"")
    assert code == 1
    assert "standard input is empty" in err


def test_several_models_for_plain_texts(wordprob, tmp_path):
    models = ["--model", "exact:bow", "--model", "exact:eow"]
    _, out, _ = wordprob("score", "--text", "She saw", *models)
    frame = pd.read_csv(io.StringIO(out), sep="\t")
    assert frame["model"].tolist() == ["exact:bow"] * 2 + ["exact:eow"] * 2
    texts = str(tmp_path / "texts.tsv")
    code, out, _ = wordprob("score", "--text", "She saw", *models, "--shape", "wide", "--texts-output", texts)
    assert code == 0
    frame = pd.read_csv(io.StringIO(out), sep="\t")
    assert list(frame.columns[:5]) == ["text_id", "word_id", "word", "start", "end"]
    assert {"surprisal_exact_bow", "surprisal_exact_eow"} <= set(frame.columns)
    assert pd.read_csv(texts, sep="\t")["model"].tolist() == ["exact:bow", "exact:eow"]


def test_excel_in_and_out(wordprob, folder):
    openpyxl = pytest.importorskip("openpyxl")
    code, _, _ = wordprob("score", "reading.csv", "-o", "scored.xlsx", *EXACT)
    assert code == 0
    sheet = openpyxl.load_workbook("scored.xlsx").active
    assert [cell.value for cell in sheet[2]][:5] == ["001", "a", "start", "She", "1.50"]
    code, _, err = wordprob("score", "reading.csv", "--format", "xlsx", *EXACT)
    assert code == 2
    assert "name a file with -o" in err


def test_a_table_as_one_text_and_a_summary_by_text(wordprob, folder):
    code, out, _ = wordprob("score", "reading.csv", "--group-by", "none", "--texts-output", "texts.tsv", *EXACT)
    assert code == 0
    assert {row["text_id"] for row in csv.DictReader(io.StringIO(out))} == {"0"}
    wordprob("score", "reading.csv", "--texts-output", "texts.tsv", "--force", *EXACT)
    assert pd.read_csv("texts.tsv", sep="\t", dtype=str)["item"].tolist() == ["001", "001", "002", "002", "003", "003"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--word-column", "words"], "no column 'words'. Did you mean word"),
        (["--sum-by", "regoin"], "no column 'regoin'. Did you mean region"),
        (["--sheet", "one"], "--sheet is for Excel files"),
        (["--input-format", "cvs"], "no format is called 'cvs'. Did you mean csv"),
        (["--words", "list:words.txt"], "for plain texts"),
        (["-o", "reading.csv", "--force"], "reading.csv is the input; nothing was done"),
        (["-o", "out.doc"], "cannot tell a format from 'out.doc'"),
        (["--model", "no-such-model"], "no model is called"),
        (["--shape", "tall", "--model", "exact:eow"], "no shape is called 'tall'"),
        (["--group-by", "region"], "comes again"),
    ],
)
def test_errors_are_one_line_and_leave_nothing_behind(wordprob, folder, arguments, message):
    of_an_option = {"--sheet", "--input-format", "--words", "--shape"} & set(arguments) or arguments == [
        "-o",
        "out.doc",
    ]
    before = sorted(path.name for path in folder.iterdir())
    code, out, err = wordprob("score", "reading.csv", *EXACT, *arguments)
    assert (code, out) == (2 if of_an_option else 1, "")
    assert message in err
    assert err.count("\n") == 1
    assert Path("reading.csv").read_text() == READING
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("arguments", [["--per-word"], ["--group-by", "item"], ["--sum-by", "x"], ["--decimal", "x"]])
def test_table_options_without_a_table_are_wrong_usage(wordprob, arguments):
    code, _, err = wordprob("score", "--text", "She saw", *arguments, *EXACT)
    assert code == 2
    assert "Error" in err


def test_a_table_can_be_read_as_plain_text(wordprob, folder):
    _, out, _ = wordprob("score", "sentences.csv", "--input-format", "text", *EXACT)
    assert out.splitlines()[1].split("\t")[2] == "id,sentence"
    _, out, _ = wordprob("score", "sentences.csv", "--whole-file", *EXACT)
    assert {line.split("\t")[0] for line in out.splitlines()[1:]} == {"0"}


def test_messages_name_options_by_their_flags(wordprob, folder):
    assert to_flags("specify `group_by`") == "specify --group-by"
    Path("clash.csv").write_text("item,word,note\n1,She,x\n1,saw,y\n", encoding="utf-8")
    assert "--prefix wp_ makes wp_note" in wordprob("score", "clash.csv", *EXACT)[2]
    assert "Use --force to replace it" in wordprob("score", "reading.csv", "-o", "clash.csv", *EXACT)[2]
    assert "use --per-word" in wordprob("score", "sentences.csv", "--rank", *EXACT)[2]
    Path("words.csv").write_text("word\nShe\nsaw\n", encoding="utf-8")
    assert "name it with --group-by" in wordprob("score", "words.csv", *EXACT)[2]


def test_punctuation_on_its_own_row_gives_a_warning(wordprob, tmp_path):
    (tmp_path / "x.csv").write_text("item,word\n1,the\n1,mark\n1,.\n", encoding="utf-8")
    code, _, err = wordprob("score", str(tmp_path / "x.csv"), *EXACT)
    assert code == 0
    assert "1 row holds punctuation alone" in err
    assert "--space-after" in err


# --- contrast and plot ---------------------------------------------------------------------------------------------


@pytest.fixture
def scored(wordprob, folder):
    assert wordprob("score", "reading.csv", "-o", "scored.csv", *EXACT)[0] == 0
    return folder


def test_contrast(wordprob, scored):
    pytest.importorskip("scipy")
    options = ["-o", "items.tsv", "--summary", "tests.csv", "--plot", "contrast.png"]
    code, out, err = wordprob("contrast", "scored.csv", "--region", "critical", "--levels", "b,a", *options)
    assert (code, err) == (0, "")
    shown = pd.read_csv(io.StringIO(out), sep="\t")
    frame = pd.read_csv("scored.csv")
    sums = frame[frame["region"] == "critical"].groupby(["condition", "item"])["surprisal"].sum()
    assert shown["difference"][0] == pytest.approx((sums["b"] - sums["a"]).mean())
    assert pd.read_csv("items.tsv", sep="\t", dtype=str)["item"].tolist()[:3] == ["001", "002", "003"]
    pd.testing.assert_frame_equal(pd.read_csv("tests.csv"), shown)
    assert Path("contrast.png").read_bytes().startswith(b"\x89PNG")
    code, _, err = wordprob("contrast", "scored.csv", "--region", "critical", *options)
    assert code == 1
    assert "exists already" in err
    _, out, _ = wordprob("contrast", "scored.csv", "--where", "region=critical", "--format", "table")
    assert "a minus b (region critical), in bits, by item" in out


def test_a_contrast_never_replaces_its_input(wordprob, scored):
    pytest.importorskip("scipy")
    before = Path("scored.csv").read_bytes()
    code, _, err = wordprob("contrast", "scored.csv", "-o", "scored.csv", "--force")
    assert code == 1
    assert "scored.csv is the input" in err
    assert Path("scored.csv").read_bytes() == before


@pytest.mark.parametrize("prefix", ["", "wp_"])
@pytest.mark.parametrize("keep_metadata", [True, False])
def test_contrast_and_plot_of_a_wide_table(wordprob, folder, prefix, keep_metadata):
    pytest.importorskip("matplotlib")
    models = ["--model", "exact:bow", "--model", "exact:eow"]
    for shape in ("long", "wide"):
        wordprob("score", "reading.csv", *models, "--shape", shape, "--prefix", prefix, "-o", f"{shape}.csv")
        if not keep_metadata and not prefix:
            Path(f"{shape}.csv.meta.json").unlink()
    results = [wordprob("contrast", f"{shape}.csv", "--region", "critical") for shape in ("long", "wide")]
    assert [code for code, _, _ in results] == [0, 0]
    long, wide = (pd.read_csv(io.StringIO(out), sep="\t") for _, out, _ in results)
    names = ["exact_bow", "exact_eow"] if not keep_metadata and not prefix else ["exact:bow", "exact:eow"]
    assert wide["model"].tolist() == names * 2
    pd.testing.assert_frame_equal(wide.drop(columns="model"), long.drop(columns="model"))
    code, _, err = wordprob("plot", "wide.csv", "--text", "item=001", "--naive", "-o", "wide.png")
    assert (code, err) == (0, "")


def test_the_names_of_wide_columns_are_names_in_r(wordprob, folder, monkeypatch):
    Path("my-model (v2)").mkdir()
    from wordprob.errors import OptionError
    from wordprob.stimuli.stimulus_reading import stimuli_from_texts
    from wordprob.tables.columns import column_suffix, final_names

    names = final_names(["word", "surprisal"], ["gpt2-small", "my-model (v2)"], "wide", "")
    assert names == ["word", "surprisal_gpt2_small", "surprisal_my_model_v2_"]
    assert column_suffix("pythia-1.4b") == "pythia_1.4b"
    with pytest.raises(OptionError, match="would have the same names"):
        stimuli_from_texts(["x"]).check_columns(["a-b", "a_b"], "wide")


def test_contrast_and_plot_of_two_factors(wordprob, folder):
    pytest.importorskip("matplotlib")
    rows = ["item,gender,number,region,word"]
    sentences = {
        ("m", "sg"): "She saw the mark",
        ("m", "pl"): "She saw the marker",
        ("f", "sg"): "the mark",
        ("f", "pl"): "She saw",
    }
    for item in (1, 2, 3):
        for (gender, number), sentence in sentences.items():
            rows += [f"{item},{gender},{number},r{k},{word}" for k, word in enumerate(sentence.split())]
    Path("design.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    named = ["--word-column", "word", "--group-by", "item,gender,number"]
    assert wordprob("score", "design.csv", *named, "-o", "scored.csv", *EXACT)[0] == 0
    options = ["--condition", "gender,number", "--region", "r1"]
    code, out, err = wordprob("contrast", "scored.csv", *options, "--plot", "x.png", "-o", "items.csv")
    assert (code, err) == (0, "")
    shown = pd.read_csv(io.StringIO(out), sep="\t")
    assert shown["contrast"].tolist()[:3] == ["gender: m - f", "number: sg - pl", "gender x number"]
    assert list(pd.read_csv("items.csv").columns)[1:6] == ["item", "m_sg", "m_pl", "f_sg", "f_pl"]
    _, out, _ = wordprob("contrast", "scored.csv", *options, "--levels", "f,m;sg,pl", "--format", "table")
    assert "gender: f - m" in out
    assert "lmer(surprisal ~ gender * number + (1 | item), data = d)" in out
    code, _, err = wordprob("contrast", "scored.csv", *options, "--levels", "f,m")
    assert code == 2
    assert "semicolon" in err
    code, _, err = wordprob("contrast", "scored.csv", "--condition", "a,b,c")
    assert code == 2
    assert "--condition names 3 columns" in err
    code, _, err = wordprob("plot", "scored.csv", "--condition", "gender,number", "--combine", "mean", "-o", "r.pdf")
    assert (code, err) == (0, "")
    assert wordprob("plot", "scored.csv", "--condition", "gender", "--combine", "median", "-o", "s.pdf")[0] == 2


def test_contrasts_of_regions_and_of_words_agree(wordprob, folder):
    pytest.importorskip("scipy")
    wordprob("score", "reading.csv", "-o", "words.csv", *EXACT)
    wordprob("score", "reading.csv", "--sum-by", "region", "--prefix", "wp_", "-o", "regions.parquet", *EXACT)
    outs = [wordprob("contrast", name, "--region", "critical")[1] for name in ("words.csv", "regions.parquet")]
    one, two = (pd.read_csv(io.StringIO(out), sep="\t") for out in outs)
    assert one["difference"].tolist() == pytest.approx(two["difference"].tolist())


def test_contrast_of_a_european_file(wordprob, folder):
    pytest.importorskip("scipy")
    Path("eu.csv").write_text(READING.replace(",", ";").replace("1.50", "1,5"), encoding="utf-8")
    wordprob("score", "eu.csv", "-o", "eu_scored.csv", *EXACT)
    assert ";1,25" in Path("eu_scored.csv").read_text()
    code, out, err = wordprob("contrast", "eu_scored.csv", "--region", "critical")
    assert (code, err) == (0, "")
    assert pd.read_csv(io.StringIO(out), sep="\t")["n_items"][0] == 3


def test_contrast_lists_the_items_that_were_left_out(wordprob, scored):
    pytest.importorskip("scipy")
    lines = Path("scored.csv").read_text().splitlines(keepends=True)
    Path("scored.csv").write_text("".join(lines[:-4]))
    code, _, err = wordprob("contrast", "scored.csv")
    assert code == 0
    assert err == "wordprob: item 003 left out: no row in condition b\n"


@pytest.mark.parametrize("ending", ["pdf", "png", "svg"])
def test_plot(wordprob, scored, ending):
    pytest.importorskip("matplotlib")
    code, out, err = wordprob("plot", "scored.csv", "--text", "item=001", "--naive", "-o", f"x.{ending}")
    assert (code, out, err) == (0, "", "")
    first = Path(f"x.{ending}").read_bytes()
    if ending != "svg":
        wordprob("plot", "scored.csv", "--text", "item=001", "--naive", "-o", f"x.{ending}", "--force")
        assert Path(f"x.{ending}").read_bytes() == first, "the same result gives the same bytes"


def test_plot_by_condition_and_of_plain_texts(wordprob, scored):
    pytest.importorskip("matplotlib")
    assert wordprob("plot", "scored.csv", "--condition", "condition", "-o", "regions.png")[0] == 0
    wordprob("score", "--text", "She saw the mark", "-o", "plain.tsv", *EXACT)
    assert wordprob("plot", "plain.tsv", "-o", "plain.png", "--width", "3", "--height", "2")[0] == 0
    code, _, err = wordprob("plot", "plain.tsv", "-o", "other.png", "--value", "suprisal")
    assert code == 1
    assert "Did you mean surprisal" in err
    assert not Path("other.png").exists()
    code, _, err = wordprob("plot", "scored.csv", "--condition", "condition", "--naive", "-o", "other.png")
    assert code == 2
    assert "leave --text and --naive out" in err


def test_letters_without_a_font_give_one_warning(wordprob, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("wordprob.analysis.plot_style.MORE_FONTS", ())
    (tmp_path / "x.tsv").write_text("text_id\tword\tsurprisal\n0\t日本\t1\n0\t語\t2\n", encoding="utf-8")
    code, _, err = wordprob("plot", str(tmp_path / "x.tsv"), "-o", str(tmp_path / "x.png"))
    assert code == 0
    assert err == ("wordprob: 3 letters have no glyph in the installed fonts; install a font such as Noto Sans CJK\n")


def test_a_table_through_a_pipe(tmp_path):
    """In a process of its own, whose output another program reads."""
    command = f"{sys.executable} -m wordprob score - --input-format csv --model exact:bow"
    command += " --word-column word --group-by item,condition"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -2"],
        input=READING.encode(),
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    assert done.stdout.decode().splitlines()[1].startswith("001,a,start,She,1.50,0,0,1,0,1.25")


def _tutorial() -> list[str]:
    text = (ROOT / "docs/tables.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```", text, re.M | re.S)
    lines = [line for language, block in blocks if not language for line in block.splitlines()]
    return [line for line in lines if line.startswith("wordprob ")]


def test_the_tutorial_runs(wordprob, tmp_path, monkeypatch):
    """The commands of docs/tables.md in their order; the toy stands in for the models."""
    pytest.importorskip("matplotlib")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    rows = [("w1", "The", 1), ("w1", "mark", 0), ("w1", ".", 0)]
    tagged = "".join(f"{n},{token},{space},The mark.\n" for n, token, space in rows)
    Path("tagged.csv").write_text(f"sentence_id,token,space,sentence\n{tagged}", encoding="utf-8")
    commands = _tutorial()
    assert len(commands) >= 10
    for line in commands:
        models = EXACT if line.startswith(("wordprob score", "wordprob pairs")) and "--model" not in line else []
        typed = line.replace("gpt2-small", "exact:bow").replace("pythia-160m", "exact:eow")
        code, _, err = wordprob(*shlex.split(typed)[1:], *models)
        assert code == 0, (line, err)
