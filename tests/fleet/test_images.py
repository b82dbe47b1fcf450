"""What containers run, as far as no engine is needed to say it."""

import json
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from chaoslab.diloco.learner import options as learner_options
from chaoslab.diloco.syncer import options as syncer_options
from tests.engine import Engine

from chaoslab.core.errors import AbilityError, ExitCode  # isort: skip  # the engine may skip all this
from chaoslab.fleet.docker.images import images  # isort: skip
from chaoslab.fleet.docker.images.images import Source  # isort: skip
from click.testing import CliRunner  # isort: skip
from chaoslab.cli.main import main  # isort: skip

ROOT = Path(__file__).parent.parent.parent


def changed(made_of: Source, name: str) -> Source:
    return Source({**made_of.files, name: made_of.files[name] + b"\n"})


@pytest.mark.parametrize("name", ["docker/Dockerfile", "chaoslab/diloco/learner/program.py"])
def test_a_changed_source_is_another_image(name: str) -> None:
    now = images.source()
    assert changed(now, name).image != now.image == images.source().image
    assert now.next_image.startswith(now.image)


def test_the_harness_is_not_in_the_image() -> None:
    files = images.source().files
    assert "chaoslab/diloco/syncer/program.py" in files
    assert not any(name.startswith(("chaoslab/fleet", "chaoslab/run")) for name in files)


def test_the_recipe_copies_what_is_given_to_it() -> None:
    recipe = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    copied = [
        word
        for line in recipe.splitlines()
        if line.startswith("COPY ")
        for word in line.split()[1:-1]
        if word.startswith("chaoslab/")
    ]
    given = {name for name in images.source().files if name.startswith("chaoslab/")}
    assert {one for one in copied if not any(is_below(name, one) for name in given)} == set()
    assert {name for name in given if not any(is_below(name, one) for one in copied)} == set()


def is_below(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}/")


def test_all_that_the_run_under_test_needs_is_asked_for() -> None:
    asked = {line.split(">")[0] for line in lines(ROOT / "docker" / "requirements.txt")}
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert asked == {"grpcio", "jax", "msgspec", "numpy", "optax", "protobuf", "xxhash"}
    assert all(f'  "{line}",' in project for line in lines(ROOT / "docker" / "requirements.txt"))


def test_the_image_of_the_harness_has_what_a_gate_in_a_cluster_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = {*project["dependencies"]}.union(*(extras[name] for name in ("kubernetes", "metrics")))
    nodes, own = (set(lines(ROOT / "docker" / name)) for name in (
        "requirements.txt", "gate/requirements.txt",
    ))  # fmt: skip
    assert own == wanted - nodes


def lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def programs() -> Iterator[tuple[str, list[str]]]:
    """Of docker/compose.yaml and docker/kubernetes-example: names and command lines."""
    yaml = YAML(typ="safe")
    services = yaml.load((ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8"))["services"]
    for name, service in services.items():
        yield name, service["command"]
    text = (ROOT / "docker" / "kubernetes-example" / "training.yaml").read_text(encoding="utf-8")
    for one in yaml.load_all(text):
        if one["kind"] == "StatefulSet":
            pod = one["spec"]["template"]["spec"]
            assert pod["shareProcessNamespace"]
            name, words = one["metadata"]["name"], " ".join(pod["containers"][0]["command"])
            words = words.replace("$(POD_INDEX)", "0").replace("$(POD_NAME)", name)
            yield name, words.split()


@pytest.mark.parametrize(("name", "command"), [*programs()])
def test_examples_pass_flags_that_are_understood(name: str, command: list[str]) -> None:
    python, _, module, *flags = command
    assert python == "python3"
    options = syncer_options if module == "chaoslab.diloco.syncer" else learner_options
    found = options.parser().parse_args(flags)
    assert found.private_network
    assert name in ("syncer", found.name)


def test_a_missing_engine_is_a_refusal_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(AbilityError):
        Engine.connect()
    done = CliRunner().invoke(
        main, ["run", "kill_half", "--fleet", "docker", "--out", str(tmp_path / "runs")]
    )
    assert done.exit_code == ExitCode.REFUSED
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("url", ["nonsense", "tcp://127.0.0.1:1"])
def test_an_engine_that_cannot_be_asked_is_refused_in_words(url: str) -> None:
    with pytest.raises(AbilityError):
        Engine.connect(url)


class Shelf:
    """An engine that has all images, and notes on what it builds which."""

    url = "unix:///nobody.sock"

    def __init__(self, base: str) -> None:
        self.base = base
        self.built: dict[str, str | None] = {}
        self.with_network: list[str] = []

    def image_id(self, name: str) -> str:
        return f"id of {name}"

    def image_labels(self, _: str) -> Mapping[str, str]:
        return {"org.opencontainers.image.base.name": self.base}

    def image_bytes(self, _: str) -> int:
        return 0

    def build(
        self,
        _: object,
        *,
        name: str,
        arguments: Mapping[str, str],
        has_network: bool = False,
        **__: str,
    ) -> list[str]:
        self.built[name] = arguments.get("BASE")
        self.with_network += [name] if has_network else []
        return []


@pytest.mark.parametrize(("asked", "is_built"), [((), False), (("mine",), False), (("new",), True)])
def test_what_is_there_is_built_again_on_another_base_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: tuple[str, ...], is_built: bool
) -> None:
    shelf = Shelf("mine")
    monkeypatch.setattr(Engine, "connect", lambda: shelf)
    words = ["doctor", "images", "build", "--json", "--wheels", str(tmp_path)]
    done = CliRunner().invoke(main, [*words, *(f"--base={name}" for name in asked)])
    assert done.exit_code == ExitCode.PASS
    assert json.loads(done.stdout)["base"] == (asked[0] if asked else "mine")
    bases = {
        images.source().image: "new",
        images.source().next_image: None,
        images.tools_image(): "new",
    }
    assert shelf.built == (bases if is_built else {})
    assert shelf.with_network == ([images.tools_image()] if is_built else []), "nodes need none"


def test_an_engine_that_cannot_be_installed_is_said_with_the_reason(tmp_path: Path) -> None:
    give(tmp_path, "apt-get", "echo no mirror answers; exit 100")
    give(tmp_path, "docker", "exit 1")
    done = run_script(tmp_path, "start_engine.sh", str(tmp_path / "log"))
    assert done.returncode == 1
    assert "no mirror answers" in done.stderr


def give(folder: Path, name: str, does: str) -> None:
    """A program of that name that does that."""
    (folder / name).write_text(f"#!/bin/sh\n{does}\n")
    (folder / name).chmod(0o755)


def run_script(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """One of ours, with the programs in a folder and a few of the system's: no engine is found."""
    for name in ("cat", "dirname", "mkdir", "mktemp", "rm", "tail"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return subprocess.run(
        ["/bin/sh", str(ROOT / "docker" / words[0]), *words[1:]],
        env={"PATH": str(folder), "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_of_a_file_system_that_could_not_be_made_there_is_no_image(tmp_path: Path) -> None:
    give(tmp_path, "mmdebstrap", "exit 25")
    give(tmp_path, "docker", f"cat >{shlex.quote(str(tmp_path / 'called'))}")
    done = run_script(tmp_path, "base_from_debian.sh", "chaoslab-base:none")
    assert done.returncode == 25
    assert not (tmp_path / "called").exists()
    assert not list(tmp_path.glob("tmp.*"))
