"""Ways to undo, and what else a package says of what it may leave on a machine.

    Maintenance ─┬─ verbs      UndoEntry ─► facts ─► undo | what is left
                 ├─ leftovers  what no known undo log names
                 └─ diagnose   what of it this machine can do

Fleets and links each register one, in a module `undo_verbs` (`undo.catalogue`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Generic

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json
from chaoslab.core.process_identity import boot_id
from chaoslab.undo.facts import AnyFacts, Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoEntry:
    """One open entry of an undo log."""

    number: int
    do: str
    facts: Mapping[str, Json]
    """The entry, as it was read."""
    directory: Path
    """Directory of the undo log."""

    @property
    def until_s(self) -> float | None:
        """Due time on the monotonic clock of this boot; None: with the end of the run."""
        until_s = self.facts.get("until_s")
        is_number = isinstance(until_s, int | float) and not isinstance(until_s, bool)
        is_of_this_boot = self.facts.get("boot_id", boot_id()) == boot_id()
        return float(str(until_s)) if is_number and is_of_this_boot else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed:
    """Undone things, and those that could not be undone, as sentences."""

    actions: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb(Generic[AnyFacts]):
    """One way to undo. It may be done twice; nothing to do is no action and nothing remaining."""

    facts: type[AnyFacts]
    undo: Callable[[AnyFacts], Healed]
    """FleetError or OSError when the world refuses."""
    left: Callable[[AnyFacts], tuple[str, ...]]
    """Remaining things, a few words each."""
    is_safe_during_run: bool = False
    """Whether it may be done during the run: it releases something that goes on living."""
    looks: bool = True
    """Whether `left` looks at the world; else it only repeats what was written down."""
    is_last: bool = False
    """Whether it removes something that other verbs need: done after them, if nothing remains."""
    ends_with_boot: bool = False
    """A restart of the machine undoes it, so its entry need not wait for the disk."""


def by_module(module: str, function: str, *arguments: object) -> tuple[str, ...]:
    """What a function of a module that needs an engine's or a cluster's library does or finds.

    FleetError also without that library, or without an engine or a cluster.
    """
    try:
        found: tuple[str, ...] = getattr(import_module(module), function)(*arguments)
    except AbilityError as error:
        raise FleetError(str(error)) from error
    return found


def asked(
    module: str,
    do: str,
    facts: type[Facts],
    *,
    is_safe_during_run: bool = True,
    looks: bool = False,
    is_last: bool = False,
) -> Verb[Any]:
    """A verb that an engine or a cluster carries out: `undo(do, facts)` of this module undoes, its
    `left(do, facts)` says what is left; if nothing answers, that is left.
    """

    def undone(facts: Facts) -> Healed:
        return Healed(actions=by_module(module, "undo", do, facts))

    def left(facts: Facts) -> tuple[str, ...]:
        try:
            return by_module(module, "left", do, facts)
        except FleetError as error:
            return (str(error),)

    return Verb(
        facts=facts, undo=undone, left=left, is_safe_during_run=is_safe_during_run, looks=looks,
        is_last=is_last,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something that an earlier run left, and the command that removes it."""

    what: str
    where: str
    remedy: str
    remove: Callable[[], str] | None = None
    """Removes it for `chaoslab heal --all` and says what was done, or raises FleetError; None for
    what a person has to look at first."""

    def told(self) -> dict[str, Json]:
        """The texts, for JSON."""
        return {"what": self.what, "where": self.where, "remedy": self.remedy}


class State(StrEnum):
    """Degree to which the machine has an ability."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One ability of the machine: a line of `chaoslab doctor`."""

    name: str
    state: State
    detail: str
    remedy: str = ""
    """Remedy; empty when it is ok or nothing can be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Verbs, leftovers and diagnoses of a fleet or kind of links, for `heal` and `doctor`."""

    verbs: Mapping[str, Verb[Any]] = field(default_factory=dict)
    """Verbs by their name in an undo log."""
    leftovers: Callable[[Path], Iterable[Leftover]] = lambda _: ()
    """Things on this machine that no undo log under this folder names; looking changes nothing."""
    diagnose: Callable[[], Iterable[Examined]] = tuple
    """Abilities of this machine; looking changes nothing and takes a few seconds at most."""
    repairs: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """Repair by name of a missing ability: obtains it, returns what was done. FleetError if not."""


def ok(name: str, detail: str) -> Examined:
    """An ability that is there."""
    return Examined(name=name, state=State.OK, detail=detail)


def limited(name: str, detail: str, remedy: str = "") -> Examined:
    """An ability that is there in part."""
    return Examined(name=name, state=State.LIMITED, detail=detail, remedy=remedy)


def missing(name: str, detail: str, remedy: str = "") -> Examined:
    """An ability that is not there."""
    return Examined(name=name, state=State.MISSING, detail=detail, remedy=remedy)
