"""The routes: the page, the scores, and what the server offers."""

from __future__ import annotations

import asyncio
import html
import json
import logging
from collections.abc import Callable
from importlib import resources
from string import Template
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from wordprob._version import __version__
from wordprob.errors import InputError, ModelError, WordprobError, did_you_mean
from wordprob.render import page as render
from wordprob.server.job_queue import BrokenError, BusyError, ScoringJob, ScoringQueue, SlowError, Ticket
from wordprob.server.middleware import RefusedError, RequestLimits, SecurityHeaders, problem
from wordprob.server.schema import ModelsResponse, Problem, ScoreRequest, ScoreResponse
from wordprob.server.settings import ServerSettings
from wordprob.tables.result import WordTable, records

LOG = logging.getLogger("wordprob.server")
ERRORS: dict[int | str, dict[str, Any]] = {
    413: {"model": Problem, "description": "too much text"},
    422: {"model": Problem, "description": "something in the request cannot be used"},
    503: {"model": Problem, "description": "too many requests, or the model is still loading: see Retry-After"},
    504: {"model": Problem, "description": "scoring took too long"},
}
TYPES = {"csv": "text/csv", "tsv": "text/tab-separated-values", "jsonl": "application/jsonl", "html": "text/html"}
FAILED = "something went wrong; the terminal that the server runs in says what."
RETRY = 5
"""Seconds after which to try again."""
LOOK = 0.25
"""Seconds between looks whether the one who asked is still there."""


def create_app(settings: ServerSettings, desk: ScoringQueue) -> ASGIApp:
    """Return the application: everything that the server answers, behind its guards."""
    app = FastAPI(
        title="wordprob",
        version=__version__,
        summary="The probability of a word, from a language model that speaks in subwords.",
        docs_url=None,
        redoc_url=None,
    )
    _pages(app, settings)
    _routes(app, settings, desk)
    _handlers(app)
    return SecurityHeaders(RequestLimits(app, settings.hosts, settings.max_body, _too_long(settings)))


# --- routes --------------------------------------------------------------------------------------------------------


def _pages(app: FastAPI, settings: ServerSettings) -> None:
    """Add the page and its parts: fixed strings, each under one address; no folder is served."""
    parts = {
        "/": (_asset("page.html"), "text/html"),
        "/style.css": (render.style() + _asset("page.css"), "text/css"),
        "/view.js": (render.script(), "text/javascript"),
        "/page.js": (_asset("page.js"), "text/javascript"),
    }

    def add(path: str, content: str, kind: str) -> None:
        async def part() -> Response:
            return Response(content, media_type=kind)

        app.get(path, include_in_schema=False)(part)

    for path, (content, kind) in parts.items():
        add(path, content, kind)
    manual = Template(_asset("docs.html"))

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        filled = {"address": html.escape(str(request.base_url)), "model": html.escape(settings.default)}
        return Response(manual.substitute(filled), media_type="text/html")


def _routes(app: FastAPI, settings: ServerSettings, desk: ScoringQueue) -> None:
    @app.get("/api/models", summary="What this server offers")
    async def models() -> ModelsResponse:
        return ModelsResponse(
            models=list(settings.models),
            default=settings.default,
            max_characters=settings.max_characters,
            timeout=settings.timeout,
            version=__version__,
        )

    @app.post("/api/score", summary="Surprisal of every word", response_model=ScoreResponse, responses=ERRORS)
    async def score(asked: ScoreRequest, request: Request) -> Response:
        ask = _ask(asked, settings)
        table = await _result(desk.submit(ask), request, settings)
        return await asyncio.to_thread(_answer, table, ask.model, asked.format)


def _ask(asked: ScoreRequest, settings: ServerSettings) -> ScoringJob:
    """Check a request, and return what is to be scored."""
    try:
        asked.model_dump_json()
    except ValueError:
        raise InputError("the request has a lone surrogate, which is no character.") from None
    texts = (asked.texts,) if isinstance(asked.texts, str) else tuple(asked.texts)
    model = settings.default if asked.model is None else asked.model
    if model not in settings.models:
        raise InputError(f"this server has no model '{model[:100]}'. {did_you_mean(model[:100], settings.models)}")
    if sum(map(len, texts)) > settings.max_characters:
        raise RefusedError(413, _too_long(settings), "InputError")
    if not any(text.strip() for text in texts):
        raise InputError("there is no text; write or paste one.")
    words = asked.words if isinstance(asked.words, str) else tuple(map(tuple, asked.words))
    return ScoringJob(model, texts, words, asked.unit, None if asked.ids is None else tuple(asked.ids))


def _too_long(settings: ServerSettings) -> str:
    return (
        f"too much text: a request may have {settings.max_characters:,} characters. Score longer texts on the command "
        "line (wordprob score FILE), or start the server with a larger --max-characters."
    )


async def _result(ticket: Ticket, request: Request, settings: ServerSettings) -> WordTable:
    """Wait for a request's turn and for its scores; not for one whose client went away."""
    answer = asyncio.wrap_future(ticket.future)
    gone = asyncio.ensure_future(_gone(request))
    both: set[asyncio.Future[Any]] = {answer, gone}
    await asyncio.wait(both, timeout=settings.timeout, return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    if answer.done():
        return answer.result()
    state = ticket.state
    ticket.future.cancel()
    answer.cancel()
    if state == "scoring":
        raise SlowError
    raise BusyError(state)


async def _gone(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(LOOK)


def _answer(table: WordTable, model: str, format: str) -> Response:
    """Return the scores in the format that was asked for; a model goes by the name that it is offered under."""
    table = WordTable(table.to_pandas(), table.texts(), {**table.metadata, "model": model})
    if format == "json":
        body = {
            "model": model,
            "unit": table.unit,
            "metadata": table.metadata,
            "words": records(table.to_pandas()),
            "texts": records(table.texts()),
        }
        return Response(json.dumps(body, ensure_ascii=False), media_type="application/json")
    content = render.report(table) if format == "html" else table.to_text(format)
    attached = {"content-disposition": f'attachment; filename="wordprob.{format}"'}
    return Response(content, media_type=f"{TYPES[format]}; charset=utf-8", headers=attached)


# --- errors --------------------------------------------------------------------------------------------------------


def _handlers(app: FastAPI) -> None:
    """Make every error the same small JSON object."""

    def add(kind: type[Exception], answer: Callable[[Any], Response]) -> None:
        async def handler(_: Request, error: Exception) -> Response:
            return answer(error)

        app.add_exception_handler(kind, handler)

    add(WordprobError, lambda e: _problem(503 if isinstance(e, ModelError) else 422, str(e), type(e).__name__))
    add(RefusedError, lambda e: _problem(e.status, e.message, e.kind))
    add(RequestValidationError, lambda e: _problem(422, _invalid(e), "InvalidRequest"))
    add(HTTPException, lambda e: _problem(e.status_code, str(e.detail), "RequestError"))
    add(BusyError, _busy)
    add(SlowError, lambda _: _problem(504, "scoring took too long and was stopped. Try a shorter text.", "SlowError"))
    add(BrokenError, _broken)
    add(Exception, lambda _: _problem(500, FAILED, "ServerError"))


def _problem(status: int, message: str, kind: str, headers: dict[str, str] | None = None) -> Response:
    return Response(problem(message, kind), status, headers, media_type="application/json")


def _invalid(error: RequestValidationError) -> str:
    found = error.errors()[0]
    where = ".".join(str(part) for part in found["loc"] if part != "body")
    return f"{where}: {found['msg']}" if where else str(found["msg"])


def _busy(error: BusyError) -> Response:
    loading = str(error) == "loading"
    message = "the model is still being loaded" if loading else "the server is busy with other requests"
    return _problem(503, f"{message}. Try again in a moment.", "BusyError", {"retry-after": str(RETRY)})


def _broken(error: BrokenError) -> Response:
    LOG.error("a request failed: %s", error)
    return _problem(500, FAILED, "ServerError")


def _asset(name: str) -> str:
    return (resources.files("wordprob.server") / "assets" / name).read_text(encoding="utf-8")
