"""Packet rules below a link's stream: loss by netfilter, other effects by netem.

    KernelPackets.add(injection, port, direction, effect) ─► one rule per direction
    remove(injection, port) ─► exactly those rules

Rules outlive a process, so each has an undo entry: the janitor removes those of a dead harness.
"""

import re
import secrets
import threading
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Protocol, TypeAlias

from chaoslab.core.errors import FleetError
from chaoslab.links.effects import Direction, LinkAbility, Loss, PacketEffect
from chaoslab.links.netem import bands, netfilter
from chaoslab.links.netem.bands import FIRST_BAND, NetemRule
from chaoslab.links.netem.netfilter import Drop, Iptables, PacketCounts
from chaoslab.undo.base import PendingUndos, UndoLog

BY_NETEM = frozenset({LinkAbility.DUPLICATE, LinkAbility.REORDER, LinkAbility.CORRUPT})
PACKET_ABILITIES = BY_NETEM | {LinkAbility.LOSS}
UNDO_DROPS = "drop_rules"
"""Undo action of `netfilter.undo`; facts: tool, comment."""
UNDO_BANDS = "close_bands"
"""Undo action of `bands.close_bands`; facts: interface."""
INTERFACES = ("lo",)
"""Interfaces of this machine on which a run may have rules."""
_TWIN = "twin"


def run_of(directory: Path) -> str:
    """Name of a run in the comments of its rules: that of its directory, also for its twin."""
    whole = directory.resolve()
    return (whole.parent if whole.name == _TWIN else whole).name


def comments_of(directory: Path) -> "re.Pattern[str]":
    """Pattern of every comment that a rule of that run may have."""
    return re.compile(rf"chaoslab:{re.escape(run_of(directory))}:[\w.-]+:\d+:(up|down):[0-9a-f]+")


_Key: TypeAlias = tuple[str, int, Direction, str]
"""Injection, port, single direction, and kind of effect or comment of a drop."""


class Place(Protocol):
    """Interface to the network whose kernel gets the rules."""

    interface: str

    def drops(self) -> Iptables:
        """Tool that writes loss rules. FleetError or AbilityError if there is none."""
        ...

    def can_drop(self) -> tuple[bool, str]:
        """Whether packets can be dropped there, and why not."""
        ...

    def can_use_netem(self) -> tuple[bool, str]:
        """Whether netem works there, and why not."""
        ...


class LocalPlace:
    """The network of this process."""

    interface = INTERFACES[0]

    def drops(self) -> Iptables:
        """The rules of this machine, written by iptables."""
        return netfilter.drops()

    def can_drop(self) -> tuple[bool, str]:
        """Found by trying; see `netfilter.is_available`."""
        return netfilter.is_available()

    def can_use_netem(self) -> tuple[bool, str]:
        """Found by trying; see `bands.is_available`."""
        return bands.is_available()


class KernelPackets:
    """The rules of one run, on one interface.

    `run` is in their comments (`run_of`); rules that vanish with a container need none.
    """

    def __init__(self, undo_log: UndoLog, place: Place | None = None, *, run: str = "") -> None:
        self._pending_undos, self._place = PendingUndos(undo_log), place or LocalPlace()
        self._interface = self._place.interface
        self._run = run
        self._rules: dict[_Key, Drop | NetemRule] = {}
        self._gone: dict[tuple[int, str], PacketCounts] = {}
        """Counters of rules before they were removed, by port and comment."""
        self._has_bands = False
        """Whether the qdisc that holds all netem rules was added."""
        self._changing = threading.Lock()

    @property
    def abilities(self) -> frozenset[LinkAbility]:
        """Abilities of this kernel and user."""
        loss = frozenset({LinkAbility.LOSS} if self._place.can_drop()[0] else ())
        return loss | (BY_NETEM if self._place.can_use_netem()[0] else frozenset())

    def why_not(self, ability: LinkAbility) -> str:
        """Reason why an ability is missing, as the kernel or the system gave it."""
        place = self._place
        return place.can_use_netem()[1] if ability in BY_NETEM else place.can_drop()[1]

    def add(self, injection: str, port: int, direction: Direction, effect: PacketEffect) -> None:
        """Apply the effect in each direction; repeated with another share it replaces the first.

        FleetError for a second injection of loss: their drops could not be told apart.
        """
        with self._changing:
            if isinstance(effect, Loss):
                self._lose(injection, port, direction, effect)
                return
            keys = {way: (injection, port, way, effect.kind) for way in direction.ways}
            for key in keys.values():
                if key in self._rules:
                    self._remove(key)
            for way, key in keys.items():
                self._add_netem(key, port, way, effect)

    def remove(self, injection: str, port: int) -> None:
        """Remove all rules of an injection on that port."""
        with self._changing:
            for key in [key for key in self._rules if key[:2] == (injection, port)]:
                self._remove(key)

    def close(self) -> None:
        """Remove all rules, then the qdisc."""
        for key in tuple(self._rules):
            self._remove(key)
        if self._has_bands:
            bands.close_bands(self._interface)
            self._pending_undos.close(UNDO_BANDS)
            self._has_bands = False

    def count(self, port: int) -> tuple[int, int] | None:
        """Packets matched and dropped on that port; None if there never was a rule."""
        with self._changing:
            mine = {drop.comment for drop in self._drops.values() if drop.port == port}
            gone = {comment: seen for (at, comment), seen in self._gone.items() if at == port}
        if not mine and not gone:
            return None
        total = sum(gone.values(), PacketCounts())
        for comment in mine - gone.keys():
            total += self._place.drops().seen(comment)
        return total.packets, total.dropped

    # ---------------------------------------------------------------- one rule

    def _lose(self, injection: str, port: int, direction: Direction, loss: Loss) -> None:
        """Add the new rule, then remove the old one; on FleetError `remove` takes away both."""
        self._refuse_a_second(injection, port)
        for way in direction.ways:
            old = [key for key in self._drops if key[:3] == (injection, port, way)]
            label = f"chaoslab:{self._run}:{injection}:{port}:{way}:{secrets.token_hex(2)}"
            drop = Drop(
                comment=label, port=port, way=way, share=loss.share, interface=self._interface
            )
            self._drop((injection, port, way, label), drop)
            for key in old:
                self._remove(key)

    def _refuse_a_second(self, injection: str, port: int) -> None:
        """FleetError: the counters are per link, and a second rule sees what the first one left."""
        for other, at, _, _ in self._drops:
            if at == port and other != injection:
                raise FleetError(
                    f"this link already loses packets by {other}, and two losses on one link "
                    "cannot be told apart: let one end before the other begins"
                )

    def _drop(self, key: _Key, drop: Drop) -> None:
        tool = self._place.drops()
        self._pending_undos.open(UNDO_DROPS, drop.comment, tool=tool.tool, comment=drop.comment)
        self._rules[key] = drop
        tool.add(drop)

    @property
    def _drops(self) -> dict[_Key, Drop]:
        return {key: rule for key, rule in self._rules.items() if isinstance(rule, Drop)}

    def _add_netem(self, key: _Key, port: int, way: Direction, effect: PacketEffect) -> None:
        """Record a rule, then write it; on FleetError neither, or `remove` takes it away."""
        if not self._has_bands:
            self._pending_undos.open(UNDO_BANDS, interface=self._interface)
            self._has_bands = True
            bands.open_bands(self._interface)
        band = next((one.band for one in self._netem_rules if one.effect == effect), None)
        number = _free((one.number for one in self._netem_rules), 1)
        rule = NetemRule(
            band=band or _free((one.band for one in self._netem_rules), FIRST_BAND),
            number=number, port=port, way=way, effect=effect, interface=self._interface,
        )  # fmt: skip
        if rule.band > bands.BANDS:
            raise FleetError(
                f"{self._interface}: at most {bands.BANDS - FIRST_BAND + 1} different netem "
                "effects at once, all are in use"
            )
        self._rules[key] = rule
        try:
            bands.open_band(rule)
            bands.add(rule)
        except FleetError as error:
            try:
                self._remove(key)
            except FleetError as worse:  # it stays recorded, and `remove` tries again
                error.add_note(f"and what was written of it could not be taken away: {worse}")
            raise

    @property
    def _netem_rules(self) -> tuple[NetemRule, ...]:
        return tuple(rule for rule in self._rules.values() if isinstance(rule, NetemRule))

    def _remove(self, key: _Key) -> None:
        self._take_away(self._rules[key])
        del self._rules[key]

    def _take_away(self, rule: Drop | NetemRule) -> None:
        if isinstance(rule, NetemRule):
            bands.remove(rule)
            others = (one for one in self._netem_rules if one != rule)
            if all(one.band != rule.band for one in others):
                bands.close_band(rule)
            return
        tool, key = self._place.drops(), (rule.port, rule.comment)
        if key not in self._gone:  # else its removal failed, and a part of it may be gone
            self._gone[key] = tool.seen(rule.comment)
        tool.remove(rule.comment)
        self._pending_undos.close(UNDO_DROPS, rule.comment)


def _free(taken: Iterable[int], first: int) -> int:
    used = set(taken)
    return next(number for number in count(first) if number not in used)
