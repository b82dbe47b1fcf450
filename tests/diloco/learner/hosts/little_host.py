"""Processes of a learner of two hosts that train nothing: `python -m … --hosts 2 do=WHAT,WHAT`.

WHAT, for each host: an exit code, or `wait`, which repeats what comes on standard input
until the supervisor has ended.
"""

import os
import signal
import sys
import time

from chaoslab.diloco.learner.hosts.supervisor import supervised


def tell(text: str) -> None:
    """One line on standard output."""
    os.write(1, f"{text}\n".encode())


def main(arguments: list[str]) -> int:
    """Be the supervisor, or one of its processes."""
    code = supervised(arguments)
    if code is not None:
        return code
    supervisor = os.getppid()
    host = int(arguments[arguments.index("--host-index") + 1])
    do = next(word for word in arguments if word.startswith("do="))
    do = do.removeprefix("do=").split(",")[host]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGHUP, lambda *_: tell(f"host {host}: noticed"))
    tell(f"host {host}: runs")
    if do != "wait":
        return int(do)
    for line in sys.stdin:
        tell(f"host {host}: {line.strip()}")
    while os.getppid() == supervisor:
        time.sleep(0.05)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
