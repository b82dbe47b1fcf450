"""Every mutant is sound: it loads, replaces what is there, is tried, and somebody must find it."""

import inspect

import pytest

from chaoslab.checks.catalogue import CHECKS
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.selftest.catalogue import CONTROLS, TRIALS
from chaoslab.selftest.mutants import Part, learner, syncer
from chaoslab.selftest.mutants.fleets import FLEETS
from chaoslab.selftest.trial import Trial, program_of

MUTANTS = {**syncer.MUTANTS, **learner.MUTANTS}
RULES = {
    "unasked", "baseline", "evidence", "entries", "links", "refused", "run", "stop", "residue",
    "strangers", "training_continues", "learners_rejoin", "participation", "cadence", "real_work",
    "heal", "resume", "divergence",
}  # fmt: skip
"""What is judged whatever a plan expects."""


def overrides(wrong: type, base: type) -> None:
    """Every method of a mutant stands in for one that the real thing has, with its parameters."""
    for name, method in vars(wrong).items():
        if inspect.isfunction(method):
            real = getattr(base, name, None)
            assert real is not None, f"{base.__name__} has no {name} any more: mend the mutant"
            assert list(inspect.signature(method).parameters) == list(
                inspect.signature(real).parameters
            ), f"{wrong.__name__}.{name}"


def stands_in(part: Part) -> None:
    real = getattr(part.module, part.name)
    assert real is not part.wrong, "it is replaced in the process of the mutant alone"
    if isinstance(part.wrong, type):
        assert part.wrong.__mro__[1] is real
        overrides(part.wrong, real)
    else:
        assert callable(part.wrong)
        assert len(inspect.signature(part.wrong).parameters) == len(
            inspect.signature(real).parameters
        )


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_replaces_parts_that_exist_by_what_fits_in_their_place(name: str) -> None:
    assert MUTANTS[name]
    for part in MUTANTS[name]:
        stands_in(part)


@pytest.mark.parametrize("fleet", FLEETS.values(), ids=FLEETS)
def test_a_mutant_of_a_fleet_overrides_what_the_real_one_has(fleet: type) -> None:
    assert issubclass(fleet, LocalFleet)
    overrides(fleet, LocalFleet)


def test_every_mutant_is_tried() -> None:
    for role, mutants in (("syncer", syncer.MUTANTS), ("learner", learner.MUTANTS)):
        assert {t.programs[role] for t in TRIALS if role in t.programs} == set(mutants)
    assert {trial.fleet for trial in TRIALS if trial.fleet} == set(FLEETS)


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.name)
def test_a_trial_says_what_is_wrong_and_who_must_find_it(trial: Trial) -> None:
    prepared = trial.prepare()
    expected = {spec.check for spec in prepared.plan.expect}
    assert dict(prepared.plan.fleet.programs) == {
        role: program_of(role, name) for role, name in trial.programs.items()
    }
    if trial.is_control:
        assert not any((trial.wrong, trial.codes, trial.settings))
        return
    assert all((trial.wrong, trial.codes))
    assert trial.check in (expected & CHECKS.keys()) | RULES
    assert set(trial.culprits) <= set(prepared.plan.training.learner_names)
    assert trial.programs or trial.fleet or trial.settings, "something has to be wrong"


def test_every_plan_that_a_mutant_is_tried_with_passes_without_it() -> None:
    tried = {trial.plan for trial in TRIALS if trial.programs or trial.fleet} | {"scripted"}
    assert tried == {trial.plan for trial in CONTROLS} - {"kill_half"}
