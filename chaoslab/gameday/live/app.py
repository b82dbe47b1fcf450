"""Pages, stream and orders of the live page, as a web application (ASGI).

    GET  /  /assets/*  /stream        need a cookie, and change nothing
    GET  /enter  /assets/enter.js …   open to all
    POST /invitation {token}          ─► to which run, as whom, and who watches
    POST /enter {token, name}         ─► cookie
    POST /act  /predict  /note        ─► Inbox, 202; what became of it comes by the stream

Errors are JSON: {"error": "what is wrong"}, with 400, 401, 403, 404, 409, 413 or 429.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

import msgspec

from chaoslab.core.errors import AbilityError
from chaoslab.core.payloads import Action
from chaoslab.gameday.live.access import Access, Address, Denied, Visit
from chaoslab.gameday.live.bodies import Act, Entry, Guess, Remark, read
from chaoslab.gameday.live.stream import Stream
from chaoslab.gameday.orders import Names
from chaoslab.report.web.page import CHART_SCRIPTS, CHART_STYLES, assets
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
_CHARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "charts.js": CHART_SCRIPTS,
    "charts.css": CHART_STYLES,
}
"""What the page of a report draws with, too."""
_OPEN: Final = frozenset({"enter.js", "live.css"})
"""Assets of the page that has no cookie yet."""
_ASSETS: Final[Mapping[str, str]] = {
    "enter.js": "text/javascript",
    "elements.js": "text/javascript",
    "cards.js": "text/javascript",
    "live.js": "text/javascript",
    "charts.js": "text/javascript",
    "charts.css": "text/css",
    "curves.js": "text/javascript",
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
    """Parts from which requests are answered."""

    names: Names
    """Names in orders."""
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
            Route("/invitation", self._invitation, methods=["POST"]),
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

    async def _invitation(self, request: Request) -> Response:
        entry = read(await _body(request), Entry)
        role, name = self.access.invited(entry.token, address=_address(request))
        run = self.stream.picture.run
        return JSONResponse({"role": role, "name": name, **run, **self.stream.watching})

    # ---------------------------------------------------------------- to change something

    async def _enter(self, request: Request) -> Response:
        entry = read(await _body(request), Entry)
        cookie = self.access.enter(
            entry.token, entry.name, address=_address(request), cookie=self._cookie(request)
        )
        response = Response(status_code=204)
        response.set_cookie(
            self.address.cookie, cookie,
            path="/", httponly=True, samesite="strict", secure=self.address.has_tls,
        )  # fmt: skip
        return response

    async def _act(self, request: Request) -> Response:
        by = self._visit(request).require_operator()
        act = read(await _body(request), Act)
        self.access.take_turn(self._cookie(request), is_abort=act.action is Action.ABORT)
        return self._put(act.order(by, self.names))

    async def _predict(self, request: Request) -> Response:
        visit = self._visit(request)
        by, guess = visit.require_name(), read(await _body(request), Guess)
        self.access.take_turn(self._cookie(request))
        answer = self._put(guess.order(by, self.names))
        visit.predicted[guess.fault] = msgspec.to_builtins(guess)
        return answer

    async def _note(self, request: Request) -> Response:
        by, remark = self._visit(request).require_name(), read(await _body(request), Remark)
        self.access.take_turn(self._cookie(request))
        return self._put(remark.order(by, self.names))

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
    shared = _CHARTS.get(name)
    content = assets(shared) if shared else (_PAGE / name).read_bytes()
    return Response(content, status_code=status, media_type=kind)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


async def _body(request: Request) -> bytes:
    """Denied if it is too long, or breaks off."""
    raw = b""
    try:
        async for part in request.stream():
            raw += part
            if len(raw) > _BODY_MOST_BYTES:
                raise Denied(413, f"the body is longer than {_BODY_MOST_BYTES} bytes")
    except ClientDisconnect as error:
        raise Denied(400, "the body broke off") from error
    return raw


def _refusal(denied: Denied) -> Response:
    return JSONResponse({"error": str(denied)}, status_code=denied.status)


async def _denied(_: Request, denied: Exception) -> Response:
    if not isinstance(denied, Denied):
        raise denied
    return _refusal(denied)
