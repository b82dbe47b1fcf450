"""What decides the exit code besides the verdict, and who is told, on a fake fleet."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from chaoslab.report.webhook import SECRET
from tests.cli.test_cli import FakeFleets, call, fleets, run_once
from tests.fakes import Troubles

__all__ = ["fleets"]
EVERYBODY = frozenset({"learner-0", "learner-1", "learner-2"})


def test_a_run_that_is_broken_on_purpose_is_accepted_if_it_fails(
    fleets: FakeFleets, tmp_path: Path
) -> None:
    assert run_once("--expect", "fail:rejoin").exit_code == 1
    fleets.troubles = Troubles(not_back=EVERYBODY)
    done = run_once("--expect", "fail:rejoin")
    assert done.exit_code == 0, done.output
    verdict = json.loads((tmp_path / "runs/latest/verdict.json").read_text())
    assert verdict["exit_code"] == call("show", "--judge").exit_code == 1
    assert [one["rejoined"] for one in verdict["learners_rejoined"].values()] == [False]
    assert call("show", "--judge", "--expect", "fail:rejoin").exit_code == 0
    assert call("show", "--judge", "--expect", "fail:unasked").exit_code == 1, "it failed otherwise"
    assert call("show", "--judge", "--expect", "fail").exit_code == 2
    assert run_once().exit_code == 1


def test_a_weak_pass_fails_if_asked_and_the_verdict_stays(fleets: FakeFleets) -> None:
    done = run_once("--fail-on", "low-margin", "--min-margin", "1%")
    assert done.exit_code == 0, done.output
    done = call("show", "--judge", "--fail-on", "low-margin", "--min-margin", "99.9%")
    assert (done.exit_code, "PASS" in done.stdout) == (1, True)


def test_a_gate_decides_on_each_of_several_runs(fleets: FakeFleets) -> None:
    done = run_once("--repeat", "2", "--expect", "fail:rejoin", "--json")
    assert done.exit_code == 1
    assert [one["exit_code"] for one in json.loads(done.stdout)["records"]] == [1, 1]
    fleets.troubles = Troubles(not_back=EVERYBODY)
    assert run_once("--repeat", "2", "--expect", "fail:rejoin").exit_code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--expect", "fail:rejoin", "--fail-on", "low-margin"), "--fail-on"),
        (("--expect", "fail"), "rejoin"),
        (("--expect", "fail:rejon"), "rejoin"),
        (("--expect", "pass:rejoin"), "fail:rejoin"),
        (("--min-margin", "5%"), "--fail-on low-margin"),
        (("--fail-on", "low-margin", "--min-margin", "5"), "--min-margin"),
        (("--notify", "http://127.0.0.1/"), SECRET),
        (("--metrics", "9464"), "HOST:PORT"),
        (("--otlp", "localhost:4318"), "http://localhost:4318"),
    ],
)
def test_options_that_cannot_work_are_refused_before_anything_starts(
    fleets: FakeFleets, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = run_once(*options)
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_receiver_is_told_and_metrics_are_served(
    fleets: FakeFleets, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv(SECRET, "known to both")
    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{http.server_port}/"
        done = run_once("--notify", url, "--metrics", ":0", "--quiet")
        http.shutdown()
        thread.join()
    assert done.exit_code == 0, done.output
    assert "metrics: http://127.0.0.1:" in done.stderr
    assert "warning" not in done.stderr
    assert [one["type"] for one in told] == ["run.started", "verdict"]
    assert len({one["data"]["run"] for one in told}) == 1
