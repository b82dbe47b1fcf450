"""The command lines by which the run under test is started."""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from chaoslab.core.protocol import Phase
from chaoslab.diloco.learner.hosts.membership import SECRET
from chaoslab.diloco.learner.inner_steps import InnerSettings
from chaoslab.diloco.learner.options import parser
from chaoslab.diloco.model.gpt import PRESETS, tensor_shapes
from chaoslab.diloco.settings import Settings
from chaoslab.faults.compute import ComputeSlow
from chaoslab.faults.host import HostKill
from chaoslab.faults.storage_room import StorageDiskFull
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.plan.model import (
    Algorithm,
    FaultPlan,
    FaultSpec,
    FleetSpec,
    Grace,
    Inner,
    LearnerGroup,
    Outage,
    Outer,
    Stop,
    Target,
    Training,
    Trigger,
)
from chaoslab.plan.model.training import TENSORS
from chaoslab.prepare.launch import Launch, compilation_cache, settings

PLAN = FaultPlan(name="fake", seed=7, training=Training(learners=4))
ADDRESSES = dict.fromkeys(PLAN.training.learner_names, "x:1")


def launch(plan: FaultPlan = PLAN) -> Launch:
    run = Path("/runs/one")
    return Launch(plan=plan, snapshots=run / "snapshots", tokens=run / "tokens")


def flags(spec: NodeSpec) -> Mapping[str, str]:
    """The flags of a node's command; every flag takes one value."""
    python, dash_m, _module, *words = spec.command
    assert (python, dash_m) == (sys.executable, "-m")
    assert len(words) % 2 == 0
    assert all(word.startswith("--") for word in words[::2])
    return dict(zip(words[::2], words[1::2], strict=True))


def test_the_syncer_is_told_the_rules_as_json_and_chooses_its_port() -> None:
    found = flags(launch().syncer())
    assert json.loads(found.pop("--settings-json")) == settings(PLAN.training)
    expected = {
        "--address": "127.0.0.1:0", "--name": "syncer", "--incarnation": "{incarnation}",
        "--directory": "{directory}", "--snapshots": "/runs/one/snapshots",
        "--tokens": "/runs/one/tokens",
    }  # fmt: skip
    assert found.items() >= expected.items()


def test_every_learner_knows_the_syncer_its_shard_and_the_same_seed() -> None:
    specs = launch().learners(
        {name: f"127.0.0.1:{5000 + n}" for n, name in enumerate(PLAN.training.learner_names)}
    )
    for shard, spec in enumerate(specs):
        expected = {
            "--syncer": f"127.0.0.1:{5000 + shard}", "--shard": str(shard), "--shards": "4",
            "--name": f"learner-{shard}", "--seed": "7", "--model": "nano", "--data": "stdlib",
        }  # fmt: skip
        assert flags(spec).items() >= expected.items()
        assert (spec.name, spec.role) == (f"learner-{shard}", Role.LEARNER)


def test_the_inner_optimizer_reaches_the_learner_exactly() -> None:
    inner = Inner(
        lr=1e-4, warmup_steps=3, decay_steps=70, final_share=0.05, weight_decay=0.2, batch=2,
        sequence=64,
    )  # fmt: skip
    plan = replace(PLAN, training=replace(PLAN.training, inner=inner))
    found = flags(launch(plan).learners(ADDRESSES)[0])
    told = {key: float(found[f"--{key.replace('_', '-')}"]) for key in asdict(inner)}
    assert told == asdict(inner)


@pytest.mark.parametrize(
    ("training", "decay_steps"),
    [
        (Training(stop=Stop(rounds=240)), 240 * 24 // 6),
        (Training(stop=Stop(rounds=10), algorithm=Algorithm.DILOCO), 240),
        (Training(stop=Stop(steps=700, time_s=60.0)), 700),
        (Training(stop=Stop(tokens=4_096_000)), 1000),
        (Training(stop=Stop(rounds=4)), 51),  # the default warm-up has 50
        (Training(stop=Stop(time_s=60.0)), 5000),
        (Training(stop=Stop(tokens=4_096_000), task="own:make"), 5000),
        (Training(stop=Stop(rounds=240), inner=Inner(decay_steps=70)), 70),
    ],
)
def test_the_learning_rate_falls_until_the_training_is_expected_to_end(
    training: Training, decay_steps: int
) -> None:
    plan = replace(PLAN, training=training)
    assert flags(launch(plan).learners(ADDRESSES)[0])["--decay-steps"] == str(decay_steps)


def test_a_learner_of_several_hosts_is_one_node_whose_command_says_so() -> None:
    groups = (LearnerGroup(count=1), LearnerGroup(count=1, hosts=4))
    training = Training(learners=groups, hosts=2, reserve=1)
    addresses = dict.fromkeys(training.roster, "x:1")
    made = launch(replace(PLAN, training=training))
    specs = (*made.learners(addresses), *made.reserve(addresses))
    assert [flags(spec)["--hosts"] for spec in specs] == ["2", "4", "2"]
    assert [spec.hosts and spec.hosts.count for spec in specs] == [2, 4, 2]
    options = parser().parse_args(
        [
            *("--syncer", "x:1", "--hosts", "4"),
            *(word.format(host=3, meeting="10.0.0.3:4700") for word in specs[1].hosts.flags),
        ]
    )
    assert (options.host_index, options.meeting) == (3, "10.0.0.3:4700")
    assert specs[1].hosts.secret == SECRET
    assert made.syncer().hosts is None
    usual = launch().learners(ADDRESSES)[0]
    assert usual.hosts is None
    assert "--hosts" not in usual.command


def test_a_task_of_ones_own_replaces_the_model_everywhere() -> None:
    plan = replace(PLAN, training=replace(PLAN.training, task="my.task:make"))
    for spec in (launch(plan).learners(ADDRESSES)[0], launch(plan).evaluator()):
        found = flags(spec)
        assert found["--task"] == "my.task:make"
        assert "--model" not in found


def test_a_program_of_ones_own_takes_the_place_and_the_flags_of_a_role() -> None:
    plan = replace(PLAN, fleet=FleetSpec(programs={"learner": "my.learner variant-b"}))
    own, usual = launch(plan).learners(ADDRESSES)[0], launch().learners(ADDRESSES)[0]
    assert own.command[2:4] == ("my.learner", "variant-b")
    assert own.command[4:] == usual.command[3:]
    assert launch(plan).syncer().command == launch().syncer().command


def test_the_evaluator_reads_the_snapshots_with_the_same_model_and_data() -> None:
    spec = launch().evaluator()
    expected = {
        "--snapshots": "/runs/one/snapshots", "--model": "nano", "--data": "stdlib",
        "--sequence": "128", "--at-most": "10",
    }  # fmt: skip
    assert flags(spec).items() >= expected.items()
    assert spec.role is Role.EVALUATOR


def test_nodes_run_on_one_thread_and_with_the_labels_of_the_plan() -> None:
    made = launch(replace(PLAN, fleet=FleetSpec(labels={"learner-1": {"region": "eu"}})))
    specs = (made.syncer(), *made.learners(ADDRESSES), made.evaluator())
    assert [spec.labels for spec in specs[:3]] == [{}, {}, {"region": "eu"}]
    for spec in specs:
        assert spec.environment == {"NPROC": "1"}


def test_the_compilation_cache_outlives_the_run_and_can_be_moved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path))
    assert compilation_cache().parent == tmp_path
    monkeypatch.delenv("CHAOSLAB_CACHE")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert compilation_cache().is_relative_to("/home/somebody/.cache/chaoslab")


def test_decoupled_passes_the_plan_on_as_it_stands() -> None:
    training = Training(
        learners=3, fragments=5, sync_every=12, overlap=3, quorum=2, contribute="ready",
        grace=Grace(gamma=0.5, max_steps=2.0), merge="average", outer=Outer(lr=0.4, momentum=0.9),
        compression="int4", suspect_after_s=1.0, drop_after_s=3.0, start_patience_s=300.0,
        evaluate_every=9,
        norm_limit=math.inf, blend=0.5, stop=Stop(rounds=50, time_s=60.0),
    )  # fmt: skip
    assert settings(training) == {
        "learners": ["learner-0", "learner-1", "learner-2"],
        "fragments": 5, "sync_every": 12, "overlap": 3, "quorum": 2,
        "contribute": "ready", "blocking": False, "data_parallel": "off",
        "gamma": 0.5, "grace_max_steps": 2.0, "merge": "average",
        "outer_lr": 0.4, "outer_momentum": 0.9, "compression": "int4",
        "suspect_after_s": 1.0, "drop_after_s": 3.0, "start_patience_s": 300.0, "evaluate_every": 9,
        "norm_limit": None, "blend": 0.5,
        "snapshots_kept": None,
        "stop_rounds": 50, "stop_tokens": None, "stop_steps": None, "stop_time_s": 60.0,
        "stop_loss": None,
    }  # fmt: skip


def test_streaming_waits_for_all_and_diloco_also_sends_the_whole_model_at_once() -> None:
    streaming = settings(Training(algorithm=Algorithm.STREAMING, learners=3))
    diloco = settings(Training(algorithm=Algorithm.DILOCO, learners=3))
    assert (streaming["quorum"], streaming["fragments"], streaming["overlap"]) == (3, 6, 2)
    assert (diloco["quorum"], diloco["fragments"], diloco["overlap"]) == (3, 1, 0)
    assert (streaming["blocking"], diloco["blocking"]) == (True, True)
    assert settings(Training(quorum=4))["blocking"] is False


@pytest.mark.parametrize(
    ("algorithm", "mode"),
    [(Algorithm.DATA_PARALLEL, "rigid"), (Algorithm.ELASTIC_DATA_PARALLEL, "elastic")],
)
def test_data_parallel_stores_what_all_learners_hold(algorithm: Algorithm, mode: str) -> None:
    training = Training(algorithm=algorithm, learners=3, quorum=2, fragments=5, overlap=3)
    told = Settings.from_json(json.dumps(settings(training)))
    assert (told.data_parallel, told.quorum, told.blocking) == (mode, 3, True)
    assert (told.fragments, told.overlap) == (1, 0)
    assert (told.merge, told.outer_lr, told.outer_momentum) == ("average", 1.0, 0.0)
    assert (told.compression, told.norm_limit) == ("f32", None)
    plan = FaultPlan(name="p", training=training)
    for node in launch(plan).learners(dict.fromkeys(training.learner_names, "127.0.0.1:1")):
        at = node.command.index("--data-parallel")
        assert node.command[at + 1] == "127.0.0.1"


@pytest.mark.parametrize(
    ("stop", "every"),
    [
        (Stop(tokens=1_000_000), 100_000),
        (Stop(steps=100), 4 * 8 * 128 * 100 // 10),
        (Stop(rounds=60), 4 * 8 * 128 * 24 * 60 // 6 // 10),
        (Stop(rounds=60, tokens=1000), 100),
        (Stop(time_s=30.0), None),
    ],
)
def test_about_ten_snapshots_are_taken_whatever_ends_the_run(stop: Stop, every: int | None) -> None:
    assert settings(Training(learners=4, stop=stop))["evaluate_every"] == every


def test_snapshots_are_thinned_where_nobody_knows_the_tokens_of_a_task() -> None:
    own = Training(learners=4, task="own:make", stop=Stop(rounds=60))
    assert settings(own)["evaluate_every"] is None
    for twin, kept in ((True, 10), (False, None)):
        plan = FaultPlan(name="p", training=own, twin=twin)
        command = launch(plan).syncer().command
        said = json.loads(command[command.index("--settings-json") + 1])
        assert said["snapshots_kept"] == kept


def test_the_defaults_of_a_plan_are_those_of_syncer_and_learner() -> None:
    given = json.dumps({**settings(Training()), "stop_rounds": None, "evaluate_every": None})
    assert Settings.from_json(given) == Settings()
    inner, theirs = asdict(Inner()), asdict(InnerSettings())
    assert {key: inner[key] for key in theirs} == {**theirs, "decay_steps": inner["decay_steps"]}


def test_the_models_of_plans_are_those_that_learners_know() -> None:
    known = {name: len(tensor_shapes(preset.shape)) for name, preset in PRESETS.items()}
    assert known == TENSORS
    assert [*TENSORS] == [*get_args(get_type_hints(Training)["model"])]


def with_fault(settings: object, at: Trigger) -> FaultPlan:
    spec = FaultSpec(
        id="it", fault="it", settings=settings, target=Target(count=1), at=at,
        outage=Outage(seconds=5.0),
    )  # fmt: skip
    return replace(PLAN, faults=(spec,))


@pytest.mark.parametrize(
    ("plan", "hears", "has_volume"),
    [
        (PLAN, False, False),
        (with_fault(object(), Trigger(phase=Phase.WRITTEN)), True, False),
        (with_fault(HostKill(), Trigger(round=5)), True, False),
        (with_fault(ComputeSlow(), Trigger(round=5)), True, False),
        (with_fault(StorageDiskFull(), Trigger(round=5)), False, True),
    ],
    ids=["no fault", "at a phase", "of a host", "by rests", "of a disk"],
)
def test_nodes_hear_the_harness_and_have_volumes_if_a_fault_asks_for_it(
    plan: FaultPlan, hears: bool, has_volume: bool
) -> None:
    specs = [launch(plan).syncer(), *launch(plan).learners(ADDRESSES)]
    assert {spec.hears for spec in specs} == {hears}
    assert {"--test-hooks" in spec.command for spec in specs} == {hears}
    assert {spec.has_volume for spec in specs} == {has_volume}
    assert [spec.keeps for spec in specs] == ["state", *["checkpoints"] * 4]
    evaluator = launch(plan).evaluator()
    assert (evaluator.hears, evaluator.has_volume) == (False, False)


def test_learners_are_told_how_often_to_save() -> None:
    plan = replace(PLAN, training=Training(learners=4, save_every_s=2.5))
    assert {flags(spec)["--save-every"] for spec in launch(plan).learners(ADDRESSES)} == {"2.5"}
