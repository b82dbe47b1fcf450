"""What the commands that read records share: one run in a list, its time, its verdict."""

from collections.abc import Mapping
from datetime import datetime

from chaoslab.events import Json
from chaoslab.record import RunDirectory


def run_json(run: RunDirectory) -> Mapping[str, Json]:
    """One line of `chaoslab list`, from run.json alone."""
    facts = run.facts
    started, ended = facts.get("started"), facts.get("ended")
    return {
        "plan": run.plan_name,
        "id": run.id,
        "verdict": facts.get("verdict"),
        "exit_code": facts.get("exit_code"),
        "outcome": facts.get("outcome"),
        "training_continued": facts.get("training_continued"),
        "learners_rejoined": facts.get("learners_rejoined"),
        "seed": facts.get("seed"),
        "fleet": facts.get("fleet"),
        "started": started,
        "lasted_s": seconds_between(str(started), str(ended)) if started and ended else None,
        "path": str(run.path),
    }


def seconds_between(started: str, ended: str) -> float:
    """Seconds between two ISO 8601 stamps."""
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()
