"""The two accounts of the same work: what learners say they gave, and what the syncer says it took.

    learner                                      syncer
    raw tokens ── pushed ─────────────────────►  accepted ──► merged into version v
        committed + discarded  ◄── adopted v ──  (or rejected, or its round abandoned)
        + in flight + lost

Everything is counted per life: (learner, incarnation). Tokens of a fragment are the raw tokens of
the steps it was trained on; an amount over all P fragments is their mean. Reads only.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from chaoslab.core.events import Event
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
from chaoslab.record.journal import History

Incarnation: TypeAlias = tuple[str, int]
"""(learner, incarnation)"""
Key: TypeAlias = tuple[str, int, int, int, str]
"""(learner, incarnation, epoch, round, fragment)"""


class Entry(NamedTuple):
    """One contribution, as one side wrote it down."""

    event: Event
    """The push, or the round that it was merged in."""
    key: Key
    """What makes it the same contribution on both sides."""
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
        """What both sides must have written down alike."""
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
        """What each life is known to have trained on; a dead one's last steps are not known."""
        known: dict[Incarnation, float] = defaultdict(float)
        for event in self.history.of(LearnerStep, LearnerFinal):
            life = event.payload.life
            known[life] = max(known[life], event.payload.tokens)
        for entry in self.pushed:
            known[entry.life] = max(known[entry.life], entry.tokens_to)
        return known

    @cached_property
    def _committed(self) -> Mapping[tuple[Incarnation, str], tuple[list[int], list[float]]]:
        """Of each line: its versions in order, and the tokens committed up to each of them."""
        lines = {place: sorted(line, key=_version) for place, line in self.by_line.items()}
        return {
            place: ([e.version for e in line], list(accumulate(e.c_tokens for e in line)))
            for place, line in lines.items()
        }

    def committed(self, life: Incarnation, fragment: str, version: float) -> float:
        """By the syncer's account: tokens of the life in `version` of the fragment."""
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


def _version(entry: Entry) -> int:
    return entry.version


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
