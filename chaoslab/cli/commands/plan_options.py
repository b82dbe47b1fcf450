"""The arguments that name a plan: PLAN, --set, --seed and --fleet."""

from collections.abc import Callable
from functools import wraps

import click

from chaoslab.prepare.kinds import kinds
from chaoslab.prepare.plans import Asked


def plan_options(function: Callable[..., None]) -> Callable[..., None]:
    """PLAN, --set, --seed and --fleet, given to the command as one `asked`."""

    @click.argument("plan")
    @click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a key of the plan; repeatable.",
    )
    @click.option("--seed", type=int, help="Another schedule: other targets, other times.")
    @click.option("--fleet", type=click.Choice([*kinds().fleets]), help="Run on this fleet.")
    @wraps(function)
    def with_asked(
        *context: click.Context,
        plan: str,
        settings: tuple[str, ...],
        seed: int | None,
        fleet: str | None,
        **others: object,
    ) -> None:
        asked = Asked(plan=plan, settings=settings, seed=seed, fleet=fleet)
        function(*context, asked=asked, **others)

    return with_asked
