"""A program that runs like a node and trains nothing: python stand_in.py MODULE --name NAME …

--port-file FILE: listens, and writes the port there. --slow-term S: takes so long to obey SIGTERM.
--obeys-notice: exits with 0 at SIGHUP. It imports little, because tests start many of it.
"""

import os
import signal
import sys
import time


def main(words: list[str]) -> None:
    """Print how it stands, then live."""
    asked = dict(zip(words, [*words[1:], ""], strict=True))

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def slow(*_: object) -> None:
        time.sleep(float(asked["--slow-term"]))
        os._exit(0)

    signal.signal(signal.SIGUSR1, lambda *_: say("hung"))
    signal.signal(signal.SIGUSR2, lambda *_: say("released"))
    if "--obeys-notice" in asked:
        signal.signal(signal.SIGHUP, lambda *_: os._exit(0))
    if "--slow-term" in asked:
        signal.signal(signal.SIGTERM, slow)
    if "--port-file" in asked:
        import socket  # noqa: PLC0415 - a syncer alone needs it

        server = socket.create_server(("127.0.0.1", 0))
        with open(asked["--port-file"] + ".new", "w", encoding="utf-8") as file:
            file.write(str(server.getsockname()[1]))
        os.replace(file.name, asked["--port-file"])
        say('{"kind":"syncer.ready","node_s":0.0,"data":{"address":"x","rounds":0,'
            '"committed_tokens":0}}')  # fmt: skip
    else:
        who = f'"learner":"{asked["--name"]}","incarnation":1'
        say(f'{{"kind":"learner.joined","node_s":0.0,"data":{{{who}}}}}')
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
