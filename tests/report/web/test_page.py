"""The page as a file: what it holds, and what nothing in a record can make of it."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.report.web.page import SCRIPTS, STYLES, page, page_data, write_page
from tests.histories import Story, half_killed
from tests.model_training import Pace
from tests.report.web.stories import LOSSES, Counted, judged, whole_story

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>&\u2028'\""
ASSETS = files("chaoslab.report.web") / "assets"


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.is_after = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.texts.append("")
        self.is_after = False

    def handle_data(self, data: str) -> None:
        if self.texts and not self.is_after:
            self.texts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.is_after = True

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [
            (attributes, text)
            for (name, attributes), text in zip(self.found, self.texts, strict=True)
            if name == tag
        ]


def text_of(story: Story) -> str:
    history = story.history()
    return page(
        page_data(judged(history), history, {"record": "here", "repeat": "again", "run": {}})
    )


def data_in(text: str) -> Any:
    (_, data), _ = Elements(text).of("script")
    return json.loads(data)


def test_the_page_refers_to_nothing_outside_of_it() -> None:
    text = text_of(whole_story())
    assert text == text_of(whole_story()), "the same record gives the same bytes"
    for tag, attributes in Elements(text).found:
        assert "src" not in attributes, tag
        assert attributes.get("href", "#")[:1] in ("#", "d"), tag
    for name in (*SCRIPTS, *STYLES, "page.html"):
        text = (ASSETS / name).read_text()
        outside = re.findall(r"https?://[^\s\"']+|@import|url\((?!#)[^$]", text)
        assert outside in ([], ["http://www.w3.org/2000/svg"]), name


def test_its_policy_allows_its_own_script_and_style_by_their_hashes_and_no_network() -> None:
    elements = Elements(text_of(whole_story()))
    policy = next(a["content"] for a, _ in elements.of("meta") if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    (style,), (_, script) = elements.of("style"), elements.of("script")
    for _, text in (style, script):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_no_text_of_a_record_becomes_an_element() -> None:
    plain, story = Elements(text_of(half_killed().end())), half_killed().end()
    for kind, key in ((Kind.RUN_STARTED, "plan"), (Kind.FAULT_INJECTING, "trigger"),
                      (Kind.EVIDENCE_MEASURED, "text"), (Kind.RUN_FINISHED, "reason")):  # fmt: skip
        story.altered(kind, lambda _, key=key: {key: HOSTILE}, which=0)
    text = text_of(story)
    assert [tag for tag, _ in Elements(text).found] == [tag for tag, _ in plain.found]
    assert data_in(text)["run"]["plan"] == HOSTILE
    assert "</script><script>document" not in text
    (_, data), _ = Elements(text).of("script")
    assert not set("<>&\u2028\u2029") & set(data)
    story.altered(Kind.RUN_STARTED, lambda _: {"plan": "{{script}}"}, which=0)
    assert data_in(text_of(story))["run"]["plan"] == "{{script}}"


def test_the_scripts_write_text_as_text() -> None:
    for name in SCRIPTS:
        code = (ASSETS / name).read_text()
        for unsafe in (
            "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
            "new Function", "setTimeout", "fetch(", "XMLHttpRequest", "import(",
        ):  # fmt: skip
            assert unsafe not in code, f"{name}: {unsafe}"


def test_a_run_without_a_verdict_or_without_any_line_has_a_page(tmp_path: Path) -> None:
    path = write_page(tmp_path, None, half_killed().history(until=400))
    assert path == tmp_path / "report.html"
    data = data_in(path.read_text())
    assert (data["verdict"], data["facts"]["source"]) == (None, None)
    assert not data["run"]["has_ended"]
    empty = Story().history()
    assert data_in(write_page(tmp_path, judged(empty), empty).read_text())["run"]["lanes"] == []
    with pytest.raises(FleetError, match=r"report\.html"):
        write_page(tmp_path / "gone", None, empty)


def test_the_files_of_the_record_are_in_it_and_cut_where_they_are_long(tmp_path: Path) -> None:
    record = tmp_path / "runs" / "a plan" / "id"
    record.mkdir(parents=True)
    (record / "plan.source.yaml").write_text("# as written\n" + "x" * 50_000)
    (record / "plan.resolved.yaml").write_text("version: 1\nname: a plan\n")
    (record / "run.json").write_text('{"versions": {"jax": "1"}, "tokens": "not for a page"}')
    facts = data_in(write_page(record, None, half_killed().end().history()).read_text())["facts"]
    assert facts["source"].startswith("# as written")
    assert len(facts["source"]) < 17_000
    assert "characters more in plan.source.yaml" in facts["source"]
    assert facts["repeat"] == "chaoslab run 'runs/a plan/id/plan.resolved.yaml'"
    assert facts["run"] == {"versions": {"jax": "1"}}


@pytest.mark.deep
def test_an_hour_of_sixteen_learners_with_everything_stays_below_300_kb(tmp_path: Path) -> None:
    pace = Pace(tick_s=1.0, steps=1, ticks=4)
    twin = (
        Counted(learners=16, pace=pace, is_twin=True)
        .baseline(120)
        .train(3480)
        .settle()
        .end(losses=LOSSES)
    )
    story = Counted(learners=16, pace=pace, rejoin_s=2.0, twin=twin).baseline(120)
    for number in range(50):
        name = f"learner-{number % 16}"
        story.cut(name, for_s=20.0) if number % 3 == 0 else story.kill(name, for_s=20.0)
        story.train(20).heal().train(45)
    history = story.train(200).settle().end(losses=LOSSES).history()
    (tmp_path / "plan.source.yaml").write_text("x" * 5_000)
    (tmp_path / "plan.resolved.yaml").write_text("x" * 5_000)
    (tmp_path / "schedule.jsonl").write_text("x" * 10_000)
    path = write_page(tmp_path, judged(history), history)
    assert len(data_in(path.read_text())["run"]["links"]["rows"]) == 6
    assert path.stat().st_size < 300_000, path.stat().st_size
