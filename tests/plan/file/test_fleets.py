"""Settings of several fleets and kinds of links under the one key `fleet:`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator

from chaoslab.core.errors import PackageError, PlanError
from chaoslab.core.units import Duration
from chaoslab.fleet.local.settings import Local
from chaoslab.links.settings import Direct
from chaoslab.plan.file import Kinds, json_schema, load, resolved_yaml
from chaoslab.plan.file.writing import changed, listed
from chaoslab.plan.model import FleetSpec
from tests.plan.file.catalogue import HEAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores(Local):
    cores: int = 2
    pace_s: Duration = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class More(Cores):
    extra: bool = False
    curves: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Local):
    cores: Literal["few", "many"] = "few"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires(Direct):
    cores: int = 1
    length: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cables(Direct):
    length: Literal["short", "long"] = "short"


KINDS = Kinds(
    fleets={"local": Local, "one": Cores, "two": More, "named": Named},
    links={"none": Direct, "wires": Wires, "cables": Cables},
)


def fleet_in(tmp_path: Path, fleet: str, kinds: Kinds = KINDS) -> FleetSpec:
    path = tmp_path / "trial.yaml"
    path.write_text(f"{HEAD}fleet: {{{fleet}}}\n")
    plan, _ = load(path, kinds)
    again = tmp_path / "again.yaml"
    again.write_text(resolved_yaml(plan))
    assert load(again, kinds)[0].fleet == plan.fleet
    return plan.fleet


@pytest.mark.parametrize(
    ("fleet", "settings"),
    [
        ("kind: one, cores: 3", Cores(cores=3)),
        ("kind: two, cores: 3, extra: true", More(cores=3, extra=True)),
        ("kind: named, cores: many", Named(cores="many")),
        ("kind: local, cores: 3", None),
        ("cores: many", None),
        ("kind: named, pace: 2s", None),
    ],
)
def test_a_fleet_decodes_its_own_settings(tmp_path: Path, fleet: str, settings: object) -> None:
    assert fleet_in(tmp_path, fleet).settings == settings


def test_so_do_links(tmp_path: Path) -> None:
    assert fleet_in(tmp_path, "links: cables, length: long").links_settings == Cables(length="long")
    wires = fleet_in(tmp_path, "links: wires, length: 4, cores: 2")
    assert (wires.settings, wires.links_settings) == (None, Wires(length=4, cores=2))


@pytest.mark.parametrize(
    ("fleet", "words"),
    [
        ("kind: one, cores: many", ":3:27: fleet.cores: "),
        ("kind: named, cores: 3", ":3:29: fleet.cores: "),
        ("kind: local, cores: [1]", ":3:29: fleet.cores: "),
        ("kind: one, core: 3", ":3:20: fleet.core: "),
        ("kind: one, curs: 3", "`cores`"),
        ("kind: local, extr: true", "`extra`"),
        ("kind: tow, cores: 3", "`tow`"),
        ("kind: [two], cores: 3", "fleet.kind: "),
        ("links: [wires]", "fleet.links: "),
        ("length: 3", "`links: wires`"),
        ("links: cables, length: 3", ":3:32: fleet.length: "),
        ("kind: one, links: wires", "`cores`"),
    ],
)
def test_what_does_not_fit_is_refused_in_its_words(tmp_path: Path, fleet: str, words: str) -> None:
    with pytest.raises(PlanError) as refused:
        fleet_in(tmp_path, fleet)
    assert words in str(refused.value)


def test_the_schema_allows_what_any_of_them_allows() -> None:
    validator: Any = Draft202012Validator(json_schema(KINDS))
    for cores, is_right in ((3, True), ("many", True), ("lots", False), ([3], False)):
        plan = {"version": 1, "name": "a", "fleet": {"cores": cores}}
        assert validator.is_valid(plan) is is_right


def test_a_key_of_chaoslab_is_never_a_setting(tmp_path: Path) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Odd(Local):
        regions: int = 2

    with pytest.raises(PackageError, match="'regions'"):
        fleet_in(tmp_path, "kind: odd", Kinds(fleets={"local": Local, "odd": Odd}))


def test_what_differs_from_the_defaults_is_listed_in_the_plans_own_words() -> None:
    assert listed(changed(More(extra=True, pace_s=0.5))) == "pace 500ms, extra true"
    assert listed(changed(More())) == ""
