"""A learner that, as the first to be asked for a checkpoint from some moment on, never gives it.

That moment is when the file `armed` appears beside the learners' own folders. Who removes it was
asked first, and writes its name to `hesitated`. No mutant of selftest: a training gets over such a
donor, and should.
"""

import time
from collections.abc import Callable
from pathlib import Path

from chaoslab.diloco.learner import program
from chaoslab.diloco.learner.exchange import Snapshot
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.selftest.mutants import Part, flag, start


class HesitantMessenger(Messenger):
    """Packs its checkpoint for ever."""

    def _donate(self, held: Snapshot, request: pb.CheckpointRequest) -> None:
        pack = held.pack
        super()._donate(held._replace(pack=lambda: hesitate(self._learner, pack)), request)


def hesitate(name: str, pack: Callable[[], bytes]) -> bytes:
    """Whoever is not the first gives what was asked for."""
    place = Path(flag("--directory")).parent
    try:
        (place / "armed").unlink()
    except FileNotFoundError:
        return pack()
    (place / "hesitated").write_text(name)
    time.sleep(3600)
    return pack()


if __name__ == "__main__":
    start(program, [Part(program, "Messenger", HesitantMessenger)])
