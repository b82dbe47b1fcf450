"""Fake of the Cloud TPU API: Google's own messages over a real gRPC server, a cloud in memory.

    CloudTpu ── gRPC on loopback ──► FakeCloud: nodes, queued resources, operations
                                        └─ gone(node id) ──► whoever plays its hosts

It keeps the documented life of queued resources and nodes, in the times that a test sets, and goes
wrong as the cloud does: quota, zones without room, preemption, states that come late or are wrong,
outages. What happens later is done when its time has come and somebody asks, or `settle` is called.
"""

import heapq
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import grpc
from google.cloud import tpu_v2, tpu_v2alpha1
from google.longrunning import operations_pb2
from google.protobuf import any_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from chaoslab.fleet.remote.slices import accelerator

State = tpu_v2.Node.State
Health = tpu_v2.Node.Health
Queued = tpu_v2.QueuedResourceState.State
Initiator = tpu_v2.QueuedResourceState.StateInitiator
_PAGE = 2
"""So small that every listing has several pages."""
_UNPLACED = (Queued.ACCEPTED, Queued.WAITING_FOR_RESOURCES)


class Refused(Exception):
    """An error that the client gets, with its details."""

    def __init__(self, code: int, message: str, *details: Any) -> None:
        super().__init__(message)
        self.status = status_pb2.Status(code=code, message=message)
        for one in details:
            packed = any_pb2.Any()
            packed.Pack(one)
            self.status.details.append(packed)


@dataclass
class Times:
    """How long the cloud takes, in s."""

    queue_s: float = 0.0
    create_s: float = 0.0
    delete_s: float = 0.0
    stop_s: float = 0.0
    maintenance_s: float = 0.0
    report_lag_s: float = 0.0
    """States are told so late."""


@dataclass
class FakeCloud:
    """One project. Public fields may be changed by a test at any time."""

    project: str = "my-project"
    clock: Callable[[], float] = time.monotonic
    times: Times = field(default_factory=Times)
    quota_chips: int | None = None
    stock_chips: dict[str, int] = field(default_factory=dict)
    """By zone; a zone that is not named has room for all."""
    outage: grpc.StatusCode | None = None
    """Every call ends with this."""
    unreachable: list[str] = field(default_factory=list)
    """Zones that listings do not reach: they are told as such, and nothing in them is listed."""
    is_mute: bool = False
    """Calls are carried out, and nobody gets an answer."""
    fails_late: dict[str, int] = field(default_factory=dict)
    """By verb of an operation, such as "create": it is accepted, does nothing, and ends with an
    error of this code.
    """
    gone: Callable[[str], None] = lambda _: None
    """Called with a node id when its hosts are lost."""
    addresses: Callable[[str, int], str] = lambda _, worker: f"10.0.0.{worker + 2}"
    host_key: Callable[[str, int], str] = lambda _, worker: f"AAAA{worker}"
    """The ed25519 key that a host of a slice publishes, by node id and worker."""
    calls: list[str] = field(default_factory=list)
    """Names of the methods that were called."""

    def __post_init__(self) -> None:
        self.nodes: dict[str, tpu_v2.Node] = {}
        self.queue: dict[str, tpu_v2.QueuedResource] = {}
        self.operations: dict[str, operations_pb2.Operation] = {}
        self._told: dict[str, list[tuple[float, State]]] = {}
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order, self._ids = count(), count(1000)
        self._by_request_id: dict[str, str] = {}
        self._begun_s = int(time.time())
        """When all nodes were created: no test depends on how long that takes."""

    # ---------------------------------------------------------------- what happens to it

    def preempt(self, node_id: str) -> None:
        """Take a slice away: its hosts are lost, its request is suspended by the service."""
        node = self._node(node_id)
        self._move(node, State.PREEMPTED)
        self.gone(node_id)
        queued = self.queue.get(node.queued_resource)
        if queued is not None:
            self._turn(queued, Queued.SUSPENDING, by=Initiator.SERVICE)
            self._later(self.times.delete_s, lambda: self._suspended(queued))

    def add_foreign(self, zone: str, node_id: str, **labels: str) -> None:
        """A slice that somebody else made."""
        name = f"projects/{self.project}/locations/{zone}/nodes/{node_id}"
        self.nodes[name] = tpu_v2.Node(
            name=name, accelerator_type="v5litepod-1", labels=labels, state=State.READY
        )
        self._told[name] = [(self.clock(), State.READY)]

    def settle(self) -> None:
        """Do what is due."""
        while self._agenda and self._agenda[0][0] <= self.clock():
            heapq.heappop(self._agenda)[2]()
        self._place()

    @property
    def ids(self) -> list[str]:
        """Ids of all nodes."""
        return [name.rpartition("/")[2] for name in self.nodes]

    # ---------------------------------------------------------------- queued resources

    def create_queued_resource(
        self, asked: tpu_v2.CreateQueuedResourceRequest
    ) -> operations_pb2.Operation:
        if asked.request_id in self._by_request_id:
            return self.operations[self._by_request_id[asked.request_id]]
        name = f"{asked.parent}/queuedResources/{asked.queued_resource_id}"
        if name in self.queue:
            raise Refused(code_pb2.ALREADY_EXISTS, f"{name} already exists")
        queued = tpu_v2.QueuedResource(asked.queued_resource)
        self._require_quota(queued)
        if "create" in self.fails_late:
            return self._operation(0.0, "create", name)
        queued.name = name
        self.queue[name] = queued
        self._turn(queued, Queued.CREATING)
        self._later(0.0, lambda: self._turn(queued, Queued.ACCEPTED))
        self._later(self.times.queue_s, lambda: self._wait(queued))
        if "valid_until_duration" in queued.queueing_policy:
            limit_s = queued.queueing_policy.valid_until_duration.total_seconds()
            self._later(limit_s, lambda: self._expire(queued))
        operation = self._operation(0.0, "create", name, queued)
        self._by_request_id[asked.request_id] = operation.name
        return operation

    def delete_queued_resource(
        self, asked: tpu_v2.DeleteQueuedResourceRequest
    ) -> operations_pb2.Operation:
        queued = self._queued(asked.name)
        may = (Queued.ACCEPTED, Queued.FAILED, Queued.SUSPENDED)
        if not asked.force and queued.state.state not in may:
            raise Refused(code_pb2.FAILED_PRECONDITION, "the queued resource has nodes: use force")
        if "delete" in self.fails_late:
            return self._operation(0.0, "delete", asked.name)
        self._turn(queued, Queued.DELETING)
        for node in [one for one in self.nodes.values() if one.queued_resource == asked.name]:
            self._end(node)
        self._later(self.times.delete_s, lambda: self.queue.pop(asked.name, None))
        return self._operation(self.times.delete_s, "delete", asked.name)

    def list_queued_resources(
        self, asked: tpu_v2.ListQueuedResourcesRequest
    ) -> tpu_v2.ListQueuedResourcesResponse:
        found, following, unreachable = self._page(asked, self.queue)
        return tpu_v2.ListQueuedResourcesResponse(
            queued_resources=found, next_page_token=following, unreachable=unreachable
        )

    def _page(self, asked: Any, things: dict[str, Any]) -> tuple[list[Any], str, list[str]]:
        """A page of what lies below the parent, the token of the next one, and what is not
        reached.
        """
        if asked.parent.rpartition("/")[2] in self.unreachable:
            return [], "", [asked.parent]
        found = [thing for name, thing in things.items() if name.startswith(f"{asked.parent}/")]
        begin = int(asked.page_token or 0)
        following = begin + _PAGE
        return found[begin:following], str(following) if following < len(found) else "", []

    # ---------------------------------------------------------------- nodes

    def list_nodes(self, asked: tpu_v2.ListNodesRequest) -> tpu_v2.ListNodesResponse:
        told = {name: self._as_told(node) for name, node in self.nodes.items()}
        found, following, unreachable = self._page(asked, told)
        return tpu_v2.ListNodesResponse(
            nodes=found, next_page_token=following, unreachable=unreachable
        )

    def delete_node(self, asked: tpu_v2.DeleteNodeRequest) -> operations_pb2.Operation:
        node = self._node(asked.name)
        if "delete" in self.fails_late:
            return self._operation(0.0, "delete", asked.name)
        self._end(node)
        queued = self.queue.get(node.queued_resource)
        if queued is not None:
            self._turn(queued, Queued.SUSPENDING, by=Initiator.USER)
            self._later(self.times.delete_s, lambda: self._suspended(queued))
        return self._operation(self.times.delete_s, "delete", asked.name)

    def stop_node(self, asked: tpu_v2.StopNodeRequest) -> operations_pb2.Operation:
        node = self._require(asked.name, State.READY)
        if "stop" in self.fails_late:
            return self._operation(0.0, "stop", asked.name)
        self._move(node, State.STOPPING)
        self.gone(_id(node))
        self._later(self.times.stop_s, lambda: self._move(node, State.STOPPED))
        return self._operation(self.times.stop_s, "stop", asked.name, node)

    def start_node(self, asked: tpu_v2.StartNodeRequest) -> operations_pb2.Operation:
        node = self._require(asked.name, State.STOPPED)
        self._move(node, State.STARTING)
        self._later(self.times.create_s, lambda: self._ready(node))
        return self._operation(self.times.create_s, "start", asked.name, node)

    def simulate_maintenance_event(
        self, asked: tpu_v2alpha1.SimulateMaintenanceEventRequest
    ) -> operations_pb2.Operation:
        node = self._require(asked.name, State.READY)
        self._move(node, State.REPAIRING)
        node.health = Health.UNHEALTHY_MAINTENANCE
        self.gone(_id(node))
        self._later(self.times.maintenance_s, lambda: self._ready(node))
        answer = tpu_v2alpha1.Node(name=node.name)
        return self._operation(0.0, "simulateMaintenanceEvent", asked.name, answer)

    def get_guest_attributes(
        self, asked: tpu_v2.GetGuestAttributesRequest
    ) -> tpu_v2.GetGuestAttributesResponse:
        node = self._node(asked.name)
        entry = tpu_v2.GuestAttributesEntry
        hosts = [
            tpu_v2.GuestAttributes(
                query_path=asked.query_path,
                query_value=tpu_v2.GuestAttributesValue(
                    items=[
                        entry(
                            namespace="hostkeys",
                            key="ssh-ed25519",
                            value=self.host_key(_id(node), worker),
                        )
                    ]
                ),
            )
            for worker in range(len(node.network_endpoints))
        ]
        return tpu_v2.GetGuestAttributesResponse(guest_attributes=hosts)

    def get_operation(self, asked: operations_pb2.GetOperationRequest) -> operations_pb2.Operation:
        if asked.name not in self.operations:
            raise Refused(code_pb2.NOT_FOUND, f"{asked.name} was not found")
        return self.operations[asked.name]

    # ---------------------------------------------------------------- what follows

    def _wait(self, queued: tpu_v2.QueuedResource) -> None:
        if queued.state.state is Queued.ACCEPTED:
            self._turn(queued, Queued.WAITING_FOR_RESOURCES)

    def _place(self) -> None:
        """Serve requests for which there is room, in the order in which they came."""
        for queued in list(self.queue.values()):
            if queued.state.state is Queued.WAITING_FOR_RESOURCES and self._has_room(queued):
                self._turn(queued, Queued.PROVISIONING)
                for spec in queued.tpu.node_spec:
                    self._create(spec, queued)

    def _create(
        self, spec: tpu_v2.QueuedResource.Tpu.NodeSpec, queued: tpu_v2.QueuedResource
    ) -> None:
        node = tpu_v2.Node(spec.node)
        node.name = f"{spec.parent}/nodes/{spec.node_id}"
        node.id, node.queued_resource = next(self._ids), queued.name
        node.create_time = Timestamp(seconds=self._begun_s)
        node.scheduling_config = tpu_v2.SchedulingConfig(spot="spot" in queued)
        self.nodes[node.name] = node
        self._move(node, State.CREATING)
        self._later(self.times.create_s, lambda: self._ready(node))

    def _ready(self, node: tpu_v2.Node) -> None:
        if self.nodes.get(node.name) is not node:
            return
        hosts = accelerator(node.accelerator_type).hosts
        node.network_endpoints = [
            tpu_v2.NetworkEndpoint(ip_address=self.addresses(_id(node), worker), port=8470)
            for worker in range(hosts)
        ]
        node.health = Health.HEALTHY
        self._move(node, State.READY)
        queued = self.queue.get(node.queued_resource)
        if queued is not None and queued.state.state is Queued.PROVISIONING:
            self._turn(queued, Queued.ACTIVE)

    def _end(self, node: tpu_v2.Node) -> None:
        had_hosts = node.state in (State.READY, State.REPAIRING)
        self._move(node, State.DELETING)
        if had_hosts:
            self.gone(_id(node))
        self._later(self.times.delete_s, lambda: self.nodes.pop(node.name, None))

    def _suspended(self, queued: tpu_v2.QueuedResource) -> None:
        if queued.state.state is Queued.SUSPENDING:
            self._turn(queued, Queued.SUSPENDED, by=queued.state.state_initiator)

    def _expire(self, queued: tpu_v2.QueuedResource) -> None:
        if queued.state.state in _UNPLACED:
            self._turn(queued, Queued.FAILED)
            error = status_pb2.Status(
                code=code_pb2.DEADLINE_EXCEEDED, message="no capacity in time"
            )
            queued.state.failed_data = tpu_v2.QueuedResourceState.FailedData(error=error)

    # ---------------------------------------------------------------- helpers

    def _later(self, after_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.clock() + after_s, next(self._order), action))

    def _move(self, node: tpu_v2.Node, state: State) -> None:
        node.state = state
        self._told.setdefault(node.name, []).append((self.clock(), state))

    @staticmethod
    def _turn(
        queued: tpu_v2.QueuedResource,
        state: Queued,
        *,
        by: Initiator = Initiator.STATE_INITIATOR_UNSPECIFIED,
    ) -> None:
        queued.state = tpu_v2.QueuedResourceState(state=state, state_initiator=by)

    def _as_told(self, node: tpu_v2.Node) -> tpu_v2.Node:
        """With the state that the API tells: perhaps late."""
        until_s = self.clock() - self.times.report_lag_s
        known = [state for at_s, state in self._told[node.name] if at_s <= until_s]
        told = tpu_v2.Node(node)
        told.state = known[-1] if known else State.CREATING
        return told

    def _operation(
        self, after_s: float, verb: str, target: str, response: Any = None
    ) -> operations_pb2.Operation:
        parent = "/".join(target.split("/")[:4])
        operation = operations_pb2.Operation(name=f"{parent}/operations/{verb}-{next(self._ids)}")
        metadata = tpu_v2.OperationMetadata(verb=verb, target=target)
        operation.metadata.Pack(tpu_v2.OperationMetadata.pb(metadata))
        self.operations[operation.name] = operation

        def finish() -> None:
            operation.done = True
            if verb in self.fails_late:
                told = status_pb2.Status(code=self.fails_late[verb], message=f"{verb}: too late")
                operation.error.CopyFrom(told)
            elif response is not None:
                operation.response.Pack(type(response).pb(response))

        self._later(after_s, finish)
        return operation

    def _require_quota(self, queued: tpu_v2.QueuedResource) -> None:
        if self.quota_chips is None:
            return
        wanted = _chips(queued)
        used = sum(
            _chips(one) for one in self.queue.values() if one.state.state is not Queued.SUSPENDED
        )
        if used + wanted > self.quota_chips:
            violation = error_details_pb2.QuotaFailure.Violation(
                subject=f"project:{self.project}", description="TPUS_PER_PROJECT"
            )
            raise Refused(
                code_pb2.RESOURCE_EXHAUSTED,
                f"Quota limit has been exceeded. Limit: {self.quota_chips}",
                error_details_pb2.QuotaFailure(violations=[violation]),
            )

    def _has_room(self, queued: tpu_v2.QueuedResource) -> bool:
        zone = queued.name.split("/")[3]
        if zone not in self.stock_chips:
            return True
        used = sum(
            accelerator(node.accelerator_type).chips
            for node in self.nodes.values()
            if f"/{zone}/" in node.name and node.state not in (State.PREEMPTED, State.DELETING)
        )
        return used + _chips(queued) <= self.stock_chips[zone]

    def _node(self, name: str) -> tpu_v2.Node:
        """By its id or its whole name."""
        for node in self.nodes.values():
            if name in (node.name, _id(node)):
                return node
        raise Refused(code_pb2.NOT_FOUND, f"{name} was not found")

    def _require(self, name: str, state: State) -> tpu_v2.Node:
        node = self._node(name)
        if node.state is not state:
            told = f"{name} is {node.state.name}, not {state.name}"
            raise Refused(code_pb2.FAILED_PRECONDITION, told)
        return node

    def _queued(self, name: str) -> tpu_v2.QueuedResource:
        if name not in self.queue:
            raise Refused(code_pb2.NOT_FOUND, f"{name} was not found")
        return self.queue[name]


def _id(node: tpu_v2.Node) -> str:
    return node.name.rpartition("/")[2]


def _chips(queued: tpu_v2.QueuedResource) -> int:
    return sum(accelerator(one.node.accelerator_type).chips for one in queued.tpu.node_spec)


# ---------------------------------------------------------------- the server

_V2 = {
    "ListNodes": (tpu_v2.ListNodesRequest, tpu_v2.ListNodesResponse),
    "DeleteNode": (tpu_v2.DeleteNodeRequest, None),
    "StopNode": (tpu_v2.StopNodeRequest, None),
    "StartNode": (tpu_v2.StartNodeRequest, None),
    "ListQueuedResources": (tpu_v2.ListQueuedResourcesRequest, tpu_v2.ListQueuedResourcesResponse),
    "CreateQueuedResource": (tpu_v2.CreateQueuedResourceRequest, None),
    "DeleteQueuedResource": (tpu_v2.DeleteQueuedResourceRequest, None),
    "GetGuestAttributes": (tpu_v2.GetGuestAttributesRequest, tpu_v2.GetGuestAttributesResponse),
}
_ALPHA = {
    "SimulateMaintenanceEvent": (tpu_v2alpha1.SimulateMaintenanceEventRequest, None),
}


@contextmanager
def served(cloud: FakeCloud) -> Iterator[str]:
    """Serve it on loopback; yields host:port."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    get = grpc.unary_unary_rpc_method_handler(
        _answer(cloud, "GetOperation"),
        request_deserializer=operations_pb2.GetOperationRequest.FromString,
        response_serializer=operations_pb2.Operation.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler("google.cloud.tpu.v2.Tpu", _methods(cloud, _V2)),
            grpc.method_handlers_generic_handler(
                "google.cloud.tpu.v2alpha1.Tpu", _methods(cloud, _ALPHA)
            ),
            grpc.method_handlers_generic_handler(
                "google.longrunning.Operations", {"GetOperation": get}
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def _methods(cloud: FakeCloud, table: dict[str, tuple[Any, Any]]) -> dict[str, Any]:
    return {
        name: grpc.unary_unary_rpc_method_handler(
            _answer(cloud, name),
            request_deserializer=request.deserialize,
            response_serializer=response.serialize
            if response is not None
            else operations_pb2.Operation.SerializeToString,
        )
        for name, (request, response) in table.items()
    }


def _answer(cloud: FakeCloud, name: str) -> Callable[[Any, grpc.ServicerContext], Any]:
    method = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)[1:]

    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        cloud.calls.append(name)
        if cloud.outage is not None:
            context.abort(cloud.outage, "the service is not available")
        cloud.settle()
        try:
            answered = getattr(cloud, method)(request)
        except Refused as refused:
            context.abort_with_status(rpc_status.to_status(refused.status))
        cloud.settle()
        if cloud.is_mute:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")
        return answered

    return answer
