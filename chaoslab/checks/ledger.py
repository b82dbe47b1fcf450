"""Ledger of tokens: double entry between the learners and the syncer (`accounts`).

    pushed = accepted = merged      the same tokens on both sides, each exactly once
    raw = committed + discarded + in flight       for every life that reached the end
    lost, for a life that did not                 at most its work since its last accepted push

What a killed process did after its last line was never seen: it is lost and unseen, and
no fault of the ledger. So are pushes that were on the wire when either side went away.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, TypeAlias

from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import fault_windows, training_end_s
from chaoslab.checks.token_accounts import (
    Accounts,
    Entry,
    adds_up,
    claimed_commits,
    per_step,
    running_sum,
    totals,
)
from chaoslab.checks.violations import Doubt, Violation, conclude
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import (
    LearnerFenced,
    MemberLeft,
    Need,
    NodeExited,
    RoundAbandoned,
    RoundMerged,
    SyncerFinal,
    SyncerReady,
)
from chaoslab.core.units import Duration, plural
from chaoslab.record.history import History

_Who: TypeAlias = str | int | None
"""A learner, the membership with an epoch, or all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Both accounts agree on every contribution, and every life's tokens add up."""

    name: ClassVar[str] = "ledger"
    summary: ClassVar[str] = "raw tokens = committed + lost + in flight; nothing applied twice"
    needs: ClassVar[Mapping[str, Need]] = {"": Need.WHOLE}

    answer_within_s: Duration = 5.0
    """A push needs an answer, unless its learner, the syncer or training ended this soon after."""

    def judge(self, history: History) -> Finding:
        """Compare the accounts entry by entry, then the sums."""
        accounts = Accounts(history)
        violations = [
            *_same_on_both_sides(accounts),
            *_merged_once(accounts),
            *_unanswered(accounts, self.answer_within_s),
            *_disjoint(accounts),
            *claimed_commits(accounts),
            *adds_up(accounts),
            *running_sum(accounts),
            *per_step(accounts),
        ]
        return conclude(
            self.name,
            [*violations, *_doubts(accounts)],
            nothing=Doubt(Code.NOTHING_TO_JUDGE, "nothing was merged"),
            passed=f"{plural(len(accounts.merged), 'contribution is', 'contributions are')} the "
            "same on both sides, and each was merged once",
            samples=len(accounts.merged),
            numbers=totals(accounts),
        )


def _doubts(accounts: Accounts) -> Iterator[Doubt]:
    text = ""
    if not accounts.pushed or not accounts.accepted:
        text = "one side did not write its pushes down, so there is nothing to compare"
    elif not accounts.finals or not accounts.history.of(SyncerFinal):
        text = (
            "the books were not closed: a final account of the syncer or of the learners is missing"
        )
    if text and accounts.merged:
        yield Doubt(Code.RECORD_INCOMPLETE, text)


# ---------------------------------------------------------------- entry by entry


def _same_on_both_sides(accounts: Accounts) -> Iterator[Violation]:
    """Violations if pushed, accepted and merged contributions differ."""
    pushed = {entry.key: entry for entry in accounts.pushed}
    accepted = {entry.key: entry for entry in accounts.accepted}
    for entry in accounts.accepted:
        own = pushed.get(entry.key)
        if own is None and pushed and entry.life in accounts.finals:
            yield _violation(
                Code.NEVER_SENT, entry, f"the syncer accepted {entry}, which the learner never sent"
            )
        elif own is not None and own.counts != entry.counts:
            yield _differs(entry, own, "accepted", "pushed")
    for entry in accounts.merged:
        taken = accepted.get(entry.key)
        if taken is None and accepted:
            yield _violation(
                Code.NOT_ACCEPTED, entry, f"the syncer merged {entry}, which it had not accepted"
            )
        elif taken is not None and taken.counts != entry.counts:
            yield _differs(entry, taken, "merged", "accepted")


def _merged_once(accounts: Accounts) -> Iterator[Violation]:
    """Every accepted push is in one merged round, or in an abandoned one, or its round is open."""
    times = Counter(entry.key for entry in accounts.merged)
    closed: dict[int, Event] = {}
    last_round: dict[str, int] = {}
    for event in accounts.history.of(RoundMerged, RoundAbandoned):
        closed[event.payload.round] = event
        last_round[str(event.payload.fragment)] = event.payload.round
    for key, count in Counter(entry.key for entry in accounts.accepted).items():
        if count > 1:
            entry = next(e for e in reversed(accounts.accepted) if e.key == key)
            yield _violation(
                Code.ACCEPTED_TWICE, entry, f"the syncer accepted {entry} {count} times"
            )
    for entry in accounts.accepted:
        end = closed.get(entry.round)
        if times[entry.key] > 1:
            yield _violation(
                Code.MERGED_TWICE, entry, f"{entry} was merged {times[entry.key]} times"
            )
        elif times[entry.key] == 1 or (end and end.kind is Kind.ROUND_ABANDONED):
            continue
        elif end:
            yield _violation(
                Code.PUSH_LOST, entry, f"{entry} was accepted, but its round was merged without it"
            )
        elif last_round.get(entry.fragment, 0) > entry.round and not _syncer_died(accounts, entry):
            yield _violation(
                Code.ROUND_NEVER_CLOSED,
                entry,
                f"{entry} was accepted, and its round was never closed",
            )


def _unanswered(accounts: Accounts, answer_within_s: float) -> Iterator[Violation]:
    """Pushes that were neither accepted nor rejected, though both sides lived on."""
    taken = {entry.key for entry in (*accounts.accepted, *accounts.merged)}
    answered = taken | accounts.rejected
    missing = [entry for entry in accounts.pushed if entry.key not in answered]
    excuses = _excuses(accounts.history) if missing else {}
    for entry in missing:
        sent_s = entry.event.time_s
        own = [e for key in (None, entry.life[0], entry.epoch) for e in excuses.get(key, ())]
        if not any(a - answer_within_s <= sent_s <= b + answer_within_s for a, b in own):
            yield _violation(
                Code.PUSH_UNANSWERED,
                entry,
                f"{entry} at {sent_s:.1f} s was never answered by the syncer",
            )


def _excuses(history: History) -> Mapping[_Who, Sequence[tuple[float, float]]]:
    """Stretches in which a push may stay unanswered."""
    forever = float("inf")
    found: dict[_Who, list[tuple[float, float]]] = defaultdict(list)
    found[None].append((training_end_s(history), forever))
    learners = set(history.learners)
    for window in fault_windows(history):
        for node in () if window.story.brings_in else window.story.targets:
            found[node if node in learners else None].append((window.start_s, window.end_s))
    for event in history.of(NodeExited):
        node = event.payload.node
        found[node if node in learners else None].append((event.time_s, event.time_s))
    for ended in history.of(MemberLeft, LearnerFenced):
        found[ended.payload.epoch].append((ended.time_s, forever))
    return found


def _disjoint(accounts: Accounts) -> Iterator[Violation]:
    """No token of a life is in a fragment twice, and none that it did not train on."""
    for line in accounts.by_line.values():
        for entry in line:
            if entry.tokens_to - entry.tokens_from != entry.c_tokens:
                yield _violation(
                    Code.TOKENS_MISCOUNTED,
                    entry,
                    f"{entry} counts {entry.c_tokens:.0f} tokens of {_span(entry)}",
                )
            trained = accounts.raw_tokens.get(entry.life, 0.0)
            if entry.life in accounts.finals and entry.tokens_to > trained:
                yield _violation(
                    Code.TOKENS_NOT_TRAINED,
                    entry,
                    f"{entry} claims {_span(entry)} of {trained:.0f} trained",
                )
        ordered = sorted(line, key=lambda entry: (entry.tokens_from, entry.tokens_to))
        for one, other in pairwise(ordered):
            if other.tokens_from < one.tokens_to:
                text = f"{other} has tokens {_span(other)}, and {_span(one)} were already merged"
                yield _violation(Code.TOKENS_OVERLAP, other, f"{text} in round {one.round}")


def _syncer_died(accounts: Accounts, entry: Entry) -> bool:
    """Whether the syncer came back from its disk after it had accepted this."""
    return any(event.seq > entry.event.seq for event in accounts.history.of(SyncerReady))


def _differs(entry: Entry, other: Entry, here: str, there: str) -> Violation:
    text = f"{entry} was {here} with {entry.c_tokens:.0f} tokens {_span(entry)}, "
    return _violation(
        Code.COUNTS_DIFFER, entry, text + f"and {there} with {other.c_tokens:.0f}, {_span(other)}"
    )


def _span(entry: Entry) -> str:
    return f"[{entry.tokens_from:.0f}, {entry.tokens_to:.0f})"


def _violation(code: Code, entry: Entry, text: str) -> Violation:
    return Violation(code=code, seq=entry.event.seq, text=text, culprit=entry.life[0])
