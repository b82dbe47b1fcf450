"""What the commands that read records share: one run in a list, its time, its verdict."""

from collections.abc import Mapping

from chaoslab.events import Json
from chaoslab.record import RunDirectory


def run_json(run: RunDirectory) -> Mapping[str, Json]:
    """One line of `chaoslab list`, from run.json alone."""
    facts = run.facts
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
        "started": facts.get("started"),
        "lasted_s": run.lasted_s,
        "path": str(run.path),
    }
