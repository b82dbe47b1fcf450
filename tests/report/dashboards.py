"""The Grafana dashboards of docker/monitoring, what they ask for, and promtool."""

import functools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from chaoslab.core.events import Kind
from chaoslab.report.metrics import Metrics
from tests.histories import Story

MONITORING = Path(__file__).parents[2] / "docker" / "monitoring"
GRAFANA = MONITORING / "grafana"
NAMES = sorted(path.stem for path in (GRAFANA / "dashboards").iterdir())
FROM_PROMETHEUS = {"instance", "job"}
"""Labels that it adds to every series."""
FILLED = {
    "$instance": "127.0.0.1:9464", "$namespace": "chaos", "${lease_s}": "180",
    "$__rate_interval": "5s", "$__interval_ms": "3600000", "$__interval": "1h",
}  # fmt: skip
"""Variables as Grafana fills them in; a longer name comes before its beginning."""


def loaded(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def dashboard(name: str) -> Mapping[str, Any]:
    path = GRAFANA / "dashboards" / f"{name}.json"
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def queries(of: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every expression of a dashboard, with the text that names its labels."""
    for panel in of["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]
    for one in of["annotations"]["list"]:
        assert one["expr"] == one["target"]["expr"]
        tags = "".join(f"{{{{{tag}}}}}" for tag in one["tagKeys"].split(","))
        yield one["expr"], one["titleFormat"] + one["textFormat"] + tags
    for variable in of["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            yield found[1], f"{{{{{found[2]}}}}}"


def filled(expression: str, **values: str) -> str:
    """As Grafana sends it."""
    given = {f"${name}": value for name, value in values.items()}
    for name, value in {**FILLED, **given}.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


@functools.cache
def exported() -> Mapping[str, set[str]]:
    """Labels of everything that the exporter serves, by name; while all it can say is true."""
    metrics = Metrics()
    held = {"trigger": "round 20", "injections": 1, "targets": ["learner-1"]}
    entry = {"spec": "dies", "fault": "process.kill", "injections": 1}
    story = Story().baseline().kill("learner-1").train(2)
    story.altered(Kind.RUN_STARTED, lambda _: {"entries": [entry]})
    story.say(Kind.COUNTS_SAMPLED, alive=3, members=3, stepping=3, contributing=3)
    story.say(Kind.FAULT_HELD, spec="hangs", fault="process.pause", **held)
    for event in story.events:
        metrics.see(event)
    return {
        sample.name: set(sample.labels)
        for family in metrics.registry.collect()
        for sample in family.samples
    }


def promtool(*words: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("needs promtool: apt-get install prometheus")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
