"""What happens to the packets below a link's stream: loss by netfilter, the rest by netem.

    KernelPackets.add(injection, port, direction, effect) ─► one rule per way, written down first
    remove(injection, port) ─► exactly those rules

Rules outlive a process, so each is an obligation: the janitor takes away what a dead harness left.
"""

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

from chaoslab.core.errors import FleetError
from chaoslab.links import netem, netfilter
from chaoslab.links.effects import Direction, LinkAbility, Loss, PacketEffect
from chaoslab.links.netem import FIRST_BAND, Shake
from chaoslab.links.netfilter import Drop, Iptables, Seen
from chaoslab.undo.base import UndoLog

BY_NETEM = frozenset({LinkAbility.DUPLICATE, LinkAbility.REORDER, LinkAbility.CORRUPT})
PACKET_ABILITIES = BY_NETEM | {LinkAbility.LOSS}
UNDO_DROPS = "drop_rules"
"""The undo verb for `netfilter.undo`: tool, comment."""
UNDO_BANDS = "close_bands"
"""The undo verb for `netem.close_bands`: interface."""
INTERFACES = ("lo",)
"""Those of this machine's own on which a run has rules."""
_TWIN = "control"


def run_of(directory: Path) -> str:
    """What the comments of a run's rules call it: the name of its directory, for its twin too."""
    whole = directory.resolve()
    return (whole.parent if whole.name == _TWIN else whole).name


def comments_of(directory: Path) -> "re.Pattern[str]":
    """Every comment that a rule of that run may have."""
    return re.compile(rf"chaoslab:{re.escape(run_of(directory))}:[\w.-]+:\d+:(up|down):[0-9a-f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """What is in the kernel, and its obligation."""

    what: Drop | Shake
    undo_entry: int


class Place(Protocol):
    """Whose kernel's rules they are, and by whose hands they are written."""

    interface: str

    def drops(self) -> Iptables:
        """What writes them. FleetError or AbilityError if there is nothing that does."""
        ...

    def can_drop(self) -> tuple[bool, str]:
        """Whether packets can be dropped there, and why not."""
        ...

    def can_shake(self) -> tuple[bool, str]:
        """Whether netem is there, and why not."""
        ...


class Here:
    """The network that this process is in."""

    interface = INTERFACES[0]

    def drops(self) -> Iptables:
        """By iptables."""
        return netfilter.drops()

    def can_drop(self) -> tuple[bool, str]:
        """By trying it."""
        return netfilter.is_available()

    def can_shake(self) -> tuple[bool, str]:
        """By trying it."""
        return netem.is_available()


class KernelPackets:
    """The rules of one run, on one interface of one place.

    `run` is in their comments (`run_of`); rules that vanish with a container need none.
    """

    def __init__(self, undo_log: UndoLog, place: Place | None = None, *, run: str = "") -> None:
        self._undo_log, self._place = undo_log, place or Here()
        self._interface = self._place.interface
        self._run = run
        self._rules: dict[tuple[str, int, Direction, str], _Rule] = {}
        self._gone: dict[int, Seen] = {}
        """What rules that are no more have done, by port."""
        self._bands: int | None = None
        """The obligation of the qdisc that all netem rules hang on."""

    @property
    def abilities(self) -> frozenset[LinkAbility]:
        """What this kernel and user can do."""
        loss = frozenset({LinkAbility.LOSS} if self._place.can_drop()[0] else ())
        return loss | (BY_NETEM if self._place.can_shake()[0] else frozenset())

    def why_not(self, ability: LinkAbility) -> str:
        """The reason that the kernel or the system gave."""
        place = self._place
        return place.can_shake()[1] if ability in BY_NETEM else place.can_drop()[1]

    def add(self, injection: str, port: int, direction: Direction, effect: PacketEffect) -> None:
        """From now on, in each of its ways; the same again changes its share.

        FleetError for a second injection of losses: what each drops could not be told apart.
        """
        if isinstance(effect, Loss):
            self._lose(injection, port, direction, effect)
            return
        keys = {way: (injection, port, way, effect.kind) for way in direction.ways}
        for key in keys.values():
            if key in self._rules:
                self._take_away(self._rules[key])
                del self._rules[key]
        for way, key in keys.items():
            self._rules[key] = self._shake(port, way, effect)

    def remove(self, injection: str, port: int) -> None:
        """All of this injection's on that port."""
        for key in [key for key in self._rules if key[:2] == (injection, port)]:
            self._take_away(self._rules[key])
            del self._rules[key]

    def close(self) -> None:
        """All that is left, and what they hang on."""
        for key in tuple(self._rules):
            self._take_away(self._rules[key])
            del self._rules[key]
        if self._bands is not None:
            netem.close_bands(self._interface)
            self._undo_log.close(self._bands)
            self._bands = None

    def count(self, port: int) -> tuple[int, int] | None:
        """Packets looked at and dropped on that port so far; None when there never was a rule."""
        drops = [rule.what for rule in self._rules.values() if isinstance(rule.what, Drop)]
        mine = [drop for drop in drops if drop.port == port]
        if not mine and port not in self._gone:
            return None
        total = self._gone.get(port, Seen())
        for drop in mine:
            total += self._place.drops().seen(drop.comment)
        return total.packets, total.dropped

    # ---------------------------------------------------------------- one rule

    def _lose(self, injection: str, port: int, direction: Direction, loss: Loss) -> None:
        """The old rule goes when the new one is there."""
        self._refuse_a_second(injection, port)
        for way in direction.ways:
            key = (injection, port, way, loss.kind)
            old = self._rules.pop(key, None)
            label = f"chaoslab:{self._run}:{injection}:{port}:{way}:{secrets.token_hex(2)}"
            drop = Drop(
                comment=label, port=port, way=way, share=loss.share, interface=self._interface
            )
            self._rules[key] = self._drop(drop)
            if old is not None:
                self._take_away(old)

    def _refuse_a_second(self, injection: str, port: int) -> None:
        """The counters are the link's (`count`), and a second rule sees what the first one left."""
        for other, at, _, kind in self._rules:
            if at == port and kind == Loss.kind and other != injection:
                raise FleetError(
                    f"packets of this link are lost to {other} already: two losses on one link at "
                    "once cannot be told apart, so let one end before the other begins"
                )

    def _drop(self, drop: Drop) -> _Rule:
        tool = self._place.drops()
        owed = self._undo_log.open(UNDO_DROPS, tool=tool.tool, comment=drop.comment)
        tool.add(drop)
        return _Rule(what=drop, undo_entry=owed)

    def _shake(self, port: int, way: Direction, effect: PacketEffect) -> _Rule:
        if self._bands is None:
            self._bands = self._undo_log.open(UNDO_BANDS, interface=self._interface)
            netem.open_bands(self._interface)
        band = next((one.band for one in self._shakes if one.effect == effect), None)
        number = _free((one.number for one in self._shakes), 1)
        shake = Shake(
            band=band or _free((one.band for one in self._shakes), FIRST_BAND),
            number=number, port=port, way=way, effect=effect, interface=self._interface,
        )  # fmt: skip
        if shake.band > netem.BANDS:
            raise FleetError(
                f"{self._interface} carries {netem.BANDS - FIRST_BAND + 1} different effects of "
                "netem at once and no more"
            )
        if band is None:
            netem.open_band(shake)
        try:
            netem.add(shake)
        except FleetError:
            if band is None:
                netem.close_band(shake)
            raise
        return _Rule(what=shake, undo_entry=self._bands)

    @property
    def _shakes(self) -> tuple[Shake, ...]:
        whats = (rule.what for rule in self._rules.values())
        return tuple(what for what in whats if isinstance(what, Shake))

    def _take_away(self, rule: _Rule) -> None:
        if isinstance(rule.what, Shake):
            netem.remove(rule.what)
            others = (one for one in self._shakes if one != rule.what)
            if all(one.band != rule.what.band for one in others):
                netem.close_band(rule.what)
            return
        port = rule.what.port
        seen = self._place.drops().remove(rule.what.comment)
        self._gone[port] = self._gone.get(port, Seen()) + seen
        self._undo_log.close(rule.undo_entry)


def _free(taken: Iterable[int], first: int) -> int:
    used = set(taken)
    return next(number for number in count(first) if number not in used)
