"""Series of a cluster with a standing gate, by kube-state-metrics, for three nights.

In the first the gate passes. In the second it fails; the keeper of its run is no longer renewed,
and all of the run is left. In the third the gate has gone on for 20 minutes when the series end.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from chaoslab.fleet.kubernetes import names
from tests.report.dashboards import FROM_PROMETHEUS, exported

RUN = f"label_{re.sub('[^a-zA-Z0-9_]', '_', names.LABEL_RUN)}"
"""The label of a run as kube-state-metrics writes it."""
JOB, POD, CRONJOB = {"namespace", "job_name"}, {"namespace", "pod", "uid"}, {"namespace", "cronjob"}
KUBE_STATE_METRICS: Mapping[str, set[str]] = {
    "kube_cronjob_info": {*CRONJOB, "schedule", "concurrency_policy", "timezone"},
    "kube_cronjob_next_schedule_time": CRONJOB,
    "kube_cronjob_status_last_successful_time": CRONJOB,
    "kube_job_created": JOB,
    "kube_job_labels": {*JOB, RUN},
    "kube_job_owner": {*JOB, "owner_kind", "owner_name", "owner_is_controller"},
    "kube_job_spec_active_deadline_seconds": JOB,
    "kube_job_status_active": JOB,
    "kube_job_status_completion_time": JOB,
    "kube_job_status_failed": {*JOB, "reason"},
    "kube_job_status_start_time": JOB,
    "kube_job_status_succeeded": JOB,
    "kube_persistentvolumeclaim_created": {"namespace", "persistentvolumeclaim"},
    "kube_persistentvolumeclaim_labels": {"namespace", "persistentvolumeclaim", RUN},
    "kube_pod_completion_time": POD,
    "kube_pod_created": POD,
    "kube_pod_labels": {*POD, RUN},
    "kube_pod_start_time": POD,
    "kube_pod_status_phase": {*POD, "phase"},
    "kube_secret_created": {"namespace", "secret"},
    "kube_secret_labels": {"namespace", "secret", RUN},
    "kube_service_created": {"namespace", "service", "uid"},
    "kube_service_labels": {"namespace", "service", "uid", RUN},
}
"""Metrics and their labels, from docs/metrics of kubernetes/kube-state-metrics v2.20.0."""
DAY_S = 86_400

PASSED, FAILED, NOW = (f"chaoslab-gate-2900{night}" for night in range(3))
BEGAN_S = {PASSED: 3_600, FAILED: DAY_S + 3_600, NOW: 2 * DAY_S + 3_600}
ENDED_S = {PASSED: 7_200, FAILED: DAY_S + 5_400}
END_S = 2 * DAY_S + 4_800
"""When it is looked at: the third run goes on for 20 minutes."""
LOST, LIVE, YOUNG = "second-night", "third-night", "two-minutes-old"
"""Runs. The keeper of the first has passed its deadline, that of the last was not seen yet."""


def series() -> Sequence[Mapping[str, str]]:
    """All of it, as promtool takes it."""
    return [*gate_jobs(), *runs(), *the_gate_itself()]


def known_labels() -> Mapping[str, set[str]]:
    """Labels of everything that may be asked for, by name."""
    both = {**KUBE_STATE_METRICS, **exported()}
    return {name: labels | FROM_PROMETHEUS for name, labels in both.items()}


def at(
    name: str, since_s: int, values: Sequence[tuple[int, float]], **labels: str
) -> dict[str, str]:
    """A series with a sample a minute: its values, each with the time at which it ends."""
    assert set(labels) <= known_labels()[name], name
    text, from_s = f"_x{since_s // 60}" if since_s else "", since_s
    for until_s, value in values:
        text += f" {value:g}+0x{(until_s - from_s) // 60 - 1}"
        from_s = until_s
    inside = ",".join(f'{key}="{value}"' for key, value in {"namespace": "chaos", **labels}.items())
    return {"series": f"{name}{{{inside}}}", "values": f"{text.strip()} stale"}


REST_S = END_S + 60
"""Until when series go on that have no end."""


def gate_jobs() -> Iterator[dict[str, str]]:
    """The Jobs of the gate and their pods, from when they began."""
    for name, began_s in BEGAN_S.items():
        ended_s, pod = ENDED_S.get(name, REST_S), {"pod": f"{name}-x", "uid": name}
        going = [(ended_s, 1.0), (REST_S, 0.0)] if name in ENDED_S else [(REST_S, 1.0)]
        passes, fails = (
            [(ended_s, 0.0), (REST_S, 1.0)] if name == of else [(REST_S, 0.0)]
            for of in (PASSED, FAILED)
        )
        yield at("kube_job_status_start_time", began_s, [(REST_S, began_s)], job_name=name)
        yield at("kube_pod_start_time", began_s, [(REST_S, began_s)], **pod)
        yield at("kube_job_status_active", began_s, going, job_name=name)
        yield at("kube_pod_status_phase", began_s, going, phase="Running", **pod)
        yield at("kube_pod_status_phase", began_s, passes, phase="Succeeded", **pod)
        yield at("kube_pod_status_phase", began_s, fails, phase="Failed", **pod)
        yield at("kube_job_status_succeeded", began_s, passes, job_name=name)
        yield at("kube_job_status_failed", began_s, fails[:1], job_name=name)
    for name, ended_s in ENDED_S.items():
        pod = {"pod": f"{name}-x", "uid": name}
        yield at("kube_pod_completion_time", ended_s, [(REST_S, ended_s)], **pod)
    passed_s, failed_s = ENDED_S[PASSED], ENDED_S[FAILED]
    yield at("kube_job_status_completion_time", passed_s, [(REST_S, passed_s)], job_name=PASSED)
    why = {"job_name": FAILED, "reason": "BackoffLimitExceeded"}
    yield at("kube_job_status_failed", failed_s, [(REST_S, 1.0)], **why)


def keeper(run: str, began_s: int, renewed_s: int) -> Sequence[dict[str, str]]:
    """The Job that owns all objects of a run, and has no owner: last renewed then, and still there
    when that lease is over.
    """
    name, nobody = names.own_name(run), {"owner_kind": "", "owner_name": ""}
    deadline, lease_s = "kube_job_spec_active_deadline_seconds", 180
    lived_s = renewed_s - began_s
    return [
        at("kube_job_labels", began_s, [(REST_S, 1)], job_name=name, **{RUN: run}),
        at("kube_job_created", began_s, [(REST_S, began_s)], job_name=name),
        at("kube_job_owner", began_s, [(REST_S, 1)], job_name=name, **nobody),
        at("kube_job_status_start_time", began_s, [(REST_S, began_s)], job_name=name),
        at(deadline, began_s, [(REST_S, lived_s + lease_s)], job_name=name),
    ]


def objects(run: str, began_s: int) -> Iterator[dict[str, str]]:
    """One object of each kind, until the end."""
    name = names.object_name(run, "learner_0")
    owner = {"owner_kind": "Job", "owner_name": names.own_name(run)}
    yield at("kube_job_owner", began_s, [(REST_S, 1)], job_name=name, **owner)
    yield at("kube_job_status_active", began_s, [(REST_S, 1)], job_name=name)
    yield at("kube_pod_status_phase", began_s, [(REST_S, 1)], pod=name, phase="Running")
    for kind in ("job", "pod", "persistentvolumeclaim", "service", "secret"):
        whose = {"job_name" if kind == "job" else kind: name}
        yield at(f"kube_{kind}_labels", began_s, [(REST_S, 1)], **whose, **{RUN: run})
        yield at(f"kube_{kind}_created", began_s, [(REST_S, began_s)], **whose)


def runs() -> Iterator[dict[str, str]]:
    lost_s, live_s = BEGAN_S[FAILED] + 60, BEGAN_S[NOW] + 60
    yield from (*keeper(LOST, lost_s, ENDED_S[FAILED]), *objects(LOST, lost_s))
    yield from (*keeper(LIVE, live_s, END_S + 60), *objects(LIVE, live_s))
    yield from objects(YOUNG, END_S - 120)


def the_gate_itself() -> Iterator[dict[str, str]]:
    gate, passed_s, next_s = {"cronjob": "chaoslab-gate"}, ENDED_S[PASSED], 3 * DAY_S + 3_600
    yield at("kube_cronjob_info", 0, [(REST_S, 1)], **gate)
    passed = "kube_cronjob_status_last_successful_time"
    yield at(passed, passed_s, [(REST_S, passed_s)], **gate)
    yield at("kube_cronjob_next_schedule_time", 0, [(REST_S, next_s)], **gate)
    for fleet, address in (("kubernetes", "10.0.0.7:9464"), ("local", "127.0.0.1:9464")):
        about = {"plan": "kill_half", "seed": "1", "fleet": fleet, "algorithm": "decoupled"}
        yield at("chaoslab_run_info", BEGAN_S[NOW], [(REST_S, 1)], **about, instance=address)
        for phase, value in (("baseline", 0.0), ("inject", 1.0)):
            whose = {"phase": phase, "instance": address}
            yield at("chaoslab_phase", BEGAN_S[NOW], [(REST_S, value)], **whose)
