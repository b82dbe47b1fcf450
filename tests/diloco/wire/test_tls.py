"""Mutual TLS between real processes' ends: who gets in, who does not, and what the syncer says."""

import queue
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.mailbox import Closed, Received
from chaoslab.diloco.wire.probe import Probe
from chaoslab.diloco.wire.streams import Limits
from chaoslab.diloco.wire.tls import Tls
from tests.diloco.hand_learner import running_syncer
from tests.diloco.wire.test_streams import HELLO, dialled, serving, taken, until

LEARNER = "learner-0"
PATIENCE_S = 60.0


def make_certificates(folder: Path) -> None:
    """Two authorities, `ca` and `other`, and certificates: files NAME.pem and NAME.key."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for authority in ("ca", "other"):
        openssl(
            "req", "-x509", *curve, "-keyout", f"{authority}.key", "-out", f"{authority}.pem",
            "-subj", f"/CN={authority}", "-days", "2",
        )  # fmt: skip
    for file, names, authority, days in (
        ("syncer", "DNS:syncer.test,IP:127.0.0.1", "ca", 2),
        ("learner-0", "DNS:learner-0", "ca", 2),
        ("learner-1", "DNS:learner-1", "ca", 2),
        ("stranger", "DNS:learner-0", "other", 2),
        ("expired", "DNS:learner-0", "ca", -1),
        ("plain", "", "ca", 2),
    ):
        (folder / "names").write_text(f"subjectAltName={names}" if names else "")
        openssl(
            "req", *curve, "-keyout", f"{file}.key", "-out", f"{file}.csr",
            "-subj", "/CN=learner-0" if not names else "/CN=somebody",
        )  # fmt: skip
        openssl(
            "x509", "-req", "-in", f"{file}.csr", "-CA", f"{authority}.pem",
            "-CAkey", f"{authority}.key", "-CAcreateserial", "-out", f"{file}.pem",
            "-days", str(days), "-extfile", "names",
        )  # fmt: skip


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("the openssl program makes the certificates of this test, and is not here")
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


def tls(folder: Path, name: str, *, ca: str = "ca", server_name: str = "") -> Tls:
    return Tls(
        ca=folder / f"{ca}.pem",
        certificate=folder / f"{name}.pem",
        key=folder / f"{name}.key",
        server_name=server_name,
    )


def test_a_probe_shows_its_certificate_too(certificates: Path) -> None:
    with serving(tls=tls(certificates, "syncer")) as (_, address):
        found: queue.Queue[float] = queue.Queue()
        Probe(address, found.put, tls=tls(certificates, LEARNER), period_s=0.1).start()
        assert found.get(timeout=PATIENCE_S) > 0


def test_a_certificate_without_alternative_names_counts_by_its_common_name(
    certificates: Path,
) -> None:
    with (
        serving(tls=tls(certificates, "syncer")) as (hub, address),
        dialled(address, tls=tls(certificates, "plain")),
    ):
        assert taken(hub.arrivals, Received).message == HELLO


@pytest.mark.parametrize(
    ("files", "reason"),
    [("stranger", "untrusted_certificate"), ("expired", "expired_certificate")],
)
def test_a_wrong_certificate_is_refused_and_journaled(
    certificates: Path, tmp_path: Path, files: str, reason: str
) -> None:
    with running_syncer(tmp_path, tls=tls(certificates, "syncer")) as syncer:
        with dialled(syncer.address, tls=tls(certificates, files)) as connection:
            taken(connection.arrivals, Closed)
        refused = syncer.told.wait(Kind.STREAM_REFUSED, reason=reason)
        assert str(refused["peer"]).startswith("127.0.0.1:")
        assert not syncer.told.of(Kind.MEMBER_JOINED)
    assert syncer.told.wait(Kind.SYNCER_FINAL)["turned_away"][reason] >= 1


def test_a_learner_does_not_speak_to_a_syncer_of_another_name_or_authority(
    certificates: Path,
) -> None:
    for ours in (
        tls(certificates, LEARNER, server_name="elsewhere.test"),
        tls(certificates, LEARNER, ca="other"),
    ):
        with serving(tls=tls(certificates, "syncer")) as (hub, address):
            with dialled(address, tls=ours) as connection:
                assert "unavailable" in taken(connection.arrivals, Closed).reason
            assert not hub.arrivals.items


def test_the_port_behind_it_is_for_nobody_else(certificates: Path) -> None:
    with serving(tls=tls(certificates, "syncer")) as (hub, _):
        assert hub._tls_listener is not None
        inner = Connection(f"127.0.0.1:{hub._tls_listener._inner_port}")
        inner.open()
        inner.send(HELLO)
        assert "unauthenticated" in taken(inner.arrivals, Closed).reason
        inner.close()
        assert hub.refusals.totals == {"no_tls": 1}
        with pytest.raises(queue.Empty):
            hub.arrivals.get(timeout=0)


def test_a_local_program_is_not_taken_for_a_learner_by_its_port(certificates: Path) -> None:
    """Its own port on another address of this machine may have a learner's number."""
    with (
        serving(tls=tls(certificates, "syncer")) as (hub, address),
        dialled(address, tls=tls(certificates, LEARNER)),
    ):
        taken(hub.arrivals, Received)
        listener = hub._tls_listener
        assert listener is not None
        (peer,) = listener._peers
        assert peer.startswith("ipv4:127.0.0.1:")
        identity = listener.identify(peer)
        assert identity is not None
        assert identity[0] == LEARNER
        assert listener.identify(peer.replace("127.0.0.1", "127.0.0.2")) is None


@pytest.mark.gate
def test_silent_connections_are_ended_and_keep_nobody_out(certificates: Path) -> None:
    with serving(Limits(hello_s=1.0), tls=tls(certificates, "syncer")) as (hub, address):
        host, _, port = address.rpartition(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(100)]
        ended = threading.Event()

        def wait_for_the_end() -> None:
            for one in silent:
                one.recv(1)
            ended.set()

        threading.Thread(target=wait_for_the_end, daemon=True).start()
        assert ended.wait(PATIENCE_S)
        with dialled(address, tls=tls(certificates, LEARNER)):
            assert until(hub.arrivals, Received).message == HELLO
        for one in silent:
            one.close()


def test_a_key_that_is_gone_ends_the_stream_and_not_the_learner(
    certificates: Path, tmp_path: Path
) -> None:
    """Its link tries again later, and says why."""
    shutil.copytree(certificates, tmp_path, dirs_exist_ok=True)
    connection = Connection("127.0.0.1:1", tls=tls(tmp_path, LEARNER))
    (tmp_path / "learner-0.key").unlink()
    connection.open()
    connection.send(HELLO)
    assert "learner-0.key" in taken(connection.arrivals, Closed).reason
    connection.close()


def test_tls_files_are_checked(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("not a certificate")
    with pytest.raises(ValueError, match=r"ca\.pem"):
        Hub("127.0.0.1:0", tls=tls(tmp_path, "syncer")).start()
