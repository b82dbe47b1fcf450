"""A real HTTP server that keeps what is posted to it, and answers as told."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread


@dataclass(kw_only=True)
class Receiver:
    """What came, as path, headers and body; `to` is where it sends a client on to."""

    url: str = ""
    first: list[int] = field(default_factory=list)
    """Statuses of the first answers; at 0 the connection is closed without any."""
    answer: int = 200
    """Status of each answer after those."""
    to: str = ""
    held: Lock = field(default_factory=Lock)
    """While it is, nobody gets an answer."""
    answered: Event = field(default_factory=Event)
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
            with receiver.held:
                status = receiver.first.pop(0) if receiver.first else receiver.answer
            if status == 0:
                return
            self.send_response(status)
            if receiver.to:
                self.send_header("Location", receiver.to)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
            receiver.answered.set()

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
