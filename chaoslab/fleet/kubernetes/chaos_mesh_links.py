"""Links of pods that Chaos Mesh shapes: `links: chaos-mesh`; see `links.base`.

    foretell ──► effects of all links ─► specs (`network_chaos`) ─┬─ new ─► undo log, then create,
    shape, clear ──► follow ───┘                                  │         until AllInjected
                                                                  └─ old ─► delete, until it is gone
    learner ── dials the syncer's Service itself ──► syncer
    undo log ── server, namespace, name ──► `cleanup` ─► delete_chaos, from another process

An effect holds once Chaos Mesh says so of its objects, and has ended once they are gone: its
finalizer lets an object go when every pod is as it was. What it says is never evidence of a fault;
the nodes measure that. Pods that start while an effect holds do not have it.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import ClassVar, Final, Self

from chaoslab.core.errors import AbilityError, FleetError, HarnessBug
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.network_chaos import (
    ABILITIES,
    EffectKey,
    NetworkChaosManifests,
    has_ended,
    is_ending,
    is_injected,
    pods_left,
    state_of,
    why_not,
)
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import JOBS, NETWORK_CHAOS, POD_NETWORK_CHAOS, PODS
from chaoslab.fleet.kubernetes.rights import CHAOS_MESH, lacking
from chaoslab.fleet.run_name import run_name
from chaoslab.links.base import Counters, LinksByName, require
from chaoslab.links.effects import (
    Bandwidth,
    Direction,
    Duplicate,
    Effect,
    Freeze,
    Latency,
    LinkAbility,
    Per,
)
from chaoslab.undo.base import PendingUndos, UndoLog

_INJECTED_S: Final = 30.0
"""How long Chaos Mesh may take until an object is in force."""
_GONE_S: Final = 60.0
"""How long it may take to take one back: it tries again less and less often."""
_BEGUN_GONE_S: Final = 10.0
"""And one that did not come into force: its daemon may fail at that, too."""
_ALIVE_S: Final = 2.0
"""So long it needs for pods that live."""
_PAUSE_S: Final = 0.1
_LOOK_S: Final = 2.0
"""How often it is looked whether all objects are in force."""
_TRIAL: Final = (
    (Direction.UP, Freeze()), (Direction.DOWN, Latency(mean_s=0.1, jitter_s=0.01)),
    (Direction.DOWN, Bandwidth(rate_bytes_per_s=1e6)), (Direction.DOWN, Duplicate(share=0.01)),
)  # fmt: skip
_Standing = tuple[str, Mapping[str, Json]]
"""Name and spec of an object."""


class ChaosMeshLink:
    """Link of one learner: what Chaos Mesh does to the packets between two pods."""

    def __init__(self, name: str, upstream: str, links: "ChaosMeshLinks") -> None:
        self.name, self.address = name, upstream
        self.host = upstream.rpartition(":")[0]
        if ":" in self.host:
            raise FleetError(
                f"the syncer's Service has the address {upstream}, and links: chaos-mesh need one "
                "of IPv4: use a cluster that has both"
            )
        self._links = links

    def foretell(self, injection: str, direction: Direction, effect: Effect) -> None:
        """What `shape` will ask for, so that links to which the same is done share objects."""
        require(self._links, direction, effect)
        for way in direction.ways:
            self._links.asked[EffectKey(injection, self.name, way, effect.kind)] = effect

    def foretell_end(self, injection: str) -> None:
        """What `clear` will take away."""
        for one in [*self._links.asked]:
            if (one.injection, one.learner) == (injection, self.name):
                del self._links.asked[one]

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        self.foretell(injection, direction, effect)
        try:
            self._links.follow()
        except FleetError:
            self._links.forget(injection)
            raise

    def clear(self, injection: str) -> None:
        """See `base.Link.clear`. Goes on where it failed when it is repeated."""
        self.foretell_end(injection)
        self._links.follow()

    def counters(self) -> Counters:
        """Nothing is counted."""
        return Counters()


class ChaosMeshLinks(LinksByName[ChaosMeshLink]):
    """All links of a run, shaped by the cluster's Chaos Mesh; see `base.Links`."""

    kind: ClassVar[str] = "chaos-mesh"
    why_not_from_start: ClassVar[str] = (
        "links: chaos-mesh act on pods that run, and a profile holds from before: leave out "
        "fleet.profiles, or use links: embedded"
    )

    def __init__(
        self,
        run_directory: Path,
        *,
        undo_log: UndoLog,
        connect: Callable[[], Cluster],
    ) -> None:
        """Nothing is asked before `abilities` or entering."""
        super().__init__()
        self.asked: dict[EffectKey, Effect] = {}
        """Effects that are to be in force."""
        self._standing: dict[str, _Standing] = {}
        """Objects in force, by the part that each plays."""
        self._left: list[str] = []
        """Objects that are to go, and may still be there."""
        self._pending_undos = PendingUndos(undo_log)
        self._run, self._directory = run_name(run_directory.resolve()), str(run_directory)
        self._connect = connect
        self._cluster: Cluster | None = None
        self._manifests = self._manifests_of("trial", "trial")
        self._is_asked = False
        self._number = count(1)
        self._look_s = 0.0

    @property
    def cluster(self) -> Cluster:
        """Connection to the namespace, while the links are entered."""
        if self._cluster is None:
            raise HarnessBug("links are used between entering and leaving their context")
        return self._cluster

    def forget(self, injection: str) -> None:
        """Ask for nothing of an injection any more."""
        self.asked = {
            one: effect for one, effect in self.asked.items() if one.injection != injection
        }

    def follow(self) -> None:
        """Let exactly the objects be there that are asked for: new ones, then no old ones."""
        hosts = [link.host for link in self._links.values()]
        wanted = self._manifests.specs(hosts[0], self.asked) if hosts else {}
        made: dict[str, _Standing] = {}
        try:
            for part, spec in wanted.items():
                if part not in self._standing or self._standing[part][1] != spec:
                    made[part] = self._manifests.name_of(part, next(self._number)), spec
                    self._create(*made[part])
            _await(self.cluster, [name for name, _ in made.values()])
        except FleetError as error:
            self._left += [name for name, _ in made.values()]
            try:
                self._remove(within_s=_BEGUN_GONE_S)
            except FleetError as worse:  # it stays listed, and the next `clear` tries again
                error.add_note(f"and what was begun could not be taken back: {worse}")
            raise
        old = [part for part in self._standing if part in made or part not in wanted]
        self._left += [self._standing.pop(part)[0] for part in old]
        self._standing |= made
        self._remove()

    def _create(self, name: str, spec: Mapping[str, Json]) -> None:
        self._pending_undos.owe(
            names.DELETE_CHAOS, name, server=self.cluster.server, context=self.cluster.context,
            namespace=self.cluster.namespace, chaos=name,
        )  # fmt: skip
        self.cluster.create(self._manifests.network_chaos(name, spec))

    def _remove(self, within_s: float | None = None) -> None:
        remove(self.cluster, self._left, within_s=within_s)
        for name in self._left:
            self._pending_undos.settle(names.DELETE_CHAOS, name)
        self._left.clear()

    @property
    def abilities(self) -> frozenset[LinkAbility]:
        """What NetworkChaos can do. AbilityError if the cluster has no Chaos Mesh that takes it."""
        if not self._is_asked:
            with closing(self._connect()) as cluster:
                self._ask(cluster)
        return ABILITIES

    def why_not(self, ability: LinkAbility) -> str:
        """What NetworkChaos lacks, and what has it."""
        return why_not(ability)

    def caveats(self, effect: Effect) -> Sequence[str]:
        """Deviations of the effect; see `base.Links.caveats`."""
        found = ["Chaos Mesh takes a second or more, and works on one pod after another"]
        match effect:
            case Bandwidth(per=Per.CONNECTION):
                found.append("Chaos Mesh has one rate for all connections of a link")
            case Freeze():
                found.append(
                    "a partition by Chaos Mesh drops acknowledgements, too: one way alone soon "
                    "silences the other; the link goes on when TCP sends again, seconds later"
                )
            case Latency(jitter_s=jitter_s) if jitter_s:
                found.append("jitter by netem is uniform and unseeded; packets may overtake others")
            case _:
                pass
        return found

    def __enter__(self) -> Self:
        self._cluster = self._connect()
        try:
            keeper = self._cluster.get(JOBS, names.own_name(self._run))
            self._ask(self._cluster)
        except BaseException:
            self._cluster.close()
            raise
        self._manifests = self._manifests_of(names.uid_of(keeper), self._cluster.namespace)
        return self

    def __exit__(self, *_: object) -> None:
        """Take away what is left, which is nothing after the heal of all faults."""
        try:
            self.asked.clear()
            self.follow()
        finally:
            self.cluster.close()
            self._cluster = None

    def _make(self, name: str, upstream: str) -> ChaosMeshLink:
        return ChaosMeshLink(name, upstream, self)

    def troubles(self) -> Sequence[str]:
        """Objects that are not in force any more, looked for every two seconds."""
        standing = [name for name, _ in self._standing.values()]
        if not standing or time.monotonic() < self._look_s:
            return ()
        try:
            listed, _ = self.cluster.list(NETWORK_CHAOS, f"{names.LABEL_RUN}={self._run}")
        except FleetError as error:
            return (str(error),)
        self._look_s = time.monotonic() + _LOOK_S
        seen = {names.name_of(one): one for one in listed}
        return tuple(
            f"the NetworkChaos {name} is not in force any more: {how}"
            for name in standing
            if (how := _lost(seen.get(name)))
        )

    # ---------------------------------------------------------------- inside

    def _manifests_of(self, owner: str, namespace: str) -> NetworkChaosManifests:
        no_pods = PodSettings(image="")
        return NetworkChaosManifests(
            run=self._run, directory=self._directory, settings=no_pods, owner=owner,
            namespace=namespace,
        )  # fmt: skip

    def _ask(self, cluster: Cluster) -> None:
        """AbilityError unless the server takes NetworkChaos of this user; none is created."""
        where = f"the cluster of context {cluster.context}"
        if missing := lacking(cluster, CHAOS_MESH):
            raise AbilityError(
                f"in namespace {cluster.namespace} of {where} you may not {', '.join(missing)}: "
                "`chaoslab fleet rights kubernetes` prints the Role that is needed"
            )
        trial = self._manifests_of("trial", cluster.namespace)
        asked = {EffectKey("trial", "learner-0", way, one.kind): one for way, one in _TRIAL}
        specs = trial.specs("192.0.2.1", asked)
        try:
            for part, spec in specs.items():
                name = trial.name_of(part, 0)
                cluster.create(trial.network_chaos(name, spec), is_trial=True)
        except Missing as error:
            raise AbilityError(
                f"{where} has no Chaos Mesh (NetworkChaos of chaos-mesh.org/v1alpha1 is unknown): "
                "install it (chaos-mesh.org), or use links: embedded"
            ) from error
        except FleetError as error:
            raise AbilityError(
                f"Chaos Mesh in {where} takes no NetworkChaos ({error}): does "
                "chaos-controller-manager run?"
            ) from error
        self._is_asked = True


def _lost(found: Mapping[str, Json] | None) -> str:
    """How an object is not in force any more, as a clause; empty if it is."""
    if found is None:
        return "somebody else deleted it"
    if is_ending(found):
        return "somebody else deletes it"
    return "" if is_injected(found) else state_of(found)


def _await(cluster: Cluster, chaos: Sequence[str]) -> None:
    """Until all of them are in force, by Chaos Mesh's word. FleetError says why one is not."""
    deadline = time.monotonic() + _INJECTED_S
    for name in chaos:
        while not is_injected(found := cluster.get(NETWORK_CHAOS, name)):
            if time.monotonic() > deadline:
                raise FleetError(
                    f"the NetworkChaos {name} is not in force after {_INJECTED_S:g} s: "
                    f"{state_of(found)}"
                )
            time.sleep(_PAUSE_S)


def remove(
    cluster: Cluster, chaos: Iterable[str], *, within_s: float | None = None
) -> tuple[str, ...]:
    """Delete objects and wait until Chaos Mesh has let them go; those that were there.

    FleetError says why one is still there.
    """
    within_s = _GONE_S if within_s is None else within_s
    told = [name for name in chaos if cluster.delete(NETWORK_CHAOS, name)]
    began_s = time.monotonic()
    for name in told:
        while (found := shown(cluster, name)) is not None:
            lasted_s = time.monotonic() - began_s
            if lasted_s > within_s:
                raise FleetError(
                    f"Chaos Mesh has not taken back the NetworkChaos {name} in {within_s:g} s: "
                    f"{state_of(found)}"
                )
            if lasted_s > _ALIVE_S:
                _forget_the_dead(cluster, found)
            time.sleep(_PAUSE_S)
    return tuple(told)


def _forget_the_dead(cluster: Cluster, found: Mapping[str, Json]) -> None:
    """Delete what Chaos Mesh keeps of pods that have ended: it would try for ever to enter them."""
    for pod in pods_left(found):
        with suppress(Missing):  # the pod, or what is kept of it
            if has_ended(cluster.get(PODS, pod)):
                cluster.delete(POD_NETWORK_CHAOS, pod)


def shown(cluster: Cluster, name: str) -> Mapping[str, Json] | None:
    """An object as the server has it; None if it is gone."""
    try:
        return cluster.get(NETWORK_CHAOS, name)
    except Missing:
        return None
