"""Sealed faults of a game-day: --key and --unseal.

PLAN --key FILE ─► Sealing.sealed ─► what the run carries, and the charter of who has the key
RUN --unseal [--key FILE] ─► print_opened ─► what is sealed in a record
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import wraps
from pathlib import Path

import click

from chaoslab.cli.commands.output import print_json
from chaoslab.core.errors import PlanError
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.core.payloads import GamedaySealed
from chaoslab.core.terminal import harmless
from chaoslab.core.units import show_duration
from chaoslab.gameday.key_file import secret_in, secret_in_or_new
from chaoslab.gameday.sealing import seal
from chaoslab.prepare.plans import Prepared
from chaoslab.record.journal import History
from chaoslab.record.run_directory import RunDirectory
from chaoslab.record.sealed import SealedFault, derived, disclosed, opened
from chaoslab.run.sealed import SealedInjections


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealing:
    """What was asked for on the command line."""

    key: Path | None = None
    is_opening: bool = False

    def sealed(self, prepared: Prepared, *, is_required: bool) -> SealedInjections | None:
        """Seal what the plan asks for; a key file that is not there is made.

        None if it asks for nothing, or without a key file where none `is_required`.
        """
        asked = prepared.plan.charter.sealed
        if asked is None and self.key is not None:
            raise PlanError(
                "--key: the plan seals no faults; `--set gameday.sealed.faults=2` seals two"
            )
        if asked is None or (self.key is None and not is_required):
            return None
        if self.key is None:
            raise PlanError(
                "the plan has sealed faults: name a key file with --key FILE, which is made if it "
                "is not there; whoever can read it can see what is sealed"
            )
        return seal(prepared, secret_in_or_new(self.key))

    def print_opened(self, directory: RunDirectory, *, as_json: bool) -> None:
        """Print what is sealed in a record; PlanError without its key."""
        faults = self._opened(directory)
        if as_json:
            print_json({"sealed": [asdict(one) for one in faults]})
            return
        for line in _lines(faults):
            click.echo(harmless(line))

    def _opened(self, directory: RunDirectory) -> Sequence[SealedFault]:
        history = History.read(directory.path)
        said = history.last(GamedaySealed)
        if said is None:
            raise PlanError(f"nothing is sealed in {directory.path}")
        key = disclosed(history)
        if key is None and self.key is None:
            raise PlanError("the faults are sealed still: name the key file with --key FILE")
        if self.key is not None:
            key = derived(secret_in(self.key), "run", said.payload.nonce)
        return opened(said.payload, key or b"")


def sealing_options(function: Callable[..., None]) -> Callable[..., None]:
    """--key and --unseal, given to the command as one `sealing`."""

    @click.option(
        "--key",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Key file of the sealed faults (`gameday.sealed` of the plan), made if it is not "
        "there. With --charter they are on the page, below what is for the facilitator.",
    )
    @click.option(
        "--unseal",
        "is_opening",
        is_flag=True,
        help="Print what is sealed in a record; start nothing. PLAN is its run, as for --as-plan. "
        "Until the faults of the run are over it needs --key.",
    )
    @wraps(function)
    def with_sealing(
        *context: click.Context, key: Path | None, is_opening: bool, **others: object
    ) -> None:
        function(*context, sealing=Sealing(key=key, is_opening=is_opening), **others)

    return with_sealing


def _lines(faults: Sequence[SealedFault]) -> Iterator[str]:
    for one in faults:
        yield (
            f"{one.spec}: {one.fault} on {', '.join(one.targets)}, "
            f"{show_duration(one.after_s)} after faults begin, healed after "
            f"{show_duration(one.for_s)}"
        )
