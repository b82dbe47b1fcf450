"""The nodes of a run: what each does, and since when, as its events show it.

    node.*, learner.*, member.*, syncer.* ─► Nodes ─► Node.state, its spans and lives

A learner is `rejoining` until the syncer has merged a contribution of that incarnation, which
`story` sees.
"""

from collections.abc import Mapping

from chaoslab.core import payloads
from chaoslab.core.events import Event, Kind
from chaoslab.core.protocol import LeaveReason
from chaoslab.report.story_parts import LEARNER, SYNCER, Fault, Node, State

_SYNCER_STATES: Mapping[Kind, State] = {
    Kind.SYNCER_READY: State.SERVING,
    Kind.SYNCER_BLOCKED: State.BLOCKED,
    Kind.SYNCER_FREED: State.SERVING,
    Kind.SYNCER_STOPPED: State.ENDED,
}


class Nodes:
    """The fold over the events of nodes."""

    def __init__(self, faults: Mapping[str, Fault]) -> None:
        """`faults`: those of the run so far."""
        self._faults = faults
        self.by_name: dict[str, Node] = {}
        self.phase = ""
        """The one that the run is in."""

    @property
    def learners(self) -> tuple[Node, ...]:
        """All of them, those in reserve too."""
        return tuple(node for node in self.by_name.values() if node.role == LEARNER)

    @property
    def compiling(self) -> int:
        """Number of learners that compile their steps, or wait for another that does."""
        return sum(one.state is State.COMPILING for one in self.learners)

    @property
    def syncer(self) -> Node | None:
        """The syncer; None before it was started."""
        return next((node for node in self.by_name.values() if node.role == SYNCER), None)

    def _node(self, name: str, role: str = LEARNER) -> Node:
        return self.by_name.setdefault(name, Node(name=name, role=role))

    def _way_back_s(self, node: Node, time_s: float) -> float:
        """Beginning of the heal that brings a learner back; now, without such a heal."""
        heals_s = [
            one.healing_s
            for one in self._faults.values()
            if node.name in one.targets and one.healing_s is not None
        ]
        return max((s for s in heals_s if s >= node.gone_s), default=time_s)

    # ---------------------------------------------------------------- what events say of them

    def enlist(self, event: Event[payloads.RunStarted]) -> None:
        """The learners that the plan has."""
        for name in event.payload.learners:
            self._node(name).enter(State.WAITING, event.time_s)
        for name in event.payload.reserve:
            self._node(name).is_new = True
            self._node(name).enter(State.RESERVE, event.time_s)

    def started(self, event: Event[payloads.NodeStarted]) -> None:
        """A life begins."""
        said = event.payload
        node = self._node(said.node, said.role)
        node.begin_life(event)
        if node.is_new:
            node.back_s = event.time_s
            node.enter(State.JOINING, event.time_s)
            return
        is_first = node.incarnation <= 1 or node.role != LEARNER
        node.back_s = None if is_first else self._way_back_s(node, event.time_s)
        node.enter(State.STARTING if is_first else State.REJOINING, event.time_s)

    def exited(self, event: Event[payloads.NodeExited]) -> None:
        """A life has ended."""
        node = self.by_name.get(event.payload.node)
        if node is None:
            return
        node.end_life(event)
        if self.phase in {"stop", "evaluate"}:
            node.enter(State.ENDED, event.time_s)
        elif node.state is not State.LEFT:
            node.enter(State.DEAD, event.time_s)

    def probed(self, event: Event[payloads.NodeProbed]) -> None:
        """Its process may be seen stopped."""
        node = self.by_name.get(event.payload.node)
        if node is not None and event.payload.state == "T":
            node.step_s = None
            node.enter(State.PAUSED, event.time_s)

    def compiles(self, event: Event[payloads.LearnerStarted]) -> None:
        """It compiles its steps now."""
        self._turn(event.payload.learner, State.STARTING, State.COMPILING, event.time_s)

    def compiled(self, event: Event[payloads.LearnerCompiled]) -> None:
        """It has them."""
        self._turn(event.payload.learner, State.COMPILING, State.STARTING, event.time_s)

    def _turn(self, name: str, before: State, after: State, time_s: float) -> None:
        node = self.by_name.get(name)
        if node is not None and node.state is before:
            node.enter(after, time_s)

    def stepped(self, event: Event[payloads.LearnerStep]) -> None:
        """It trains."""
        if (node := self.by_name.get(event.payload.learner)) is not None:
            node.take_step(event)

    def joined(self, event: Event[payloads.MemberJoined]) -> None:
        """It is a member, again if it was dropped."""
        node = self.by_name.get(event.payload.learner)
        if node is not None and node.state is State.DROPPED:
            node.back_s = self._way_back_s(node, event.time_s)
            node.enter(State.REJOINING, event.time_s)

    def suspected(self, event: Event[payloads.MemberSuspected]) -> None:
        """The syncer hears no steps of it."""
        node = self.by_name.get(event.payload.learner)
        at_work = {State.STEPPING, State.JOINING, State.REJOINING}
        if node is not None and node.state in at_work:
            node.step_s = None
            node.enter(State.SUSPECTED, event.time_s)

    def recovered(self, event: Event[payloads.MemberRecovered]) -> None:
        """The syncer hears steps of it again."""
        node = self.by_name.get(event.payload.learner)
        if node is not None and node.state in {State.SUSPECTED, State.PAUSED}:
            node.enter(node.at_work, event.time_s)

    def left(self, event: Event[payloads.MemberLeft]) -> None:
        """It is no member any more."""
        node, reason = self.by_name.get(event.payload.learner), event.payload.reason
        is_gone = {State.DEAD, State.ENDED, State.REJOINING}
        if node is None or node.state in is_gone or reason is LeaveReason.CLOSED:
            return
        gone = State.ENDED if self.phase == "stop" else State.LEFT
        said_goodbye = reason is LeaveReason.SAID_GOODBYE
        node.enter(gone if said_goodbye else State.DROPPED, event.time_s)
        node.gone_s = event.time_s

    def syncer_said(self, event: Event) -> None:
        """The syncer serves, is blocked or has stopped."""
        said = event.payload
        if isinstance(said, payloads.SyncerBlocked | payloads.SyncerFreed) and said.is_snapshot:
            return  # it serves on
        if self.syncer is not None:
            self.syncer.enter(_SYNCER_STATES[event.kind], event.time_s)

    def serves(self, event: Event[payloads.RoundMerged]) -> None:
        """The syncer merges: it is paused no more."""
        if self.syncer is not None and self.syncer.state is State.PAUSED:
            self.syncer.enter(State.SERVING, event.time_s)
