"""The arguments that name a plan: PLAN, --set, --seed, --fleet, --inventory and --costs."""

from collections.abc import Callable
from functools import wraps

import click

from chaoslab.cli import completing
from chaoslab.prepare.kinds import kinds
from chaoslab.prepare.plans import Asked


def plan_options(function: Callable[..., None]) -> Callable[..., None]:
    """PLAN, --set, --seed, --fleet, --inventory, --costs: given to the command as one `asked`."""

    @click.argument("plan", shell_complete=completing.plans)
    @click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a key of the plan; repeatable.",
    )
    @click.option("--seed", type=int, help="Another schedule: other targets, other times.")
    @click.option("--fleet", metavar=f"[{'|'.join(kinds().fleets)}]", help="Run on this fleet.",
                  shell_complete=completing.fleets)  # fmt: skip
    @click.option(
        "--inventory",
        type=click.Path(),
        metavar="FILE",
        help="The hosts of a fleet that has some; as --set fleet.inventory=FILE.",
    )
    @click.option(
        "--costs",
        type=click.Path(),
        metavar="FILE",
        help="What work takes in a simulation (--fleet sim); as --set fleet.costs=FILE.",
    )
    @wraps(function)
    def with_asked(
        *context: click.Context,
        plan: str,
        settings: tuple[str, ...],
        seed: int | None,
        fleet: str | None,
        inventory: str | None,
        costs: str | None,
        **others: object,
    ) -> None:
        asked = Asked(
            plan=plan, settings=settings, seed=seed, fleet=fleet, inventory=inventory, costs=costs
        )
        function(*context, asked=asked, **others)

    return with_asked
