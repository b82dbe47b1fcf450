"""Books of a training by a system of others: who is a member, what was merged.

    reports of learners ─► Books ─► member.joined, push.accepted, round.merged, member.suspected, …

Who is a member is what the system believes: a learner that is gone is missed when a version is
merged without it. No clock; `emit` gets the events.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.node.files import atomic_write

_LATE_S = 3.0
"""How long a version waits for the reports of all of its contributors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one learner tells of a version that it holds."""

    name: str
    incarnation: int
    version: int
    digest: str
    contributors: tuple[str, ...]
    """As its system tells."""
    work: Mapping[str, Any]
    """Counts of its own contribution; empty if it has none."""

    @classmethod
    def of(cls, who: tuple[str, int], said: Mapping[str, Any]) -> Self:
        """From a line of the connection of this learner."""
        return cls(
            name=who[0],
            incarnation=who[1],
            version=said["committed"],
            digest=said["digest"],
            contributors=tuple(said["contributors"]),
            work=said["work"],
        )


@dataclass(slots=True, kw_only=True)
class _Member:
    epoch: int
    incarnation: int
    is_gone: bool = False
    """Its connection has ended, and the system has not noticed yet."""
    said_goodbye: bool = False
    is_suspected: bool = False
    seen_s: float | None = None
    """When it was last part of a version; None: never."""


@dataclass(slots=True, kw_only=True)
class _Open:
    """A version of which not all reports are here."""

    since_s: float
    reports: list[Report] = field(default_factory=list)

    @property
    def missing(self) -> set[str]:
        expected = {name for report in self.reports for name in report.contributors}
        return expected - {report.name for report in self.reports}


class Books:
    """Members and versions."""

    def __init__(self, emit: Emit, file: Path) -> None:
        """Continues those that are in `file`, from which an earlier process was taken away."""
        self._emit, self._file = emit, file
        self._members: dict[str, _Member] = {}
        self._open: dict[int, _Open] = {}
        self._epoch = 0
        self.version = 0
        """The newest that was merged."""
        self.digest = ""
        self.committed_tokens = 0
        self.steps = 0
        """Of the learner that has made the most."""
        self._is_recovered = file.exists()
        if self._is_recovered:
            kept = json.loads(file.read_text())
            self._epoch, self.version, self.committed_tokens, self.steps, self.digest = kept

    @property
    def newest(self) -> int:
        """The newest version that anybody has told of."""
        return max([self.version, *self._open])

    # ------------------------------------------------------------ members

    def join(self, name: str, incarnation: int, *, source: str, donor: str | None) -> int:
        """A learner begins, or its connection does; the epoch of its membership."""
        before = self._members.get(name)
        is_known = before is not None and before.incarnation == incarnation
        if before is not None and is_known and source == "resumed":
            before.is_gone = False
            return before.epoch
        if before is not None:
            self._drop(name, "closed")
        self._epoch += 1
        self._members[name] = _Member(epoch=self._epoch, incarnation=incarnation)
        self._keep()
        self._emit(
            Kind.MEMBER_JOINED,
            {
                "learner": name, "incarnation": incarnation, "epoch": self._epoch,
                "source": source, "donor": donor, "members": len(self._members),
            },
        )  # fmt: skip
        return self._epoch

    def leave(self, who: tuple[str, int], *, said_goodbye: bool) -> None:
        """The connection of a learner has ended; the system may not know yet."""
        member = self._members.get(who[0])
        if member is None or member.incarnation != who[1]:
            return
        member.is_gone, member.said_goodbye = True, said_goodbye
        self._see_off()

    # ------------------------------------------------------------ versions

    def hold(self, version: int, digest: str) -> None:
        """A learner begins with these values."""
        if version == self.version and not self.digest:
            self.digest = digest

    def report(self, report: Report, now_s: float) -> None:
        """A learner holds a version. One that is not newer than what was merged changes nothing."""
        if report.version > self.version:
            self._open.setdefault(report.version, _Open(since_s=now_s)).reports.append(report)
            self.steps = max(self.steps, int(report.work.get("step", 0)))

    def advance(self, now_s: float) -> None:
        """Merge what is complete, in the order of versions."""
        for version in sorted(self._open):
            one = self._open[version]
            is_late = now_s - one.since_s >= _LATE_S or any(v > version for v in self._open)
            if one.missing and not is_late:
                return
            del self._open[version]
            self._merge(version, one, now_s)

    def held(self) -> dict[str, Json]:
        """Data of `syncer.ready`, without the address."""
        held: dict[str, Json] = {
            "rounds": self.version,
            "committed_tokens": self.committed_tokens,
            "is_recovered": self._is_recovered,
            "last_epoch": self._epoch,
        }
        if not self.digest:
            return held
        return {**held, "versions": {"0": self.version}, "digests": {"0": self.digest}}

    def final(self, reason: str, *, was_asked: bool) -> dict[str, Json]:
        """Data of `syncer.final`."""
        return {
            "rounds": self.version,
            "versions": {"0": self.version},
            "digests": {"0": self.digest},
            "committed_tokens": self.committed_tokens,
            "reason": reason,
            "was_asked": was_asked,
        }

    # ------------------------------------------------------------ inside

    def _merge(self, version: int, merged: _Open, now_s: float) -> None:
        present = [report for report in merged.reports if report.name in self._members]
        worked = [report for report in present if report.work]
        self.committed_tokens += sum(int(report.work["c_tokens"]) for report in worked)
        place: dict[str, Json] = {"round": version, "fragment": 0}
        for report in worked:
            self._emit(Kind.PUSH_ACCEPTED, {**place, **self._who(report.name), **report.work})
        self.digest = merged.reports[0].digest
        contributors: list[Json] = [
            {**self._who(one.name), **one.work, "weight": 1 / len(worked)} for one in worked
        ]
        names = {report.name for report in worked}
        self._emit(
            Kind.ROUND_MERGED,
            {
                **place,
                "version": version,
                "base_version": self.version,
                "contributors": contributors,
                "committed_tokens": self.committed_tokens,
                "digest": self.digest,
                "members": len(self._members),
                "missed": sorted(set(self._members) - names),
            },
        )
        self.version = version
        self._keep()
        self._note_absent(names, now_s)
        self._see_off()

    def _keep(self) -> None:
        kept = (self._epoch, self.version, self.committed_tokens, self.steps, self.digest)
        with atomic_write(self._file, durable=False) as written:
            written.append(json.dumps(kept).encode())

    def _note_absent(self, contributors: set[str], now_s: float) -> None:
        """Who is no longer part of versions, and who is again."""
        for name, member in list(self._members.items()):
            idle_s = 0.0 if member.seen_s is None else now_s - member.seen_s
            if name in contributors:
                if member.is_suspected:
                    self._emit(Kind.MEMBER_RECOVERED, {**self._who(name), "idle_s": idle_s})
                member.is_suspected, member.seen_s = False, now_s
            elif member.is_gone:
                self._drop(name, "said_goodbye" if member.said_goodbye else "no_progress")
            elif member.seen_s is not None and not member.is_suspected:
                member.is_suspected = True
                self._emit(Kind.MEMBER_SUSPECTED, {**self._who(name), "idle_s": idle_s})

    def _see_off(self) -> None:
        """Those who said goodbye, once all of their work is merged."""
        working = {report.name for one in self._open.values() for report in one.reports}
        for name, member in list(self._members.items()):
            if member.said_goodbye and name not in working:
                self._drop(name, "said_goodbye")

    def _drop(self, name: str, reason: str) -> None:
        who = self._who(name)
        del self._members[name]
        left: dict[str, Json] = {"members": len(self._members), "reason": reason}
        self._emit(Kind.MEMBER_LEFT, {**who, **left})

    def _who(self, name: str) -> dict[str, Json]:
        member = self._members[name]
        return {"learner": name, "incarnation": member.incarnation, "epoch": member.epoch}
