"""What every fleet promises. A fleet's tests subclass one of the two kits and say how to make it.

`FleetKit` holds for all fleets, the one that does nothing included; `LivingFleetKit` for those in
which something runs. A subclass provides the fixtures `stage` (fleet, entered, and clock; the run
directory is `tmp_path`) and `spec` (a node; in a living fleet it runs `node_program.py`). Where
nodes see the files of this machine, these are `staged(…)` and `learner("learner-0")`. `HarnessKit`
(`harness_kit.py`) is about what such nodes leave.
"""

import json
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from chaoslab.core.clock import Clock, WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.faults.process import Signal
from chaoslab.fleet.base import Fleet, Hosts, NodeSpec, Role
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import (
    PROTOCOLS,
    HasHosts,
    Hookable,
    Notifiable,
    Pausable,
    Preparable,
    Stressable,
    Wedgeable,
    abilities_of,
)
from chaoslab.fleet.settings import FleetFactory
from chaoslab.fleet.stressors import Neighbours, Slowness
from chaoslab.undo.base import NoUndoLog, UndoLog
from tests.contracts import node_program
from tests.waiting import PATIENCE_S, wait_until

VERBS = (
    "restart", "kill", "prepare", "unprepare", "pause", "resume", "wedge", "unwedge", "notice",
    "probe",
)  # fmt: skip
"""Of a fleet, on a node by its name alone."""


@dataclass(kw_only=True)
class Stage:
    """A fleet, its clock, and all that was seen so far."""

    fleet: Fleet
    clock: Clock
    seen: list[Observation] = field(default_factory=list)

    def poll(self, limit_s: float = 1.0) -> list[Observation]:
        """The next batch, also kept."""
        batch = list(self.fleet.poll(self.clock.now_s() + limit_s))
        self.seen += batch
        return batch

    def until(self, kind: Kind, *, node: str | None = None) -> Observation:
        """The first sighting of this kind from now on; fails after a minute."""
        begin = len(self.seen)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for observation in self.seen[begin:]:
                if observation.kind is kind and node in (None, observation.source):
                    return observation
            assert time.monotonic() < deadline, f"no {kind} in {self.kinds[begin:]}"
            self.poll()

    def until_step_of(self, incarnation: int) -> None:
        """Until a learner of this incarnation has stepped; fails after a minute without a step."""
        while self.until(Kind.LEARNER_STEP).data["incarnation"] != incarnation:
            pass

    @property
    def kinds(self) -> list[Kind]:
        """Of everything seen but an engine's own word, which comes when it comes."""
        kinds = (observation.kind for observation in self.seen)
        return [kind for kind in kinds if kind is not Kind.ENGINE_REPORTED]

    @property
    def lives(self) -> list[tuple[Kind, object]]:
        """Starts and exits that were seen, with the incarnation."""
        kinds = (Kind.NODE_STARTED, Kind.NODE_EXITED)
        return [(one.kind, one.data["incarnation"]) for one in self.seen if one.kind in kinds]


def _is_refused(verb: Callable[[], object], error: type[Exception] = FleetError) -> bool:
    try:
        verb()
    except error:
        return True
    return False


def implemented(fleet: Fleet, *verbs: str) -> list[Callable[[str], None]]:
    """Those of these verbs that the fleet has."""
    return [getattr(fleet, verb) for verb in verbs if hasattr(fleet, verb)]


def of_hosts(spec: NodeSpec, count: int) -> NodeSpec:
    """The node with test hooks and so many hosts."""
    command = (*spec.command, "--hosts", str(count), "--test-hooks")
    hosts = None if count == 1 else Hosts(count=count, flags=(), secret="SECRET")
    return replace(spec, hears=True, command=command, hosts=hosts)


@contextmanager
def staged(fleets: FleetFactory, folder: Path, undo_log: UndoLog | None = None) -> Iterator[Stage]:
    """A fleet that has not started a node; its nodes end with the block."""
    clock = WallClock()
    links, log = NodeLinks(clock=clock), undo_log or NoUndoLog()
    with fleets(folder, clock, undo_log=log, node_links=links) as fleet:
        yield Stage(fleet=fleet, clock=clock)


def learner(name: str, *flags: str) -> NodeSpec:
    """A stand-in for a learner, started from this checkout."""
    program = (sys.executable, "-S", node_program.__file__)
    command = (*program, "--name", name, "--incarnation", "{incarnation}", *flags)
    return NodeSpec(name=name, role=Role.LEARNER, command=command, labels={"region": "eu"})


def require(fleet: Fleet, protocol: type) -> None:
    """Skip the test for a fleet that leaves the protocol out, or is `lacking` what it promises."""
    promised = PROTOCOLS.get(protocol)
    lacks = promised is not None and not promised & abilities_of(fleet)
    if lacks or not isinstance(fleet, protocol):
        pytest.skip(f"this fleet is not {protocol.__name__}")


class FleetKit:
    """Rules of the interface alone."""

    def start(self, stage: Stage, spec: NodeSpec) -> None:
        """Start a node and wait until it handles signals."""
        stage.fleet.start(spec)

    def test_a_started_node_is_known_and_alive_and_started_once(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        started = stage.fleet.start(spec)
        assert stage.fleet.nodes == {spec.name: started}
        assert (started.incarnation, started.is_alive, started.role) == (1, True, spec.role)
        for again in (stage.fleet.enlist, stage.fleet.start):
            with pytest.raises(FleetError, match=spec.name):
                again(spec)
        assert stage.fleet.restart(spec.name).incarnation == 1, "a living node is left as it is"

    def test_a_verb_on_an_unknown_name_raises_key_error(self, stage: Stage) -> None:
        """One test for all: to open some fleets takes seconds."""
        fleet = stage.fleet
        verbs: dict[str, Callable[[], object]] = {
            verb: partial(getattr(fleet, verb), "nobody") for verb in VERBS if hasattr(fleet, verb)
        }
        if isinstance(fleet, Stressable):
            verbs["stress"] = partial(fleet.stress, "nobody", "injection-0", Slowness(factor=2))
            verbs["relieve"] = partial(fleet.relieve, "nobody", "injection-0")
        if isinstance(fleet, Hookable):
            verbs["tell"] = partial(fleet.tell, "nobody", "slow", factor=2)
        if isinstance(fleet, HasHosts):
            verbs["kill_host"] = partial(fleet.kill_host, "nobody", 0)
            verbs["fail_chip"] = partial(fleet.fail_chip, "nobody", 0)
        assert {name for name, verb in verbs.items() if not _is_refused(verb, KeyError)} == set()

    def test_a_dead_node_bears_nothing_and_is_relieved_of_it(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        require(stage.fleet, Stressable)
        stage.fleet.start(spec)
        stage.fleet.kill(spec.name)
        stressor = Neighbours(count=1)
        wait_until(lambda: _is_refused(lambda: stage.fleet.stress(spec.name, "i", stressor)))
        stage.fleet.relieve(spec.name, "i")

    def test_a_dead_node_is_told_nothing(self, stage: Stage, spec: NodeSpec) -> None:
        require(stage.fleet, Hookable)
        stage.fleet.start(replace(spec, hears=True))
        stage.fleet.kill(spec.name)
        wait_until(lambda: _is_refused(lambda: stage.fleet.tell(spec.name, "slow", factor=2)))

    def test_an_enlisted_node_is_known_and_treated_like_a_dead_one(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        enlisted = stage.fleet.enlist(spec)
        assert stage.fleet.nodes == {spec.name: enlisted}
        assert (enlisted.incarnation, enlisted.is_alive, enlisted.role) == (0, False, spec.role)
        assert (enlisted.name, enlisted.labels) == (spec.name, spec.labels)
        for again in (stage.fleet.enlist, stage.fleet.start):
            with pytest.raises(FleetError, match=spec.name):
                again(spec)
        for verb in implemented(stage.fleet, "prepare", "pause", "wedge", "notice"):
            with pytest.raises(FleetError, match=spec.name):
                verb(spec.name)
        for harmless in implemented(stage.fleet, "kill", "unprepare", "resume", "unwedge"):
            harmless(spec.name)
        seen = stage.fleet.probe(spec.name)
        assert (seen.data["state"], seen.data["incarnation"]) == ("gone", 0)
        begun = stage.fleet.restart(spec.name)
        assert (begun.incarnation, begun.is_alive) == (1, True), "its first life"
        assert stage.fleet.nodes == {spec.name: begun}

    def test_after_kill_restart_gives_the_next_life(self, stage: Stage, spec: NodeSpec) -> None:
        stage.fleet.start(spec)
        stage.fleet.kill(spec.name)
        again = stage.fleet.restart(spec.name)
        assert (again.incarnation, again.is_alive) == (2, True)

    def test_healing_verbs_may_be_repeated(self, stage: Stage, spec: NodeSpec) -> None:
        require(stage.fleet, Wedgeable)
        self.start(stage, spec)
        for _ in range(2):
            stage.fleet.resume(spec.name)
            stage.fleet.unwedge(spec.name)
            stage.fleet.restart(spec.name)
        assert stage.fleet.nodes[spec.name].incarnation == 1

    def test_poll_without_news_ends_when_its_time_is_up_or_past(self, stage: Stage) -> None:
        begin_s = stage.clock.now_s()
        assert not stage.fleet.poll(begin_s + 0.05)
        assert stage.clock.now_s() >= begin_s + 0.05
        assert not stage.fleet.poll(stage.clock.now_s() - 1.0)


class LivingFleetKit(FleetKit):
    """Rules for fleets in which programs run."""

    def start(self, stage: Stage, spec: NodeSpec) -> None:
        super().start(stage, spec)
        stage.until(Kind.LEARNER_STEP)

    def test_the_start_of_a_node_is_seen_first_and_then_what_it_reports(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        stage.fleet.start(spec)
        step = stage.until(Kind.LEARNER_STEP)
        assert (step.source, step.data["learner"]) == (spec.name, spec.name)
        first = next(one for one in stage.seen if one.kind is not Kind.ENGINE_REPORTED)
        assert (first.source, first.kind) == (spec.name, Kind.NODE_STARTED)
        assert (first.data["incarnation"], first.data["role"]) == (1, spec.role)

    def test_nothing_is_seen_of_an_enlisted_node_until_it_is_started(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        stage.fleet.enlist(spec)
        assert not stage.poll(0.1)
        stage.fleet.restart(spec.name)
        stage.until(Kind.LEARNER_STEP)
        stage.fleet.kill(spec.name)
        stage.fleet.restart(spec.name)
        stage.until_step_of(2)
        assert stage.lives == [
            (Kind.NODE_STARTED, 1),
            (Kind.NODE_EXITED, 1),
            (Kind.NODE_STARTED, 2),
        ]

    def test_a_verb_on_another_thread_waits_while_what_comes_is_read(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        self.start(stage, spec)
        with ThreadPoolExecutor(1) as beside:  # a node of this machine ends with its thread
            for incarnation in (2, 3):
                beside.submit(stage.fleet.kill, spec.name).result()
                restarted = beside.submit(stage.fleet.restart, spec.name)
                stage.until_step_of(incarnation)
                assert restarted.result().incarnation == incarnation
        assert stage.lives == [
            (kind, life)
            for life in (1, 2, 3)
            for kind in (Kind.NODE_STARTED, Kind.NODE_EXITED)
        ][:-1]  # fmt: skip

    def test_leaving_the_fleet_passes_over_who_never_ran(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        stage.fleet.enlist(spec)
        stage.fleet.__exit__(None, None, None)
        assert stage.kinds == []
        assert not stage.fleet.nodes[spec.name].is_alive

    def test_a_node_hears_what_it_is_told(self, stage: Stage, spec: NodeSpec) -> None:
        require(stage.fleet, Hookable)
        spec = replace(spec, hears=True, command=(*spec.command, "--echo"))
        stage.fleet.start(spec)
        stage.until(Kind.LEARNER_STEP)
        stage.fleet.tell(spec.name, "slow", factor=2)
        heard = stage.until(Kind.LEARNER_FENCED)
        assert json.loads(str(heard.data["reason"])) == {"do": "slow", "factor": 2}

    def test_a_node_that_was_given_no_ear_is_told_nothing(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        require(stage.fleet, Hookable)
        stage.fleet.start(spec)
        with pytest.raises(FleetError, match=spec.name):
            stage.fleet.tell(spec.name, "slow", factor=2)

    def test_each_life_finds_its_private_files_which_the_record_does_not_have(
        self, stage: Stage, spec: NodeSpec, tmp_path: Path
    ) -> None:
        key = secrets.token_hex(16)
        spec = replace(
            spec,
            private_files={"key.pem": key.encode(), "other": b"\xff"},
            command=(*spec.command, "--private", "{private}"),
        )
        stage.fleet.start(spec)
        for _ in range(2):
            found = json.loads(str(stage.until(Kind.LEARNER_FENCED).data["reason"]))
            assert found == {
                "is_own": True,
                "modes": ["0o700", "0o600", "0o600"],
                "contents": {"key.pem": key[::-1], "other": "\xff"},
            }
            stage.fleet.kill(spec.name)
            stage.fleet.restart(spec.name)
        stage.fleet.__exit__(None, None, None)  # the record of nodes elsewhere comes home
        record = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert record
        assert not any(key.encode() in content for content in record)
        assert key not in repr(spec)

    @pytest.mark.parametrize("hosts", [1, 2])
    def test_a_node_ends_with_the_last_of_its_hosts(
        self, stage: Stage, spec: NodeSpec, hosts: int
    ) -> None:
        require(stage.fleet, HasHosts)
        spec = of_hosts(spec, hosts)
        self.start(stage, spec)
        for host in (hosts, -hosts - 1):
            with pytest.raises(FleetError, match=f"host {host}"):
                stage.fleet.kill_host(spec.name, host)
        stage.fleet.kill_host(spec.name, -1)
        exited = stage.until(Kind.NODE_EXITED)
        assert (exited.data["signal"], exited.payload.sent) == ("SIGKILL", ("SIGKILL",))
        if hosts > 1:
            (lost,) = [one for one in stage.seen if one.kind is Kind.HOST_LOST]
            assert lost.data["host"] == 1
        with pytest.raises(FleetError, match=spec.name):
            stage.fleet.kill_host(spec.name, 0)

    @pytest.mark.parametrize("hosts", [1, 2])
    def test_a_node_whose_chip_fails_exits_by_that_signal(
        self, stage: Stage, spec: NodeSpec, hosts: int
    ) -> None:
        require(stage.fleet, HasHosts)
        spec = of_hosts(spec, hosts)
        self.start(stage, spec)
        stage.fleet.fail_chip(spec.name, -1)
        exited = stage.until(Kind.NODE_EXITED)
        assert (exited.data["signal"], exited.payload.sent) == ("SIGABRT", ("SIGABRT",))
        assert stage.fleet.restart(spec.name).incarnation == 2

    def test_a_killed_node_is_seen_to_exit_by_that_signal_and_refuses_what_needs_life(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        stage.fleet.start(spec)
        stage.fleet.kill(spec.name)
        exited = stage.until(Kind.NODE_EXITED)
        assert (exited.data["signal"], exited.data["exit_code"]) == ("SIGKILL", None)
        assert exited.payload.sent == ("SIGKILL",)
        assert not stage.fleet.nodes[spec.name].is_alive
        assert stage.fleet.probe(spec.name).data["state"] == "gone"
        for verb in implemented(stage.fleet, "prepare", "pause", "wedge", "notice"):
            with pytest.raises(FleetError, match=spec.name):
                verb(spec.name)
        for harmless in implemented(stage.fleet, "kill", "unprepare", "resume", "unwedge"):
            harmless(spec.name)

    def test_a_node_that_ends_by_itself_is_seen_to(self, stage: Stage, spec: NodeSpec) -> None:
        stage.fleet.start(spec)
        stage.until(Kind.LEARNER_STEP)
        stage.fleet.signal(spec.name, signal=Signal.SIGTERM)
        exited = stage.until(Kind.NODE_EXITED)
        assert (exited.data["signal"], exited.data["exit_code"]) == (None, 0)
        sent = exited.payload.sent
        assert [(type(name), name) for name in sent] == [(str, "SIGTERM")], "plain text, no enum"
        assert stage.kinds[-2:] == [Kind.LEARNER_LEFT, Kind.NODE_EXITED]

    def test_a_paused_node_is_stopped_until_it_is_resumed(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        require(stage.fleet, Pausable)
        stage.fleet.start(spec)
        stage.until(Kind.LEARNER_STEP)
        for _ in range(2):
            stage.fleet.pause(spec.name)
            assert stage.fleet.probe(spec.name).data["state"] == "T"
        stage.fleet.resume(spec.name)
        wait_until(lambda: stage.fleet.probe(spec.name).data["state"] != "T")

    def test_what_is_prepared_changes_nothing_until_it_is_done(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        require(stage.fleet, Preparable)
        stage.fleet.start(spec)
        stage.until(Kind.LEARNER_STEP)
        stage.fleet.prepare(spec.name, to_pause=True)
        stage.until(Kind.LEARNER_STEP)
        stage.fleet.pause(spec.name)
        assert stage.fleet.probe(spec.name).data["state"] == "T"
        stage.fleet.resume(spec.name)
        stage.fleet.prepare(spec.name)
        stage.fleet.unprepare(spec.name)
        stage.until(Kind.LEARNER_STEP)
        stage.fleet.prepare(spec.name)
        stage.fleet.kill(spec.name)
        assert stage.until(Kind.NODE_EXITED).payload.sent == ("SIGKILL",)

    def test_a_wedged_node_lives_and_does_not_step(self, stage: Stage, spec: NodeSpec) -> None:
        require(stage.fleet, Wedgeable)
        stage.fleet.start(spec)
        stage.until(Kind.LEARNER_STEP)
        stage.fleet.wedge(spec.name)
        wait_until(lambda: not stage.poll(0.5))
        assert stage.fleet.probe(spec.name).data["state"] in ("R", "S", "D")
        stage.fleet.unwedge(spec.name)
        stage.until(Kind.LEARNER_STEP)

    def test_a_noticed_node_says_so(self, stage: Stage, spec: NodeSpec) -> None:
        require(stage.fleet, Notifiable)
        stage.fleet.start(spec)
        stage.until(Kind.LEARNER_STEP)
        stage.fleet.notice(spec.name)
        assert stage.until(Kind.LEARNER_NOTICED).source == spec.name

    def test_leaving_the_fleet_ends_every_node_also_a_paused_one(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        stage.fleet.start(spec)
        if isinstance(stage.fleet, Pausable):
            stage.fleet.pause(spec.name)
        stage.fleet.__exit__(None, None, None)
        assert stage.fleet.probe(spec.name).data["state"] == "gone"
        assert not stage.fleet.nodes[spec.name].is_alive
