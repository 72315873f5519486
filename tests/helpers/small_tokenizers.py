"""Small tokenisers that work as well-known ones do, trained on a few lines in the test: nothing is downloaded.

Each has the normaliser, pre-tokeniser and decoder of the tokeniser it is named after, and a few hundred tokens.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LINES = [
    "She saw the mark on the wall. The mark was small, and she saw it well.",
    "How do you compute its probability? How do you know the word's probability?",
    'He said "no." And she said, "Yes," he said. "No." And then: "Well?" "It is."',
    "It was in 2024 that the marker was marked; in 1914, 365 days, 12345 and 10,000 more.",
    "“Well,” said Mr. O'Brien, “it’s odd...” She couldn't say; they don't, I won't, it's here.",
    "Charles' dog is half-way. The boss' car wasn't new (5' long?) so—'no'—she left (±n).",
    '(She said "no.") (He said "yes.") (They said "no.")',
    "What is it?\n\nIt is a mark.\n\nHow?\n\nNo. \nYes?\r\nThe end.\n\n\n",
    "if (a[i] != b[j]) { return x->y; }  a  b\t(c)\n    def mark(self):\n        return [1, 2];;",
    "Ça va? L'été, l'amour… naïve café. Süß, so Ümit. Он сказал: «Да», мир. Привет, мир!",
    "我喜欢吃苹果。我喜欢中文（书）。今日は良い天気です。「本」を読む。",
    "यह किताब है। แมวกินปลา ที่นี่ זה ספר טוב هذا كتاب؟ 😀😀",
    "Once upon a time, there was a little girl. One day she went to the park with the other children.",
    "the man saw the other word in the text and another marker; they were there, then there was more.",
    "a\u00a0b, a\u00a0c, p.\u00a05 and p.\u00a06, a\u2003b and the marks, the marks; ok. marker marks",
    "a: she had thought of it; b: he had said so... and so on -- to the end! It ended. Ends.",
]
"""What the tokenisers are trained on."""

VOCABULARY_SIZE = 640
ASCII = [chr(point) for point in range(0x21, 0x7F)]
GPT2_ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
BYTE_FALLBACK = [f"<0x{byte:02X}>" for byte in range(256)]
WRITTEN_IN_BYTES = re.compile(r"[^\x00-\u04ff\u2010-\u203a我喜欢。（）]")
"""Characters for which a tokeniser with byte fallback has no token."""
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CLIP_PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
BEGINNINGS_MARKED = r"▁?[\p{L}\p{M}\p{N}]+|▁?[^\p{L}\p{M}\p{N}▁]+|▁+"
ENDS_MARKED = r"[\p{L}\p{M}\p{N}]+▁?|[^\p{L}\p{M}\p{N}▁]+▁?|▁+"
DOCUMENT = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
SENTENCE_PIECE = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


# --- byte-level ---------------------------------------------------------------------------------------------------


def _byte_level(pre_tokenizer, normalizer=None):
    """Return a tokeniser over bytes; its pre-tokeniser ends in ``ByteLevel``."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer is not None:
        made.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=GPT2_ALPHABET,
        show_progress=False,
    )
    made.train_from_iterator(LINES, trainer)
    return made, DOCUMENT


def _bytes_of_pieces(*steps):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not steps)])


def _gpt2():
    return _byte_level(_bytes_of_pieces())


def _gpt_neox():
    return _byte_level(_bytes_of_pieces(), normalizers.NFC())


def _llama3():
    return _byte_level(_bytes_of_pieces(pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated")))


def _qwen2():
    one_digit = LLAMA3_PATTERN.replace("{1,3}", "")
    return _byte_level(_bytes_of_pieces(pre_tokenizers.Split(Regex(one_digit), "isolated")), normalizers.NFC())


# --- a mark for spaces --------------------------------------------------------------------------------------------


def _metaspace(normalizer, pattern=None, special=("<unk>", "<s>", "</s>"), strip=0):
    """Return a tokeniser with byte fallback that writes ``▁`` for a space; ``pattern`` says what it splits first."""
    unknown = "<unk>" if "<unk>" in special else None
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token=unknown, fuse_unk=unknown is not None))
    made.normalizer = normalizer
    # Training splits texts into words, so that no token is a whole line.
    made.pre_tokenizer = pre_tokenizers.Split(Regex(pattern or "▁+[^▁]*|[^▁]+"), "isolated")
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*steps, decoders.Strip(" ", strip, 0)] if strip else steps)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE, special_tokens=[*special, *BYTE_FALLBACK], show_progress=False
    )
    made.train_from_iterator([WRITTEN_IN_BYTES.sub("", line) for line in LINES], trainer)
    saved = json.loads(made.to_str())
    saved["added_tokens"] = [token for token in saved["added_tokens"] if token["content"] in special]
    saved["pre_tokenizer"] = saved["pre_tokenizer"] if pattern else None
    return Tokenizer.from_str(json.dumps(saved))


def _replace_spaces():
    return normalizers.Replace(" ", "▁")


def _llama2():
    """A space before every text."""
    normalizer = normalizers.Sequence([normalizers.Prepend("▁"), _replace_spaces()])
    return _metaspace(normalizer, strip=1), SENTENCE_PIECE


def _gemma():
    """No space before a text, and words that are not split first."""
    return _metaspace(_replace_spaces()), SENTENCE_PIECE


def _bow():
    return _metaspace(_replace_spaces(), BEGINNINGS_MARKED, ["<|endoftext|>"]), DOCUMENT


def _eow():
    return _metaspace(_replace_spaces(), ENDS_MARKED, ["<|endoftext|>"]), DOCUMENT


def _unigram():
    """T5's kind: the likeliest pieces, a space before every text, and ``<unk>`` for characters that it has not."""
    text = "▁".join(WRITTEN_IN_BYTES.sub("", line) for line in LINES).replace(" ", "▁")
    pieces = [piece for piece in _llama2()[0].get_vocab() if piece in text]
    scores = {piece: math.log(text.count(piece) / len(text)) for piece in sorted(pieces)}
    special = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    made = Tokenizer(models.Unigram([*special, *scores.items()], unk_id=0))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return made, SENTENCE_PIECE


# --- white space is dropped ---------------------------------------------------------------------------------------

PRIVATE = 0xF0000
"""Added to a character that bears a mark, so that pieces with it can be trained like any others."""


def _marked_pieces(normalizer, pre_tokenizer, is_marked, translate):
    """Train on words whose characters bear marks; return the pieces (characters first) and the merges.

    The trainers of ``tokenizers`` know marks themselves, but number marked pieces in another order each time.
    """
    lines = [pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(line)) for line in LINES]
    words = [word for line in lines for word, _ in line]
    private = [
        "".join(chr(ord(c) + PRIVATE) if is_marked(k, len(word)) else c for k, c in enumerate(word)) for word in words
    ]
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    plain.train_from_iterator(private, trainers.BpeTrainer(vocab_size=VOCABULARY_SIZE, show_progress=False))
    model = json.loads(plain.to_str())["model"]
    pieces = [translate(piece) for piece in sorted(model["vocab"], key=model["vocab"].__getitem__)]
    return pieces, [tuple(map(translate, merge)) for merge in model["merges"]]


def _unmarked(piece):
    return "".join(chr(ord(c) - PRIVATE) if ord(c) >= PRIVATE else c for c in piece)


def _ends_marked(piece):
    return _unmarked(piece) + ("</w>" if ord(piece[-1]) >= PRIVATE else "")


def _continues_marked(piece):
    return ("##" if ord(piece[0]) >= PRIVATE else "") + _unmarked(piece)


def _is_last(place, length):
    return place == length - 1


def _is_not_first(place, length):
    return place > 0


def _end_of_word_bpe(normalizer, pre_tokenizer, first, alphabet, unknown=None):
    pieces, merges = _marked_pieces(normalizer, pre_tokenizer, _is_last, _ends_marked)
    singles = [character + mark for character in alphabet for mark in ("", "</w>")]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys([first, *singles, *pieces]))}
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, end_of_word_suffix="</w>"))
    made.normalizer, made.pre_tokenizer = normalizer, pre_tokenizer
    return made


def _clip():
    """Bytes, in lower case, with ``</w>`` where a piece ends."""
    normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    pre_tokenizer = _bytes_of_pieces(pre_tokenizers.Split(Regex(CLIP_PATTERN), "removed", invert=True))
    made = _end_of_word_bpe(normalizer, pre_tokenizer, "<|endoftext|>", GPT2_ALPHABET)
    made.decoder = decoders.ByteLevel()
    return made, DOCUMENT


def _openai_gpt():
    """GPT-1: lower case, punctuation split off, ``</w>`` at the end of a piece, no token that starts a document."""
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made = _end_of_word_bpe(normalizers.BertNormalizer(), pre_tokenizer, "<unk>", ASCII, unknown="<unk>")
    made.decoder = decoders.BPEDecoder(suffix="</w>")
    return made, {"unk_token": "<unk>"}


def _ctrl():
    """CTRL, which has no fast tokeniser: ``@@`` behind pieces that a word continues after, newlines inside tokens."""
    from transformers import CTRLTokenizer

    normalizer, words = normalizers.Sequence([]), pre_tokenizers.Split(Regex(r"\S+\n?"), "removed", invert=True)
    pieces, merges = _marked_pieces(normalizer, words, _is_last, _ends_marked)
    singles = [character + mark for character in ASCII for mark in ("", "</w>")]
    tokens = [piece.removesuffix("</w>") if piece.endswith("</w>") else f"{piece}@@" for piece in (*singles, *pieces)]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys([*tokens, "<unk>"]))}
    merges = [f"{left} {right}" for left, right in merges if "\n" not in left + right]
    with TemporaryDirectory() as directory:
        files = [Path(directory, name) for name in ("vocab.json", "merges.txt")]
        for file, content in zip(files, (json.dumps(vocabulary), "\n".join(["#version", *merges, ""])), strict=True):
            file.write_text(content, encoding="utf-8")
        return CTRLTokenizer(*map(str, files))


def _bert():
    """WordPiece: lower case, ``##`` before pieces that continue a word, ``[UNK]`` for words that it cannot write."""
    normalizer, pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    pieces, _ = _marked_pieces(normalizer, pre_tokenizer, _is_not_first, _continues_marked)
    singles = [mark + character for character in ASCII for mark in ("", "##")]
    special = {"bos_token": "[BOS]", "eos_token": "[EOS]", "unk_token": "[UNK]"}
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys([*special.values(), *singles, *pieces]))}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer, made.decoder = normalizer, pre_tokenizer, decoders.WordPiece()
    return made, special


MAKERS = {
    "small-gpt2": _gpt2,
    "small-gpt-neox": _gpt_neox,
    "small-llama3": _llama3,
    "small-qwen2": _qwen2,
    "small-llama2": _llama2,
    "small-gemma": _gemma,
    "small-unigram": _unigram,
    "small-bow": _bow,
    "small-eow": _eow,
    "small-clip": _clip,
    "small-openai-gpt": _openai_gpt,
    "small-bert": _bert,
    "small-ctrl": _ctrl,
}
"""Every small tokeniser by its name. ``bow`` and ``eow`` differ only in where they mark words: ``▁mark``, ``mark▁``."""

REWRITING = ("small-clip", "small-openai-gpt", "small-bert")
"""Those that drop white space and capitals."""
SPACELESS = (*REWRITING, "small-ctrl")
"""Those whose tokens hold no white space."""


@cache
def transformers_tokenizer(name):
    """Return a small tokeniser as transformers has it."""
    from transformers import PreTrainedTokenizerFast

    made = MAKERS[name]()
    if not isinstance(made, tuple):
        return made
    backend, special = made
    return PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False, **special)


@cache
def small_tokenizer(name):
    """Return a small tokeniser as models have it."""
    from wordprob.models.huggingface.tokenizer import HFTokenizer

    return HFTokenizer(transformers_tokenizer(name))


def save_tokenizer(name, directory, **settings) -> Path:
    """Write the files of a small tokeniser; ``settings`` go into ``tokenizer_config.json``."""
    transformers_tokenizer(name).save_pretrained(directory)
    file = Path(directory) / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    return Path(directory)
