"""Verbs of a host agent: a call by name, carried out by the host's fleet, answered in JSON.

    {"do": "pause", "names": ["learner-0"], "with": {}} ─► fleet.pause("learner-0") ─► value | error

The list of verbs is closed: it is what `fleet.base` and `fleet.protocols` promise, and what a
remote fleet needs beside that. An error that a verb promises is an answer; any other ends the
agent, and with it the nodes.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, TypeAlias

from chaoslab.core.errors import ChaoslabError
from chaoslab.core.events import Json
from chaoslab.fleet.attached import script_search
from chaoslab.fleet.attached.found import Found
from chaoslab.fleet.base import Damage, NodeSpec
from chaoslab.fleet.remote.host_agent.fleet import HostedFleet, HostedScript
from chaoslab.fleet.remote.host_agent.proxy import HostProxy
from chaoslab.fleet.remote.host_agent.scripts import as_here, begin_script
from chaoslab.fleet.remote.protocol.messages import (
    Garbled,
    as_json,
    from_error,
    from_observation,
    read_as,
    to_stressor,
)
from chaoslab.fleet.settings import Reading

Verb: TypeAlias = Callable[..., Json]
_PLAIN: Final = (
    *("kill", "signal", "prepare", "unprepare", "pause", "resume", "wedge", "unwedge", "notice"),
    *("relieve", "fill_disk", "free_disk", "kill_host", "fail_chip"),
)
"""Verbs that take names and plain values, and return nothing."""
_OF_OWN: Final = ("cut_power", "end")
"""Of these those for nodes that were started here."""


class Verbs:
    """Verbs of an agent."""

    def __init__(
        self,
        fleet: HostedFleet | HostedScript,
        proxy: HostProxy,
        *,
        words: Mapping[str, str],
        due_within: Callable[[float | None], AbstractContextManager[object]],
    ) -> None:
        """`words`: what `{python}` and the like in command lines stand for on this host.

        `due_within`: the undo log's, for what a verb does that holds for this long.
        """
        self._fleet, self._words, self._due_within = fleet, words, due_within
        self.table: dict[str, Verb] = {name: getattr(fleet, name) for name in _PLAIN}
        if isinstance(fleet, HostedFleet):
            self.table |= {name: getattr(fleet, name) for name in _OF_OWN}
            self.table |= {
                "enlist": partial(self._enlist, fleet),
                "begin_script": partial(begin_script, fleet, words),
            }
        else:
            self.table |= {"find": found_here, "adopt": partial(_adopt, fleet)}
        self.table |= {
            "restart": lambda name: as_json(fleet.restart(name)),
            "probe": lambda name: from_observation(fleet.probe(name)),
            "tell": self._tell,
            "stress": self._stress,
            "damage": self._damage,
            "leave": fleet.leave,
            "free_port": free_port,
            "open_proxy": proxy.open,
            "proxy_port": proxy.port,
            "proxy_ended": proxy.ended,
            "close_proxy": proxy.close,
        }

    def answer(self, call: Mapping[str, Any]) -> dict[str, Json]:
        """Carry out a call: `value`, or the `error` that the verb promises."""
        try:
            return {"value": self._do(call)}
        except (KeyError, ChaoslabError) as error:
            return {"error": from_error(error)}

    def _do(self, call: Mapping[str, Any]) -> Json:
        verb, due_s = self.table.get(str(call.get("do"))), call.get("due_s")
        names, settings = call.get("names", []), call.get("with", {})
        if verb is None or not isinstance(names, list) or not isinstance(settings, dict):
            raise Garbled(f"{call!r} is no call of a host agent")
        due = self._due_within(None if due_s is None else float(due_s))
        with self._fleet.acting(map(str, names)), due:
            return verb(*names, **settings)

    def _enlist(self, fleet: HostedFleet, spec: Any, first: int) -> Json:
        given = as_here(read_as(NodeSpec, spec), self._words)
        return as_json(fleet.enlist_from(given, first))

    def _tell(self, name: str, do: str, facts: Mapping[str, Json]) -> None:
        self._fleet.tell(name, do, **facts)

    def _stress(self, name: str, injection: str, stressor: Any) -> None:
        self._fleet.stress(name, injection, to_stressor(stressor))

    def _damage(self, name: str, how: str, *, every: bool) -> None:
        self._fleet.damage(name, Damage(how), every=every)


def found_here(*, pattern: str, workers: int, is_part: bool) -> Json:
    """See `script_search.find`."""
    which = script_search.Which(pattern=pattern)
    return [as_json(one) for one in script_search.find(which, workers, is_part=is_part)]


def _adopt(
    fleet: HostedScript,
    *,
    nodes: Sequence[Any],
    reading: Any,
    labels: Mapping[str, Mapping[str, str]],
    first: Mapping[str, int],
) -> Json:
    found = [read_as(Found, one) for one in nodes]
    adopted = fleet.adopt_these(found, read_as(Reading, reading), labels, first)
    return [as_json(one) for one in adopted]


def free_port() -> int:
    """A port that is free on every address of this host now."""
    with socket.create_server(("", 0)) as listener:
        return int(listener.getsockname()[1])
