"""Fault windows as annotations of Grafana: a region for each injection, and one for the run.

POST URL/api/annotations {time, timeEnd: ms since the epoch, tags, text}, with a bearer token.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from urllib.request import Request

from chaoslab.checks.node_clocks import as_it_happened
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, MalformedEvent
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.record.journal import History
from chaoslab.report.receivers import OPENER, TIMEOUT_S
from chaoslab.report.telemetry.spans import RunSpan, fault_end_s

TOKEN = "GRAFANA_TOKEN"
"""Environment variable with the token of a service account that may write annotations."""
_TAG = "chaoslab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A region of time, in seconds of the run's clock."""

    from_s: float
    to_s: float
    tags: Sequence[str]
    text: str

    def to_json(self, began_ns: int) -> Mapping[str, Json]:
        """As Grafana takes it; `began_ns` is the time 0 of the run, in ns since the epoch."""
        return {
            "time": (began_ns + round(self.from_s * 1e9)) // 1_000_000,
            "timeEnd": (began_ns + round(self.to_s * 1e9)) // 1_000_000,
            "tags": list(self.tags),
            "text": self.text,
        }


def annotations(history: History, whole: RunSpan) -> Iterator[Annotation]:
    """The run, then its injections in the order in which they began."""
    plan = str(whole.attributes.get("chaoslab.plan", ""))
    outcome = str(whole.attributes.get("chaoslab.outcome", "not judged"))
    yield Annotation(
        from_s=whole.from_s,
        to_s=whole.to_s,
        tags=[_TAG, "run", plan, outcome],
        text=f"{whole.name}: {outcome}",
    )
    timed = as_it_happened(history)
    try:
        stories = timed.faults
    except MalformedEvent:  # the verdict has a finding that says so
        return
    for story in stories:
        yield Annotation(
            from_s=story.injecting.time_s,
            to_s=fault_end_s(story, timed),
            tags=[_TAG, "fault", plan, story.fault, story.spec, *story.targets],
            text=f"{story.fault} on {', '.join(story.targets)} ({story.injection}): {story.status}",
        )


def send_annotations(url: str, token: str, began_ns: int, found: Sequence[Annotation]) -> None:
    """Send one after the other; FleetError at the first that is refused."""
    for one in found:
        request = Request(  # noqa: S310  # `receiver` lets http and https through
            f"{url}/api/annotations",
            data=json.dumps(one.to_json(began_ns)).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        try:
            with OPENER.open(request, timeout=TIMEOUT_S) as answer:
                answer.read()
        except (OSError, HTTPException) as error:
            raise FleetError(f"annotations were not taken: {error}") from error
