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
from chaoslab.diloco.learner.checkpoints import LearnerStore
from chaoslab.diloco.model.fragments import fingerprint, specs_from_json
from chaoslab.diloco.wire.identity import Tokens
from tests.training_processes import ROOT, SYNCER, Processes

pytestmark = [pytest.mark.deep, pytest.mark.alone]


def test_a_training_runs_to_its_stop_rule_and_all_end_with_the_same_parameters(
    tmp_path: Path,
) -> None:
    """With a share of their own values; without one, trainings below and of two hosts do."""
    with Processes(tmp_path, learners=2, stop_rounds=30, blend=0.5).start() as training:
        assert [training.exit_code(name) for name in (*training.names, SYNCER)] == [0, 0, 0]
        final = training.wait(Kind.SYNCER_FINAL)
        assert final["rounds"] >= 30
        number, unit = final["reason"].split()
        assert (final["was_asked"], unit) == (False, "rounds")
        assert 30 <= int(number) <= final["rounds"], "a round that was open is closed after it"
        assert final["stored_digests"] == final["digests"]
        assert final["stored_momentum_digests"] == final["momentum_digests"]
        accounts = training.told(Kind.LEARNER_FINAL)
        assert {account["learner"] for account in accounts} == set(training.names)
        for account in accounts:
            assert account["versions"] == final["versions"]
            assert account["digests"] == final["digests"]
        both = [merged for merged in training.told(Kind.ROUND_MERGED)
                if len(merged["contributors"]) == 2]  # fmt: skip
        assert both, "they trained together"


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


def test_a_rejoiner_comes_back_although_its_donor_dies_while_it_serves(tmp_path: Path) -> None:
    hesitated = tmp_path / "hesitated"
    with Processes(tmp_path, suspect_after_s=20.0, drop_after_s=40.0) as training:
        training.start_syncer()
        for name in training.names:
            training.start_learner(name, module="tests.hesitant_donor")
        for name in training.names:
            training.contributes(name, mark=0)
        training.kill("learner-2")
        training.wait(Kind.MEMBER_LEFT, learner="learner-2")
        mark = training.mark()
        (tmp_path / "armed").touch()
        training.start_learner("learner-2")
        training.until(lambda: hesitated.exists() and bool(hesitated.read_text()), "a donor")
        donor = hesitated.read_text()
        asked = training.wait(Kind.MEMBER_JOINED, mark=mark, learner="learner-2")
        assert (asked["source"], asked["donor"]) == ("donor", donor)
        assert training.told(Kind.LEARNER_JOINED, mark=mark) == []
        training.kill(donor)
        joined = training.wait(Kind.LEARNER_JOINED, mark=mark, learner="learner-2")
        (other,) = set(training.names) - {donor, "learner-2"}
        assert (joined["source"], joined["donor"]) == ("donor", other)
        assert joined["step"] > 0
        training.contributes("learner-2", mark=mark, incarnation=2)


def test_asked_to_leave_before_it_could_join_a_learner_leaves(tmp_path: Path) -> None:
    with Processes(tmp_path, learners=1) as training:
        training.address = "127.0.0.1:1"
        Tokens.load_or_create(tmp_path / SYNCER / "tokens", ["learner-0"])
        training.start_learner("learner-0")
        training.wait(Kind.LEARNER_STARTED)
        training.signal("learner-0", signal.SIGTERM)
        assert training.exit_code("learner-0") == 0
        assert training.wait(Kind.LEARNER_LEFT)["reason"] == "asked", "training has not stopped"


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


def pushes_accepted_after_leaving(training: Processes, left: Mapping[str, Any]) -> int:
    """How many pushes were accepted from a membership that had ended."""
    mark = training.place_after(left)
    return len(training.told(Kind.PUSH_ACCEPTED, mark=mark, epoch=left["epoch"]))


def test_a_killed_learner_is_missed_at_once_and_its_next_life_joins_from_a_donor(
    training: Processes,
) -> None:
    before = now(training, "learner-1")

    def heard() -> int:
        """Where the syncer heard that it stood, as far as its sampled steps say."""
        accepted = training.told(Kind.PUSH_ACCEPTED, learner="learner-1")[-1]["step"]
        steps = training.told(Kind.LEARNER_STEP, learner="learner-1")
        return max((one["data_position"] for one in steps if one["step"] <= accepted), default=0)

    training.until(lambda: heard() > 0, "a push after a sampled step")
    position = heard()
    mark = training.mark()
    training.kill("learner-1")
    left = training.wait(Kind.MEMBER_LEFT, mark=mark, learner="learner-1")
    assert (left["reason"], left["members"]) == ("closed", 2)
    training.contributes("learner-0", mark=training.place_after(left))  # nobody waits for it
    training.start_learner("learner-1")
    member = training.wait(Kind.MEMBER_JOINED, mark=mark, learner="learner-1")
    assert member["incarnation"] == before["incarnation"] + 1
    assert (member["source"], member["members"]) == ("donor", 3)
    joined = training.wait(Kind.LEARNER_JOINED, mark=mark, learner="learner-1")
    assert joined["donor"] in ("learner-0", "learner-2")
    assert joined["data_position"] >= position, "it goes on where the syncer heard that it stood"
    training.contributes("learner-1", mark=mark, incarnation=member["incarnation"])


def test_a_wedged_learner_is_dropped_and_released_joins_again_in_the_same_life(
    training: Processes,
) -> None:
    before = now(training, "learner-0")
    mark = training.mark()
    training.signal("learner-0", signal.SIGUSR1)
    training.wait(Kind.MEMBER_SUSPECTED, mark=mark, learner="learner-0")
    left = training.wait(Kind.MEMBER_LEFT, mark=mark, learner="learner-0")
    assert left["reason"] == "no_progress", "although its heartbeats went on"
    training.contributes("learner-1", mark=training.place_after(left))
    assert training.is_running("learner-0")
    assert training.told(Kind.MEMBER_JOINED, mark=mark) == [], "not while it is wedged"
    training.signal("learner-0", signal.SIGUSR2)
    again = training.wait(Kind.MEMBER_JOINED, mark=mark, learner="learner-0")
    assert (again["incarnation"], again["source"]) == (before["incarnation"], "resumed")
    assert again["epoch"] > before["epoch"]
    training.contributes("learner-0", mark=mark, epoch=again["epoch"])
    assert training.wait(Kind.LEARNER_FENCED, mark=mark)["epoch"] == before["epoch"]
    assert pushes_accepted_after_leaving(training, left) == 0


def test_a_learner_that_was_stopped_for_long_is_fenced_and_joins_again(
    training: Processes,
) -> None:
    before = now(training, "learner-2")
    mark = training.mark()
    training.signal("learner-2", signal.SIGSTOP)
    left = training.wait(Kind.MEMBER_LEFT, mark=mark, learner="learner-2")
    training.contributes("learner-1", mark=training.place_after(left))
    training.signal("learner-2", signal.SIGCONT)
    fenced = training.wait(Kind.LEARNER_FENCED, mark=mark, learner="learner-2")
    assert fenced["epoch"] == before["epoch"]
    again = training.wait(Kind.MEMBER_JOINED, mark=mark, learner="learner-2")
    assert (again["incarnation"], again["source"]) == (before["incarnation"], "resumed")
    assert again["epoch"] > before["epoch"]
    training.contributes("learner-2", mark=mark, epoch=again["epoch"])
    assert pushes_accepted_after_leaving(training, left) == 0


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


def test_asked_to_leave_a_learner_keeps_a_checkpoint_and_the_others_go_on(
    training: Processes,
) -> None:
    mark = training.mark()
    training.signal("learner-0", signal.SIGTERM)
    assert training.exit_code("learner-0") == 0
    left = training.wait(Kind.LEARNER_LEFT, mark=mark, learner="learner-0")
    assert left["reason"] == "asked"
    gone = training.wait(Kind.MEMBER_LEFT, mark=mark, learner="learner-0")
    assert gone["reason"] == "said_goodbye"
    specs = specs_from_json((training.folder / SYNCER / "state" / "specs.json").read_text())
    store = LearnerStore(
        training.folder / "learner-0" / "checkpoints", fingerprint=fingerprint(specs)
    )
    newest = store.load_newest()
    assert newest is not None
    assert newest.step == left["step"]
    training.contributes("learner-1", mark=training.place_after(gone))


def test_asked_to_end_the_syncer_ends_training_in_order(training: Processes) -> None:
    mark = training.mark()
    training.signal(SYNCER, signal.SIGTERM)
    assert [training.exit_code(name) for name in (*training.names, SYNCER)] == [0, 0, 0, 0]
    final = training.wait(Kind.SYNCER_FINAL, mark=mark)
    assert final["was_asked"]
    assert final["stored_digests"] == final["digests"]
    assert final["stored_momentum_digests"] == final["momentum_digests"]
    for account in training.told(Kind.LEARNER_FINAL, mark=mark):
        assert account["digests"] == final["digests"]
    assert len(training.told(Kind.LEARNER_FINAL, mark=mark)) == 3
