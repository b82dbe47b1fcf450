"""`chaoslab doctor slices`: what it shows, asks, creates and deletes."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result
from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.rpc import code_pb2

from chaoslab.cli.main import main
from chaoslab.core.clock import WallClock
from chaoslab.core.errors import ExitCode
from chaoslab.fleet.tpu.lifecycle import bring_up
from chaoslab.fleet.tpu.states import FLEET, NODE, UNTIL
from tests.fake_tpu import FakeCloud, Refused, served

TEXT = """\
name: vines
project: my-project
syncer: {{host: 10.0.0.2}}
learners:
  {first}: {{tpu: {{type: v5litepod-4, runtime: v2-alpha-tpuv5-lite, zone: us-east5-b}}}}
  learner-1: {{tpu: {{type: v5litepod-4, runtime: v2-alpha-tpuv5-lite, zone: us-east1-c}}}}
lifetime: 4h
endpoint: {endpoint}
"""
FOREIGN = "vines-learner-0-000000"


class Called:
    """Commands on an inventory, and the cloud behind it."""

    def __init__(self, fake: FakeCloud, endpoint: str, folder: Path) -> None:
        self.fake, self._endpoint, self._path = fake, endpoint, folder / "fleet.yaml"

    def __call__(self, verb: str, *options: str, first: str = "learner-0") -> Result:
        self._path.write_text(TEXT.format(endpoint=self._endpoint, first=first))
        return CliRunner().invoke(main, ["doctor", "slices", verb, str(self._path), *options])


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Called]:
    monkeypatch.setenv("HOME", str(tmp_path))
    fake = FakeCloud()
    fake.add_foreign("us-east5-b", FOREIGN)
    with served(fake) as endpoint:
        yield Called(fake, endpoint, tmp_path)


def test_a_fleet_is_brought_up_shown_and_taken_down_and_nothing_else_is_touched(
    fleet: Called,
) -> None:
    up = fleet("up", "--yes")
    assert up.exit_code == ExitCode.PASS, up.output
    assert "chaoslab run PLAN --fleet tpu-vm --inventory " in up.output
    assert fleet("up").exit_code == ExitCode.PASS, "what is up needs no answer"
    assert fleet.fake.calls.count("CreateQueuedResource") == 2
    assert fleet("status").exit_code == ExitCode.PASS
    assert fleet("down").exit_code == ExitCode.REFUSED, "it asks first"
    assert len(fleet.fake.ids) == 3
    down = fleet("down", "--yes")
    assert down.exit_code == ExitCode.PASS, down.output
    assert fleet.fake.ids == [FOREIGN]
    assert "nothing to delete" in fleet("down", "--yes").output


def test_what_is_to_be_created_is_shown_before_anything_is(fleet: Called) -> None:
    refused = fleet("up")
    assert refused.exit_code == ExitCode.REFUSED
    assert "learner-1: v5litepod-4 in us-east1-c, 4 chips" in refused.output
    assert "4h" in refused.output
    assert "CreateQueuedResource" not in fleet.fake.calls


def test_a_preempted_slice_is_replaced_by_another_up(fleet: Called) -> None:
    fleet("up", "--yes")
    (taken,) = (one for one in fleet.fake.ids if "learner-1" in one)
    fleet.fake.preempt(taken)
    status = fleet("status", "--json")
    assert status.exit_code == ExitCode.FAIL
    conditions = [one["condition"] for one in json.loads(status.output)["slices"]]
    assert conditions == ["up", "preempted"]
    again = fleet("up", "--yes")
    assert again.exit_code == ExitCode.PASS, again.output
    assert fleet("status").exit_code == ExitCode.PASS
    assert taken not in fleet.fake.ids
    assert len(fleet.fake.queue) == 2, "nothing is left of the slice that was lost"


def test_a_zone_without_room_leaves_the_request_in_the_queue_and_says_so(fleet: Called) -> None:
    fleet.fake.stock_chips["us-east1-c"] = 0
    late = fleet("up", "--yes", "--wait", "1ms")
    assert late.exit_code == ExitCode.BROKEN
    assert "learner-1: waiting" in late.output


def test_a_slice_of_another_type_than_the_inventory_says_is_not_well(fleet: Called) -> None:
    fleet("up", "--yes")
    other = next(node for name, node in fleet.fake.nodes.items() if "learner-1" in name)
    other.accelerator_type = "v5litepod-8"
    for verb, code in (("status", ExitCode.FAIL), ("up", ExitCode.BROKEN)):
        told = fleet(verb)
        assert (told.exit_code, "v5litepod-8" in told.output) == (code, True), told.output


def test_a_slice_of_a_learner_that_the_inventory_lost_is_shown_until_it_is_down(
    fleet: Called,
) -> None:
    fleet("up", "--yes")
    labels = {FLEET: "vines", NODE: "learner-9"}
    fleet.fake.add_foreign("us-east5-b", "vines-learner-9-000000", **labels)
    status = fleet("status")
    assert status.exit_code == ExitCode.FAIL
    assert "vines-learner-9-000000 in us-east5-b" in status.output
    assert json.loads(fleet("status", "--json").output)["strays"] == ["vines-learner-9-000000"]
    fleet("down", "--yes")
    assert fleet.fake.ids == [FOREIGN]


def test_the_suspended_request_of_a_replaced_slice_costs_nothing_and_is_well(
    fleet: Called,
) -> None:
    """As `spot.preempt` leaves it."""
    fleet("up", "--yes")
    (taken,) = (name for name in fleet.fake.nodes if "learner-1" in name)
    request = fleet.fake.nodes.pop(taken).queued_resource
    fleet.fake.queue[request].state.state = tpu_v2.QueuedResourceState.State.SUSPENDED
    labels = {FLEET: "vines", NODE: "learner-1"}
    fleet.fake.add_foreign("us-east1-c", "vines-learner-1-zzzzzz", **labels)
    [*fleet.fake.nodes.values()][-1].accelerator_type = "v5litepod-4"
    status = fleet("status", "--json")
    assert status.exit_code == ExitCode.PASS, status.output
    assert len(fleet.fake.queue) == 2
    assert json.loads(status.output)["strays"] == []


def test_what_cannot_be_done_with_an_inventory_names_its_file(fleet: Called) -> None:
    refused = fleet("up", "--yes", first="Learner_0")
    assert "fleet.yaml: learners: " in refused.output


def test_a_lack_of_quota_ends_it(fleet: Called) -> None:
    fleet.fake.quota_chips = 4
    refused = fleet("up", "--yes")
    assert (refused.exit_code, "learner-1: " in refused.output) == (ExitCode.BROKEN, True)
    assert fleet("down", "--yes").exit_code == ExitCode.PASS
    assert fleet.fake.ids == [FOREIGN]


def test_a_request_that_fails_after_it_was_accepted_ends_it_with_the_reason(fleet: Called) -> None:
    fleet.fake.fails_late["create"] = code_pb2.RESOURCE_EXHAUSTED
    failed = fleet("up", "--yes")
    assert (failed.exit_code, "learner-0: " in failed.output) == (ExitCode.BROKEN, True)


def test_what_a_crashed_up_has_requested_is_taken_down(
    fleet: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(WallClock):
        def sleep_until(self, time_s: float) -> None:
            raise KeyboardInterrupt

    fleet.fake.times.queue_s = 3600.0
    monkeypatch.setattr("chaoslab.cli.upkeep.slices.bring_up", partial(bring_up, clock=Crash()))
    fleet("up", "--yes")
    assert len(fleet.fake.queue) == 2
    down = fleet("down", "--yes")
    assert down.exit_code == ExitCode.PASS, down.output
    assert fleet.fake.queue == {}


def test_what_cannot_be_deleted_keeps_nothing_else_from_it_and_is_named(
    fleet: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaoslab.cli.upkeep.slices._DELETE_S", 0.0)
    fleet("up", "--yes")
    delete = fleet.fake.delete_queued_resource

    def refuse_first(asked: tpu_v2.DeleteQueuedResourceRequest) -> operations_pb2.Operation:
        if "learner-0" in asked.name:
            raise Refused(code_pb2.FAILED_PRECONDITION, "it is busy")
        return delete(asked)

    fleet.fake.delete_queued_resource = refuse_first  # type: ignore[method-assign]
    down = fleet("down", "--yes")
    assert down.exit_code == ExitCode.BROKEN
    assert "it is busy" in down.output
    (left,) = (one for one in fleet.fake.ids if one != FOREIGN)
    assert "learner-0" in left


def test_only_one_process_works_with_the_slices_of_a_fleet(fleet: Called, tmp_path: Path) -> None:
    fleet("status")
    program = (
        "import sys; from pathlib import Path; from chaoslab.fleet.remote.inventory import load;"
        "from chaoslab.fleet.tpu.lifecycle import claim;"
        f"claim(load(Path({str(tmp_path / 'fleet.yaml')!r})));"
        "print('has it', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        (sys.executable, "-c", program), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "has it\n"
        for verb in ("up", "down"):
            refused = fleet(verb, "--yes")
            assert refused.exit_code == ExitCode.REFUSED
            assert f"process {other.pid} " in refused.output
        assert "CreateQueuedResource" not in fleet.fake.calls
        other.communicate()
    assert fleet("up", "--yes").exit_code == ExitCode.PASS


def test_a_fleet_whose_time_is_over_is_taken_down_by_a_timer_and_gets_no_further_slice(
    fleet: Called,
) -> None:
    over = {FLEET: "vines", NODE: "learner-0", UNTIL: "1000"}
    fleet.fake.add_foreign("us-east5-b", "vines-learner-0-old", **over)
    assert fleet("status").exit_code == ExitCode.FAIL
    assert fleet("up", "--yes").exit_code == ExitCode.REFUSED
    assert "CreateQueuedResource" not in fleet.fake.calls
    assert "vines-learner-0-old" in fleet("down", "--expired", "--yes").output
    fleet("up", "--yes")
    assert "nothing to delete" in fleet("down", "--expired", "--yes").output
    assert len(fleet.fake.ids) == 3
    for node in fleet.fake.nodes.values():
        node.labels[UNTIL] = "1000"
    assert fleet("up").exit_code == ExitCode.REFUSED, "nor is it offered for a run"


def test_an_outage_is_an_error_and_not_an_empty_fleet(
    fleet: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaoslab.fleet.tpu.api.CALL_S", 0.0)
    fleet.fake.outage = grpc.StatusCode.INTERNAL
    for verb in ("status", "down"):
        assert fleet(verb).exit_code == ExitCode.BROKEN


def test_without_credentials_it_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    text = TEXT.format(endpoint="127.0.0.1:1", first="learner-0").replace(
        "endpoint: 127.0.0.1:1\n", ""
    )
    (tmp_path / "fleet.yaml").write_text(text)
    said = CliRunner().invoke(main, ["doctor", "slices", "status", str(tmp_path / "fleet.yaml")])
    assert (said.exit_code, "gcloud auth" in said.output) == (ExitCode.REFUSED, True)


def test_json_is_one_value(fleet: Called) -> None:
    fleet("up", "--yes")
    told = json.loads(fleet("status", "--json").output)
    assert told["expired"] == []
    assert told["until"] == pytest.approx(time.time() + 4 * 3600, abs=60)
    assert f"until {time.strftime('%Y-', time.gmtime(told['until']))}" in fleet("status").output
