"""What a page draws of a run, folded from its events, one by one and in order.

    Event ─► RunPicture.see ─► ViewModel, Lanes, Losses, Rounds, Tokens, StepTimes, Counts, Links
                                    └─► to_json ─► the scripts of the page draw it

The size of the result depends on the number of learners, faults and notable events, not on the
length of the run: every curve lies in buckets of a `Grid`.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from chaoslab.core import payloads
from chaoslab.core.events import Event, Json, Kind, MalformedEvent
from chaoslab.report.lanes import FaultBar
from chaoslab.report.sentences import Sentence, Tone
from chaoslab.report.view import ViewModel
from chaoslab.report.web.buckets import Grid, digits
from chaoslab.report.web.lanes import Lanes
from chaoslab.report.web.links import Links
from chaoslab.report.web.training import Counts, Losses, Rounds, StepTimes, Tokens

_FINE, _COARSE = 600, 200
"""Most buckets of curves of the whole run, and of rows of which there may be many."""
_END_MOST_S = 1e9
"""No run lasts for thirty years."""
_FAULTS_MOST, _SENTENCES_MOST = 400, 240


class RunPicture:
    """The fold over a run's events."""

    def __init__(self) -> None:
        self.view = ViewModel()
        fine, coarse = Grid(_FINE), Grid(_COARSE)
        self.lanes = Lanes(self.view, fine)
        self.losses, self.rounds, self.tokens = Losses(fine), Rounds(fine), Tokens(fine)
        self.counts, self.step_times, self.links = Counts(fine), StepTimes(coarse), Links(coarse)
        self.end_s = 0.0
        self._stopped_s: float | None = None
        """When the syncer said that training has ended."""
        self._phases: list[Json] = []
        self._baseline: Mapping[str, Json] | None = None
        self._usual_gap_s: float | None = None
        self._algorithm = self._version = ""
        self._sentences: list[Sentence] = []
        self._folds = self._table()

    def _table(self) -> Mapping[Kind, list[Callable[[Event[Any]], object]]]:
        """What each kind of event is told to, in order."""
        found: dict[Kind, list[Callable[[Event[Any]], object]]] = defaultdict(list)
        for kind in filter(ViewModel.cares_for, Kind):
            found[kind].append(self._tell)
        for kind, own in (
            (Kind.RUN_STARTED, self._run_started),
            (Kind.PHASE_ENTERED, self._phase),
            (Kind.BASELINE_MEASURED, self._measured),
            (Kind.SYNCER_STOPPED, self._stopped),
        ):
            found[kind].append(own)
        part: Any
        for part in (
            self.lanes, self.losses, self.rounds, self.tokens, self.counts, self.step_times,
            self.links,
        ):  # fmt: skip
            for kind, fold in part.FOLDS.items():
                found[kind].append(fold.__get__(part))
        return found

    def see(self, event: Event) -> None:
        """Take one event in. One that lacks what its kind promises is counted and passed over.

        So is one at a time that no run lasts, as a broken record may have.
        """
        if not abs(event.time_s) < _END_MOST_S:
            self.view.unreadable += 1
            return
        self.end_s = max(self.end_s, event.time_s)
        try:
            for fold in self._folds.get(event.kind, ()):
                fold(event)
        except MalformedEvent:
            self.view.unreadable += 1

    def _tell(self, event: Event) -> None:
        self._sentences.extend(self.view.see(event))

    def _run_started(self, event: Event[payloads.RunStarted]) -> None:
        self._algorithm, self._version = event.payload.algorithm, event.payload.version

    def _phase(self, event: Event[payloads.PhaseEntered]) -> None:
        self._phases.append([digits(event.time_s, 6), event.payload.phase])

    def _measured(self, event: Event[payloads.BaselineMeasured]) -> None:
        said = event.payload
        self._usual_gap_s = said.gap_s_median
        self._baseline = {
            "at_s": digits(event.time_s, 6),
            "is_steady": said.is_steady,
            "gap_s_median": said.gap_s_median,
            "gap_s_max": said.gap_s_max,
            "tokens_per_s": said.tokens_per_s,
            "step_ms": {who: digits(1000 * step_s) for who, step_s in said.step_s.items()},
        }

    def _stopped(self, event: Event[payloads.SyncerStopped]) -> None:
        self._stopped_s = event.time_s

    # ------------------------------------------------------------ what it has come to

    @property
    def victims(self) -> Collection[str]:
        """The nodes that a fault was aimed at so far."""
        return set(chain.from_iterable(bar.targets for bar in self.view.faults.values()))

    def to_json(self) -> Mapping[str, Json]:
        """Everything that the page draws of the run itself; numbers rounded for a drawing."""
        trained_s = self.end_s if self._stopped_s is None else self._stopped_s
        return {
            "plan": self.view.plan,
            "seed": self.view.seed,
            "fleet": self.view.fleet,
            "algorithm": self._algorithm,
            "version": self._version,
            "end_s": digits(self.end_s, 6),
            "trained_s": digits(trained_s, 6),
            "has_ended": self._stopped_s is not None,
            "phases": self._phases,
            "baseline": self._baseline,
            "victims": sorted(self.victims),
            "faults": [_fault(bar) for bar in [*self.view.faults.values()][:_FAULTS_MOST]],
            "lanes": self.lanes.to_json(),
            "marks_width_s": self.lanes.width_s,
            "losses": self.losses.to_json(self.victims),
            "rounds": self.rounds.to_json(trained_s),
            "tokens": self.tokens.to_json(self._usual_gap_s),
            "counts": self.counts.to_json(),
            "step_times": self.step_times.to_json(),
            "links": self.links.to_json(),
            "timeline": self._timeline(),
            "unreadable": self.view.unreadable,
        }

    def _timeline(self) -> Mapping[str, Json]:
        """The notable events; of very many those that are neither good nor neutral come first."""
        kept = self._sentences
        for tones in ({Tone.PLAIN}, {Tone.GOOD}):
            if len(kept) > _SENTENCES_MOST:
                kept = [one for one in kept if one.tone not in tones]
        kept = kept[:_SENTENCES_MOST]
        return {
            "said": [[digits(one.time_s, 6), one.tone.value, one.text] for one in kept],
            "left_out": len(self._sentences) - len(kept),
        }


def losses_of(events: Iterable[Event]) -> Mapping[str, Json]:
    """The losses of a run without faults, such as the twin, of which nothing else is drawn."""
    losses = Losses(Grid(_FINE))
    for event in events:
        fold = losses.FOLDS.get(event.kind)
        if fold is not None and abs(event.time_s) < _END_MOST_S:
            with suppress(MalformedEvent):  # the verdict has a finding that says so
                fold(losses, event)
    return losses.to_json(())


def _fault(bar: FaultBar) -> Mapping[str, Json]:
    return {
        "injection": bar.injection,
        "spec": bar.spec,
        "fault": bar.fault,
        "targets": list(bar.targets),
        "from_s": digits(bar.from_s, 6),
        "healing_s": None if bar.healing_s is None else digits(bar.healing_s, 6),
        "healed_s": None if bar.healed_s is None else digits(bar.healed_s, 6),
        "status": bar.status,
    }
