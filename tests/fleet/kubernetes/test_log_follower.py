"""A follower learns of its pod from the watch, asks where that is silent, and repeats no line."""

import queue
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from hypothesis import given, settings
from hypothesis import strategies as st

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes import log_follower, pod_state
from chaoslab.fleet.kubernetes.cluster import pod_of
from chaoslab.fleet.kubernetes.log_follower import LogFollower, LogPosition, PodOfJob
from chaoslab.fleet.kubernetes.names import LABEL_INDEX
from chaoslab.fleet.kubernetes.pod_state import PodState, state_of
from chaoslab.fleet.kubernetes.pod_watch import JobPods, NumberedPods, PodWatch
from tests.fleet.kubernetes.fake_cluster import RUNNING, FakeCluster, ended, pod, waiting
from tests.waiting import wait_until

WAIT_S = 60.0
SILENT_S = log_follower._ASK_S + 1


def of_job(name: str, state: Any = RUNNING, *, job: str = "job", index: str = "0") -> Any:
    return pod(name, state, labels={"job-name": job, LABEL_INDEX: index})


class Told:
    """Whoever is told, for a test that waits for it."""

    def __init__(self) -> None:
        self.said: queue.Queue[tuple[str, object]] = queue.Queue()

    def pod_started(self, state: PodState) -> None:
        self.said.put(("started", state.name))

    def pod_printed(self, lines: bytes) -> None:
        self.said.put(("printed", lines))

    def pod_ended(self, state: PodState | None) -> None:
        self.said.put(("ended", state and state.exit_code))

    def pod_failed(self, error: FleetError) -> None:
        self.said.put(("failed", str(error)))

    def next(self) -> tuple[str, object]:
        return self.said.get(timeout=WAIT_S)


class Following:
    """A pod that is followed: what its server, its watch and who is told of it have."""

    def __init__(self, server: FakeCluster | None = None, *, silent_s: float = 0.0) -> None:
        self.server, self.told = server or FakeCluster(), Told()
        self.pods = JobPods(lambda: silent_s)

    def begin(self, *, start_s: float = WAIT_S) -> Told:
        which = PodOfJob("job")
        self.follower = LogFollower(self.server, which, self.told, self.pods, start_s=start_s)
        return self.told

    def see(self, state: Any) -> None:
        """The watch does."""
        self.pods.see(state_of(pod_of(of_job("p", state))))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("_AGAIN_S", "_LOOK_S", "_PAUSE_S"):
        monkeypatch.setattr(log_follower, pause, 0.01)


def test_a_pod_that_the_watch_sees_is_asked_for_its_log_until_its_end_is_known() -> None:
    class Late(FakeCluster):
        """Its word of the end comes late, and a line once more with each log."""

        def lines(self, *words: Any, **more: Any) -> Any:
            if self.calls.count("read pods/p") > 2:
                self.objects["pods/p"] = of_job("p", ended(3))
            return super().lines(*words, **more)

    following = Following(Late(of_job("p")))
    following.server.logs["p"] = [b"2026-11-27T10:00:00.1Z a line"]
    following.see(waiting("ContainerCreating"))
    began_s, told = time.monotonic(), following.begin()
    following.see(RUNNING)
    assert [told.next() for _ in range(3)] == [
        ("started", "p"), ("printed", b"a line\n"), ("ended", 3),
    ]  # fmt: skip
    assert time.monotonic() - began_s >= 3 * log_follower._PAUSE_S
    assert following.server.listed == []


def test_where_the_watch_is_silent_the_server_is_asked() -> None:
    following = Following(FakeCluster(of_job("p")), silent_s=SILENT_S)
    assert following.begin().next() == ("started", "p")
    assert following.server.listed == ["job-name=job"]
    following.server.close()


@pytest.mark.parametrize("state", [waiting("ContainerCreating"), RUNNING], ids=["waits", "runs"])
def test_a_pod_that_is_gone_has_ended(state: Any) -> None:
    following = Following()
    following.see(state)
    told = following.begin()
    if state is RUNNING:
        assert told.next() == ("started", "p")
    following.pods.lose("p")
    assert told.next() == ("ended", None)
    assert following.server.listed == ([] if state is RUNNING else ["job-name=job"])


def test_a_pod_that_nobody_starts_is_an_error_that_names_its_job() -> None:
    what, said = Following().begin(start_s=0.0).next()
    assert what == "failed"
    assert "Job job" in str(said)


def test_a_pod_whose_kubelet_tries_again_is_waited_for_and_one_without_hope_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = []

    def wait(pods: JobPods, limit_s: float, wait: Callable[..., None] = JobPods.wait) -> None:
        looks.append(limit_s)
        wait(pods, limit_s)

    monkeypatch.setattr(JobPods, "wait", wait)
    following = Following()
    following.see(waiting("CreateContainerConfigError"))
    told = following.begin()
    wait_until(lambda: len(looks) > 5)
    assert told.said.empty()
    monkeypatch.setattr(pod_state, "HOPELESS_S", 0.0)
    what, said = told.next()
    assert what == "failed"
    assert "CreateContainerConfigError" in str(said)


def test_a_client_that_is_closed_meanwhile_ends_the_follower() -> None:
    class Closing(FakeCluster):
        def lines(self, *_: object, **__: object) -> Any:
            self.is_closing = True
            raise FleetError("the client has been closed")

        def get(self, *_: object) -> Any:
            raise FleetError("the client has been closed")

    following = Following(Closing())
    following.see(RUNNING)
    assert following.begin().next() == ("started", "p")
    following.follower._thread.join(WAIT_S)
    assert following.told.said.empty()


def test_pods_are_those_of_the_job_now_and_later() -> None:
    watch = PodWatch(FakeCluster(), "", queue.Queue(), NumberedPods(lambda _: ()))
    for found in (of_job("a"), of_job("b", job="other"), of_job("d", index="1")):
        watch._see(found)
    pods = watch.pods_of("job")
    watch._see(of_job("c"))
    assert [one.name for one in pods.there] == ["a", "c"]
    watch._lose("a")
    assert [one.name for one in pods.there] == ["c"]
    assert watch.pods_of("job") is pods


# ---------------------------------------------------------------- what was read of a log


def line(second: int, fraction: str, text: str, zone: str = "Z") -> bytes:
    return f"2026-11-27T10:00:{second:02d}{fraction}{zone} {text}".encode()


def test_times_of_lines_have_zones_and_a_line_without_one_is_the_rest_of_one_that_was_cut() -> None:
    position = LogPosition()
    assert position.since == ""
    assert position.new(b"tep, 5}") is None
    position.new(line(7, ".9", "a", "+01:00"))
    assert position.since == "2026-11-27T10:00:07+01:00"
    assert position.new(b"2026-11-27T09:00:07.95Z b") == b"b"
    assert position.new(b"2026-11-27T09:00:07.8Z c") is None


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60).map(sorted),
    st.lists(st.integers(1, 20), max_size=12),
)
def test_whatever_the_breaks_each_line_comes_once_and_in_order(
    times: Sequence[int], reads: Sequence[int]
) -> None:
    """`times` in tenths of a second, several lines of one time among them."""
    log = [line(at // 10, f".{at % 10}", str(index)) for index, at in enumerate(times)]
    position, got = LogPosition(), list[bytes]()
    for length in (*reads, len(log)):
        position.reopen()
        since = position.since.encode()[:19]
        served = [one for one in log if one[:19] >= since]
        got += [text for one in served[:length] if (text := position.new(one)) is not None]
    assert got == [str(index).encode() for index in range(len(log))]
