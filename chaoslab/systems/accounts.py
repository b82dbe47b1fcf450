"""Accounts of a training by a system of others: members, and versions with their contributors.

    reports of learners ─► Accounts ─► member.joined, push.accepted, round.merged, member.suspected

Membership is what the system believes: a learner that is gone is missed when a version is merged
without it. No clock; `emit` gets the events.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from chaoslab.core.events import Json, data_of, read
from chaoslab.core.payloads import (
    Contributor,
    MemberJoined,
    MemberLeft,
    MemberRecovered,
    MembershipFields,
    MemberSuspected,
    PushAccepted,
    RoundMerged,
    SyncerFinal,
    SyncerReady,
)
from chaoslab.core.protocol import LeaveReason
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.node.files import atomic_write

LATE_S = 30.0
"""Time for which a version waits for the report of a contributor that is connected."""
BACK_S = 10.0
"""The same, after a restart of this process, for one that has not connected since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One learner's report of a version that it holds."""

    name: str
    incarnation: int
    version: int
    digest: str
    contributors: tuple[str, ...]
    """Contributors, as its system reports them."""
    pushed: PushAccepted | None
    """Its own contribution; None without one."""

    @classmethod
    def of(cls, name: str, incarnation: int, said: Mapping[str, Any]) -> Self:
        """Report in a line of the connection of this learner."""
        version, work = said["committed"], said["work"]
        pushed: PushAccepted | None = None
        if work:
            pushed = PushAccepted(
                learner=name,
                incarnation=incarnation,
                epoch=work["epoch"],
                round=version,
                fragment=0,
                base_version=work["base_version"],
                step=work["step"],
                c_steps=work["c_steps"],
                c_tokens=work["c_tokens"],
                tokens_from=work["tokens_from"],
                tokens_to=work["tokens_to"],
            )
        return cls(
            name=name,
            incarnation=incarnation,
            version=version,
            digest=said["digest"],
            contributors=tuple(said["contributors"]),
            pushed=pushed,
        )


@dataclass(slots=True, kw_only=True)
class _Member:
    epoch: int
    incarnation: int
    is_gone: bool = False
    """Whether its connection has ended, and the system has not noticed yet."""
    said_goodbye: bool = False
    is_suspected: bool = False
    seen_s: float | None = None
    """Time at which it was last part of a version; None: never."""


@dataclass(slots=True, kw_only=True)
class _Open:
    """A version that is not merged yet."""

    since_s: float
    digest: str
    reports: dict[tuple[str, int], Report] = field(default_factory=dict)
    """Reports by learner and incarnation."""

    @property
    def missing(self) -> set[str]:
        """Contributors that have not reported it."""
        expected = {name for report in self.reports.values() for name in report.contributors}
        return expected - {name for name, _ in self.reports}


class Accounts:
    """Members and versions; the newest is kept in a file."""

    def __init__(self, emit: Emit, file: Path) -> None:
        """Continues the accounts in `file`, if an earlier process left any."""
        self._emit, self._file = emit, file
        self._members: dict[str, _Member] = {}
        self._open: dict[int, _Open] = {}
        self._newest: dict[str, int] = {}
        """The newest version that each learner has reported."""
        self._seen: set[str] = set()
        """Learners that were members of this process's accounts."""
        self._epoch = 0
        self.version = 0
        """The newest that was merged."""
        self.digest = ""
        self.committed_tokens = 0
        self.steps = 0
        """Steps of the learner that has made the most."""
        self.began: float | None = None
        """Start of training, s of this machine's monotonic clock; kept for the recorder."""
        self._last_merge: Mapping[str, Json] | None = None
        """Data of its report."""
        self._is_recovered = file.exists()
        if self._is_recovered:
            kept = json.loads(file.read_text())
            for name in _KEPT:
                setattr(self, name, kept[name])

    @property
    def newest(self) -> int:
        """The newest version that was reported."""
        return max([self.version, *self._open])

    def restate(self) -> None:
        """Print the last merge once more: it may not have been printed."""
        if self._is_recovered and self._last_merge is not None:
            merged = read(RoundMerged, self._last_merge, self._file)
            self._emit(replace(merged, is_restated=True))

    # ------------------------------------------------------------ members

    def join(self, name: str, incarnation: int, *, source: str, donor: str | None) -> int:
        """A learner begins, or connects again; the epoch of its membership."""
        before = self._members.get(name)
        if before is not None and before.incarnation == incarnation and source == "resumed":
            before.is_gone = False
            return before.epoch
        if before is not None:
            self._drop(name, LeaveReason.CLOSED)
        self._epoch += 1
        self._members[name] = _Member(epoch=self._epoch, incarnation=incarnation)
        self._seen.add(name)
        self._keep()
        joined = MemberJoined(
            **self._identity(name),
            source=source,
            donor=donor,
            members=len(self._members),
        )
        self._emit(joined)
        return self._epoch

    def leave(self, name: str, incarnation: int, *, said_goodbye: bool) -> None:
        """The connection of a learner has ended; the system may not know yet."""
        member = self._members.get(name)
        if member is not None and member.incarnation == incarnation:
            member.is_gone, member.said_goodbye = True, said_goodbye
            self._drop_departed()

    # ------------------------------------------------------------ versions

    def adopt(self, version: int, digest: str, now_s: float) -> None:
        """A learner begins with these values, which may be of a version that was not reported."""
        if version == self.version and not self.digest:
            self.digest = digest
        elif version > self.version:
            self._open.setdefault(version, _Open(since_s=now_s, digest=digest))

    def report(self, report: Report, now_s: float) -> None:
        """A learner holds a version; nothing for one that is not newer than what was merged."""
        self._newest[report.name] = report.version
        if report.version <= self.version:
            return
        one = self._open.setdefault(report.version, _Open(since_s=now_s, digest=report.digest))
        one.reports[report.name, report.incarnation] = report
        if report.pushed is not None:
            self.steps = max(self.steps, report.pushed.step)

    def advance(self, now_s: float) -> None:
        """Merge every version that is complete, in their order."""
        for version in sorted(self._open):
            one = self._open[version]
            passed_s = now_s - one.since_s
            if any(passed_s < self._patience_s(name, version) for name in one.missing):
                return
            if not one.reports and not any(later > version for later in self._open):
                return  # its own reports may be on the way
            del self._open[version]
            self._merge(version, one, now_s)

    def ready(self, address: str) -> SyncerReady:
        """Report of the state that it starts with."""
        return SyncerReady(
            address=address,
            rounds=self.version,
            committed_tokens=self.committed_tokens,
            is_recovered=self._is_recovered,
            last_epoch=self._epoch,
            versions={"0": self.version} if self.digest else {},
            digests={"0": self.digest} if self.digest else {},
        )

    def final(self, reason: str, *, was_asked: bool) -> SyncerFinal:
        """Final account."""
        return SyncerFinal(
            rounds=self.version,
            versions={"0": self.version},
            digests={"0": self.digest},
            committed_tokens=self.committed_tokens,
            reason=reason,
            was_asked=was_asked,
        )

    # ------------------------------------------------------------ inside

    def _merge(self, version: int, merged: _Open, now_s: float) -> None:
        pushes = [one.pushed for one in merged.reports.values() if one.pushed is not None]
        names = {one.learner for one in pushes}
        self.committed_tokens += sum(int(one.c_tokens) for one in pushes)
        told = RoundMerged(
            round=version,
            fragment=0,
            version=version,
            base_version=self.version,
            contributors=tuple(_contributor(one, weight=1 / len(pushes)) for one in pushes),
            committed_tokens=self.committed_tokens,
            digest=merged.digest,
        )
        self.version, self.digest = version, merged.digest
        self._last_merge = data_of(told)
        self._keep()
        for one in pushes:
            self._emit(one)
        missed = tuple(sorted(set(self._members) - names))
        self._emit(replace(told, members=len(self._members), missed=missed))
        self._note_absent(names, now_s)
        self._drop_departed()

    def _patience_s(self, name: str, version: int) -> float:
        """Time for which a version waits for this contributor: reports come in order."""
        member = self._members.get(name)
        if self._newest.get(name, 0) > version:
            return 0.0
        if member is None:
            return BACK_S if self._is_recovered and name not in self._seen else 0.0
        return 0.0 if member.is_gone else LATE_S

    def _keep(self) -> None:
        with atomic_write(self._file, durable=False) as written:
            written.append(json.dumps({name: getattr(self, name) for name in _KEPT}).encode())

    def _note_absent(self, contributors: set[str], now_s: float) -> None:
        """Members that are no longer part of versions, or are again."""
        for name, member in list(self._members.items()):
            idle_s = 0.0 if member.seen_s is None else now_s - member.seen_s
            if name in contributors:
                if member.is_suspected:
                    self._emit(MemberRecovered(**self._identity(name), idle_s=idle_s))
                member.is_suspected, member.seen_s = False, now_s
            elif member.is_gone:
                left = LeaveReason.SAID_GOODBYE if member.said_goodbye else LeaveReason.NO_PROGRESS
                self._drop(name, left)
            elif member.seen_s is not None and not member.is_suspected:
                member.is_suspected = True
                self._emit(MemberSuspected(**self._identity(name), idle_s=idle_s))

    def _drop_departed(self) -> None:
        """Drop members that said goodbye, once all of their work is merged."""
        working = {name for one in self._open.values() for name, _ in one.reports}
        for name, member in list(self._members.items()):
            if member.said_goodbye and name not in working:
                self._drop(name, LeaveReason.SAID_GOODBYE)

    def _drop(self, name: str, reason: LeaveReason) -> None:
        subject = self._identity(name)
        del self._members[name]
        self._emit(MemberLeft(**subject, members=len(self._members), reason=reason))

    def _identity(self, name: str) -> MembershipFields:
        member = self._members[name]
        return {"learner": name, "incarnation": member.incarnation, "epoch": member.epoch}


def _contributor(pushed: PushAccepted, *, weight: float) -> Contributor:
    return Contributor(
        learner=pushed.learner,
        incarnation=pushed.incarnation,
        epoch=pushed.epoch,
        step=pushed.step,
        c_steps=pushed.c_steps,
        c_tokens=pushed.c_tokens,
        weight=weight,
        tokens_from=pushed.tokens_from,
        tokens_to=pushed.tokens_to,
    )


_KEPT = ("_epoch", "version", "digest", "committed_tokens", "steps", "began", "_last_merge")
"""Attributes of `Accounts` that outlive its process."""
