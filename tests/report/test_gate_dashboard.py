"""Metrics of all dashboards exist, and the panels of that of a standing gate show what happened.

promtool answers its expressions for a cluster of three nights: a pass, a failure, and a run that
goes on. Those tests need Prometheus (`apt-get install prometheus`) and are skipped without it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.settings import Kubernetes
from tests.report.dashboards import (
    MONITORING,
    NAMES,
    dashboard,
    filled,
    loaded,
    promtool,
    queries,
)
from tests.report.gate_nights import (
    BEGAN_S,
    DAY_S,
    END_S,
    ENDED_S,
    FAILED,
    NOW,
    PASSED,
    known_labels,
    series,
)

DASHBOARD = dashboard("gate")
GATE = MONITORING.parent / "gate"
METRIC = r"\b(?:kube|chaoslab)_\w+"


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


# ---------------------------------------------------------------- answered by Prometheus

CHAOS = 'namespace="chaos"'
ANSWERS: Sequence[tuple[str, str, int, Mapping[str, float]]] = (
    ("Last outcome", "A", DAY_S, {f'{{job_name="{PASSED}", {CHAOS}}}': 1}),
    ("Last outcome", "A", END_S, {f'{{job_name="{FAILED}", {CHAOS}}}': 2}),
    ("Since the last pass", "A", END_S,
     {f'{{cronjob="chaoslab-gate", {CHAOS}}}': END_S - ENDED_S[PASSED]}),
    ("Failed within a day", "A", DAY_S, {"{}": 0}),
    ("Failed within a day", "A", 2 * DAY_S, {"{}": 1}),
    ("Failed within a day", "A", END_S, {"{}": 0}),
    ("Run now going on", "A", END_S,
     {'chaoslab_run_info{algorithm="decoupled", fleet="kubernetes", instance="10.0.0.7:9464", '
      f'{CHAOS}, plan="kill_half", seed="1"}}': 1}),
    ("Its phase", "A", DAY_S, {}),
    ("Its phase", "A", END_S,
     {f'chaoslab_phase{{instance="10.0.0.7:9464", {CHAOS}, phase="inject"}}': 1}),
    ("Its Job has run for", "A", DAY_S, {}),
    ("Its Job has run for", "A", END_S, {f'{{job_name="{NOW}", {CHAOS}}}': 1_200}),
    ("Runs per day", "A", DAY_S, {"{}": 1}),
    ("Runs per day", "A", 2 * DAY_S, {}),
    ("Runs per day", "B", DAY_S, {}),
    ("Runs per day", "B", 2 * DAY_S, {"{}": 1}),
    ("Runs per day", "B", END_S, {"{}": 1}),
    ("Runs per day", "B", ENDED_S[FAILED] + DAY_S + 60, {}),
    ("Duration of each run", "A", ENDED_S[PASSED], {f'{{{CHAOS}, pod="{PASSED}-x"}}': 3_600}),
    ("Duration of each run", "A", ENDED_S[PASSED] + 3_600, {}),
    ("Duration of each run", "B", ENDED_S[PASSED], {}),
    ("Duration of each run", "B", ENDED_S[FAILED] + 600, {f'{{{CHAOS}, pod="{FAILED}-x"}}': 1_800}),
    ("Failed gates", "A", DAY_S, {}),
    ("Failed gates", "A", END_S,
     {f'{{job_name="{FAILED}", {CHAOS}, reason="BackoffLimitExceeded"}}': 1_000 * BEGAN_S[FAILED]}),
    ("Pods", "A", END_S,
     {'{phase="Running"}': 1, '{phase="Succeeded"}': 1, '{phase="Failed"}': 1}),
    ("Pods", "B", END_S, {'{phase="Running"}': 3}),
    *(("Leftovers", ref, ENDED_S[FAILED] - 60, {}) for ref in "ABCDE"),
    *(("Leftovers", ref, ENDED_S[FAILED] + 300, {}) for ref in "ABCDE"),
    *(("Leftovers", "A", at_s, {"{}": 2}) for at_s in (ENDED_S[FAILED] + 420, END_S)),
    *(("Leftovers", ref, ENDED_S[FAILED] + 420, {"{}": 1}) for ref in "BCDE"),
    *(("Leftovers", ref, END_S, {"{}": 1}) for ref in "BCDE"),
    ("Runs that can be seen", "A", DAY_S, {}),
    ("Runs that can be seen", "A", END_S, {"{}": 3}),
    ("Next start", "A", END_S,
     {f'{{cronjob="chaoslab-gate", {CHAOS}}}': 1_000 * (3 * DAY_S + 3_600)}),
)  # fmt: skip
"""Panel, its query, when it is asked, and the samples of the answer."""


def test_every_query_of_every_panel_is_answered_below() -> None:
    told = {(title, ref) for title, ref, _, samples in ANSWERS if samples}
    panels = DASHBOARD["panels"]
    assert told == {(one["title"], each["refId"]) for one in panels for each in one["targets"]}


@pytest.mark.gate
def test_prometheus_answers_with_what_happened_in_three_nights(tmp_path: Path) -> None:
    asked = [
        {
            "expr": filled(expression_of(title, ref)),
            "eval_time": f"{at_s}s",
            "exp_samples": [{"labels": name, "value": value} for name, value in samples.items()],
        }
        for title, ref, at_s, samples in ANSWERS
    ]
    test = {"interval": "1m", "input_series": series(), "promql_expr_test": asked}
    path = tmp_path / "test.yaml"
    path.write_text(json.dumps({"evaluation_interval": "1m", "tests": [test]}))
    assert "SUCCESS" in promtool("test", "rules", str(path))
