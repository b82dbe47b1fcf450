"""A training function that a system restarts within the process of its learner."""

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaoslab.systems.learner import Learner


def learner_in(folder: Path) -> Learner:
    token = folder / "token"
    token.write_text("learner-0:secret")
    token.chmod(0o600)
    flags = ("--batch", "2", "--sequence", "16", "--directory", str(folder / "own"))
    learner = Learner(
        ("--syncer", "127.0.0.1:1", "--token-file", str(token), *flags),
        {
            "names": ["learner-0"],
            "settings": {"sync_every": 5},
            "coordinator": "127.0.0.1:1",
            "version": 0,
            "shared": str(folder),
        },
    )
    epochs = count(1)
    learner.__dict__["_reports"] = SimpleNamespace(  # which reach nobody
        join=lambda _donor: next(epochs), adopt=lambda *_: None, leave=lambda _: None,
        take_snapshot=lambda _: None, epoch=0,
    )  # fmt: skip
    return learner


def data_of(printed: str, kind: str) -> Sequence[dict[str, Any]]:
    events = [json.loads(line) for line in printed.splitlines()]
    return [event["data"] for event in events if event["kind"] == kind]


@pytest.mark.gate  # five seconds, to compile the model
def test_a_learner_goes_on_from_the_state_that_it_is_given_and_leaves_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learner = learner_in(tmp_path)
    initial = learner.state()
    learner.joined(0)
    learner.step()
    learner.step()
    learner._data._batches.close()  # as what is raised within it does
    learner.failed()
    learner.set_state(initial)
    learner.joined(0)
    learner.step()
    learner.leave()
    learner.leave()
    printed = capsys.readouterr().out
    first, again = data_of(printed, "learner.joined")
    assert again["digests"] == first["digests"]
    assert (again["step"], again["data_position"]) == (2, 2)
    (final,) = data_of(printed, "learner.final")
    assert final["in_flight"] == {"0": final["tokens"]}  # two steps are lost, the third is open
    assert len(data_of(printed, "learner.left")) == 1
