"""The documentation says what is true: commands exist, plans load, links lead somewhere."""

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import cast

import click
import pytest
from click.testing import CliRunner

import chaoslab
from chaoslab.checks.base import Check
from chaoslab.cli.main import main
from chaoslab.core.errors import ExitCode
from chaoslab.faults.base import Fault
from chaoslab.plan.file import load
from chaoslab.plan.schedule import roster_of, schedule
from chaoslab.prepare.kinds import kinds
from chaoslab.prepare.plans import Asked, find_plan, prepare
from docs.site import pages
from tests.contracts.check_kit import CheckKit
from tests.contracts.fault_kit import FaultKit
from tests.generated_docs import BLOCKS, ROOT, Block

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("benchmarks/*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLANS = ROOT / "docs" / "plans.md"

RUN_IT = "python3 -m venv .venv && .venv/bin/pip install -e . && .venv/bin/chaoslab run kill_half"
TEST_IT = (
    "python3 -m venv .venv && .venv/bin/pip install -e '.[dev]' && .venv/bin/python -m pytest -n 2"
)

HOSTS = {
    "arxiv.org", "keepachangelog.com", "perfetto.dev", "semver.org", "ui.perfetto.dev",
    "www.standardwebhooks.com",
}  # fmt: skip
FORBIDDEN = (
    r"(?<![\w/])(/work|/tmp|/root|/home|/mnt|/Users)/",
    r"\bissues? #?\d",
    r"(?<!\w)#\d+\b",
    r"\b((this|an?|previous|earlier) session|helpers?|(?<!host[ -])agents?|assistants?|prompts?)\b",
    r"\b(blazing|seamless|cutting.edge|state.of.the.art|world.class|revolutionary)\b",
)


def fences(page: Path, *languages: str) -> Iterator[str]:
    """The fenced blocks of a page in one of these languages."""
    text = page.read_text(encoding="utf-8")
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language in languages:
            yield body


def shell_lines() -> list[str]:
    """Every command of every page, continued lines joined, prompts and comments left out."""
    found = []
    for page in PAGES:
        for body in fences(page, "sh", "console"):
            joined = body.replace("\\\n", " ")
            prompted = [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
            found += prompted or joined.splitlines()
    return [line for line in found if line.strip()]


def commands(program: str) -> list[list[str]]:
    """The words after `program` in each command that calls it, up to a redirection."""
    found = []
    for line in shell_lines():
        words = shlex.split(line.replace("\n", " "), comments=True)
        for part in _split(words, {"&&", "|", "&"}):
            call = " ".join(part)
            if call.startswith((f"{program} ", f".venv/bin/{program} ")):
                until = next((n for n, word in enumerate(part) if word in {">", "<"}), len(part))
                found.append(part[len(program.split()) : until])
    return found


def _split(words: list[str], at: set[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if word in at:
            yield part
            part = []
        else:
            part.append(word)
    yield part


# ---------------------------------------------------------------- what is made from the code


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.file}-{block.name}")
def test_what_is_made_from_the_code_is_fresh(block: Block) -> None:
    assert block.current() == block.make(), f"{block.file} is stale: run `make docs`"


# ---------------------------------------------------------------- commands


@pytest.mark.parametrize("line", [RUN_IT, TEST_IT])
def test_the_readme_has_each_of_its_two_commands_on_a_line_of_its_own(line: str) -> None:
    assert line in README.splitlines()


@cache
def help_of(*names: str) -> str:
    done = CliRunner().invoke(main, [*names, "--help"])
    assert done.exit_code == 0, done.output
    return done.output


def command_in(words: list[str]) -> list[str]:
    """The names with which a call begins: of a command, and of those below a group."""
    command: click.Command | None = main
    names: list[str] = []
    for word in words:
        if not isinstance(command, click.Group) or not word.isidentifier():
            break
        command = command.get_command(click.Context(command), word)
        assert command is not None, words
        names.append(word)
    return names


@pytest.mark.parametrize("words", commands("chaoslab"), ids=" ".join)
def test_a_command_that_is_shown_exists_with_its_options(words: list[str]) -> None:
    names = command_in(words)
    assert names
    for word in words[len(names) :]:
        assert not word.startswith("-") or word in help_of(*names)


def test_inline_commands_exist() -> None:
    for page in PAGES:
        for said in re.findall(r"`chaoslab (\w[^`]*)`", page.read_text(encoding="utf-8")):
            assert command_in(said.split()), f"{page.name}: chaoslab {said}"


@pytest.mark.parametrize("module", ["syncer", "learner"])
def test_the_lines_by_hand_are_understood(module: str) -> None:
    program = f"python -m chaoslab.diloco.{module}"
    calls = commands(program)
    assert calls
    script = (
        f"import json, sys; from chaoslab.diloco.{module} import options;"
        f"[options.parser().parse_args(call) for call in json.load(sys.stdin)]"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(calls),
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr


def test_scripts_and_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for script in re.findall(r"python3? ([\w/]+\.py)", text):
            is_readers = script == "train.py"  # the training of whoever reads the page
            assert is_readers or (ROOT / script).is_file(), f"{page.name}: {script}"
        for target in re.findall(r"`make (\w+)`|^make (\w+)", text, re.MULTILINE):
            assert targets.issuperset(filter(None, target)), f"{page.name}: make {target}"


# ---------------------------------------------------------------- plans


def plan_snippets() -> list[str]:
    found = [body for page in PAGES for body in fences(page, "yaml")]
    return [body for body in found if body.startswith("version:")]


@pytest.mark.parametrize("text", plan_snippets())
def test_a_plan_that_is_shown_loads_and_can_be_scheduled(text: str, tmp_path: Path) -> None:
    path = tmp_path / "my_plan.yaml"
    path.write_text(text)
    plan, _ = load(path, kinds())
    assert schedule(plan, roster_of(plan)).injections
    assert plan.expect


def chaos_runs() -> list[ast.Call]:
    """Every call of the fixture in an example."""
    text = "".join(body for page in PAGES for body in fences(page, "python"))
    return [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "chaos_run"
    ]


@pytest.mark.parametrize("call", chaos_runs(), ids=ast.unparse)
def test_a_pytest_example_asks_for_a_plan_that_works(
    call: ast.Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in plan_snippets():
        named = re.search(r"^name: (\w+)$", text, re.MULTILINE)
        assert named
        Path(f"{named[1]}.yaml").write_text(text)
    given = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    settings = [f"{key}={value}" for key, value in given.get("set", {}).items()]
    asked = Asked(plan=ast.literal_eval(call.args[0]), settings=settings)
    assert prepare(asked).schedule.injections


def test_plans_that_are_named_in_commands_exist() -> None:
    for words in commands("chaoslab"):
        if words[0] in {"run", "plan"} and not words[1].endswith(".yaml"):
            assert find_plan(words[1]).is_file()


# ---------------------------------------------------------------- ARCHITECTURE.md

ARCHITECTURE = ROOT / "ARCHITECTURE.md"


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Its fault and its check, as a module."""
    folder = tmp_path_factory.mktemp("samples")
    source = "\n".join(fences(ARCHITECTURE, "python"))
    (folder / "architecture_samples.py").write_text(source, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield import_module("architecture_samples")


class TestFaultOfArchitecture(FaultKit):
    @pytest.fixture
    def fault(self, samples: ModuleType) -> Fault:
        return cast("Fault", samples.Nap())


class TestCheckOfArchitecture(CheckKit):
    @pytest.fixture
    def check(self, samples: ModuleType) -> Check:
        return cast("Check", samples.Suspicions())


def test_modules_and_classes_that_the_architecture_names_exist() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    files = {name for name in re.findall(r"`([\w/]+\.py)`", text) if "/" in name}
    assert {
        n for n in files if not any((ROOT / p / n).is_file() for p in ("chaoslab", "."))
    } == set()
    folders = (ROOT / "chaoslab", ROOT / "tests" / "contracts")
    sources = [path.read_text(encoding="utf-8") for one in folders for path in one.rglob("*.py")]
    known = set(re.findall(r"^class (\w+)", "\n".join(sources), re.MULTILINE))
    assert set(re.findall(r"`([A-Z][a-z]\w+)", text)) - known == set()


# ---------------------------------------------------------------- the text itself


def links(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.findall(r"\]\(([^)\s]+)\)", text.replace("\n", " "))


def anchors(page: Path) -> set[str]:
    """Headings as the web pages of repositories link to them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in kept}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith("https://"):
            assert link.split("/")[2] in HOSTS, f"{page.name}: {link}"
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_the_site_is_refused_for_links_to_nothing_and_an_incomplete_navigation(
    tmp_path: Path,
) -> None:
    for name in (*pages.ASSETS, "README.md", "other.md", "code.py", ".ci/run"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "README.md").write_text("[a](code.py) [b](.ci/run#x) [c](none.py) [d](other.md)")
    (tmp_path / "mkdocs.yml").write_text("nav:\n  - README.md\n  - gone.md\n")
    found = pages.wrong(tmp_path, tmp_path / "build")
    assert [line.split()[-1] for line in found] == ["none.py", "gone.md", "other.md"]
    written = (tmp_path / "build" / "README.md").read_text()
    assert written == "[a](code.py.md) [b](ci/run.md#x) [c](none.py) [d](other.md)"
    assert (tmp_path / "build" / "ci" / "run.md").read_text().startswith("# .ci/run\n")


def test_the_readme_leads_to_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    assert "docs/README.md" in links(ROOT / "README.md")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {index.name}
    assert pages - {*links(index)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_page_says_what_does_not_belong_in_it(page: Path, pattern: str) -> None:
    assert re.findall(pattern, page.read_text(encoding="utf-8"), re.IGNORECASE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:chaoslab|tests|docs|fault_plans|benchmarks)/[\w./]*)`", text):
        assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_every_exit_code_is_explained_in_the_readme() -> None:
    assert [code for code in ExitCode if f"\n| {int(code)} | " not in README] == []


def test_the_changelog_has_this_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{chaoslab.__version__}]" in changes
