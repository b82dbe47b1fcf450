"""The page itself: one file with its styles, scripts and data, which loads nothing from anywhere.

    page.html ◄── styles, scripts (each named by its hash in the page's own security policy)
              ◄── JSON of `run_data`, the verdict and the files of the record

The same record and verdict give the same bytes. All text of a record is data: the scripts write it
as text, never as HTML, and nothing in the JSON can end the element that holds it.
"""

import base64
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from chaoslab.checks.node_clocks import as_it_happened
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, encode
from chaoslab.core.private_files import replace_file
from chaoslab.core.regular_files import read_regular
from chaoslab.record.history import History
from chaoslab.record.run_directory import RESOLVED_PLAN, RunDirectory
from chaoslab.report.files import REPORT_HTML
from chaoslab.report.story import RunStory
from chaoslab.report.web.picture import losses_data, run_data
from chaoslab.report.web.verdict import verdict_data
from chaoslab.report.wording import again, record_name

CHART_SCRIPTS = ("elements.js", "time_axis.js", "panels.js", "charts.js")
"""In the order in which they are read; those that other pages draw charts with, too."""
SCRIPTS = (*CHART_SCRIPTS, "sections.js", "page.js")
CHART_STYLES = ("charts.css",)
STYLES = (*CHART_STYLES, "page.css")
_ASSETS = files("chaoslab.report.web") / "assets"
_TEXT_MOST = 16_000
_ASKED = ("started", "links", "versions", "git", "host", "plan_hash", "schedule_hash")
"""Keys of run.json."""
_NOT_IN_SCRIPT = re.compile("[<>&\u2028\u2029]")
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def write_page(
    directory: Path, verdict: Verdict | None, history: History, *, to: Path | None = None
) -> Path:
    """Write the page of a run's directory, into it or `to` another file; its path.

    Without a verdict it shows the run alone. FleetError when the disk refuses.
    """
    path = to or directory / REPORT_HTML
    replace_file(path, page(page_data(verdict, history, record_facts(directory))))
    return path


def page_data(
    verdict: Verdict | None, history: History, facts: Mapping[str, Json]
) -> Mapping[str, Json]:
    """The value that the scripts draw. `history` is as it lies on disk."""
    timed = as_it_happened(history)
    return {
        "run": run_data(RunStory.of(timed.events)),
        "twin": losses_data(RunStory.of(timed.twin.events), ()) if timed.twin else None,
        "verdict": None if verdict is None else verdict_data(verdict, history),
        "facts": facts,
    }


def page(data: Mapping[str, Json]) -> str:
    """The whole text of a page that draws this."""
    style, script = assets(STYLES), assets(SCRIPTS)
    slots = {
        "policy": f"{_policy(style)}; script-src '{_digest(script)}'",
        "title": html.escape(_title(data)),
        "style": style,
        "script": script,
        "data": _NOT_IN_SCRIPT.sub(lambda sign: f"\\u{ord(sign[0]):04x}", encode(data)),
    }
    return _filled("page.html", slots)


def article(title: str, body: str) -> str:
    """The whole text of a page of this HTML, in the styles of a report and without scripts."""
    style = assets(STYLES)
    slots = {"policy": _policy(style), "title": html.escape(title), "style": style, "body": body}
    return _filled("article.html", slots)


def _filled(name: str, slots: Mapping[str, str]) -> str:
    return _SLOT.sub(lambda slot: slots[slot[1]], assets([name]))


def _policy(style: str) -> str:
    """Nothing is loaded from anywhere, and nothing runs."""
    nothing = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"{nothing}; style-src '{_digest(style)}'"


def _title(data: Mapping[str, Json]) -> str:
    run, verdict = data["run"], data["verdict"]
    plan = run.get("plan") if isinstance(run, Mapping) else ""
    outcome = verdict.get("outcome") if isinstance(verdict, Mapping) else "not judged"
    return f"{outcome}: {plan}"


def assets(names: Sequence[str]) -> str:
    """The text of these files of the page, one after the other."""
    return "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    """Hash of an inline element for a security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# ---------------------------------------------------------------- beside the journal


def record_facts(directory: Path) -> Mapping[str, Json]:
    """Plan, schedule, versions and how to repeat it, each bounded in size; a file that is not there
    is left out.
    """
    run = RunDirectory(path=directory)
    try:
        said = run.facts
    except FleetError:  # a page can do without run.json; code that needs it says that it is damaged
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
    """Beginning of a file, and the number of characters left out; None if it is not there."""
    try:
        text = read_regular(path).decode(errors="replace")
    except OSError:
        return None
    cut = f"{text[:_TEXT_MOST]}\n… ({len(text) - _TEXT_MOST:,} characters more in {path.name})"
    return text if len(text) <= _TEXT_MOST else cut
