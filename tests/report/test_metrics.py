"""Metrics of a run, as Prometheus reads them."""

import socket
import urllib.request
from contextlib import suppress
from dataclasses import replace

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from chaoslab.checks.verdict import judge
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Kind
from chaoslab.report.metrics import Metrics, served
from tests.histories import Story, half_killed

HELD = {
    "spec": "half-dies", "fault": "process.kill", "trigger": "round 20", "injections": 1,
    "targets": ["learner-1"],
}  # fmt: skip


def scraped(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Every sample as it is served, by name and the values of its labels, in their order."""
    families = list(text_string_to_metric_families(generate_latest(metrics.registry).decode()))
    assert all(one.documentation for one in families)
    return {
        (
            sample.name.removeprefix("chaoslab_"),
            ",".join(value for _, value in sorted(sample.labels.items())),
        ): sample.value
        for one in families
        for sample in one.samples
    }


def told(story: Story) -> Metrics:
    metrics = Metrics()
    for event in story.history().events:
        metrics.see(event)
    return metrics


def test_a_run_is_counted_as_its_journal_says() -> None:
    entry = {"spec": "half", "fault": "process.kill", "injections": 1}
    story = half_killed().end().altered(Kind.RUN_STARTED, lambda _: {"entries": [entry]})
    history, found = story.history(), scraped(told(story))
    merged = history.of(Kind.ROUND_MERGED)
    (baseline,) = history.of(Kind.BASELINE_MEASURED)
    steps = [one.payload for one in history.of(Kind.LEARNER_STEP)]
    wanted = {
        ("rounds_merged_total", ""): len(merged),
        ("committed_tokens", ""): merged[-1].payload.committed_tokens,
        ("faults_injected_total", "process.kill"): 1,
        ("faults_healed_total", "process.kill"): 1,
        ("faults_failed_total", "process.kill"): 0,
        ("faults_active", "process.kill"): 0,
        ("learner_incarnation", "learner-1"): 2,
        ("learner_steps_total", "learner-1"): sum(
            one.steps for one in steps if one.learner == "learner-1"
        ),
        ("learner_step_seconds", steps[-1].learner): None,  # it has ended
        ("node_exits_total", "learner"): 6,
        ("run_seconds", ""): history.end_s,
        ("baseline_tokens_per_second", ""): baseline.payload.tokens_per_s,
        ("last_round_seconds", ""): merged[-1].time_s,
    }
    assert {name: found.get(name) for name in wanted} == wanted


def test_a_fault_is_told_with_its_targets_while_it_is_open_and_no_longer() -> None:
    story = Story().baseline().kill("learner-1", "learner-3", spec="half-dies").train(2)
    found = scraped(told(story))
    for name in ("learner-1", "learner-3"):
        assert found["fault_open", f"process.kill,half-dies,{name}"] == 1
    assert found["faults_active", "process.kill"] == 1
    assert found["longest_gap_seconds", ""] > 0
    healed = scraped(told(story.train(6).heal().train(12).end()))
    assert not any(name == "fault_open" for name, _ in healed)


def test_verdicts_are_counted_and_the_next_run_begins_anew_and_its_twin_is_not_counted() -> None:
    metrics, history = Metrics(), half_killed().end().history()
    rounds = len(history.of(Kind.ROUND_MERGED))
    for event in (*history.events, *history.events):  # the run, and its twin
        metrics.see(event)
    twin = scraped(metrics)
    assert (twin["phase", "twin"], twin["rounds_merged_total", ""]) == (1, rounds)
    metrics.judged(judge(history, ()))
    for event in history.events:
        metrics.see(event)
    found = scraped(metrics)
    assert (found["rounds_merged_total", ""], found["phase", "twin"]) == (2 * rounds, 0)
    plan = history.of(Kind.RUN_STARTED)[0].payload.plan
    assert (found["runs_total", f"UNKNOWN,{plan}"], found["runs_total", f"FAIL,{plan}"]) == (1, 0)
    assert found["committed_tokens", ""] > 0


def test_the_labels_are_learners_faults_phases_and_the_plan_alone() -> None:
    counts = {"alive": 3, "members": 4, "stepping": 2, "contributing": 2}
    story = half_killed().say(Kind.COUNTS_SAMPLED, **counts).kill("learner-0")
    metrics = told(story.say(Kind.FAULT_HELD, **HELD))
    assert scraped(metrics)["learners", "members"] == 4
    samples = [one for family in metrics.registry.collect() for one in family.samples]
    assert {name for one in samples for name in one.labels} == {
        "plan", "seed", "fleet", "algorithm", "outcome", "learner", "fault", "phase", "count",
        "role", "spec", "target",
    }  # fmt: skip


def test_a_report_without_steps_leaves_the_duration_of_the_last_ones() -> None:
    story = half_killed()
    metrics, last = told(story), story.last(Kind.LEARNER_STEP)
    metrics.see(replace(last, data={**last.data, "steps": 0, "step_s": 0.0}))
    said = scraped(metrics)["learner_step_seconds", str(last.data["learner"])]
    assert said == last.data["step_s"] > 0


def test_a_fault_that_waits_is_told_by_its_name_alone_until_somebody_decides() -> None:
    story = Story().baseline()
    metrics = told(story.say(Kind.FAULT_HELD, **HELD))
    waiting = scraped(metrics)
    assert waiting["fault_held", "half-dies"] == 1
    assert not any(name.startswith("fault_open") for name, _ in waiting)
    acted, left_out = {"by": "Ann"}, {**HELD, "injection": "injection-0", "reason": ""}
    for kind, said, is_held in (
        (Kind.OPERATOR_ACTED, {**acted, "spec": "half-dies", "action": "milder"}, True),
        (Kind.OPERATOR_ACTED, {**acted, "spec": "half-dies", "action": "go"}, False),
        (Kind.FAULT_HELD, HELD, True),
        (Kind.FAULT_SKIPPED, {**left_out, "obstacle": "limits"}, True),
        (Kind.FAULT_SKIPPED, {**left_out, "obstacle": "operator"}, False),
        (Kind.FAULT_HELD, HELD, True),
        (Kind.RUN_FINISHED, {"outcome": "aborted", "reason": ""}, False),
    ):
        metrics.see(story.say(kind, **said).events[-1])
        assert (("fault_held", "half-dies") in scraped(metrics)) is is_held


def has_ipv6() -> bool:
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("", "127.0.0.1"),
        pytest.param("[::1]", "[::1]", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6")),
    ],
)
def test_the_metrics_are_served_over_http_where_nobody_else_is(host: str, shown: str) -> None:
    metrics = told(half_killed())
    with served(metrics, f"{host}:0") as url:
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.read() == generate_latest(metrics.registry)
        address = url.removeprefix("http://").removesuffix("/metrics")
        assert address.startswith(f"{shown}:")
        with pytest.raises(PlanError, match="--metrics"), served(Metrics(), address):
            pass


@pytest.mark.parametrize("address", ["9464", "a", ":", ":x", ":70000"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(PlanError, match="--metrics"), served(Metrics(), address):
        pass
