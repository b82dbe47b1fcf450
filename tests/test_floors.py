"""The floors of ARCHITECTURE.md, held: imports go down only, and heavy libraries have one door.

A module that is not in the table does not exist yet; adding a file means placing it here.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

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
    2: ("fleet", "links", "launch", "undo_facts", "obligation_log"),
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
        "setup",
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


def imports(path: Path) -> Iterator[str]:
    """Absolute names of everything a file imports, at any depth in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


IMPORTS = {module: list(imports(path)) for module, path in modules()}


def own(module: str) -> list[str]:
    """What a module imports from chaoslab, named from there."""
    names = IMPORTS[module]
    return [n.removeprefix("chaoslab.") for n in names if n.startswith("chaoslab.")]


def floor(module: str) -> int | None:
    top = module.split(".", maxsplit=1)[0]
    return next((level for level, names in FLOORS.items() if top in names), None)


def forbidden(module: str) -> Iterator[str]:
    """What a module imports from chaoslab against the rules of its floor."""
    allowed: tuple[str, ...] | None = None
    if module.split(".", maxsplit=1)[0] == "diloco":
        allowed = ("diloco", "events", "units")
    elif module.startswith(f"{MUTANTS}."):
        allowed = ("diloco", "events", "fleet", MUTANTS)
    if allowed is not None:
        for name in own(module):
            if not any(f"{name}.".startswith(f"{part}.") for part in allowed):
                yield f"{module} imports {name}, allowed: {', '.join(allowed)}"
        return
    level = floor(module)
    if level is None:
        yield f"{module} has no floor: place it in the table of floors"
        return
    for name in own(module):
        target = floor(name)
        if target is None:
            yield f"{module} imports {name}, which has no floor"
        elif target > level:
            yield f"{module} (floor {level}) imports {name} (floor {target})"


def test_imports_go_down_only() -> None:
    assert [line for module in IMPORTS for line in forbidden(module)] == []


def test_heavy_libraries_come_in_by_their_own_door() -> None:
    assert [
        f"{module} imports {name}; its door is {' or '.join(doors)}"
        for module, names in IMPORTS.items()
        for name in names
        if (doors := DOORS.get(name.split(".", maxsplit=1)[0]))
        and not any(f"{module}.".startswith(f"{door}.") for door in doors)
    ] == []


def test_checks_see_the_record_and_nothing_else() -> None:
    allowed = {"checks", "events", "exits", "journal", "units", "errors"}
    assert [
        f"{module} imports {name}"
        for module in IMPORTS
        if module.startswith("checks")
        for name in own(module)
        if name.split(".", maxsplit=1)[0] not in allowed
    ] == []


def test_faults_see_no_backend() -> None:
    words = ("fleet.base", "fleet.burdens", "links.base", "links.profiles", "links.traces")
    assert [
        f"{module} imports {name}"
        for module in IMPORTS
        if module.startswith("faults")
        for name in own(module)
        if name.startswith(("fleet", "links")) and not name.startswith(words)
    ] == []


def test_the_policy_needs_nothing_but_the_standard_library() -> None:
    names = ("policy", "rounds", "membership", "transfers", "decisions", "settings")
    pure = [f"diloco.{name}" for name in names]
    used = tuple(f"chaoslab.{module}." for module in (*pure, "events"))
    assert [
        f"{module} imports {name}"
        for module in pure
        for name in IMPORTS[module]
        if name.split(".", maxsplit=1)[0] not in STANDARD and not name.startswith(used)
    ] == []


def test_no_product_knows_of_a_mutant() -> None:
    assert [
        f"{module} imports {name}"
        for module in IMPORTS
        if not module.startswith("selftest")
        for name in own(module)
        if name.startswith("selftest")
        and (module != "commands.selftest" or name.startswith(MUTANTS))
    ] == []


def test_data_folders_hold_no_python() -> None:
    root = PACKAGE.parent
    assert not [*(root / "fault_plans").rglob("*.py"), *(root / "experiments").rglob("*.py")]
