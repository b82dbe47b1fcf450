"""A Toxiproxy server is found, or installed at the pinned version, or the error says how."""

import hashlib
import os
from pathlib import Path

import pytest

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.links.toxiproxy import server_binary
from chaoslab.links.toxiproxy.links import ToxiproxyLinks
from chaoslab.links.toxiproxy.server_binary import VERSION, find, install

PROGRAM = "toxiproxy-server"


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has nothing: an empty PATH and an empty cache."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_server_on_path_comes_before_the_cache(bare: Path) -> None:
    cached = program(bare / "cache" / f"toxiproxy-{VERSION}" / PROGRAM)
    assert find() == cached
    on_path = program(bare / "bin" / PROGRAM)
    assert find() == on_path


def test_without_a_server_the_error_says_how_to_get_one_and_nothing_is_started(bare: Path) -> None:
    with pytest.raises(AbilityError, match="doctor --fix") as refused:
        ToxiproxyLinks(bare / "run")
    assert "links: embedded" in str(refused.value)
    assert not (bare / "run").exists()


def test_a_server_on_another_machine_is_refused(bare: Path) -> None:
    with pytest.raises(AbilityError, match=r"198\.51\.100\.7"):
        ToxiproxyLinks(bare, address="198.51.100.7:8474")


GO = """#!/bin/sh
echo "$@" > {record}
printf '#!/bin/sh\\n' > "$GOBIN/server"
/bin/chmod +x "$GOBIN/server"
"""


def test_with_go_the_pinned_version_is_built_into_the_cache(bare: Path) -> None:
    record = bare / "asked"
    program(bare / "bin" / "go", GO.format(record=record))
    made = install()
    assert made == find()
    assert record.read_text().split()[-1].endswith(f"toxiproxy/v2/cmd/server@v{VERSION}")
    assert os.access(made, os.X_OK)


def test_a_build_that_fails_says_why_and_leaves_nothing(bare: Path) -> None:
    program(bare / "bin" / "go", "#!/bin/sh\necho no module proxy today >&2\nexit 1\n")
    with pytest.raises(FleetError, match="no module proxy today"):
        install()
    assert find() is None


def released(content: bytes, checksum: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve a release instead of the internet."""

    def fetch(address: str) -> bytes:
        if address.endswith("checksums.txt"):
            name = asked[0].rsplit("/", 1)[1]
            return f"{'0' * 64}  something-else\n{checksum}  {name}\n".encode()
        asked.append(address)
        return content

    asked: list[str] = []
    monkeypatch.setattr(server_binary, "_download", fetch)


def test_without_go_the_official_release_is_taken_if_its_checksum_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = b"#!/bin/sh\n"
    released(content, hashlib.sha256(content).hexdigest(), monkeypatch)
    made = install()
    assert made.read_bytes() == content
    assert find() == made


def test_a_release_with_another_checksum_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    released(b"something bad", "0" * 64, monkeypatch)
    with pytest.raises(FleetError, match="checksum"):
        install()
    assert find() is None


def test_a_release_that_cannot_be_reached_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_binary, "_RELEASES", "http://127.0.0.1:9")
    with pytest.raises(FleetError):
        install()
