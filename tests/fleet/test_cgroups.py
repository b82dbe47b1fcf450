"""Cgroups of our own: where they may be made, and what is written there, on made-up folders.

`test_stressors` uses those of the kernel.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.fleet.local.cgroups import Cgroup, Controller, Home, memory_left_bytes, remove, where
from tests.fleet.direct_hosts import home_folder


class Kernel:
    """A folder that looks like a mounted hierarchy, and the files that tell of it."""

    def __init__(self, root: Path) -> None:
        self.root, self.mounts, self.membership = root, root / "mounts", root / "cgroup"
        self.mounts.write_text("")
        self.membership.write_text("")

    def mount(self, name: str, kind: str, options: str, inside: str = "/") -> Path:
        place = self.root / name
        place.mkdir()
        with self.mounts.open("a") as file:
            file.write(f"{kind} {place} {kind} rw,{options} 0 0\n")
        with self.membership.open("a") as file:
            file.write(f"1:{options if kind == 'cgroup' else ''}:{inside}\n")
        return place

    def where(self, controller: Controller) -> Home | None:
        return where(controller, mounts=self.mounts, membership=self.membership)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    with home_folder() as without_blanks:
        yield Kernel(without_blanks)


def folder(place: Path, **files: str) -> Path:
    place.mkdir(exist_ok=True)
    for name, words in {"procs": "", **files}.items():
        (place / f"cgroup.{name}").write_text(words)
    return place


def test_where_nothing_is_mounted_there_is_no_place(kernel: Kernel) -> None:
    assert kernel.where(Controller.CPU) is None
    assert where(Controller.CPU, mounts=kernel.root / "none") is None


def test_in_v1_ours_lie_below_the_harness_s_own(kernel: Kernel) -> None:
    place = folder(kernel.mount("cpu", "cgroup", "cpu", inside="/session"))
    own = folder(place / "session")
    home = kernel.where(Controller.CPU)
    assert home is not None
    assert (home.version, home.parent, home.back) == (1, own, own)
    assert str(home) == "cgroup v1"
    assert kernel.where(Controller.MEMORY) is None


def test_in_v2_ours_lie_beside_the_harness_s_own(kernel: Kernel) -> None:
    place = folder(kernel.mount("all", "cgroup2", "nsdelegate", inside="/mine/session"))
    mine = folder(place / "mine", controllers="cpu memory", subtree_control="memory")
    session = folder(mine / "session", controllers="memory", subtree_control="")
    home = kernel.where(Controller.CPU)
    assert home is not None
    assert (home.version, home.parent, home.back) == (2, mine, session)


def test_in_v2_a_place_without_the_controller_is_none(kernel: Kernel) -> None:
    folder(kernel.mount("all", "cgroup2", "rw"), controllers="memory", subtree_control="")
    assert kernel.where(Controller.CPU) is None


def test_in_v2_the_top_that_a_container_sees_is_no_root_while_there_is_somebody_in_it(
    kernel: Kernel,
) -> None:
    files = {"controllers": "cpu memory", "subtree_control": "", "procs": "1 7"}
    place = folder(kernel.mount("all", "cgroup2", "rw"), **files)
    assert kernel.where(Controller.CPU) is not None
    folder(place, type="domain", **files)
    assert kernel.where(Controller.CPU) is None


@pytest.mark.parametrize(
    ("kind", "options", "limit", "used", "files"),
    [
        ("cgroup", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive"),
        ("cgroup2", "rw", "memory.max", "memory.current", "inactive"),
    ],
)
def test_what_a_container_may_still_use_is_known_by_the_narrowest_limit_around(
    kernel: Kernel, kind: str, options: str, limit: str, used: str, files: str
) -> None:
    def left() -> float:
        return memory_left_bytes(mounts=kernel.mounts, membership=kernel.membership)

    assert left() == float("inf")
    place = kernel.mount("all", kind, options, inside="/mine/session")
    (place / "mine" / "session").mkdir(parents=True)
    assert left() == float("inf")
    (place / "mine" / limit).write_text("1000\n")
    (place / "mine" / used).write_text("700\n")
    (place / "mine" / "memory.stat").write_text(f"anon 5\n{files}_file 200\n")
    (place / "mine" / "session" / limit).write_text("max\n")
    assert left() == 500


def made(kernel: Kernel, version: int) -> Cgroup:
    parent = folder(kernel.root / "parent", controllers="cpu memory", subtree_control="")
    if version == 2:
        folder(parent / "chaoslab", subtree_control="")
    group = Cgroup(
        Home(controller=Controller.CPU, version=version, parent=parent, back=parent), "a-node"
    )
    group.make()
    return group


def test_a_quota_of_v1_is_a_share_of_its_period(kernel: Kernel) -> None:
    group = made(kernel, 1)
    group.limit_cpu(0.5)
    period = int((group.path / "cpu.cfs_period_us").read_text())
    assert int((group.path / "cpu.cfs_quota_us").read_text()) == period // 2


def test_a_quota_of_v2_stands_beside_its_period(kernel: Kernel) -> None:
    group = made(kernel, 2)
    group.limit_cpu(0.25)
    quota, period = (group.path / "cpu.max").read_text().split()
    assert int(quota) * 4 == int(period)
    assert (group.path.parent / "cgroup.subtree_control").read_text() == "+cpu"
    assert (group.path.parent.parent / "cgroup.subtree_control").read_text() == "+cpu"
    (group.path / "cpu.stat").write_text("nr_throttled 2\nthrottled_usec 1500000\n")
    assert group.throttled_s == 1.5


@pytest.mark.parametrize(
    ("version", "limit", "swap", "swap_bytes", "events"),
    [
        (1, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", 1 << 20, "memory.oom_control"),
        (2, "memory.max", "memory.swap.max", 0, "memory.events"),
    ],
)
def test_what_is_too_much_is_killed_and_counted_and_not_swapped_out(
    kernel: Kernel, version: int, limit: str, swap: str, swap_bytes: int, events: str
) -> None:
    group = made(kernel, version)
    group.limit_memory(1 << 20)
    assert (group.path / limit).read_text() == "1048576"
    assert not (group.path / swap).exists(), "where the kernel does not count that"
    (group.path / swap).write_text("max")
    group.limit_memory(1 << 20)
    assert (group.path / swap).read_text() == str(swap_bytes)
    with pytest.raises(FleetError):
        group.oom_kills  # noqa: B018 - asking is what fails
    (group.path / events).write_text("low 0\noom_kill 3\n")
    assert group.oom_kills == 3


@pytest.mark.parametrize("path", ["theirs/empty", "chaoslab/empty", "x/chaoslab/../theirs"])
def test_a_folder_that_is_no_cgroup_of_ours_is_left_alone(kernel: Kernel, path: str) -> None:
    (kernel.root / "x" / "chaoslab").mkdir(parents=True)
    folder = kernel.root / path
    folder.resolve().mkdir(parents=True)
    with pytest.raises(FleetError):
        remove(folder, kernel.root)
    assert folder.is_dir()


def test_an_empty_folder_that_is_only_called_like_ours_stays(kernel: Kernel) -> None:
    somebodys = kernel.root / "chaoslab"
    somebodys.mkdir()
    assert not remove(somebodys / "gone", kernel.root)
    assert somebodys.is_dir()
