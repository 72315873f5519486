"""The registry: names, checksums, downloads that go wrong, local copies."""

import hashlib
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from wordprob import corpora
from wordprob.corpora.pimentel_meister import without_byte_spelling
from wordprob.errors import DownloadError, InputError, OptionError

SHARED = Path(__file__).parents[3] / "shared" / "data"
local = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is absent")


def test_names_of_corpora_and_groups() -> None:
    languages = {f"meco-{code}{raw}" for code in ("fi", "ge", "gr", "he", "it", "sp", "tr") for raw in ("", "-raw")}
    english = {"brown", "natural_stories", "provo"}
    releases = {f"{name}-raw" for name in english} | {"dundee"}
    assert set(corpora.names()) == english | releases | languages | {"paper", "meco", "meco-raw"}
    assert [corpus.name for corpus in corpora.find("paper")] == ["brown", "natural_stories", "provo"]


def test_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"no corpus is called 'povo'\. Did you mean provo"):
        corpora.find("povo")


def test_every_corpus_has_terms_and_a_citation() -> None:
    for corpus in corpora.CORPORA.values():
        assert corpus.licence
        assert corpus.citation
        assert corpus.name in corpora.describe()
        assert corpus.licence in corpora.describe()
        for file in corpus.files:
            assert not file.sha256 or re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert not file.url.startswith("https://raw") or re.search("/[0-9a-f]{40}/", file.url), "a fixed commit"
        assert corpus.fetched or corpus.by_hand, "what is not fetched says where it is"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[corpora.Corpus, Path]:
    """A corpus of one file that is fetched from a folder."""
    monkeypatch.setenv("WORDPROB_CACHE", str(tmp_path / "cache"))
    there = tmp_path / "there.txt"
    there.write_bytes(b"She saw the mark\n" * 9000)
    digest = hashlib.sha256(there.read_bytes()).hexdigest()
    file = corpora.CorpusFile("texts/x.txt", there.as_uri(), digest)
    return replace(corpora.CORPORA["provo"], name="x", files=(file,)), there


def test_file_is_fetched_once_and_checked(served: tuple[corpora.Corpus, Path]) -> None:
    corpus, there = served
    seen: list[int] = []
    path = corpora.fetch(corpus, corpus.files[0], lambda _, done, __: seen.append(done))
    assert path.read_bytes() == there.read_bytes()
    assert seen[-1] == there.stat().st_size
    assert len(seen) > 1
    there.unlink()
    assert corpora.fetch(corpus, corpus.files[0]) == path, "the second time from the cache"


def test_wrong_checksum_keeps_nothing(served: tuple[corpora.Corpus, Path], tmp_path: Path) -> None:
    corpus, there = served
    there.write_bytes(b"something else")
    with pytest.raises(
        DownloadError, match=r"not what was registered: its SHA-256 is \w{64}, not \w{64}. Nothing was kept"
    ):
        corpora.fetch(corpus, corpus.files[0])
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_error_when_offline_says_what_to_do(served: tuple[corpora.Corpus, Path]) -> None:
    corpus, there = served
    there.unlink()
    with pytest.raises(DownloadError, match=r"could not be fetched.*texts/x.txt.*`data_dir`"):
        corpora.fetch(corpus, corpus.files[0])


@pytest.mark.parametrize("name", [name for name, corpus in corpora.CORPORA.items() if not corpus.fetched])
def test_error_for_corpora_that_are_not_fetched_says_where_to_get_them(name: str) -> None:
    with pytest.raises(DownloadError, match=r"not fetched automatically \(.+\)\. (Get|Ask) .* folder.*`data_dir`"):
        corpora.load(name)


def test_folder_without_the_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"texts/brown.txt and merged/brown-MODEL.tsv"):
        corpora.load("brown", tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        corpora.load("brown", tmp_path / "nowhere")


@local
@pytest.mark.parametrize("name", ["brown", "natural_stories", "provo"])
def test_published_tables_fit_their_texts(name: str) -> None:
    for folder in (SHARED, SHARED / "paper_reading_times"):
        found = corpora.load(name, folder)
        assert [word for text in found.texts for word in text.split()] == found.words["word"].tolist()
        assert sorted(found.scored) == ["gpt2-small", "pythia-14b", "pythia-70m"]
        assert not [note for note in found.notes if "differs" in note]
    assert ("misaligned by one word" in " ".join(found.notes)) == (name == "natural_stories")


@local
def test_changed_copy_gets_a_note(tmp_path: Path) -> None:
    for name in ("texts/provo.txt", "merged/provo-gpt2-small.tsv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((SHARED / "paper_reading_times" / name).read_bytes() + b"\n")
    assert corpora.load("provo", tmp_path).notes[0].startswith("provo: texts/provo.txt differs")


def test_byte_level_spellings_are_undone() -> None:
    assert [without_byte_spelling(word) for word in ("Ãĳ", "womenÃķs", "plain", "Ñ")] == ["Ñ", "womenÕs", "plain", "Ñ"]


MECO = """lang,trialid,ianum,ia,total_rt,gaze_rt,firstfix_rt,len,freq,surp
fi,1,1,Yksi,1,200,1,4,0.01,0.0
fi,1,2,talo,1,210,1,4,0.02,2.0
fi,1,3,,1,150,1,3,0.03,3.0
fi,1,4,oli,1,220,1,8,0.04,4.0
fi,1,5,punainen,1,230,1,2,0.0,5.0
fi,2,1,Se,1,200,1,2,0.01,1.0
fi,2,3,seisoi,1,210,1,4,0.02,2.0
fi,2,4,tien,1,220,1,7,0.03,3.0
fi,3,1,Ja,1,200,1,2,0.01,1.0
fi,3,3,seisoi,1,210,1,6,0.02,2.0
"""


def test_misplaced_predictors_are_moved_back_to_their_words(tmp_path: Path) -> None:
    """An empty word (text 1) and a skipped number (text 2) shift what follows; a word that is missing (3) does not."""
    (tmp_path / "fi.csv").write_text(MECO, encoding="utf-8")
    found = corpora.load("meco-fi", tmp_path)
    rows = found.scored["mGPT"].assign(bits=lambda f: f["surprisal_naive"] / math.log(2))
    assert rows["word"].tolist() == ["Yksi", "talo", "oli", "punainen", "Se", "seisoi", "tien", "Ja", "seisoi"]
    assert rows["word_id"].tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 2]
    assert [None if math.isnan(b) else round(b, 9) for b in rows["bits"]] == [None, 2, 3, 4, 1, None, 2, 1, 2]
    assert rows["freq"].iloc[2] == pytest.approx(-math.log(0.03))
    assert found.texts[0] == "Yksi talo oli punainen"


@local
@pytest.mark.parametrize("name", corpora.GROUPS["meco"])
def test_meco_lengths_fit_their_words(name: str) -> None:
    words = corpora.load(name, SHARED).words
    known = words[words["word_len"].notna()]
    assert (known["word"].str.len() == known["word_len"]).all()
    assert len(words) - len(known) <= 3
