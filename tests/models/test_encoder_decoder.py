"""Encoder–decoder models: the words of a target given its source, with the same correction."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import architectures

import wordprob
from wordprob.cli import cli
from wordprob.errors import InputError, OptionError, UnsupportedError

SOURCES = ["Sie sah das Zeichen.", "Ja.", "Sie sah das Zeichen."]
TARGETS = ["She saw the mark.", "Yes, it is a longer target than its source", "She saw a sign."]
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
BART = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
        "max_position_embeddings": 128}  # fmt: skip
KINDS = {
    "t5": (transformers.T5Config, T5),
    "bart": (transformers.BartConfig, BART),
    "marian": (transformers.MarianConfig, BART),
}
START = 5


def build(kind="t5"):
    config, sizes = KINDS[kind]
    torch.manual_seed(0)
    special = {"pad_token_id": 0, "eos_token_id": 0, "bos_token_id": 0, "decoder_start_token_id": START}
    network = transformers.AutoModelForSeq2SeqLM.from_config(config(vocab_size=257, **sizes, **special)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3.0)
    return network


@pytest.fixture(scope="module", params=KINDS)
def network(request):
    return build(request.param)


@pytest.fixture(scope="module")
def tokenizer():
    return architectures.byte_tokenizer()


def log_probs(network, tokenizer, source, target):
    """Return the distributions along a target, in float64, from one plain call of the network."""
    ids = tokenizer(target)["input_ids"]
    with torch.inference_mode():
        output = network(
            input_ids=torch.tensor([tokenizer(source)["input_ids"]]),
            decoder_input_ids=torch.tensor([[START, *ids]]),
        )
    return torch.log_softmax(output.logits[0].double(), dim=-1).numpy(), ids


def test_words_are_those_of_the_full_softmax(network, tokenizer):
    """By the definition: tokens of the word, the mass of what ends it, and the mass of what ended the one before."""
    scorer = wordprob.load(network, tokenizer)
    frame = scorer.score(TARGETS, sources=SOURCES, unit="nats").to_pandas()
    pieces = scorer.model.tokenizer.vocabulary.pieces
    ends = [i for i, piece in enumerate(pieces) if i == 0 or piece.isspace()]
    for number, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        rows, ids = log_probs(network, tokenizer, source, target)
        mass = np.logaddexp.reduce(rows[:, ends], axis=1)
        words = frame[frame["text_id"] == number]
        stops = words["n_tokens"].cumsum().tolist()
        for stop, word in list(zip(stops, words.itertuples(), strict=True))[1:]:
            first = stop - word.n_tokens
            naive = -sum(rows[place, ids[place]] for place in range(first, stop))
            assert word.surprisal_naive == pytest.approx(naive, abs=1e-4)
            # bytes above 127 may begin white space of several bytes: a small part of the mass at a boundary
            assert word.before == pytest.approx(-mass[first], abs=0.05)
            assert word.after == pytest.approx(-mass[stop], abs=0.05)
            assert word.surprisal == pytest.approx(naive + word.after - word.before, abs=1e-4)
    assert frame["surprisal"].notna().all()


def test_words_and_end_add_up_to_the_target(network, tokenizer):
    scorer = wordprob.load(network, tokenizer)
    texts = scorer.score(TARGETS, sources=SOURCES).texts()
    assert texts["conservation"].abs().max() < 1e-3
    assert len(texts) == 3


def test_the_source_matters_and_the_batch_does_not(tokenizer):
    scorer = wordprob.load(build(), tokenizer)
    together = scorer.score([*TARGETS, "", TARGETS[0]], sources=[*SOURCES, "x", "Nein!"], unit="nats").to_pandas()
    for number in range(3):
        alone = scorer.score([TARGETS[number]], sources=[SOURCES[number]], unit="nats").to_pandas()
        kept = together.loc[together["text_id"] == number, "surprisal"]
        assert np.allclose(kept, alone["surprisal"], atol=1e-4)
    other = together.loc[together["text_id"] == 4, "surprisal"].to_numpy()
    assert not np.allclose(other, together.loc[together["text_id"] == 0, "surprisal"], atol=1e-3)


def test_nothing_is_remembered_of_another_source(tokenizer):
    """What a text may begin with is read on once for all texts of a causal model, but it depends on the source."""
    network = build()
    first, second = wordprob.load(network, tokenizer), wordprob.load(network, tokenizer)
    first.score(["It"], sources=["Sie sah das Zeichen."])
    again = first.score(["It"], sources=["Nein!"], unit="nats").to_pandas()["before"][0]
    alone = second.score(["It"], sources=["Nein!"], unit="nats").to_pandas()["before"][0]
    assert again == pytest.approx(alone, abs=1e-6)


def test_entropy_of_words_is_refused(tokenizer):
    with pytest.raises(UnsupportedError, match="the entropy and the rank of words are not for targets"):
        wordprob.load(build(), tokenizer).score(["It is"], sources=["Ja."], extras=["word_entropy"])


def test_what_comes_before_a_target(tokenizer):
    """Some tokenizers put a token before a text; the decoder has seen it after its own start token."""
    from tokenizers import processors

    with_start = architectures.byte_tokenizer()
    with_start.backend_tokenizer.post_processor = processors.TemplateProcessing(
        f"{architectures.END} $A {architectures.END}", None, [(architectures.END, 0)]
    )
    network = build("bart")
    assert wordprob.load(network, with_start).model.tokenizer.vocabulary.start_ids == (START, 0)
    assert wordprob.load(network, tokenizer).model.tokenizer.vocabulary.start_ids == (START,)


def test_a_table_and_the_command_line(tokenizer, tmp_path):
    network = build()
    network.save_pretrained(tmp_path / "t5")
    tokenizer.save_pretrained(tmp_path / "t5")
    table = tmp_path / "pairs.csv"
    lines = [f'{n},"{source}","{target}"' for n, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True))]
    table.write_text("\n".join(["item,german,english", *lines, '3,Nein!,"She saw the mark."']) + "\n")
    expected = wordprob.load(network, tokenizer).score([*TARGETS, TARGETS[0]], sources=[*SOURCES, "Nein!"], unit="nats")
    command = ["score", str(table), "--model", str(tmp_path / "t5"), "--text-column", "english", "--per-word"]
    result = CliRunner().invoke(cli, [*command, "--source-column", "german", "--unit", "nats", "--format", "tsv"])
    assert result.exit_code == 0, result.output
    header, *rows = (line.split("\t") for line in result.stdout.splitlines())
    values = [float(row[header.index("surprisal")]) for row in rows]
    assert values == pytest.approx(expected.to_pandas()["surprisal"].tolist(), abs=1e-3)
    without = CliRunner().invoke(cli, command)
    assert "Give each text its source" in str(without.exception)
    by_word = "item,source,word\n1,Ja.,Yes\n1,Nein.,it\n"
    (tmp_path / "words.csv").write_text(by_word)
    with pytest.raises(InputError, match="has several sources in 'source'"):
        wordprob.score_table(tmp_path / "words.csv", group_by="item", source_column="source")


def test_sources_that_are_missing_or_not_wanted(tokenizer):
    scorer = wordprob.load(build(), tokenizer)
    with pytest.raises(OptionError, match="an encoder–decoder model: .* Give each text its source"):
        scorer.score(TARGETS)
    with pytest.raises(OptionError, match="Give each text its source"):
        scorer.next_words("She saw")
    with pytest.raises(InputError, match="3 texts but 1 as `sources`"):
        scorer.score(TARGETS, sources=["x"])
    with pytest.raises(InputError, match="3 texts but one string"):
        scorer.score(TARGETS, sources="abc")
    with pytest.raises(UnsupportedError, match="`max_context` is not for targets"):
        scorer.score(TARGETS, sources=SOURCES, max_context=5)
    with pytest.raises(OptionError, match="for encoder–decoder models only"):
        wordprob.load("exact:bow").score(["the mark"], sources=["x"])
    long = wordprob.load(build("bart"), tokenizer)
    with pytest.raises(InputError, match="a source has 400 tokens, and the model's encoder takes 128"):
        long.score(["Yes"], sources=["x" * 400])
