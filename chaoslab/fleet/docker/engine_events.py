"""Reports of an engine on the containers of nodes: evidence beside that of the nodes.

    engine ── die, oom, kill, pause, health_status, disconnect … ──► a thread ──► queue
                                                                    ENGINE_REPORTED ◄┘

The fleet says what it did, the engine what happened: the two are written down apart, so that a
death that was not asked for here shows as what it is.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.core.payloads import EngineReported
from chaoslab.fleet.docker.engine.engine import Engine
from chaoslab.fleet.docker.engine.labels import LABEL_RUN
from chaoslab.fleet.docker.run_resources import LABEL_NODE, RunResources
from chaoslab.fleet.nodes.arrivals import Arrival, Arrivals, hand_over

ENGINE: Final = "engine"
_TOLD: Final = frozenset(
    {"start", "die", "oom", "kill", "pause", "unpause", "update", "stop", "restart", "destroy",
     "connect", "disconnect", "health_status"}
)  # fmt: skip
"""Events of an engine that concern a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Subject of a report."""

    container: str
    """Id of the container."""
    network: str | None
    """Name of the network, if it is about that."""
    attributes: Mapping[str, Json]
    """Name, labels and more, as the engine says them."""


NodeOf: TypeAlias = Callable[[Reported], tuple[str, int] | None]
"""The node and its incarnation; None: none of this run."""


class EngineEvents:
    """Listens from its making until it is closed."""

    def __init__(self, engine: Engine, arrivals: Arrivals, node_of: NodeOf) -> None:
        self._arrivals, self._node_of = arrivals, node_of
        self._is_closing = False
        self._events = engine.events()
        threading.Thread(target=self._listen, name="engine events", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._is_closing = True
        self._events.close()

    def _listen(self) -> None:
        try:
            for event in self._events:
                if (report := self._observation(event)) is not None:
                    self._hand_over(Arrival(observe=partial(tuple, (report,))))
            error = FleetError("the Docker engine has ended its report")
        except FleetError as found:
            error = found
        except (ValueError, AttributeError):  # the SDK, when its connection is closed under it
            error = FleetError("the Docker engine broke its report off")
        if not self._is_closing:
            self._hand_over(Arrival(error=error))

    def _hand_over(self, arrival: Arrival) -> None:
        hand_over(self._arrivals, arrival, lambda: not self._is_closing)

    def _observation(self, event: Mapping[str, Json]) -> Observation | None:
        action, _, state = str(event.get("Action", "")).partition(":")
        actor = event.get("Actor")
        attributes = actor.get("Attributes") if isinstance(actor, Mapping) else None
        if action not in _TOLD or not isinstance(actor, Mapping):
            return None
        attributes = attributes if isinstance(attributes, Mapping) else {}
        is_network = event.get("Type") == "network"
        subject = self._node_of(
            Reported(
                container=str(attributes.get("container") if is_network else actor.get("ID")),
                network=str(attributes.get("name")) if is_network else None,
                attributes=attributes,
            )
        )
        if subject is None:
            return None
        node, incarnation = subject
        code, signal = attributes.get("exitCode"), attributes.get("signal")
        return Observation.of(
            ENGINE,
            EngineReported(
                node=node,
                incarnation=incarnation,
                action=action,
                exit_code=None if code is None else int(str(code)),
                signal=None if signal is None else str(signal),
                health=state.strip() if action == "health_status" else None,
            ),
        )


class OfRun:
    """Nodes of a run by the labels of their containers; a network names these by id alone."""

    def __init__(self, run_resources: RunResources) -> None:
        self._nodes: dict[str, tuple[str, int]] = {}
        """Node and incarnation, by container id."""
        self._run, self._network = run_resources.run, run_resources.network

    def __call__(self, reported: Reported) -> tuple[str, int] | None:
        """Node and incarnation; None: none of this run."""
        if reported.network is not None:
            is_ours = reported.network == self._network
            return self._nodes.get(reported.container) if is_ours else None
        labels = reported.attributes
        node, incarnation = labels.get(LABEL_NODE), labels.get("chaoslab.incarnation")
        if labels.get(LABEL_RUN) != self._run or node is None or incarnation is None:
            return None
        self._nodes[reported.container] = (str(node), int(str(incarnation)))
        return self._nodes[reported.container]
