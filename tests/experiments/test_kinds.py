"""Kinds of cells: whether results depend on every module that decides them."""

from collections.abc import Iterable

import pytest

from chaoslab.experiments.kinds import KINDS
from tests.test_floors import PACKAGE, imported, module_of, own

TIMELINE = ("sim.timeline.engine",)
RUNS = ("checks", "faults", "sim")
"""A plan names what it needs of these packages: nothing imports their modules before."""
BEGINS = {
    "renewal": ("sim.renewal.engine", "sim.renewal.scenario"),
    "timeline": TIMELINE,
    "bandwidth": TIMELINE,
    "window": ("experiments.windows", *RUNS),
    "plan": ("experiments.plan_cells", *RUNS),
}
"""Of each kind that is simulated, the modules with which its simulation begins."""
DECIDES_NOTHING = ("", "core.errors", "experiments.units", "report", "trainers")
"""The version; words; what is made of results; what a script prints, which no simulation runs."""
TYPES = ("core", "plan.model")
"""Simulations without a plan take types of them, and units of settings, which count as read."""


def reached(begins: Iterable[str]) -> set[str]:
    """Everything that is imported from there."""
    found: set[str] = set()
    left = [module for module in imported() if is_in(module, begins)]
    while left:
        if (module := left.pop()) not in found:
            found.add(module)
            left += map(module_of, own(module))
    return found


def is_in(module: str, packages: Iterable[str]) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in packages)


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if not kind.is_real])
def test_results_depend_on_every_module_that_their_simulation_imports(kind: str) -> None:
    sources = [one.removesuffix(".py").replace("/", ".") for one in KINDS[kind].sources]
    others = [*DECIDES_NOTHING, *(() if "core" in sources else TYPES)]
    assert sorted(m for m in reached(BEGINS[kind]) if not is_in(m, [*sources, *others])) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_is_there(kind: str) -> None:
    assert [one for one in KINDS[kind].sources if not (PACKAGE / one).exists()] == []
