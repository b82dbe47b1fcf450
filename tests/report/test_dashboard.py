"""The Grafana dashboards of docker/monitoring; that of a run asks for what the exporter has.

The last tests need Prometheus (`apt-get install prometheus`) and are skipped without it.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.report.dashboards import (
    GRAFANA,
    MONITORING,
    NAMES,
    dashboard,
    exported,
    filled,
    loaded,
    promtool,
    queries,
)

DASHBOARD = dashboard("chaoslab")


def test_everything_that_a_learner_or_a_fault_says_is_shown() -> None:
    asked = " ".join(expression for expression, _ in queries(DASHBOARD))
    unseen = {
        name
        for name in exported()
        if not name.endswith("_created") and not re.search(rf"\b{name}\b", asked)
    }
    assert unseen == {
        "chaoslab_faults_active", "chaoslab_learner_incarnation", "chaoslab_learner_step",
        "chaoslab_runs_total",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_its_data_source_is_the_one_that_is_provisioned(name: str) -> None:
    of = dashboard(name)
    (source,) = loaded(GRAFANA / "provisioning" / "datasources" / "prometheus.yaml")["datasources"]
    chosen = of["templating"]["list"][0]
    assert (chosen["type"], chosen["query"]) == ("datasource", source["type"])
    assert chosen["current"] == {"text": source["name"], "value": source["uid"]}
    parts = [*of["panels"], *of["annotations"]["list"]]
    for part in (*parts, of["templating"]["list"][1]):
        assert part["datasource"] == {"type": "prometheus", "uid": f"${{{chosen['name']}}}"}


def test_containers_have_pinned_images_the_files_they_mount_and_no_open_port() -> None:
    compose = loaded(MONITORING / "compose.yaml")
    for service in compose["services"].values():
        assert re.fullmatch(r"[a-z]+/[a-z]+:v?\d+\.\d+\.\d+", service["image"])
        assert service["cap_drop"] == ["ALL"]
        assert "ports" not in service
        for volume in service["volumes"]:
            source, *_ = volume.split(":")
            assert not source.startswith(".") or (MONITORING / source).exists(), volume
    grafana, prometheus = compose["services"]["grafana"], compose["services"]["prometheus"]
    assert grafana["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
    assert any("--web.listen-address=127.0.0.1:" in word for word in prometheus["command"])


# ---------------------------------------------------------------- by Prometheus itself


@pytest.mark.gate
def test_prometheus_accepts_its_configuration(tmp_path: Path) -> None:
    targets = loaded(MONITORING / "compose.yaml")["configs"]["targets"]["content"]
    (tmp_path / "targets.yaml").write_text(
        targets.replace("${CHAOSLAB_METRICS:-", "").replace("}", "")
    )
    for name in ("prometheus.yaml", "alerts.yaml"):
        shutil.copy(MONITORING / name, tmp_path)
    assert "SUCCESS" in promtool("check", "config", str(tmp_path / "prometheus.yaml"))


@pytest.mark.gate
@pytest.mark.parametrize("name", NAMES)
def test_prometheus_can_read_every_expression(name: str, tmp_path: Path) -> None:
    rules = [
        {"record": f"dashboard:query{number}", "expr": filled(expression)}
        for number, (expression, _) in enumerate(queries(dashboard(name)))
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(path))


@pytest.mark.gate
def test_an_alarm_names_the_learner_that_stands_still(tmp_path: Path) -> None:
    """From the eleventh second after its last step, and no other learner."""
    shutil.copy(MONITORING / "alerts.yaml", tmp_path)
    steps, at = "chaoslab_learner_steps_total", 'instance="a",learner='
    values = {
        f'{steps}{{{at}"learner-0"}}': "0+5x60",
        f'{steps}{{{at}"learner-1"}}': "0+5x20 100x40",
        'chaoslab_phase{instance="a",phase="inject"}': "1x60",
    }
    fired = {
        "exp_labels": {"severity": "page", "instance": "a", "learner": "learner-1"},
        "exp_annotations": {"summary": "learner-1 has made no step for 10 s"},
    }
    asked = [
        {"eval_time": "25s", "alertname": "LearnerStandsStill", "exp_alerts": []},
        {"eval_time": "35s", "alertname": "LearnerStandsStill", "exp_alerts": [fired]},
    ]
    series = [{"series": name, "values": numbers} for name, numbers in values.items()]
    test = {"interval": "1s", "input_series": series, "alert_rule_test": asked}
    path = tmp_path / "test.yaml"
    whole = {"rule_files": ["alerts.yaml"], "evaluation_interval": "1s", "tests": [test]}
    path.write_text(json.dumps(whole))
    assert "SUCCESS" in promtool("test", "rules", str(path))
