"""What a table and a scorer offer in a notebook: columns, rows, HTML, figures, and other packages' data frames."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser

import pandas as pd
import pytest

import wordprob
from wordprob.errors import OptionError, OutputError, UnknownColumnError, UnsupportedError
from wordprob.render import colours, notebook

NASTY = "<script>alert('x')</script> \"&amp;\" mark"


@pytest.fixture(scope="module")
def scorer():
    return wordprob.load("exact:bow")


@pytest.fixture
def table(scorer):
    return scorer.score(["She saw the mark.", "the marker"], "punctuation")


@pytest.fixture
def texts_on_rows(scorer):
    frame = pd.DataFrame({"item": [1, 2], "sentence": ["She saw the mark", "the marker"]})
    return wordprob.score_table(frame, scorer, text_column="sentence")


class Parsed(HTMLParser):
    """Which tags there are, whether all are closed, and the text between them."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


# --- columns and rows ---


def test_columns_by_name(table):
    assert table["surprisal"].equals(table.to_pandas()["surprisal"])
    assert table[["word", "surprisal"]].equals(table.to_pandas()[["word", "surprisal"]])
    assert table.columns == list(table.to_pandas().columns)
    assert "surprisal" in table
    assert "surprise" not in table
    for kind in (KeyError, ValueError, wordprob.WordprobError):
        with pytest.raises(
            kind, match=r"^the table has no column 'surprise'. Did you mean surprisal.*It has: text_id,"
        ):
            table["surprise"]
    with pytest.raises(UnknownColumnError):
        table[["word", "surprise"]]


def test_rows_one_by_one(table):
    rows = list(table)
    assert len(rows) == len(table) == 7
    assert [row["word"] for row in rows] == table["word"].tolist()
    assert isinstance(rows[0]["surprisal"], float)
    assert pd.DataFrame(rows).equals(table.to_pandas())


def test_a_users_table_counts_its_own_rows(texts_on_rows):
    assert (len(texts_on_rows), texts_on_rows.n_words) == (2, 6)
    assert [row["item"] for row in texts_on_rows] == [1, 2]
    assert repr(texts_on_rows) == "<WordTable: 2 rows, 6 words of 2 texts, bits, exact:bow>"
    with pytest.raises(KeyError, match="It has: item, sentence,"):
        texts_on_rows["word"]


def test_missing_numbers_are_none(scorer):
    row = next(iter(scorer.score("mark.")))  # no text of the toy begins with "mark."
    assert row["surprisal"] is None


# --- what is shown ---


def test_the_scorer_says_what_it_is(scorer):
    assert repr(scorer).startswith("<Scorer: exact:bow, vocabulary of ")
    page = Parsed(scorer._repr_html_())
    assert not page.open
    assert "exact:bow" in page.text


def test_words_are_shown_in_colour(table):
    page = table._repr_html_()
    parsed = Parsed(page)
    assert not parsed.open
    assert "She saw the mark." in parsed.text, "a full stop stands right after its word"
    assert "7 words of 2 texts, bits, exact:bow" in parsed.text
    strongest = notebook._step(20.0, "bits")
    assert strongest == colours.STEPS - 1
    assert notebook._step(20.0, "nats") == notebook._step(40.0, "bits") == strongest
    assert colours.sequential("light")[notebook._step(table["surprisal"][0], "bits")] in page


def test_text_is_escaped(scorer):
    table = scorer.score([NASTY], words=[[NASTY.split()[0], '"&amp;"', "mark"]], ids=["<b>id</b>"])
    page = table._repr_html_()
    assert "<script" not in page
    assert "<b>id" not in page
    parsed = Parsed(page)
    assert not parsed.open
    assert "<script>alert('x')</script>" in parsed.text
    assert set(parsed.tags) <= {
        "div",
        "p",
        "code",
        "span",
        "small",
        "br",
        "details",
        "summary",
        "table",
        "tr",
        "th",
        "td",
    }


def test_a_large_table_is_cut_short(scorer):
    table = scorer.score(["She saw the mark"] * 5000 + ["x" * 100_000])
    page = table._repr_html_()
    assert len(page) < 200_000
    assert page.count("<tr>") == notebook.MAX_ROWS + 1
    assert f"and {len(table) - notebook.MAX_WORDS:,} more words" in page
    assert "The first 10 of 20,001 rows" in page


def test_empty_and_read_tables(scorer, tmp_path, texts_on_rows):
    assert "0 words of 1 text" in Parsed(scorer.score("")._repr_html_()).text
    path = scorer.score("the mark").write(tmp_path / "words.tsv")
    read = wordprob.WordTable.read(path)
    assert repr(read) == "<WordTable: 2 words, bits, exact:bow>"
    assert "the mark" in Parsed(read._repr_html_()).text
    assert "She saw the mark" in Parsed(texts_on_rows._repr_html_()).text
    other = wordprob.WordTable(pd.DataFrame({"a": [1]}), pd.DataFrame(), {"unit": "bits"})
    assert "<td>1</td>" in other._repr_html_()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_on_every_colour(theme):
    """On each step of both scales, with the text colour that the page uses: at least 4.5 to 1, as WCAG asks for."""
    for scale in (colours.sequential(theme), colours.diverging(theme)):
        contrasts = [colours.contrast(colours.ink(colour), colour) for colour in scale]
        assert len(contrasts) == colours.STEPS
        assert min(contrasts) >= 4.5, (theme, min(contrasts))


def test_the_styles_of_words_have_these_colours():
    """Background and text of every step, as a browser reads them: for both themes, readable."""
    for style in notebook._colour_styles():
        plain = re.match(r"background:(#\w{6});color:(#\w{6});", style)
        assert colours.contrast(plain[1], plain[2]) >= 4.5
        light_fill, dark_fill, light_ink, dark_ink = re.findall(r"#\w{6}", style)[2:]
        assert colours.contrast(light_fill, light_ink) >= 4.5
        assert colours.contrast(dark_fill, dark_ink) >= 4.5


# --- reports and figures ---


def test_a_report_is_a_page_and_shows_itself(table, tmp_path):
    report = table.report(title="Marks & more")
    assert report.startswith("<!doctype html>")
    assert "Marks &amp; more" in report
    assert repr(report).startswith("<Report: ")
    shown = report._repr_html_()
    assert shown.startswith("<iframe ")
    assert 'sandbox="allow-scripts"' in shown
    assert Parsed(shown).tags == ["iframe"], "the page is in an attribute, escaped"
    path = tmp_path / "marks.html"
    assert table.report(path) == path.read_text(encoding="utf-8")
    with pytest.raises(OutputError, match="exists"):
        table.report(path)
    assert table.report(path, force=True, title="Again") == path.read_text(encoding="utf-8")


def test_a_report_of_texts_on_rows_has_their_words(texts_on_rows):
    assert '"marker"' in texts_on_rows.report()


def test_figures(table, texts_on_rows):
    figure = table.plot(naive=True)
    assert len(figure.axes) == 2
    assert len(table.plot(0).axes) == len(table.plot(["1"]).axes) == 1
    assert len(texts_on_rows.plot().axes) == 2


def test_figures_without_the_packages(table, monkeypatch):
    for module in ("text_plots", "plot_style"):  # so that they are imported again
        monkeypatch.delitem(sys.modules, f"wordprob.analysis.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UnsupportedError, match=r"plot\(\) needs matplotlib.*pip install 'wordprob\[study\]'"):
        table.plot()


# --- other packages ---


def test_arrow_tables(table):
    pyarrow = pytest.importorskip("pyarrow")
    taken = pyarrow.table(table)  # by the protocol
    assert taken.column_names == table.columns
    assert taken["surprisal"].to_pylist() == table["surprisal"].tolist()
    assert b"wordprob" in taken.schema.metadata
    assert table.to_arrow().equals(taken)


def test_polars_takes_a_table(table, texts_on_rows):
    polars = pytest.importorskip("polars")
    for frame in (polars.DataFrame(table), table.to_polars()):
        assert frame.columns == table.columns
        assert frame["surprisal"].to_list() == table["surprisal"].tolist()
        assert frame["word"].to_list() == table["word"].tolist()
    assert texts_on_rows.to_polars()["item"].to_list() == [1, 2]


def test_duckdb_takes_a_table(table):
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.from_arrow(table).aggregate("count(*), max(word_id)").fetchall() == [(7, 4)]


def test_pandas_takes_a_table(table):
    if not hasattr(pd.DataFrame, "from_arrow"):
        pytest.skip("needs pandas 3")
    assert pd.DataFrame.from_arrow(table)["surprisal"].tolist() == table["surprisal"].tolist()


def test_without_polars(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UnsupportedError, match=r"to_polars\(\) needs polars: pip install polars"):
        table.to_polars()


# --- progress ---


def test_a_progress_bar(scorer, capsys):
    scorer.score(["She saw", "the mark"], progress=True)
    assert "2/2" in capsys.readouterr().err
    scorer.score_continuations("She", ["saw", "saw the"], progress=True)
    assert "2/2" in capsys.readouterr().err
    frame = pd.DataFrame({"text": ["She saw", "the mark"]})
    wordprob.score_table(frame, scorer, text_column="text", progress=True)
    assert "2/2" in capsys.readouterr().err
    for quiet in (None, False):
        scorer.score(["She saw", "the mark"], progress=quiet)
        assert capsys.readouterr().err == ""


def test_progress_of_ones_own(scorer):
    calls = []
    scorer.score(["She saw", "the mark"], progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (2, 2)
    with pytest.raises(OptionError, match="`progress` is 'yes'; use True for a progress bar, or a function"):
        scorer.score("She saw", progress="yes")
