"""Lease of a namespace: one run at a time breaks the training there, from whatever machine.

    adopt ─► undo entry ─► Lease `chaoslab-attach`, renewed by a thread ─► deleted on leaving
                             ├─ another run renews it ─► FleetError: which run, and on which machine
                             └─ it was not renewed for its time ─► it is taken

The lease ends by itself when its harness is gone. Two clocks need not agree: what looks expired is
watched for as long as a renewal may take.
"""

import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cleanup import connect_again
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.parts import mapping
from chaoslab.fleet.kubernetes.refusals import Missing, Refused
from chaoslab.fleet.kubernetes.resources import LEASES
from chaoslab.fleet.kubernetes.undo_facts import RunFacts
from chaoslab.fleet.run_name import run_name
from chaoslab.undo.base import PendingUndos, UndoLog

NAME: Final = "chaoslab-attach"
_LASTS_S: Final = 60
_RENEWALS: Final = 6
"""Renewals within the time of a lease."""
_WATCHED_S: Final = 2 * _LASTS_S / _RENEWALS
_LOOK_S: Final = 0.5


class Lease:
    """Renewed from `take` to `give_back`."""

    def __init__(self, cluster: Cluster, run_directory: Path, undo_log: UndoLog) -> None:
        self._cluster, self._run_directory = cluster, run_directory
        self._pending_undos = PendingUndos(undo_log)
        self._version = ""
        self._renewed_s = 0.0
        self._is_over = threading.Event()
        self._is_taken_away = False

    def take(self) -> None:
        """FleetError while another run has it."""
        there = _found(self._cluster)
        if there is not None:
            self._remove_if_expired(there)
        run = run_name(self._run_directory)
        self._pending_undos.open(
            names.DELETE_LEASE,
            server=self._cluster.server, context=self._cluster.context,
            namespace=self._cluster.namespace, run=run,
        )  # fmt: skip
        try:
            made = self._cluster.create(self._manifest(run))
        except Refused:
            there = _found(self._cluster)
            if there is None:
                raise
            made = there
        if _owner(made)[0] != run:  # another run was faster
            raise _taken(made)
        self._note(made)
        threading.Thread(target=self._renew, name="lease", daemon=True).start()

    def give_back(self) -> None:
        """Another run may come."""
        self._is_over.set()
        if self._version:
            release(self._cluster, run_name(self._run_directory))
        self._pending_undos.close_all()

    def require(self) -> None:
        """FleetError if it is not its own any more: another run may break the same training."""
        is_late = time.monotonic() - self._renewed_s > _LASTS_S
        if self._version and not self._is_over.is_set() and (self._is_taken_away or is_late):
            raise FleetError(
                f"the lease {NAME} of namespace {self._cluster.namespace} could not be renewed, so "
                "another run may be attached to this training: this one ends"
            )

    def _remove_if_expired(self, there: Mapping[str, Json]) -> None:
        before = mapping(there, "spec").get("renewTime")
        if _left_s(there) > 0:
            raise _taken(there)
        deadline = time.monotonic() + _WATCHED_S
        while time.monotonic() < deadline:
            now = _found(self._cluster)
            if now is None:
                return
            if mapping(now, "spec").get("renewTime") != before:
                raise _taken(now)
            time.sleep(_LOOK_S)
        try:
            version = str(names.metadata_of(there).get("resourceVersion"))
            self._cluster.delete(LEASES, NAME, resourceVersion=version)
        except Refused as error:  # another run was faster
            raise _taken(there) from error

    def _manifest(self, run: str) -> Mapping[str, Json]:
        owner = f"{run} {os.getpid()}@{socket.gethostname()} {self._run_directory}"
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": NAME, "labels": {**names.labels_of(run)}},
            "spec": {
                "holderIdentity": owner,
                "leaseDurationSeconds": _LASTS_S,
                "acquireTime": _now(),
                "renewTime": _now(),
            },
        }

    def _note(self, lease: Mapping[str, Json]) -> None:
        self._renewed_s = time.monotonic()
        self._version = str(names.metadata_of(lease).get("resourceVersion"))  # from now on required

    def _renew(self) -> None:
        """Renew it, on a thread of its own."""
        while not self._is_over.wait(_LASTS_S / _RENEWALS):
            changes: Mapping[str, Json] = {
                "metadata": {"resourceVersion": self._version},
                "spec": {"renewTime": _now()},
            }
            try:
                self._note(self._cluster.patch(LEASES, NAME, changes))
            except Refused:
                self._is_taken_away = not self._is_ours()
                if self._is_taken_away:
                    return
            except FleetError:  # the next one may pass
                continue

    def _is_ours(self) -> bool:
        """Whether the lease still names this run. It may do so after a refusal: if the answer to a
        renewal was lost, the next renewal is refused.
        """
        try:
            there = _found(self._cluster)
        except FleetError:
            return True  # not known: `require` sees to it that this does not last
        if there is None or _owner(there)[0] != run_name(self._run_directory):
            return False
        self._note(there)
        return True


def release(cluster: Cluster, run: str) -> bool:
    """Delete the lease if this run has it; whether it had."""
    there = _found(cluster)
    if there is None or _owner(there)[0] != run:
        return False
    return cluster.delete(LEASES, NAME, uid=names.uid_of(there))


def undo(_do: str, facts: RunFacts) -> tuple[str, ...]:
    """Delete the lease of a run, if it has it; what was done."""
    with closing(connect_again(facts.server, facts.context, facts.namespace)) as cluster:
        was_taken = release(cluster, facts.run)
    return (f"the lease {NAME} of {facts.namespace}, given back",) if was_taken else ()


def left(_do: str, facts: RunFacts) -> tuple[str, ...]:
    """Whether a run has the lease, in words."""
    with closing(connect_again(facts.server, facts.context, facts.namespace)) as cluster:
        there = _found(cluster)
    is_taken = there is not None and _owner(there)[0] == facts.run
    return (f"the lease {NAME} of {facts.namespace}",) if is_taken else ()


def _found(cluster: Cluster) -> Mapping[str, Json] | None:
    try:
        return cluster.get(LEASES, NAME)
    except Missing:
        return None


def _taken(there: Mapping[str, Json]) -> FleetError:
    _, subject, run_directory = _owner(there)
    pid, _, host = subject.partition("@")
    return FleetError(
        f"process {pid} of {host} is attached to this training, for the run {run_directory}: wait "
        f"until that is over; if it is dead, its lease ends within {max(0.0, _left_s(there)):.0f} s"
    )


def _owner(there: Mapping[str, Json]) -> tuple[str, str, str]:
    """Run, process at host, and run directory."""
    run, _, rest = str(mapping(there, "spec").get("holderIdentity")).partition(" ")
    subject, _, run_directory = rest.partition(" ")
    return run, subject, run_directory


def _left_s(there: Mapping[str, Json]) -> float:
    """Time until it is over, by the local clock."""
    try:
        renewed = datetime.fromisoformat(str(mapping(there, "spec").get("renewTime")))
        lasts_s = float(str(mapping(there, "spec").get("leaseDurationSeconds")))
    except ValueError:
        return 0.0
    return renewed.timestamp() + lasts_s - time.time()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
