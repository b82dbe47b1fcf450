"""A whole run with its record and its twin, on a fake fleet; once with a real janitor."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from chaoslab.checks.twin import why_not_comparable
from chaoslab.checks.verdict import judge
from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError, ExitCode, FleetError
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import Action
from chaoslab.core.secrets import Secrets
from chaoslab.fleet.base import Ability
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.plan.model import (
    Baseline,
    FaultPlan,
    FaultSpec,
    GameDay,
    Injection,
    Limits,
    Outage,
    Stop,
    Target,
    Training,
    Trigger,
)
from chaoslab.plan.schedule import Schedule
from chaoslab.prepare.plans import Prepared
from chaoslab.prepare.setup import FleetSetup, LinkSetup, PlanText
from chaoslab.record.history import History
from chaoslab.record.journal import Observer
from chaoslab.record.run_directory import RunDirectory, list_runs
from chaoslab.run import experiment
from chaoslab.run.experiment import run_plan, was_interrupted
from chaoslab.run.judged_run import run_and_judge
from chaoslab.run.operators import Ask, Inbox
from chaoslab.run.records import history_of
from chaoslab.run.twin import reach_tokens
from chaoslab.undo.base import UndoLog
from chaoslab.undo.heartbeat import Heartbeat
from chaoslab.undo.log import append
from tests.fake_faults import FakeKill
from tests.fake_nodes import Troubles
from tests.fakes import FakeFleet
from tests.stage import FakeFleets, no_janitor
from tests.virtual_clock import VirtualClock

PLAN = FaultPlan(
    name="fake",
    seed=3,
    training=Training(stop=Stop(rounds=50)),
    baseline=Baseline(warmup=2, window=8),
)
ONE_DIES = Injection(
    number=0,
    spec="one-dies",
    fault="process.kill",
    settings=FakeKill(),
    targets=("learner-1",),
    trigger=Trigger(round=15),
    for_s=3.0,
)
SCHEDULE = Schedule(seed=3, injections=(ONE_DIES,))
SECRETS = Secrets({"TOKEN": "hunter2-and-6"})
TEXT = PlanText(source="name: fake\n", resolved="name: fake\nseed: 3\n", secrets=SECRETS)


@pytest.fixture(autouse=True)
def _no_janitor(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if not request.node.get_closest_marker("deep"):
        monkeypatch.setattr(experiment, "start_janitor", no_janitor)


TWINNED = replace(PLAN, twin=True)


def conducted(
    root: Path,
    plan: FaultPlan = PLAN,
    *,
    fleets: FakeFleets | None = None,
    schedule: Schedule = SCHEDULE,
    observers: Sequence[Observer] = (),
    inbox: Inbox | None = None,
) -> RunDirectory:
    prepared = ready(plan, fleets or FakeFleets(), schedule)
    return run_plan(prepared, root, observers, judge=lambda run: run, inbox=inbox)


def ready(plan: FaultPlan, fleets: FakeFleets, schedule: Schedule = SCHEDULE) -> Prepared:
    return Prepared(
        plan=plan,
        roster=(),
        schedule=schedule,
        text=TEXT,
        fleet_setup=FleetSetup(fleet=fleets, clock=VirtualClock),
        links=LinkSetup(),
    )


@dataclass
class Watched:
    """A run with its twin, and what was seen of it."""

    run: RunDirectory
    history: History
    fleets: FakeFleets
    seen: list[int]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    class Counter:
        def see(self, event: Event) -> None:
            seen.append(event.seq)

    seen: list[int] = []
    fleets = FakeFleets()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "start_janitor", no_janitor)
        root = tmp_path_factory.mktemp("runs")
        run = conducted(root, TWINNED, fleets=fleets, observers=[Counter()])
    assert RunDirectory.open("latest", root=root) == run
    return Watched(run, History.read(run.path), fleets, seen)


def test_everything_of_a_run_is_in_its_directory(watched: Watched) -> None:
    run, facts = watched.run, watched.run.facts
    files = {path.name for path in run.path.iterdir() if path.is_file()}
    assert files == {
        "run.json", "plan.source.yaml", "plan.resolved.yaml", "schedule.jsonl", "journal.jsonl",
        "undo_log.jsonl",
    }  # fmt: skip
    assert len((run.path / "schedule.jsonl").read_text().splitlines()) == 2
    assert (facts["outcome"], facts["reason"], facts["exit_code"]) == ("completed", "", None)
    assert (facts["plan"], facts["seed"], facts["fleet"]) == ("fake", 3, "fake")
    assert not was_interrupted(run)
    assert set(facts) >= {
        "versions", "git", "host", "abilities", "plan_hash", "schedule_hash", "started", "ended",
        "training_continued", "learners_rejoined",
    }  # fmt: skip
    assert facts["journal"] == watched.history.seal.to_json()


def test_a_twin_runs_after_the_run_without_its_faults(watched: Watched) -> None:
    history, twin = watched.history, watched.history.twin
    assert len(watched.fleets.made) == 2
    assert (len(history.faults), len(twin.faults)) == (1, 0)
    assert len(twin.of(Kind.EVALUATION_MEASURED)) == 3
    told = {"outcome": "completed", "reason": "", "was_kept": False}
    assert watched.run.facts["twin"] == told
    assert RunDirectory(path=watched.run.twin).facts["journal"] == twin.seal.to_json()
    begun, twins = history.events[0].payload, twin.events[0].payload
    assert begun.provenance == twins.provenance != {}
    assert (begun.is_twin, twins.is_twin) == (False, True)
    assert not why_not_comparable(history, twin)
    assert watched.seen == [event.seq for event in (*history.events, *twin.events)]


def test_a_janitor_stands_behind_what_is_made_of_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = []

    @contextmanager
    def janitor(run_directory: Path) -> Iterator[Heartbeat]:
        running.append(run_directory)
        yield Heartbeat()
        running.remove(run_directory)

    monkeypatch.setattr(experiment, "start_janitor", janitor)
    assert run_plan(ready(PLAN, FakeFleets()), tmp_path, judge=lambda run: running == [run.path])
    assert not running


def test_a_run_that_breaks_is_judged_by_its_record_so_far(tmp_path: Path) -> None:
    broken = FakeFleets(Troubles(crash_at_start=frozenset({"learner-1"})))
    judged = run_and_judge(ready(PLAN, broken), tmp_path)
    assert isinstance(judged.error, FleetError)
    assert judged.verdict.exit_code is ExitCode.BROKEN
    assert judged.directory.facts["exit_code"] == ExitCode.BROKEN


def test_a_record_that_cannot_be_judged_is_an_error_and_no_verdict(tmp_path: Path) -> None:
    class Meddler:
        def see(self, event: Event) -> None:
            if event.kind is Kind.RUN_FINISHED:
                next(tmp_path.glob("*/2*/plan.resolved.yaml")).write_text("name: another\n")

    with pytest.raises(FleetError):
        run_and_judge(ready(PLAN, FakeFleets()), tmp_path, [Meddler()])
    (run,) = list_runs(tmp_path)
    assert run.facts["exit_code"] is None


def test_secrets_of_the_plan_never_reach_the_journal(tmp_path: Path) -> None:
    run = conducted(tmp_path, replace(PLAN, name="with-hunter2-and-6-in-it"))
    assert "hunter2" not in (run.path / "journal.jsonl").read_text()
    assert History.read(run.path).events[0].payload.plan == "with-${env:TOKEN}-in-it"


def test_an_error_that_quotes_a_secret_is_recorded_without_it(tmp_path: Path) -> None:
    def prepare(fleet: FakeFleet) -> None:
        log = next(tmp_path.glob("*/2*")) / "nodes" / "learner-0" / "1" / "stderr.log"

        def complain() -> None:
            log.parent.mkdir(parents=True)
            log.write_text("cannot log in with hunter2-and-6\nat all\n")
            raise FleetError("cannot log in with 'hunter2-and-6'")

        fleet.at(5.0, complain)

    fleets = FakeFleets()
    fleets.prepare = prepare
    with pytest.raises(FleetError):
        conducted(tmp_path, fleets=fleets)
    run = RunDirectory.open("latest", root=tmp_path)
    assert run.facts["reason"] == "cannot log in with '${env:TOKEN}'"
    finished = History.read(run.path).last(Kind.RUN_FINISHED)
    assert finished.payload.reason == run.facts["reason"]
    (log,) = run.nodes.glob("*/*/stderr.log")
    assert log.read_text() == "cannot log in with ${env:TOKEN}\nat all\n"
    shown = [path for path in run.path.rglob("*") if path.is_file()]
    assert not [path for path in shown if b"hunter2" in path.read_bytes()]


# ---------------------------------------------------------------- the end of a record


class LeavesBehind(FakeFleets):
    """Forgets to close one undo, which nobody can do."""

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> FakeFleet:
        undo_log.open("undo_nothing_known")
        return super().__call__(run_directory, clock, undo_log=undo_log, node_links=node_links)


def test_what_is_left_is_written_down_before_the_last_line(tmp_path: Path) -> None:
    run = conducted(tmp_path, fleets=LeavesBehind())
    *_, residue, finished = History.read(run.path).events
    assert (residue.kind, finished.kind) == (Kind.RESIDUE_FOUND, Kind.RUN_FINISHED)
    assert "undo_nothing_known" in residue.payload.what


def test_a_record_with_an_open_undo_is_residue_wherever_it_is_judged(tmp_path: Path) -> None:
    run = conducted(tmp_path)
    assert judge(history_of(run), ()).residue == ()
    append(run.path / "undo_log.jsonl", {"open": 7, "do": "remove_cgroup", "path": "/gone"})
    verdict = judge(history_of(run), ())
    assert verdict.exit_code is ExitCode.BROKEN
    (left,) = verdict.residue
    assert left["what"] == "undo 7 (remove_cgroup), which is still open"


# ---------------------------------------------------------------- the twin


def test_a_game_day_may_take_its_length_whatever_the_limit_of_the_plan(tmp_path: Path) -> None:
    spec = FaultSpec(
        id="one-dies",
        fault="process.kill",
        settings=FakeKill(),
        target=Target(names=("learner-1",)),
        at=Trigger(round=15),
        outage=Outage(seconds=3.0),
    )
    short = Limits(timeout_s=20.0)
    plan = replace(PLAN, faults=(spec,), limits=short, twin=True, gameday=GameDay(length_s=400.0))
    inbox = Inbox()

    class OperatorConsole:
        def see(self, event: Event) -> None:
            if event.kind is Kind.ROUND_MERGED and event.data["round"] == 200:
                inbox.put(Ask(by="Ann", action=Action.GO))

    fleets = FakeFleets()
    directory = conducted(tmp_path, plan, fleets=fleets, observers=[OperatorConsole()], inbox=inbox)
    history = history_of(directory)
    assert directory.facts["outcome"] == "completed"
    assert directory.facts["gameday"] is True
    assert history.end_s > 60
    assert history.faults[0].healed is not None
    assert len(fleets.made) == 1  # no twin


def test_a_twin_goes_on_for_as_long_as_the_run_that_its_faults_kept_beyond_the_stop_rule(
    tmp_path: Path,
) -> None:
    late = replace(ONE_DIES, trigger=Trigger(round=48), for_s=30.0)
    schedule = Schedule(seed=3, injections=(late,))
    history = History.read(conducted(tmp_path, TWINNED, schedule=schedule).path)
    assert history.twin is not None
    assert len(history.of(Kind.ROUND_MERGED)) > 60
    assert reach_tokens(history.twin) >= reach_tokens(history) > 0


def test_the_next_run_alike_uses_the_kept_twin(watched: Watched) -> None:
    root, fleets = watched.run.path.parent.parent, FakeFleets()
    again = conducted(root, replace(TWINNED, settle_s=5.0), fleets=fleets)
    assert len(fleets.made) == 1
    assert again.facts["twin"] == {"outcome": "completed", "reason": "", "was_kept": True}
    journals = [run.twin / "journal.jsonl" for run in (watched.run, again)]
    assert journals[0].read_bytes() == journals[1].read_bytes()
    assert {run.id for run in list_runs(root)} == {watched.run.id, again.id}


def test_a_twin_that_breaks_is_named_and_does_not_break_the_run(tmp_path: Path) -> None:
    fleets = FakeFleets()
    broken = Troubles(crash_at_start=frozenset({"learner-0"}))
    fleets.prepare = lambda _: setattr(fleets, "troubles", broken)  # for the next one
    run = conducted(tmp_path, TWINNED, fleets=fleets)

    twin = run.facts["twin"]
    assert twin["outcome"] == "broken"
    assert "learner-0" in str(twin["reason"])
    assert run.facts["outcome"] == "completed"


# ---------------------------------------------------------------- trouble


def test_a_missing_ability_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    class Gentle(FakeFleets):
        abilities = frozenset({Ability.PAUSE})

    fleets = Gentle()
    with pytest.raises(AbilityError, match=r"process\.kill"):
        conducted(tmp_path / "runs", fleets=fleets)

    assert not fleets.made
    assert not (tmp_path / "runs").exists()


def interrupted_at(time_s: float) -> Callable[[FakeFleet], None]:
    return lambda fleet: fleet.at(time_s, lambda: os.kill(os.getpid(), signal.SIGTERM))


def test_a_signal_heals_records_and_skips_the_twin(tmp_path: Path) -> None:
    fleets = FakeFleets()
    fleets.prepare = interrupted_at(10.5)
    before = signal.getsignal(signal.SIGTERM)
    run = conducted(tmp_path, TWINNED, fleets=fleets)

    assert run.facts["outcome"] == "interrupted"
    assert was_interrupted(run)
    assert History.read(run.path).faults[0].healed is not None
    assert not run.twin.exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_during_the_twin_interrupts_too(tmp_path: Path) -> None:
    fleets = FakeFleets()
    fleets.prepare = lambda fleet: interrupted_at(9.0)(fleet) if len(fleets.made) > 1 else None
    run = conducted(tmp_path, TWINNED, fleets=fleets)

    assert run.facts["outcome"] == "completed"
    assert was_interrupted(run)
    assert not (tmp_path / ".twins").exists()


@pytest.mark.deep
def test_the_janitor_watches_over_the_run_and_leaves_with_it(tmp_path: Path) -> None:
    run = conducted(tmp_path)

    assert not (run.path / "janitor.log").exists()
    lines = (run.path / "undo_log.jsonl").read_text().splitlines()
    assert json.loads(lines[-1]) == {"harness": None}
