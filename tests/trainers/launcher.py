"""A launcher of the standard library: starts workers, and all of them again when one dies, or
does nothing about that.

`python launcher.py --workers 2 --restarts 3 -- COMMAND --rank RANK`: each has RANK, as of torchrun,
in its environment and in the place of that word.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from threading import Thread


def main() -> None:
    flags = argparse.ArgumentParser()
    flags.add_argument("--workers", type=int, default=2)
    flags.add_argument("--restarts", type=int, default=0)
    flags.add_argument("--waits", action="store_true", help="for all workers, whichever dies")
    flags.add_argument("--prefix", action="store_true", help="write the rank before each line")
    flags.add_argument("--nameless", action="store_true", help="without RANK")
    flags.add_argument("--one", action="store_true", help="only rank 0 prints")
    flags.add_argument("command", nargs=argparse.REMAINDER)
    options = flags.parse_args()
    workers: list[subprocess.Popen[bytes]] = []

    def leave(*_: object) -> None:
        end(workers)
        os._exit(143)

    signal.signal(signal.SIGTERM, leave)
    for _ in range(options.restarts + 1):
        workers[:] = [start(options, rank) for rank in range(options.workers)]
        while options.waits and any(worker.poll() is None for worker in workers):
            time.sleep(0.02)
        while all(worker.poll() is None for worker in workers):
            time.sleep(0.02)
        while any(worker.poll() is None for worker in workers) and not failed(workers):
            time.sleep(0.02)
        if not failed(workers):
            return
        end(workers)
    sys.exit(1)


def failed(workers: list["subprocess.Popen[bytes]"]) -> bool:
    return any(worker.poll() for worker in workers)


def end(workers: list["subprocess.Popen[bytes]"]) -> None:
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait()


def start(options: argparse.Namespace, rank: int) -> "subprocess.Popen[bytes]":
    variables = {} if options.nameless else {"RANK": str(rank)}
    out = subprocess.DEVNULL if options.one and rank else None
    worker = subprocess.Popen(
        [str(rank) if word == "RANK" else word for word in options.command if word != "--"],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE if options.prefix else out,
    )
    if options.prefix:
        Thread(target=forward, args=(worker, rank), daemon=True).start()
    return worker


def forward(worker: "subprocess.Popen[bytes]", rank: int) -> None:
    for line in worker.stdout or ():
        sys.stdout.buffer.write(b"[rank%d]: %b" % (rank, line))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
