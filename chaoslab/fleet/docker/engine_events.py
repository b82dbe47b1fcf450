"""Reports of an engine on the containers of a run: evidence beside that of the nodes.

    engine ── die, oom, kill, pause, health_status, disconnect … ──► a thread ──► queue
                                                                    ENGINE_REPORTED ◄┘

The fleet says what it did, the engine what happened: the two are written down apart, so that a
death that nobody here asked for shows as what it is.
"""

import queue
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Kind, Observation
from chaoslab.fleet.docker.engine.labels import LABEL_RUN
from chaoslab.fleet.docker.run_context import Arrival, RunContext
from chaoslab.fleet.docker.run_resources import LABEL_NODE

ENGINE: Final = "engine"
_TOLD: Final = frozenset(
    {"start", "die", "oom", "kill", "pause", "unpause", "update", "stop", "restart", "destroy",
     "connect", "disconnect", "health_status"}
)  # fmt: skip
"""Of all that an engine reports, what says something about a node."""


class EngineEvents:
    """Listens from its making until it is closed."""

    def __init__(self, run_context: RunContext) -> None:
        self._arrivals, run_resources = run_context.arrivals, run_context.run_resources
        self._is_closing = False
        self._nodes: dict[str, tuple[str, int]] = {}
        """By container id: which node, which incarnation."""
        self._run, self._network = run_resources.run, run_resources.network
        self._events = run_resources.engine.events()
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
        while not self._is_closing:
            with suppress(queue.Full):
                self._arrivals.put(arrival, timeout=0.5)
                return

    def _observation(self, event: Mapping[str, Json]) -> Observation | None:
        action, _, state = str(event.get("Action", "")).partition(":")
        actor = event.get("Actor")
        attributes = actor.get("Attributes") if isinstance(actor, Mapping) else None
        if action not in _TOLD or not isinstance(actor, Mapping):
            return None
        attributes = attributes if isinstance(attributes, Mapping) else {}
        who = self._who(event, str(actor.get("ID")), attributes)
        if who is None:
            return None
        node, incarnation = who
        code, signal = attributes.get("exitCode"), attributes.get("signal")
        return Observation(
            source=ENGINE,
            kind=Kind.ENGINE_REPORTED,
            data={
                "node": node,
                "incarnation": incarnation,
                "action": action,
                "at_s": int(str(event.get("timeNano", 0))) / 1e9,
                "exit_code": None if code is None else int(str(code)),
                "signal": None if signal is None else str(signal),
                "health": state.strip() if action == "health_status" else None,
            },
        )

    def _who(
        self, event: Mapping[str, Json], actor: str, attributes: Mapping[str, Json]
    ) -> tuple[str, int] | None:
        """Whom it is about; a network names its container by id alone. None: nobody of ours."""
        if event.get("Type") == "network":
            is_ours = attributes.get("name") == self._network
            return self._nodes.get(str(attributes.get("container"))) if is_ours else None
        if attributes.get(LABEL_RUN) != self._run:
            return None
        node, incarnation = attributes.get(LABEL_NODE), attributes.get("chaoslab.incarnation")
        if node is None or incarnation is None:
            return None
        self._nodes[actor] = (str(node), int(str(incarnation)))
        return self._nodes[actor]
