"""What a correct plan becomes."""

from collections.abc import Mapping

import pytest

from chaoslab.core.protocol import Phase
from chaoslab.core.units import Relative
from chaoslab.links.toxiproxy.settings import Toxiproxy
from chaoslab.plan.model import (
    AbortRule,
    Arrivals,
    Baseline,
    Distribution,
    FaultPlan,
    FleetSpec,
    Outage,
    Pick,
    Stop,
    Target,
    Trigger,
)
from tests.plan.file.catalogue import (
    HEAD,
    KILL,
    Continuity,
    Loader,
    Loop,
    Nested,
    Ramp,
    Rejoin,
    Signal,
    one_fault,
)


def test_an_almost_empty_plan_has_the_defaults_of_the_dataclasses(load: Loader) -> None:
    assert load(HEAD) == FaultPlan(name="trial")


def test_every_part_of_the_frame_is_read_in_its_units(load: Loader) -> None:
    plan = load(
        HEAD + "description: why\nseed: 7\ntwin: true\nsettle: 20s\n"
        "training: {learners: 8, merge: average, grace: {gamma: 0.5}, outer: {lr: 1}, "
        "inner: {final_share: 20%, batch: 4}, stop: {rounds: 120, tokens: 2M, time: 1m30s}, "
        "suspect_after: 500ms, drop_after: 3s, evaluate_every: 200k}\n"
        "fleet: {kind: local, links: toxiproxy, labels: {learner-0: {region: eu}}, "
        "regions: {us: [learner-1], asia: 2}, profiles: {us: lan}, "
        "programs: {learner: my_package.my_learner}, "
        "toxiproxy: 127.0.0.1:8474}\n"
        "baseline: {warmup: 6 rounds, window: 10 rounds, max_variation: 25%}\n"
        "limits: {min_alive: 2, max_affected: 50%, protected: [learner-3], timeout: 10m}\n"
        "abort:\n- when: {no_round_for: 2m}\n- {when: {alive_below: 2}}\n"
    )
    assert (plan.description, plan.seed, plan.twin, plan.settle_s) == (
        "why",
        7,
        True,
        20,
    )
    assert plan.training.stop == Stop(rounds=120, tokens=2_000_000, time_s=90)
    assert (plan.training.inner.final_share, plan.training.outer.lr) == (0.2, 1.0)
    assert (plan.training.suspect_after_s, plan.training.evaluate_every) == (0.5, 200_000)
    assert plan.fleet == FleetSpec(
        links="toxiproxy",
        labels={"learner-0": {"region": "eu"}},
        regions={"us": ("learner-1",), "asia": 2},
        profiles={"us": "lan"},
        programs={"learner": "my_package.my_learner"},
        links_settings=Toxiproxy(toxiproxy="127.0.0.1:8474"),
    )
    assert plan.baseline == Baseline(warmup=6, window=10, max_variation=0.25)
    assert (plan.limits.protected, plan.limits.max_affected) == (("learner-3",), 0.5)
    assert plan.abort == (AbortRule(no_round_for_s=120), AbortRule(alive_below=2))


TARGET, AT, FOR = "target: {learners: 1}", "at: {round: 3}", "for: 5s"


@pytest.mark.parametrize(
    ("written", "means"),
    [
        *((f"target: {{{target}}}, {AT}, {FOR}", {"target": means}) for target, means in (
            ("learners: 50%", Target(share=0.5)),
            ("learners: 2, pick: first", Target(count=2, pick=Pick.FIRST)),
            ("learners: all, exclude: [learner-1]", Target(everyone=True, exclude=("learner-1",))),
            ("learners: [learner-0, learner-3]", Target(names=("learner-0", "learner-3"))),
            ("reserve: all", Target(everyone=True, reserve=True)),
            ("reserve: 1", Target(count=1, reserve=True)),
            ("reserve: [learner-4]", Target(names=("learner-4",), reserve=True)),
            ("syncer: all", Target(syncer=True)),
            ("region: eu", Target(labels={"region": "eu"})),
            ("learners: 1, region: eu", Target(count=1, labels={"region": "eu"})),
        )),
        *((f"{TARGET}, at: {{{when}}}, {FOR}", {"at": means}) for when, means in (
            ("time: 30s", Trigger(time_s=30)),
            ("round: 48", Trigger(round=48)),
            ("step: 200, of: learner-1", Trigger(step=200, of="learner-1")),
            ("loss: 2.5", Trigger(loss=2.5)),
            ("loss: -2.5", Trigger(loss=-2.5)),
            ("phase: push, of: learner-1", Trigger(phase=Phase.PUSH, of="learner-1")),
            ("phase: written, of: syncer, after_round: 48, wait: 5s",
             Trigger(phase=Phase.WRITTEN, of="syncer", after_round=48, wait_s=5)),
            ("after: first, offset: 2s", Trigger(after="first", offset_s=2)),
        )),
        *((f"{TARGET}, {AT}, {length}", {"outage": means}) for length, means in (
            ("for: rest", Outage(rest=True)),
            ("outage: {dist: lognormal, median: 10s, sigma: 0.9, at_most: 1m}",
             Outage(dist=Distribution.LOGNORMAL, seconds=10, sigma=0.9, at_most_s=60)),
            ("outage: {dist: weibull, mean: 10s, shape: 0.8}",
             Outage(dist=Distribution.WEIBULL, seconds=10, shape=0.8)),
            ("outage: {dist: exponential, mean: 3s}",
             Outage(dist=Distribution.EXPONENTIAL, seconds=3)),
        )),
        *((f"{TARGET}, {FOR}, arrivals: {{{arrivals}}}", {"arrivals": means})
          for arrivals, means in (
            ("per: fleet, mtbf: 90s, dist: weibull, shape: 0.8, start: 30s, until: 5m, most: 3",
             Arrivals(per="fleet", dist=Distribution.WEIBULL, mtbf_s=90, shape=0.8, start_s=30,
                      until_s=300, most=3)),
            ("dist: trace, trace: [12s, 1m]",
             Arrivals(dist=Distribution.TRACE, trace_s=(12, 60))),
        )),
    ],
)  # fmt: skip
def test_a_fault_is_read(load: Loader, written: str, means: Mapping[str, object]) -> None:
    plan = load(
        f"{HEAD}{KILL.replace('fault:', 'id: first, fault:')}- {{fault: process.kill, {written}}}\n"
    )
    first, fault = plan.faults
    assert first.outage == Outage(seconds=5)
    assert {key: getattr(fault, key) for key in means} == means


def test_training_may_stop_at_a_loss_below_zero(load: Loader) -> None:
    assert load(HEAD + "training: {stop: {loss: -2.5}}\n").training.stop == Stop(loss=-2.5)


def test_settings_are_the_fields_of_the_fault_in_their_units(load: Loader) -> None:
    plan = load(
        one_fault(
            "fault: compute.ramp, target: {learners: 1}, at: {round: 3}, for: 5s, ratio: 2, "
            "mode: down, limit: 64MiB, store: 2kB, pace: 80mbit, flow: 2MB/s, min_share: 70%, "
            "depth: 5%, tokens: 2M, offsets: [1s, 500ms], names: [a, b], until: 1m, is_loud: true, "
            "inner: {signal: SIGTERM}"
        )
    )
    assert plan.faults[0].settings == Ramp(
        ratio=2.0, mode="down", limit_bytes=64 * 2**20, store=2000, pace_bytes_per_s=1e7, flow=2e6,
        min_share=0.7, depth=0.05, tokens=2_000_000, offsets_s=(1.0, 0.5), names=("a", "b"),
        until_s=60.0, is_loud=True, inner=Nested(signal=Signal.SIGTERM),
    )  # fmt: skip


def test_checks_are_read_like_faults(load: Loader) -> None:
    plan = load(
        HEAD + "expect:\n- {check: continuity}\n- {check: continuity, max_gap: 2s}\n"
        "- {check: continuity, max_gap: 4x baseline}\n"
        "- {check: rejoin, within: 10s, contributions: 5, max_slowdown: 1.5x, min_rounds: 4}\n"
    )
    assert [spec.settings for spec in plan.expect] == [
        Continuity(),
        Continuity(max_gap=2.0),
        Continuity(max_gap=Relative(factor=4.0)),
        Rejoin(within_s=10, contributions=5, max_slowdown=1.5, min_rounds=4),
    ]


def test_a_fault_without_a_name_gets_one_from_its_kind_and_knows_where_it_was_written(
    load: Loader,
) -> None:
    loop = "- {fault: process.crash_loop, target: {learners: 1}, at: {round: 9}, for: 9s}\n"
    plan = load(HEAD + KILL + loop + "expect:\n- {check: rejoin}\n")
    assert [spec.id for spec in plan.faults] == ["kill-0", "crash-loop-1"]
    assert plan.faults[1].settings == Loop()
    places = [spec.where.partition(":")[2] for spec in (*plan.faults, *plan.expect)]
    assert places == ["4:3", "5:3", "7:3"]


def test_yes_and_no_are_text_and_numbers_have_all_forms_of_yaml(load: Loader) -> None:
    assert load(HEAD + "description: yes").description == "yes"
    assert load(HEAD + "description: 2026-01-01").description == "2026-01-01"
    assert [load(HEAD + f"seed: {n}").seed for n in ("0x10", "0o10", "010", "1_000", "-3")] == [
        16, 8, 10, 1000, -3,
    ]  # fmt: skip
    assert load(HEAD + "training: {outer: {lr: 1e-3}}").training.outer.lr == 1e-3
