"""A syncer with its durability switched off: it publishes what is not on its disk yet."""

from pathlib import Path

from chaoslab.diloco.syncer import program
from chaoslab.diloco.syncer.store import SyncerStore
from chaoslab.selftest.mutants import Mutant, Part


class CarelessStore(SyncerStore):
    """Writes everything in the right order, and waits for nothing."""

    def __init__(self, directory: Path, *, durable: bool = True) -> None:  # noqa: ARG002
        super().__init__(directory, durable=False)


MUTANT = Mutant(
    program=program, parts=(Part(module=program, name="SyncerStore", wrong=CarelessStore),)
)

if __name__ == "__main__":
    MUTANT.start()
