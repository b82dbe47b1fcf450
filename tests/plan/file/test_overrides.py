"""`--set`, `--seed`, `--fleet`: applied before the plan is judged, named when wrong."""

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.plan.model import Stop
from tests.plan.file.catalogue import HEAD, KILL, Kill, Loader, Rejoin, Signal, told


def test_an_override_replaces_or_adds_a_value(load: Loader) -> None:
    plan = load(HEAD + "training: {learners: 2, stop: {time: 9s}}", "training.learners=7",
                "training.learners=8", "training.outer.lr=0.5", "training.stop={rounds: 5}",
                "limits.protected=[learner-1]", "description=two words")  # fmt: skip
    assert (plan.training.learners, plan.training.outer.lr) == (8, 0.5)
    assert plan.training.stop == Stop(rounds=5)
    assert (plan.limits.protected, plan.description) == (("learner-1",), "two words")


def test_a_fault_is_reached_by_its_number_or_by_its_name(load: Loader) -> None:
    named = HEAD + KILL.replace("fault:", "id: early, fault:")
    assert load(HEAD + KILL, "faults.0.for=9s").faults[0].outage.seconds == 9
    assert load(named, "faults.early.for=8s").faults[0].outage.seconds == 8
    assert load(named, "faults.early.signal=SIGTERM").faults[0].settings == Kill(
        signal=Signal.SIGTERM
    )


def test_a_check_is_reached_by_its_name(load: Loader) -> None:
    text = HEAD + "expect: [{check: continuity, max_gap: 3x baseline}, {check: rejoin}]"
    assert load(text, "expect.rejoin.within=9s").expect[1].settings == Rejoin(within_s=9)
    assert "`rejoin`" in told(load, text, "expect.rejoim.within=9s")


def test_seed_and_fleet_have_flags_of_their_own(load: Loader) -> None:
    plan = load(HEAD + "seed: 3", seed=9, fleet="local")
    assert (plan.seed, plan.fleet.kind) == (9, "local")
    with pytest.raises(PlanError, match=r"--fleet moon: fleet\.kind: "):
        load(HEAD, fleet="moon")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("training.learners=x", "training.learners: 'x'"),
        ("training.lerners=8", "`learners`"),
        ("trainin.learners=8", "`training`"),
        ("training.outer.lr=-1", "training.outer.lr: "),
        ("training.model=nanoo", "training.model: "),
        ("settle=30", "30s"),
        ("settle=", "no value"),
        ("training.learners", "key=value"),
        ("=3", "key=value"),
        ("training..learners=3", "key=value"),
        ("seed.x=3", "`seed` is 5"),
        ("faults.late.for=3s", "`late`"),
        ("faults.7.for=3s", "`7`"),
        ("settle=[1", "YAML"),
    ],
)
def test_a_mistaken_override_is_named(load: Loader, override: str, words: str) -> None:
    message = told(load, HEAD + "seed: 5\ntraining: {model: nano}\n" + KILL, override)
    assert message.startswith(f"--set {override}: ")
    assert words in message
    assert len(message.splitlines()) == 1


def test_mistakes_of_overrides_and_of_the_file_are_told_together(load: Loader) -> None:
    first, second = told(load, HEAD + "settle: 3\n", "seed=x").splitlines()
    assert first.startswith("--set seed=x: ")
    assert ":3:9: " in second


def test_a_mistake_is_one_line_whatever_was_written(load: Loader) -> None:
    said = told(load, HEAD, "wrong\nkey=\x1b[31m", "\udcff=\udcff")
    assert [line[:6] for line in said.split("\n")[:2]] == ["--set "] * 2
    assert said.replace("\n", "").isprintable()
