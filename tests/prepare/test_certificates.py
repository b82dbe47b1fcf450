"""Certificates of a run's nodes: off loopback only they get in, each under its own name."""

import math
import socket
import ssl
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from chaoslab.core.errors import AbilityError
from chaoslab.core.events import Kind
from chaoslab.diloco.learner import options as learner_options
from chaoslab.diloco.syncer import options as syncer_options
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.frames import frame_of
from chaoslab.diloco.wire.identity import RefusalReason
from chaoslab.diloco.wire.mailbox import Closed
from chaoslab.diloco.wire.streams import METHOD
from chaoslab.diloco.wire.tls import Tls, tls_of
from chaoslab.fleet.authority import MARGIN, Authority
from chaoslab.fleet.base import NodeSite, NodeSpec
from chaoslab.plan.model import FaultPlan, Limits, Training
from chaoslab.prepare.launch import Launch
from tests.diloco.hand_learner import HandLearner, RunningSyncer, running_syncer
from tests.diloco.wire.test_streams import serving, taken

LEARNERS = ("learner-0", "learner-1", "learner-2")
PLAN = FaultPlan(name="far", seed=7, training=Training(learners=3), limits=Limits(timeout_s=300.0))
FAR = NodeSite(listen="0.0.0.0:4600")
HELLO = pb.FromLearner(hello=pb.Hello(learner="learner-0", incarnation=1))


def launch(plan: FaultPlan = PLAN, site: NodeSite = FAR) -> Launch:
    return Launch(plan=plan, snapshots=Path("snapshots"), tokens=Path("tokens"), node_site=site)


class Placed:
    """What the nodes of a run are started with, its private files in folders of their own."""

    def __init__(self, folder: Path, run: Launch) -> None:
        self.folder = folder
        specs = (run.syncer(), *run.learners(dict.fromkeys(LEARNERS, "proxy:4701")))
        self.specs = {spec.name: spec for spec in specs}

    def tls(self, node: str, **changes: Path | str) -> Tls:
        """As the node's own program reads it from its command line."""
        spec, private = self.specs[node], self.folder / node
        private.mkdir(parents=True, exist_ok=True)
        for name, content in spec.private_files.items():
            (private / name).write_bytes(content)
        module = syncer_options if node == "syncer" else learner_options
        words = [word.replace("{private}", str(private)) for word in spec.command[3:]]
        words = [word.replace("{incarnation}", "1") for word in words]
        found = tls_of(module.parser().parse_args(words))
        assert isinstance(found, Tls)
        return replace(found, **changes)  # type: ignore[arg-type]  # of a known dataclass


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Placed:
    return Placed(tmp_path_factory.mktemp("run"), launch())


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Placed:
    """Another run of the same plan."""
    return Placed(tmp_path_factory.mktemp("other"), launch())


@pytest.fixture
def syncer(placed: Placed, tmp_path: Path) -> Iterator[RunningSyncer]:
    with running_syncer(tmp_path, tls=placed.tls("syncer")) as running:
        yield running


# ---------------------------------------------------------------- who needs them


@pytest.mark.parametrize(
    ("listen", "is_far"),
    [
        *((here, False) for here in ("127.0.0.1:0", "localhost:4600", "[::1]:0")),
        *((far, True) for far in ("0.0.0.0:4600", "[::]:0", "10.0.0.2:4600", "syncer.example:1")),
    ],
)
def test_nodes_have_tokens_on_loopback_and_a_certificate_of_their_own_elsewhere(
    listen: str, is_far: bool
) -> None:
    run = launch(site=NodeSite(listen=listen))
    specs = (run.syncer(), *run.learners(dict.fromkeys(LEARNERS, "proxy:1")))
    for spec in specs:
        words = " ".join(spec.command)
        assert (" --tls" in words, " --token" in words) == (is_far, not is_far)
    assert len({spec.private_files.get("key.pem") for spec in specs}) == (4 if is_far else 1)
    assert len({spec.private_files.get("ca.pem") for spec in specs}) == 1


def test_the_authoritys_key_is_given_to_nobody(placed: Placed) -> None:
    for spec in placed.specs.values():
        assert sorted(spec.private_files) == ["ca.pem", "certificate.pem", "key.pem"]
        public = spec.private_files["ca.pem"] + spec.private_files["certificate.pem"]
        assert "PRIVATE" not in public.decode() + repr(spec) + "".join(spec.command)
    assert not launch().evaluator().private_files, "it only reads snapshots"


def test_those_that_may_join_later_have_theirs_from_the_start() -> None:
    plan = replace(PLAN, training=Training(learners=2, reserve=1))
    (spec,) = launch(plan).reserve({"learner-2": "proxy:1"})
    assert names_in(spec) == ["learner-2"]


def test_only_who_needs_certificates_needs_their_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.delitem(sys.modules, "chaoslab.fleet.authority")
    assert launch(site=NodeSite()).syncer()
    with pytest.raises(AbilityError, match="pip install 'cryptography"):
        launch()


# ---------------------------------------------------------------- what they say


def names_in(spec: NodeSpec) -> list[str]:
    extension = certificate_of(spec).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return extension.value.get_values_for_type(x509.DNSName)


def certificate_of(spec: NodeSpec) -> x509.Certificate:
    return x509.load_pem_x509_certificate(spec.private_files["certificate.pem"])


def test_each_names_its_node_alone_and_one_end_for_as_long_as_the_run_may_take(
    placed: Placed,
) -> None:
    now = datetime.now(UTC)
    for name, spec in placed.specs.items():
        assert names_in(spec) == [name]
        certificate = certificate_of(spec)
        use = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
        ends = {"syncer": ExtendedKeyUsageOID.SERVER_AUTH}
        assert list(use.value) == [ends.get(name, ExtendedKeyUsageOID.CLIENT_AUTH)]
        assert certificate.not_valid_before_utc <= now - MARGIN + timedelta(minutes=1)
        limit = timedelta(seconds=PLAN.limits.timeout_s)
        assert limit < certificate.not_valid_after_utc - now <= limit + MARGIN


@pytest.mark.parametrize("timeout_s", [1e9, 1e300, math.inf])
def test_a_time_limit_may_be_any_number(timeout_s: float) -> None:
    run = launch(replace(PLAN, limits=Limits(timeout_s=timeout_s)))
    left = certificate_of(run.syncer()).not_valid_after_utc - datetime.now(UTC)
    assert left > timedelta(days=3650)


# ---------------------------------------------------------------- who gets in


def test_learners_of_the_run_get_in_also_through_a_proxys_address(
    syncer: RunningSyncer, placed: Placed
) -> None:
    assert placed.tls("learner-0").server_name == "syncer"
    for name, incarnation in (*((name, 1) for name in LEARNERS), (LEARNERS[0], 2)):
        learner = HandLearner(syncer, name, incarnation, tls=placed.tls(name))
        learner.join()
        learner.close()
    assert not syncer.hub.refusals.totals


def refused(syncer: RunningSyncer, tls: Tls | None, reason: RefusalReason) -> None:
    """The syncer says why, and nobody joins."""
    connection = Connection(syncer.address, tls=tls)
    connection.open()
    connection.send(HELLO)
    taken(connection.arrivals, Closed)
    connection.close()
    syncer.told.wait(Kind.STREAM_REFUSED, reason=reason.value)
    assert not syncer.told.of(Kind.MEMBER_JOINED)


def test_without_a_certificate_nobody_gets_in(syncer: RunningSyncer, placed: Placed) -> None:
    trust = grpc.ssl_channel_credentials(placed.specs["learner-0"].private_files["ca.pem"])
    name = [("grpc.ssl_target_name_override", "syncer")]
    with (
        grpc.secure_channel(syncer.address, trust, options=name) as channel,
        pytest.raises(grpc.RpcError),
    ):
        list(channel.stream_stream(METHOD)(iter([frame_of(HELLO)])))
    syncer.told.wait(Kind.STREAM_REFUSED, reason=RefusalReason.NO_CERTIFICATE.value)
    assert not syncer.told.of(Kind.MEMBER_JOINED)


@pytest.mark.parametrize(
    ("of_whom", "reason"),
    [
        ("nobody", RefusalReason.NO_TLS),
        ("another run", RefusalReason.UNTRUSTED_CERTIFICATE),
        ("the syncer", RefusalReason.UNTRUSTED_CERTIFICATE),
    ],
)
def test_with_no_certificate_of_a_learner_of_the_run_nobody_gets_in(
    syncer: RunningSyncer, placed: Placed, strange: Placed, of_whom: str, reason: RefusalReason
) -> None:
    ours = placed.tls("learner-0").ca
    made = {
        "nobody": None,
        "another run": strange.tls("learner-0", ca=ours),
        "the syncer": placed.tls("syncer", server_name="syncer"),
    }
    refused(syncer, made[of_whom], reason)


def test_another_learners_certificate_does_not_give_its_name(
    syncer: RunningSyncer, placed: Placed
) -> None:
    liar = HandLearner(syncer, "learner-0", tls=placed.tls("learner-1"))
    liar.hello()
    liar.hear("refused")
    told = syncer.told.wait(Kind.STREAM_REFUSED, reason=RefusalReason.OTHER_NAME.value)
    assert (told["claimed"], told["known_as"]) == ("learner-0", "learner-1")
    assert not syncer.told.of(Kind.MEMBER_JOINED)
    liar.close()


def test_a_certificate_whose_run_is_over_is_refused(placed: Placed, tmp_path: Path) -> None:
    """The authority is the syncer's own: what it signed long ago, for a short run."""
    old = Authority(60.0, now=datetime.now(UTC) - timedelta(days=1))
    expired = issued(tmp_path, old, "learner-0")
    expired = replace(expired, ca=placed.tls("learner-0").ca)
    trusting = replace(placed.tls("syncer"), ca=tmp_path / "learner-0" / "ca")
    with running_syncer(tmp_path / "syncer", tls=trusting) as syncer:
        refused(syncer, expired, RefusalReason.EXPIRED_CERTIFICATE)


def issued(folder: Path, authority: Authority, node: str) -> Tls:
    """Files of a node that an authority of the test's own has signed."""
    made = authority.issue(node, serves=node == "syncer")
    contents = {"ca": made.ca, "certificate": made.certificate, "key": made.key}
    (folder / node).mkdir()
    for name, content in contents.items():
        (folder / node / name).write_bytes(content)
    return Tls(**{name: folder / node / name for name in contents}, server_name="syncer")


@pytest.mark.parametrize("margins", [-0.9, 0.9])
def test_the_harness_may_have_a_clock_that_differs_by_less_than_the_margin(
    tmp_path: Path, margins: float
) -> None:
    authority = Authority(60.0, now=datetime.now(UTC) + margins * MARGIN)
    with running_syncer(tmp_path / "state", tls=issued(tmp_path, authority, "syncer")) as syncer:
        learner = HandLearner(syncer, "learner-0", tls=issued(tmp_path, authority, "learner-0"))
        learner.join()
        learner.close()
        assert not syncer.hub.refusals.totals


@pytest.mark.parametrize("margins", [-1.2, 1.2])
def test_with_a_clock_that_differs_by_more_a_learner_says_that_it_does_not_trust_the_syncer(
    tmp_path: Path, margins: float
) -> None:
    authority = Authority(60.0, now=datetime.now(UTC) + margins * MARGIN)
    with serving(tls=issued(tmp_path, authority, "syncer")) as (hub, address):
        connection = Connection(address, tls=issued(tmp_path, authority, "learner-0"))
        connection.open()
        connection.send(HELLO)
        assert "CERTIFICATE_VERIFY_FAILED" in taken(connection.arrivals, Closed).reason
        connection.close()
        assert not hub.arrivals.items


def test_who_says_so_before_it_leaves_is_counted_as_that(
    syncer: RunningSyncer, strange: Placed
) -> None:
    """As the probe of a learner does; grpc leaves without a word."""
    theirs = strange.tls("learner-0")
    context = ssl.create_default_context(cafile=str(theirs.ca))
    context.load_cert_chain(theirs.certificate, theirs.key)
    host, _, port = syncer.address.rpartition(":")
    with (
        socket.create_connection((host, int(port))) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        context.wrap_socket(plain, server_hostname="syncer")
    syncer.told.wait(Kind.STREAM_REFUSED, reason=RefusalReason.SYNCER_NOT_TRUSTED.value)


@pytest.mark.parametrize("whose", ["learner-1", "another run's syncer"])
def test_a_learner_speaks_to_no_syncer_but_that_of_its_run(
    placed: Placed, strange: Placed, whose: str
) -> None:
    ca = placed.tls("learner-0").ca
    impostor = placed.tls(whose) if whose in placed.specs else strange.tls("syncer", ca=ca)
    with serving(tls=impostor) as (hub, address):
        connection = Connection(address, tls=placed.tls("learner-0"))
        connection.open()
        connection.send(HELLO)
        assert "unavailable" in taken(connection.arrivals, Closed).reason
        connection.close()
        assert not hub.arrivals.items
