"""Private files of containers: an archive that only the container's own user may read."""

import io
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.fleet.base import NodeSite
from tests.engine import DockerFleet, Engine

from chaoslab.fleet.docker.private_files import put_private_files  # isort: skip  # after the engine, which may skip all this
from chaoslab.fleet.docker.settings import ContainerFleets, Containers  # isort: skip

PASSWD = b"root:x:0:0:root:/root:/bin/sh\nbroken\napp:x:1234:1:,,,:/home/app:/bin/sh\n"


@dataclass
class Shelf:
    """An engine that keeps what it is given to unpack."""

    user_name: str = ""
    unpacked: dict[str, tuple[int, int, bytes]] = field(default_factory=dict)
    """By path: owner, mode and content."""

    def made_as(self, _container: str) -> SimpleNamespace:
        return SimpleNamespace(user=self.user_name)

    def read_file(self, _container: str, path: str) -> bytes:
        assert path == "/etc/passwd"
        return PASSWD

    def put_archive(self, _container: str, folder: str, archive: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for one in tar:
                content = tar.extractfile(one)
                self.unpacked[f"{folder}{one.name}"] = (
                    one.uid, one.mode, content.read() if content else b"",
                )  # fmt: skip


def put(engine: Shelf) -> None:
    files = {"ca.pem": b"ca", "key.pem": b"key"}
    put_private_files(engine, "c", "/run/chaoslab", files)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("user", "number"),
    [("", 0), ("0", 0), ("10001:10001", 10001), ("10001", 10001), ("app", 1234), ("app:app", 1234)],
)
def test_they_belong_to_the_user_of_the_container_alone(user: str, number: int) -> None:
    engine = Shelf(user)
    put(engine)
    assert engine.unpacked == {
        "/run/chaoslab": (number, 0o700, b""),
        "/run/chaoslab/ca.pem": (number, 0o600, b"ca"),
        "/run/chaoslab/key.pem": (number, 0o600, b"key"),
    }


def test_a_user_whom_the_image_does_not_know_is_refused() -> None:
    engine = Shelf("nobody-knows")
    with pytest.raises(FleetError, match="nobody-knows"):
        put(engine)
    assert not engine.unpacked


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.DIRTYPE])
def test_a_list_of_users_that_is_no_file_is_named(kind: bytes) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("passwd")
        entry.type, entry.linkname = kind, "/elsewhere"
        tar.addfile(entry)
    api = SimpleNamespace(get_archive=lambda *_: ([archive.getvalue()], {}))
    engine = Engine(SimpleNamespace(api=api), "unix:///x")  # type: ignore[arg-type]
    with pytest.raises(FleetError, match="/etc/passwd"):
        engine.read_file("c", "/etc/passwd")


def test_containers_are_never_asked_to_speak_plaintext() -> None:
    site = DockerFleet.node_site
    assert isinstance(site, NodeSite)
    assert site.needs_tls
    assert "--private-network" not in site.flags


def test_without_the_library_for_certificates_a_run_is_refused_before_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.delitem(sys.modules, "chaoslab.fleet.authority", raising=False)
    with pytest.raises(AbilityError, match="cryptography"):
        _ = ContainerFleets(containers=Containers(), data="").abilities


@pytest.mark.parametrize("name", ["a:b", "text:/etc:rw", "x:ro"])
def test_a_text_whose_name_an_engine_would_take_apart_is_refused(tmp_path: Path, name: str) -> None:
    text = tmp_path / name.replace("/", "_")
    text.write_text("some text")
    here = SimpleNamespace(is_local=True)
    with pytest.raises(AbilityError):
        ContainerFleets(containers=Containers(), data=str(text))._mounts(here)  # type: ignore[arg-type]
