"""Binary of a Toxiproxy server: found on this machine, or installed at a pinned version.

    find ──► PATH, else the cache ──► a binary, or None
    install ──► `go install` of the pinned version, else the official release with its checksum

Nothing is installed unasked: only `chaoslab doctor --fix` calls `install`.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from chaoslab.core.cache import cache_folder
from chaoslab.core.errors import FleetError
from chaoslab.core.terminal import last_lines

VERSION = "2.12.0"
"""The version that the conformance kit has passed with."""
_PROGRAM = "toxiproxy-server"
_MODULE = "github.com/Shopify/toxiproxy/v2"
_RELEASES = "https://github.com/Shopify/toxiproxy/releases/download"
_BUILD_S = 600.0
_FETCH_S = 60.0
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def find() -> Path | None:
    """A server's binary: on PATH, or in the cache."""
    found = shutil.which(_PROGRAM)
    if found is not None:
        return Path(found)
    cached = _place(VERSION)
    return cached if os.access(cached, os.X_OK) else None


def install(version: str = VERSION) -> Path:
    """Put that version into the cache and return its binary. FleetError says what was in the way.

    With a Go toolchain it is built from the module; otherwise the official release is fetched.
    UNVERIFIED: the official release could not be reached where this was written.
    """
    return _obtain(version, _place(version))


def static() -> Path:
    """A binary that needs no library beside it, as an image `FROM scratch` does; built if needed.

    FleetError says what was in the way. The official releases are static already.
    """
    target = _place(f"{VERSION}-static")
    if not os.access(target, os.X_OK):
        _obtain(VERSION, target)
    return target


def _obtain(version: str, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = _build(version, Path(scratch)) if shutil.which("go") else None
        (made or _fetch(version, Path(scratch))).replace(target)
    return target


def _place(version: str) -> Path:
    return cache_folder(f"toxiproxy-{version}") / _PROGRAM


def _build(version: str, scratch: Path) -> Path:
    """Build with `go install`; the module's program is called `server`."""
    command = (
        "go", "install", "-trimpath", "-ldflags", f"-s -w -X {_MODULE}.Version={version}",
        f"{_MODULE}/cmd/server@v{version}",
    )  # fmt: skip
    try:
        done = subprocess.run(
            command, env={**os.environ, "GOBIN": str(scratch), "CGO_ENABLED": "0"},
            capture_output=True, text=True, timeout=_BUILD_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FleetError(f"toxiproxy-server {version} could not be built: {error}") from error
    if done.returncode:
        words = last_lines(done.stderr)
        raise FleetError(f"toxiproxy-server {version} could not be built: {words}")
    return scratch / "server"


def _fetch(version: str, scratch: Path) -> Path:
    """The official binary, if it is the one that the release's list of checksums names."""
    system, machine = platform.system().lower(), platform.machine()
    name = f"{_PROGRAM}-{system}-{_MACHINES.get(machine, machine)}"
    content = _download(f"{_RELEASES}/v{version}/{name}")
    lines = _download(f"{_RELEASES}/v{version}/checksums.txt").decode().splitlines()
    asked = {line.split()[-1]: line.split()[0] for line in lines if line.strip()}.get(name)
    got = hashlib.sha256(content).hexdigest()
    if asked != got:
        raise FleetError(f"{name} has the checksum {got}, but its release names {asked}")
    binary = scratch / name
    binary.write_bytes(content)
    binary.chmod(0o755)
    return binary


def _download(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=_FETCH_S) as answer:  # noqa: S310 - https
            content: bytes = answer.read()
    except (OSError, urllib.error.URLError) as error:
        raise FleetError(
            f"{address} cannot be fetched ({error}): install a Go toolchain and try again, or put "
            f"{_PROGRAM} on PATH"
        ) from error
    return content
