"""Images that containers run: their names, what is in them, and how they are built.

    docker/Dockerfile, chaoslab/diloco … ─► content ─► chaoslab-node:0.2.0-3fa9c2e1b0d4
    BASE: an image with Python ─┬─ the official one, if it is here or can be fetched
                                └─ made of Debian packages (docker/base_from_debian.sh)

A tag carries the version and a hash of the recipe and the source, so a changed source is another
image and never runs as an old one. Nothing is built unasked, only by `chaoslab doctor images
build`.
"""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import chaoslab
from chaoslab.core.errors import FleetError
from chaoslab.core.terminal import last_lines
from chaoslab.fleet.docker.engine.engine import Engine
from chaoslab.links.toxiproxy import server_binary

NODE: Final = "chaoslab-node"
PROXY: Final = "chaoslab-toxiproxy"
TOOLS: Final = "chaoslab-tools"
HARNESS: Final = "chaoslab"
OFFICIAL_BASE: Final = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim-bookworm"
DEBIAN_BASE: Final = "chaoslab-base:bookworm"
_DEBIAN_TOOLS: Final = ("chaoslab-tools-base:bookworm", "conntrack,iproute2,iptables")
"""A base that has the tools already, and what makes it one."""
NEXT: Final = "next"
"""The release that `rolling_restart` upgrades to: the same content under another tag."""
_PACKAGE: Final = Path(chaoslab.__file__).parent
_INSIDE: Final = ("__init__.py", "core/__init__.py", "core/events.py", "core/link_meter.py",
                  "core/payloads", "core/protocol.py", "diloco", "links/__init__.py",
                  "links/proxy")  # fmt: skip
"""Of this package, what the run under test and the embedded proxy need."""
_BUILD_S: Final = 1200.0
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Source:
    """All that goes into the image of learner and syncer but wheels, read at one moment."""

    files: Mapping[str, bytes]
    """Content of the files in the build context, by name."""

    @property
    def content(self) -> str:
        """Hash of all files."""
        return _content(self.files)

    @property
    def image(self) -> str:
        """Name of the image."""
        return f"{NODE}:{chaoslab.__version__}-{self.content}"

    @property
    def next_image(self) -> str:
        """The image's name as that of the next release."""
        return f"{self.image}-{NEXT}"


def source() -> Source:
    """The source that runs here, as it stands now."""
    return Source({name: path.read_bytes() for name, path in _node_files().items()})


def proxy_image() -> str:
    """The image of the Toxiproxy server that chaoslab pins."""
    recipe = (_recipes() / "toxiproxy.Dockerfile").read_bytes()
    return f"{PROXY}:{server_binary.VERSION}-{_content({'Dockerfile': recipe})}"


def tools_image() -> str:
    """The image with iptables and tc, and the program that runs them."""
    return f"{TOOLS}:{chaoslab.__version__}-{_content(_tools_files())}"


def harness_image(made_of: Source) -> str:
    """The image of the harness on that of these nodes, for a gate in a cluster."""
    content = {name: path.read_bytes() for name, path in _harness_files().items()}
    return f"{HARNESS}:{chaoslab.__version__}-{_content({**content, **made_of.files})}"


def needed() -> tuple[str, ...]:
    """All of them, for exactly this source; only some links need the last."""
    made_of = source()
    return made_of.image, made_of.next_image, proxy_image(), tools_image()


def built_on(engine: Engine, made_of: Source) -> str | None:
    """Base of the image of learner and syncer; None if it does not exist."""
    if engine.image_id(made_of.image) is None:
        return None
    labels = engine.image_labels(made_of.image)
    return labels.get("org.opencontainers.image.base.name", "an unknown base")


def base_there(engine: Engine) -> str | None:
    """An image with Python that is on the engine already."""
    known = (OFFICIAL_BASE, DEBIAN_BASE)
    return next((name for name in known if engine.image_id(name) is not None), None)


def find_base(engine: Engine, asked: str | None) -> Iterator[str]:
    """Says what is tried, and last the name of an image with Python that is on the engine now.

    The one that is asked for, else the official one, else one made of Debian packages. FleetError
    says why none can be had.
    """
    if asked is not None:
        if engine.image_id(asked) is None:
            yield f"fetching {asked}"
            engine.pull(asked)
        yield asked
        return
    if found := base_there(engine):
        yield found
        return
    yield f"fetching {OFFICIAL_BASE}"
    try:
        engine.pull(OFFICIAL_BASE)
        yield OFFICIAL_BASE
    except FleetError as error:
        yield f"no registry ({error}): making {DEBIAN_BASE} of Debian packages"
        _make_debian_base(DEBIAN_BASE, because=error)
        yield DEBIAN_BASE


def build_node(
    engine: Engine, made_of: Source, base: str, wheels: Path | None, *, force: bool
) -> Iterator[str]:
    """Build the image of learner and syncer, if it is missing; yields progress."""
    name = made_of.image
    if engine.image_id(name) is not None and not force:
        yield f"{name} is there"
    else:
        with tempfile.TemporaryDirectory() as scratch:
            if wheels is None:
                wheels = Path(scratch)
                yield "collecting the wheels of what a learner needs"
                _collect_wheels(wheels, _recipes() / "requirements.txt")
            yield f"building {name} on {base}"
            yield from _build(
                engine, name, {**made_of.files, **_wheels(wheels, "docker/wheelhouse")},
                dockerfile="docker/Dockerfile",
                arguments={
                    "BASE": base, "VERSION": chaoslab.__version__, "CONTENT": made_of.content,
                },
            )  # fmt: skip
    if engine.image_id(made_of.next_image) is None or force:
        recipe = f'FROM {name}\nLABEL chaoslab.release="{NEXT}"\n'
        yield f"calling it {made_of.next_image}, too"
        yield from _build(engine, made_of.next_image, {"Dockerfile": recipe.encode()}, {})


def build_harness(
    engine: Engine, made_of: Source, base: str, wheels: Path | None, *, force: bool
) -> Iterator[str]:
    """Build the image of the harness on the one of its nodes, if it is not there."""
    name = harness_image(made_of)
    if engine.image_id(name) is not None and not force:
        yield f"{name} is there"
        return
    with tempfile.TemporaryDirectory() as scratch:
        if wheels is None:
            wheels = Path(scratch)
            yield "collecting the wheels of what the harness needs"
            _collect_wheels(wheels, _recipes() / "gate" / "requirements.txt")
        yield f"building {name} on {made_of.image}"
        files = {**_harness_files(), **_wheels(wheels, "wheelhouse")}
        arguments = {"BASE": base, "NODE": made_of.image, "VERSION": chaoslab.__version__}
        yield from _build(engine, name, files, arguments)


def build_proxy(engine: Engine, *, force: bool) -> Iterator[str]:
    """Build the image of the Toxiproxy server, if it is not there."""
    name = proxy_image()
    if engine.image_id(name) is not None and not force:
        yield f"{name} is there"
        return
    yield f"obtaining toxiproxy-server {server_binary.VERSION}, linked statically"
    files: dict[str, Path | bytes] = {
        "Dockerfile": _recipes() / "toxiproxy.Dockerfile",
        "toxiproxy-server": server_binary.static(),
    }
    yield f"building {name}"
    yield from _build(engine, name, files, {"VERSION": server_binary.VERSION})


def build_tools(engine: Engine, base: str, *, force: bool) -> Iterator[str]:
    """Build the image of the network tools, if it is not there.

    By packages that are fetched from within a container, or, where none can be, by a base that this
    machine makes of them. FleetError if there is no way.
    """
    if engine.image_id(name := tools_image()) is not None and not force:
        yield f"{name} is there"
        return
    try:
        yield from _build_tools(engine, base)
    except FleetError as error:
        own, packages = _DEBIAN_TOOLS
        yield f"no packages in a container ({error}): making {own} of them"
        _make_debian_base(own, packages, because=error)
        yield from _build_tools(engine, own)


def _build_tools(engine: Engine, base: str) -> Iterator[str]:
    name, arguments = tools_image(), {"BASE": base, "VERSION": chaoslab.__version__}
    yield f"building {name} on {base}"
    yield from _build(engine, name, _tools_files(), arguments, has_network=True)


def _build(
    engine: Engine,
    name: str,
    files: Mapping[str, "Path | bytes"],
    arguments: Mapping[str, str],
    *,
    dockerfile: str = "Dockerfile",
    has_network: bool = False,
) -> Iterator[str]:
    with _archive(files) as context:
        yield from engine.build(
            context, dockerfile=dockerfile, name=name, arguments=arguments, has_network=has_network
        )


# ---------------------------------------------------------------- what goes in


def _recipes() -> Path:
    """The folder of Dockerfiles: in the wheel, or beside the package in a checkout."""
    for folder in (_PACKAGE / "docker", _PACKAGE.parent / "docker"):
        if (folder / "Dockerfile").is_file():
            return folder
    raise FleetError(f"the Dockerfiles are missing beside {_PACKAGE}: install chaoslab again")


def _node_files() -> Mapping[str, Path]:
    """Every file of the build context by its name there, without the wheels."""
    recipes = _recipes()
    files = {f"docker/{name}": recipes / name for name in ("Dockerfile", "requirements.txt")}
    for part in _INSIDE:
        place = _PACKAGE / part
        found = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        files |= {f"chaoslab/{one.relative_to(_PACKAGE).as_posix()}": one for one in found}
    return files


def _harness_files() -> Mapping[str, Path]:
    """The whole package and its plans, by name in the build context, without the wheels."""
    recipes = _recipes() / "gate"
    files = {name: recipes / name for name in ("Dockerfile", "requirements.txt")}
    for place in (_PACKAGE, _recipes().parent / "fault_plans"):
        files |= {
            f"source/{one.relative_to(place.parent).as_posix()}": one
            for one in sorted(place.rglob("*"))
            if one.is_file() and "__pycache__" not in one.parts
        }
    return files


def _tools_files() -> Mapping[str, bytes]:
    return {
        "Dockerfile": (_recipes() / "tools.Dockerfile").read_bytes(),
        "tool_runner.py": (_PACKAGE / "links" / "netem" / "tool_runner.py").read_bytes(),
    }


def _wheels(folder: Path, inside: str) -> Mapping[str, Path]:
    return {f"{inside}/{wheel.name}": wheel for wheel in sorted(folder.glob("*.whl"))}


def _content(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:_DIGITS]


def _archive(files: Mapping[str, "Path | bytes"]) -> "tempfile._TemporaryFileWrapper[bytes]":
    """A build context: the same bytes for the same files."""
    archive = tempfile.NamedTemporaryFile()  # noqa: SIM115 - the caller closes it
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, what in sorted(files.items()):
            content = what if isinstance(what, bytes) else what.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if _is_program(what) else 0o644
            tar.addfile(entry, io.BytesIO(content))
    archive.seek(0)
    return archive


def _is_program(what: "Path | bytes") -> bool:
    return isinstance(what, Path) and os.access(what, os.X_OK)


# ---------------------------------------------------------------- what it is made of


def _collect_wheels(folder: Path, requirements: Path) -> None:
    """Collect wheels for the running Python, which is also that of the base."""
    command = (
        sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check",
        "--wheel-dir", str(folder), "-r", str(requirements),
    )  # fmt: skip
    _run(command, "the wheels could not be collected")


def _make_debian_base(name: str, *packages: str, because: FleetError) -> None:
    script = _recipes() / "base_from_debian.sh"
    try:
        _run(("sh", str(script), name, *packages), f"{script.name} failed")
    except FleetError as error:
        raise FleetError(
            f"there is no image to begin with: {because}; {error}; pass --base with an image that "
            "has Python 3.11 or newer and its venv module"
        ) from error


def _run(command: tuple[str, ...], failure: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_BUILD_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FleetError(f"{failure}: {error}") from error
    if done.returncode:
        raise FleetError(f"{failure}: {last_lines(done.stderr or done.stdout)}")
