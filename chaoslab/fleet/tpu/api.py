"""Client of the Cloud TPU API: the one module that imports google.

    CloudTpu ── nodes, queued resources ──► v2         long-running operations are polled
             └─ simulated maintenance ────► v2alpha1   by their names, never waited for here

Each call has a deadline. Reads are repeated while the service is unavailable; calls that change
something are repeated only where the API recognises a repeated request. Errors are
`ProviderError`s with a code. `perform_maintenance` is never called: it is no simulation.
"""

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import google.auth
import grpc
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError
from google.cloud import tpu_v2, tpu_v2alpha1
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport
from google.cloud.tpu_v2alpha1.services.tpu.transports import (
    TpuGrpcTransport as AlphaTransport,
)
from google.longrunning import operations_pb2
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from chaoslab.core.errors import AbilityError
from chaoslab.fleet.protocols import SliceAct
from chaoslab.fleet.remote.slices import TpuEntry
from chaoslab.fleet.tpu.states import (
    NODE,
    ProviderError,
    Refusal,
    SliceReport,
    condition,
)

CALL_S = 10.0
"""Deadline of one call."""
_AGAIN_S = 0.25
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_HOST_KEYS = "hostkeys/"
"""Guest attributes in which hosts publish their host keys."""
_T = TypeVar("_T")


class CloudTpu:
    """The API, for one project."""

    def __init__(self, project: str, *, endpoint: str = "") -> None:
        """AbilityError without credentials. `endpoint`: an emulator on this machine."""
        self.project = project
        self._client = tpu_v2.TpuClient(transport=self._transport(TpuGrpcTransport, endpoint))
        self._alpha = tpu_v2alpha1.TpuClient(transport=self._transport(AlphaTransport, endpoint))

    def _transport(self, kind: Callable[..., _T], endpoint: str) -> _T:
        if endpoint:
            return kind(channel=grpc.insecure_channel(endpoint), credentials=AnonymousCredentials())
        try:
            credentials, _ = google.auth.default(scopes=_SCOPES)
        except GoogleAuthError as error:
            raise AbilityError(
                f"no Google credentials ({error}): run `gcloud auth application-default login`"
            ) from error
        return kind(credentials=credentials)

    def close(self) -> None:
        """End its connections."""
        self._client.transport.close()
        self._alpha.transport.close()

    # ---------------------------------------------------------------- reads

    def look(self, zone: str) -> list[SliceReport]:
        """Reports of all nodes and queued resources of a zone, also those of others, by name."""
        client, parent = self._client, self._parent(zone)
        nodes = _pages(client.list_nodes, tpu_v2.ListNodesRequest(parent=parent))
        slices = {_last(one.name): one for page in nodes for one in page.nodes}
        queued = tpu_v2.ListQueuedResourcesRequest(parent=parent)
        queue = _pages(client.list_queued_resources, queued)
        requests = {_last(one.name): one for page in queue for one in page.queued_resources}
        return [
            _report(name, zone, slices.get(name), requests.get(name))
            for name in sorted({*slices, *requests})
        ]

    def error_of(self, operation: str) -> str | None:
        """Error of an operation that has ended, empty without one; None while it goes on."""
        asked = operations_pb2.GetOperationRequest(name=operation)
        try:
            found = _repeated(lambda: self._client.get_operation(asked, timeout=CALL_S))
        except ProviderError as error:
            if error.refusal is not Refusal.ABSENT:  # old ones are forgotten
                raise
            return ""
        if not found.done:
            return None
        return f"{found.error.message} ({found.error.code})" if found.HasField("error") else ""

    def host_keys(self, zone: str, slice_id: str) -> list[tuple[str, ...]]:
        """Public host keys that the hosts of a slice have published, worker 0 first; none of a
        slice whose hosts have published nothing yet.
        """
        asked = tpu_v2.GetGuestAttributesRequest(
            name=f"{self._parent(zone)}/nodes/{slice_id}", query_path=_HOST_KEYS
        )
        try:
            found = _repeated(lambda: self._client.get_guest_attributes(asked, timeout=CALL_S))
        except ProviderError as error:
            if error.refusal is Refusal.ABSENT:
                return []
            raise
        return [
            tuple(sorted(f"{item.key} {item.value}" for item in one.query_value.items))
            for one in found.guest_attributes
        ]

    # ---------------------------------------------------------------- changes

    def request(
        self,
        entry: TpuEntry,
        *,
        slice_id: str,
        labels: Mapping[str, str],
        public_key: str,
        within_s: float,
    ) -> str:
        """Queue a request for one slice, of the same name; returns the name of the operation.

        The request fails by itself when it was not served `within_s`.
        """
        parent = self._parent(entry.zone)
        spec = tpu_v2.QueuedResource.Tpu.NodeSpec(
            parent=parent, node_id=slice_id, node=_node(entry, labels, public_key)
        )
        queued = tpu_v2.QueuedResource(
            tpu=tpu_v2.QueuedResource.Tpu(node_spec=[spec]),
            queueing_policy=tpu_v2.QueuedResource.QueueingPolicy(
                valid_until_duration=Duration(seconds=int(within_s))
            ),
        )
        if entry.spot:
            queued.spot = tpu_v2.QueuedResource.Spot()
        if entry.reservation:
            queued.guaranteed = tpu_v2.QueuedResource.Guaranteed()
            queued.reservation_name = f"{parent}/reservations/{entry.reservation}"
        asked = tpu_v2.CreateQueuedResourceRequest(
            parent=parent,
            queued_resource_id=slice_id,
            queued_resource=queued,
            request_id=str(uuid.uuid4()),
        )
        return _repeated(lambda: _begun(self._client.create_queued_resource(asked, timeout=CALL_S)))

    def delete_request(self, zone: str, slice_id: str) -> str:
        """Delete a queued resource with its slice."""
        asked = tpu_v2.DeleteQueuedResourceRequest(
            name=f"{self._parent(zone)}/queuedResources/{slice_id}",
            request_id=str(uuid.uuid4()),
            force=True,
        )
        return _repeated(lambda: _begun(self._client.delete_queued_resource(asked, timeout=CALL_S)))

    def do(self, act: SliceAct, zone: str, slice_id: str) -> str:
        """Do this to a node."""
        call, request = {
            SliceAct.TAKE: (self._client.delete_node, tpu_v2.DeleteNodeRequest),
            SliceAct.STOP: (self._client.stop_node, tpu_v2.StopNodeRequest),
            SliceAct.START: (self._client.start_node, tpu_v2.StartNodeRequest),
            SliceAct.MAINTENANCE: (
                self._alpha.simulate_maintenance_event,
                tpu_v2alpha1.SimulateMaintenanceEventRequest,
            ),
        }[act]
        asked = request(name=f"{self._parent(zone)}/nodes/{slice_id}")
        return _told(lambda: _begun(call(asked, timeout=CALL_S)))

    # ---------------------------------------------------------------- inside

    def _parent(self, zone: str) -> str:
        return f"projects/{self.project}/locations/{zone}"


def _pages(call: Callable[..., Any], asked: Any) -> list[Any]:
    """All pages of a listing. ProviderError if the service could not look everywhere: what it does
    not list may be there.
    """

    def whole() -> list[Any]:
        found = list(call(asked, timeout=CALL_S).pages)
        if places := [place for page in found for place in page.unreachable]:
            raise ProviderError(
                Refusal.UNAVAILABLE, f"Cloud TPU API: it does not reach {', '.join(places)}"
            )
        return found

    return _repeated(whole)


def _begun(operation: Any) -> str:
    return str(operation.operation.name)


def _repeated(call: Callable[[], _T]) -> _T:
    """Repeat it while the service is unavailable, at most for the time of one call."""
    until_s = time.monotonic() + CALL_S
    while True:
        try:
            return _told(call)
        except ProviderError as error:
            if error.refusal is not Refusal.UNAVAILABLE or time.monotonic() >= until_s:
                raise
            time.sleep(_AGAIN_S)


def _told(call: Callable[[], _T]) -> _T:
    try:
        return call()
    except exceptions.GoogleAPICallError as error:
        raise ProviderError(_refusal(error), f"Cloud TPU API: {error.message}") from error
    except GoogleAuthError as error:
        raise ProviderError(Refusal.DENIED, f"Google credentials: {error}") from error


_BY_STATUS: Mapping[grpc.StatusCode, Refusal] = {
    grpc.StatusCode.NOT_FOUND: Refusal.ABSENT,
    grpc.StatusCode.ALREADY_EXISTS: Refusal.EXISTS,
    grpc.StatusCode.PERMISSION_DENIED: Refusal.DENIED,
    grpc.StatusCode.UNAUTHENTICATED: Refusal.DENIED,
    grpc.StatusCode.FAILED_PRECONDITION: Refusal.STATE,
    grpc.StatusCode.INVALID_ARGUMENT: Refusal.INVALID,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Refusal.STOCK_OUT,
    grpc.StatusCode.UNAVAILABLE: Refusal.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: Refusal.UNAVAILABLE,
    grpc.StatusCode.INTERNAL: Refusal.OTHER,
}


def _refusal(error: exceptions.GoogleAPICallError) -> Refusal:
    """A zone without room and a project without quota have one status; the details differ."""
    if any(isinstance(one, error_details_pb2.QuotaFailure) for one in error.details):
        return Refusal.QUOTA
    return _BY_STATUS.get(error.grpc_status_code, Refusal.OTHER)


def _node(entry: TpuEntry, labels: Mapping[str, str], public_key: str) -> tpu_v2.Node:
    metadata = {"enable-guest-attributes": "TRUE"}
    if public_key:
        metadata["ssh-keys"] = public_key
    if entry.startup:
        metadata["startup-script"] = entry.startup
    return tpu_v2.Node(
        accelerator_type=entry.type,
        runtime_version=entry.runtime,
        network_config=tpu_v2.NetworkConfig(
            network=entry.network,
            subnetwork=entry.subnetwork,
            enable_external_ips=entry.external_ips,
        ),
        labels={**entry.labels, **labels},
        metadata=metadata,
    )


def _report(
    name: str, zone: str, node: tpu_v2.Node | None, queued: tpu_v2.QueuedResource | None
) -> SliceReport:
    """Addresses are external ones where there are any: then hosts are dialled from outside."""
    made, asked = node or tpu_v2.Node(), queued or tpu_v2.QueuedResource()
    state = made.state.name if node else ""
    request = asked.state.state.name if queued else ""
    health = made.health.name if made.health else ""
    wanted = [made] if node else [one.node for one in asked.tpu.node_spec]
    labels = dict(wanted[0].labels) if wanted else {}
    ends = made.network_endpoints
    addresses = (one.access_config.external_ip or one.ip_address for one in ends)
    initiator = tpu_v2.QueuedResourceState.StateInitiator
    return SliceReport(
        node=labels.get(NODE, ""),
        condition=condition(
            state,
            request,
            health=health,
            is_spot=made.scheduling_config.spot or made.scheduling_config.preemptible,
            is_by_service=asked.state.state_initiator == initiator.SERVICE,
        ),
        resource=name,
        zone=zone,
        type=made.accelerator_type,
        state=state,
        health=health,
        request=request,
        detail="; ".join(
            filter(None, (made.health_description, asked.state.failed_data.error.message))
        ),
        addresses=tuple(filter(None, addresses)),
        labels=labels,
    )


def _last(name: str) -> str:
    return name.rpartition("/")[2]
