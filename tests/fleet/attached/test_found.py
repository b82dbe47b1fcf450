"""Command lines of nodes, and trainings that a plan can name."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from chaoslab.core.errors import AbilityError
from chaoslab.fleet.attached.found import Found, command_of, numbered, of_script, training_of
from chaoslab.fleet.attached.script_search import Which, find
from chaoslab.fleet.base import Role
from tests.contracts.fleet_kit import wait_until


def node(*words: str) -> Found:
    command = command_of(["python", "-m", *words])
    assert command is not None
    return Found(
        name=command.name, role=command.role, where="process 7", handle="7", command=command
    )


SYNCER = node("chaoslab.diloco.syncer", "--address", "127.0.0.1:0")


def learner(number: int, *flags: str) -> Found:
    return node("chaoslab.diloco.learner", "--name", f"learner-{number}", *flags)


@pytest.mark.parametrize("words", [
    ("--name=learner-3", "--keep-training", "--syncer=syncer:4600"),
    ("--name", "learner-3", "--keep-training", "--syncer", "syncer:4600"),
])  # fmt: skip
def test_flags_with_and_without_an_equals_sign(words: tuple[str, ...]) -> None:
    command = command_of(["/usr/bin/python3", "-m", "chaoslab.diloco.learner", *words])
    assert command is not None
    assert (command.role, command.name) == (Role.LEARNER, "learner-3")
    assert command.flags == {
        "--name": "learner-3",
        "--keep-training": "",
        "--syncer": "syncer:4600",
    }


def test_other_programs_are_no_nodes() -> None:
    assert command_of(["bash", "-c", "python -m chaoslab.diloco.learner --name learner-0"]) is None
    assert command_of([]) is None


def test_settings_of_a_syncer_that_are_no_json_are_none() -> None:
    assert node("chaoslab.diloco.syncer", "--settings-json", "{").command.settings == {}
    assert node("chaoslab.diloco.syncer", "--settings-json", '{"quorum": 2}').command.settings == {
        "quorum": 2
    }


def test_a_training_is_in_the_order_of_a_roster() -> None:
    nodes = [learner(10 - index) for index in range(11)]
    found = training_of([*nodes, SYNCER], "here", "none")
    assert [one.name for one in found] == ["syncer", *(f"learner-{index}" for index in range(11))]


@pytest.mark.parametrize(("nodes", "why"), [
    ([], "here"),
    ([SYNCER], "syncer"),
    ([learner(0)], "learner-0"),
    ([SYNCER, SYNCER, learner(0)], "one syncer"),
    ([SYNCER, learner(0), learner(1), learner(1)], "learner-1 .*twice"),
    ([SYNCER, learner(0), learner(2)], "learner-0, learner-2"),
    ([SYNCER, learner(0, "--incarnation", "1")], "incarnation"),
    ([node("chaoslab.diloco.syncer", "--name", "hub"), learner(0)], "hub"),
])  # fmt: skip
def test_what_no_plan_can_name_is_refused(nodes: list[Found], why: str) -> None:
    with pytest.raises(AbilityError, match=why):
        training_of(nodes, "here", "there is none")


def workers(*ranks: int | None) -> list[Found]:
    """Each with the place in which it stands as its handle."""
    return [
        replace(of_script("", "process", str(place)), rank=rank) for place, rank in enumerate(ranks)
    ]


@pytest.mark.parametrize(
    ("ranks", "order"),
    [((2, 0, 1), "120"), ((None, None), "01"), ((None,), "0"), ((0,), "0")],
)
def test_workers_are_numbered_by_their_ranks_or_as_they_come(
    ranks: tuple[int | None, ...], order: str
) -> None:
    found = numbered(workers(*ranks), "here")
    assert [one.name for one in found] == [f"worker-{number}" for number in range(len(ranks))]
    assert "".join(one.handle for one in found) == order


@pytest.mark.parametrize("ranks", [(0, None), (0, 0), (1, 2), (3,)])
def test_workers_with_other_ranks_are_no_training(ranks: tuple[int | None, ...]) -> None:
    with pytest.raises(AbilityError, match="here"):
        numbered(workers(*ranks), "here")


def test_a_process_of_another_user_is_named_with_that_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = [sys.executable, "-c", "input()", str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as other:
        process, uid = psutil.Process(other.pid), os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
        wait_until(lambda: process.cmdline() == words)
        name = re.escape(process.username())
        with pytest.raises(AbilityError, match=rf"\b{other.pid}\b.*{name}"):
            find(Which(pattern=re.escape(str(tmp_path))))
        other.communicate(b"\n")
