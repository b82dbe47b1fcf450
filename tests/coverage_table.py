"""`python -m tests.coverage_table`: what `make coverage` measured, per package of chaoslab."""

from collections import defaultdict
from pathlib import Path

import click
from coverage import Coverage

import chaoslab

ROOT = Path(chaoslab.__file__).parent


@click.command()
@click.option("--missing", is_flag=True, help="Also the lines of each module that no test ran.")
def table(missing: bool) -> None:
    """Lines, lines that no test ran, and the share that tests ran."""
    measured = Coverage()
    measured.load()
    lines: dict[str, int] = defaultdict(int)
    missed: dict[str, int] = defaultdict(int)
    for path in sorted(ROOT.rglob("*.py")):
        if path.name.endswith("_pb2.py"):
            continue
        _, statements, _, absent, where = measured.analysis2(str(path))
        package = path.relative_to(ROOT).parts[0] if path.parent != ROOT else "chaoslab"
        for name in (package, "total"):
            lines[name] += len(statements)
            missed[name] += len(absent)
        if missing and absent:
            click.echo(f"{path.relative_to(ROOT)}: {where}")
    click.echo(f"{'package':<12}{'lines':>8}{'missed':>8}{'covered':>9}")
    for name in sorted(lines, key=lambda name: (name == "total", name)):
        share = 1 - missed[name] / max(1, lines[name])
        click.echo(f"{name:<12}{lines[name]:>8}{missed[name]:>8}{share:>9.1%}")


if __name__ == "__main__":
    table()
