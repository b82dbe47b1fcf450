"""A learner that, as the first of all to be asked for a checkpoint, never finishes giving it.

Which one was asked first is settled by who makes the file named by `HESITATED` in the environment;
its name is in it.
"""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from chaoslab.diloco import learner
from chaoslab.diloco import wire_pb2 as pb
from chaoslab.diloco.exchange import Snapshot
from chaoslab.diloco.messenger import Messenger
from tests.mutants import start


class HesitantMessenger(Messenger):
    """Packs its checkpoint for ever."""

    def _donate(self, held: Snapshot, request: pb.CheckpointRequest) -> None:
        pack = held.pack
        super()._donate(replace(held, pack=lambda: self._hesitate(pack)), request)

    def _hesitate(self, pack: Callable[[], bytes]) -> bytes:
        try:
            with Path(os.environ["HESITATED"]).open("x") as file:
                file.write(self._learner)
        except FileExistsError:
            return pack()
        time.sleep(3600)
        return pack()


if __name__ == "__main__":
    start(learner, Messenger=HesitantMessenger)
