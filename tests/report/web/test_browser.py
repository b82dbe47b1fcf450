"""The page in a real browser: it draws everything, asks for nothing, and does what keys say."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaoslab.core.events import Kind
from chaoslab.report.web.page import write_page
from tests.chromium import APPEARANCES, Browser, Page
from tests.histories import Story, half_killed
from tests.report.web.stories import CHARTS, judged, values_of_charts, whole_story
from tests.report.web.test_page import HOSTILE

pytestmark = [pytest.mark.deep]


@dataclass(frozen=True, slots=True)
class Reports:
    """Pages of stories, in one browser."""

    browser: Browser
    folder: Path

    def open(self, story: Story, name: str = "story", **how: Any) -> Page:
        file = self.folder / f"{name}.html"
        if not file.exists():
            history = story.history()
            write_page(self.folder, judged(history), history, to=file)
        return self.browser.open(file, **how)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reports]:
    with Browser() as browser:
        yield Reports(browser, tmp_path_factory.mktemp("reports"))


def view(page: Page) -> tuple[float, float]:
    """The part of the run that is seen, by the labels of the first and the last tick."""
    labels = page.js(
        "[...document.querySelectorAll('.axis svg text')].map((one) => one.textContent)"
    )
    times = [float(label.split()[0]) for label in labels if re.fullmatch(r"[\d.]+ s", label)]
    return times[0], times[-1]


@pytest.mark.gate
def test_every_chart_has_data_and_nothing_goes_wrong(reports: Reports) -> None:
    page = reports.open(whole_story())
    found = values_of_charts(page)
    assert list(found) == CHARTS
    assert all(number > 0 for number in found.values()), found
    assert page.troubles == []


def test_its_policy_keeps_it_from_the_network(reports: Reports) -> None:
    page = reports.open(whole_story())
    refused = page.js("fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => error.name)")
    assert refused == "TypeError"
    assert any("Content Security Policy" in trouble for trouble in page.troubles)


def test_faults_are_shaded_in_every_chart_and_lines_are_labelled(reports: Reports) -> None:
    page = reports.open(whole_story())
    bands = page.js(
        "[...document.querySelectorAll('#charts figure > svg')]"
        ".slice(1).map((one) => one.querySelectorAll('.band').length)"
    )
    assert bands == [2] * (len(CHARTS) - 1)
    labels = page.js(
        "[...document.querySelectorAll('#chart-loss text.strong')].map((one) => one.textContent)"
    )
    assert sorted(labels) == ["survivors", "twin", "victims"]


def test_all_charts_are_zoomed_together_by_mouse_and_by_keys(reports: Reports) -> None:
    page = reports.open(whole_story())
    first = view(page)
    bars = "document.querySelector('#chart-{} .band').getBoundingClientRect().width"
    before = [page.js(bars.format(name)) for name in ("lanes", "tokens")]
    page.js("document.getElementById('charts').focus()")
    page.press("+")
    after = [page.js(bars.format(name)) for name in ("lanes", "tokens")]
    assert after[0] == after[1] != before[0] == before[1]
    page.press("0")
    assert view(page) == first
    box = page.js("(() => { const b = document.querySelector('.axis svg').getBoundingClientRect();"
                  "return [b.left, b.top, b.width]; })()")  # fmt: skip
    page.drag(box[0] + 0.4 * box[2], box[0] + 0.5 * box[2], box[1] + 10)
    low, high = view(page)
    assert high - low < (first[1] - first[0]) / 4


def test_the_cursor_says_what_was_when(reports: Reports) -> None:
    page = reports.open(whole_story())
    page.js("document.getElementById('charts').focus()")
    for _ in range(3):
        page.press("ArrowLeft")
    said = page.js("document.querySelector('#charts [role=status]').textContent")
    assert re.search(r"^[\d.]+ s; .*survivors [\d.]+", said)
    assert page.js("!document.querySelector('.cursor').hidden")
    page.press("Escape")
    assert page.js("document.querySelector('.cursor').hidden")


def test_a_finding_opens_by_key_and_shows_its_journal_lines(reports: Reports) -> None:
    story = Story().baseline().kill("learner-1").train(6).heal(restarts=False)
    page = reports.open(story.train(40).settle().end(), "fails")
    assert page.js("document.querySelector('.finding').open"), "one that fails is open at once"
    page.js("(() => { const all = [...document.querySelectorAll('.finding')];"
            "window.last = all.find((one) => !one.open && one.querySelector('.lines'));"
            "window.last.querySelector('summary').focus(); })()")  # fmt: skip
    page.press("Enter")
    assert page.js("window.last.open")
    line = page.js("window.last.querySelector('.lines code').textContent")
    assert re.search(r"^[a-z.]+ \S+, line \d+ {", line)


def test_what_is_not_pass_stands_above_the_charts_and_what_is_below(reports: Reports) -> None:
    page = reports.open(whole_story())
    sections = page.js("[...document.querySelectorAll('section')].map((one) => one.id)")
    assert sections[:3] == ["findings", "over-time", "passed"]
    outcomes = "[...document.querySelectorAll('#{} .tag')].map((one) => one.textContent)"
    above, below = (page.js(outcomes.format(one)) for one in ("findings", "passed"))
    assert {"PASS" in one for one in above} == {False}
    assert {"PASS" in one for one in below} == {True}


def test_charts_of_links_are_closed_where_no_fault_acts_on_a_link(reports: Reports) -> None:
    closed = "document.querySelectorAll('#charts details:not([open]) > figure').length"
    assert reports.open(half_killed().end(), "killed").js(closed) > 0
    assert reports.open(whole_story()).js(closed) == 0


def test_a_time_in_the_evidence_leads_to_the_charts(reports: Reports) -> None:
    page = reports.open(whole_story())
    page.js("document.querySelector('#injections .jump').click()")
    assert page.js("!document.querySelector('.cursor').hidden")
    assert page.js("document.activeElement.id") == "charts"


def test_dark_and_light_follow_the_system_and_the_switch(reports: Reports) -> None:
    page = reports.open(whole_story(), is_dark=True)
    theme = "document.documentElement.dataset.theme"
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.js(theme) == "system"
    dark = page.js(paper)
    page.js("document.querySelector('.headline button').click()")
    assert page.js(theme) == "light"
    assert page.js(paper) != dark
    page.js("localStorage.clear()")


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_window(reports: Reports, width: int) -> None:
    page = reports.open(whole_story(), width=width)
    assert page.js("document.documentElement.scrollWidth") <= width
    assert page.js("(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)"
                   "(document.querySelector('#clocks .scroll'))")  # fmt: skip


def test_paper_has_all_findings_open_and_no_buttons(reports: Reports) -> None:
    page = reports.open(whole_story(), is_dark=True)
    assert page.pdf().startswith(b"%PDF")
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    assert page.js("document.querySelectorAll('.finding:not([open])').length") == 0
    page.js("window.dispatchEvent(new Event('afterprint'))")
    assert page.js("document.querySelectorAll('.finding:not([open])').length") > 0
    page.media(medium="print", is_dark=True)
    assert page.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.js("getComputedStyle(document.querySelector('.tools')).display") == "none"


@pytest.mark.gate
def test_no_text_of_a_record_is_carried_out(reports: Reports) -> None:
    story = half_killed().end()
    for kind, key in ((Kind.RUN_STARTED, "plan"), (Kind.RUN_STARTED, "algorithm"),
                      (Kind.EVIDENCE_MEASURED, "text")):  # fmt: skip
        story.altered(kind, lambda _, key=key: {key: HOSTILE}, which=0)
    page = reports.open(story, "hostile")
    assert page.js("document.querySelector('h1').textContent") == HOSTILE
    assert page.js("document.images.length") == 0
    assert page.js("document.title").startswith("UNKNOWN: </script>")
    assert page.troubles == []


def test_a_run_that_has_only_begun_is_drawn(reports: Reports) -> None:
    page = reports.open(Story().start().train(1), "begun")
    assert page.js("document.querySelectorAll('#charts figure').length") >= 2
    assert page.troubles == []


def test_it_is_seen_in_light_dark_and_narrow_and_on_paper(reports: Reports) -> None:
    for name, how in APPEARANCES.items():
        page = reports.open(whole_story(), **how)
        assert page.screenshot(f"story-{name}").stat().st_size > 20_000
