"""Finding a plan by path or by the bare name of one that comes with chaoslab.

    kill_half ─► ./kill_half? no ─► fault_plans/kill_half.yaml, beside the package or inside it
"""

import difflib
from collections.abc import Mapping
from pathlib import Path

import chaoslab
from chaoslab.errors import PlanError


def find_plan(given: str, *, here: Path | None = None) -> Path:
    """The file of a plan; a relative path starts at `here`. PlanError names the nearest plan."""
    path = (here or Path()) / given
    if path.is_file():
        return path
    bundled = bundled_plans()
    if given in bundled:
        return bundled[given]
    near = difflib.get_close_matches(Path(given).stem, bundled, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise PlanError(
        f"there is no plan file {given!r}: {hint}plans that come with chaoslab are "
        f"{', '.join(bundled) or 'missing here'}; any other is named by its path"
    )


def bundled_plans() -> Mapping[str, Path]:
    """The plans that come with chaoslab, by name: in the wheel, or beside it in a checkout."""
    package = Path(chaoslab.__file__).parent
    for folder in (package / "fault_plans", package.parent / "fault_plans"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    return {}
