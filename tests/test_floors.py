"""The order of packages in ARCHITECTURE.md, held; and each heavy library is imported in one place.

A package that is not in the table does not exist yet.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from chaoslab.fleet.docker.images import images

PACKAGE = Path(__file__).parent.parent / "chaoslab"

PACKAGES = (
    "core",
    "trainers",
    "plan",
    "record",
    "undo",
    "links",
    "fleet",
    "sim",
    "calibration",
    "faults",
    "checks",
    "report",
    "prepare",
    "run",
    "archive",
    "experiments",
    "replay",
    "gameday",
    "fuzz",
    "selftest",
    "cli",
    "pytest_plugin",
    "__main__",
)
"""In the order in which they may import each other: each sees those before it. `diloco`, the run
under test, stands beside them, and `systems`, which puts systems of others in its place."""

DOORS: dict[str, tuple[str, ...]] = {
    "jax": ("diloco", "systems.one_fragment"),
    "optax": ("diloco",),
    "grpc": ("diloco.wire", "fleet.tpu.api"),
    "google": ("diloco.wire", "fleet.tpu.api"),
    "docker": ("fleet.docker.engine",),
    "lightkube": (
        "fleet.kubernetes.answers",
        "fleet.kubernetes.cluster",
        "fleet.kubernetes.pod_state",
        "fleet.kubernetes.streams",
    ),
    "httpx2": (
        "fleet.kubernetes.answers",
        "fleet.kubernetes.cluster",
        "fleet.kubernetes.port_forward",
        "fleet.kubernetes.streams",
    ),
    "cryptography": ("fleet.authority",),
    "asyncssh": ("fleet.remote.ssh",),
    "toxiproxy": ("links.toxiproxy",),
    "ruamel": ("plan.file",),
    "rich": ("report", "cli"),
    "perfetto": ("report.trace.writer",),
    "prometheus_client": ("report.metrics",),
    "markdown_it": ("gameday.markdown",),
    "starlette": ("gameday.live",),
    "uvicorn": ("gameday.live",),
    "torch": tuple(
        f"systems.{name}"
        for name in ("torchft", "hivemind", "torchrun", "nvrx", "data_parallel", "torch_store")
    ),
    "torchft": ("systems.torchft",),
    "hivemind": ("systems.hivemind",),
    "nvidia_resiliency_ext": ("systems.nvrx",),
}

SHARED = ("core.events", "core.payloads", "core.protocol", "core.link_meter")
"""What the run under test shares with the harness: what a node may report, and how an end of a link
measures it."""

MUTANTS = "selftest.mutants"
"""Programs in the place of the run under test, and fleets: they see what they stand in for."""

SIMULATED = ("diloco",)
"""What a simulation shares with the run under test: all that needs no heavy library."""
HEAVY = ("jax", "optax", "grpc", "numpy")
"""What no simulation loads."""

STANDARD = {"bisect", "collections", "dataclasses", "enum", "json", "math", "operator", "typing"}


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


@cache
def imported() -> dict[str, list[str]]:
    """What each module imports."""
    return {module: list(imports(path)) for module, path in modules()}


def own(module: str) -> list[str]:
    """What a module imports from chaoslab, named from there."""
    return [n.removeprefix("chaoslab.") for n in imported()[module] if n.startswith("chaoslab.")]


def top(name: str) -> str:
    return name.split(".", maxsplit=1)[0]


def folder(name: str) -> str:
    """The package that a module lies in; a package itself lies in itself."""
    while name not in FOLDERS:
        name = name.rpartition(".")[0]
    return name


FOLDERS = {module for module, path in modules() if path.name == "__init__.py"}


def forbidden(module: str) -> Iterator[str]:
    """What a module imports from chaoslab against the order of packages."""
    allowed: tuple[str, ...] | None = None
    if top(module) == "diloco":
        allowed = ("diloco", *SHARED)
    elif top(module) == "systems":
        allowed = ("systems", "diloco", *SHARED)
    elif module.startswith(f"{MUTANTS}."):
        allowed = ("diloco", *SHARED, "fleet", MUTANTS)
    elif module and top(module) != "__version__":
        if top(module) not in PACKAGES:
            yield f"{module} lies in no package of the table"
            return
        shared = SIMULATED if top(module) == "sim" else ()
        allowed = ("__version__", *shared, *PACKAGES[: PACKAGES.index(top(module)) + 1])
    for name in own(module):
        if not any(f"{name}.".startswith(f"{part}.") for part in allowed or ()):
            yield f"{module} imports {name}, allowed: {', '.join(allowed or ())}"


def test_imports_go_down_only() -> None:
    assert [line for module in imported() for line in forbidden(module)] == []


def test_no_two_packages_import_each_other() -> None:
    seen: dict[tuple[str, str], str] = {}
    for module in imported():
        for name in own(module):
            here, there = folder(module), folder(name)
            if here and there and here != there:
                seen.setdefault((here, there), f"{module} imports {name}")
    assert [
        (line, seen[there, here])
        for (here, there), line in seen.items()
        if here < there and (there, here) in seen
    ] == []


def module_of(name: str) -> str:
    """The module that an imported name lies in, or is."""
    while name not in imported():
        name = name.rpartition(".")[0]
    return name


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: {module_of(name) for name in own(module)} - {module} for module in imported()}
    TopologicalSorter(graph).prepare()  # CycleError names the modules of a circle


def test_heavy_libraries_come_in_by_their_own_door() -> None:
    assert [
        f"{module} imports {name}; its door is {' or '.join(doors)}"
        for module, names in imported().items()
        for name in names
        if (doors := DOORS.get(name.split(".", maxsplit=1)[0]))
        and not any(f"{module}.".startswith(f"{door}.") for door in doors)
    ] == []


def test_only_the_journal_makes_events() -> None:
    makers = {
        module
        for module, path in modules()
        if "chaoslab.core.events.Event" in imported()[module]
        and re.search(r"(?<![.\w\"])Event\(", path.read_text())
    }
    assert makers == {"record.journal"}


def test_checks_see_the_record_and_nothing_else() -> None:
    allowed = (
        "checks",
        "core.binding",
        "core.events",
        "core.on_demand",
        "core.payloads",
        "core.protocol",
        "record.exits",
        "core.units",
        "core.errors",
        "record",
    )
    assert [
        f"{module} imports {name}"
        for module in imported()
        if module.startswith("checks")
        for name in own(module)
        if not name.startswith(allowed)
    ] == []


def test_faults_see_no_backend() -> None:
    words = (
        "fleet.base",
        "fleet.cluster_protocols",
        "fleet.protocols",
        "fleet.stressors",
        "links.base",
        "links.effects",
        "links.profiles",
        "links.traces",
    )
    assert [
        f"{module} imports {name}"
        for module in imported()
        if module.startswith("faults")
        for name in own(module)
        if name.startswith(("fleet", "links")) and not name.startswith(words)
    ] == []


def test_a_run_sees_no_kind_of_fault_or_fleet() -> None:
    words = ("faults.base", "fleet.base", "fleet.protocols", "fleet.node_links")
    assert [
        f"{module} imports {name}"
        for module in imported()
        if module.startswith("run.")
        for name in own(module)
        if name.startswith(("faults.", "fleet.")) and not name.startswith(words)
    ] == []


def test_time_comes_from_a_clock_or_the_record() -> None:
    on_virtual_clocks = ("run", "faults", "checks", "report")
    assert {
        module
        for module, names in imported().items()
        if top(module) in on_virtual_clocks and {"time", "sched"} & set(map(top, names))
    } == {"report.webhook"}, "the calendar time that receivers check"


def test_a_simulation_runs_the_real_programs_and_loads_no_heavy_library() -> None:
    reached: set[str] = set()
    left = ["sim.fleet"]
    while left:
        if (module := left.pop()) not in reached:
            reached.add(module)
            left += map(module_of, own(module))
    assert {"diloco.syncer.syncer", "diloco.learner.training_thread"} <= reached
    assert [
        f"{module} imports {name}"
        for module in sorted(reached)
        for name in imported()[module]
        if top(name) in HEAVY
    ] == []


def test_the_policy_needs_nothing_but_the_standard_library() -> None:
    names = ("policy", "rounds", "membership", "tally", "communicators", "transfers", "decisions")
    pure = ["diloco.settings", *(f"diloco.syncer.{name}" for name in names)]
    used = tuple(f"chaoslab.{module}." for module in (*pure, "core.protocol"))
    assert [
        f"{module} imports {name}"
        for module in pure
        for name in imported()[module]
        if name.split(".", maxsplit=1)[0] not in STANDARD and not name.startswith(used)
    ] == []


def test_images_hold_all_that_is_imported_in_them() -> None:
    places = [PACKAGE / part for part in images._INSIDE]
    held = {module for module, path in modules() if {path, *path.parents}.intersection(places)}
    assert {"diloco.syncer.policy", "links.proxy.pump"} <= held
    assert [
        f"{module} imports {name}"
        for module in held
        for name in imported()[module]
        if name.startswith("chaoslab.") and module_of(name.removeprefix("chaoslab.")) not in held
    ] == []


def test_no_product_knows_of_a_mutant() -> None:
    assert [
        f"{module} imports {name}"
        for module in imported()
        if not module.startswith("selftest")
        for name in own(module)
        if name.startswith("selftest")
        and (module != "cli.research.selftest" or name.startswith(MUTANTS))
    ] == []


def test_data_folders_hold_no_python() -> None:
    root = PACKAGE.parent
    assert not [*(root / "fault_plans").rglob("*.py"), *(root / "experiments").rglob("*.py")]
