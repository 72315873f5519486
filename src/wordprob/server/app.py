"""The routes of the server: the page, the scores, and what the server offers."""

from __future__ import annotations

import asyncio
import html
import json
import logging
from collections.abc import Callable, Sequence
from importlib import resources
from string import Template
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from wordprob._version import __version__
from wordprob.errors import InputError, ModelError, WordprobError, did_you_mean
from wordprob.options import ScoringOptions
from wordprob.render import page as render
from wordprob.scoring.next_words import NextWords
from wordprob.scoring.results import WordTable, records
from wordprob.server.job_queue import (
    ModelLoadingError,
    ScoringQueue,
    SlowError,
    Ticket,
    WorkerError,
)
from wordprob.server.jobs import NextJob, ScoringJob
from wordprob.server.middleware import (
    RETRY_AFTER_SECONDS,
    SHOWN_CHARACTERS,
    RequestLimits,
    RequestRefusedError,
    SecurityHeaders,
    problem,
)
from wordprob.server.paths import without_paths
from wordprob.server.patterns import PatternChecker
from wordprob.server.request_schema import (
    ModelsResponse,
    NextRequest,
    NextResponse,
    Problem,
    ScoreRequest,
    ScoreResponse,
)
from wordprob.server.server_settings import ServerSettings
from wordprob.server.waiting_line import BusyError

LOG = logging.getLogger("wordprob.server")
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    413: {"model": Problem, "description": "too much text"},
    422: {"model": Problem, "description": "something in the request cannot be used"},
    503: {"model": Problem, "description": "too many requests, or the model is still loading: see Retry-After"},
    504: {"model": Problem, "description": "scoring took too long"},
}
MEDIA_TYPES = {"csv": "text/csv", "tsv": "text/tab-separated-values", "jsonl": "application/jsonl", "html": "text/html"}
SERVER_ERROR_MESSAGE = "something went wrong; the terminal that the server runs in says what."
DISCONNECT_CHECK_SECONDS = 0.25
"""Time between checks whether the client of a waiting request is still connected."""


def create_app(settings: ServerSettings, queue: ScoringQueue) -> ASGIApp:
    """Return the application: all routes, behind the checks that every request passes."""
    app = FastAPI(
        title="wordprob",
        version=__version__,
        summary="The probability of a word, from a language model that speaks in subwords.",
        docs_url=None,
        redoc_url=None,
    )
    _add_pages(app, settings)
    patterns = PatternChecker()
    _add_api(app, settings, queue, patterns)
    app.router.add_event_handler("shutdown", patterns.close)
    _add_error_handlers(app)
    limited = RequestLimits(app, settings.hosts, settings.max_body_bytes, _too_much_text(settings), settings.token)
    return SecurityHeaders(limited)


# --- the page ---------------------------------------------------------------------------------------------------------


def _add_pages(app: FastAPI, settings: ServerSettings) -> None:
    """Add the page and the files that it loads. They are fixed strings: no folder is served."""
    _add_file(app, "/", _asset("page.html"), "text/html")
    _add_file(app, "/style.css", render.style() + _asset("page.css"), "text/css")
    _add_file(app, "/view.js", render.script(), "text/javascript")
    _add_file(app, "/page.js", _asset("page.js"), "text/javascript")
    manual = Template(_asset("docs.html"))

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        address = html.escape(str(request.base_url))
        content = manual.substitute(address=address, model=html.escape(settings.default_model))
        return Response(content, media_type="text/html")


def _add_file(app: FastAPI, path: str, content: str, media_type: str) -> None:
    @app.get(path, include_in_schema=False)
    async def file() -> Response:
        return Response(content, media_type=media_type)


def _asset(name: str) -> str:
    return (resources.files("wordprob.server") / "assets" / name).read_text(encoding="utf-8")


# --- the JSON routes --------------------------------------------------------------------------------------------------


def _add_api(app: FastAPI, settings: ServerSettings, queue: ScoringQueue, patterns: PatternChecker) -> None:
    @app.get("/api/models", summary="What this server offers")
    async def models() -> ModelsResponse:
        return ModelsResponse(
            models=list(settings.models),
            default=settings.default_model,
            max_characters=settings.max_characters,
            timeout=settings.timeout,
            version=__version__,
        )

    @app.post("/api/score", summary="Surprisal of every word", response_model=ScoreResponse, responses=ERROR_RESPONSES)
    async def score(body: ScoreRequest, request: Request) -> Response:
        job = _job(body, settings)
        if _has_pattern(job) and not queue.knows(job):
            await patterns.check(str(job.words), job.texts)
        client = request.client.host if request.client else ""
        table = await _scored(queue.submit(job, client), request, settings)
        return await asyncio.to_thread(_score_response, table, job.model, body.format)

    @app.post("/api/next", summary="What could come next", response_model=NextResponse, responses=ERROR_RESPONSES)
    async def next_words(body: NextRequest, request: Request) -> Response:
        _check_characters(body)
        _check_length([body.context], settings)
        job = _next_job(body, _chosen_model(body.model, settings))
        client = request.client.host if request.client else ""
        found = await _scored(queue.submit(job, client), request, settings)
        return Response(_next_json(found, job.model), media_type="application/json")


def _job(body: ScoreRequest, settings: ServerSettings) -> ScoringJob:
    """Check a request, and return the job that it asks for."""
    _check_characters(body)
    texts = (body.texts,) if isinstance(body.texts, str) else tuple(body.texts)
    model = _chosen_model(body.model, settings)
    _check_texts(texts, settings)
    options = body.scoring_options()
    words = options.pop("words")
    return ScoringJob(
        model=model,
        texts=texts,
        words=words if isinstance(words, str) else tuple(tuple(words_of_text) for words_of_text in words),
        ids=None if body.ids is None else tuple(body.ids),
        options=ScoringOptions(**{**options, "extras": tuple(options["extras"])}),
    )


def _next_job(body: NextRequest, model: str) -> NextJob:
    """Return the job that a request for next words asks for."""
    return NextJob(
        model=model,
        texts=(body.context,),
        words=body.words,
        top=body.number_of_words(),
        unit=body.unit,
        mass=body.mass,
        spellings=body.spellings,
        max_open=body.max_open,
    )


def _has_pattern(job: ScoringJob) -> bool:
    return isinstance(job.words, str) and job.words.startswith("regex:")


def _check_characters(body: ScoreRequest | NextRequest) -> None:
    """Refuse half of a surrogate pair, which JSON can write and UTF-8 cannot."""
    try:
        body.model_dump_json()
    except ValueError:
        raise InputError("the request has a lone surrogate, which is not a character.") from None


def _chosen_model(name: str | None, settings: ServerSettings) -> str:
    if name is None:
        return settings.default_model
    if name not in settings.models:
        shown = name[:SHOWN_CHARACTERS]
        raise InputError(f"this server has no model '{shown}'. {did_you_mean(shown, settings.models)}")
    return name


def _check_length(texts: Sequence[str], settings: ServerSettings) -> None:
    if sum(len(text) for text in texts) > settings.max_characters:
        raise RequestRefusedError(413, _too_much_text(settings), "InputError")


def _check_texts(texts: tuple[str, ...], settings: ServerSettings) -> None:
    _check_length(texts, settings)
    if not any(text.strip() for text in texts):
        raise InputError("there is no text; write or paste one.")


def _too_much_text(settings: ServerSettings) -> str:
    return (
        f"too much text: a request may have {settings.max_characters:,} characters. Score longer texts on the command "
        "line (wordprob score FILE), or start the server with a larger `max_characters`."
    )


async def _scored(ticket: Ticket, request: Request, settings: ServerSettings) -> Any:
    """Wait until a job is scored; give it up if it takes too long or if its client goes away."""
    result = asyncio.wrap_future(ticket.future)
    disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
    futures: set[asyncio.Future[Any]] = {result, disconnected}
    await asyncio.wait(futures, timeout=settings.timeout, return_when=asyncio.FIRST_COMPLETED)
    disconnected.cancel()
    if result.done():
        return result.result()
    state = ticket.state  # before the job is cancelled: it may be next in the queue
    ticket.give_up()
    result.cancel()
    if state == "scoring":
        raise SlowError
    raise ModelLoadingError if state == "loading" else BusyError


async def _wait_for_disconnect(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(DISCONNECT_CHECK_SECONDS)


def _score_response(table: WordTable, model: str, format: str) -> Response:
    """Return a table in the format that the request asks for, under the name by which the model is offered."""
    table = WordTable(table.to_pandas(), table.texts(), without_paths({**table.metadata, "model": model}))
    if format == "json":
        return Response(_score_json(table, model), media_type="application/json")
    content = render.report(table) if format == "html" else table.to_text(format)
    headers = {"content-disposition": f'attachment; filename="wordprob.{format}"'}
    return Response(content, media_type=f"{MEDIA_TYPES[format]}; charset=utf-8", headers=headers)


def _score_json(table: WordTable, model: str) -> str:
    """Return the JSON that :class:`ScoreResponse` describes."""
    response = {
        "model": model,
        "unit": table.unit,
        "metadata": table.metadata,
        "words": records(table.to_pandas()),
        "texts": records(table.texts()),
    }
    return json.dumps(response, ensure_ascii=False)


def _next_json(found: NextWords, model: str) -> str:
    """Return the JSON that :class:`NextResponse` describes."""
    rows = records(found.to_pandas().drop(columns=["context", "rank"]))
    for row in rows:
        if not row["probability"]:
            row["surprisal"] = None
    response = {
        "model": model,
        "unit": found.unit,
        "context": found.context,
        "limit_reached": found.limit_reached,
        "rows": rows,
    }
    return json.dumps(response, ensure_ascii=False)


# --- errors -----------------------------------------------------------------------------------------------------------


def _add_error_handlers(app: FastAPI) -> None:
    """Make every error the same small JSON object."""
    handlers: dict[type[Exception], Callable[[Any], Response]] = {
        WordprobError: _expected_error,
        RequestRefusedError: lambda error: _problem(error.status, error.message, error.kind),
        RequestValidationError: lambda error: _problem(422, _validation_message(error), "InvalidRequest"),
        HTTPException: lambda error: _problem(error.status_code, str(error.detail), "RequestError"),
        BusyError: _busy,
        SlowError: lambda _: _problem(504, "scoring took too long and was stopped. Try a shorter text.", "SlowError"),
        WorkerError: _worker_failed,
        Exception: lambda _: _problem(500, SERVER_ERROR_MESSAGE, "ServerError"),
    }
    for error_class, make_response in handlers.items():
        _add_error_handler(app, error_class, make_response)


def _add_error_handler(app: FastAPI, error_class: type[Exception], make_response: Callable[[Any], Response]) -> None:
    async def handler(_: Request, error: Exception) -> Response:
        return make_response(error)

    app.add_exception_handler(error_class, handler)


def _problem(status: int, message: str, kind: str, headers: dict[str, str] | None = None) -> Response:
    return Response(problem(message, kind), status, headers, media_type="application/json")


def _expected_error(error: WordprobError) -> Response:
    """A model that cannot be loaded is the server's trouble (503), everything else the request's (422)."""
    status = 503 if isinstance(error, ModelError) else 422
    return _problem(status, without_paths(str(error)), type(error).__name__)


def _validation_message(error: RequestValidationError) -> str:
    """Return the first problem that FastAPI found, and the field that has it."""
    first = error.errors()[0]
    field = ".".join(str(step) for step in first["loc"] if step != "body")
    return f"{field}: {first['msg']}" if field else str(first["msg"])


def _busy(error: BusyError) -> Response:
    headers = {"retry-after": str(RETRY_AFTER_SECONDS)}
    return _problem(503, f"{error.reason}. Try again in a moment.", "BusyError", headers)


def _worker_failed(error: WorkerError) -> Response:
    LOG.error("a request failed: %s", error)
    return _problem(500, SERVER_ERROR_MESSAGE, "ServerError")
