"""Pages, stream and orders of the live page, as a web application (ASGI).

    GET  /  /assets/*  /stream        need a cookie, and change nothing
    GET  /enter  /assets/enter.js …   open to all
    POST /enter {token, name}         ─► cookie
    POST /act  /predict  /note        ─► Inbox, 202; what became of it comes by the stream

Errors are JSON: {"error": "what is wrong"}, with 400, 401, 403, 404, 409, 413 or 429.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from chaoslab.core.errors import AbilityError
from chaoslab.core.payloads import Action
from chaoslab.gameday.live.access import Access, Address, Denied, Visit
from chaoslab.gameday.live.bodies import (
    Body,
    ask_of,
    body_of,
    note_of,
    prediction_of,
    text_of,
)
from chaoslab.gameday.live.stream import Stream
from chaoslab.plan.model import FaultPlan
from chaoslab.run.operators import Inbox, Order

try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise AbilityError(
        "--serve needs starlette and uvicorn: pip install 'chaoslab[gameday]'"
    ) from error

_PAGE = files("chaoslab.gameday.live") / "page"
_BODY_MOST_BYTES: Final = 16_384
_OPEN: Final = frozenset({"enter.js", "live.css"})
"""Assets of the page that has no cookie yet."""
_ASSETS: Final[Mapping[str, str]] = {
    "enter.js": "text/javascript",
    "elements.js": "text/javascript",
    "cards.js": "text/javascript",
    "live.js": "text/javascript",
    "live.css": "text/css",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": _POLICY,
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }.items()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveApp:
    """What requests are answered with."""

    plan: FaultPlan
    inbox: Inbox
    address: Address
    access: Access
    stream: Stream

    def asgi(self) -> ASGIApp:
        """The application."""
        routes = [
            Route("/", self._index),
            Route("/stream", self._events),
            Route("/assets/{name}", self._asset),
            Route("/enter", self._enter_page, methods=["GET"]),
            Route("/enter", self._enter, methods=["POST"]),
            Route("/act", self._act, methods=["POST"]),
            Route("/predict", self._predict, methods=["POST"]),
            Route("/note", self._note, methods=["POST"]),
        ]
        return Guarded(Starlette(routes=routes, exception_handlers={Denied: _denied}), self.address)

    # ---------------------------------------------------------------- to look at

    async def _index(self, request: Request) -> Response:
        try:
            self._visit(request)
        except Denied:
            return _file("enter.html", "text/html", status=401)
        return _file("index.html", "text/html")

    async def _enter_page(self, _: Request) -> Response:
        return _file("enter.html", "text/html")

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _OPEN:
            self._visit(request)
        if name not in _ASSETS:
            raise Denied(404, "there is no such file")
        return _file(name, _ASSETS[name])

    async def _events(self, request: Request) -> Response:
        visit = self._visit(request)
        self.stream.require_room(visit)
        return StreamingResponse(self.stream.messages(visit), media_type="text/event-stream")

    # ---------------------------------------------------------------- to change something

    async def _enter(self, request: Request) -> Response:
        body = await _body(request)
        cookie = self.access.enter(
            text_of(body, "token", 200),
            text_of(body, "name", 200),
            address=_address(request),
            cookie=self._cookie(request),
        )
        response = Response(status_code=204)
        response.set_cookie(
            self.address.cookie, cookie,
            path="/", httponly=True, samesite="strict", secure=self.address.has_tls,
        )  # fmt: skip
        return response

    async def _act(self, request: Request) -> Response:
        visit = self._visit(request)
        by = visit.require_operator()
        body = await _body(request)
        is_abort = body.get("action") == Action.ABORT
        self.access.take_turn(self._cookie(request), is_abort=is_abort)
        return self._put(ask_of(body, by=by, plan=self.plan))

    async def _predict(self, request: Request) -> Response:
        visit, body = await self._said(request)
        prediction = prediction_of(body, by=visit.name, plan=self.plan)
        answer = self._put(prediction)
        visit.predicted[prediction.spec] = body
        return answer

    async def _note(self, request: Request) -> Response:
        visit, body = await self._said(request)
        return self._put(note_of(body, by=visit.name, plan=self.plan))

    async def _said(self, request: Request) -> tuple[Visit, Body]:
        """Who says something, and what."""
        visit = self._visit(request)
        visit.require_name()
        body = await _body(request)
        self.access.take_turn(self._cookie(request))
        return visit, body

    def _put(self, order: Order) -> Response:
        # the page may not have been told yet that it is over
        if self.stream.picture.is_over or not self.inbox.put(order):
            raise Denied(409, "the run is over")
        return JSONResponse({"asked": str(order)}, status_code=202)

    # ---------------------------------------------------------------- cookies

    def _cookie(self, request: Request) -> str:
        return request.cookies.get(self.address.cookie, "")

    def _visit(self, request: Request) -> Visit:
        return self.access.visit(self._cookie(request))


class Guarded:
    """An application that gets requests to its own address alone, and tells browsers to be strict.

    Every answer has the headers, those that refuse included.
    """

    def __init__(self, app: ASGIApp, address: Address) -> None:
        self._app, self._address = app, address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        app = self._app
        try:
            self._address.require(scope["method"], Request(scope).headers)
        except Denied as denied:
            app = _refusal(denied)
        await app(scope, receive, sent)


def _file(name: str, kind: str, *, status: int = 200) -> Response:
    return Response((_PAGE / name).read_bytes(), status_code=status, media_type=kind)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


async def _body(request: Request) -> Body:
    """Its JSON object; Denied if it is too long, breaks off, or is none."""
    raw = b""
    try:
        async for part in request.stream():
            raw += part
            if len(raw) > _BODY_MOST_BYTES:
                raise Denied(413, f"the body is longer than {_BODY_MOST_BYTES} bytes")
    except ClientDisconnect as error:
        raise Denied(400, "the body broke off") from error
    return body_of(raw)


def _refusal(denied: Denied) -> Response:
    return JSONResponse({"error": str(denied)}, status_code=denied.status)


async def _denied(_: Request, denied: Exception) -> Response:
    if not isinstance(denied, Denied):
        raise denied
    return _refusal(denied)
