"""What brings a node back: recipes, and who may have written them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.process_identity import Identity, is_running, send
from chaoslab.fleet.attached import restoring
from chaoslab.fleet.attached.restoring import ContainerRecipe, ProcessRecipe
from chaoslab.fleet.nodes.worker_search import ranked_below
from tests.waiting import wait_until

LAUNCHER = "for rank in 0 1; do RANK=$rank sleep 60 & done; wait"
SLEEPER = "import sys, time; print('up', flush=True); time.sleep(float(sys.argv[1]))"


@pytest.fixture(autouse=True)
def _is_given_less_time_to_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoring, "_STAYS_S", 0.05)
    monkeypatch.setattr(restoring, "_GOING_S", 60.0)  # for a busy machine


def recipe_in(folder: Path, *words: str) -> ProcessRecipe:
    return ProcessRecipe(
        node="learner-0",
        command=(sys.executable, "-c", SLEEPER, "60", str(folder), *words),
        folder=str(folder),
        environment={"PATH": os.environ["PATH"], "SECRET": "s", "ODD": "no \udcff text"},
        output=str(folder / "out.log"),
        errors="/dev/null",
    )


def kept(folder: Path, recipe: ProcessRecipe | ContainerRecipe) -> Path:
    private = folder / "private" / recipe.node
    private.mkdir(parents=True, mode=0o700)
    private.parent.chmod(0o700)
    (private / restoring.RECIPE).write_bytes(restoring.written(recipe))
    return private.parent


def test_a_recipe_reads_back_and_does_not_show_its_environment(tmp_path: Path) -> None:
    process = recipe_in(tmp_path)
    container = ContainerRecipe(
        node="learner-1", engine="unix:///x", container="c", networks={"n": ("learner-1",)}
    )
    for one in (process, container):
        assert restoring.read(kept(tmp_path / one.node, one), one.node) == one
    assert "SECRET" not in repr(process)


@pytest.mark.parametrize(("text", "mode"), [
    ("", 0o600), ("{", 0o600), ("[]", 0o600), ('{"node": "learner-0"}', 0o600),
    ('{"container": 7}', 0o600), (None, 0o666),
])  # fmt: skip
def test_a_recipe_that_is_damaged_or_could_be_another_s_is_refused(
    tmp_path: Path, text: str | None, mode: int
) -> None:
    folder = kept(tmp_path, recipe_in(tmp_path))
    recipe = folder / "learner-0" / restoring.RECIPE
    recipe.write_text(recipe.read_text() if text is None else text)
    recipe.chmod(mode)
    with pytest.raises(FleetError):
        restoring.read(folder, "learner-0")


def test_a_process_is_started_once_as_it_was_and_let_go_on(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path)
    assert restoring.lacks(recipe) == ("learner-0 does not run",)
    assert "was started again" in restoring.restore(recipe)[0]
    found = restoring.running(recipe)
    assert found is not None
    try:
        assert restoring.lacks(recipe) == restoring.restore(recipe) == ()
        environment = Path(f"/proc/{found.pid}/environ").read_bytes()
        assert b"SECRET=s" in environment
        assert b"CHAOSLAB_NODE" not in environment
        os.kill(found.pid, 19)
        wait_until(lambda: bool(restoring.lacks(recipe)))
        assert "resumed" in restoring.restore(recipe)[0]
        assert restoring.lacks(recipe) == ()
        wait_until(lambda: (tmp_path / "out.log").read_text() == "up\n")
    finally:
        os.kill(found.pid, 9)
        os.waitpid(found.pid, 0)


def test_the_process_outlives_who_restores_it(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path)
    script = (
        "import json, sys; from chaoslab.fleet.attached import restoring;"
        "found = json.loads(sys.stdin.read()); found['command'] = tuple(found['command']);"
        "restoring._STAYS_S = 0.05; print(*restoring.restore(restoring.ProcessRecipe(**found)))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        input=json.dumps(_fields(recipe)), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert not done.stderr
    found = restoring.running(recipe)
    assert found is not None, done.stdout
    os.kill(found.pid, 9)
    wait_until(lambda: restoring.running(recipe) is None)


def _fields(recipe: ProcessRecipe) -> dict[str, object]:
    found: dict[str, object] = json.loads(restoring.written(recipe))
    return {**found, "command": recipe.command}


def test_a_process_is_started_again_at_its_niceness(tmp_path: Path) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    recipe = replace(recipe_in(tmp_path), nice=min(19, own + 3))
    process = restoring.begin(recipe)
    try:
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == recipe.nice
        assert os.getpriority(os.PRIO_PROCESS, 0) == own
    finally:
        process.kill()
        process.wait()


def test_what_could_not_have_its_niceness_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(recipe_in(tmp_path), nice=os.getpriority(os.PRIO_PROCESS, 0) - 1)
    (tmp_path / "out.log").touch()

    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse)
    restoring.require_startable(replace(recipe, nice=recipe.nice + 1))
    with pytest.raises(AbilityError):
        restoring.require_startable(recipe)


# ---------------------------------------------------------------- below a launcher


class Launched:
    """A launcher that does nothing about its second worker, which is dead."""

    def __init__(self, folder: Path) -> None:
        self.recipe = replace(
            recipe_in(folder), node="worker-1", command=("sh", "-c", LAUNCHER, str(folder)),
            rank=1, workers=2,
        )  # fmt: skip
        self.process = restoring.begin(self.recipe)
        wait_until(lambda: len(self.workers()) == 2)
        self.other, self.dead = self.workers()[0], self.workers()[1]
        send(self.dead, 9)
        wait_until(lambda: 1 not in self.workers())

    def workers(self) -> dict[int, Identity]:
        launcher = restoring.running(self.recipe)
        return {} if launcher is None else ranked_below(launcher)

    def end(self) -> None:
        self.process.kill()
        send(self.other, 9)
        self.process.wait()


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launched]:
    monkeypatch.setattr(restoring, "QUIET_S", 0.05)
    monkeypatch.setattr(restoring, "ANSWER_S", 0.1)
    made = Launched(tmp_path)
    try:
        yield made
    finally:
        made.end()


@pytest.mark.parametrize("workers", [2, 5], ids=["quiet", "others have ended"])
def test_a_launcher_that_does_nothing_about_a_dead_worker_is_ended_with_the_others(
    launched: Launched, workers: int
) -> None:
    recipe, dead = replace(launched.recipe, workers=workers), launched.dead
    assert restoring.await_answer(recipe, dead.pid, dead.start_ticks)
    assert restoring.running(recipe) is None
    assert not is_running(launched.other.pid)


@pytest.mark.parametrize("why", ["starts again itself", "is a newer one", "has another worker"])
def test_a_launcher_goes_on_that(launched: Launched, why: str) -> None:
    recipe, dead = launched.recipe, launched.dead
    match why:
        case "starts again itself":
            recipe = replace(recipe, workers=0)
        case "is a newer one":
            dead = replace(dead, start_ticks=0)
        case _:
            recipe = replace(recipe, rank=0)
    assert restoring.await_answer(recipe, dead.pid, dead.start_ticks) == ()
    assert is_running(launched.other.pid)
