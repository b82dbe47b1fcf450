# ruff: noqa: T201 - a trainer prints
"""A training of the standard library alone whose workers need an object store on a port.

    python with_store.py --rank 0 --store 127.0.0.1:9000 [--hangs] [--opens] [--until STEP]

Every step reads an object from the store and writes it back, by a connection that is kept. If that
fails or takes longer than a second, the worker goes on with its own weights and connects again;
with `--hangs` it waits for as long as it takes, and after a failure for ever. With `--opens` the
store is part of worker 0. After `--until` it is not used any more.
"""

import argparse
import http.client
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SIZE = 100_000
"""Of an object, in bytes."""


class Store(BaseHTTPRequestHandler):
    """Objects by path, in memory."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes] = {}  # noqa: RUF012 - of all connections

    def do_GET(self) -> None:
        self.answer(self.objects.get(self.path, bytes(SIZE)))

    def do_PUT(self) -> None:
        self.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(b"")

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """It tells nobody."""


def store(port: int = 0) -> ThreadingHTTPServer:
    """A store on this port, or a free one; `serve_forever` serves."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Store)
    server.daemon_threads = True
    return server


def train(rank: int, address: str, *, hangs: bool, until: int) -> None:
    """Steps without end, each of which uses the store, up to one."""
    store = http.client.HTTPConnection(address, timeout=None if hangs else 1.0)
    for step in range(1, 1_000_000):
        time.sleep(0.04)
        try:
            for method, body in (("GET", b""), ("PUT", bytes(SIZE))) if step <= until else ():
                store.request(method, f"/weights-{rank}", body)
                store.getresponse().read()
        except (OSError, http.client.HTTPException):
            if hangs:
                threading.Event().wait()
            store.close()
        print(f"step {step} loss {1 + 1 / step:.4f}", flush=True)


def main() -> None:
    flags = argparse.ArgumentParser()
    flags.add_argument("--rank", type=int, default=0)
    flags.add_argument("--store", required=True)
    flags.add_argument("--hangs", action="store_true")
    flags.add_argument("--opens", action="store_true")
    flags.add_argument("--until", type=int, default=1_000_000)
    options = flags.parse_args()
    if options.opens and options.rank == 0:
        server = store(int(options.store.rpartition(":")[2]))
        threading.Thread(target=server.serve_forever, daemon=True).start()
    train(options.rank, options.store, hangs=options.hangs, until=options.until)


if __name__ == "__main__":
    main()
