"""Page of an experiment: what it answers, its constants, tables and figure, and how it was made.

README.md     text around the block `results` stays as it is; a new page has only its head
results.csv   figure.svg
"""

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from chaoslab import __version__
from chaoslab.core.errors import FleetError, PlanError
from chaoslab.experiments import figure, tables
from chaoslab.experiments.kinds import KINDS
from chaoslab.experiments.model import Experiment
from chaoslab.experiments.results import simulator_digest
from chaoslab.experiments.tables import Grid
from chaoslab.plan.file.writing import one_line

README_MD: Final = "README.md"
RESULTS_CSV: Final = "results.csv"
FIGURE_SVG: Final = "figure.svg"
_BEGIN, _END = "<!-- generated: results -->\n", "<!-- end: results -->"


def write(grid: Grid, folder: Path, *, command: str) -> Mapping[str, Path]:
    """Write the page with table and figure; `command` makes them again. The files by name."""
    experiment = grid.experiment
    texts = {RESULTS_CSV: tables.as_csv(grid)}
    if experiment.figure is not None:
        texts[FIGURE_SVG] = figure.svg(
            grid, experiment.figure, footer=f"{command} ({_versions(experiment)})"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        readme = folder / README_MD
        old = readme.read_text("utf-8") if readme.exists() else _head(experiment)
        texts[README_MD] = _rewritten(old, block(grid, command=command), readme)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FleetError(f"{folder}: {error}") from error
    return {name: folder / name for name in texts}


def block(grid: Grid, *, command: str) -> str:
    """What is generated: command and versions, constants, figure, tables."""
    experiment = grid.experiment
    made = f"{tables.legend(grid)} Made with {_versions(experiment)}."
    parts = [f"```sh\n{command}\n```", made]
    if experiment.constants:
        parts.append(_constants(experiment))
    if experiment.figure is not None:
        parts.append(f"![{experiment.question}]({FIGURE_SVG})")
    return "\n\n".join([*parts, tables.markdown(grid)])


def _versions(experiment: Experiment) -> str:
    code = f"{experiment.kind} {simulator_digest(experiment.kind)}"
    what = "training" if KINDS[experiment.kind].is_real else "simulator"
    return f"chaoslab {__version__}, Python {platform.python_version()}, {what} {code}"


def _constants(experiment: Experiment) -> str:
    lines = ["| constant | value | where it comes from |", "| --- | --- | --- |"]
    for name, source in experiment.constants.items():
        lines.append(f"| {name} | {one_line(experiment.base[name])} | {source} |")
    return "\n".join(lines)


def _head(experiment: Experiment) -> str:
    return f"# {experiment.name}\n\n{experiment.question}\n\n{_BEGIN}{_END}\n"


def _rewritten(text: str, new: str, readme: Path) -> str:
    head, is_there, rest = text.partition(_BEGIN)
    _, is_closed, tail = rest.partition(_END)
    if not is_there or not is_closed:
        raise PlanError(f"needs the lines {_BEGIN.strip()} and {_END}", where=str(readme))
    return f"{head}{_BEGIN}\n{new}\n\n{_END}{tail}"
