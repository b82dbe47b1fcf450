"""Inventories: what they say, and what is refused, with file, line and column."""

import json
import re
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.fleet.remote.inventory import Inventory, load, load_access
from chaoslab.fleet.remote.settings import Ssh
from chaoslab.fleet.remote.ssh.access import Access
from chaoslab.fleet.settings import FleetRequest
from chaoslab.plan.file import load as load_plan
from chaoslab.prepare.kinds import kinds
from tests import hostile

WHOLE = """
ssh: {user: ubuntu, port: 2222, key: keys/id, known_hosts: /etc/known, jump: "me@bastion:22"}
python: /opt/jax/bin/python
syncer: {host: syncer.example, address: 10.0.0.2, port: 4600}
learners:
  learner-0: {hosts: [10.0.0.3, 10.0.0.4], region: eu, generation: v5e, labels: {rack: a1}}
  learner-1: {hosts: [10.0.0.5]}
"""


def read(folder: Path, text: str) -> Inventory:
    file = folder / "fleet.yaml"
    file.write_text(text)
    return load(file)


def test_a_whole_inventory_says_where_nodes_are_and_how_to_get_there(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    assert found.hosts == ("syncer.example", "10.0.0.3", "10.0.0.4", "10.0.0.5")
    assert found.hosts_of("learner-0") == ("10.0.0.3", "10.0.0.4")
    assert found.hosts_of("evaluator") == found.hosts_of("syncer") == ("syncer.example",)
    assert found.listen == "10.0.0.2:4600"
    assert found.labels == {"learner-0": {"rack": "a1", "region": "eu", "generation": "v5e"}}
    access = found.ssh.access("10.0.0.3")
    assert access.key == str(tmp_path / "keys/id"), "a file lies beside the inventory"
    assert access.jumped() == Access(
        host="bastion", port=22, user="me", key=access.key, known_hosts="/etc/known"
    )


@pytest.mark.parametrize("more", ["", "syncer: {host: 10.0.0.2}\nlearners: {}\n"])
def test_how_hosts_are_reached_may_be_all_that_a_file_says(tmp_path: Path, more: str) -> None:
    (tmp_path / "fleet.yaml").write_text(f"ssh: {{user: me, key: id}}\npython: /a/python\n{more}")
    found = load_access(tmp_path / "fleet.yaml")
    assert (found.python, found.ssh.user, found.ssh.key) == (
        "/a/python", "me", str(tmp_path / "id")
    )  # fmt: skip


WORKERS = """
workdir: ~/project
workers:
  worker-0: {host: 10.0.0.3, region: eu, labels: {rack: a1}}
  worker-1: {host: 10.0.0.3}
"""


def test_an_inventory_of_a_script_has_the_host_of_each_worker(tmp_path: Path) -> None:
    found = read(tmp_path, WORKERS)
    assert found.hosts == found.hosts_of("worker-1") == ("10.0.0.3",)
    assert found.labels == {"worker-0": {"rack": "a1", "region": "eu"}}
    found.require_workers(["worker-0", "worker-1"])
    for names, culprit in (["worker-0", "worker-2"], "worker-2"), (["launcher"], "launcher"):
        with pytest.raises(PlanError, match=culprit):
            found.require_workers(names)
    with pytest.raises(PlanError, match="learners"):
        found.require({"learner-0": 1})
    with pytest.raises(PlanError, match="worker-0"):
        read(tmp_path, WHOLE).require_workers(["worker-0"])


def test_an_ipv6_address_is_listened_on_in_brackets(tmp_path: Path) -> None:
    found = read(tmp_path, "syncer: {host: 'fd00::2'}\nlearners: {learner-0: {hosts: ['fd00::3']}}")
    assert found.listen == "[fd00::2]:0"


def test_a_learner_has_one_host_or_as_many_as_its_plan_says(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    found.require({"learner-0": 2, "learner-1": 4})
    for learners, culprit in ({"learner-0": 1}, "learner-0"), ({"learner-2": 1}, "learner-2"):
        with pytest.raises(PlanError, match=culprit):
            found.require(learners)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("learners: {learner-0: {hosts: [a]}}", ":1:1: syncer:"),
        ("syncer: {host: 10.0.0.2}", ":1:1: learners:"),
        ("syncer: {hots: 10.0.0.2}\nlearners: {}", ":1:10: syncer.hots:"),
        ("syncer: {host: example.org}\nlearners: {}", ":1:16: syncer.host:"),
        ("syncer: {host: 0.0.0.0}\nlearners: {}", ":1:16: syncer.host:"),
        ("syncer: {host: a, address: 'ff02::1'}\nlearners: {}", "syncer.address:"),
        ("syncer: {host: 10.0.0.2}\nlearners: {l-0: {hosts: []}}", "learners.l-0.hosts"),
        ("syncer: {host: 10.0.0.2}\nlearners: {l-0: {hosts: [a, a]}}", "learners.l-0.hosts"),
        ("syncer: {host: 'fe80::1%$(reboot)'}\nlearners: {}", "syncer.host:"),
        ("syncer: {host: a, address: 'fe80::1%;x'}\nlearners: {}", "syncer.address:"),
        ("syncer: {host: 10.0.0.2}\nlearners: {}\nssh: {jump: '-l@a'}", ":3:13: ssh.jump:"),
        ("syncer: {host: 10.0.0.2}\nlearners: {}\nssh: {jump: '::1'}", ":3:13: ssh.jump:"),
        ("syncer: {host: 10.0.0.2}\nlearners: {}\nssh: {port: 70000}", ":3:13: ssh.port:"),
        ("[]", ":1:1"),
        ("workers: {worker-0: {host: '-x'}}", "workers.worker-0.host:"),
        ("workers: {worker-0: {host: a}}\nlearners: {l-0: {hosts: [a]}}", ":2:11: learners:"),
        ("workers: {worker-0: {host: a}}\nsyncer: {host: 10.0.0.2}", ":2:9: syncer:"),
        ("workers: {worker-0: {host: a}}\nworkdir: project", ":2:10: workdir:"),
    ],
)
def test_mistakes_are_refused_where_they_stand(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(PlanError) as refused:
        read(tmp_path, text)
    assert str(tmp_path / "fleet.yaml") in str(refused.value)
    assert place in str(refused.value)


PLACES = (
    "syncer: {host: HERE}\nlearners: {}",
    "syncer: {host: a, address: HERE}\nlearners: {}",
    "syncer: {host: 10.0.0.2}\nlearners: {learner-0: {hosts: [HERE]}}",
    "syncer: {host: 10.0.0.2}\nlearners: {}\nssh: {user: HERE}",
    "syncer: {host: 10.0.0.2}\nlearners: {}\nssh: {jump: HERE}",
    "syncer: {host: 10.0.0.2}\nlearners: {}\nssh: {port: HERE}",
    "syncer: {host: 10.0.0.2}\nlearners: {}\npython: HERE",
)
"""Where an inventory has words that become part of a command or of a connection."""


@pytest.mark.parametrize("place", PLACES)
def test_hostile_words_are_refused_wherever_they_stand(tmp_path: Path, place: str) -> None:
    for word in filter(None, hostile.words(tmp_path / "canary")):
        with pytest.raises(PlanError, match=r"fleet\.yaml"):
            read(tmp_path, place.replace("HERE", json.dumps(word)))
    assert hostile.is_untouched(tmp_path / "canary")


def test_hostile_words_that_name_files_or_labels_stay_what_they_are(tmp_path: Path) -> None:
    for word in filter(None, hostile.words(tmp_path / "canary")):
        said = json.dumps(word)
        found = read(
            tmp_path,
            f"ssh: {{key: {said}, known_hosts: {said}}}\nsyncer: {{host: 10.0.0.2}}\n"
            f"learners: {{learner-0: {{hosts: [10.0.0.3], labels: {{rack: {said}}}}}}}",
        )
        assert found.labels == {"learner-0": {"rack": word}}
        assert Path(found.ssh.key).name == Path(found.ssh.known_hosts).name == Path(word).name
    assert hostile.is_untouched(tmp_path / "canary")


HOSTS = (
    "syncer: {host: 10.0.0.2}\n"
    "learners: {learner-0: {hosts: [10.0.0.3], region: eu, generation: v5e}}\n"
)


def labels(folder: Path, fleet: str, hosts: str = HOSTS) -> object:
    """Labels of learner-0 in a plan with this `fleet`, on hosts that know its region."""
    (folder / "fleet.yaml").write_text(hosts)
    named = fleet if "inventory" in fleet else f"inventory: {folder}/fleet.yaml, {fleet}"
    (folder / "plan.yaml").write_text(
        f"version: 1\nname: x\ntraining: {{learners: 1}}\nfleet: {{kind: ssh, {named}}}\n"
    )
    plan, _ = load_plan(folder / "plan.yaml", kinds())
    return plan.labels["learner-0"]


@pytest.mark.parametrize(
    ("fleet", "found"),
    [
        ("", {"region": "eu", "generation": "v5e"}),
        ("regions: {us: 1}", {"region": "us", "generation": "v5e"}),
        (
            "labels: {learner-0: {generation: v4, rack: a}}",
            {"region": "eu", "generation": "v4", "rack": "a"},
        ),
    ],
)
def test_labels_of_the_inventory_are_those_of_the_plan_which_takes_precedence(
    tmp_path: Path, fleet: str, found: dict[str, str]
) -> None:
    assert labels(tmp_path, fleet) == found


@pytest.mark.parametrize(
    ("jump", "host", "port", "user"),
    [
        ("bastion", "bastion", 22, "ubuntu"),
        ("me@bastion:2222", "bastion", 2222, "me"),
        ("[fe80::1%eth0]:2222", "fe80::1%eth0", 2222, "ubuntu"),
        ("me@[::1]", "::1", 22, "me"),
    ],
)
def test_a_jump_host_has_a_name_or_an_address(jump: str, host: str, port: int, user: str) -> None:
    found = Access(host="10.0.0.3", user="ubuntu", key="k", jump=jump).jumped()
    assert found == Access(host=host, port=port, user=user, key="k")


@pytest.mark.parametrize("what", ["key", "known_hosts"])
def test_a_file_that_is_not_there_is_refused_before_anything_is_dialled(
    tmp_path: Path, what: str
) -> None:
    ssh = f"ssh: {{{what}: gone}}\n"
    (tmp_path / "fleet.yaml").write_text(ssh + HOSTS)
    request = FleetRequest(modules=(), data="", trial=lambda _: None, learners={"learner-0": 1})
    with pytest.raises(PlanError, match=rf"fleet\.yaml: ssh\.{what}: .*/gone"):
        Ssh(inventory=str(tmp_path / "fleet.yaml")).factory(request)


@pytest.mark.parametrize("kind", ["ssh", "tpu-vm"])
def test_a_fleet_of_hosts_without_an_inventory_says_that_it_needs_one(
    tmp_path: Path, kind: str
) -> None:
    """And not that a target matches no learner, which has its labels from there."""
    (tmp_path / "plan.yaml").write_text(
        "version: 1\nname: x\nfaults:\n"
        "  - {fault: process.kill, target: {region: eu}, at: {round: 9}, for: 2s}\n"
    )
    with pytest.raises(PlanError, match=r"fleet\.inventory: "):
        load_plan(tmp_path / "plan.yaml", kinds(), fleet=kind)


def test_a_mistake_in_an_inventory_begins_with_its_own_place(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=rf"^{re.escape(str(tmp_path))}/fleet\.yaml:1:1: syncer: "):
        labels(tmp_path, "", "python: python3\n")
    with pytest.raises(PlanError, match=rf"^{re.escape(str(tmp_path))}/absent\.yaml: "):
        labels(tmp_path, f"inventory: {tmp_path}/absent.yaml")
