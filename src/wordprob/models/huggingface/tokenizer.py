"""Hugging Face tokenizers, fast and slow, behind the protocol's interface."""

from __future__ import annotations

import gc
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import cache, cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from wordprob.core.arrays import slices_of
from wordprob.core.vocabulary import Tokens, Vocabulary, all_spans, build_vocabulary
from wordprob.errors import ModelError, OptionError
from wordprob.models.huggingface import chunked_tokenization as chunking
from wordprob.models.huggingface.chat import ChatFrame, Message, chat_frame
from wordprob.models.huggingface.declared_convention import declared_convention
from wordprob.options import ModelOptions

DOCUMENT_STARTS = ("<|endoftext|>", "<|begin_of_text|>", "<|startoftext|>", "<s>", "<bos>", "[BOS]")
"""Tokens that are put before a document in training data, where they exist."""

DOCUMENT_ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]")
"""Tokens that are put after a document."""

CHAT_TURNS = ("<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "[INST]")
"""Tokens that open a turn of a chat; some tokenizers declare one of these as their BOS."""

MIN_JOINED_TEXTS = 64
"""So many texts are joined, where that is possible, before they are tokenized."""

NO_TOKENIZER_FILES = (
    "it has no tokenizer.json, and nothing that one could be made of: tokenizer.model, or vocab.json and merges.txt. "
    "Put the tokeniser's files beside the model, or use a model that has them"
)
"""What is wrong with a source from which transformers can make no tokenizer."""

MAX_LISTED_TOKENS = 20
"""How many control tokens an error message lists."""

Result = TypeVar("Result")


class HFTokenizer:
    """A transformers tokenizer with its vocabulary as bytes.

    Parameters
    ----------
    tokenizer
        What ``AutoTokenizer.from_pretrained`` returned.
    bos
        The start-of-text token, by its text or id; ``"none"`` for no start token; by default the one that precedes a
        document in training.
    ends
        Further ids that end a document (from the model's configuration).
    message
        The message of a chat that texts are, if they are one.
    start_ids
        What the model sees before every text, where its configuration says that.

    Attributes
    ----------
    chat
        What the chat template puts around a message; ``None`` where texts are not messages.
    transformers_tokenizer
        The tokenizer that was given; ``None`` in a copy that was unpickled and does not need it.
    backend
        The ``tokenizers.Tokenizer`` that does the work; ``None`` for a slow tokenizer.
    """

    vocabulary: Vocabulary

    def __init__(
        self,
        tokenizer: Any,
        bos: str | int | None = None,
        ends: Iterable[int] = (),
        message: Message | None = None,
        start_ids: Sequence[int] = (),
    ) -> None:
        self.transformers_tokenizer = tokenizer
        self.backend = getattr(tokenizer, "backend_tokenizer", None) if tokenizer.is_fast else None
        self._control = _control_ids(tokenizer)
        self.chat: ChatFrame | None = None
        if message is not None:
            self.chat = chat_frame(tokenizer, message, self._control)
        start: int | None
        opening: Sequence[int] = ()
        if self.chat is not None:
            start, opening = self.chat.before[0], self.chat.before[1:]
        elif start_ids and bos is None:
            start, opening = start_ids[0], start_ids[1:]
        else:
            start = self._start_id(bos)
        if self.backend is not None:
            self.backend.no_truncation()
            self.backend.no_padding()
            self.backend.encode_special_tokens = True  # "</s>" in a text is text, not the end of it
        end_ids = [*ends, *_end_ids(tokenizer, self._control)]
        if self.chat is not None and self.chat.after is not None:
            end_ids.append(self.chat.after)
        unknown = tokenizer.unk_token_id
        self.vocabulary = build_vocabulary(
            [str(token) for token in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))],
            self._ids,
            added={i: token.content for i, token in tokenizer.added_tokens_decoder.items()},
            control=self._control - {unknown},
            start=start,
            ends=[i for i in dict.fromkeys(end_ids) if i < len(tokenizer)],
            unknown=None if unknown in end_ids else unknown,
            opening=tuple(opening),
            convention=declared_convention(self.backend),
        )
        if not any(self.vocabulary.pieces):
            raise ModelError("the tokeniser has no tokens that stand for text.")

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the transformers tokenizer where it is not needed: a worker process then starts sooner."""
        state = dict(self.__dict__)
        if self.backend is not None:
            state["transformers_tokenizer"] = None
        return state

    def encode(self, texts: Sequence[str]) -> Sequence[Tokens]:
        """Tokenize each text, without special tokens; text that looks like a special token is text."""
        if self.backend is None:
            return all_spans(texts, [self._ids(text) for text in texts], self.vocabulary, None)
        longest = max(map(len, texts), default=0)
        if longest > chunking.MAX_WHOLE_CHARACTERS and self.dropped_at_cut is not None:
            ids = self._encode_chunked(texts, self.dropped_at_cut)
        elif len(texts) >= MIN_JOINED_TEXTS and self.dropped_at_cut is not None:
            ids = self._encode_joined(texts, self.dropped_at_cut)
        else:
            ids = self.encode_whole(texts)
        return all_spans(texts, ids, self.vocabulary, lambda n: self.offsets(texts[n]))

    def cut(self, text: str, place: int) -> tuple[int, int] | None:
        """Return where a text can be cut, at a place or after it: where the first part ends and the rest begins."""
        if self.backend is None or self.dropped_at_cut is None:
            return None
        match = chunking.CUT_PATTERN.search(text, place)
        return None if match is None else (match.start(), match.start() + self.dropped_at_cut)

    @cached_property
    def dropped_at_cut(self) -> int | None:
        """How many characters a cut in a long text leaves out; ``None`` where texts must stay whole.

        See :mod:`wordprob.models.huggingface.chunked_tokenization`. What it concludes is tried out on a text here.
        """
        dropped = chunking.characters_dropped_at_cut(self.backend)
        if dropped is None:
            return None
        probe = chunking.PROBE_TEXT
        in_chunks = list(self._join_ids(chunking.chunks(probe, 1, dropped)))
        return dropped if in_chunks == self.encode_whole([probe])[0] else None

    def encode_whole(self, texts: Iterable[str]) -> list[Sequence[int]]:
        """Return the ids of texts, each tokenized in one go by the fast tokenizer."""
        backend: Any = self.backend
        batch = list(texts)
        encode = partial(backend.encode_batch_fast, batch, add_special_tokens=False)
        is_long = max(map(len, batch), default=0) > chunking.MAX_WHOLE_CHARACTERS
        return [encoding.ids for encoding in (interruptible(encode) if is_long else encode())]

    def _encode_chunked(self, texts: Sequence[str], dropped: int) -> list[Sequence[int]]:
        """Tokenize the long ones of these texts in chunks: as a whole they take some hundred bytes a token."""
        limit = chunking.MAX_WHOLE_CHARACTERS
        short = iter(self.encode_whole(text for text in texts if len(text) <= limit))
        ids: list[Sequence[int]] = []
        for text in texts:
            if len(text) <= limit:
                ids.append(next(short))
            else:
                ids.append(self._join_ids(chunking.chunks(text, chunking.CHUNK_CHARACTERS, dropped)))
        return ids

    def _encode_joined(self, texts: Sequence[str], dropped: int) -> list[Sequence[int]]:
        """Tokenize texts that can be joined as one: for many short ones, that takes less time than one by one."""
        runs = list(chunking.joined_runs(texts, dropped))
        all_ids = self.encode_whole((" " * dropped).join(run) for run in runs)
        ids: list[Sequence[int]] = []
        for run, run_ids in zip(runs, all_ids, strict=True):
            parts = [run_ids] if len(run) == 1 else self._split_ids(run_ids, run, dropped)
            ids += parts or self.encode_whole(run)
        return ids

    def _split_ids(self, ids: Sequence[int], texts: Sequence[str], dropped: int) -> list[Sequence[int]]:
        """Return the ids of texts from those of the joined texts; none if the tokens do not add up to the texts."""
        # Where one character is dropped, a space is put before every text.
        stops = np.cumsum([len(text.encode("utf-8", "surrogatepass")) + dropped for text in texts])
        token_stops = np.cumsum(self.vocabulary.lengths[np.array(ids)])
        last_tokens = np.searchsorted(token_stops, stops)
        if last_tokens[-1] != len(ids) - 1 or not np.array_equal(token_stops[last_tokens], stops):
            return []
        offsets = np.append(0, last_tokens + 1)
        return [ids[part] for part in slices_of(offsets)]

    def _join_ids(self, chunks: Iterator[str]) -> Sequence[int]:
        ids = array("q")
        while some := list(islice(chunks, chunking.CHUNKS_AT_A_TIME)):
            for chunk_ids in self.encode_whole(some):
                ids.extend(chunk_ids)
        return ids

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return where the tokenizer says its tokens are, for a text that it rewrote."""
        backend: Any = self.backend
        return list(backend.encode(text, add_special_tokens=False).offsets)

    def _ids(self, text: str) -> list[int]:
        if self.backend is not None:
            return list(self.backend.encode(text, add_special_tokens=False).ids)
        encoded = self.transformers_tokenizer(text, add_special_tokens=False, split_special_tokens=True)
        return list(encoded["input_ids"])

    def _start_id(self, bos: str | int | None) -> int | None:
        tokenizer = self.transformers_tokenizer
        if bos is None:
            return _document_start(tokenizer, self._control)
        if bos == "none":
            return None
        start = bos if isinstance(bos, int) else tokenizer.get_vocab().get(bos)
        if start is None or not 0 <= start < len(tokenizer):
            known = [tokenizer.convert_ids_to_tokens(i) for i in sorted(self._control)][:MAX_LISTED_TOKENS]
            raise OptionError(
                f"the tokeniser has no token {bos!r} to start with. Its control tokens: {', '.join(known)}"
            )
        return int(start)


def read_tokenizer(
    source: str | Path,
    bos: str | int | None = None,
    ends: Iterable[int] = (),
    revision: str | None = None,
    *,
    trust_remote_code: bool = False,
    message: Message | None = None,
    start_ids: Callable[[Any], Sequence[int]] | None = None,
) -> HFTokenizer:
    """Load a tokenizer from a hub id or a directory.

    ``start_ids`` returns, for the transformers tokenizer, what the model sees before every text.
    """
    from transformers import AutoTokenizer

    exclude_imports_from_garbage_collection()
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(source), revision=revision or "main", trust_remote_code=trust_remote_code
        )
    except Exception as error:
        reason = first_line(error)
        if reason.endswith(":"):  # a list follows of what transformers has tried
            reason = NO_TOKENIZER_FILES
        raise ModelError(f"no tokeniser could be loaded from {source}: {reason}") from error
    return HFTokenizer(tokenizer, bos, ends, message, () if start_ids is None else start_ids(tokenizer))


def message_of(options: ModelOptions) -> Message | None:
    """Return the message of a chat that texts are, if the options say so."""
    return None if options.chat_template is None else Message(options.chat_template, options.chat_prompt)


@cache
def exclude_imports_from_garbage_collection() -> None:
    """Tell Python's garbage collector, once, not to look at what has been imported so far.

    It would otherwise look through some hundred thousand objects again and again, which takes a tenth of the time that
    preparing texts takes.
    """
    gc.freeze()


def first_line(error: Exception) -> str:
    """Return the first line of an error's message without its full stop, or its class where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(". ")


def interruptible(function: Callable[[], Result]) -> Result:
    """Call a function that does not notice Ctrl-C, in such a way that the main thread does.

    The function runs in a thread of its own. After Ctrl-C nobody waits for it any more, and it ends with the process.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result()


# --- which tokens start and end a document ---------------------------------------------------------------------------


def _control_ids(tokenizer: Any) -> set[int]:
    """Return the ids of special tokens."""
    added = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    return {int(i) for i in {*added, *tokenizer.all_special_ids} if i is not None and i < len(tokenizer)}


def _known_ids(tokenizer: Any, names: Iterable[str], control: set[int]) -> list[int]:
    table = tokenizer.get_vocab()
    return [table[name] for name in names if table.get(name) in control]


def _document_start(tokenizer: Any, control: set[int]) -> int | None:
    """Return the token that precedes a document, which is not always the declared BOS.

    First what the tokenizer itself puts in front; then a document separator that it knows; then its BOS or EOS, unless
    that opens a turn of a chat.
    """
    ids = tokenizer("a")["input_ids"]
    if len(ids) > 1 and ids[0] in control:
        return int(ids[0])
    separators = _known_ids(tokenizer, DOCUMENT_STARTS, control)
    if separators:
        return separators[0]
    turns = {tokenizer.get_vocab().get(name) for name in CHAT_TURNS}
    declared = [i for i in (tokenizer.bos_token_id, tokenizer.eos_token_id) if i is not None and i not in turns]
    return int(declared[0]) if declared else None


def _end_ids(tokenizer: Any, control: set[int]) -> list[int]:
    declared = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    return [*declared, *_known_ids(tokenizer, DOCUMENT_ENDS, control)]
