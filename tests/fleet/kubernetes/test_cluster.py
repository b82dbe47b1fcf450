"""The connection to a cluster where the server, or what gives credentials, does not do its part."""

import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

import httpx2
from hypothesis import given, settings
from hypothesis import strategies as st
from lightkube.config.client_adapter import BearerTokenFileAuth
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import Status
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, CloseConnection, Request

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.fleet.kubernetes import cluster as connection
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.refusals import Refused
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.fleet.kubernetes.streams import LINE_MOST, ClusterClient, split
from tests.waiting import wait_until

CONFIG = """
current-context: here
clusters: [{name: here, cluster: {server: "https://127.0.0.1:9", insecure-skip-tls-verify: true}}]
contexts: [{name: here, context: {cluster: here, namespace: chaos%s}}]
users: [{name: me, user: {%s}}]
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_AGAIN_S", 0.0)


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, *facts: str) -> None:
    (folder / "kubeconfig").write_text(CONFIG % facts)
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster; `answering` says what its server answers."""
    written(tmp_path, monkeypatch, ", user: me", "token: t")
    cluster = Cluster.connect()
    yield cluster
    cluster.close()


@contextmanager
def answering(cluster: Cluster, *answers: httpx2.Response, **client: Any) -> Iterator[list[str]]:
    """The server gives these answers, then the last one for ever; yields what it was asked."""
    left, asked = list(answers), list[str]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.method} {request.url.path}")
        return left.pop(0) if len(left) > 1 else left[0]

    with ClusterClient(
        base_url="https://here", transport=httpx2.MockTransport(answer), **client
    ) as cluster._http:
        yield asked


POD = {"metadata": {"name": "p"}}
LEADER_CHANGED = {"kind": "Status", "status": "Failure", "message": "leader changed", "code": 500}
"""As the server says it while its etcd chooses another leader, or takes long."""


class Late(BearerTokenFileAuth):
    """Its file is written when it is read for the third time, if at all."""

    tries = -2

    def _read_token(self) -> str:
        self.tries += 1
        if self.tries == 1:
            Path(self._token_file).write_text("t")
        return super()._read_token()


def test_credentials_that_come_later_are_waited_for(here: Cluster, tmp_path: Path) -> None:
    auth = Late(str(tmp_path / "token"))
    with answering(here, httpx2.Response(200, json=POD), auth=auth) as asked:
        assert here.get(PODS, "p") == POD
    assert asked == ["GET /api/v1/namespaces/chaos/pods/p"]


def test_without_credentials_the_cluster_is_out_of_reach(here: Cluster, tmp_path: Path) -> None:
    auth = BearerTokenFileAuth(str(tmp_path / "none"))
    with answering(here, httpx2.Response(200, json={}), auth=auth) as asked:
        for ask in (here.version, lambda: list(here.lines(PODS, "", {}, silent_s=1.0))):
            with pytest.raises(FleetError, match=str(tmp_path)) as told:
                ask()
            assert not isinstance(told.value, Refused)
    assert asked == []


@pytest.mark.parametrize(("user", "facts"), [
    ("", "token: t"), (", user: me", "auth-provider: {name: gcp}"),
    (", user: me", "client-certificate: /none.crt, client-key: /none.key"),
])  # fmt: skip
def test_a_context_that_cannot_be_used_is_no_ability(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, facts: str
) -> None:
    written(tmp_path, monkeypatch, user, facts)
    with pytest.raises(AbilityError):
        Cluster.connect()


@pytest.mark.parametrize("answer", [
    httpx2.Response(200, text="<html>sign in</html>"),
    httpx2.Response(302, headers={"Location": "https://sign.in"}),
    httpx2.Response(403, text="blocked"),
])  # fmt: skip
def test_an_answer_that_is_no_servers_is_an_error_that_says_what_was_asked(
    here: Cluster, answer: httpx2.Response
) -> None:
    with answering(here, answer) as asked:
        with pytest.raises(FleetError, match="get pod p"):
            here.get(PODS, "p")
        with pytest.raises(FleetError, match="context here"):
            here.version()
    assert len(asked) == 2


FAILURE = httpx2.Response(500, json=LEADER_CHANGED)
DISPUTE = httpx2.Response(409, json={"reason": "Conflict", "code": 409, "message": "quota"})
JOB = {"kind": "Job", "metadata": {"name": "p"}}


@pytest.mark.parametrize(("ask", "failure"), [
    (lambda here: here.get(PODS, "p"), FAILURE), (lambda here: here.create(JOB), DISPUTE),
], ids=["read", "disputed quota"])  # fmt: skip
def test_what_failed_without_effect_is_asked_again(
    here: Cluster, ask: Callable[[Cluster], object], failure: httpx2.Response
) -> None:
    with answering(here, failure, failure, httpx2.Response(200, json=POD)) as asked:
        assert ask(here) == POD
    assert len(asked) == 3


def test_an_object_is_taken_for_its_own_only_after_an_answer_that_was_lost(here: Cluster) -> None:
    away = httpx2.Response(503, json={"code": 503, "message": "away"})
    there = httpx2.Response(409, json={"reason": "AlreadyExists", "code": 409, "message": "there"})
    with answering(here, away, there, httpx2.Response(200, json=POD)) as asked:
        assert here.create(JOB) == POD
    assert [one.partition(" ")[0] for one in asked] == ["POST", "POST", "GET"]
    with answering(here, there) as asked, pytest.raises(Refused, match="there"):
        here.create(JOB)
    assert len(asked) == 1
    gateway = httpx2.Response(409, text="<html>busy</html>")
    with answering(here, away, gateway), pytest.raises(FleetError, match="create job p"):
        here.create(JOB)


@pytest.mark.parametrize(("ask", "what"), [
    (lambda here: here.patch(PODS, "p", {}), "patch pod p"),
    (lambda here: here.create(JOB), "create job p"),
], ids=["patch", "create"])  # fmt: skip
def test_a_change_that_made_the_server_fail_is_not_asked_for_again(
    here: Cluster, ask: Callable[[Cluster], object], what: str
) -> None:
    with answering(here, FAILURE) as asked, pytest.raises(Refused, match=f"{what}: leader"):
        ask(here)
    assert len(asked) == 1


def test_a_command_is_for_the_nodes_container_and_is_not_repeated_once_it_was_refused(
    here: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[Any]()

    class Driver:
        def __init__(self, client: object, request: Any, **_: object) -> None:
            asked.append(request)

        def write_and_read(self, **_: object) -> None:
            said = Status(status="Failure", code=500, message="container not found")
            raise ApiError(status=said)

    monkeypatch.setattr(connection, "WebsocketDriver", Driver)
    with pytest.raises(Refused, match="pod p: container not found"):
        here.exec("p", ["true"])
    (request,) = asked
    assert request.params["container"] == "node", "or the server refuses where there are several"


@pytest.mark.parametrize(("code", "may_pass"), [(403, False), (429, True), (500, True)])
def test_a_refusal_says_whether_it_may_pass(here: Cluster, code: int, may_pass: bool) -> None:
    said = {"kind": "Status", "status": "Failure", "message": "no", "code": code}
    with answering(here, httpx2.Response(code, json=said)), pytest.raises(Refused) as refused:
        list(here.lines(PODS, "", {"watch": "true"}, silent_s=1.0))
    assert refused.value.may_pass is may_pass


@settings(max_examples=50)
@given(st.lists(st.text("a\n", max_size=9)), st.integers(1, 5), st.booleans())
def test_lines_of_a_stream_are_whole_or_cut_wherever_its_chunks_end(
    chunks: list[str], most: int, with_rest: bool
) -> None:
    *whole, rest = "".join(chunks).split("\n")
    expected = [line[:most].encode() for line in whole + ([rest] if with_rest and rest else [])]
    assert list(split((one.encode() for one in chunks), most, with_rest=with_rest)) == expected


def test_a_line_that_does_not_end_takes_no_more_memory_than_its_limit() -> None:
    begun = list[int]()

    def chunks() -> Iterator[bytes]:
        for _ in range(1000):
            yield b"x" * 65536
            begun.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        assert list(split(chunks(), LINE_MOST, with_rest=False)) == []
    finally:
        tracemalloc.stop()
    assert max(begun) < 2 * LINE_MOST


class LateClient(ClusterClient):
    """A client that says something only once the server has ended the conversation."""

    @contextmanager
    def websocket(self, url: str, **options: Any) -> Iterator[Any]:  # type: ignore[override]
        with super().websocket(url, **options) as session:
            wait_until(lambda: session.connection.state is not ConnectionState.OPEN)
            yield session


def ending_at_once(server: socket.socket) -> None:
    """What a server says of a command in a container that dies just then."""
    caller, _ = server.accept()
    with caller:
        peer = WSConnection(ConnectionType.SERVER)
        while not (asked := [one for one in peer.events() if isinstance(one, Request)]):
            peer.receive_data(caller.recv(65536))
        accepted = AcceptConnection(subprotocol=asked[0].subprotocols[0])
        caller.sendall(peer.send(accepted) + peer.send(CloseConnection(code=1000)))
        while caller.recv(65536):
            pass


def test_a_command_that_ends_before_it_was_told_its_input_is_an_error(here: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = threading.Thread(target=ending_at_once, args=(server,), daemon=True)
        other.start()
        host, port = server.getsockname()
        with (
            LateClient(base_url=f"http://{host}:{port}") as here._http,
            pytest.raises(FleetError, match="pod p"),
        ):
            here.exec("p", ["cat"], stdin=b"a line")
        other.join(60)
        assert not other.is_alive()
