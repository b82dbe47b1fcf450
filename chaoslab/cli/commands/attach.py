"""`chaoslab attach`: a plan against a training that chaoslab did not start.

TARGET ─► its nodes, listed
   with PLAN ─► question ─► as `chaoslab run`, but the training goes on afterwards
"""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from chaoslab.checks.gate import Gate
from chaoslab.cli.commands.attached_gate import refuse_gate, write_attached_gate
from chaoslab.cli.commands.listener_options import Listening, listener_options
from chaoslab.cli.commands.options import (
    bundled,
    gate_options,
    pattern_option,
    seed_option,
    selector_option,
    service_option,
    set_option,
)
from chaoslab.cli.commands.output import (
    advise,
    examples,
    json_option,
    out_option,
    print_json,
)
from chaoslab.cli.commands.run import finish, prepare_gate, run_watched
from chaoslab.cli.invocation import Invocation
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.core.units import plural
from chaoslab.fleet.attached.found import Found
from chaoslab.fleet.base import Role
from chaoslab.prepare.attach import Target, attached
from chaoslab.prepare.plans import Asked


def _named_target(
    target: str,
    services: tuple[str, ...],
    selector: str,
    pattern: str,
    inventory: str | None,
) -> Target:
    return Target.of(target, services, selector, pattern).reached_by(inventory)


@click.command(
    name="attach",
    epilog=examples(
        "chaoslab attach processes",
        "chaoslab attach compose:chaoslab-training",
        "chaoslab attach compose:chaoslab-training kill_half",
        "chaoslab attach namespace:training@my-cluster my_plan.yaml",
        "chaoslab attach processes:4711 my_plan.yaml --yes --fail-on unknown",
        "chaoslab attach pid:4711 --write gate.yaml",
        "chaoslab attach 'pattern:torchrun .*train.py' gate.yaml --yes",
        "chaoslab attach compose:my-project --service trainer --write gate.yaml",
        "chaoslab attach namespace:team --selector app=trainer gate.yaml",
        "chaoslab attach ssh:10.0.0.3,10.0.0.4 --pattern 'torchrun' gate.yaml",
        "chaoslab gameday kill_half --attach compose:chaoslab-training --serve",
    ),
)
@bundled(
    "target",
    _named_target,
    click.argument("target"),
    service_option,
    selector_option,
    pattern_option,
    click.option(
        "--inventory",
        type=click.Path(),
        metavar="FILE",
        help="How hosts are reached: the keys `ssh` and `python` of an inventory.",
    ),
)
@click.argument("plan", required=False)
@set_option
@seed_option
@click.option("--yes", "is_begun", is_flag=True, help="Begin without a question.")
@click.option(
    "--write",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write a plan for a training of your own, from what it has printed.",
)
@gate_options
@listener_options
@click.option("--quiet", is_flag=True, help="Print only the verdict, no progress.")
@out_option
@json_option
@click.pass_context
def command(  # noqa: PLR0913  # one for each group of options
    context: click.Context,
    *,
    target: Target,
    plan: str | None,
    settings: tuple[str, ...],
    seed: int | None,
    is_begun: bool,
    file: Path | None,
    gate: Gate,
    listening: Listening,
    quiet: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Run a fault plan on a training that runs already, and leave it running.

    TARGET is `processes`, chaoslab's syncer and learners on this machine, or `processes:PID` with
    the syncer's pid where there are several; `compose:PROJECT`, the containers of a Docker Compose
    project; or `namespace:NAME`, the pods of a Kubernetes namespace by kubectl's current context,
    `namespace:NAME@CONTEXT` by another one. A training of your own on this machine is `pid:PID`,
    its launcher or its only process, or `pattern:REGEX`, which its command line matches, or that
    of each of its workers; in containers or pods it is named by --service or --selector, and on
    hosts that ssh reaches it is `ssh:HOST,HOST` with --pattern. Without PLAN its nodes are listed
    and nothing is done to them.

    Of the plan, `training` gives way to what runs. Rounds and times of triggers count from the
    moment at which chaoslab comes: `at: {round: 60}` is the 60th round that it sees. Nodes can be
    killed, paused and hung, containers be taken from their networks, and pods be deleted and
    evicted. What was killed is started again by its own command; pods are by the owner that
    deployed them. Checks that need the end of a training or a twin are left out. Ctrl-C heals all
    faults.

    Exit codes are those of `chaoslab run`.
    """
    target = target.named()
    if file is not None:
        if plan is not None:
            raise PlanError("--write makes a plan: name none beside it")
        refuse_gate(target, file)
    nodes = target.find()
    if plan is None:
        if file is not None:
            write_attached_gate(target, nodes, file)
        _print_nodes(nodes, target, file, as_json=as_json)
        return
    asked = attached(Asked(plan=plan, settings=settings, seed=seed), target, nodes)
    prepared = prepare_gate(asked, gate)
    if not is_begun:
        confirm(context, nodes, prepared.plan.name)
    invocation = context.ensure_object(Invocation)
    with listening.begin() as listeners:
        judged = run_watched(
            prepared, invocation=invocation, out=out, quiet=quiet, listeners=listeners
        )
        finish(context, judged, gate, out, as_json=as_json)


def confirm(context: click.Context, nodes: Sequence[Found], plan: str) -> None:
    """Ask at a terminal whether to break it; PlanError where there is no terminal."""
    found = ", ".join(f"{node.name} ({node.where})" for node in nodes)
    if not sys.stdin.isatty():
        raise PlanError(f"{plan} breaks a training that runs ({found}): say so with --yes")
    try:
        is_meant = click.confirm(f"Run {plan} on {found}?", err=True)
    except click.Abort as abort:
        raise KeyboardInterrupt from abort
    if not is_meant:
        click.echo("chaoslab: nothing was broken", err=True)
        context.exit(ExitCode.REFUSED)


def target_of(
    target: str | None, services: tuple[str, ...], selector: str, pattern: str
) -> Target | None:
    """The training that runs already; None where a plan starts one."""
    if target is not None:
        return Target.of(target, services, selector, pattern)
    if services or selector or pattern:
        raise PlanError(
            "--service, --selector and --pattern name a training that runs: also write --attach"
        )
    return None


def attached_to(target: Target | None, asked: Asked) -> tuple[Asked, Sequence[Found]]:
    """The same plan on an attached training, with its nodes; as it was without a target."""
    if target is None:
        return asked, ()
    if asked.fleet is not None:
        raise PlanError(f"--fleet {asked.fleet} starts a training, --attach takes one: "
                        "use one of them")  # fmt: skip
    target = target.named().reached_by(asked.inventory)
    nodes = target.find()
    return attached(replace(asked, fleet=None, inventory=None), target, nodes), nodes


def _print_nodes(
    nodes: Sequence[Found], target: Target, plan: Path | None, *, as_json: bool
) -> None:
    if as_json:
        print_json(
            [{"node": one.name, "role": one.role.value, "where": one.where} for one in nodes]
        )
        return
    for node in nodes:
        click.echo(f"{node.name:12} {node.where}")
    if any(node.role is Role.SYNCER for node in nodes):
        click.echo(f"{plural(len(nodes) - 1, 'learner')} and a syncer", err=True)
        plan_and_use = "kill_half", "half of the learners are killed and restarted"
    elif plan is None:
        plan_and_use = "--write gate.yaml", "a plan for it, from what it has printed"
    else:
        plan_and_use = shlex.quote(str(plan)), "one worker is killed and restarted"
    advise(f"chaoslab attach {target.words} {plan_and_use[0]}", plan_and_use[1])
