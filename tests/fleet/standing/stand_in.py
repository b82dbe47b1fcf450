"""A program that runs like a node and trains nothing: python stand_in.py MODULE --name NAME …

--port-file FILE: listens, and writes the port there. --life S: exits with 0 after so long.
--slow-term S: takes so long to obey SIGTERM. --obeys-notice: exits with 0 at SIGHUP.
"""

import argparse
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path


def main() -> None:
    """Print how it stands, then live."""
    flags = argparse.ArgumentParser()
    flags.add_argument("module")
    flags.add_argument("--name")
    flags.add_argument("--syncer")
    flags.add_argument("--port-file", type=Path)
    flags.add_argument("--life", type=float, default=600.0)
    flags.add_argument("--slow-term", type=float)
    flags.add_argument("--obeys-notice", action="store_true")
    asked = flags.parse_args()

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def slow(*_: object) -> None:
        time.sleep(asked.slow_term)
        os._exit(0)

    signal.signal(signal.SIGUSR1, lambda *_: say("hung"))
    signal.signal(signal.SIGUSR2, lambda *_: say("released"))
    if asked.obeys_notice:
        signal.signal(signal.SIGHUP, lambda *_: os._exit(0))
    if asked.slow_term:
        signal.signal(signal.SIGTERM, slow)
    if asked.port_file:
        server = socket.create_server(("127.0.0.1", 0))
        asked.port_file.write_text(str(server.getsockname()[1]))
        say('{"kind":"syncer.ready","node_s":0.0,"data":{"address":"x","rounds":0,'
            '"committed_tokens":0}}')  # fmt: skip
    else:
        said = {"learner": asked.name, "incarnation": 1}
        say(f'{{"kind":"learner.joined","node_s":0.0,"data":{json.dumps(said)}}}')
    end_s = time.monotonic() + asked.life
    while time.monotonic() < end_s:
        time.sleep(0.02)


if __name__ == "__main__":
    main()
