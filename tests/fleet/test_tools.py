"""Each answer of the tools belongs to its own question, also after one that came too late."""

import json
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("docker.errors", reason="the Docker SDK is missing", exc_type=ImportError)

from chaoslab.core.errors import FleetError
from chaoslab.fleet.docker.engine.container_facts import Limits
from chaoslab.fleet.docker.images import tools


class Runner:
    """An engine with one container, in which `late` commands are answered with the next one."""

    def __init__(self, *late: str) -> None:
        self._late, self._held = late, b""
        self._said: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()

    def __getattr__(self, verb: str) -> Any:
        return lambda *_: verb

    def within(self, limits: Limits) -> Limits:
        return limits

    def attach(self, *_: str, hears: bool) -> "Runner":
        assert hears
        return self

    def write(self, line: bytes) -> None:
        (word,) = json.loads(line)["command"]
        self._held += json.dumps({"code": 0, "said": word}).encode() + b"\n"
        if word not in self._late:
            self._said.put((1, self._held))
            self._held = b""

    def read(self) -> tuple[int, bytes] | None:
        return self._said.get()

    def close(self) -> None:
        self._said.put(None)


def test_a_late_answer_is_none_to_the_next_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_ANSWER_S", 0.05)
    runner: Any = Runner("slow", "slower")
    asked = tools.Tools(runner, "gateway", "none", labels={})
    for late in ("slow", "slower"):
        with pytest.raises(FleetError):
            asked.run(late)
    monkeypatch.setattr(tools, "_ANSWER_S", 60.0)
    assert [asked.run(word) for word in ("iptables-save", "tc")] == ["iptables-save", "tc"]
    asked.close()
    for _ in range(2):
        with pytest.raises(FleetError):
            asked.run("tc")


def test_questions_of_several_threads_are_asked_one_after_the_other() -> None:
    class Crossing(Runner):
        """A second question before the first was answered would get its answer."""

        def write(self, line: bytes) -> None:
            assert not is_asked.is_set()
            is_asked.set()
            others.wait(30)
            is_asked.clear()
            super().write(line)

    is_asked, others = threading.Event(), threading.Barrier(2)
    runner: Any = Crossing()
    asked = tools.Tools(runner, "gateway", "none", labels={})
    words = [f"tc-{number}" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(asked.run, word) for word in words]
        for _ in words:
            others.wait(30)
        assert [one.result(30) for one in answers] == words
    asked.close()
