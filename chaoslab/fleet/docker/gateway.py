"""A gateway of links in a container on the network of a run; see `links.netem.gateway`.

    learner ── dials its address on the network ──► the gateway's kernel ──► the syncer's container
    harness ── Tools: one line at a time, over the engine's own connection ──┘

The engine is asked where the syncer is: its next incarnation may have another address. What the
gateway leaves goes with the run's resources.
"""

import ipaddress
from collections.abc import Sequence
from pathlib import Path

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.fleet.docker.engine.engine import Engine, Missing
from chaoslab.fleet.docker.images.kernel_probe import tried
from chaoslab.fleet.docker.images.tools import Tools
from chaoslab.fleet.docker.run_resources import LABEL_NODE, RunResources
from chaoslab.links.effects import LinkAbility
from chaoslab.links.netem.gateway import Ends
from chaoslab.undo.base import NoUndoLog


class ContainerGateway:
    """Container that forwards all links of a run; see `links.netem.gateway.Gateway`."""

    def __init__(self, run_directory: Path, engine: Engine) -> None:
        """Nothing is made before `open`; the network is there by then.

        AbilityError if the engine has no image of the tools, or no kernel that forwards.
        """
        if why := tried(engine).forwarding:
            engine.close()
            raise AbilityError(f"links: netem cannot be had here: {why}; use links: embedded")
        self._engine = engine
        self._run_resources = RunResources(
            engine=engine, run_directory=run_directory.resolve(), undo_log=NoUndoLog()
        )
        self._name = f"{self._run_resources.network}-gateway"
        self._tools: Tools | None = None

    def open(self) -> str:
        run_resources = self._run_resources
        self._tools = Tools(
            self._engine,
            self._name,
            run_resources.network,
            labels=run_resources.labels,
            is_gateway=True,
        )
        return self._engine.inspect(self._name).address

    def run(self, tool: str, *words: str, text: str = "") -> str:
        return self._there.run(tool, *words, text=text)

    def ask(self, command: Sequence[str], text: str = "") -> tuple[int, str]:
        return self._there.ask(command, text)

    def send_syn(self, ends: Sequence[Ends]) -> None:
        self._there.send_syn(ends)

    def locate(self, host: str) -> str | None:
        """Address of the node's last incarnation, as the engine reports it.

        Empty if that has ended, None while it is on no network.
        """
        try:
            return str(ipaddress.ip_address(host))
        except ValueError:
            found = self._engine.names({**self._run_resources.own, LABEL_NODE: host})
        lives = sorted(found, key=lambda name: int(found[name]["chaoslab.incarnation"]))
        try:
            seen = self._engine.inspect(lives[-1]) if lives else None
        except Missing:
            seen = None
        if seen is None or not seen.is_alive:
            return ""
        return seen.address or None

    def ended(self) -> str:
        return self._engine.ended(self._name)

    def close(self) -> None:
        if self._tools is not None:
            self._tools.close()
            self._tools = None
        self._engine.close()

    def lacks(self) -> dict[LinkAbility, str]:
        return dict(tried(self._engine).lacks)

    @property
    def _there(self) -> Tools:
        if self._tools is None:
            raise FleetError("the gateway of the links is not open")
        return self._tools
