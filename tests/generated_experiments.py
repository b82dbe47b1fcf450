"""Tables of docs/simulation.md that are made from the code: keys of a file, scenarios, fleets."""

from dataclasses import fields

from chaoslab.core.units import show_duration
from chaoslab.experiments.model import Experiment, Figure, Published, Table
from chaoslab.experiments.windows import Window
from chaoslab.plan.file.conventions import field_docs, hints_of, is_required, key_of
from chaoslab.plan.file.writing import one_line, written_default
from chaoslab.sim.renewal.failure_models import MODELS, FailureModel
from chaoslab.sim.renewal.scenario import Scenario
from chaoslab.sim.timeline.engine import Links, Target
from chaoslab.sim.timeline.training import Training
from tests.generated_reference import table

_HEAD = ("key", "default", "meaning")


def experiment_keys() -> str:
    """The keys of a file, and of the mappings in it."""
    parts = [_keys(Experiment)]
    for title, kind in (("tables[]", Table), ("published[]", Published), ("figure", Figure)):
        parts.append(f"**`{title}`**\n\n{_keys(kind)}")
    return "\n\n".join(parts)


def scenario_keys() -> str:
    """The settings of a renewal scenario."""
    return _keys(Scenario)


def timeline_keys() -> str:
    """The settings of a timeline, and what each of its two kinds has besides."""
    parts = [_keys(Training)]
    for name, kind in (("timeline", Links), ("bandwidth", Target)):
        parts.append(f"**`simulate: {name}`**\n\n{_keys(kind, beyond=Training)}")
    return "\n\n".join(parts)


def window_keys() -> str:
    """The settings of a window."""
    return _keys(Window)


def fleets() -> str:
    """The presets of failures with their sources."""
    rows = [(f"`{fleet}`", _said(model), model.source) for fleet, model in MODELS.items()]
    return table(("`failures`", "what fails", "source"), rows)


def _keys(kind: type, *, beyond: type | None = None) -> str:
    """The keys of a dataclass, or those that it has beyond its base."""
    hints, docs = hints_of(kind), field_docs(kind)
    known = {field.name for field in fields(beyond)} if beyond else set()
    rows = []
    for field in fields(kind):
        if field.name in known:
            continue
        default = None if is_required(field) else written_default(field, hints[field.name])
        shown = "required" if is_required(field) else one_line(default) if default else ""
        rows.append((f"`{key_of(field.name)}`", shown, docs.get(field.name, "")))
    return table(_HEAD, rows)


def _said(model: FailureModel) -> str:
    hours = f"{model.mtbi_s / 3600:,.0f} h between interruptions of a chip"
    parts = [hours if model.shape == 1 else f"{hours} (Weibull, shape {model.shape:g})"]
    if model.bad_share:
        parts.append(f"{model.bad_share:.1%} of the chips fail {model.bad_factor:g} times as often")
    if model.relapse_share:
        parts.append(f"{model.relapse_share:.0%} of the repairs repair nothing")
    if model.hang_share:
        parts.append(
            f"{model.hang_share:.1%} hang and are noticed after {show_duration(model.hang_s)}"
        )
    if model.slow_share:
        parts.append(f"{model.slow_share:.1%} slow a learner to {model.slow_speed:.1%} for "
                     f"{show_duration(model.slow_s)}")  # fmt: skip
    if model.repair is not None:
        parts.append(f"repair takes {model.repair.mean_s / 3600:.1f} h on average")
    parts += [
        f"each {one.name} of {one.chips:,} chips is out for {one.outage.mean_s / 3600:g} h "
        f"every {one.mtbf_s / 31_536_000:g} years"
        for one in model.domains
    ]
    if model.trace:
        parts.append(f"preemptions of the trace `{model.trace}` on every learner")
    return "; ".join(parts)
