"""Text of plans, records and engines reaches other programs as it is, and no shell unquoted."""

import ast
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.core.private_files import NotPrivate, open_file
from chaoslab.fleet.base import NodeSite, NodeSpec, Role
from chaoslab.fleet.docker.engine.tunnel import Tunnel
from chaoslab.fleet.docker.run_context import ENTRY
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.links.base import NoLinks
from chaoslab.links.netem import tool_runner
from chaoslab.prepare.launch import Launch
from chaoslab.prepare.plans import Asked, decode
from chaoslab.undo import leftovers
from tests import hostile
from tests.contracts.fleet_kit import staged

PACKAGE = Path(__file__).parent.parent / "chaoslab"
SHOW = "import json, sys; print(json.dumps(sys.argv[1:]), flush=True)"
SHOWN = (sys.executable, "-S", "-c", SHOW)
"""Prints the words that follow, as it got them."""


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """A file that must not be made."""
    path = tmp_path / "canary"
    yield path
    assert hostile.is_untouched(path)


# ---------------------------------------------------------------- the text of a plan


def specs_of(tmp_path: Path, canary: Path, site: NodeSite) -> tuple[NodeSpec, ...]:
    """The nodes of a plan that is hostile wherever its text is free."""
    word = f"$(touch$IFS{canary})"
    data = tmp_path / f"x; touch canary '`touch {canary.name}`' \"$(touch {canary.name})\""
    data.write_text("some text")
    plan = {
        "version": 1,
        "name": "hostile",
        "description": "\n".join(word for word in hostile.words(canary) if "${" not in word),
        "fleet": {
            "programs": {"learner": f"chaoslab.diloco.learner `touch$IFS{canary}`;{word}"},
            "regions": {f"eu; touch {canary}": 1, f"`touch {canary}`": 1},
        },
        "training": {"learners": 2, "data": str(data), "stop": {"rounds": 10}},
    }
    path = tmp_path / "hostile.yaml"
    path.write_text(json.dumps(plan))
    found, _ = decode(Asked(plan=str(path)))
    run = Launch(
        plan=found, snapshots=tmp_path / f"$(touch {canary.name})", tokens=tmp_path / "`id`",
        node_site=site,
    )  # fmt: skip
    addresses = dict.fromkeys(found.training.learner_names, f"$(touch {canary}):1")
    specs = (run.syncer(), *run.learners(addresses), run.evaluator())
    assert any(word in part for spec in specs for part in spec.command)
    assert any(str(data) in spec.command for spec in specs)
    return specs


def test_a_plan_reaches_the_program_in_a_container_word_by_word(
    tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one shell that containers begin with is handed their words as its arguments."""
    monkeypatch.chdir(tmp_path)
    for spec in specs_of(tmp_path, canary, NodeSite(listen="0.0.0.0:4600")):
        given = spec.command[1:]
        assert shown((*ENTRY, *SHOWN, *given)) == list(given)


@pytest.mark.deep
@pytest.mark.alone
def test_words_environments_and_private_files_of_a_process_arrive_as_they_are(
    tmp_path: Path, canary: Path
) -> None:
    words = tuple(word for word in hostile.words(canary) if "\0" not in word)
    with staged(LocalFleet, tmp_path / "run") as stage:
        spec = NodeSpec(
            name="learner-0",
            role=Role.LEARNER,
            command=(*SHOWN, *words),
            environment={f"HOSTILE_{number}": word for number, word in enumerate(words)},
            private_files={"key.pem": "\n".join(words).encode()},
        )
        stage.fleet.start(spec)
        stage.until(Kind.NODE_EXITED)
        log = tmp_path / "run" / "nodes" / "learner-0" / "1" / "stdout.log"
        assert json.loads(log.read_text()) == list(words)


def shown(command: Sequence[str]) -> list[str]:
    """What a program that shows its words got."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


# ---------------------------------------------------------------- tools, tunnels, links


def test_tools_of_the_network_get_their_words_as_they_are(canary: Path) -> None:
    words = hostile.words(canary)
    code, said = tool_runner._run((*SHOWN, *words), "")
    assert (code, json.loads(said)) == (0, list(words))


def test_the_address_of_an_engine_is_one_word_of_ssh_and_never_an_option(
    tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, told = tmp_path / "ssh", tmp_path / "told"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{shlex.quote(str(told))}\nexit 255\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for host in (f"$(touch$IFS'{canary.name}')@host", "-oProxyCommand=id", "a`id`b", "x;id"):
        with pytest.raises(FleetError):
            Tunnel.to_engine(f"ssh://{host}")
        *_, dashes, destination, _ = told.read_text().splitlines()
        assert (dashes, destination) == ("--", f"ssh://{host}")


@pytest.mark.parametrize(
    "upstream",
    ["127.0.0.1:1\n-A INPUT -j DROP", "127.0.0.1:1 -j ACCEPT", "127.0.0.1:$(id)", "host", "a b:1"],
)
def test_a_syncer_cannot_write_rules_of_the_kernel_by_the_address_it_reports(
    upstream: str,
) -> None:
    with pytest.raises(FleetError, match="host:port"):
        NoLinks().create("learner-0", upstream)


# ---------------------------------------------------------------- commands that users are shown


@pytest.mark.deep
def test_a_command_that_is_shown_can_be_pasted_whatever_a_record_is_called(
    tmp_path: Path, canary: Path
) -> None:
    root = tmp_path / "runs"
    for number, word in enumerate(hostile.words(canary)):
        name = f"{number} {word}".replace("/", "_")
        run = root / "plan" / name
        run.mkdir(parents=True, mode=0o700)
        (run / "journal.jsonl").touch()
        (run / "undo_log.jsonl").write_text("this is no entry\n")
        (found,) = (one for one in leftovers.find(root) if one.where == str(run))
        assert shlex.split(found.remedy) == ["chaoslab", "heal", str(run)]


def test_a_remedy_for_a_folder_that_others_may_write_names_it_quoted(
    tmp_path: Path, canary: Path
) -> None:
    folder = tmp_path / f"$(touch {canary.name})"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(NotPrivate) as refusal:
        open_file(folder, "undo_log.jsonl")
    assert f"chmod go-w {shlex.quote(str(folder))}" in str(refusal.value)


# ---------------------------------------------------------------- every call in the source

SHELLS = {"sh", "bash", "/bin/sh", "/bin/bash"}


@pytest.mark.deep
def test_no_shell_reads_anything_but_a_script_of_ours() -> None:
    """Other ways to start one (`shell=True`, `os.system`) ruff's S6 rules find."""
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in scripts_in(path.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("run(('sh', '-c', f'echo {name}'))", True),
        ("run(['/bin/sh', '-c', script])", True),
        ("def f(script):\n    return ('bash', '-c', script)", True),
        ("run(('sh', '-c', 'exec \"$@\"', 'sh', name))", False),
        ("SCRIPT = 'exec \"$@\"'\nrun(('/bin/sh', '-c', SCRIPT, name))", False),
        ("SCRIPT: Final = 'exec \"$@\"'\nrun(('/bin/sh', '-c', SCRIPT, name))", False),
        ("subprocess.run(('git', '-C', str(folder)))", False),
    ],
)
def test_a_script_that_is_put_together_would_be_found(source: str, *, is_found: bool) -> None:
    assert bool([*scripts_in(source)]) is is_found


def scripts_in(source: str) -> Iterator[int]:
    """Lines with a command of `sh -c` whose script is no constant of the module."""
    tree = ast.parse(source)
    assigned = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    constants = {
        ast.unparse(target)
        for node in assigned
        if is_text(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }
    for node in ast.walk(tree):
        words = node.elts if isinstance(node, ast.Tuple | ast.List) else []
        for shell, flag, script in zip(words, words[1:], words[2:], strict=False):
            is_shell = isinstance(shell, ast.Constant) and shell.value in SHELLS
            is_script = is_shell and isinstance(flag, ast.Constant) and flag.value == "-c"
            if is_script and not is_text(script) and ast.unparse(script) not in constants:
                yield node.lineno


def is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
