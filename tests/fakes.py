"""A training run without processes: a fleet on a virtual clock.

    VirtualClock ◄── poll advances it ── FakeFleet: syncer and learners as a heap of timed actions

The fake prints what real nodes print, with every key that `events.Kind` promises. It obeys the
same flags (`chaoslab.prepare.launch`), so a stop rule in a plan ends it. `Troubles` says what
goes wrong.
"""

import heapq
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from types import TracebackType
from typing import Self

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Kind, Observation
from chaoslab.fleet.base import Ability, Damage, Node, NodeSite, NodeSpec, Role, probed
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import SliceAct
from chaoslab.links.base import Link
from tests.fake_nodes import STEP_S, STEPS_PER_SAMPLE, TOKENS_PER_ROUND, FakeNode, Troubles
from tests.payload_reading import observed
from tests.virtual_clock import VirtualClock


class FakeFleet:
    """Implements `fleet.base.Fleet` for one syncer, its learners and an evaluator."""

    kind = "fake"
    verb_s = 0.0
    abilities = frozenset(Ability)
    node_site = NodeSite()

    def __init__(
        self,
        clock: VirtualClock,
        troubles: Troubles | None = None,
        node_links: NodeLinks | None = None,
    ) -> None:
        self.clock = clock
        self.node_links = node_links or NodeLinks(clock=clock)
        self.troubles = troubles or Troubles()
        self.calls: list[tuple[float, str, str]] = []
        """Every verb: when, which, on whom."""
        self._fakes: dict[str, FakeNode] = {}
        self._observed: list[Observation] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._epochs = count(1)
        self._rounds = 0
        self._committed = 0
        self._settings: Mapping[str, Json] = {}
        self._is_stop_rule_met = False
        self._is_over = False

    # ---------------------------------------------------------------- the script

    def at(self, time_s: float, action: Callable[[], None]) -> None:
        """Let something happen at a time: `fleet.at(9.0, lambda: fleet.strike("learner-1"))`."""
        heapq.heappush(self._heap, (time_s, next(self._order), action))

    def strike(self, name: str, *, signal: str = "SIGKILL") -> None:
        """A third party kills the node."""
        self._end(name, signal=signal)

    # ---------------------------------------------------------------- the interface

    def __enter__(self) -> Self:
        self.node_links.made_by.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.calls.append((self.clock.now_s(), "leave", ""))
        for fake in self._fakes.values():
            fake.alive = False
        self.node_links.made_by.__exit__(kind, error, trace)

    @property
    def nodes(self) -> Mapping[str, Node]:
        return {
            name: Node(
                name=name,
                role=fake.spec.role,
                labels=fake.spec.labels,
                incarnation=fake.incarnation,
                is_alive=fake.alive,
                is_ending=fake.alive and fake.is_ending,
            )
            for name, fake in self._fakes.items()
        }

    def spec_of(self, name: str) -> NodeSpec:
        """How a node was started."""
        return self._fakes[name].spec

    @property
    def alive(self) -> list[str]:
        """Names of the nodes that live now."""
        return [name for name, fake in self._fakes.items() if fake.alive]

    def start(self, spec: NodeSpec) -> Node:
        self._do("start", spec.name)
        return self._begin(spec, incarnation=1)

    def enlist(self, spec: NodeSpec) -> Node:
        self._do("enlist", spec.name)
        self._fakes[spec.name] = FakeNode(spec=spec, incarnation=0, alive=False)
        return self.nodes[spec.name]

    def restart(self, name: str) -> Node:
        self._do("restart", name)
        if self._fakes[name].alive:
            return self.nodes[name]
        return self._begin(self._fakes[name].spec, incarnation=self._fakes[name].incarnation + 1)

    def kill(self, *names: str) -> None:
        self.signal(*names, signal="SIGKILL")

    def signal(self, *names: str, signal: str) -> None:
        for name in names:
            self._do(signal, name)
            fake = self._fakes[name]
            if self._is_stop_rule_met and signal == "SIGTERM" and fake.spec.role is Role.SYNCER:
                self._finish(fake)
            elif name not in self.troubles.immortal:
                self._end(name, signal=str(signal), sent=[str(signal)])

    def prepare(self, *names: str, to_pause: bool = False) -> None:
        for name in names:
            self._do("prepare", name)

    def unprepare(self, *names: str) -> None:
        for name in names:
            self._do("unprepare", name)

    def pause(self, *names: str) -> None:
        for name in names:
            self._do("pause", name)
            self._hold(name)

    def resume(self, name: str) -> None:
        self._do("resume", name)
        self._release(name)

    def wedge(self, name: str) -> None:
        self._do("wedge", name)
        self._hold(name)

    def unwedge(self, name: str) -> None:
        self._do("unwedge", name)
        self._release(name)

    def notice(self, name: str) -> None:
        self._do("notice", name)
        fake = self._fakes[name]
        self._say(name, Kind.LEARNER_NOTICED, {**fake.who, "step": fake.step})

    def tell(self, name: str, do: str, **facts: Json) -> None:
        self._do(f"tell {do} {json.dumps(facts)}", name)
        if do == "pace" and name not in self.troubles.unpaced:
            self._fakes[name].period_s = float(str(facts["step_s"]))

    def disconnect(self, name: str) -> None:
        self._do("disconnect", name)

    def reconnect(self, name: str) -> None:
        self._do("reconnect", name)

    def upgrade(self, name: str, release: str) -> None:
        self._do("upgrade", name)

    def act_on_slices(self, act: SliceAct, *names: str) -> None:
        for name in names:
            self._do(f"{act} slice", name)
            self._end(name, signal="SIGKILL")

    def delete_pod(self, *names: str) -> None:
        for name in names:
            self._do("delete_pod", name)
            self._end(name, signal="SIGKILL")

    evict_pod = delete_pod

    def repair_slice(self, name: str, *, is_preempted: bool = False) -> None:
        self._do("repair_slice", name)
        self.restart(name)

    def take_down(self, *names: str) -> None:
        self.kill(*names)

    def damage(self, name: str, how: Damage, *, every: bool = False) -> None:
        self._do(f"{how}{' every' if every else ''}", name)

    def fill_disk(self, name: str) -> None:
        self._do("fill_disk", name)

    def free_disk(self, name: str) -> None:
        self._do("free_disk", name)

    def cut_power(self, name: str) -> None:
        self._do("cut_power", name)

    def link(self, name: str, upstream: str) -> Link:
        return self.node_links.create(name, upstream)

    @property
    def links(self) -> Mapping[str, Link]:
        return self.node_links.links

    def probe(self, name: str) -> Observation:
        self.node_links.count(name)
        fake = self._fakes[name]
        pid = fake.pid
        if not fake.alive:
            return probed(name, incarnation=fake.incarnation, pid=pid)
        state = "T" if fake.held else "R"
        return probed(name, incarnation=fake.incarnation, pid=pid, state=state, rss_bytes=1 << 28)

    def poll(self, until_s: float) -> Sequence[Observation]:
        self._observed += self.node_links.observed()
        while not self._observed and self._heap and self._heap[0][0] <= until_s:
            time_s, _, action = heapq.heappop(self._heap)
            self._advance(time_s)
            action()
        if not self._observed:
            self._advance(until_s)
        observed, self._observed = self._observed, []
        return observed

    # ---------------------------------------------------------------- nodes

    def _begin(self, spec: NodeSpec, *, incarnation: int) -> Node:
        fake = FakeNode(spec=spec, incarnation=incarnation)
        self._fakes[spec.name] = fake
        if incarnation > 1 and (late_s := self.troubles.starts_late_s):
            self._later(late_s, lambda: self._run(fake))
        else:
            self._run(fake)
        return self.nodes[spec.name]

    def _run(self, fake: FakeNode) -> None:
        spec = fake.spec
        self._say(spec.name, Kind.NODE_STARTED, fake.started(self.clock.now_s()))
        begins = {
            Role.SYNCER: self._begin_syncer,
            Role.LEARNER: self._begin_learner,
            Role.EVALUATOR: self._begin_evaluator,
        }
        if spec.name in self.troubles.crash_at_start:
            self._later(0.2, lambda: self._end(spec.name, code=1, life=fake))
        else:
            begins[spec.role](fake)

    def _end(
        self, name: str, *, signal: str | None = None, code: int | None = None,
        life: FakeNode | None = None, sent: Sequence[str] = (),
    ) -> None:  # fmt: skip
        fake = self._fakes[name]
        if not fake.alive or (life is not None and life is not fake):
            return
        fake.alive = False
        self._say(name, Kind.NODE_EXITED, fake.exited(signal=signal, code=code, sent=sent))
        if fake.member and not self._is_over:
            self._later(0.05, lambda: self._drop(fake, "closed"))

    def _hold(self, name: str) -> None:
        fake = self._fakes[name]
        if not fake.alive:
            raise FleetError(f"{name} is not running")
        fake.held = True
        drop_after_s = float(str(self._settings["drop_after_s"]))
        self._later(drop_after_s, partial(self._give_up, fake))

    def _give_up(self, fake: FakeNode) -> None:
        if fake.held:
            self._drop(fake, "no_progress")

    def _release(self, name: str) -> None:
        fake = self._fakes[name]
        if fake.alive and fake.held:
            fake.held = False
            if not fake.member:
                self._later(0.2, lambda: self._join(fake, "resumed"))

    # ---------------------------------------------------------------- the syncer's part

    def _begin_syncer(self, fake: FakeNode) -> None:
        command = fake.spec.command
        self._settings = json.loads(command[command.index("--settings-json") + 1])

        def ready() -> None:
            data: dict[str, Json] = {
                "address": "127.0.0.1:5005",
                "rounds": self._rounds,
                "committed_tokens": self._committed,
                "is_recovered": fake.incarnation > 1,
            }
            self._say("syncer", Kind.SYNCER_READY, data)
            self._later(self.troubles.round_s(0), lambda: self._round(fake))

        self._later(0.1, ready)

    def _round(self, syncer: FakeNode) -> None:
        if not syncer.alive or self._is_over:
            return
        working = [fake for fake in self._fakes.values() if fake.member and fake.works]
        if working:
            self._merge(working)
        is_enough = self._rounds >= int(str(self._settings["stop_rounds"] or 10**9))
        if is_enough and "--keep-training" not in syncer.spec.command:
            self._finish(syncer)
            return
        if is_enough and not self._is_stop_rule_met:
            self._is_stop_rule_met = True
            self._say("syncer", Kind.SYNCER_STOP_RULE_MET, {"reason": f"{self._rounds} rounds"})
        self._later(self.troubles.round_s(self._rounds), lambda: self._round(syncer))

    def _merge(self, working: list[FakeNode]) -> None:
        self._rounds += 1
        self._committed += TOKENS_PER_ROUND * len(working)
        fragments = int(str(self._settings["fragments"]))
        version = (self._rounds - 1) // fragments + 1
        members = [fake.spec.name for fake in self._fakes.values() if fake.member]
        data: dict[str, Json] = {
            "round": self._rounds,
            "fragment": (self._rounds - 1) % fragments,
            "version": version,
            "base_version": version - 1,
            "contributors": [fake.contribution() for fake in working],
            "committed_tokens": self._committed,
            "digest": f"{self._rounds:016x}",
            "momentum_digest": f"{self._rounds:016x}",
            "members": len(members),
            "missed": sorted(set(members) - {fake.spec.name for fake in working}),
            "quorum_s": 0.01,
            "grace_s": 0.02,
            "sync_s": 0.01,
        }
        self._say("syncer", Kind.ROUND_MERGED, data)

    def _finish(self, syncer: FakeNode) -> None:
        """The stop rule is met: learners give their accounts and leave, then the syncer."""
        self._is_stop_rule_met, self._is_over = False, True
        self._say("syncer", Kind.SYNCER_STOPPED, {"reason": f"{self._rounds} rounds"})
        for name, fake in self._fakes.items():
            if fake.spec.role is Role.LEARNER and fake.member and fake.works:
                self._later(0.1, partial(self._leave, name, fake))

        def final() -> None:
            if not syncer.alive:
                return
            data: dict[str, Json] = {
                "rounds": self._rounds, "versions": {}, "digests": {}, "momentum_digests": {},
                "stored_digests": {}, "stored_momentum_digests": {},
                "committed_tokens": self._committed, "rejected": {},
                "reason": f"{self._rounds} rounds", "was_asked": False,
            }  # fmt: skip
            self._say("syncer", Kind.SYNCER_FINAL, data)
            if "syncer" not in self.troubles.lingering:
                self._end("syncer", code=0)

        self._later(0.3, final)

    def _drop(self, fake: FakeNode, reason: str) -> None:
        if not fake.member or self._is_over:
            return
        fake.member = False
        members = sum(other.member for other in self._fakes.values())
        data = {**fake.who, "epoch": fake.epoch, "members": members, "reason": reason}
        self._say("syncer", Kind.MEMBER_LEFT, data)

    # ---------------------------------------------------------------- the learners' part

    def _begin_learner(self, fake: FakeNode) -> None:
        name, command = fake.spec.name, fake.spec.command
        if "--step-time" in command:
            fake.period_s = float(command[command.index("--step-time") + 1])
        stays_out = fake.incarnation > 1 and name in self.troubles.not_back
        if name in self.troubles.mute or stays_out:
            return
        source = "initial" if fake.incarnation == 1 else "donor"
        self._later(0.3, lambda: self._join(fake, source))
        self._later(0.3 + STEP_S * STEPS_PER_SAMPLE, lambda: self._step(fake))

    def _join(self, fake: FakeNode, source: str) -> None:
        if not fake.alive or fake.held or self._is_over:
            return
        fake.member, fake.epoch = True, next(self._epochs)
        members = sum(other.member for other in self._fakes.values())
        self._say(
            "syncer",
            Kind.MEMBER_JOINED,
            {
                **fake.who, "epoch": fake.epoch, "source": source, "donor": None,
                "members": members,
            },
        )  # fmt: skip

    def _step(self, fake: FakeNode) -> None:
        if not fake.alive or self._is_over:
            return
        if not fake.held:
            fake.step += STEPS_PER_SAMPLE
            trained = max(other.step for other in self._fakes.values())
            said = fake.sample(self.troubles.crowded_below_s, trained)
            self._say(fake.spec.name, Kind.LEARNER_STEP, said)
        self._later(STEP_S * STEPS_PER_SAMPLE, lambda: self._step(fake))

    def _leave(self, name: str, fake: FakeNode) -> None:
        if not fake.works:
            return
        self._say(name, Kind.LEARNER_FINAL, fake.account())
        self._say(name, Kind.LEARNER_LEFT, {**fake.who, "step": fake.step, "reason": "stopped"})
        if name not in self.troubles.lingering:
            self._end(name, code=0)

    def _begin_evaluator(self, fake: FakeNode) -> None:
        def measure(share: int) -> None:
            tokens = self._committed * share // 3
            data = {"committed_tokens": tokens, "round": self._rounds * share // 3, "loss": 2.0}
            self._say(fake.spec.name, Kind.EVALUATION_MEASURED, data)

        for share in (1, 2, 3):
            self._later(0.2 * share, partial(measure, share))
        code = self.troubles.evaluator_exit
        self._later(0.8, lambda: self._end(fake.spec.name, code=code, life=fake))

    # ---------------------------------------------------------------- helpers

    def _do(self, verb: str, name: str) -> None:
        self.calls.append((self.clock.now_s(), verb, name))
        if (verb, name) in self.troubles.refuses:
            raise FleetError(f"{verb} {name}: refused by the world")

    def _say(self, name: str, kind: Kind, data: Mapping[str, Json]) -> None:
        self._observed.append(observed(kind, data, source=name, node_s=self.clock.now_s()))

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        self.at(self.clock.now_s() + delay_s, action)

    def _advance(self, time_s: float) -> None:
        self.clock.advance_to(max(time_s, self.clock.now_s()))
