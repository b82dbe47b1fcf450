"""Completions of a shell: plans, runs, entries of the catalog, fleets, commits.

Each imports what it needs when it is asked, so that `--help` needs click alone. A folder that is
not there has nothing to offer.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from chaoslab.record.run_directory import RunDirectory


def plans(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Included plans by name; with a `/` or a dot, or if none fits, plan files."""
    from chaoslab.prepare.plans import bundled_plans  # noqa: PLC0415  # see above

    own = sorted(map(str, (*Path().glob("*.y*ml"), *Path("fault_plans").glob("*.y*ml"))))
    return that_begin(begun, (*bundled_plans(), *own)) or [CompletionItem(begun, type="file")]


def plans_on_record(
    context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Plans that have runs."""
    return that_begin(begun, dict.fromkeys(run.plan_name for run in _runs(context)))


def runs(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """`latest`, plans that have runs, and ids with their plan, the newest first."""
    from chaoslab.record.run_directory import LATEST  # noqa: PLC0415  # see above

    found = _runs(context)
    plans_run = dict.fromkeys(run.plan_name for run in found)
    by_name = that_begin(begun, [LATEST, *plans_run]) if found else []
    ids = ((run.short_id, run.plan_name) for run in found)
    by_name += [CompletionItem(id_, help=plan) for id_, plan in ids if id_.startswith(begun)]
    return by_name or [CompletionItem(begun, type="dir")]


def catalogued(
    context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Names of a catalogue; of faults, families, too."""
    from chaoslab.plan.model.systems import SYSTEMS  # noqa: PLC0415  # see above
    from chaoslab.prepare.kinds import faults, kinds  # noqa: PLC0415
    from chaoslab.prepare.plans import bundled_plans  # noqa: PLC0415

    families = {name.partition(".")[0] for name in faults()}
    known: dict[str, Iterable[str]] = {
        "plans": bundled_plans(),
        "faults": (*sorted(families), *sorted(faults())),
        "checks": sorted(kinds().checks),
        "systems": SYSTEMS,
        "schema": ("plan", "verdict"),
    }
    return that_begin(begun, known.get(context.params.get("what", ""), ()))


def checks(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Checks that a plan can expect."""
    from chaoslab.prepare.kinds import kinds  # noqa: PLC0415  # see above

    return that_begin(begun, sorted(kinds().checks))


def fleets(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Fleets, those of other packages included."""
    from chaoslab.prepare.kinds import kinds  # noqa: PLC0415  # see above

    return that_begin(begun, kinds().fleets)


def commits(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Branches, tags and the newest commits of the repository here, with their subjects."""
    from chaoslab.core.errors import ChaoslabError  # noqa: PLC0415  # see above
    from chaoslab.replay.commits import Repository  # noqa: PLC0415  # see above

    try:
        names = Repository.around(Path.cwd()).names()
    except ChaoslabError:  # no git, no repository, or no commit in it
        return []
    found = ((name, subject) for name, subject in names.items() if name.startswith(begun))
    return [
        CompletionItem(name, help="".join(filter(str.isprintable, subject)))
        for name, subject in found
    ]


def _runs(context: click.Context) -> Sequence["RunDirectory"]:
    from chaoslab.record.run_directory import list_runs  # noqa: PLC0415  # see above

    return list_runs(Path(context.params.get("out") or "runs"))


def that_begin(begun: str, names: Iterable[str]) -> list[CompletionItem]:
    """Names that begin with what was typed."""
    return [CompletionItem(name) for name in names if name.startswith(begun)]
