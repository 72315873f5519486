"""Hugging Face tokenisers, fast and slow, behind one face."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from wordprob.core.vocabulary import Tokens, Vocabulary, all_spans, build_vocabulary
from wordprob.errors import ModelError, OptionError
from wordprob.models.huggingface import chunked_tokenization as pieces

SEPARATORS = ("<|endoftext|>", "<|begin_of_text|>", "<|startoftext|>", "<s>", "<bos>", "[BOS]")
"""Tokens that stand before a document in training data, where they exist."""

DOCUMENT_ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]")
"""Tokens that stand after one."""

TURNS = ("<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "[INST]")
"""Tokens that open a turn of a chat; some tokenisers declare one as their BOS."""


class HFTokenizer:
    """A transformers tokeniser with its vocabulary as bytes.

    Parameters
    ----------
    tokenizer
        What ``AutoTokenizer.from_pretrained`` returned.
    bos
        The start-of-text token, by its text or id; ``"none"`` for no start token; by default the one that stands
        before a document in training.
    ends
        Further ids that end a document (from the model's configuration).
    """

    vocabulary: Vocabulary

    def __init__(self, tokenizer: Any, bos: str | int | None = None, ends: Iterable[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._backend = getattr(tokenizer, "backend_tokenizer", None) if tokenizer.is_fast else None
        self._control = _control(tokenizer)
        start = self._start(bos)
        if self._backend is not None:
            self._backend.no_truncation()
            self._backend.no_padding()
            self._backend.encode_special_tokens = True
        final = [*ends, *_ends(tokenizer, self._control)]
        unknown = tokenizer.unk_token_id
        self.vocabulary = build_vocabulary(
            [str(p) for p in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))],
            self._ids,
            added={i: token.content for i, token in tokenizer.added_tokens_decoder.items()},
            control=self._control - {unknown},
            start=start,
            ends=[i for i in dict.fromkeys(final) if i < len(tokenizer)],
            unknown=None if unknown in final else unknown,
        )
        if not any(self.vocabulary.pieces):
            raise ModelError("the tokeniser has no tokens that stand for text.")

    def __getstate__(self) -> dict[str, Any]:
        """Leave transformers behind where the tokeniser proper can do without: a process that reads starts sooner."""
        return {**self.__dict__, "_tokenizer": None if self._backend is not None else self._tokenizer}

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise each text, without special tokens; text that looks like one is text."""
        if self._backend is None:
            return all_spans(texts, [self._ids(t) for t in texts], self.vocabulary, None)
        long = max(map(len, texts), default=0) > pieces.LONG and self._left_out is not None
        ids = self._in_pieces(texts, self._left_out or 0) if long else self._whole(texts)
        return all_spans(texts, ids, self.vocabulary, lambda n: self._offsets(texts[n]))

    def cut(self, text: str, place: int) -> tuple[int, int] | None:
        """Return where a text can be cut, at a place or after it: where the first part ends and the rest begins."""
        if self._backend is None or self._left_out is None:
            return None
        found = pieces.CUT.search(text, place)
        return None if found is None else (found.start(), found.start() + self._left_out)

    def _whole(self, texts: Iterable[str]) -> list[Sequence[int]]:
        backend: Any = self._backend
        return [e.ids for e in backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    def _in_pieces(self, texts: Sequence[str], left_out: int) -> list[Sequence[int]]:
        """Tokenise the long ones of these texts piece by piece: whole, they take some hundred bytes a token."""
        short = iter(self._whole(text for text in texts if len(text) <= pieces.LONG))
        return [
            next(short) if len(text) <= pieces.LONG else self._joined(pieces.cut(text, pieces.PIECE, left_out))
            for text in texts
        ]

    def _joined(self, parts: Iterator[str]) -> Sequence[int]:
        ids = array("q")
        while batch := list(islice(parts, pieces.BATCH)):
            for found in self._whole(batch):
                ids.extend(found)
        return ids

    @cached_property
    def _left_out(self) -> int | None:
        """What a cut leaves out of a long text (see :mod:`pieces`), tried out; ``None`` where texts stay whole."""
        found = pieces.left_out(self._backend)
        if found is None:
            return None
        same = list(self._joined(pieces.cut(pieces.PROBE, 1, found))) == self._whole([pieces.PROBE])[0]
        return found if same else None

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the tokeniser's own account of where its tokens stand, for a text it rewrote."""
        backend: Any = self._backend
        return list(backend.encode(text, add_special_tokens=False).offsets)

    def _ids(self, text: str) -> list[int]:
        if self._backend is not None:
            return list(self._backend.encode(text, add_special_tokens=False).ids)
        return list(self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])

    def _start(self, bos: str | int | None) -> int | None:
        if bos is None:
            return _document_start(self._tokenizer, self._control)
        if bos == "none":
            return None
        found = bos if isinstance(bos, int) else self._tokenizer.get_vocab().get(bos)
        if found is None or not 0 <= found < len(self._tokenizer):
            known = [self._tokenizer.convert_ids_to_tokens(i) for i in sorted(self._control)][:20]
            raise OptionError(
                f"the tokeniser has no token {bos!r} to start with. Its control tokens: {', '.join(known)}"
            )
        return int(found)


def _control(tokenizer: Any) -> set[int]:
    added = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    return {int(i) for i in {*added, *tokenizer.all_special_ids} if i is not None and i < len(tokenizer)}


def _known(tokenizer: Any, names: Iterable[str], control: set[int]) -> list[int]:
    table = tokenizer.get_vocab()
    return [table[name] for name in names if table.get(name) in control]


def _document_start(tokenizer: Any, control: set[int]) -> int | None:
    """Return the token that stands before a document: not always the declared BOS.

    First what the tokeniser itself puts in front; then a separator it knows; then its BOS or EOS, unless that opens
    a turn of a chat.
    """
    front = tokenizer("a")["input_ids"]
    if len(front) > 1 and front[0] in control:
        return int(front[0])
    if found := _known(tokenizer, SEPARATORS, control):
        return found[0]
    turns = {tokenizer.get_vocab().get(name) for name in TURNS}
    declared = [i for i in (tokenizer.bos_token_id, tokenizer.eos_token_id) if i is not None and i not in turns]
    return int(declared[0]) if declared else None


def _ends(tokenizer: Any, control: set[int]) -> list[int]:
    declared = [tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else []
    return [*declared, *_known(tokenizer, DOCUMENT_ENDS, control)]


def generation_ends(directory: Path) -> list[int]:
    """Return the end ids that a model directory's configuration files name."""
    import json

    found: list[int] = []
    for name in ("generation_config.json", "config.json"):
        if (directory / name).is_file():
            listed = json.loads((directory / name).read_text(encoding="utf-8")).get("eos_token_id")
            found += listed if isinstance(listed, list) else [] if listed is None else [listed]
    return list(dict.fromkeys(int(i) for i in found))


def load_tokenizer(
    source: str | Path,
    bos: str | int | None = None,
    ends: Iterable[int] = (),
    *,
    revision: str | None = None,
    trust_remote_code: bool = False,
    **options: Any,
) -> HFTokenizer:
    """Load a tokeniser from a hub id or a directory."""
    from transformers import AutoTokenizer

    keep_imports()
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(source), revision=revision or "main", trust_remote_code=trust_remote_code, **options
        )
    except Exception as error:
        raise ModelError(f"no tokeniser could be loaded from {source}: {_first_line(error)}") from error
    return HFTokenizer(tokenizer, bos, ends)


@cache
def keep_imports() -> None:
    """Tell Python's collector, once, that what has been imported is no garbage.

    It would else look through some hundred thousand objects again and again, which takes a tenth of the host's time.
    """
    gc.freeze()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
