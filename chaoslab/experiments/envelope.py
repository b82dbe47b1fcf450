"""Envelope of a plan: how far its settings can go until the simulated plan no longer passes.

    Axis ─► Search: both ends ─► bisection ─► Edge: passes at 41s, fails at 43s, why
              └── one for each setting of a second axis: the frontier

Every value is simulated on the sim fleet with the same seeds, and passes if all of them do. Between
two values where one passes, one border is looked for; a plan that passes again beyond it is not
noticed.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from chaoslab.checks.base import Outcome
from chaoslab.core.errors import AbilityError, ChaoslabError, ExitCode, PlanError
from chaoslab.core.events import Json
from chaoslab.core.workers import workers
from chaoslab.experiments.axes import Axis
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.run.experiment import run_plan
from chaoslab.run.judged_run import expected, read_and_judge


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedValue:
    """Result of a plan with one value."""

    passes: bool
    reason: str = ""
    """Reason for which it does not pass: the first finding of the first seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Border up to which a plan passes along an axis."""

    passes: float | None
    """The last value that passes; None if none does."""
    fails: float | None
    """The next value, which does not; None if all pass."""
    reason: str
    """Reason for which the next value does not pass."""


@dataclass(slots=True, kw_only=True)
class Search:
    """The search for one border; `found` grows while it goes on."""

    axis: Axis
    asked: Asked
    given: str = ""
    """Setting of a second axis."""
    found: dict[float, TriedValue] = field(default_factory=dict)

    def with_value(self, value: float) -> Asked:
        """The plan with one value."""
        settings = (*self.asked.settings, *filter(None, (self.given, self.axis.setting(value))))
        return replace(self.asked, settings=settings)

    def wanted(self) -> Sequence[float]:
        """Values to try next: both ends, then what halves the range; none at the end."""
        if ends := [end for end in (self.axis.low, self.axis.high) if end not in self.found]:
            return ends
        edge = self.edge()
        if edge.passes is None or edge.fails is None:
            return []
        middle = self.axis.middle(edge.passes, edge.fails)
        return [] if middle is None else [middle]

    def edge(self) -> Edge:
        """The border, as far as it is known; it lies between `passes` and `fails`."""
        passing = [value for value, tried in self.found.items() if tried.passes]
        failing = [value for value, tried in self.found.items() if not tried.passes]
        pairs = [(good, bad) for good in passing for bad in failing]
        good, bad = min(pairs, key=lambda pair: abs(pair[0] - pair[1]), default=(None, None))
        if good is None and bad is None:
            mild, harsh = self.axis.mild_first
            good = next((end for end in (harsh, mild) if end in passing), None)
            bad = next((end for end in (mild, harsh) if end in failing), None)
        return Edge(passes=good, fails=bad, reason="" if bad is None else self.found[bad].reason)

    def left(self) -> int:
        """Values that are still to be tried, at most."""
        axis, edge = self.axis, self.edge()
        if len(self.found) < 2:
            return 2 - len(self.found) + axis.bisections(axis.low, axis.high)
        both = edge.passes is not None and edge.fails is not None
        return axis.bisections(edge.passes, edge.fails) if both else 0  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Json]:
        """Result, with values as in a plan."""
        edge = self.edge()
        return {
            "question": self.axis.question,
            "by": self.given,
            "key": self.axis.key,
            "passes": None if edge.passes is None else self.axis.text(edge.passes),
            "fails": None if edge.fails is None else self.axis.text(edge.fails),
            "reason": edge.reason,
            "tried": len(self.found),
            "finished": not self.wanted(),
        }


def carry_out(
    searches: Sequence[Search], seeds: Sequence[int], *, jobs: int,
    on_progress: Callable[[int, int], object] = lambda _done, _all: None,
) -> None:  # fmt: skip
    """Find all borders. An interrupt leaves what is known of them in the searches.

    `on_progress` gets the number of values that were tried, and that of all, at most.
    """

    def say() -> None:
        done = sum(len(search.found) for search in searches)
        on_progress(done, done + sum(search.left() for search in searches))

    say()
    for search, value, tried in (_in_processes if jobs > 1 else _here)(searches, seeds, jobs):
        search.found[value] = tried
        say()


_Found = Iterator[tuple[Search, float, TriedValue]]


def _here(searches: Sequence[Search], seeds: Sequence[int], _jobs: int) -> _Found:
    for search in searches:
        while wanted := search.wanted():
            yield search, wanted[0], simulated(search.with_value(wanted[0]), seeds)


def _in_processes(searches: Sequence[Search], seeds: Sequence[int], jobs: int) -> _Found:
    running: dict[Future[TriedValue], tuple[Search, float]] = {}
    with workers(jobs) as pool:

        def begin(search: Search) -> None:
            if any(other is search for other, _ in running.values()):
                return
            for value in search.wanted():
                running[pool.submit(simulated, search.with_value(value), seeds)] = search, value

        for search in searches:
            begin(search)
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                search, value = running.pop(future)
                yield search, value, future.result()
                begin(search)


def simulated(asked: Asked, seeds: Sequence[int]) -> TriedValue:
    """Simulate a plan with each seed until one does not pass; what is refused does not pass.

    KeyboardInterrupt if a simulation was interrupted: that says nothing about the plan.
    """
    with TemporaryDirectory(prefix="chaoslab-envelope-") as folder:
        for seed in seeds:
            try:
                tried = _once(asked, seed, Path(folder))
            except (PlanError, AbilityError) as error:
                return TriedValue(passes=False, reason=f"refused: {error}")
            if not tried.passes:
                return tried
    return TriedValue(passes=True)


def _once(asked: Asked, seed: int, root: Path) -> TriedValue:
    prepared = prepare(replace(asked, seed=seed, fleet="sim"))
    try:
        directory = run_plan(prepared, root, judge=lambda run: run)
    except (PlanError, AbilityError):
        raise
    except ChaoslabError as error:
        return TriedValue(passes=False, reason=f"the run did not finish: {error}")
    verdict = read_and_judge(directory, expected(prepared.plan)).verdict
    if verdict.exit_code is ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if verdict.exit_code is ExitCode.PASS:
        return TriedValue(passes=True)
    worst = [one for one in verdict.findings if one.outcome is verdict.outcome]
    reasons = [f"{one.check}: {one.reason}" for one in worst] or [str(verdict.outcome)]
    kind = "" if verdict.outcome is Outcome.FAIL else f"{verdict.outcome}: "
    return TriedValue(passes=False, reason=f"{kind}{reasons[0]}")
