"""A real HTTP server that keeps what is posted to it, and answers as told."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass(kw_only=True)
class Receiver:
    """What came, as path, headers and body; `answer` is the status of each answer, and `to` where
    it sends a client on to.
    """

    url: str = ""
    answer: int = 200
    to: str = ""
    fetched: list[str] = field(default_factory=list)
    """Paths of what was asked for by GET."""
    posted: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    def bodies(self, path: str) -> list[bytes]:
        """What was posted there, in order."""
        return [body for at, _, body in self.posted if at == path]


@contextmanager
def http_receiver() -> Iterator[Receiver]:
    """A receiver on a free port of this machine."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.posted.append((self.path, dict(self.headers), body))
            self._answer()

        def do_GET(self) -> None:
            receiver.fetched.append(self.path)
            self._answer()

        def _answer(self) -> None:
            self.send_response(receiver.answer)
            if receiver.to:
                self.send_header("Location", receiver.to)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
