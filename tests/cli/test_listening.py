"""Others told of a real run while it goes on: a receiver of webhooks, and Prometheus."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from chaoslab.report.webhook import SECRET
from tests.report.test_webhook import SECRET as KEY
from tests.report.test_webhook import Server, server

__all__ = ["server"]
PLAN = Path(__file__).parents[2] / "chaoslab" / "selftest" / "plans" / "killed.yaml"
SOON_S = 90.0


@pytest.mark.deep
@pytest.mark.alone
def test_a_real_run_is_told_in_signed_messages_and_its_metrics_show_the_open_fault(
    server: Server, tmp_path: Path
) -> None:
    words = ("run", str(PLAN), "--quiet", "--json", "--metrics", ":0", "--notify", server.url)
    server.answers = [503]  # so that the first message is sent twice
    with subprocess.Popen(
        [sys.executable, "-m", "chaoslab", *words],
        env={**os.environ, SECRET: KEY}, cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as chaoslab:  # fmt: skip
        url = chaoslab.stderr.readline().removeprefix("metrics: ").strip()
        start, injection = server.take(SOON_S), server.take(SOON_S)
        seen = scraped(url)
        verdict, (said, errors) = server.take(SOON_S), chaoslab.communicate(timeout=SOON_S)
    assert chaoslab.returncode == 0, said + errors
    told = [one["type"] for one in (start, injection, verdict)]
    assert told == ["run.started", "fault.injected", "verdict"]
    assert server.attempts == 4
    assert injection["data"]["targets"] == ["learner-1"]
    assert seen["chaoslab_faults_active"] == 1
    assert seen["chaoslab_rounds_merged_total"] >= 14, "the plan's round for the kill"
    (record,) = (tmp_path / "runs" / "selftest-killed").glob("2*")
    assert {one["data"]["run"] for one in (start, injection, verdict)} == {record.name}
    judged = json.loads((record / "verdict.json").read_text())
    assert verdict["data"]["outcome"] == judged["outcome"] == json.loads(said)["outcome"]


def scraped(url: str) -> dict[str, float]:
    """Samples by name; of those with labels, the sum."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found: dict[str, float] = {}
    for sample in (sample for family in families for sample in family.samples):
        found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found
