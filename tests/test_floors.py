"""The floors of ARCHITECTURE.md, held: imports go down only, and heavy libraries have one door.

A module that is not in the table does not exist yet; adding a file means placing it here.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "chaoslab"

FLOORS: dict[int, tuple[str, ...]] = {
    0: ("", "__version__", "errors", "clock", "units", "plan", "events", "exits"),
    1: (
        "plan_file",
        "schedule",
        "journal",
        "journal_file",
        "record",
        "secrets",
        "surroundings",
        "urgency",
        "private",
    ),
    2: ("fleet", "links", "launch", "undo_facts"),
    3: ("faults", "checks"),
    4: (
        "run",
        "watch",
        "injector",
        "refusal",
        "blast_radius",
        "baseline",
        "news",
        "triggers",
        "watches",
        "twin",
        "conduct",
        "janitor",
        "lifeline",
        "machine",
        "obligations",
        "halt",
        "residue",
        "undo",
        "doctor",
    ),
    5: ("report", "cli", "commands", "selftest", "pytest_plugin", "__main__"),
}
"""A package stands for everything in it; `diloco` stands beside the floors, see below."""

DOORS: dict[str, tuple[str, ...]] = {
    "jax": ("diloco",),
    "optax": ("diloco",),
    "grpc": ("diloco.wire",),
    "docker": ("fleet.docker",),
    "asyncssh": ("fleet.tpu_vm",),
    "toxiproxy": ("links.toxiproxy",),
    "ruamel": ("plan_file",),
    "rich": ("report", "cli", "commands"),
    "plotly": ("report.html",),
}


MUTANTS = "selftest.mutants"
"""Programs in the place of the run under test, and fleets: they see what they stand in for."""

STANDARD = {"collections", "dataclasses", "enum", "json", "typing"}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if not path.name.endswith("_pb2.py"):
            parts = path.relative_to(PACKAGE).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__"), path


MODULES = list(modules())


def imports(path: Path) -> Iterator[str]:
    """Absolute names of everything a file imports, at any depth in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def floor(module: str) -> int | None:
    top = module.split(".", maxsplit=1)[0]
    return next((level for level, names in FLOORS.items() if top in names), None)


def own(name: str) -> str | None:
    return name.removeprefix("chaoslab.") if name.startswith("chaoslab.") else None


@pytest.mark.parametrize(("module", "path"), MODULES, ids=[name for name, _ in MODULES])
def test_imports_go_down_only(module: str, path: Path) -> None:
    if module.split(".", maxsplit=1)[0] == "diloco":
        allowed = ("diloco", "events", "units")
        used = [name for name in map(own, imports(path)) if name]
        assert [n for n in used if n.split(".")[0] not in allowed] == []
        return
    if module.startswith(f"{MUTANTS}."):
        real = ("diloco", "events", "fleet", MUTANTS)
        assert [n for n in map(own, imports(path)) if n and not n.startswith(real)] == []
        return
    level = floor(module)
    assert level is not None, f"place {module} in the table of floors"
    for name in filter(None, map(own, imports(path))):
        target = floor(name)
        assert target is not None, f"{module} imports {name}, which has no floor"
        assert target <= level, f"{module} (floor {level}) imports {name} (floor {target})"


@pytest.mark.parametrize(("module", "path"), MODULES, ids=[name for name, _ in MODULES])
def test_heavy_libraries_come_in_by_their_own_door(module: str, path: Path) -> None:
    for name in imports(path):
        doors = DOORS.get(name.split(".")[0])
        if doors is not None:
            assert any(module == door or module.startswith(f"{door}.") for door in doors), (
                f"{module} imports {name}; its door is {' or '.join(doors)}"
            )


def test_checks_see_the_record_and_nothing_else() -> None:
    allowed = {"checks", "events", "exits", "journal", "units", "errors"}
    for module, path in modules():
        if module.startswith("checks"):
            used = {name.split(".")[0] for name in filter(None, map(own, imports(path)))}
            assert used <= allowed, f"{module} imports {used - allowed}"


def test_faults_see_no_backend() -> None:
    for module, path in modules():
        if module.startswith("faults"):
            used = set(filter(None, map(own, imports(path))))
            words = ("fleet.base", "fleet.burdens", "links.base", "links.profiles", "links.traces")
            backends = {n for n in used if n.startswith(("fleet", "links"))}
            backends = {n for n in backends if not n.startswith(words)}
            assert not backends, f"{module} imports {backends}"


def test_the_policy_needs_nothing_but_the_standard_library() -> None:
    names = ("policy", "rounds", "membership", "transfers", "decisions", "settings")
    pure = {f"diloco.{name}" for name in names}
    for module, path in modules():
        if module in pure:
            foreign = {
                name for name in imports(path)
                if name.split(".", maxsplit=1)[0] not in STANDARD
                and not any(name.startswith(f"chaoslab.{p}.") for p in (*pure, "events"))
            }  # fmt: skip
            assert not foreign, f"{module} imports {foreign}"


def test_no_product_knows_of_a_mutant() -> None:
    for module, path in modules():
        if not module.startswith("selftest"):
            used = [n for n in map(own, imports(path)) if n and n.startswith("selftest")]
            assert not used or module == "commands.selftest", f"{module} imports {used}"
            assert not any(n.startswith(MUTANTS) for n in used), f"{module} imports {used}"


def test_data_folders_hold_no_python() -> None:
    root = PACKAGE.parent
    assert not [*(root / "fault_plans").rglob("*.py"), *(root / "experiments").rglob("*.py")]
