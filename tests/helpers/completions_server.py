"""A small server on the loopback that speaks the completions protocol, for a toy model whose numbers are known.

It answers as vLLM, as an OpenAI server with ``echo``, or as llama.cpp's own server does, and fails as it is told.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import numpy as np

from wordprob.models.exact import LeakyLM

KEY = "sk-a-very-secret-key"


class Toy:
    """The leaky toy model as a server sees it: ids in, the most probable next ids out."""

    def __init__(self):
        self.cut_off = ()
        """Tokens that llama.cpp's server lists nothing for, as if they ended inside a character."""
        self.model = LeakyLM()
        self.tokens = self.model.tokenizer.vocabulary.tokens
        pieces = self.model.tokenizer.vocabulary.pieces
        self.texts = [
            token if piece is None else piece.decode() for token, piece in zip(self.tokens, pieces, strict=True)
        ]

    def ids(self, prompt):
        """Return the ids of a prompt: itself, or the start token and those of a text."""
        if isinstance(prompt, list):
            return prompt
        start = self.texts[0]
        return [0, *self.model.tokenizer.ids(prompt.removeprefix(start))]

    def log_probs(self, last):
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(self.model.distribution(last)), -9999.0)

    def top(self, last, count):
        log_probs = self.log_probs(last)
        return {int(i): float(log_probs[i]) for i in np.argsort(-log_probs)[:count]}


def as_vllm(toy, body):
    ids = toy.ids(body["prompt"])
    lists = [None]
    for last, observed in pairwise(ids):
        listed = {**toy.top(last, body["prompt_logprobs"]), observed: float(toy.log_probs(last)[observed])}
        lists.append({str(i): {"logprob": value, "decoded_token": toy.texts[i]} for i, value in listed.items()})
    after = {f"token_id:{i}": value for i, value in toy.top(ids[-1], body["logprobs"]).items()}
    return {"choices": [{"text": "", "prompt_logprobs": lists, "logprobs": {"top_logprobs": [after]}}]}


def as_echo(toy, body, *, takes_ids=True):
    if not body.get("echo"):
        return {"choices": [{"text": "", "logprobs": None}]}
    if isinstance(body["prompt"], list) and not takes_ids:
        return 422, {"error": {"message": "prompt must be a string"}}
    ids = toy.ids(body["prompt"])
    log_probs, tops = [None], [None]
    for last, observed in pairwise(ids):
        log_probs.append(float(toy.log_probs(last)[observed]))
        tops.append({toy.texts[i]: value for i, value in toy.top(last, body["logprobs"]).items()})
    after = toy.top(ids[-1], body["logprobs"])
    generated, log_prob = next(iter(after.items()))
    tokens = [toy.texts[i] for i in [*ids, generated]]
    tops.append({toy.texts[i]: value for i, value in after.items()})
    lists = {"tokens": tokens, "token_logprobs": [*log_probs, log_prob], "top_logprobs": tops}
    return {"choices": [{"text": "".join(tokens), "logprobs": lists}]}


def as_text_echo(toy, body):
    return as_echo(toy, body, takes_ids=False)


def as_llama_cpp(toy, body):
    if "n_probs" not in body:
        return {"choices": [{"text": "", "logprobs": {"content": []}}]}  # only what is generated is listed
    last = body["prompt"][-1]
    top = toy.top(last, body["n_probs"])
    chosen = body["logit_bias"][0][0] if "logit_bias" in body else next(iter(top))
    if chosen in toy.cut_off:  # the text that would go with it is held back until the character is whole
        return {"completion_probabilities": []}
    entries = [{"id": i, "token": toy.texts[i], "logprob": value} for i, value in top.items()]
    entry = {"id": chosen, "logprob": float(toy.log_probs(last)[chosen]), "top_logprobs": entries}
    return {"completion_probabilities": [entry]}


DIALECTS = {"vllm": as_vllm, "echo": as_echo, "echo as text": as_text_echo, "llama.cpp": as_llama_cpp}


class FakeServer:
    """What the server does, and what it was asked.

    Attributes
    ----------
    failures
        What happens to the next requests to score, one after another: a status, a pair of a status and headers, bytes
        that are sent as they are, a number of seconds of silence as a float, or a function that gets the handler.
    fails_from
        After how many requests everything fails.
    key
        What must be sent, if anything.
    requests
        The paths and bodies that came.
    """

    def __init__(self, dialect="vllm", models=("toy",), key=None):
        self.answer = DIALECTS[dialect] if isinstance(dialect, str) else dialect
        self.models = models
        self.key = key
        self.failures = []
        self.fails_from = None
        self.requests = []
        self.headers = []
        self.toy = Toy()
        self.url = ""


@contextlib.contextmanager
def serving(*arguments, **options):
    """Run a server on a free port of this machine, and end it."""
    state = FakeServer(*arguments, **options)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def reply(self, status, answer, headers=()):
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def refuses_key(self):
            if state.key is None or self.headers.get("Authorization") == f"Bearer {state.key}":
                return False
            self.reply(401, {"error": {"message": f"wrong key: {self.headers.get('Authorization')}"}})
            return True

        def do_GET(self):
            if self.refuses_key():
                return
            if self.path == "/v1/models":
                self.reply(200, {"data": [{"id": name, "max_model_len": 256} for name in state.models]})
            else:
                self.reply(404, {"error": {"message": "nothing here"}})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.requests.append((self.path, body))
            state.headers.append(dict(self.headers))
            if self.refuses_key():
                return
            failure = state.failures.pop(0) if state.failures else None
            if state.fails_from is not None and len(state.requests) > state.fails_from:
                failure = 500
            if isinstance(failure, float):
                time.sleep(failure)
            elif isinstance(failure, int):
                self.reply(failure, {"error": {"message": "not now"}})
                return
            elif isinstance(failure, tuple):
                self.reply(failure[0], {"error": {"message": "not now"}}, failure[1])
                return
            elif isinstance(failure, bytes):
                self.reply(200, failure)
                return
            elif callable(failure):
                with contextlib.suppress(OSError):
                    failure(self)
                return
            wants_llama = self.path == "/completion"
            if wants_llama != (state.answer is as_llama_cpp) and wants_llama:
                self.reply(404, {"error": {"message": "no such path"}})
                return
            answer = state.answer(state.toy, body)
            status, answer = answer if isinstance(answer, tuple) else (200, answer)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.reply(status, answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
