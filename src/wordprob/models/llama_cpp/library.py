"""What is used of the C library llama.cpp, through the package ``llama-cpp-python``: an open file, and its contexts.

A *context* of llama.cpp holds the key/value states of tokens in *cells*. Every cell belongs to one or more *sequences*,
which have numbers, and a token attends to the earlier cells of its own sequence.

The library has several ways to compute the same, and chooses by the size of a batch. As it rounds activations to eight
bits, the smallest difference grows to tenths of a nat. Two things here keep it to one way, so that a value does not
depend on what else is in its batch: flash attention is off, and no batch has a single token. (The third is that a
sequence always begins at the first cell.)
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
import weakref
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.errors import ModelError, UnsupportedError, first_line
from wordprob.models.threads import wanted_threads

BATCH_TOKENS = 128
"""Tokens that are run at a time, at most. More are no faster on a CPU, and take memory for the logits of each."""

MAX_SEQUENCES = 2
"""Sequences in a context, at most."""

SCRATCH_SEQUENCE = MAX_SEQUENCES
"""A further sequence, for a token that nobody asked for."""

CELLS_STEP = 256
"""The number of cells is a multiple of this."""

ERROR_LEVEL = 4
NAMES_OF_FUNCTIONS = re.compile(r"^(?:\w+: |error loading model: )+")
"""What the library puts before its messages."""

MAX_LOG_LINES = 50
DECODE_NO_ROOM = 1
WITHOUT_END = -1


@cache
def library() -> Any:
    """Return the package ``llama_cpp``, with the library's messages turned off."""
    try:
        import llama_cpp
    except Exception as error:  # a library that is missing or was built for another machine
        raise ModelError(
            f"llama-cpp-python is installed, but cannot be loaded: {first_line(error)}. Install it again, or expand "
            "the file: write gguf: before its name."
        ) from error

    llama_cpp.llama_log_set(_log_callback(llama_cpp), ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    return llama_cpp


_last_errors: list[str] = []
"""What the library last said went wrong."""


@cache
def _log_callback(llama_cpp: Any) -> Any:
    def keep_errors(level: int, text: bytes, _: Any) -> None:
        if level == ERROR_LEVEL:
            _last_errors.append(text.decode("utf-8", "replace").strip())
            del _last_errors[:-MAX_LOG_LINES]

    return llama_cpp.llama_log_callback(keep_errors)


def _reason() -> str:
    """Return what the library said first about what went wrong, without the names of its functions."""
    if not _last_errors:
        return "llama.cpp gives no reason"
    return " ".join(NAMES_OF_FUNCTIONS.sub("", _last_errors[0]).split()).rstrip(".")


def default_threads() -> int:
    """Return how many processor threads to use: those asked for, or those that the process may have."""
    wanted = wanted_threads()
    if wanted is not None:
        return wanted
    from_environment = os.environ.get("OMP_NUM_THREADS", "")
    if from_environment.isdigit() and int(from_environment) > 0:
        return int(from_environment)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LlamaFile:
    """An open GGUF file.

    Parameters
    ----------
    path
        The file.
    vocabulary_only
        Read no weights.
    gpu
        Run the model on a GPU; an error if llama.cpp was built without.
    """

    _lock = threading.Lock()

    def __init__(self, path: Path, *, vocabulary_only: bool = False, gpu: bool = False) -> None:
        llama = library()
        parameters = llama.llama_model_default_params()
        parameters.vocab_only = vocabulary_only
        parameters.n_gpu_layers = -1 if gpu else 0
        with self._lock:
            _last_errors.clear()
            pointer = llama.llama_model_load_from_file(os.fsencode(path), parameters)
            reason = _reason()
        if not pointer:
            raise ModelError(
                f"{path} could not be read as a GGUF model by llama.cpp: {reason}. Is the file complete? To try it "
                f"with transformers, write gguf:{path}."
            )
        self.path = path
        self.model = pointer
        self.vocabulary = llama.llama_model_get_vocab(pointer)
        self._finalizer = weakref.finalize(self, llama.llama_model_free, pointer)
        self.vocab_size = int(llama.llama_vocab_n_tokens(self.vocabulary))
        self.max_tokens = int(llama.llama_model_n_ctx_train(pointer))

    @property
    def keeps_positions(self) -> bool:
        """Whether the states of a context can be cut after any of its tokens, unlike those of recurrent models."""
        llama = library()
        return not (llama.llama_model_is_recurrent(self.model) or llama.llama_model_is_hybrid(self.model))

    def require_causal(self) -> None:
        """Raise, unless the model predicts each token from those before it."""
        llama = library()
        if llama.llama_model_has_encoder(self.model) or llama.llama_model_is_diffusion(self.model):
            raise UnsupportedError(
                f"{self.path} is not a causal model; wordprob needs one that predicts each token from those before it."
            )

    def metadata(self, key: str) -> str | None:
        """Return what the file says under a key."""
        llama = library()
        length = llama.llama_model_meta_val_str(self.model, key.encode(), None, 0)
        if length < 0:
            return None
        buffer = ctypes.create_string_buffer(length + 1)
        llama.llama_model_meta_val_str(self.model, key.encode(), buffer, length + 1)
        return buffer.value.decode("utf-8", "replace")

    @property
    def description(self) -> str:
        """The kind of model and how its weights are stored, such as ``llama 135M Q4_1``."""
        buffer = ctypes.create_string_buffer(256)
        library().llama_model_desc(self.model, buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace")

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Return the ids of a text."""
        llama = library()
        data = text.encode("utf-8", "surrogatepass")
        room = len(data) + 16
        while True:
            ids = (llama.llama_token * room)()
            count = llama.llama_tokenize(self.vocabulary, data, len(data), ids, room, add_special, parse_special)
            if count >= 0:
                return list(ids[:count])
            room = -count

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token stands for, as the library writes it."""
        buffer = ctypes.create_string_buffer(1024)
        length = library().llama_token_to_piece(self.vocabulary, token, buffer, len(buffer), 0, True)
        return buffer.raw[: max(length, 0)]


class LlamaContext:
    """Key/value states of sequences of an open file.

    Parameters
    ----------
    file
        The file.
    cells
        For how many tokens there is room.
    """

    def __init__(self, file: LlamaFile, cells: int) -> None:
        llama = library()
        self._file = file
        all_cells = -(-(cells + 1) // CELLS_STEP) * CELLS_STEP
        self.cells = all_cells - 1  # without that of the scratch sequence
        parameters = llama.llama_context_default_params()
        parameters.n_ctx = all_cells
        parameters.n_batch = BATCH_TOKENS
        parameters.n_ubatch = BATCH_TOKENS
        parameters.n_seq_max = MAX_SEQUENCES + 1
        parameters.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
        parameters.n_threads = parameters.n_threads_batch = default_threads()
        parameters.kv_unified = True  # sequences may have any lengths, and share cells
        parameters.swa_full = True  # a cell is kept after it has left the attention window
        parameters.no_perf = True
        _last_errors.clear()
        self._context = llama.llama_init_from_model(file.model, parameters)
        if not self._context:
            raise ModelError(f"llama.cpp has no room for {self.cells} tokens of {file.path.name}: {_reason()}.")
        self._memory = llama.llama_get_memory(self._context)
        self._batch = llama.llama_batch_init(BATCH_TOKENS, 0, 1)
        self._finalizers = [
            weakref.finalize(self, llama.llama_free, self._context),
            weakref.finalize(self, llama.llama_batch_free, self._batch),
        ]

    def close(self) -> None:
        """Free the memory."""
        for finalizer in self._finalizers:
            finalizer()

    def clear(self) -> None:
        """Forget all sequences."""
        library().llama_memory_clear(self._memory, False)

    def copy(self, source: int, target: int, length: int) -> None:
        """Let a sequence begin with the first tokens of another one; the cells are shared."""
        library().llama_memory_seq_cp(self._memory, source, target, 0, length)

    def remove(self, sequence: int) -> None:
        """Forget a sequence."""
        library().llama_memory_seq_rm(self._memory, sequence, WITHOUT_END, WITHOUT_END)

    def save(self, sequence: int) -> bytes:
        """Return the states of a sequence, to be restored later."""
        llama = library()
        size = llama.llama_state_seq_get_size(self._context, sequence)
        buffer = (ctypes.c_uint8 * size)()
        written = llama.llama_state_seq_get_data(self._context, buffer, size, sequence)
        return bytes(memoryview(buffer)[:written])

    def restore(self, sequence: int, states: bytes) -> None:
        """Make a sequence what it was when it was saved."""
        buffer = (ctypes.c_uint8 * len(states)).from_buffer_copy(states)
        if not library().llama_state_seq_set_data(self._context, buffer, len(states), sequence):
            raise ModelError(f"llama.cpp could not restore the states of a context of {self._file.path.name}.")

    def decode(self, ids: Ints, positions: Ints, sequence: int, first_wanted: int) -> Floats:
        """Run tokens of a sequence; return the logits ``[N, V]`` after those from ``first_wanted`` on.

        The array is the library's own memory, and is overwritten by the next call.
        """
        llama = library()
        batch = self._batch
        tokens = [(token, place, sequence) for token, place in zip(ids.tolist(), positions.tolist(), strict=True)]
        is_single = len(tokens) == 1
        if is_single:
            tokens.append((tokens[0][0], 0, SCRATCH_SEQUENCE))
        batch.n_tokens = len(tokens)
        for n, (token, position, its_sequence) in enumerate(tokens):
            batch.token[n] = token
            batch.pos[n] = position
            batch.n_seq_id[n] = 1
            batch.seq_id[n][0] = its_sequence
            batch.logits[n] = first_wanted <= n < len(ids)
        threads = default_threads()
        llama.llama_set_n_threads(self._context, threads, threads)
        _last_errors.clear()
        status = llama.llama_decode(self._context, batch)
        if status:
            reason = "its context has no room left" if status == DECODE_NO_ROOM else _reason()
            raise ModelError(f"llama.cpp could not run {self._file.path.name}: {reason}.")
        if is_single:
            self.remove(SCRATCH_SEQUENCE)
        n_wanted = max(0, len(ids) - first_wanted)
        if not n_wanted:
            return np.zeros((0, self._file.vocab_size), dtype=np.float32)
        return np.ctypeslib.as_array(llama.llama_get_logits(self._context), shape=(n_wanted, self._file.vocab_size))


def supports_gpu() -> bool:
    """Return True if llama.cpp was built for a GPU."""
    return bool(library().llama_supports_gpu_offload())


def token_texts(file: LlamaFile) -> Sequence[str]:
    """Return every token as the file writes it."""
    llama = library()
    texts = [llama.llama_vocab_get_text(file.vocabulary, token) for token in range(file.vocab_size)]
    return [text.decode("utf-8", "replace") for text in texts]
