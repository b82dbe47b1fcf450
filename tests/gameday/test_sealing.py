"""The draw of sealed faults: from the seed, within what plan, fleet and links allow."""

from itertools import pairwise

import pytest
from click.testing import CliRunner

from chaoslab.cli.main import main
from chaoslab.core.errors import AbilityError, ExitCode, PlanError
from chaoslab.core.payloads import FaultInjecting, GamedayOpened
from chaoslab.gameday.sealing import drawn_from
from chaoslab.record.history import History
from tests.sealed_day import drawn, prepared, record

pytestmark = pytest.mark.usefixtures("folder")


def test_the_same_plan_and_seed_give_the_same_faults_and_others_do_not() -> None:
    plan = prepared("gameday.sealed.faults=4")
    found = drawn(plan)
    assert drawn(plan) == found
    assert drawn(prepared("gameday.sealed.faults=4", "seed=4")) != found


def test_they_are_numbered_in_the_order_in_which_they_come_after_those_of_the_plan() -> None:
    found = drawn(prepared("gameday.sealed.faults=4"))
    assert [one.spec for one in found] == ["sealed-1", "sealed-2", "sealed-3", "sealed-4"]
    assert [one.id for one in found] == [f"injection-{number}" for number in (1, 2, 3, 4)]
    times_s = [one.trigger.time_s or 0.0 for one in found]
    assert times_s == sorted(times_s)
    assert all(0 <= time_s <= 40 for time_s in times_s)
    assert {one.for_s for one in found} == {3.0}


def test_they_are_drawn_from_what_fleet_and_links_can_do() -> None:
    assert drawn_from(prepared()) == ("process.kill", "process.pause")
    linked = prepared("fleet.links=sim")
    assert drawn_from(linked) == ("process.kill", "process.pause", "network.partition")
    only = prepared("gameday.sealed.kinds=[clock.step]", "faults.0.fault=clock.step")
    assert {one.fault for one in drawn(only)} == {"clock.step"}


def test_together_they_keep_the_limits_of_the_plan() -> None:
    one_at_once = ("limits.max_affected=25%", "limits.protected=[learner-0]")
    for number in range(20):
        found = drawn(prepared("gameday.sealed.faults=4", f"seed={number}", *one_at_once))
        times_s = [one.trigger.time_s or 0.0 for one in found]
        gaps_s = [later - before for before, later in pairwise(times_s)]
        assert min(gaps_s) >= 3.0
        assert "learner-0" not in {name for one in found for name in one.targets}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("gameday.sealed.faults=0",), "must be 1 to 20, got 0"),
        (("gameday.sealed.for=0s",), "must be above 0s"),
        (("gameday.sealed.within=3h",), "`gameday.length` ends the run after 2h30m"),
        (("gameday.sealed.faults=20", "limits.max_affected=25%"), "no draw of 20 keeps `limits`"),
        (("gameday.sealed.kinds=[process.kil]",), "did you mean `process.kill`?"),
        (("gameday.sealed.kinds=[syncer.disk_full]",), "acts on the syncer"),
        (("gameday.sealed.kinds=[control.scale_up]",), "brings learners in"),
        (("gameday.sealed.kinds=[network.partition]",), "links"),
        (("gameday.sealed.kinds=[clock.step]",), "needs nodes that are started for it (hooks)"),
        (("faults.0.id=sealed-2",), "'sealed-2' is that of a sealed fault"),
    ],
)
def test_what_cannot_be_sealed_is_refused_before_anything_starts(
    settings: tuple[str, ...], said: str
) -> None:
    with pytest.raises((PlanError, AbilityError)) as caught:
        drawn(prepared(*settings))
    assert said in str(caught.value)


def test_every_other_command_ignores_them() -> None:
    prepared()
    done = CliRunner().invoke(main, ["run", "one_dies.yaml", "--quiet"])
    assert done.exit_code == ExitCode.PASS, done.output
    history = History.read(record().path)
    assert not history.of(GamedayOpened)
    assert {one.payload.spec for one in history.of(FaultInjecting)} == {"one-dies"}
