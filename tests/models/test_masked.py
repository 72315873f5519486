"""Masked models: pseudo-surprisals, by an independent reference, and nothing in the columns of surprisals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

import wordprob
from wordprob.cli import cli
from wordprob.errors import ModelError, UnsupportedError

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] she saw the mark ##er ##s it ' s . , ? a ##b ##c long".split()
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXTS = ["She saw the markers.", "It", "Abc saw it, the marker, she saw the mark?"]
KINDS = {
    "bert": transformers.BertConfig,
    "roberta": transformers.RobertaConfig,
    "distilbert": transformers.DistilBertConfig,
}


def word_pieces():
    backend = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    names = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}
    special = {f"{name}_token": token for name, token in names.items()}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def build(kind="bert", **settings):
    torch.manual_seed(0)
    sizes = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64} if kind == "distilbert" else SIZES
    settings = {"vocab_size": len(PIECES), "max_position_embeddings": 64, "pad_token_id": 0, **sizes, **settings}
    network = transformers.AutoModelForMaskedLM.from_config(KINDS[kind](**settings)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3.0)
    return network


@pytest.fixture(scope="module")
def tokenizer():
    return word_pieces()


@pytest.fixture(scope="module", params=KINDS)
def network(request):
    return build(request.param)


def reference(network, tokenizer, text, masking):
    """Return the words of a text and their pseudo-surprisals, one token at a time, by the definition in the papers.

    Words are divided as BERT divides them: at white space and around punctuation.
    """
    encoded = tokenizer(text, return_tensors="pt")
    ids, words = encoded["input_ids"][0], encoded.word_ids(0)
    totals = {}
    for place, word in enumerate(words):
        if word is None:
            continue
        masked = ids.clone()
        masked[place] = tokenizer.mask_token_id
        if masking == "within_word_l2r":
            for later in range(place + 1, len(ids)):
                if words[later] == word:
                    masked[later] = tokenizer.mask_token_id
        with torch.inference_mode():
            log_probs = torch.log_softmax(network(input_ids=masked[None]).logits[0, place].double(), dim=-1)
        totals[word] = totals.get(word, 0.0) - float(log_probs[ids[place]])
    return list(totals.values())


@pytest.mark.parametrize("masking", ["within_word_l2r", "original"])
def test_values_are_those_of_the_definition(network, tokenizer, masking):
    frame = wordprob.load(network, tokenizer, masking=masking).score(TEXTS, "punctuation", unit="nats").to_pandas()
    expected = [value for text in TEXTS for value in reference(network, tokenizer, text, masking)]
    assert frame["pseudo_surprisal"].tolist() == pytest.approx(expected, abs=1e-4)
    assert frame.loc[frame["word"] == "markers", "n_tokens"].tolist() == [3]


def test_the_two_ways_differ_where_a_word_has_several_tokens(tokenizer):
    network = build()
    tables = [wordprob.load(network, tokenizer, masking=way).score(TEXTS) for way in ("within_word_l2r", "original")]
    first, second = (table.to_pandas() for table in tables)
    several = first["n_tokens"] > 1
    assert several.any()
    assert (np.abs(first["pseudo_surprisal"] - second["pseudo_surprisal"])[several] > 1e-4).all()
    assert np.allclose(first["pseudo_surprisal"][~several], second["pseudo_surprisal"][~several], atol=1e-4)
    assert [table.metadata["masking"] for table in tables] == ["within_word_l2r", "original"]


def test_no_surprisal_is_filled(tokenizer):
    table = wordprob.load(build(), tokenizer).score(TEXTS)
    frame = table.to_pandas()
    assert frame[["surprisal", "surprisal_naive", "before", "after"]].isna().all(axis=None)
    assert frame["note"].str.contains("a masked model has no surprisals: see pseudo_surprisal").all()
    assert frame["pseudo_surprisal"].notna().all()
    texts = table.texts()
    assert texts[["log_prob", "bits_per_word", "perplexity"]].isna().all(axis=None)
    assert table.metadata["estimator"] == "pseudo"


def test_values_do_not_depend_on_the_batch(tokenizer):
    scorer = wordprob.load(build(), tokenizer)
    together = scorer.score([*TEXTS, ""], unit="nats").to_pandas()["pseudo_surprisal"].to_numpy()
    alone = [value for text in TEXTS for value in scorer.score(text, unit="nats").to_pandas()["pseudo_surprisal"]]
    assert np.allclose(together, alone, atol=1e-4)
    bits = scorer.score(TEXTS).to_pandas()["pseudo_surprisal"].to_numpy()
    assert np.allclose(bits * np.log(2.0), together, atol=1e-9)


def test_texts_longer_than_the_context(tokenizer):
    """A word in the middle is seen with as much before it as after it."""
    network = build(max_position_embeddings=12)
    text = " ".join(["she saw the mark it a"] * 5)
    frame = wordprob.load(network, tokenizer).score(text, unit="nats").to_pandas()
    around = " ".join(text.split()[15 - 4 : 15 + 6])
    expected = reference(network, tokenizer, around, "within_word_l2r")[4]
    assert frame["pseudo_surprisal"][15] == pytest.approx(expected, abs=1e-4)
    first = reference(network, tokenizer, " ".join(text.split()[:10]), "within_word_l2r")
    assert frame["pseudo_surprisal"][:4].tolist() == pytest.approx(first[:4], abs=1e-4)


def test_a_directory_and_the_command_line(tokenizer, tmp_path):
    network = build()
    network.save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    (tmp_path / "stimuli.csv").write_text("item,text\n1,She saw the markers.\n2,It\n")
    expected = reference(network, tokenizer, TEXTS[0], "within_word_l2r")
    runner = CliRunner()
    command = ["score", str(tmp_path / "stimuli.csv"), "--model", str(tmp_path / "bert"), "--unit", "nats"]
    by_word = runner.invoke(cli, [*command, "--text-column", "text", "--per-word", "--words", "punctuation"])
    assert by_word.exit_code == 0, by_word.output
    header, *rows = (line.split(",") for line in by_word.stdout.splitlines())
    values = [float(row[header.index("pseudo_surprisal")]) for row in rows]
    assert values[: len(expected)] == pytest.approx(expected, abs=1e-3)
    by_text = runner.invoke(cli, [*command, "--text-column", "text", "--words", "punctuation"])
    header, *rows = (line.split(",") for line in by_text.stdout.splitlines())
    assert float(rows[0][header.index("pseudo_surprisal")]) == pytest.approx(sum(expected), abs=1e-3)
    assert rows[0][header.index("surprisal")] == ""


def test_regions_of_a_table_are_added_up(tokenizer):
    import pandas as pd

    words = ["she", "saw", "the", "markers"]
    table = pd.DataFrame({"item": 1, "word": words, "region": ["a", "b", "b", "b"]})
    scorer = wordprob.load(build(), tokenizer)
    by_word = wordprob.score_table(table, scorer, group_by="item").to_pandas()["pseudo_surprisal"]
    by_region = wordprob.score_table(table, scorer, group_by="item", sum_by="region").to_pandas()["pseudo_surprisal"]
    assert by_region.tolist() == pytest.approx([by_word[0], by_word[1:].sum()])


@pytest.mark.parametrize(
    "options", [{"max_context": 5}, {"spellings": "all"}, {"extras": ["token_entropy"]}, {"estimators": ["naive"]}]
)
def test_what_only_causal_models_have_is_refused(tokenizer, options):
    with pytest.raises(UnsupportedError, match="is a masked model, for which `.*` has no meaning"):
        wordprob.load(build(), tokenizer).score(TEXTS, **options)


def test_next_words_are_refused(tokenizer):
    model = wordprob.load(build(), tokenizer).model
    for ask in (model.score, model.open):
        with pytest.raises(UnsupportedError, match="it fills gaps and has no probabilities of what comes next"):
            ask([], None)


def test_a_tokenizer_that_does_not_fit():
    with pytest.raises(ModelError, match="has 21 tokens, but the model's head only 10"):
        wordprob.load(build(vocab_size=10), word_pieces())
    plain = word_pieces()
    plain.mask_token = None
    with pytest.raises(ModelError, match="has no mask token"):
        wordprob.load(build(), plain)
