"""The arguments that name a plan, as a command gets them."""

import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from chaoslab.cli.commands.options import plan_options
from chaoslab.core.errors import PlanError
from chaoslab.prepare.plans import Asked, decode, prepare


def asked_by(*arguments: str) -> Asked:
    found: list[Asked] = []

    @click.command()
    @plan_options
    def command(*, asked: Asked) -> None:
        found.append(asked)

    CliRunner().invoke(command, ["x.yaml", *arguments], catch_exceptions=False)
    return found[0]


@pytest.fixture(autouse=True)
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text("version: 1\nname: x\n")


def test_what_was_asked_can_be_typed_again() -> None:
    words = ["--set", "seed=7", "--fleet", "ssh", "--inventory", "my fleet.yaml"]
    assert shlex.split(asked_by(*words).again()) == ["x.yaml", *words]


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("--set", "fleet.inventory=fleet.yaml", "--fleet", "ssh"), "--set fleet.inventory="),
        (("--costs", "nowhere.toml", "--fleet", "sim"), "--costs nowhere.toml"),
        (("--inventory", "fleet.yaml", "--fleet", "ssh"), "--inventory fleet.yaml"),
    ],
)
def test_a_mistake_names_the_option_as_it_was_typed(words: tuple[str, ...], where: str) -> None:
    Path("fleet.yaml").write_text("syncer: {host: 10.0.0.2}\nlearners: {a: {hosts: [10.0.0.3]}}\n")
    with pytest.raises(PlanError) as refused:
        prepare(asked_by(*words))
    assert where in str(refused.value)
    assert ("--set" in str(refused.value)) is ("--set" in words)


@pytest.mark.parametrize("name", ["my fleet #1.yaml", "~", "a: b", "5", "[x].yaml", "true", "ä"])
def test_the_path_of_an_inventory_is_never_read_as_yaml(name: str) -> None:
    with pytest.raises(PlanError) as refused:
        decode(asked_by("--inventory", name, "--fleet", "ssh"))
    assert refused.value.where == name, "the inventory cannot be read"
