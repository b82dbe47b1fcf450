"""`chaoslab init`: a plan, a CI workflow and a test in a project that has none yet.

    answers (flags, or questions) ─► Starter ─► files ─► none is there with other content ─► written
    a command of the user's ─► init_script ─► plan ─┘

Nothing is overwritten: with other content in the way, nothing is written at all.
"""

import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text

import chaoslab
from chaoslab.cli.commands.init_script import (
    Sampling,
    ScriptGate,
    command_line,
    sampling_options,
)
from chaoslab.cli.commands.output import (
    examples,
    json_option,
    print_result,
    typed_path,
    warn,
)
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.prepare.plans import Asked, decode
from chaoslab.record.provenance import requirement

PLAN = "fault_plans/first_gate.yaml"
EXAMPLE = "next_byte.py"
"""A complete task, written for who has none."""
_TEMPLATES = Path(__file__).parent.parent / "starter"
_EXAMPLES = (_TEMPLATES, Path(chaoslab.__file__).parent.parent / "docs" / "examples")
"""Its folder in the wheel, and in a checkout."""
_GITLAB = ".gitlab-ci.yml"
_INCLUDE = "include: {local: .gitlab/resilience.yml}\n"
_UNSET = 'echo "write here what pip installs to get chaoslab, such as its URL" >&2 && exit 1'
"""Instead of a name that an index may give to another package."""
_FRAGMENTS = "  fragments: 4                      # at most as many as the model has tensors"
_NAME = re.compile(r"\w+(\.\w+)*(:\w+)?")
"""Text that YAML reads unquoted."""
_WORDS = "chaoslab.init.words"
_UNSET_HINT = (
    "this chaoslab was installed from a folder, so the workflow does not know where to get it, and "
    "fails: edit its line `echo …`, or call init with --install"
)


class Trains(StrEnum):
    """What the gate trains."""

    BUILTIN = "builtin"
    TASK = "task"
    LEARNER = "learner"
    SCRIPT = "script"


class Ci(StrEnum):
    """Which system runs the gate."""

    GITHUB = "github"
    GITLAB = "gitlab"
    NONE = "none"


_TRAINS: Mapping[str, str] = {
    Trains.BUILTIN: "the built-in model, on text that every machine has",
    Trains.TASK: "a model and data of your own, in JAX (docs/extending.md)",
    Trains.LEARNER: "a learner program of your own (docs/protocol.md)",
    Trains.SCRIPT: "a training of your own, by any command, as it is (docs/trainers.md)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """The answers."""

    trains: Trains
    program: str | None
    """`package.module:function` of a task, `package.module` of a learner, a script's command."""
    ci: Ci
    has_test: bool
    install: str | None
    """What pip installs in CI, quoted for a shell; None: not known."""
    data: str | None = None
    """Data of a task or of the built-in model, as plans name it; None: the text of every machine.
    """
    has_example: bool = False
    """Whether the task is the example."""
    script: ScriptGate | None = None
    """The gate of a script."""

    def files(self) -> Mapping[str, str]:
        """Path below the project and content of each file."""
        return {PLAN: self._plan(), **self.beside_plan()}

    def beside_plan(self) -> Mapping[str, str]:
        """The same without the plan."""
        found = {}
        if self.ci is Ci.GITHUB:
            found[".github/workflows/resilience.yml"] = self._filled("github.yml")
        elif self.ci is Ci.GITLAB:
            found[".gitlab/resilience.yml"] = self._filled("gitlab.yml")
        if self.has_test:
            found["tests/test_resilience.py"] = self._filled("test_resilience.py.txt")
        if self.has_example:
            file = next(one for folder in _EXAMPLES if (one := folder / EXAMPLE).is_file())
            found[EXAMPLE] = file.read_text(encoding="utf-8")
        return found

    def _plan(self) -> str:
        if self.script is not None:
            return self.script.plan()
        training = "  model: nano" if self.trains is Trains.BUILTIN else ""
        name = _scalar(self.program or "")
        training = f"  task: {name}\n{_FRAGMENTS}" if self.trains is Trains.TASK else training
        if self.data is not None:
            training += f"\n  data: {_scalar(self.data)}"
        fleet = ""
        if self.trains is Trains.LEARNER:
            fleet = f"\nfleet:\n  programs: {{learner: {name}}}\n"
        text = (_TEMPLATES / "first_gate.yaml").read_text(encoding="utf-8")
        lines = "\n".join(filter(None, (training, "  step_time: auto" if not fleet else "")))
        return text.replace("@TRAINING@\n", f"{lines}\n" if lines else "").replace("@FLEET@", fleet)

    def _filled(self, template: str) -> str:
        text = (_TEMPLATES / template).read_text(encoding="utf-8")
        pip = _UNSET if self.install is None else f"pip install {self.install}"
        return text.replace("@INSTALL@", pip)


def _scalar(text: str) -> str:
    """Quoted as YAML reads it."""
    return text if _NAME.fullmatch(text) else json.dumps(text)


class _WithCommand(click.Command):
    """A command that takes a command line of the user's after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep them out of the arguments."""
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_WORDS] = args[:at], args[at + 1 :]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Usage line, with the command line after `--`."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


@click.command(
    name="init",
    cls=_WithCommand,
    epilog=examples(
        "chaoslab init",
        "chaoslab init --trains builtin --ci github",
        "chaoslab init --trains task --program my_project.task:make --data books",
        "chaoslab init --trains learner --program my_learner --ci none --no-test",
        "chaoslab init --trains script --ci none -- python train.py --out {folder}",
    ),
)
@click.argument(
    "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path()
)
@click.option("--trains", type=click.Choice([one.value for one in Trains]), help="What is trained: "
              "the built-in model, a task of yours, a learner program of yours, or any command, "
              "written after --.")  # fmt: skip
@click.option(
    "--program",
    metavar="NAME",
    help="Of a task package.module:function, of a learner package.module.",
)
@click.option(
    "--data",
    metavar="PATH",
    help="What a task or the built-in model reads: a file, a folder, a glob pattern; of the "
    "built-in model also stdlib, the text of Python's own library.",
)
@sampling_options
@click.option("--ci", type=click.Choice([one.value for one in Ci]), help="Which workflow to write.")
@click.option("--test/--no-test", "has_test", default=True, help="Write a pytest file, too.")
@click.option(
    "--install",
    metavar="REQUIREMENT",
    help="What CI installs with pip to get chaoslab: also a URL or a wheel.  [default: where this "
    "one was installed from]",
)
@json_option
def command(  # noqa: PLR0913  # one for each option
    *,
    folder: Path,
    trains: str | None,
    program: str | None,
    data: str | None,
    sampling: Sampling,
    ci: str | None,
    has_test: bool,
    install: str | None,
    as_json: bool,
) -> None:
    """Write a first gate: a plan, a CI workflow and a test.

    FOLDER is the root of your project, by default this one. What the options do not answer is
    asked. A file that is there with other content is never overwritten: nothing is written then.

    COMMAND is a training of yours (--trains script). It is run here for at most half a minute,
    killed, and started again, to recognize its lines and to measure its steps. {folder} in it is a
    folder for its checkpoints, {rank} the number of a worker, {workers} how many there are.

    Exit code 2 if nothing was written: an answer is missing or wrong, or a file is in the way.
    """
    if words := click.get_current_context().meta.get(_WORDS):
        if trains != Trains.SCRIPT:
            raise PlanError("a command after -- is for --trains script")
        program = command_line(words)
    starter = _answered(folder, trains, program, data, ci, has_test=has_test, install=install)
    if starter.trains is Trains.SCRIPT:
        _refuse_others(folder, {PLAN: None, **starter.beside_plan()})  # before anything is run
        starter = replace(starter, script=sampling.gate(starter.program or "", quiet=as_json))
    files = starter.files()
    _try(files[PLAN])
    written, hints = _write(folder, files, starter)
    if starter.ci is not Ci.NONE and starter.install is None:
        warn(_UNSET_HINT)
    page: RenderableType = Text("\n".join([*written, *hints]))
    if starter.script is not None:
        page = Group(starter.script.page(), page)
    plan = typed_path((folder / PLAN).absolute())
    then = (f"chaoslab run {plan}", "your first gate, on this machine; a minute or two")
    value: dict[str, Json] = {"files": sorted(files), "next": then[0]}
    if starter.script is not None:
        value["understood"] = starter.script.to_json()
    print_result(value, page, as_json=as_json, then=then)


def _answered(
    folder: Path,
    trains: str | None,
    program: str | None,
    data: str | None,
    ci: str | None,
    *,
    has_test: bool,
    install: str | None,
) -> Starter:
    """The answers of flags and, for those that are missing, of the person at the terminal."""
    has_example = False
    try:
        kind = Trains(trains or _asked("What is trained?", _TRAINS))
        if kind is Trains.SCRIPT and program is None:
            program = click.prompt(
                "Its command, with {folder} where it keeps checkpoints", err=True
            )
        elif kind is Trains.LEARNER and program is None:
            program = click.prompt("Its name, as package.module", err=True)
        elif kind is Trains.TASK and program is None:
            what = f"Its name, as package.module:function; Enter writes {EXAMPLE}, a complete one"
            program = click.prompt(what, default="", show_default=False, err=True)
            if has_example := not program:
                program = f"{Path(EXAMPLE).stem}:make"
        if kind is Trains.TASK and data is None and not has_example:
            what = "Its `data`: a file, a folder, a glob pattern; Enter if the function takes none"
            data = click.prompt(what, default="", show_default=False, err=True) or None
        system = Ci(ci or _asked("Which CI runs the gate?", {one.value: "" for one in Ci}))
    except click.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        click.echo(err=True)  # the question has no end of line
        raise PlanError(
            "not all questions were answered: pass --trains, --program, --data, --ci; of a script, "
            "its command after --"
        ) from error
    if kind is Trains.BUILTIN and program is not None:
        raise PlanError("--program names a task or a learner: also write --trains task or learner")
    if data is not None and kind in (Trains.LEARNER, Trains.SCRIPT):
        raise PlanError(f"--data is for a task or the built-in model, got --trains {kind}")
    return Starter(
        trains=kind,
        program=program,
        data=data,
        ci=system,
        has_test=has_test,
        install=_installed(folder, install),
        has_example=has_example,
    )


def _asked(question: str, choices: Mapping[str, str]) -> str:
    for name, about in choices.items():
        click.echo(f"  {name:8} {about}".rstrip(), err=True)
    names = [str(name) for name in choices]
    answer: str = click.prompt(question, type=click.Choice(names), default=names[0], err=True)
    return answer


def _installed(folder: Path, asked: str | None) -> str | None:
    """Arguments of pip: project with requirements, and chaoslab; None if neither is found."""
    found = requirement() if asked is None else asked
    if found is None:
        return None
    if not found.isprintable():
        raise PlanError(f"--install must be one line, got {found!r}")
    own = ""
    with _refused(folder, "searched"):
        if (folder / "pyproject.toml").is_file() or (folder / "setup.py").is_file():
            own = ". "
        elif (folder / "requirements.txt").is_file():
            own = "-r requirements.txt "
    return f"{own}{shlex.quote(found)}"


def _try(plan: str) -> None:
    """PlanError if the plan cannot be decoded, as with a task of a wrong form."""
    with _refused("a temporary file", "written"), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(PLAN).name
        path.write_text(plan, encoding="utf-8")
        try:
            decode(Asked(plan=str(path)))
        except PlanError as error:  # the file that it names is gone when it is read
            said = re.sub(rf"{re.escape(str(path))}[:\d]*: ", "", str(error))
            raise PlanError(f"--program: {said}") from error


def _write(
    folder: Path, files: Mapping[str, str], starter: Starter
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write each file; its state, and what is left to do. PlanError if nothing was written."""
    whole = dict(files)
    hints: tuple[str, ...] = ()
    if starter.ci is Ci.GITLAB:
        entry = _content(folder / _GITLAB)
        if entry is None or entry == _INCLUDE:
            whole[_GITLAB] = _INCLUDE
        elif ".gitlab/resilience.yml" not in entry:
            hints = (f"add to {_GITLAB}: {_INCLUDE.strip()}",)
    _refuse_others(folder, whole)
    same = {name for name in whole if (folder / name).exists()}
    _write_all({folder / name: whole[name] for name in sorted(set(whole) - same)})
    said = (f"{'unchanged' if name in same else 'written'}  {name}" for name in whole)
    return tuple(said), hints


def _refuse_others(folder: Path, files: Mapping[str, str | None]) -> None:
    """PlanError if one of them is there with other content, or its folder cannot be written to;
    None: content that is not known yet.
    """
    for name in files:
        above = next(one for one in (folder / name).parents if one.exists())
        if not (above.is_dir() and os.access(above, os.W_OK)):
            raise PlanError(f"{above}: cannot be written to, so nothing was written")
    other = {name for name, text in files.items() if _content(folder / name) != text}
    if other := {name for name in other if os.path.lexists(folder / name)}:
        raise PlanError(
            f"{', '.join(sorted(other))}: there with other content, so nothing was written; move "
            "it away, or leave it out with --ci none or --no-test"
        )


def _content(path: Path) -> str | None:
    """Text of a file in any encoding, None of anything else; PlanError if it cannot be read."""
    with _refused(path, "read"):
        is_file = path.is_file()
        return path.read_text(encoding="utf-8", errors="surrogateescape") if is_file else None


def _write_all(contents: Mapping[Path, str]) -> None:
    """New files, all or none: after a PlanError, what was made on the way is gone."""
    with ExitStack() as made:
        for folder in (one for path in contents for one in reversed(path.parents)):
            with _refused(folder, "made a folder"):
                if not folder.is_dir():
                    folder.mkdir()
                    made.callback(folder.rmdir)
        for path, content in contents.items():
            with _refused(path, "written"), path.open("x", encoding="utf-8") as file:
                made.callback(path.unlink)
                file.write(content)
        made.pop_all()


@contextmanager
def _refused(path: Path | str, done: str) -> Iterator[None]:
    """PlanError that names the path, if the system does not let it be `done`."""
    try:
        yield
    except OSError as error:
        raise PlanError(
            f"{path}: cannot be {done} ({error.strerror}), so nothing was written"
        ) from error
