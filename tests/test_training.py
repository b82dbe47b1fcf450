"""Real trainings without the harness: processes killed, stopped, wedged and asked to leave.

What other systems get wrong under these faults: who is alive by its heartbeats alone, who returns
as its former self, who becomes the state of the run by being alone, who waits for whom.
"""

import argparse
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from chaoslab.core.events import Kind
from tests.training_processes import ROOT, SYNCER, Processes

pytestmark = [pytest.mark.deep, pytest.mark.alone]


def test_spoilt_updates_are_refused_or_bounded_and_their_learners_take_part_again(
    tmp_path: Path,
) -> None:
    rules = {"fragments": 2, "norm_rounds": 2}
    with Processes(tmp_path, has_hooks=True, **rules).start() as training:
        for name in training.names:
            training.contributes(name, mark=0)
        training.wait(Kind.ROUND_MERGED, version=lambda version: version > 3, fragment=0)
        training.wait(Kind.ROUND_MERGED, version=lambda version: version > 3, fragment=1)
        assert not training.told(Kind.PUSH_BOUNDED), "honest updates are not too large"
        mark = training.mark()
        training.tell("learner-0", "updates", kind="nan")
        training.tell("learner-1", "updates", kind="scaled", factor=1000)
        training.tell("learner-2", "updates", kind="duplicate")
        training.wait(Kind.PUSH_REJECTED, mark=mark, learner="learner-0", reason="not_finite")
        bounded = training.wait(Kind.PUSH_BOUNDED, mark=mark, learner="learner-1")
        assert bounded["norm"] > 100 * bounded["usual"]
        twice = training.wait(
            Kind.PUSH_REJECTED, mark=mark, learner="learner-2",
            reason=lambda reason: reason in ("late", "replay"),
        )  # fmt: skip
        same = {key: twice[key] for key in ("learner", "round", "fragment")}
        assert len(training.told(Kind.PUSH_ACCEPTED, mark=mark, **same)) == 1
        for name in training.names:
            training.tell(name, "updates")
        for name in training.names:
            training.contributes(name, mark=training.mark())
        losses = [step["loss"] for step in training.told(Kind.LEARNER_STEP, mark=mark)]
        assert max(losses) < 6, "nothing of it came into the model"


def test_the_examples_of_the_documentation_train_a_task_by_another_optimizer(
    tmp_path: Path,
) -> None:
    task = ("--task", "next_byte:make", "--data", str(Path(argparse.__file__)), "--batch", "64")
    with Processes(
        tmp_path,
        learners=2,
        model=task,
        environment={"PYTHONPATH": f"{ROOT}:{ROOT / 'docs' / 'examples'}"},
        fragments=4,
        stop_rounds=60,
    ) as training:
        training.start_syncer()
        for name in training.names:
            training.start_learner(name, module="lion_learner")
        assert [training.exit_code(name) for name in (*training.names, SYNCER)] == [0, 0, 0]
        last = [step["loss"] for step in training.told(Kind.LEARNER_STEP)][-4:]
        assert max(last) < 3.5, "it learns: a guess by chance has a loss of 5.5"
        final = training.wait(Kind.SYNCER_FINAL)
        for account in training.told(Kind.LEARNER_FINAL):
            assert account["digests"] == final["digests"]


# ---------------------------------------------------------------- one training, many troubles


@pytest.fixture(scope="module")
def long_training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Three learners, no stop rule."""
    folder = tmp_path_factory.mktemp("training")
    with Processes(folder, suspect_after_s=1.5, drop_after_s=4.0).start() as training:
        yield training


@pytest.fixture
def training(long_training: Processes) -> Processes:
    """The same, with everybody at work, whatever the test before left behind."""
    if not long_training.is_running(SYNCER):
        long_training.start_syncer()
    mark = long_training.mark()
    for name in long_training.names:
        if not long_training.is_running(name):
            long_training.start_learner(name)
        long_training.contributes(name, mark=mark)
    return long_training


def now(training: Processes, name: str) -> Mapping[str, Any]:
    """A learner's present membership."""
    return training.told(Kind.MEMBER_JOINED, learner=name)[-1]


@pytest.mark.parametrize(("hold", "release"), [
    (signal.SIGUSR1, signal.SIGUSR2), (signal.SIGSTOP, signal.SIGCONT),
], ids=["wedged", "stopped"])  # fmt: skip
def test_a_learner_that_does_not_step_is_dropped_and_released_joins_again_in_the_same_life(
    training: Processes, hold: signal.Signals, release: signal.Signals
) -> None:
    before = now(training, "learner-0")
    mark = training.mark()
    training.signal("learner-0", hold)
    training.wait(Kind.MEMBER_SUSPECTED, mark=mark, learner="learner-0")
    left = training.wait(Kind.MEMBER_LEFT, mark=mark, learner="learner-0")
    assert left["reason"] == "no_progress", "also where its heartbeats go on"
    training.contributes("learner-1", mark=training.place_after(left))
    assert training.is_running("learner-0")
    assert training.told(Kind.MEMBER_JOINED, mark=mark) == [], "not while it is held"
    training.signal("learner-0", release)
    fenced = training.wait(Kind.LEARNER_FENCED, mark=mark, learner="learner-0")
    assert fenced["epoch"] == before["epoch"]
    again = training.wait(Kind.MEMBER_JOINED, mark=mark, learner="learner-0")
    assert (again["incarnation"], again["source"]) == (before["incarnation"], "resumed")
    assert again["epoch"] > before["epoch"]
    training.contributes("learner-0", mark=mark, epoch=again["epoch"])
    late = training.told(Kind.PUSH_ACCEPTED, mark=training.place_after(left), epoch=left["epoch"])
    assert late == [], "pushes of a membership that had ended"


def test_a_killed_syncer_costs_the_learners_nothing(training: Processes) -> None:
    training.kill(SYNCER)
    versions = training.versions()
    mark = training.mark()
    for name in training.names:
        training.wait(Kind.LEARNER_STEP, mark=mark, learner=name)  # they go on without it
    training.start_syncer()
    ready = training.wait(Kind.SYNCER_READY, mark=mark)
    assert ready["is_recovered"]
    said_again = training.wait(Kind.ROUND_MERGED, mark=mark, is_restated=True)
    for name in training.names:
        again = training.wait(Kind.MEMBER_JOINED, mark=mark, learner=name)
        assert again["source"] == "resumed"
        later = training.place_after(said_again)
        training.contributes(name, mark=later, incarnation=again["incarnation"])
    went_on(training, versions, mark)


def test_a_lone_fresh_learner_never_becomes_the_state_of_the_training(
    training: Processes,
) -> None:
    training.kill(*training.names)
    for name in training.names:
        training.wait(Kind.MEMBER_LEFT, epoch=now(training, name)["epoch"])
    mark = training.mark()
    training.start_learner("learner-1")
    member = training.wait(Kind.MEMBER_JOINED, mark=mark, learner="learner-1")
    joined = training.wait(Kind.LEARNER_JOINED, mark=mark)
    mark = training.place_after(member)  # a merge that was under way when they died is before it
    versions = training.versions(before=mark)
    assert joined["source"] == "syncer"
    assert {at: version for at, version in joined["versions"].items() if version} == versions
    training.contributes("learner-1", mark=mark)
    for name in ("learner-0", "learner-2"):
        training.start_learner(name)
        assert training.wait(Kind.LEARNER_JOINED, mark=mark, learner=name)["donor"]
        training.contributes(name, mark=mark)
    went_on(training, versions, mark)


def went_on(training: Processes, versions: Mapping[str, int], mark: int) -> None:
    """Every fragment's versions go on by one from where they were; no token is uncounted."""
    earlier = [merged for merged in training.told(Kind.ROUND_MERGED)
               if merged not in training.told(Kind.ROUND_MERGED, mark=mark)]  # fmt: skip
    now_at = dict(versions)
    tokens, number = earlier[-1]["committed_tokens"], max(one["round"] for one in earlier)
    for merged in training.told(Kind.ROUND_MERGED, mark=mark):
        fragment = str(merged["fragment"])
        if merged.get("is_restated") and merged["round"] == number:
            assert merged["version"] == now_at[fragment]
            continue  # what a syncer that came back says once more had been heard
        assert merged["base_version"] == now_at.get(fragment, 0)
        assert merged["version"] == now_at.get(fragment, 0) + 1
        assert merged["committed_tokens"] > tokens
        assert merged["round"] > number
        now_at[fragment], tokens = merged["version"], merged["committed_tokens"]
    assert now_at != versions
