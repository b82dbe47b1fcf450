"""What a page shows of a record besides its journal: plan, schedule, versions, how to repeat it.

run.json, plan.source.yaml, plan.resolved.yaml, schedule.jsonl ─► JSON, each bounded in size
"""

from collections.abc import Mapping
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.core.regular_files import read_regular
from chaoslab.record.run_directory import RESOLVED_PLAN, RunDirectory
from chaoslab.report.wording import again, record_name

_TEXT_MOST = 16_000
_ASKED = ("started", "links", "versions", "git", "host", "plan_hash", "schedule_hash")


def record_facts(directory: Path) -> Mapping[str, Json]:
    """Of a run's directory; a file that is not there is left out."""
    run = RunDirectory(path=directory)
    try:
        said = run.facts
    except FleetError:  # a page can do without run.json; whoever needs it says that it is damaged
        said = {}
    return {
        "record": record_name(directory),
        "repeat": again(directory),
        "run": {key: said[key] for key in _ASKED if key in said},
        "source": _text(directory / "plan.source.yaml"),
        "resolved": _text(directory / RESOLVED_PLAN),
        "schedule": _text(directory / "schedule.jsonl"),
    }


def _text(path: Path) -> Json:
    """Its beginning, and how much of it is left out; None if it is not there."""
    try:
        text = read_regular(path).decode(errors="replace")
    except OSError:
        return None
    cut = f"{text[:_TEXT_MOST]}\n… ({len(text) - _TEXT_MOST:,} characters more in {path.name})"
    return text if len(text) <= _TEXT_MOST else cut
