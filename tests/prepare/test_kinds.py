"""What plans can name of other packages: what cannot be used is refused, with the reason."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from chaoslab.checks.base import Check
from chaoslab.checks.catalogue import CHECKS
from chaoslab.core.errors import ExitCode, PackageError
from chaoslab.core.registry import Group
from chaoslab.faults.base import Fault
from chaoslab.faults.catalogue import FAULTS
from chaoslab.links.settings import LinksSettings
from chaoslab.prepare.kinds import FLEETS, LINKS, _why_no_fleet, _why_not, kinds
from tests.core.test_registry import Packages

FROZEN = "@dataclass(frozen=True, slots=True, kw_only=True)"
FAULT = f"""
from dataclasses import dataclass
from chaoslab.faults.base import BaseFault, Layer
{FROZEN}
class X(BaseFault):
    name = "t.x"
    summary = imitates = proof = "something"
    layer = Layer.PROCESS
    takes_away = True
    needs = frozenset()
    def inject(self, injection, fleet): ...
    def heal(self, injection, fleet): ...
    def look(self, window): ...
"""
CHECK = f"""
from dataclasses import dataclass
from typing import ClassVar
from chaoslab.core.errors import PlanError
{FROZEN}
class X:
    name: ClassVar[str] = "t.x"
    summary: ClassVar[str] = "something"
    least: int = 1
    def judge(self, history): ...
"""
FLEET = f"""
from dataclasses import dataclass
from chaoslab.core.errors import PlanError
from chaoslab.fleet.local.settings import Local
{FROZEN}
class X(Local):
    cores: int = 2
    def factory(self, request): ...
"""
LINKED = f"""
from dataclasses import dataclass
{FROZEN}
class X:
    def factory(self, seed): ...
"""
PARTS = {
    Group.FAULTS: FAULT,
    Group.CHECKS: CHECK,
    Group.FLEETS: FLEET,
    Group.LINKS: LINKED,
}
REFUSING = "def __post_init__(self): raise PlanError('too few cores')\n    def factory"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    monkeypatch.syspath_prepend(tmp_path)
    return Packages(tmp_path)


@pytest.mark.parametrize(
    ("group", "before", "after"),
    [
        *((group, "", "") for group in PARTS),
        (Group.CHECKS, "int = 1", "int"),
        (Group.FLEETS, "def factory(self", "@classmethod\n    def factory(cls"),
    ],
)
def test_what_a_package_brings_can_be_named(
    packages: Packages, group: Group, before: str, after: str
) -> None:
    package = f"kinds_sound_{group.name.lower()}_{len(before)}"
    code = PARTS[group].replace(before, after) if before else PARTS[group]
    packages.install(package, group, f"t.x = {package}:X", code=code)
    assert "t.x" in getattr(kinds.__wrapped__(), group.name.lower())


@pytest.mark.parametrize("group", PARTS)
@pytest.mark.parametrize(
    "bare", ["@dataclass", "", "@dataclass(kw_only=True)"], ids=["thawed", "plain", "kw"]
)
def test_only_a_frozen_dataclass_can_be_settings(
    packages: Packages, group: Group, bare: str
) -> None:
    package = f"kinds_{group.name.lower()}_{len(bare)}"
    code = PARTS[group].replace(FROZEN, bare).replace("(Local)", "")
    packages.install(package, group, f"t.x = {package}:X", code=code)
    with pytest.raises(PackageError, match=package):
        kinds.__wrapped__()


@pytest.mark.parametrize(
    ("package", "group", "before", "after", "says"),
    [
        ("kinds_no_look", Group.FAULTS, "look", "gaze", "look"),
        ("kinds_no_heal", Group.FAULTS, "heal", "cure", "heal"),
        ("kinds_no_needs", Group.FAULTS, "needs", "wants", "needs"),
        ("kinds_no_judge", Group.CHECKS, "judge", "weigh", "judge"),
        ("kinds_no_factory", Group.LINKS, "factory", "make", "factory"),
        ("kinds_renamed", Group.CHECKS, "'t.x'", "'t.y'", "'t.y'"),
        ("kinds_fewer", Group.FLEETS, "self, request", "self",
         "factory(self)"),
        ("kinds_more", Group.CHECKS, "history)", "history, also)", "judge(self, history, also"),
        ("kinds_no_method", Group.CHECKS, "def judge(self, history): ...", "judge = 3", "its jud"),
        ("kinds_list", Group.CHECKS, "int = 1", "list = ()", "'least'"),
        ("kinds_no_type", Group.CHECKS, "int = 1", "'Least' = 1", "'Least'"),
        ("kinds_twice", Group.CHECKS, "int = 1", "int = 1; least_s: float = 1", "'least'"),
        ("kinds_required", Group.FLEETS, "int = 2", "int", "'cores'"),
        ("kinds_unlinked", Group.FLEETS, "cores", "default_links = 'rope'; cores",
         "'rope'"),
        ("kinds_both", Group.FLEETS, "cores", "default_links = 'toxiproxy'; toxiproxy",
         "'toxiproxy'"),
        ("kinds_refusing", Group.FLEETS, "def factory", REFUSING, "too few cores"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_with_its_package_and_the_reason(
    packages: Packages, package: str, group: Group, before: str, after: str, says: str
) -> None:
    code = PARTS[group].replace('"t.x"', "'t.x'").replace(before, after)
    packages.install(package, group, f"t.x = {package}:X", code=code)
    with pytest.raises(PackageError) as told:
        kinds.__wrapped__()
    assert told.value.exit_code == ExitCode.REFUSED
    assert all(part in str(told.value) for part in (f"{package}:X", group, says))


def test_a_fault_without_a_family_is_refused(packages: Packages) -> None:
    code = FAULT.replace("t.x", "nap")
    packages.install("kinds_no_family", Group.FAULTS, "nap = kinds_no_family:X", code=code)
    with pytest.raises(PackageError, match=r"family\.nap"):
        kinds.__wrapped__()


@pytest.mark.parametrize(
    ("why_not", "own"),
    [
        (partial(_why_no_fleet, LINKS), FLEETS),
        (partial(_why_not, LinksSettings), LINKS),
        (partial(_why_not, Fault), FAULTS),
        (partial(_why_not, Check), CHECKS),
    ],
    ids=["fleets", "links", "faults", "checks"],
)
def test_those_of_chaoslab_keep_the_rules_too(
    why_not: Callable[[str, type], str], own: dict[str, type]
) -> None:
    assert {name: why_not(name, kind) for name, kind in own.items()} == dict.fromkeys(own, "")
