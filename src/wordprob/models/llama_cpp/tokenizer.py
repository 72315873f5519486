"""The tokenizer in a GGUF file, run by llama.cpp.

:class:`wordprob.models.huggingface.tokenizer.HFTokenizer` finds out all that matters about a transformers tokenizer by
asking it: which tokens start and end a document, what its pieces stand for, what a chat template puts around a message.
:class:`GGUFTokenizer` answers the same questions for a GGUF file, without transformers and without torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from wordprob.models.huggingface.tokenizer import HFTokenizer, message_of
from wordprob.models.llama_cpp.library import LlamaFile, library, token_texts
from wordprob.options import ModelOptions

NO_TOKEN = -1
"""What the library returns where a file names no such token."""


class AddedToken(NamedTuple):
    """A token that stands outside the merges: its text, and whether it is a control token."""

    content: str
    special: bool


class GGUFTokenizer:
    """The tokenizer of a GGUF file, with those methods of a transformers tokenizer that are used of it.

    Parameters
    ----------
    file
        The file, opened.
    """

    is_fast = False

    def __init__(self, file: LlamaFile) -> None:
        llama = library()
        self._file = file
        self.name_or_path = str(file.path)
        self._texts = token_texts(file)
        self.bos_token_id = _id_or_none(llama.llama_vocab_bos(file.vocabulary))
        self.eos_token_id = _id_or_none(llama.llama_vocab_eos(file.vocabulary))
        attributes = [llama.llama_vocab_get_attr(file.vocabulary, token) for token in range(file.vocab_size)]
        unknown = [token for token, attribute in enumerate(attributes) if attribute & llama.LLAMA_TOKEN_ATTR_UNKNOWN]
        self.unk_token_id = unknown[0] if unknown else None
        self.added_tokens_decoder: dict[int, AddedToken] = {}
        for token, attribute in enumerate(attributes):
            is_control = bool(attribute & llama.LLAMA_TOKEN_ATTR_CONTROL)
            if is_control or attribute & llama.LLAMA_TOKEN_ATTR_USER_DEFINED:
                self.added_tokens_decoder[token] = AddedToken(self._texts[token], is_control)
        declared = (self.bos_token_id, self.eos_token_id, self.unk_token_id)
        self.all_special_ids = [token for token in declared if token is not None]

    def __reduce__(self) -> tuple[Any, ...]:
        """Open the file again in a worker process; its weights are not read there."""
        return _reopen, (str(self._file.path),)

    def __len__(self) -> int:
        return len(self._texts)

    def __call__(
        self, text: str, add_special_tokens: bool = True, split_special_tokens: bool = False
    ) -> dict[str, list[int]]:
        """Return the ids of a text."""
        ids = self._file.tokenize(text, add_special=add_special_tokens, parse_special=not split_special_tokens)
        return {"input_ids": ids}

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        """Return tokens as the file writes them."""
        return self._texts[ids] if isinstance(ids, int) else [self._texts[token] for token in ids]

    def get_vocab(self) -> dict[str, int]:
        """Return the id of every token."""
        return self._ids_by_text

    @cached_property
    def _ids_by_text(self) -> dict[str, int]:
        return {text: token for token, text in enumerate(self._texts)}

    # --- chat templates ---

    @cached_property
    def chat_template(self) -> str | None:
        """The template that the file has, if any."""
        return self._file.metadata("tokenizer.chat_template")

    def get_chat_template(self) -> str:
        """Return the template."""
        return self.chat_template or ""

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The tokens that the template may name."""
        return {"bos_token": self._text_of(self.bos_token_id), "eos_token": self._text_of(self.eos_token_id)}

    def _text_of(self, token: int | None) -> str:
        return "" if token is None else self._texts[token]


def _reopen(path: str) -> GGUFTokenizer:
    return GGUFTokenizer(LlamaFile(Path(path), vocabulary_only=True))


def _id_or_none(token: int) -> int | None:
    return None if token == NO_TOKEN else int(token)


def make_tokenizer(file: LlamaFile, options: ModelOptions) -> HFTokenizer:
    """Return the tokenizer of an open file, with the start token and the chat of the options."""
    return HFTokenizer(GGUFTokenizer(file), options.bos, message=message_of(options))
