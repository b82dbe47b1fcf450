"""Succession of the syncer: nothing published is lost or changed, and all learners are heard.

    round.merged (fragment, version, digests) ──► the last before its end ─┐
    syncer.ready (versions, digests)          ──► what it came back with ──┴─ the same, or one merge
                                                    more, which it says first
    member.joined  epochs never come twice        each learner that was cut off contributes again

What was accepted and not merged when the syncer died is lost for that round; the learner still has
the work and gives it again, and that nothing is merged twice is for `ledger` to say.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.outages import Outage, outages
from chaoslab.checks.timeline import by_label
from chaoslab.checks.violations import Doubt, Measured, Violation, after_longest, conclude
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import MemberJoined, MemberLeft, RoundMerged, SyncerReady
from chaoslab.core.units import Duration
from chaoslab.record.history import History

_MERGE: Mapping[str, Callable[[RoundMerged], object]] = {
    "fragment": lambda merged: merged.fragment,
    "version": lambda merged: merged.version,
    "contributors": lambda merged: merged.contributors,
    "digest": lambda merged: merged.digest,
    "momentum_digest": lambda merged: merged.momentum_digest,
}
"""Facts that both reports of a merge must share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """A syncer that was away resumes everything it had published, and all learners return to it."""

    name: ClassVar[str] = "succession"
    summary: ClassVar[str] = (
        "a syncer that comes back loses nothing, and every learner contributes again"
    )

    within_s: Duration = 30.0
    """Longest time from the beginning of the heal until each learner's work is accepted again."""

    def judge(self, history: History) -> Finding:
        """Compare what each life of the syncer began with to what the one before had published."""
        found, lives = outages(history), history.of(SyncerReady)[1:]
        violations = [*_epochs(history), *_said_otherwise(history)]
        violations += [v for ready in lives for v in _took_up(ready, history)]
        violations += [v for outage in found for v in self._unheard(outage)]
        clocks = [
            s for o in found for learner in o.returns if (s := o.after_s(learner)) is not None
        ]
        longest_s = max(clocks, default=0.0)
        return conclude(
            self.name,
            [*violations, *_doubts(found, lives)],
            nothing=Doubt(Code.NO_FAULT, "the syncer was never away"),
            passed=f"{_came_back(len(lives))}; all contributed again {after_longest(clocks)}",
            samples=len(found) + len(lives),
            measured=Measured(longest_s, self.within_s, Unit.SECONDS) if clocks else None,
            numbers={
                one.story.injection: {
                    "away_s": round(one.healed_s - one.gone_s, 3),
                    "ready_s": round(one.ready.time_s - one.healed_s, 3) if one.ready else None,
                    "heard_s": by_label(one.returns, map(one.after_s, one.returns)),
                }
                for one in found
            },
        )

    def _unheard(self, outage: Outage) -> Iterator[Violation]:
        """Learners that had their chance to be heard again and were not, or too late."""
        room_s = outage.until_s - outage.healed_s
        for learner in outage.returns:
            after_s = outage.after_s(learner)
            if (room_s if after_s is None else after_s) <= self.within_s:
                continue
            took = "nothing" if after_s is None else f"for {after_s:.1f} s nothing"
            text = f"after fault {outage} {took} of {learner} was accepted; the bound is"
            seen = outage.since or outage.story.injecting
            yield Violation.at(seen, Code.NOT_HEARD_AGAIN, f"{text} {self.within_s:g} s", learner)
        for learner, unheard_s in outage.unheard_s.items():
            if unheard_s > self.within_s:
                text = (
                    f"nothing of {learner} was accepted for {unheard_s:.1f} s after fault {outage}"
                )
                yield Violation.at(
                    outage.since or outage.story.injecting,
                    Code.NOT_HEARD_AGAIN,
                    f"{text} for {unheard_s:.1f} s, when another fault took it away; the bound is "
                    f"{self.within_s:g} s",
                    learner,
                )


# ---------------------------------------------------------------- what it came back with


def _took_up(ready: Event[SyncerReady], history: History) -> Iterator[Violation]:
    """Every fragment as it was last published; one merge may be newer, and is said right away."""
    versions, restated = ready.payload.versions, _restated(ready, history)
    for fragment, merged in _published(ready, history).items():
        wanted, last, version = merged, merged.payload.version, versions.get(fragment)
        if restated and str(restated.payload.fragment) == fragment and version == last + 1:
            wanted = restated
        elif version != last:
            text = f"had published version {last} of fragment {fragment} and came back with"
            yield Violation.at(ready, Code.VERSION_LOST, f"the syncer {text} {version}")
            continue
        own, published = ready.payload, wanted.payload
        for what, code, digests, digest in (
            ("parameters", Code.CAME_BACK_WITH_OTHER_STATE, own.digests, published.digest),
            (
                "momentum",
                Code.CAME_BACK_WITH_OTHER_MOMENTUM,
                own.momentum_digests,
                published.momentum_digest,
            ),
        ):
            if digests and digests.get(fragment) != digest:
                where = f"version {version} of fragment {fragment}"
                yield Violation.at(
                    ready,
                    code,
                    f"the syncer came back with another {what} of {where}",
                )


def _published(ready: Event, history: History) -> Mapping[str, Event[RoundMerged]]:
    """The last merge of each fragment before that life of the syncer."""
    merged = history.of(RoundMerged)
    return {str(e.payload.fragment): e for e in merged if e.seq < ready.seq}


def _restated(ready: Event, history: History) -> Event[RoundMerged] | None:
    """The merge that an earlier life had put on its disk and had not come to say."""
    merged = (e for e in history.of(RoundMerged) if e.seq > ready.seq)
    first = next(merged, None)
    return first if first and first.payload.is_restated else None


def _said_otherwise(history: History) -> Iterator[Violation]:
    """Merges that a later life read from its disk, and that are not what was published."""
    said = {event.payload.round: event for event in history.of(RoundMerged)}
    for again in history.events:
        if again.kind is not Kind.ROUND_MERGED:
            continue
        now = again.payload
        if not isinstance(now, RoundMerged) or not now.is_restated:
            continue
        first = said[now.round].payload
        other = [name for name, part in _MERGE.items() if part(now) != part(first)]
        if other:
            text = f"says of round {first.round} another {' and '.join(other)} than"
            yield Violation.at(
                again, Code.MERGE_RESTATED_OTHERWISE, f"the syncer {text} when it was merged"
            )


def _epochs(history: History) -> Iterator[Violation]:
    last, present = 0, dict[int, tuple[str, int]]()
    for event in history.of(MemberJoined, MemberLeft, SyncerReady):
        said = event.payload
        match said:
            case SyncerReady():
                present.clear()
                last = max(last, said.last_epoch or 0)
            case MemberLeft():
                present.pop(said.epoch, None)
            case MemberJoined() if present.get(said.epoch) != said.life:  # else sent elsewhere
                if said.epoch <= last:
                    text = f"{said.learner} was given epoch {said.epoch} when {last} had been given"
                    yield Violation.at(event, Code.EPOCH_GIVEN_TWICE, text)
                present[said.epoch] = said.life
                last = max(last, said.epoch)
            case _:
                pass


# ---------------------------------------------------------------- words


def _doubts(found: Sequence[Outage], lives: Sequence[Event[SyncerReady]]) -> Iterator[Doubt]:
    open_ = [
        f"{learner} after fault {outage}"
        for outage in found
        for learner in outage.returns
        if outage.is_last and outage.after_s(learner) is None
    ]
    if open_:
        text = f"training ended before anything was accepted again of {', '.join(open_)}"
        yield Doubt(Code.TOO_LITTLE_TIME, text)
    elif any(not ready.payload.versions for ready in lives):
        yield Doubt(Code.RECORD_INCOMPLETE, "the syncer did not say what it came back with")


def _came_back(lives: int) -> str:
    times = "once" if lives == 1 else f"{lives} times"
    if not lives:
        return "the syncer went on where it had stalled"
    return f"the syncer came back {times} with all that it had published"
