"""The embedded proxy's process: `python -m chaoslab.links.proxy`.

    standard output ◄── where its API listens, when it chose that itself: 127.0.0.1:41234
    HTTP API ──► links (see `links.proxy`)
    end of standard input, SIGTERM ──► the end

It ends with the program that started it: when nothing has the other end of its standard input any
more. Its API is for programs on this machine (see `links.proxy.access`); with a token in the
environment variable CHAOSLAB_PROXY_TOKEN only for those who know it. Standard library only.
"""

import argparse
import asyncio
import os
import resource
import signal
import sys
import threading
import traceback
from contextlib import suppress

from chaoslab.links.proxy.access import TOKEN, Guard, is_loopback
from chaoslab.links.proxy.api import Api
from chaoslab.links.proxy.http import serve

_ENDING = (signal.SIGTERM, signal.SIGINT)
_REACHABLE = "--reachable-by-others"


def main() -> int:
    """Serve until the end of standard input."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--host", default="127.0.0.1", help="of the API (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="of the API (default: a free one)")
    parser.add_argument(
        _REACHABLE,
        action="store_true",
        help="let --host be an address that other machines reach; whoever has the token can then "
        "open ports here that lead anywhere",
    )
    options = parser.parse_args()
    token, is_near = os.environ.pop(TOKEN, ""), is_loopback(options.host)
    if not is_near and not (options.reachable_by_others and token):
        parser.error(
            f"--host {options.host} may be reached by other machines: use 127.0.0.1, or give "
            f"{_REACHABLE} and a token in {TOKEN}"
        )
    threading.excepthook = _end_at_once
    _want_descriptors()
    asyncio.run(_serve(options.host, options.port, Guard(token=token, is_loopback=is_near)))
    return 0


def _end_at_once(failed: threading.ExceptHookArgs) -> None:
    """A relay that is dead carries nothing: the harness must see that the links are lost."""
    if failed.exc_value is not None:
        traceback.print_exception(failed.exc_value)
    os._exit(1)


async def _serve(host: str, port: int, guard: Guard) -> None:
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    for number in _ENDING:
        loop.add_signal_handler(number, end.set)
    _watch_parent(loop, end)
    api = Api()
    server = await serve(api.handle, guard, host, port)
    where = server.sockets[0].getsockname()
    if not port:
        sys.stdout.write(f"{where[0]}:{where[1]}\n")
        sys.stdout.flush()
    await end.wait()
    for number in _ENDING:  # the loop could not take another one while it closes
        signal.signal(number, signal.SIG_IGN)
    server.close()
    api.close()


def _watch_parent(loop: asyncio.AbstractEventLoop, end: asyncio.Event) -> None:
    os.set_blocking(sys.stdin.fileno(), False)

    def look() -> None:
        with suppress(BlockingIOError):
            if not os.read(sys.stdin.fileno(), 4096):
                loop.remove_reader(sys.stdin.fileno())
                end.set()

    loop.add_reader(sys.stdin.fileno(), look)


def _want_descriptors() -> None:
    """Two sockets and up to four pipe ends for each connection: as many as allowed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    sys.exit(main())
