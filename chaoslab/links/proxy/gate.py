"""Gate before a proxy's API that asks for no token: `python -m chaoslab.links.proxy.gate`.

    harness ── token ──► gate ── the same request ──► API on loopback, such as Toxiproxy's
                           ├─► 401, 403, 415: see `access`
                           └─► 502 nobody listens there, 504 no answer

Both share one network, and others reach the gate alone. A thread for each connection: a request
that the API holds up holds up no other one. Ends with its standard input. Standard library only.
"""

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from chaoslab.links.proxy.access import TOKEN, Guard
from chaoslab.links.proxy.toxics import Refused

_API_S = 60.0
"""Time limit of the API; clients give up earlier."""
_IDLE_S = 60.0
_BODY_BYTES_MAX = 1 << 20
_JSON = "application/json"


def main() -> int:
    """Serve until the end of standard input."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--host", required=True, help="where others reach the gate")
    parser.add_argument("--port", type=int, required=True, help="where others reach the gate")
    parser.add_argument("--api-port", type=int, required=True, help="of the API on loopback")
    options = parser.parse_args()
    token = os.environ.pop(TOKEN, "")
    if not token:
        parser.error(f"a gate needs a token in {TOKEN}")
    server = gate(options.host, options.port, options.api_port, token)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while os.read(sys.stdin.fileno(), 4096):
        continue
    return 0


def gate(host: str, port: int, api_port: int, token: str) -> ThreadingHTTPServer:
    """A gate that listens; `serve_forever` serves. OSError if the port is taken."""
    server = ThreadingHTTPServer((host, port), _handler(api_port, token))
    server.daemon_threads = True
    return server


def _handler(api_port: int, token: str) -> type[BaseHTTPRequestHandler]:
    guard = Guard(token=token, is_loopback=False)

    class Handler(BaseHTTPRequestHandler):
        """Requests of one connection, one after the other."""

        protocol_version = "HTTP/1.1"
        timeout = _IDLE_S

        def _serve(self) -> None:
            try:
                body = self._admitted()
                status, kind, content = _asked(api_port, self.command, self.path, body)
            except Refused as refused:
                status, kind, content = refused.status, _JSON, _error(str(refused))
                self.close_connection = True  # its body was not read
            except ConnectionRefusedError:
                status, kind, content = 502, _JSON, _error("nothing listens behind the gate")
            except (OSError, HTTPException) as error:
                status, kind, content = 504, _JSON, _error(f"the API does not answer: {error!r}")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 - names of the base's protocol

        def _admitted(self) -> bytes:
            """Body of the request, which may be made; else Refused."""
            headers = {key.lower(): value for key, value in self.headers.items()}
            length = headers.get("content-length", "0")
            guard.require(headers, has_body=length != "0")
            is_number = length.isascii() and length.isdecimal() and len(length) < 10
            if not is_number or int(length) > _BODY_BYTES_MAX or "transfer-encoding" in headers:
                raise Refused("body: Content-Length must be at most 1 MiB", status=413)
            if not self.path.isascii():
                raise Refused("path: must be ASCII", status=400)
            return self.rfile.read(int(length))

        log_message: Callable[..., None] = _no_log

    return Handler


def _no_log(*_: object) -> None:
    """The harness writes down what it asks for."""


def _asked(port: int, method: str, path: str, body: bytes) -> tuple[int, str, bytes]:
    """Status, type and content of the API's answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=_API_S)
    try:
        connection.request(method, path, body or None, {"Content-Type": _JSON})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type") or _JSON, answer.read()
    finally:
        connection.close()


def _error(reason: str) -> bytes:
    return json.dumps({"error": reason}).encode()


if __name__ == "__main__":
    sys.exit(main())
