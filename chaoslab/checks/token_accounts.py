"""The two accounts of the same work: what learners say they gave, and what the syncer says it took.

    learner                                      syncer
    raw tokens ── pushed ─────────────────────►  accepted ──► merged into version v
        committed + discarded  ◄── adopted v ──  (or rejected, or its round abandoned)
        + in flight + lost

Everything is counted per life: (learner, incarnation). Tokens of a fragment are the raw tokens of
the steps it was trained on; an amount over all P fragments is their mean. The sums must add up:

    learner believes committed, at each adoption     = the syncer's books for that version
    committed + discarded + in flight, at the end    = raw tokens of the life
    committed_tokens of the run, at each round       = what its contributors gave, over P
    tokens a step, of each life                      = tokens a step, of all others

Nothing is tolerated but the rounding of the third one, which is a mean.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from chaoslab.checks.codes import Code
from chaoslab.checks.violations import Violation
from chaoslab.core.events import Event, Json, Kind
from chaoslab.core.payloads import (
    Contributor,
    LearnerAdopted,
    LearnerFinal,
    LearnerJoined,
    LearnerPushed,
    LearnerStep,
    Membership,
    PushAccepted,
    Pushed,
    PushRejected,
    Round,
    RoundMerged,
    SyncerFinal,
)
from chaoslab.record.history import History

Incarnation: TypeAlias = tuple[str, int]
"""(learner, incarnation)"""
Key: TypeAlias = tuple[str, int, int, int, str]
"""(learner, incarnation, epoch, round, fragment)"""


class Entry(NamedTuple):
    """One contribution by the account of one side."""

    event: Event
    """The push, or the round that it was merged in."""
    key: Key
    """Identifies the contribution on both sides."""
    life: Incarnation
    epoch: int
    round: int
    fragment: str
    c_steps: float
    c_tokens: float
    tokens_from: float
    tokens_to: float
    version: int = 0
    """The version it was merged into; 0 before it was merged."""

    @property
    def counts(self) -> tuple[float, float, float, float]:
        """Counts that both sides must share."""
        return self.c_steps, self.c_tokens, self.tokens_from, self.tokens_to

    def __str__(self) -> str:
        return f"{self.life[0]}'s push of fragment {self.fragment} in round {self.round}"


class Accounts:
    """Both accounts of one run, gathered once."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.pushed = [_entry(e, e.payload, e.payload) for e in history.of(LearnerPushed)]
        self.accepted = [_entry(e, e.payload, e.payload) for e in history.of(PushAccepted)]
        self.merged = [
            _entry(event, contributor, event.payload, event.payload.version)
            for event in history.of(RoundMerged)
            for contributor in event.payload.contributors
        ]
        self.rejected = {_key(e.payload, e.payload) for e in history.of(PushRejected)}
        self.finals = {event.payload.life: event for event in history.of(LearnerFinal)}

    @cached_property
    def fragments(self) -> int:
        """P, the number of fragments; 0 if the record does not say."""
        told = self.history.of(SyncerFinal, LearnerFinal, LearnerJoined)
        return max((len(event.payload.versions) for event in told), default=0)

    @cached_property
    def newest(self) -> Mapping[str, int]:
        """The newest version of each fragment that the record shows being merged."""
        merged = self.history.of(RoundMerged)
        return {str(event.payload.fragment): event.payload.version for event in merged}

    @cached_property
    def by_line(self) -> Mapping[tuple[Incarnation, str], Sequence[Entry]]:
        """The merged contributions of each life to each fragment, in the order of merging."""
        lines: dict[tuple[Incarnation, str], list[Entry]] = defaultdict(list)
        for entry in self.merged:
            lines[entry.life, entry.fragment].append(entry)
        return lines

    @cached_property
    def raw_tokens(self) -> Mapping[Incarnation, float]:
        """Trained tokens of each life, as far as known: the last steps of a dead one are not."""
        known: dict[Incarnation, float] = defaultdict(float)
        for event in self.history.of(LearnerStep, LearnerFinal):
            life = event.payload.life
            known[life] = max(known[life], event.payload.tokens)
        for entry in self.pushed:
            known[entry.life] = max(known[entry.life], entry.tokens_to)
        return known

    @cached_property
    def _committed(self) -> Mapping[tuple[Incarnation, str], tuple[list[int], list[float]]]:
        """Versions of each line in order, and the tokens committed up to each of them."""
        lines = {
            place: sorted(line, key=attrgetter("version")) for place, line in self.by_line.items()
        }
        return {
            place: ([e.version for e in line], list(accumulate(e.c_tokens for e in line)))
            for place, line in lines.items()
        }

    def committed(self, life: Incarnation, fragment: str, version: float) -> float:
        """Tokens of the life in `version` of the fragment, by the syncer's account."""
        versions, sums = self._committed.get((life, fragment), ([], []))
        known = bisect_right(versions, version)
        return sums[known - 1] if known else 0

    def adoptions(self) -> Iterator[tuple[Incarnation, str, Event[LearnerAdopted]]]:
        """Every adoption in order: (life, fragment, event)."""
        for event in self.history.of(LearnerAdopted):
            yield event.payload.life, str(event.payload.fragment), event

    @cached_property
    def _given(self) -> Mapping[Incarnation, float]:
        """Merged tokens of each life, of all fragments."""
        given: dict[Incarnation, float] = defaultdict(float)
        for entry in self.merged:
            given[entry.life] += entry.c_tokens
        return given

    @cached_property
    def _discarded(self) -> Mapping[Incarnation, float]:
        """The same of the tokens that it discarded when it adopted."""
        discarded: dict[Incarnation, float] = defaultdict(float)
        for life, _, event in self.adoptions():
            discarded[life] += event.payload.discarded_tokens
        return discarded

    def balance(self, life: Incarnation) -> Mapping[str, float]:
        """Where the raw tokens of a life went, as means over the fragments.

        `lost` is what a life without a final account took with it, as far as it is known.
        """
        fragments = max(1, self.fragments)
        committed = self._given[life] / fragments
        discarded = self._discarded[life] / fragments
        raw = self.raw_tokens.get(life, 0.0)
        rest = max(0.0, raw - committed - discarded)
        return {
            "raw_tokens": raw,
            "committed_tokens": committed,
            "discarded_tokens": discarded,
            "in_flight_tokens": rest if life in self.finals else 0.0,
            "lost_tokens": 0.0 if life in self.finals else rest,
        }


def _key(said: Membership, of: Round) -> Key:
    return said.learner, said.incarnation, said.epoch, of.round, str(of.fragment)


def _entry(
    event: Event, said: Pushed | Contributor, of: Pushed | RoundMerged, version: int = 0
) -> Entry:
    learner, incarnation, epoch, number, fragment = key = _key(said, of)
    return Entry(
        event=event,
        key=key,
        life=(learner, incarnation),
        epoch=epoch,
        round=number,
        fragment=fragment,
        c_steps=said.c_steps,
        c_tokens=said.c_tokens,
        tokens_from=said.tokens_from,
        tokens_to=said.tokens_to,
        version=version,
    )


# ---------------------------------------------------------------- sums


_ROUNDING_TOKENS = 1.0


def claimed_commits(accounts: Accounts) -> Iterator[Violation]:
    """Committed tokens by a learner's account at its adoptions, against the syncer's."""
    claimed: dict[tuple[Incarnation, str], float] = defaultdict(float)
    wrong: set[tuple[Incarnation, str]] = set()
    for life, fragment, event in accounts.adoptions():
        line, version = (life, fragment), event.payload.version
        claimed[line] += event.payload.committed_tokens
        if line in wrong or version > accounts.newest.get(fragment, 0):
            continue
        booked = accounts.committed(life, fragment, version)
        text = ""
        if event.payload.discarded_tokens < 0:
            text = "was given a higher count of committed tokens than it has trained"
        elif claimed[line] != booked:
            text = f"believes {claimed[line]:.0f} tokens committed, the syncer's books {booked:.0f}"
        if text:
            wrong.add(line)
            what = f"{life[0]}, adopting version {version} of fragment {fragment}, "
            yield Violation.at(event, Code.COMMITTED_TOKENS_MISMATCH, what + text, life[0])


def adds_up(accounts: Accounts) -> Iterator[Violation]:
    """At the end: committed + discarded + in flight = raw, and committed equals the syncer's."""
    for life, final in accounts.finals.items():
        said, raw = final.payload, final.payload.tokens
        columns = said.committed, said.discarded, said.in_flight
        for fragment, version in said.versions.items():
            amounts = [column.get(fragment, 0.0) for column in columns]
            booked = accounts.committed(life, fragment, version)
            where = f"{life[0]} ended with fragment {fragment}"
            if sum(amounts) != raw:
                sum_text = " + ".join(f"{amount:.0f}" for amount in amounts)
                text = (
                    f"{where} at {sum_text} tokens (committed, discarded, in flight), not {raw:.0f}"
                )
                yield Violation.at(final, Code.TOKEN_LOST, text, life[0])
            elif amounts[0] != booked:
                text = f"{where} at {amounts[0]:.0f} committed tokens, the syncer at {booked:.0f}"
                yield Violation.at(final, Code.COMMITTED_DIFFER, text, life[0])


def running_sum(accounts: Accounts) -> Iterator[Violation]:
    """committed_tokens of each round is the sum of what all contributors gave so far, over P.

    It may already count rounds that were decided with it and are written down right after it, at
    most one for each fragment.
    """
    rounds = accounts.history.of(RoundMerged)
    given: dict[int, float] = defaultdict(float)
    for entry in accounts.merged:
        given[entry.event.seq] += entry.c_tokens / max(1, accounts.fragments)
    sums = list(accumulate(given[event.seq] for event in rounds))
    ends: list[Event[RoundMerged] | Event[SyncerFinal]]
    ends = [*rounds, *accounts.history.of(SyncerFinal)]
    for index, event in enumerate(ends if accounts.fragments else ()):
        said = event.payload.committed_tokens
        due = sums[index : index + accounts.fragments] or sums[-1:] or [0.0]
        is_open = event.kind is Kind.ROUND_MERGED and index + len(due) == len(sums)
        if any(abs(said - amount) <= _ROUNDING_TOKENS for amount in due):
            continue
        if is_open and said > sums[-1] and ends[-1].kind is Kind.ROUND_MERGED:
            continue  # the record breaks off before the rounds that it counts
        text = (
            f"the syncer said {said:.0f} tokens committed at {event.time_s:.1f} s, all "
            f"contributors together gave {due[0]:.0f}"
        )
        yield Violation.at(event, Code.RUNNING_SUM_WRONG, text)


def per_step(accounts: Accounts) -> Iterator[Violation]:
    """A step is as many tokens for one learner as for another: all have the same kind of batch.

    What one counts differs; whose count is the wrong one is for the majority to say.
    """
    rates = list(_rates(accounts))
    usual = Counter(rate for _, rate, _ in rates).most_common(1)
    for (learner, incarnation), rate, last in rates:
        if rate != usual[0][0]:
            text = f"{learner} (incarnation {incarnation}) counted {rate:g} tokens a step, and"
            others = f"the others {usual[0][0]:g}"
            yield Violation.at(last, Code.TOKENS_PER_STEP_DIFFER, f"{text} {others}", learner)


def _rates(accounts: Accounts) -> Iterator[tuple[Incarnation, float, Event[LearnerStep]]]:
    """Tokens a step of each life, from its first to its last sample, which comes with it."""
    ends: dict[Incarnation, tuple[Event[LearnerStep], Event[LearnerStep]]] = {}
    for event in accounts.history.of(LearnerStep):
        life = event.payload.life
        ends[life] = ends.get(life, (event, event))[0], event
    for life, (first, last) in ends.items():
        steps = last.payload.step - first.payload.step
        if steps > 0:
            yield life, (last.payload.tokens - first.payload.tokens) / steps, last


def totals(accounts: Accounts) -> Mapping[str, Json]:
    """The balance of the whole run, and what each life that left no final account took with it."""
    balances = {life: accounts.balance(life) for life in accounts.raw_tokens}
    sums: dict[str, float] = defaultdict(float)
    for balance in balances.values():
        for name, amount in balance.items():
            sums[name] += amount
    lost = {
        f"{learner} (incarnation {incarnation})": round(balance["lost_tokens"])
        for (learner, incarnation), balance in balances.items()
        if (learner, incarnation) not in accounts.finals
    }
    return {
        **{name: round(amount) for name, amount in sums.items()},
        "lost_by_life_tokens": lost,
        "rejected_pushes": len(accounts.rejected),
    }
