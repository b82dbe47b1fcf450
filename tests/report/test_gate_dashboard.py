"""Metrics of all dashboards exist, and that of a scheduled gate goes by its names and limits."""

import re
from collections.abc import Mapping, Sequence

import pytest

from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.settings import Kubernetes
from tests.report.dashboards import (
    FROM_PROMETHEUS,
    MONITORING,
    NAMES,
    dashboard,
    exported,
    loaded,
    queries,
)

DASHBOARD = dashboard("gate")
GATE = MONITORING.parent / "gate"
METRIC = r"\b(?:kube|chaoslab)_\w+"
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


def known_labels() -> Mapping[str, set[str]]:
    """Labels of everything that may be asked for, by name."""
    both = {**KUBE_STATE_METRICS, **exported()}
    return {name: labels | FROM_PROMETHEUS for name, labels in both.items()}


def expression_of(title: str, ref: str = "A") -> str:
    (panel,) = [panel for panel in DASHBOARD["panels"] if panel["title"] == title]
    (target,) = [target for target in panel["targets"] if target["refId"] == ref]
    return str(target["expr"])


def assert_known(expression: str, shown: set[str]) -> None:
    """Its metrics exist, each has the labels it is filtered by, and some has each other label."""
    labels = known_labels()
    bare = re.sub(r'"[^"]*"', '""', expression)  # values may look like names of metrics
    asked = re.findall(METRIC, bare)
    assert asked, expression
    assert [name for name in asked if name not in labels] == [], expression
    for name, filters in re.findall(rf"({METRIC}){{([^}}]*)}}", bare):
        assert set(re.findall(r"(\w+)(?:=|!=|=~|!~)\"", filters)) <= labels[name], expression
    listed = re.findall(r"\b(?:on|by|group_right|group_left) \(([\w, ]*)\)", bare)
    other = {*", ".join(listed).split(", "), *shown} - {""}
    assert other <= set().union(*(labels[name] for name in asked)), expression


@pytest.mark.parametrize("name", NAMES)
def test_dashboards_ask_only_for_what_the_exporter_and_kube_state_metrics_have(name: str) -> None:
    for expression, text in queries(dashboard(name)):
        assert_known(expression, set(re.findall(r"{{(\w+)}}", text)))


def test_alarms_ask_for_what_there_is_and_not_for_the_faults() -> None:
    for group in loaded(MONITORING / "alerts.yaml")["groups"]:
        for rule in group["rules"]:
            shown = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
            assert_known(rule["expr"], set(shown))
            assert "fault" not in rule["expr"]


def gate_rules() -> Sequence[Mapping[str, str]]:
    (group,) = [
        group
        for group in loaded(MONITORING / "alerts.yaml")["groups"]
        if group["name"] == "chaoslab-gate"
    ]
    rules: Sequence[Mapping[str, str]] = group["rules"]
    return rules


def test_it_says_what_the_alarms_say_by_the_same_expressions() -> None:
    failed, not_passed = (rule["expr"] for rule in gate_rules())
    everywhere = {
        title: expression_of(title).replace(', namespace=~"$namespace"', "")
        for title in ("Failed within a day", "Since the last pass")
    }
    assert f"({failed})" in everywhere["Failed within a day"]
    assert f"{everywhere['Since the last pass']} > 2 * 86400" == not_passed
    (panel,) = [one for one in DASHBOARD["panels"] if one["title"] == "Since the last pass"]
    assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"] == 2 * DAY_S


def test_it_goes_by_the_names_and_limits_of_the_gate_and_the_fleet() -> None:
    gate = loaded(GATE / "gate.yaml")
    limit_s = gate["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"]
    for expression, _ in queries(DASHBOARD):
        for of, name in re.findall(r'\b(cronjob|job_name|pod)=~?"([^"]*)"', expression):
            assert name == gate["metadata"]["name"] + ("" if of == "cronjob" else "-.*")
    (panel,) = [one for one in DASHBOARD["panels"] if one["title"] == "Its Job has run for"]
    assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"] == limit_s
    (lease,) = [one for one in DASHBOARD["templating"]["list"] if one["name"] == "lease_s"]
    assert float(lease["query"]) == Kubernetes.__dataclass_fields__["lease_s"].default


def test_the_documentation_names_every_kind_whose_labels_it_asks_for() -> None:
    text = (MONITORING.parents[1] / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"--metric-labels-allowlist='(\S+)'", text)
    shown = {*re.findall(r"kube_(\w+)_labels", " ".join(one for one, _ in queries(DASHBOARD)))}
    assert set(listed.split(",")) == {f"{kind}s=[{names.LABEL_RUN}]" for kind in shown}


def test_it_leads_to_the_dashboard_of_the_run() -> None:
    run = dashboard("chaoslab")
    (variable,) = [one["name"] for one in run["templating"]["list"] if one["type"] == "query"]
    (panel,) = [one for one in DASHBOARD["panels"] if one["title"] == "Run now going on"]
    (link,) = panel["fieldConfig"]["defaults"]["links"]
    begin = f"/d/{run['uid']}?var-{variable}=${{__field.labels.{variable}}}&"
    assert link["url"].startswith(begin)
    assert [one["url"] for one in DASHBOARD["links"]] == [f"/d/{run['uid']}"]
