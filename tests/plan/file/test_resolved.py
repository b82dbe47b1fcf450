"""The resolved plan: everything written out, and equal when it is read again."""

import math
from dataclasses import fields

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoslab.core.units import Relative
from chaoslab.plan.file import resolved_yaml
from chaoslab.plan.model import (
    PROGRAMS,
    SYNCER_PHASES,
    AbortRule,
    Arrivals,
    Baseline,
    CheckSpec,
    Control,
    Distribution,
    FaultPlan,
    FaultSpec,
    FleetSpec,
    Limits,
    Outage,
    Phase,
    Pick,
    Stop,
    Target,
    Training,
    Trigger,
)
from tests.plan.file.catalogue import Continuity, Kill, Loader, Loop, Ramp, Rejoin, Signal

NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
SECONDS = st.floats(min_value=0, max_value=1e6, allow_subnormal=False)
POSITIVE = st.floats(min_value=1e-3, max_value=1e6)
SHARES = st.floats(min_value=1e-6, max_value=1)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters="$"))

TRIGGERS = st.one_of(
    st.builds(Trigger, time_s=SECONDS),
    st.builds(Trigger, round=st.integers(0, 10**6)),
    st.builds(Trigger, step=st.integers(0, 10**6), of=st.none() | NAMES),
    st.builds(Trigger, loss=SECONDS),
    st.builds(
        Trigger, phase=st.sampled_from(sorted(SYNCER_PHASES)), hold_s=SECONDS,
        after_round=st.integers(0, 10**6),
    ),
    st.builds(Trigger, phase=st.sampled_from([Phase.PUSH, Phase.ADOPT]), of=st.none() | NAMES),
)  # fmt: skip
TARGETS = st.one_of(
    st.builds(
        Target, share=SHARES,
        pick=st.sampled_from([Pick.RANDOM, Pick.FIRST, Pick.LAST_VICTIM]),
    ),
    st.builds(Target, count=st.integers(1, 99), exclude=st.lists(NAMES, max_size=2).map(tuple)),
    st.builds(Target, names=st.lists(NAMES, min_size=1, max_size=3).map(tuple)),
    st.just(Target(everyone=True)),
    st.just(Target(syncer=True)),
    st.builds(Target, labels=st.just({"region": "eu", "zone": "3"})),
)  # fmt: skip
OUTAGES = st.one_of(
    st.builds(Outage, seconds=POSITIVE),
    st.just(Outage(rest=True)),
    st.builds(
        Outage, dist=st.just(Distribution.LOGNORMAL), seconds=POSITIVE, sigma=SECONDS,
        at_most_s=st.none() | POSITIVE,
    ),
    st.builds(
        Outage, dist=st.just(Distribution.WEIBULL), seconds=POSITIVE, shape=POSITIVE,
    ),
    st.builds(Outage, dist=st.just(Distribution.EXPONENTIAL), seconds=POSITIVE),
)  # fmt: skip
ARRIVALS = st.one_of(
    st.builds(
        Arrivals, per=st.sampled_from(["target", "fleet"]), mtbf_s=POSITIVE,
        dist=st.sampled_from([Distribution.EXPONENTIAL, Distribution.WEIBULL]), shape=POSITIVE,
        start_s=SECONDS, until_s=SECONDS, most=st.none() | st.integers(0, 9),
    ),
    st.builds(Arrivals, mtbf_s=POSITIVE, most=st.integers(0, 9)),
    st.builds(
        Arrivals, dist=st.just(Distribution.TRACE),
        trace_s=st.lists(SECONDS, min_size=1, max_size=3).map(tuple),
    ),
)  # fmt: skip
SETTINGS = st.one_of(
    st.builds(Kill, signal=st.sampled_from(Signal)).map(lambda kill: ("process.kill", kill)),
    st.builds(Loop, times=st.integers(1, 9), lives_s=SECONDS).map(
        lambda loop: ("process.crash_loop", loop)
    ),
    st.builds(
        Ramp, ratio=SECONDS, limit_bytes=st.integers(0, 10**12), pace_bytes_per_s=SECONDS,
        min_share=SHARES, depth=SHARES, tokens=st.integers(0, 10**12),
        offsets_s=st.lists(SECONDS, max_size=3).map(tuple),
        names=st.lists(TEXTS, max_size=3).map(tuple), until_s=st.none() | SECONDS,
        is_loud=st.booleans(),
    ).map(lambda ramp: ("compute.ramp", ramp)),
)  # fmt: skip


@st.composite
def faults(draw: st.DrawFn) -> tuple[FaultSpec, ...]:
    specs: list[FaultSpec] = []
    for name in draw(st.lists(NAMES, max_size=3, unique=True)):
        kind, chosen = draw(SETTINGS)
        at = draw(st.none() | TRIGGERS)
        specs.append(
            FaultSpec(
                id=name, fault=kind, settings=chosen, target=draw(TARGETS), at=at,
                arrivals=draw(ARRIVALS) if at is None else None, outage=draw(OUTAGES),
            )
        )  # fmt: skip
    return tuple(specs)


CHECKS = st.one_of(
    st.builds(Continuity, max_gap=SECONDS | st.builds(Relative, factor=SECONDS)).map(
        lambda check: CheckSpec(check="continuity", settings=check)
    ),
    st.builds(Rejoin, within_s=SECONDS, max_slowdown=SECONDS).map(
        lambda check: CheckSpec(check="rejoin", settings=check)
    ),
)
PLANS = st.builds(
    FaultPlan,
    name=NAMES,
    description=TEXTS,
    seed=st.integers(-(2**63), 2**63 - 1),
    training=st.builds(
        Training,
        learners=st.integers(1, 9),
        data=TEXTS,
        task=st.none() | st.just("my_package.task:make"),
        merge=st.sampled_from(["rda", "average"]),
        blend=st.sampled_from([0.0, 0.125, 0.5]),
        norm_limit=st.sampled_from([1.5, 8.0, math.inf]),
        evaluate_every=st.none() | st.integers(1, 10**12),
        stop=st.builds(Stop, tokens=st.integers(1, 10**15), time_s=st.none() | POSITIVE),
    ),
    fleet=st.builds(
        FleetSpec,
        links=st.none() | st.sampled_from(["embedded", "toxiproxy"]),
        programs=st.dictionaries(st.sampled_from(PROGRAMS), st.just("my_package.mine")),
        labels=st.just({}) | st.just({"learner-0": {"zone": "no"}}),
        regions=st.just({}) | st.just({"eu": ("learner-0",)}) | st.just({"us": 1}),
    ),
    control=st.sampled_from(Control),
    baseline=st.builds(Baseline, warmup=st.integers(0, 99), max_variation=SHARES),
    settle_s=SECONDS,
    limits=st.builds(
        Limits, max_affected=SHARES, protected=st.lists(NAMES).map(tuple), timeout_s=st.just(2e6)
    ),
    faults=faults(),
    abort=st.lists(
        st.builds(AbortRule, no_round_for_s=POSITIVE) | st.builds(AbortRule, loss_above=SECONDS)
    ).map(tuple),
    expect=st.lists(CHECKS, max_size=3).map(tuple),
)


@pytest.mark.deep
@given(plan=PLANS)
@settings(max_examples=60, deadline=None, suppress_health_check=[
    HealthCheck.function_scoped_fixture, HealthCheck.too_slow])  # fmt: skip
def test_a_resolved_plan_reads_back_equal(load: Loader, plan: FaultPlan) -> None:
    assert load(resolved_yaml(plan)) == plan


@pytest.mark.parametrize(("limit", "written"), [(8.5, "8.5"), (math.inf, "off")])
def test_a_limit_is_written_as_a_number_or_as_off(load: Loader, limit: float, written: str) -> None:
    plan = FaultPlan(name="trial", training=Training(norm_limit=limit))
    assert f"norm_limit: {written}\n" in resolved_yaml(plan)
    assert load(resolved_yaml(plan)) == plan


def test_everything_is_written_out_with_its_default() -> None:
    text = resolved_yaml(FaultPlan(name="trial"))
    for field in fields(Training):
        if field.name not in {"task", "evaluate_every"}:  # absent by default
            assert f"  {field.name.removesuffix('_s')}:" in text
    for line in ("version: 1", "suspect_after: 2s", "timeout: 10m", "max_affected: 100%",
                 "settle: 30s", "warmup: 12 rounds", "final_share: 10%"):  # fmt: skip
        assert line in text


@pytest.mark.parametrize("text", ["yes", "1", "~", "3s", "null", "true", "a: b", "#", "", "- x"])
def test_a_text_that_looks_like_something_else_stays_a_text(load: Loader, text: str) -> None:
    assert load(resolved_yaml(FaultPlan(name="trial", description=text))).description == text
