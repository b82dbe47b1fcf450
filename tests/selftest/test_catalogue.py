"""Every mutant is sound: it loads, replaces what is there, is tried, and somebody must find it."""

import importlib
import inspect
from pathlib import Path

import pytest

from chaoslab.checks.catalogue import CHECKS
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.selftest.catalogue import CONTROLS, TRIALS
from chaoslab.selftest.mutants import Mutant, Part
from chaoslab.selftest.trial import MUTANTS, PLANS, Trial

NAMES = sorted(
    path.stem for path in (PLANS.parent / "mutants").glob("*.py") if path.stem != "__init__"
)
RULES = {
    "unasked", "baseline", "evidence", "entries", "links", "refused", "run", "stop", "residue",
    "strangers", "training_continues", "learners_rejoin", "heal",
}  # fmt: skip
"""What is judged whatever a plan expects."""


def loaded(name: str) -> Mutant | type[LocalFleet]:
    module = importlib.import_module(f"{MUTANTS}.{name}")
    found = getattr(module, "MUTANT", None) or module.FLEET
    assert isinstance(found, Mutant | type)
    return found


def overrides(wrong: type) -> None:
    """Every method of a mutant stands in for one that the real thing has, with its parameters."""
    base = wrong.__mro__[1]
    for name, method in vars(wrong).items():
        if inspect.isfunction(method):
            real = getattr(base, name, None)
            assert real is not None, f"{base.__name__} has no {name} any more: mend the mutant"
            assert list(inspect.signature(method).parameters) == list(
                inspect.signature(real).parameters
            ), f"{wrong.__name__}.{name}"


def stands_in(part: Part) -> None:
    real = getattr(part.module, part.name)
    if isinstance(part.wrong, type):
        assert part.wrong.__mro__[1] is real
        overrides(part.wrong)
    else:
        assert callable(part.wrong)
        assert len(inspect.signature(part.wrong).parameters) == len(
            inspect.signature(real).parameters
        )


def test_there_are_many() -> None:
    assert len([trial for trial in TRIALS if not trial.is_control]) >= 20
    assert len({trial.name for trial in TRIALS}) == len(TRIALS)


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_replaces_parts_that_exist_by_what_fits_in_their_place(name: str) -> None:
    mutant = loaded(name)
    if isinstance(mutant, Mutant):
        assert callable(getattr(mutant.program, "main", None))
        assert mutant.parts
        for part in mutant.parts:
            stands_in(part)
    else:
        assert issubclass(mutant, LocalFleet)
        overrides(mutant)


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_is_a_program_or_a_fleet_and_changes_nothing_when_it_is_imported(
    name: str,
) -> None:
    mutant = loaded(name)
    if isinstance(mutant, Mutant):
        for part in mutant.parts:
            assert getattr(part.module, part.name) is not part.wrong
        text = Path(inspect.getfile(importlib.import_module(f"{MUTANTS}.{name}"))).read_text()
        assert text.endswith('if __name__ == "__main__":\n    MUTANT.start()\n')


def test_every_mutant_is_tried() -> None:
    tried = {name for trial in TRIALS for name in (*trial.programs.values(), trial.fleet) if name}
    assert tried == set(NAMES)


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.name)
def test_a_trial_says_what_is_wrong_and_who_must_find_it(trial: Trial) -> None:
    prepared = trial.prepare()
    expected = {spec.check for spec in prepared.plan.expect}
    assert dict(prepared.plan.fleet.programs) == {
        role: f"{MUTANTS}.{name}" for role, name in trial.programs.items()
    }
    if trial.is_control:
        assert not any((trial.wrong, trial.words, trial.settings))
        return
    assert trial.wrong
    assert trial.words
    assert trial.check in (expected & CHECKS.keys()) | RULES
    assert set(trial.culprits) <= set(prepared.plan.training.learner_names)
    assert trial.programs or trial.fleet or trial.settings, "something has to be wrong"


def test_every_plan_that_a_mutant_is_tried_with_passes_without_it() -> None:
    tried = {trial.plan for trial in TRIALS if trial.programs or trial.fleet}
    assert tried == {trial.plan for trial in CONTROLS} - {"kill_half"}
