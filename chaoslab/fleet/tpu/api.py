"""Client of the Cloud TPU API: the one module that imports google.

    CloudTpu ── nodes, queued resources ──► v2         long-running operations are polled
             └─ simulated maintenance ────► v2alpha1   by their names, never waited for here

Each call has a deadline. Reads are repeated while the service is unavailable; calls that change
something are repeated only where the API recognises a repeated request. Errors are
`ProviderError`s with a code. `perform_maintenance` is never called: it is no simulation.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from chaoslab.fleet.provider import ProviderError, Refusal
from chaoslab.fleet.tpu.inventory import TpuEntry
from chaoslab.fleet.tpu.resources import Operation, Request, Slice

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
        self._channels: list[grpc.Channel] = []
        self._client = tpu_v2.TpuClient(transport=self._transport(TpuGrpcTransport, endpoint))
        self._alpha = tpu_v2alpha1.TpuClient(transport=self._transport(AlphaTransport, endpoint))

    def _transport(self, kind: Callable[..., _T], endpoint: str) -> _T:
        if endpoint:
            channel = grpc.insecure_channel(endpoint)
            self._channels.append(channel)
            return kind(channel=channel, credentials=AnonymousCredentials())
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
        for channel in self._channels:
            channel.close()

    # ---------------------------------------------------------------- reads

    def slices(self, zone: str) -> list[Slice]:
        """All nodes of a zone, also those of others."""
        asked = tpu_v2.ListNodesRequest(parent=self._parent(zone))
        call = self._client.list_nodes
        pages = self._repeated(lambda: _whole(call(asked, timeout=CALL_S).pages))
        return [_slice(one, zone) for page in pages for one in page.nodes]

    def requests(self, zone: str) -> list[Request]:
        """All queued resources of a zone, also those of others."""
        asked = tpu_v2.ListQueuedResourcesRequest(parent=self._parent(zone))
        call = self._client.list_queued_resources
        pages = self._repeated(lambda: _whole(call(asked, timeout=CALL_S).pages))
        return [_request(one, zone) for page in pages for one in page.queued_resources]

    def operation(self, name: str) -> Operation:
        """State of an operation."""
        asked = operations_pb2.GetOperationRequest(name=name)
        found = self._repeated(lambda: self._client.get_operation(asked, timeout=CALL_S))
        failed = found.done and found.HasField("error")
        return Operation(
            name=name,
            is_done=found.done,
            refusal=_refusal_of_code(found.error.code) if failed else None,
            detail=found.error.message if failed else "",
        )

    def host_keys(self, zone: str, slice_id: str) -> list[tuple[str, ...]]:
        """Public host keys that the hosts of a slice have published, worker 0 first; none of a
        slice whose hosts have published nothing yet.
        """
        asked = tpu_v2.GetGuestAttributesRequest(
            name=f"{self._parent(zone)}/nodes/{slice_id}", query_path=_HOST_KEYS
        )
        try:
            found = self._repeated(lambda: self._client.get_guest_attributes(asked, timeout=CALL_S))
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
        request_id: str,
        slice_id: str,
        labels: Mapping[str, str],
        public_key: str,
        within_s: float,
    ) -> str:
        """Queue a request for one slice; returns the name of the operation.

        The request fails by itself when it was not served `within_s`.
        """
        node = _node(entry, labels, public_key)
        parent = self._parent(entry.zone)
        spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=parent, node_id=slice_id, node=node)
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
            queued_resource_id=request_id,
            queued_resource=queued,
            request_id=str(uuid.uuid4()),
        )
        return self._name(self._repeated(
            lambda: self._client.create_queued_resource(asked, timeout=CALL_S)))  # fmt: skip

    def delete_request(self, zone: str, request_id: str) -> str:
        """Delete a queued resource with its slices."""
        asked = tpu_v2.DeleteQueuedResourceRequest(
            name=f"{self._parent(zone)}/queuedResources/{request_id}",
            request_id=str(uuid.uuid4()),
            force=True,
        )
        return self._name(self._repeated(
            lambda: self._client.delete_queued_resource(asked, timeout=CALL_S)))  # fmt: skip

    def delete_slice(self, zone: str, slice_id: str) -> str:
        """Delete a node; its queued resource stays."""
        return self._change(self._client.delete_node, tpu_v2.DeleteNodeRequest, zone, slice_id)

    def stop_slice(self, zone: str, slice_id: str) -> str:
        """Stop a node."""
        return self._change(self._client.stop_node, tpu_v2.StopNodeRequest, zone, slice_id)

    def start_slice(self, zone: str, slice_id: str) -> str:
        """Start a node that is stopped."""
        return self._change(self._client.start_node, tpu_v2.StartNodeRequest, zone, slice_id)

    def simulate_maintenance(self, zone: str, slice_id: str) -> str:
        """Let the API simulate a maintenance event on worker 0 of a node."""
        return self._change(
            self._alpha.simulate_maintenance_event,
            tpu_v2alpha1.SimulateMaintenanceEventRequest,
            zone,
            slice_id,
        )

    def _change(
        self, call: Callable[..., Any], request: Callable[..., Any], zone: str, slice_id: str
    ) -> str:
        asked = request(name=f"{self._parent(zone)}/nodes/{slice_id}")
        return self._name(_told(lambda: call(asked, timeout=CALL_S)))

    # ---------------------------------------------------------------- inside

    def _parent(self, zone: str) -> str:
        return f"projects/{self.project}/locations/{zone}"

    @staticmethod
    def _name(operation: Any) -> str:
        return str(operation.operation.name)

    @staticmethod
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


def _whole(pages: Iterable[Any]) -> list[Any]:
    """All pages of a listing. ProviderError if the service could not look everywhere: what it does
    not list may be there.
    """
    found = list(pages)
    if places := [place for page in found for place in page.unreachable]:
        raise ProviderError(
            Refusal.UNAVAILABLE, f"Cloud TPU API: it does not reach {', '.join(places)}"
        )
    return found


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


def _refusal_of_code(code: int) -> Refusal:
    status = next((one for one in grpc.StatusCode if one.value[0] == code), None)
    return _BY_STATUS.get(status, Refusal.OTHER) if status else Refusal.OTHER


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


def _slice(node: tpu_v2.Node, zone: str) -> Slice:
    return Slice(
        id=_last(node.name),
        zone=zone,
        state=node.state.name,
        health=node.health.name if node.health else "",
        detail=node.health_description,
        addresses=tuple(_addresses(node)),
        labels=dict(node.labels),
        request=_last(node.queued_resource),
        is_spot=node.scheduling_config.spot or node.scheduling_config.preemptible,
        type=node.accelerator_type,
    )


def _addresses(node: tpu_v2.Node) -> Iterator[str]:
    """External ones where it has them: then it is dialled from outside of the network."""
    for endpoint in node.network_endpoints:
        address = endpoint.access_config.external_ip or endpoint.ip_address
        if address:
            yield address


def _request(queued: tpu_v2.QueuedResource, zone: str) -> Request:
    specs: Sequence[tpu_v2.QueuedResource.Tpu.NodeSpec] = queued.tpu.node_spec
    initiator = tpu_v2.QueuedResourceState.StateInitiator
    return Request(
        id=_last(queued.name),
        zone=zone,
        state=queued.state.state.name,
        is_by_service=queued.state.state_initiator == initiator.SERVICE,
        detail=queued.state.failed_data.error.message,
        slices=tuple(one.node_id for one in specs),
        labels=dict(specs[0].node.labels) if specs else {},
    )


def _last(name: str) -> str:
    return name.rpartition("/")[2]
