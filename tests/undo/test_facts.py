"""An entry of the book undoes what is the run's own, and nothing else, whoever wrote it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json
from chaoslab.core.process_identity import identify
from chaoslab.fleet.docker.undo_facts import is_on_this_machine
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.private_folder import run_of as private_run
from chaoslab.fleet.run_name import own_name, run_name
from chaoslab.fleet.storage import volume
from chaoslab.links.netem import bands, netfilter
from chaoslab.links.netem.netfilter import Iptables
from chaoslab.links.netem.packet_rules import run_of
from chaoslab.links.proxied import undo_verbs
from chaoslab.undo.actions import leftovers, undo
from chaoslab.undo.catalogue import own_verbs
from chaoslab.undo.facts import Facts, decode
from chaoslab.undo.janitor import heal, perform
from chaoslab.undo.log import UndoLogFile, open_undos
from chaoslab.undo.verbs import UndoEntry, asked

LOOPBACK = "127.0.0.1:8474"


@pytest.mark.parametrize(
    ("engine", "is_here"),
    [
        ("unix:///var/run/docker.sock", True),
        ("tcp://127.0.0.1:2375", True),
        ("tcp://10.0.0.7:2376", False),
        ("ssh://user@build", False),
    ],
)
def test_an_engine_is_on_this_machine_by_its_socket_or_the_loopback(
    engine: str, is_here: bool
) -> None:
    assert is_on_this_machine(engine) is is_here


def sound(directory: Path) -> dict[str, dict[str, Json]]:
    """By verb: facts as a run writes them."""
    own = own_name(run_name(directory))
    engine: dict[str, Json] = {"engine": "unix:///var/run/docker.sock"}
    container: dict[str, Json] = {**engine, "container": f"{own}-learner-0.1"}
    cluster: dict[str, Json] = {
        "server": "https://10.0.0.1:6443", "context": "test", "namespace": "chaos",
    }  # fmt: skip
    process: dict[str, Json] = {
        "node": "learner-0",
        "pid": 2**22 + 1,
        "start_ticks": 1,
        "boot_id": "x",
        "namespaces": "y",
        "mark": f"{directory}/learner-0/1",
    }
    folder = f"{directory}/nodes/learner-0/checkpoints"
    private = f"/tmp/chaoslab-private-17-{private_run(directory)}-0123abcd"
    proxy: dict[str, Json] = {"api": LOOPBACK, "token": "t", "proxy": "learner-0"}
    return {
        "end_process": {**process, "incarnation": 1},
        "resume_process": process,
        "unwedge_process": process,
        "clear_effects": {**proxy, "injection": "injection-0"},
        "enable_proxy": {**proxy, "injection": ""},
        "delete_proxy": {"api": LOOPBACK, "proxy": "chaoslab-ab12-learner-0"},
        "drop_rules": {
            "tool": "iptables",
            "comment": f"chaoslab:{run_of(directory)}:injection-0:4701:up:ab12",
        },
        "close_bands": {"interface": "lo"},
        "remove_cgroup": {
            "node": "learner-0",
            "path": "/sys/fs/cgroup/cpu/chaoslab/17-learner-0-1-injection-0",
            "back": "/sys/fs/cgroup/cpu",
        },
        "unmount": {"node": "learner-0", "folder": folder},
        "free_volume": {"node": "learner-0", "folder": folder},
        "remove_private_folder": {"folder": private},
        "restore_node": {"node": "learner-0", "folder": private},
        "release_node": {"node": "learner-0", "folder": private},
        "put_files_back": {"node": "learner-0", "folder": private},
        "empty_run_resources": {**engine, "run": run_name(directory)},
        "unpause_container": container,
        "unwedge_container": container,
        "unlimit_container": {**container, "cpus": 1.0, "memory_bytes": 1, "processes": 1},
        "plug_container": {
            **container, "network": own, "aliases": ["learner-0"], "address": "10.0.0.2",
        },
        "free_container_volume": {
            **engine, "run": run_name(directory), "volume": f"{own}-learner-0", "image": "node",
        },
        "delete_kubernetes_run": {
            **cluster, "run": run_name(directory), "job_sets": "v1alpha2",
        },
        "delete_lease": {**cluster, "run": run_name(directory)},
        "resume_pod": {**cluster, "pod": f"{own}-learner-0-1-x7k2p"},
        "unwedge_pod": {**cluster, "pod": f"{own}-learner-0-1-x7k2p"},
        "relieve_pod": {**cluster, "pod": f"{own}-learner-0-1-x7k2p"},
        "unlimit_pod": {
            **cluster, "pod": f"{own}-learner-0-1-x7k2p", "limit": "1500m", "request": "1",
        },
        "uncordon_machine": {**cluster, "run": run_name(directory), "machine": "worker-1.zone"},
        "clear_pod_effects": {
            **cluster, "pod": f"{own}-proxy-x7k2p", "token": "t", "proxy": "learner-0",
            "injection": "injection-0",
        },
        "enable_pod_proxy": {
            **cluster, "pod": f"{own}-proxy-x7k2p", "token": "t", "proxy": "learner-0",
            "injection": "",
        },
        "end_agent": {
            "host": "10.0.0.3", "port": 22, "user": "ubuntu", "key": "~/.ssh/id",
            "known_hosts": "~/.ssh/known_hosts", "jump": "", "host_keys": [],
            "run": run_name(directory), "python": "/usr/bin/python3", "code": "0" * 64,
            "environment": "-",
        },
    }  # fmt: skip


@pytest.fixture
def cgroup_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that has the controller mounted where `sound` says."""
    mounted = [(Path("/sys/fs/cgroup/cpu"), "cgroup", ["cpu"])]
    monkeypatch.setattr(cgroups, "_mounted", lambda _: mounted)


@pytest.fixture(autouse=True)
def usual_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")


@pytest.mark.usefixtures("cgroup_mount")
@pytest.mark.parametrize("do", sorted(own_verbs()))
def test_what_a_run_writes_is_taken(tmp_path: Path, do: str) -> None:
    facts = decode(own_verbs()[do].facts, {"open": 0, "do": do, **sound(tmp_path)[do]}, tmp_path)
    assert isinstance(facts, Facts)


@pytest.mark.usefixtures("cgroup_mount")
@pytest.mark.parametrize("do", sorted(own_verbs()))
def test_a_key_too_many_or_of_another_type_is_refused(tmp_path: Path, do: str) -> None:
    good = sound(tmp_path)[do]
    assert "'colour'" in refused(tmp_path, do, {**good, "colour": "blue"})
    for key in good:
        for wrong in (None, [1], {"a": 1}, True):
            assert key in refused(tmp_path, do, {**good, key: wrong})


FOREIGN: list[tuple[str, dict[str, Json]]] = [
    ("end_process", {"pid": 1}),
    ("end_process", {"pid": 0}),
    ("end_process", {"mark": "/elsewhere/learner-0/1"}),
    ("resume_process", {"mark": "{run}/../other/learner-0/1"}),
    ("unwedge_process", {"node": "x\ny"}),
    ("clear_effects", {"api": "192.0.2.7:8474"}),
    ("clear_effects", {"api": "127.0.0.1.example.org:80"}),
    ("clear_effects", {"api": "http://127.0.0.1:80"}),
    ("clear_effects", {"api": "127.0.0.1:0"}),
    ("clear_effects", {"api": "127.0.0.1:80/x"}),
    ("clear_effects", {"injection": "injection"}),
    ("clear_effects", {"proxy": "../reset"}),
    ("enable_proxy", {"proxy": "a?x=1"}),
    ("enable_proxy", {"proxy": "a\r\nHost: b"}),
    ("delete_proxy", {"proxy": "payments"}),
    ("drop_rules", {"comment": "somebody-elses"}),
    ("drop_rules", {"comment": "chaoslab:other:injection-0:1:up:ab"}),
    ("drop_rules", {"tool": "rm"}),
    ("close_bands", {"interface": "eth0"}),
    ("remove_cgroup", {"path": "/tmp/chaoslab/17-learner-0-1-injection-0", "back": "/tmp"}),
    ("remove_cgroup", {"path": "/sys/fs/cgroup/cpu/docker/17-learner-0-1-injection-0"}),
    ("remove_cgroup", {"path": "/sys/fs/cgroup/cpu/chaoslab/sshd"}),
    ("remove_cgroup", {"path": "/sys/fs/cgroup/cpu/chaoslab/../17-l-1-injection-0"}),
    ("remove_cgroup", {"back": "/sys/fs/cgroup/cpu/../../../../etc"}),
    ("unmount", {"folder": "/mnt"}),
    ("unmount", {"folder": "{run}/nodes/learner-0/../../../x"}),
    ("unmount", {"folder": "{run}/nodes/learner-1/checkpoints"}),
    ("free_volume", {"folder": "{run}"}),
    ("remove_private_folder", {"folder": "/home"}),
    (
        "remove_private_folder",
        {"folder": f"/tmp/chaoslab-private-17-{'0' * 16}-0123abcd"},
    ),
    ("restore_node", {"folder": "{run}"}),
    ("restore_node", {"node": "../x"}),
    (
        "release_node",
        {"folder": "{run}/chaoslab-private-17-{private}-0123abcd"},
    ),
    ("empty_run_resources", {"run": "0123456789"}),
    ("empty_run_resources", {"engine": "tcp://192.0.2.7:2375"}),
    ("unpause_container", {"container": "chaoslab-0123456789-learner-0.1"}),
    ("unwedge_container", {"container": "{own}"}),
    ("unlimit_container", {"container": "{own}x-learner-0"}),
    ("plug_container", {"network": "bridge"}),
    ("plug_container", {"aliases": ["a b"]}),
    ("plug_container", {"address": "--help"}),
    ("free_container_volume", {"volume": "pgdata"}),
    ("unlimit_pod", {"pod": "database-0"}),
    ("unlimit_pod", {"limit": "-1"}),
    ("unlimit_pod", {"request": "1k"}),
    ("uncordon_machine", {"run": "0123456789"}),
    ("uncordon_machine", {"machine": "../pods/x"}),
    ("clear_pod_effects", {"pod": "database-0"}),
    ("clear_pod_effects", {"proxy": "../reset"}),
    ("clear_pod_effects", {"injection": ""}),
    ("enable_pod_proxy", {"pod": "{own}x-proxy-a"}),
    ("enable_pod_proxy", {"namespace": "../kube-system"}),
    ("enable_pod_proxy", {"proxy": "a?x=1"}),
    ("end_agent", {"run": "0123456789"}),
    ("end_agent", {"host": "-oProxyCommand=x"}),
    ("end_agent", {"user": "-l root"}),
    ("end_agent", {"jump": "a b"}),
    ("end_agent", {"python": "python3; reboot"}),
    ("end_agent", {"code": "../.."}),
    ("end_agent", {"environment": "../../bin"}),
    ("end_agent", {"host_keys": ["ssh-rsa x\n* ssh-rsa y"]}),
    ("end_agent", {"host_keys": ["ssh-rsa x z\r* ssh-rsa y"]}),
]
"""By verb, something that is not the run's: `{own}` is the name of the run, `{run}` its directory,
`{private}` what the name of its private folder has of it.
"""


@pytest.mark.usefixtures("cgroup_mount")
@pytest.mark.parametrize(("do", "foreign"), FOREIGN)
def test_what_is_not_the_run_s_own_is_refused(
    tmp_path: Path, do: str, foreign: dict[str, Json]
) -> None:
    facts = dict(foreign)
    for key, value in facts.items():
        if isinstance(value, str):
            facts[key] = value.format(
                own=own_name(run_name(tmp_path)), run=tmp_path, private=private_run(tmp_path)
            )
    refused(tmp_path, do, {**sound(tmp_path)[do], **facts})


def refused(directory: Path, do: str, facts: dict[str, Json]) -> str:
    """What is said of an entry that is not done: the same by `undo` and by `leftovers`."""
    with pytest.raises(FleetError):
        decode(own_verbs()[do].facts, {"open": 3, "do": do, **facts}, directory)
    entry = UndoEntry(number=3, do=do, facts={"open": 3, "do": do, **facts}, directory=directory)
    healed = undo(entry)
    assert not healed.actions
    (said,) = healed.remaining
    assert said.startswith(f"undo entry 3 ({do}) of {directory}"), said
    assert leftovers(entry) == (said,)
    return said


def test_an_engine_elsewhere_is_asked_if_this_user_asks_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "tcp://192.0.2.7:2376"
    facts = {**sound(tmp_path)["empty_run_resources"], "engine": url}
    effects = {**sound(tmp_path)["clear_effects"], "api": "192.0.2.7:8474"}
    monkeypatch.setenv("DOCKER_HOST", url)
    assert decode(own_verbs()["empty_run_resources"].facts, facts, tmp_path)
    assert decode(own_verbs()["clear_effects"].facts, effects, tmp_path)


def test_the_twin_s_book_speaks_of_the_twin(tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    twin.mkdir()
    rule = sound(twin)["drop_rules"]
    assert rule["comment"] == sound(tmp_path)["drop_rules"]["comment"]
    assert decode(own_verbs()["drop_rules"].facts, rule, twin)
    assert refused(twin, "empty_run_resources", sound(tmp_path)["empty_run_resources"])


# ---------------------------------------------------------------- really


def test_a_book_kills_no_process_that_the_run_did_not_start(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        who = identify(stranger.pid)
        assert who is not None
        with UndoLogFile(tmp_path) as log:
            log.open("end_process", **who.facts, mark="/elsewhere/learner-0/1")
        assert len(heal(tmp_path).remaining) == 1
        assert stranger.poll() is None
        assert open_undos(tmp_path)
        stranger.kill()


def test_nothing_is_copied_through_a_link(tmp_path: Path) -> None:
    run, private = tmp_path / "run", tmp_path / "private"
    kept = run / "nodes" / "learner-0" / ".checkpoints.kept"
    for one in (kept, private):
        one.mkdir(parents=True)
    (kept / "job").write_text("* * * * * root id")
    (run / "nodes" / "learner-0" / "checkpoints").symlink_to(private)
    UndoLogFile(run).open("unmount", **sound(run)["unmount"])
    assert len(perform(run).remaining) == 1
    assert not list(private.iterdir())


def test_half_written_files_are_swept_from_the_run_alone(tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    for one in (run / "nodes" / "learner-0" / "1", elsewhere / "1"):
        one.mkdir(parents=True)
        (one / ".x.partial").write_text("")
    (run / "nodes" / "link").symlink_to(elsewhere)
    with UndoLogFile(run):
        pass
    assert perform(run).remaining == ()
    assert not (run / "nodes" / "learner-0" / "1" / ".x.partial").exists()
    assert (elsewhere / "1" / ".x.partial").exists()


@pytest.mark.skipif(not volume.can_mount(), reason="this machine may not mount")
def test_a_volume_of_a_run_is_its_owner_s_alone(tmp_path: Path) -> None:
    folder = tmp_path / "nodes" / "learner-0" / "checkpoints"
    volume.mount(folder)
    try:
        assert folder.stat().st_mode & 0o777 == 0o700
        entry = UndoEntry(
            number=0, do="unmount", facts=sound(tmp_path)["unmount"], directory=tmp_path
        )
        assert not undo(entry).remaining
        assert not os.path.ismount(folder)
    finally:
        volume.release(folder)


# ---------------------------------------------------------------- whole names


def test_a_toxic_is_an_injection_s_by_its_whole_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["injection-1.latency.up", "injection-10.latency.up", "injection-1", "injection-1.x"]
    shown: Json = {"toxics": [{"name": name} for name in names]}
    monkeypatch.setattr(undo_verbs, "call", lambda *_: shown)
    facts = undo_verbs.EffectFacts(
        directory=Path(), api=LOOPBACK, proxy="learner-0", injection="injection-1"
    )
    assert undo_verbs.toxics_of(facts) == ("injection-1.latency.up",)


def test_a_rule_is_known_by_its_whole_comment_and_by_nothing_else() -> None:
    asked: list[tuple[str, ...]] = []

    def run(_tool: str, *words: str, text: str = "") -> str:
        asked.append(words)
        return (
            "-A INPUT -p tcp -m comment --comment other -j DROP\n"
            '-A INPUT -p tcp -m comment --comment "DROP it" -j ACCEPT\n'
            "-A INPUT -p tcp -m comment --comment chaoslab:r:i:1:up:abc -j DROP\n"
            "-A INPUT -p tcp -m comment --comment chaoslab:r:i:1:up:ab -j DROP -c 3 4\n"
        )

    tool = Iptables(tools=run)
    tool.remove("DROP")
    assert not [words for words in asked if "-D" in words]
    tool.remove("chaoslab:r:i:1:up:ab")
    (deleted,) = [words for words in asked if "-D" in words]
    assert deleted[deleted.index("--comment") + 1] == "chaoslab:r:i:1:up:ab"


@pytest.mark.parametrize(
    ("listed", "is_ours"),
    [
        ("qdisc noqueue 0: root refcnt 2", False),
        ("", False),
        ("qdisc fq_codel 1: root refcnt 2 limit 10240p", False),
        (
            "qdisc prio 1: root refcnt 2 bands 16 priomap  1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
            True,
        ),
    ],
)
def test_no_queue_but_ours_is_taken_off(
    monkeypatch: pytest.MonkeyPatch, listed: str, is_ours: bool
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(bands, "run", lambda *words: asked.append(words) or listed)
    assert bands.close_bands("lo") is is_ours
    assert any("del" in words for words in asked) is is_ours


def test_a_queue_like_ours_that_is_another_s_is_left_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "qdisc prio 1: root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1"
    monkeypatch.setattr(bands, "run", lambda *_: other)
    entry = UndoEntry(number=0, do="close_bands", facts={"interface": "lo"}, directory=tmp_path)
    assert len(undo(entry).remaining) == 1


@pytest.mark.gate
@pytest.mark.skipif(not netfilter.is_available()[0], reason="packets cannot be dropped here")
def test_a_book_deletes_no_rule_of_somebody_else_s(tmp_path: Path) -> None:
    tool = netfilter.drops()
    theirs = netfilter.Drop(
        comment=f"firewall-{tmp_path.name}", port=9, way=netfilter.Direction.UP, share=0.1
    )
    tool.add(theirs)
    try:
        with UndoLogFile(tmp_path) as log:
            log.open("drop_rules", tool=tool.tool, comment=theirs.comment)
        assert len(heal(tmp_path).remaining) == 1
        assert tool.seen(theirs.comment) == netfilter.PacketCounts()
        assert theirs.comment in netfilter.run(tool.tool, "-S")
    finally:
        tool.remove(theirs.comment)


def test_an_engine_that_is_missing_fails_the_undo_and_leaves_what_it_was_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_do: str, _facts: Facts) -> tuple[str, ...]:
        raise AbilityError("no engine answers")

    monkeypatch.setitem(sys.modules, "engine_module", SimpleNamespace(undo=missing, left=missing))
    verb = asked("engine_module", "unpause", Facts)
    with pytest.raises(FleetError, match="no engine answers"):
        verb.undo(Facts(directory=tmp_path))
    assert verb.left(Facts(directory=tmp_path)) == ("no engine answers",)
