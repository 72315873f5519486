"""Ways in which servers tell the log-probabilities of a prompt. Each is a class that returns rows for a sequence.

=====================  =================================================================================
:class:`PromptLists`   vLLM: ``prompt_logprobs`` lists the tokens of the prompt by id
:class:`EchoedPrompt`  OpenAI's ``echo`` with ``logprobs``: SGLang, vLLM, llama-cpp-python; tokens by their text
:class:`ForcedTokens`  llama.cpp's own server, which lists only what it generates: it is made to generate each token
=====================  =================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.core.vocabulary import Vocabulary
from wordprob.errors import ModelError
from wordprob.models.completions.client import Client, NonsenseError, RefusedError
from wordprob.models.completions.listing import ListedRow, listed_row

ID_PREFIX = "token_id:"
"""How vLLM writes the text of a token where it is asked for ids."""

FORCING_BIAS = 10_000.0
"""What is added to the logit of a token so that it is generated."""

MAX_ID = 2**31 - 1
"""No vocabulary has more tokens."""

LEAST_LOG_PROB = -9999.0
"""What stands for minus infinity in JSON."""


class ServedModel(NamedTuple):
    """A model on a server.

    Attributes
    ----------
    client, name
        The server, and the name that it has for the model.
    top
        How many tokens are listed at each place.
    vocabulary
        What ids stand for.
    """

    client: Client
    name: str
    top: int
    vocabulary: Vocabulary


class Dialect(Protocol):
    """A way to ask for the log-probabilities of a prompt."""

    name: str

    def rows(self, ids: Ints, first: int) -> list[ListedRow]:
        """Return what is listed after ``ids[: j + 1]``, for j from ``first`` to the last."""


class PromptLists:
    """vLLM's ``prompt_logprobs``."""

    name = "prompt_logprobs"

    def __init__(self, served: ServedModel) -> None:
        self._served = served

    def rows(self, ids: Ints, first: int) -> list[ListedRow]:
        """Return what is listed after ``ids[: j + 1]``, for j from ``first`` to the last."""
        served = self._served
        body = {
            "model": served.name,
            "prompt": ids.tolist(),
            "max_tokens": 1,
            "temperature": 1.0,
            "prompt_logprobs": served.top,
            "logprobs": served.top,
            "return_tokens_as_token_ids": True,
        }
        choice = _choice(served.client.post("/v1/completions", body))
        prompt = choice.get("prompt_logprobs")
        if not isinstance(prompt, list):
            raise NonsenseError("the server returns no `prompt_logprobs`.")
        if len(prompt) != len(ids):
            raise NonsenseError(f"the server lists {len(prompt)} tokens of a prompt that has {len(ids)}.")
        rows = []
        for row in range(first, len(ids) - 1):
            listed = {_as_id(key): _log_prob(value) for key, value in _mapping(prompt[row + 1]).items()}
            observed = int(ids[row + 1])
            if observed not in listed:
                raise NonsenseError(f"the server does not list token {row + 1} of the prompt, {observed}.")
            target = listed[observed]
            if len(listed) > served.top:
                del listed[observed]  # it is listed besides the most probable ones
            rows.append(listed_row(listed, observed, target))
        last = _mapping(_sequence(_mapping(choice.get("logprobs")).get("top_logprobs"))[0])
        rows.append(listed_row({_as_id(key): _log_prob(value) for key, value in last.items()}, None, math.nan))
        return rows


class EchoedPrompt:
    """OpenAI's ``echo`` with ``logprobs``: tokens are named by their text, which may be that of several.

    Parameters
    ----------
    served
        The model.
    as_text
        Send prompts as text, for servers that do not take ids.
    """

    def __init__(self, served: ServedModel, *, as_text: bool = False) -> None:
        self._served = served
        self._as_text = as_text
        self.name = "echo, prompts as text" if as_text else "echo"

    def rows(self, ids: Ints, first: int) -> list[ListedRow]:
        """Return what is listed after ``ids[: j + 1]``, for j from ``first`` to the last."""
        served = self._served
        prompt: Any = ids.tolist()
        if self._as_text:
            prompt = "".join(self._texts[i] for i in prompt) if self._is_whole(ids) else None
        if prompt is None:
            raise ModelError(
                "the server takes prompts as text only, and a prompt that ends within a character is no text."
            )
        body = {
            "model": served.name,
            "prompt": prompt,
            "max_tokens": 1,
            "temperature": 1.0,
            "echo": True,
            "logprobs": served.top,
            "return_tokens_as_token_ids": True,
        }
        lists = _mapping(_choice(served.client.post("/v1/completions", body)).get("logprobs"))
        tokens = _sequence(lists.get("tokens"))
        log_probs = _sequence(lists.get("token_logprobs"))
        tops = _sequence(lists.get("top_logprobs"))
        # Some servers leave the start token out. What they generate comes last, unless it is the end of the text.
        left_out = int(len(tokens) > 0 and not self._is_token(tokens[0], int(ids[0])))
        expected = ids[left_out:].tolist()
        if not len(tokens) == len(log_probs) == len(tops) or len(tokens) != len(expected) + 1:
            raise NonsenseError(
                f"the server lists {len(tokens)} tokens for a prompt of {len(expected)} and one more: it does not echo "
                "the prompt, or its tokeniser is another one."
            )
        for place, token in enumerate(expected):
            if not self._is_token(tokens[place], token):
                raise NonsenseError(
                    f"the server reads token {place} of the prompt as {tokens[place]!r}, not as "
                    f"{served.vocabulary.tokens[token]!r}: its tokeniser is another one."
                )
        rows = []
        for row in range(first, len(ids)):
            place = row + 1 - left_out
            listed, unclear = self._by_id(_mapping(tops[place]))
            if row == len(ids) - 1:
                rows.append(listed_row(listed, None, math.nan, unclear))
            else:
                rows.append(listed_row(listed, int(ids[row + 1]), _log_prob(log_probs[place]), unclear))
        return rows

    def _by_id(self, top: Mapping[str, Any]) -> tuple[dict[int, float], float]:
        """Return log-probabilities by id, and the largest probability among tokens whose text is that of several."""
        listed = {}
        unclear = 0.0
        for text, value in top.items():
            log_prob = _log_prob(value)
            ids = [_as_id(text)] if text.startswith(ID_PREFIX) else self._ids_by_text.get(text, [])
            if len(ids) == 1:
                listed[ids[0]] = log_prob
            else:
                unclear = max(unclear, math.exp(log_prob))
        return listed, unclear

    def _is_token(self, text: Any, token: int) -> bool:
        if isinstance(text, str) and text.startswith(ID_PREFIX):
            return _as_id(text) == token
        return text in (self._texts[token], self._texts[token].replace("\ufffd", ""))

    @cached_property
    def _texts(self) -> list[str]:
        """Each token as servers write it; what is no text has marks in place of its bytes."""
        vocabulary = self._served.vocabulary
        texts = []
        for token, piece in enumerate(vocabulary.pieces):
            texts.append(vocabulary.tokens[token] if piece is None else piece.decode("utf-8", "replace"))
        return texts

    @cached_property
    def _ids_by_text(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for token, text in enumerate(self._texts):
            for written in {text, text.replace("\ufffd", "")}:
                found.setdefault(written, []).append(token)
        return found

    def _is_whole(self, ids: Ints) -> bool:
        """Return True if ids are those of a text, none of whose characters is cut off."""
        pieces = [self._served.vocabulary.token_bytes[i] for i in ids.tolist()]
        try:
            b"".join(pieces).decode()
        except UnicodeDecodeError:
            return False
        return all("\ufffd" not in self._texts[i] for i in ids.tolist())


class ForcedTokens:
    """llama.cpp's own server: each token is generated after those before it, and its probability reported.

    A bias makes sure that the observed token is generated; reported are probabilities without it. The server keeps
    what a prompt and the one before it have in common, so that each of them costs one token.
    """

    name = "llama.cpp"

    def __init__(self, served: ServedModel) -> None:
        self._served = served

    def rows(self, ids: Ints, first: int) -> list[ListedRow]:
        """Return what is listed after ``ids[: j + 1]``, for j from ``first`` to the last."""
        return [self._row(ids, row) for row in range(first, len(ids))]

    def _row(self, ids: Ints, row: int) -> ListedRow:
        observed = int(ids[row + 1]) if row + 1 < len(ids) else None
        context = ids[: row + 1].tolist()
        entry = None if observed is None else self._generated(context, observed)
        if entry is not None:
            return listed_row(_listed(entry), observed, _log_prob(entry))
        # Nothing observed, or nothing told of it: the server holds back a token that ends inside a character. What is
        # listed does not depend on the token that is generated, and may have the observed one.
        listed = _listed(_mapping(self._generated(context, self._whole_token)))
        if observed is None or observed not in listed:
            return listed_row(listed, None, math.nan)
        return listed_row(listed, observed, listed[observed])

    def _generated(self, context: list[int], forced: int) -> Mapping[str, Any] | None:
        """Return what the server tells of a token that it is made to generate; None if it tells nothing."""
        body: dict[str, Any] = {
            "prompt": context,
            "n_predict": 1,
            "n_probs": self._served.top,
            "temperature": 0.0,
            "samplers": [],
            "cache_prompt": True,
            "post_sampling_probs": False,
            "logit_bias": [[forced, FORCING_BIAS]],
        }
        told = _mapping(self._served.client.post("/completion", body)).get("completion_probabilities")
        if told == []:
            return None
        entry = _mapping(_sequence(told)[0])
        if _as_id(entry.get("id")) != forced:
            raise NonsenseError(f"the server generates token {entry.get('id')} where {forced} was forced.")
        return entry

    @cached_property
    def _whole_token(self) -> int:
        """A token whose text is whole characters, so that the server never holds it back."""
        for token, piece in enumerate(self._served.vocabulary.pieces):
            if piece and piece.isascii() and piece.decode().isprintable():
                return token
        raise ModelError("no token of the vocabulary is plain text, and the server tells nothing of any other.")


def _listed(entry: Mapping[str, Any]) -> dict[int, float]:
    """Return the log-probabilities that are listed with a generated token, by id."""
    top = [_mapping(item) for item in _sequence(entry.get("top_logprobs"))]
    return {_as_id(item.get("id")): _log_prob(item) for item in top}


# --- parts of answers ------------------------------------------------------------------------------------------------


def _choice(answer: Any) -> Mapping[str, Any]:
    return _mapping(_sequence(_mapping(answer).get("choices"))[0])


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise NonsenseError(f"the server's answer has {value!r:.60} where a list of log-probabilities belongs.")
    return value


def _sequence(value: Any) -> Sequence[Any]:
    if not isinstance(value, list) or not value:
        raise NonsenseError(f"the server's answer has {value!r:.60} where a list of log-probabilities belongs.")
    return value


def _log_prob(value: Any) -> float:
    """Return a log-probability, which some servers put into an object."""
    number = value.get("logprob") if isinstance(value, Mapping) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not number <= 1e-3:
        raise NonsenseError(f"the server's answer has {number!r:.60} where a log-probability belongs.")
    return -math.inf if number <= LEAST_LOG_PROB else min(0.0, float(number))


def _as_id(value: Any) -> int:
    try:
        number = int(str(value).removeprefix(ID_PREFIX))
    except ValueError:
        number = -1
    if not 0 <= number <= MAX_ID:
        raise NonsenseError(f"the server's answer has {value!r:.60} where the id of a token belongs.")
    return number


# --- which one a server speaks ---------------------------------------------------------------------------------------

DIALECTS: tuple[Callable[[ServedModel], Dialect], ...] = (
    PromptLists,
    EchoedPrompt,
    lambda served: EchoedPrompt(served, as_text=True),
    ForcedTokens,
)
"""The ways to ask, in the order in which they are tried."""


def find_dialect(served: ServedModel, probe: Ints) -> Dialect:
    """Return the way to ask that a server understands, tried on a short sequence of ids; raise if there is none."""
    failures = []
    for make in DIALECTS:
        dialect = make(served)
        try:
            rows = dialect.rows(probe, 0)
        except RefusedError as error:
            if error.status in (401, 403):
                raise
            failures.append(f"{dialect.name}: {error}")
            continue
        except ModelError as error:
            if isinstance(error, OSError):
                raise
            failures.append(f"{dialect.name}: {error}")
            continue
        if all(np.isfinite(row.target) for row in rows[:-1]):
            return dialect
        failures.append(f"{dialect.name}: a log-probability is missing")
    raise ModelError(
        f"the server at {served.client.root} does not tell the log-probabilities of a prompt. It was asked in "
        f"{len(failures)} ways. {' — '.join(failures)}"
    )
