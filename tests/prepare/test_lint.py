"""Plans that can never pass, or never fail, are named when they are read."""

import os
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.prepare.plans import Asked, Prepared, bundled_plans, decode, prepare
from chaoslab.selftest.trial import PLANS

KILL = "{id: dies, fault: process.kill, target: {learners: 1}, at: {round: 20}, for: 4s}"
BACK = KILL.replace("dies", "back").replace("round: 20", "round: 60")
CRASH = "{id: crash, fault: process.kill, target: {syncer: all}, at: {round: 20}, for: 10s}"
HEAD = """version: 1
name: trial
training: {learners: 4}
limits: {timeout: 4m}
"""


def prepared(
    tmp_path: Path,
    *,
    faults: str = KILL,
    expect: str = "{check: cleanup}",
    more: str = "",
    setting: str = "seed=0",
) -> Prepared:
    path = tmp_path / "trial.yaml"
    path.write_text(f"{HEAD}{more}faults:\n  - {faults}\nexpect:\n  - {expect}\n")
    return prepare(Asked(plan=str(path), settings=[setting]))


REST = KILL.replace("4s}", "rest}")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"faults": REST, "expect": "{check: rejoin}"}, ":6:.*'dies'"),
        (
            {"expect": "{check: rejoin}\n  - {check: learners_rejoin, expected: false}"},
            r":9:.*expect\[1\].expected: ",
        ),
        ({"expect": "{check: rejoin, within: 100000s}"}, r":8:.*expect\[0\].within: "),
        (
            {"setting": "training.algorithm=data_parallel",
             "faults": KILL.replace("process.kill", "network.partition")},
            r":6:.*faults\[0\].fault: 'dies'",
        ),
        (
            {"setting": "training.algorithm=elastic_data_parallel",
             "more": "fleet: {kind: docker}\n"},
            "`elastic_data_parallel`.* docker",
        ),
        ({"expect": "{check: continuity, max_gap: 10m}"}, r":8:.*expect\[0\].max_gap: "),
        (
            {"expect": "{check: rejoin, max_lag: 100000}", "setting": "training.stop={rounds: 60}"},
            r":8:.*expect\[0\].max_lag: 100,?000 rounds can never be exceeded.* 20",
        ),
        ({"expect": "{check: continuity, floor: 1h}"}, r":8:.*expect\[0\].floor: "),
        ({"faults": KILL.replace("round: 20", "time: 5m")}, r":6:.*faults\[0\].at: 'dies'"),
        (
            {"faults": KILL.replace("round: 20", "time: 3m") + "\n  - {id: again, fault: "
             "process.kill, target: {learners: 1}, at: {after: dies, offset: 58s}, for: 4s}"},
            r":7:.*faults\[1\].at: 'again'.*4m2s",
        ),
        (
            {"faults": KILL.replace("at: {round: 20}", "arrivals: {mtbf: 1s, start: 5m, until: 6m}")
             + "\n  - " + KILL.replace("dies", "two")},
            r":6:.*faults\[0\].arrivals.start: ",
        ),
        (
            {"faults": CRASH, "expect": "{check: continuity, max_gap: 6s}"},
            r":8:.*expect\[0\].max_gap: .*'crash'",
        ),
        (
            {"faults": CRASH, "more": "abort: [{when: {no_round_for: 5s}}]\n"},
            r":5:.*abort\[0\].when.no_round_for: .*'crash'",
        ),
        ({"expect": "{check: injections, min_proved: 2}"}, r":8:.*expect\[0\].min_proved: "),
        ({"expect": "{check: staleness, max_rounds: -1}"}, r":8:.*expect\[0\].max_rounds: .*-1"),
        ({"expect": "{check: continuity, max_gap: 0s}"}, r":8:.*expect\[0\].max_gap: .*0s"),
        ({"expect": "{check: survivors, max_slowdown: 0x}"}, r"expect\[0\].max_slowdown: .*0x"),
        ({"setting": "baseline.window=0 rounds"}, "--set.*baseline.window: .*2"),
        ({"more": "abort: [{when: {alive_below: 9}}]\n"}, r":5:.*abort\[0\].when.alive_below: "),
        *(({"setting": f"training.step_time={text}"}, f"training.step_time: .*{text}")
          for text in ("60", "quick", "0s", "2h")),
    ],
)  # fmt: skip
def test_what_can_never_be_is_refused_with_its_place(
    tmp_path: Path, given: dict[str, str], words: str
) -> None:
    with pytest.raises(PlanError, match=words):
        prepared(tmp_path, **given)


@pytest.mark.parametrize(
    "given",
    [
        {"faults": REST},
        {"faults": f"{REST}\n  - {BACK}", "expect": "{check: rejoin}"},
        {"expect": "{check: rejoin, within: 2m}", "setting": "settle=2m"},
        {"expect": "{check: learners_rejoin, expected: false}"},
        {"faults": CRASH, "expect": "{check: continuity, max_gap: 12s}"},
        {"faults": KILL.replace("round: 20", "time: 3m")},
    ],
)
def test_what_can_be_is_accepted_without_a_word(tmp_path: Path, given: dict[str, str]) -> None:
    assert prepared(tmp_path, **given).warnings == ()


RARE = (
    "{id: rare, fault: process.pause, target: {learners: 1}, for: 4s, "
    "arrivals: {per: fleet, mtbf: 300h, until: 60s}}"
)
SLOW = KILL.replace("process.kill", "compute.slow")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"faults": f"{KILL}\n  - {RARE}"},
            "UNKNOWN: no injection",
        ),
        (
            {
                "faults": f"{SLOW}\n  - {RARE.replace('300h', '1s')}",
                "setting": "limits.min_alive=4",
            },
            "UNKNOWN: the limits",
        ),
        (
            {"expect": "{check: continuity, max_gap: 1000000x baseline}"},
            "continuity.max_gap: ",
        ),
        ({"expect": "{check: goodput, min_share: 150%}"}, "goodput.min_share "),
        (
            {"expect": "{check: contribution_share, max_difference: 100%}"},
            "contribution_share.max_difference: ",
        ),
        (
            {"expect": "{check: survivors, max_slowdown: 1000000x}"},
            "survivors.max_slowdown: ",
        ),
        (
            {"expect": "{check: numeric_health, max_loss: 11x}"},
            "numeric_health.max_loss: ",
        ),
        (
            {"expect": "{check: goodput, min_share: 0.00001%}"},
            "trial.yaml:8:33: goodput.min_share: 0.00001% binds nothing: use at least 5%",
        ),
        (
            {"expect": "{check: rejoin, max_lag: 30}"},
            "rejoin.max_lag: 30 binds nothing: use at most 20",
        ),
        (
            {"setting": "baseline.window=2 rounds"},
            "baseline.window: 2 rounds binds nothing: use at least 4 rounds",
        ),
        ({"setting": "baseline.max_variation=100000%"}, "baseline.max_variation: 100000%"),
        ({"expect": "{check: rejoin, within: 31s}"}, "write `settle: 31s`"),
        ({"expect": "{check: succession}"}, "or take succession out"),
        ({"faults": CRASH, "expect": "{check: rejoin}"}, "rejoin will be UNKNOWN"),
        (
            {"expect": "{check: loss_parity}"},
            "loss_parity is not judged",
        ),
    ],
)
def test_what_is_likely_a_mistake_is_a_warning(
    tmp_path: Path, given: dict[str, str], words: str
) -> None:
    assert any(words in warning for warning in prepared(tmp_path, **given).warnings)


LEARNER = "fleet: {programs: {learner: json.tool}}\n"


def test_an_evaluator_that_may_load_another_model_than_the_learner_is_doubtful(
    tmp_path: Path,
) -> None:
    (warning,) = prepared(tmp_path, more=f"twin: true\n{LEARNER}").warnings
    assert "trial.yaml:6:20: fleet.programs.learner: " in warning
    with_both = LEARNER.replace("tool}", "tool, evaluator: json.tool}")
    assert prepared(tmp_path, more=f"twin: true\n{with_both}").warnings == ()
    assert prepared(tmp_path, more=LEARNER).warnings == (), "nothing is evaluated"


SPEEDS = "{check: goodput}\n  - {check: survivors, max_slowdown: 1.05x}"


def test_speeds_of_learners_that_share_cores_are_doubtful_without_a_step_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warnings(*, cores: int, step_time: str = "off", expect: str = SPEEDS) -> tuple[str, ...]:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
        setting = f"training.step_time={step_time}"
        return prepared(tmp_path, expect=expect, setting=setting).warnings

    (warning,) = warnings(cores=2)
    assert "goodput and survivors: 4 learners share 2 cores" in warning
    assert warnings(cores=4) == ()
    assert warnings(cores=2, step_time="auto") == warnings(cores=2, step_time="60ms") == ()
    assert warnings(cores=2, expect="{check: survivors, max_slowdown: 3x}") == ()
    (warning,) = warnings(cores=4, expect="{check: goodput, max_share: 110%}")
    assert "goodput.max_share" in warning


def test_a_plan_on_record_is_read_whatever_can_never_be_in_it(tmp_path: Path) -> None:
    path = tmp_path / "old.yaml"
    path.write_text(f"{HEAD}faults:\n  - {REST}\nexpect:\n  - {{check: rejoin}}\n")
    assert decode(Asked(plan=str(path)))[0].faults[0].outage.rest


PLANS_OF_OURS = [*bundled_plans().values(), *sorted(PLANS.glob("*.yaml"))]


@pytest.mark.parametrize("path", PLANS_OF_OURS, ids=[path.stem for path in PLANS_OF_OURS])
def test_no_plan_that_comes_with_chaoslab_is_doubtful(path: Path) -> None:
    assert prepare(Asked(plan=str(path))).warnings == ()


def test_a_target_that_is_not_there_hides_no_other_mistake(tmp_path: Path) -> None:
    absent, again = (REST.replace("1}", "[learner-9]}").replace("dies", name) for name in "ab")
    faults = "\n  - ".join([absent, again, REST])
    expect = "{check: rejoin}\n  - {check: continuity, max_gap: 10m}"
    with pytest.raises(PlanError) as refused:
        prepared(tmp_path, faults=faults, expect=expect)
    lines = [line.split(":")[1] for line in str(refused.value).splitlines()]
    assert lines == ["6", "6", "7", "7", "8", "11"]
