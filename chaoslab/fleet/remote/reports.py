"""Reports of hosts as observations: what nodes said, gaps in which a host was not heard, losses.

Ground.news ─► Reports.take ─┬─ observation ─► of several processes of one node, one
                             ├─ gap ─────────► harness.stalled, with the host
                             └─ loss ────────► the exits of all nodes there
"""

import queue
from collections.abc import Mapping
from dataclasses import replace

from chaoslab.core.errors import ChaoslabError
from chaoslab.core.events import Observation
from chaoslab.core.payloads import DiskBlocked, DiskFreed, HarnessStalled, NodeExited
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.node_links import HARNESS
from chaoslab.fleet.remote.contact import GAP_S, AgentLost, Gap
from chaoslab.fleet.remote.ground import Ground, News
from chaoslab.fleet.remote.host import Host
from chaoslab.fleet.remote.members import Placed


class Reports:
    """Reports of the hosts of one run, one piece after the other."""

    def __init__(self, ground: Ground, place: Place, placed: Mapping[str, Placed]) -> None:
        """`placed`: the nodes, by name."""
        self._ground, self._place, self._placed = ground, place, placed

    def take(self, limit_s: float) -> list[Observation] | None:
        """Events of the next piece of news, after waiting for it; None without one."""
        news = self._ground.news
        try:
            return self._told(news.get(timeout=limit_s) if limit_s else news.get_nowait())
        except queue.Empty:
            return None

    def _told(self, news: News) -> list[Observation]:
        if news.lost is not None:
            return self._exits_of_host(news.host, news.lost)
        if news.seen is not None:
            news.host.take(news.number)
            return self._seen(news.host, news.seen)
        if news.gap is not None and (news.gap.for_s >= GAP_S or news.gap.undone):
            return [self._out_of_reach(news.host, news.gap)]
        return []

    def _seen(self, host: Host, seen: Observation) -> list[Observation]:
        said = seen.payload
        if isinstance(said, DiskBlocked | DiskFreed):  # what an agent says of its host
            return [Observation.of(HARNESS, replace(said, host=host.name))]
        one = self._placed.get(seen.source)
        if one is None:
            return [seen]
        if isinstance(said, NodeExited):
            self._keep_last_words(said)
        return one.see(host, seen, self._place.clock.now_s())

    def _keep_last_words(self, said: NodeExited) -> None:
        """Keep last words where people look for them, until the whole log comes from the host."""
        if said.last_words:
            folder = self._place.home(said.node) / str(said.incarnation)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "stderr.log").write_text(f"{said.last_words}\n", encoding="utf-8")

    def _out_of_reach(self, host: Host, gap: Gap) -> Observation:
        """Report that earlier messages came late, as after a stall of the harness."""
        stalled = HarnessStalled(
            silent_s=gap.for_s,
            since_s=self._place.clock.now_s() - gap.for_s,
            undone=tuple(gap.undone),
            host=host.name,
        )
        return Observation.of(HARNESS, stalled)

    def _exits_of_host(self, host: Host, why: ChaoslabError) -> list[Observation]:
        """The exits of all nodes of a host that is lost."""
        now_s, by_lease = self._place.clock.now_s(), isinstance(why, AgentLost) and why.by_lease
        return [
            seen
            for one in tuple(self._placed.values())
            for seen in one.exits_of_host(host, str(why), now_s, by_lease=by_lease)
        ]
