"""Objects of one run in a cluster: its owner Job, which owns the others, and what nodes need.

    undo log ─► owner Job (Job) ─ owns ─► Jobs of nodes or JobSets, Service, claims, Secrets
    renewals ─► the owner Job's deadline: nothing outlives a dead harness by more than a lease

One entry of the undo log, written before the first object is made, deletes them all.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from operator import sub
from pathlib import Path
from typing import Final, NamedTuple

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.job_sets import JobSets, NodeJob
from chaoslab.fleet.kubernetes.manifests import (
    CONTAINER,
    MEETING_PORT,
    Manifests,
    PodSettings,
    renewal,
)
from chaoslab.fleet.kubernetes.parts import mapping, mappings
from chaoslab.fleet.kubernetes.pod_state import Hope, state_of
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import (
    CLAIMS,
    JOB_SETS,
    JOBS,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
)
from chaoslab.fleet.nodes.arrivals import together
from chaoslab.fleet.run_name import own_name, run_name
from chaoslab.undo.base import UndoLog

_GONE_S: Final = 90.0
"""Time limit until the next object of a run is deleted."""
_STARTED_S: Final = 30.0
"""Time limit until the cluster counts the time of the owner Job."""
_START_LOOK_S: Final = 0.05
_SUSPENDED: Final = (
    "it was suspended, as Kueue does to Jobs without a queue (`manageJobsWithoutQueueName`): "
    "except this namespace from that by `managedJobsNamespaceSelector`"
)
_UNTOUCHED: Final = "does the cluster's controller of Jobs run?"
_LOOK_S: Final = 0.25
_TOLD_S: Final = 5.0
"""Time after which a deleted object that still exists is deleted once more."""
_BESIDE_S: Final = 120.0
"""Time limit of a Job beside a node; a claim may have to move to another machine first."""
_RENEWALS: Final = 6
"""Renewals within the time of a lease."""


class RunObjects:
    """Objects of one run."""

    def __init__(
        self,
        cluster: Cluster,
        run_directory: Path,
        undo_log: UndoLog,
        settings: PodSettings,
        lease_s: float,
    ) -> None:
        self.cluster, self._undo_log, self._lease_s = cluster, undo_log, lease_s
        self.run = run_name(run_directory)
        self.manifests = Manifests(run=self.run, directory=str(run_directory), settings=settings)
        self.job_sets = JobSets(cluster, lambda: self.manifests)
        self.lost_renewals = 0
        """Renewals that the server did not take."""
        self._entry: int | None = None
        self._claims: set[str] = set()
        self._secrets: set[str] = set()
        self._addresses: dict[str, str] = {}
        self._beside = 0
        """Jobs that were run beside nodes."""
        self._is_over = threading.Event()
        self._began_s: tuple[float, ...] = ()
        """Creation of the owner Job, by each clock."""

    # ---------------------------------------------------------------- beginning and end

    def open(self) -> None:
        """Write down how to delete it all, then create the owner Job. FleetError if that waits."""
        self._entry = self._undo_log.open(
            names.DELETE_RUN,
            server=self.cluster.server, context=self.cluster.context,
            namespace=self.cluster.namespace, run=self.run,
            **({"job_sets": names.JOB_SET_VERSION} if self._has_job_sets else {}),
        )  # fmt: skip
        self._began_s = _now_s()
        made = self.cluster.create(self.manifests.owner_job(self._lease_s))
        self.manifests = replace(self.manifests, owner=names.uid_of(made))
        self._await_start()
        threading.Thread(target=self._renew, name="renewals", daemon=True).start()

    def close(self) -> None:
        """Delete all of it, and wait until it is gone. FleetError names what is left."""
        self._is_over.set()
        if self._entry is None:
            return
        empty(self.cluster, self.run, has_job_sets=self._has_job_sets)
        self._undo_log.close(self._entry)
        self._entry = None

    def abandon(self) -> None:
        """Renew its lease no more: open entries are left to others, at last to the owner Job."""
        self._is_over.set()

    def _await_start(self) -> None:
        """Wait until the cluster counts the owner Job's time: before, nothing would end the run."""
        deadline = time.monotonic() + _STARTED_S
        while "startTime" not in mapping(
            found := self.cluster.get(JOBS, self.manifests.name()), "status"
        ):
            if time.monotonic() > deadline:
                is_suspended = mapping(found, "spec").get("suspend") is True
                raise FleetError(
                    f"the Job {self.manifests.name()} in namespace {self.cluster.namespace}, by "
                    "which the cluster deletes a run whose harness is gone, has not started in "
                    f"{_STARTED_S:g} s: {_SUSPENDED if is_suspended else _UNTOUCHED}"
                )
            time.sleep(_START_LOOK_S)

    @property
    def _has_job_sets(self) -> bool:
        return self.manifests.settings.in_job_sets

    def _renew(self) -> None:
        """Extend the owner Job's deadline, on a thread of its own."""
        while not self._is_over.wait(self._lease_s / _RENEWALS):
            lived_s = max(map(sub, _now_s(), self._began_s))
            changes: dict[str, Json] = {"spec": renewal(lived_s + self._lease_s)}
            try:
                self.cluster.patch(JOBS, self.manifests.name(), changes)
            except FleetError:  # the next one may pass; the owner Job ends if none does
                self.lost_renewals += 1

    def machines_of(self, job: str) -> frozenset[str]:
        """Machines of the pods of a Job of the run that belongs to no node."""
        states = map(state_of, self.cluster.pods(f"job-name={self.manifests.name(job)}"))
        return frozenset(one.machine for one in states if not one.is_failed) - {""}

    # ---------------------------------------------------------------- what nodes need

    def prepare(self, spec: NodeSpec) -> None:
        """Make the volumes and the secret of a node, unless they are there."""
        self._claim("shared")
        if self.manifests.keeps(spec):
            self._claim(spec.name, is_shared=self.manifests.settings.pods_of(spec) > 1)
        if spec.name not in self._secrets and (spec.private_files or spec.secrets):
            self.cluster.create(self.manifests.node_secret(spec))
            self._secrets.add(spec.name)

    # ---------------------------------------------------------------- Jobs of nodes

    def job_of(self, spec: NodeSpec, incarnation: int) -> str:
        """Name of the Job of an incarnation."""
        if self.manifests.settings.puts_in_job_set(spec.role):
            return self.job_sets.job_of(spec.name)
        return self.manifests.name(spec.name, str(incarnation))

    def create_job(self, spec: NodeSpec, job: Mapping[str, Json]) -> None:
        """Create the Job of a node, or a JobSet with it."""
        if self.manifests.settings.puts_in_job_set(spec.role):
            self.job_sets.put(NodeJob(spec, job))
        else:
            self.cluster.create(job)

    def withdraw(self, spec: NodeSpec, job: str) -> None:
        """Delete a Job that may have been created, though the server's answer was lost."""
        with suppress(FleetError):
            if self.manifests.settings.puts_in_job_set(spec.role):
                self.job_sets.withdraw(spec.name)
            else:
                self.cluster.delete(JOBS, job)

    def delete_job(self, job: str) -> bool:
        """Delete a Job and its pods; whether it was there."""
        if self.job_sets.has(job):
            return self.job_sets.delete_job(job)
        return self.cluster.delete(JOBS, job)

    def has_ended(self, job: str) -> bool:
        """Whether the cluster starts no more pods of a Job.

        One of a JobSet that failed, or is gone, is made anew; one that was completed is not.
        """
        is_in_set = self.job_sets.has(job)
        try:
            found = self.cluster.get(JOBS, job)
        except Missing:
            return not is_in_set
        ends = ("Complete",) if is_in_set else ("Complete", "Failed")
        return any(
            one.get("type") in ends and one.get("status") == "True"
            for one in mappings(found, "status", "conditions")
        )

    def run_beside(self, node: str, command: Sequence[str], within_s: float = _BESIDE_S) -> str:
        """Output of a command that runs beside a node's pod, with its claim.

        FleetError if it fails or takes too long; then it does not begin later, nor keep the claim.
        """
        self._beside += 1
        manifest = self.manifests.beside(node, command, self._beside)
        job = self.manifests.name(node, "beside", str(self._beside))
        self.cluster.create(manifest)
        try:
            return self._said_by(job, within_s)
        finally:
            self.cluster.delete(JOBS, job)

    def _said_by(self, job: str, within_s: float) -> str:
        """Output of the pod of a Job until it ends."""
        deadline, hope = time.monotonic() + within_s, Hope()
        while time.monotonic() < deadline:
            for state in map(state_of, self.cluster.pods(f"job-name={job}")):
                if state.has_ended:
                    params = {"container": CONTAINER}
                    lines = self.cluster.lines(PODS, state.name, params, silent_s=10.0)
                    said = b"\n".join(lines).decode(errors="replace")
                    if state.exit_code:
                        raise FleetError(f"the Job {job} failed: {said.strip()[-300:]}")
                    return said
                if hope.is_lost(state):
                    raise FleetError(f"the Job {job} cannot start: {state.waiting}")
            time.sleep(_LOOK_S)
        raise FleetError(f"the Job {job} has not ended within {within_s:g} s")

    def address(self, node: str) -> str:
        """Stable address of a node for others, an IP address; a Service is made for it."""
        if node not in self._addresses:
            self._addresses[node] = self._served(self.manifests.service(node))
        return self._addresses[node]

    def meeting(self, node: str) -> str:
        """host:port where the hosts of a learner meet; Services are made for it."""
        if node not in self._addresses:
            address = self._served(self.manifests.meeting(node))
            self.cluster.create(self.manifests.host_names(node))
            self._addresses[node] = address
        address = self._addresses[node]
        return f"[{address}]:{MEETING_PORT}" if ":" in address else f"{address}:{MEETING_PORT}"

    def _served(self, service: Mapping[str, Json]) -> str:
        """Address of a Service that is made now."""
        address = mapping(self.cluster.create(service), "spec").get("clusterIP")
        if not isinstance(address, str) or address == "None":
            raise FleetError(f"the cluster gave the Service {names.name_of(service)} no address")
        return address

    def _claim(self, name: str, *, is_shared: bool = False) -> None:
        if name not in self._claims:
            self.cluster.create(self.manifests.claim(name, is_shared=is_shared))
            self._claims.add(name)


def _now_s() -> tuple[float, ...]:
    """By a clock that is never set and goes on while this machine sleeps, and by one that is set
    after a time that the first has missed, as that of a virtual machine that stalled.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)), time.time()


def empty(cluster: Cluster, run: str, *, has_job_sets: bool = False) -> tuple[str, ...]:
    """Delete all objects of a run and wait until they are gone; what was deleted.

    FleetError names what is left, once nothing has gone for a while. The owner Job's own deletion
    takes its dependents with it; pods are deleted without grace, and what has lost its owner Job is
    deleted by its labels.
    """
    first = left = _objects(cluster, run, has_job_sets)
    cluster.delete(JOBS, own_name(run))
    told_s: dict[_Object, float] = {}
    deadline = time.monotonic() + _GONE_S
    while left:
        now_s = time.monotonic()
        untold = [one for one in left if now_s - told_s.get(one, -inf) > _TOLD_S]
        together(untold, partial(_delete, cluster))
        told_s |= dict.fromkeys(untold, now_s)
        time.sleep(_LOOK_S)
        before, left = left, _objects(cluster, run, has_job_sets)
        if len(left) < len(before):
            deadline = time.monotonic() + _GONE_S
        elif time.monotonic() > deadline:
            where = f"namespace {cluster.namespace} of context {cluster.context}"
            raise FleetError(f"in {where} there still are {', '.join(map(str, left))}")
    return tuple(map(str, first))


def remains(cluster: Cluster, run: str, *, has_job_sets: bool = False) -> tuple[str, ...]:
    """Existing objects of a run."""
    return tuple(map(str, _objects(cluster, run, has_job_sets)))


class _Object(NamedTuple):
    """An object of a run."""

    resource: Resource
    name: str

    def __str__(self) -> str:
        return f"{self.resource.singular} {self.name}"


def _objects(cluster: Cluster, run: str, has_job_sets: bool) -> Sequence[_Object]:
    """`has_job_sets`: it has made some; they are gone with their CRD, if that was removed."""
    of_sets = (JOB_SETS,) if has_job_sets and cluster.serves(JOB_SETS) else ()
    return [
        _Object(resource, names.name_of(one))
        for resource in (*of_sets, JOBS, PODS, CLAIMS, SECRETS, SERVICES)
        for one in cluster.list(resource, f"{names.LABEL_RUN}={run}", in_full=False)[0]
    ]


def _delete(cluster: Cluster, one: _Object) -> None:
    with suppress(Missing):
        cluster.delete(one.resource, one.name, is_forced=one.resource is PODS)
