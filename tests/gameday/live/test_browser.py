"""The live page in a real browser: two people see the same, act, and are kept apart."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Action
from chaoslab.plan.model import GameDay
from chaoslab.run.operators import Ask, Note, Predict
from tests.chromium import Browser, Page
from tests.gameday.live.browsing import ABORT, AGAIN_S, PHASE, card, entered, text
from tests.gameday.live.visitors import BEGUN, HELD, INJECTION, Stand, opened
from tests.gameday_room import plan_of
from tests.histories import Story

pytestmark = [pytest.mark.deep, pytest.mark.alone]
HOSTILE = "</li><img src=x onerror=alert(1)><script>alert(2)</script>"
CARD = card("half-dies")
SECOND = {**HELD, "spec": "other", "targets": ["learner-2"]}
CHARTER = GameDay(
    owner="Training infrastructure",
    facilitator="Ann",
    scribe="Dee",
    responders=("Bo", "Cy"),
    hypotheses={"half-dies": "Training goes on; both are back within 30 s."},
)


@dataclass
class Watched:
    """A page that is served, a story that its run tells, and browsers."""

    stand: Stand
    browsers: list[Browser]
    story: Story = field(default_factory=Story)

    def open(self, token: str, name: str = "", *, which: int = 0, **how: Any) -> Page:
        """A browser follows a link, and enters."""
        link = f"{self.stand.page.address.url}/enter#{token}"
        return entered(self.browsers[which], link, name, **how)

    def tell_story(self) -> None:
        """A training that has come to the first decision."""
        self.story.baseline()
        for event in self.story.events:
            self.stand.page.see(event)
        self.tell(Kind.FAULT_HELD, self.story.now_s, **HELD)

    def tell_injection(self) -> None:
        """The decision is taken, and another one waits."""
        at_s = self.story.now_s
        self.tell(
            Kind.OPERATOR_PREDICTED, at_s, by="Cy", spec="half-dies", continues=True,
            gap_s=2.5, hit=["learner-2"], back_s=10.0,
        )  # fmt: skip
        self.tell(Kind.OPERATOR_ACTED, at_s, by="Ann", spec="half-dies", action="go")
        self.tell(Kind.FAULT_INJECTING, at_s + 0.1, **BEGUN)
        for name in ("learner-1", "learner-3"):
            self.story.strike(name)
            self.stand.page.see(self.story.events[-1])
        self.tell(Kind.FAULT_INJECTED, at_s + 0.2, **INJECTION)
        self.tell(Kind.FAULT_HELD, at_s + 0.3, **SECOND)

    def tell(self, kind: Kind, time_s: float = 9.0, **data: Json) -> None:
        self.stand.tell(kind, time_s, **data)


@pytest.fixture(scope="module")
def browsers() -> Iterator[list[Browser]]:
    with Browser() as one, Browser() as other:
        yield [one, other]


@pytest.fixture
def watched(browsers: list[Browser]) -> Iterator[Watched]:
    with opened(plan=plan_of(gameday=CHARTER), keep=True) as stand:
        yield Watched(stand, browsers)


def operator(watched: Watched, **how: Any) -> Page:
    return watched.open(watched.stand.token("Ann"), **how)


def viewer(watched: Watched, name: str = "Cy", **how: Any) -> Page:
    return watched.open(watched.stand.token(), name, which=1, **how)


@pytest.mark.gate
def test_the_abort_of_an_operator_asks_once_and_both_see_it(watched: Watched) -> None:
    ann, cy = operator(watched), viewer(watched)
    assert cy.js(f"{ABORT}.hidden")
    assert ann.js(f"{ABORT}.textContent") == "Abort and heal everything"
    ann.js(f"{ABORT}.focus()")
    ann.press("Enter")
    assert ann.js(f"{ABORT}.textContent") == "Press again to abort"
    threading.Event().wait(AGAIN_S)
    assert list(watched.stand.inbox.take()) == []
    ann.press("Enter")
    assert watched.stand.taken() == [Ask(by="Ann", action=Action.ABORT)]
    watched.tell(Kind.OPERATOR_ACTED, by="Ann", spec="", action="abort")
    watched.tell(Kind.RUN_FINISHED, outcome="aborted", reason="Ann aborted it")
    for page in (ann, cy):
        page.until(PHASE, "aborted: Ann aborted it")
        assert "Ann: abort" in text(page)
    assert ann.js(f"{ABORT}.hidden"), "there is nothing left to abort"


@pytest.mark.gate
def test_the_last_minutes_are_drawn(watched: Watched) -> None:
    cy = viewer(watched)
    watched.tell_story()
    cy.until("document.querySelectorAll('#curves figure svg[data-values]').length", 4)
    assert cy.troubles == []


def test_a_double_click_is_one_press_and_five_seconds_later_it_asks_anew(watched: Watched) -> None:
    ann = operator(watched)
    ann.js(f"{ABORT}.click(); {ABORT}.click()")
    assert ann.js(f"{ABORT}.textContent").startswith("Press again")
    ann.until(f"{ABORT}.textContent", "Abort and heal everything", within_s=8.0)
    assert list(watched.stand.inbox.take()) == []


def test_hostile_text_is_shown_as_text(watched: Watched) -> None:
    ann, cy = operator(watched), viewer(watched, HOSTILE[:40])
    watched.tell_story()
    cy.until(f"{CARD}?.dataset.stage", "waits")
    cy.js(f"document.getElementById('note-text').value = {HOSTILE!r}")
    cy.js("document.querySelector('#note button').click()")
    (note,) = watched.stand.taken()
    assert note == Note(by=HOSTILE[:40], text=HOSTILE)
    watched.tell(Kind.OPERATOR_NOTED, by=HOSTILE[:40], text=HOSTILE)
    watched.tell(Kind.OPERATOR_REFUSED, by=HOSTILE, spec="", asked=HOSTILE, reason=HOSTILE)
    watched.tell(Kind.OPERATOR_PREDICTED, by=HOSTILE, spec="half-dies", hit=[HOSTILE])
    watched.tell(Kind.FAULT_INJECTING, **{**BEGUN, "targets": [HOSTILE]})
    for page in (ann, cy):
        page.until(f"{CARD}.dataset.stage", "active")
        assert f"notes: {HOSTILE}" in text(page)
        assert page.js("document.images.length") == 0
        assert page.troubles == []


def test_its_policy_keeps_scripts_of_others_out(watched: Watched) -> None:
    cy = viewer(watched)
    said = cy.js("(() => { try { document.body.innerHTML = '<b>'; return 'done' } "
                 "catch (error) { return error.name } })()")  # fmt: skip
    assert said == "TypeError"
    assert cy.js("fetch('http://127.0.0.1:9/').then(() => 'sent', (e) => e.name)") == "TypeError"
    assert cy.js("document.cookie") == ""


def test_a_viewer_predicts_and_finds_it_again(watched: Watched) -> None:
    cy = viewer(watched)
    watched.tell_story()
    cy.until(f"{CARD}?.dataset.stage", "waits")
    cy.js(f"""(() => {{
        const form = {CARD}.querySelector('form');
        form.closest('details').open = true;
        form.elements.continues.value = 'yes';
        form.elements.gap_s.value = '2.5';
        form.querySelector('[value=learner-1]').click();
        form.querySelector('button').click();
    }})()""")
    assert watched.stand.taken() == [
        Predict(by="Cy", spec="half-dies", continues=True, gap_s=2.5, hit=("learner-1",))
    ]
    cy.until(f"{CARD}.querySelector('form + .answer').textContent", "prediction: kept")
    cy.ask("Page.reload")
    cy.until(f"{CARD}?.querySelector('[name=gap_s]').value", "2.5")
    assert cy.js(f"{CARD}.querySelector('[value=learner-1]').checked")


def test_what_is_typed_survives_what_happens(watched: Watched) -> None:
    ann = operator(watched)
    watched.tell_story()
    ann.until(f"{CARD}?.dataset.stage", "waits")
    ann.js(f"{CARD}.querySelector('.controls input').focus()")
    for key in "all":
        ann.press(key)
    watched.tell(Kind.FAULT_HELD, **SECOND)
    watched.tell(Kind.OPERATOR_ACTED, by="Bo", spec="half-dies", action="go")
    ann.until(f"{CARD}.dataset.stage", "to come")
    for key in "out":
        ann.press(key)
    assert ann.js("document.activeElement.value") == "allout"
    ann.js(f"{CARD}.querySelector('[data-action=skip]').click()")
    assert watched.stand.taken() == [
        Ask(by="Ann", action=Action.SKIP, spec="half-dies", reason="allout")
    ]


@pytest.mark.parametrize("width", [320, 360, 390, 768])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_phone_shows_everything_and_the_way_out(
    watched: Watched, width: int, is_done: bool
) -> None:
    ann = operator(watched, width=width, height=740)
    watched.tell_story()
    if is_done:
        watched.tell_injection()
    ann.until(f"{CARD}?.dataset.stage", "active" if is_done else "waits")
    ann.js("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert ann.js("document.documentElement.scrollWidth") <= width
    for place in (0, 400, 100_000):
        ann.js(f"window.scrollTo(0, {place})")
        top, bottom, left, right = ann.js(
            f"(() => {{ const b = {ABORT}.getBoundingClientRect();"
            "return [b.top, b.bottom, b.left, b.right]; })()"
        )
        assert 0 <= top < bottom <= 740
        assert 0 <= left < right <= width
        assert bottom - top >= 40, "a thumb hits it"


def test_all_controls_have_names_and_can_be_reached(watched: Watched) -> None:
    ann = operator(watched)
    watched.tell_story()
    watched.tell_injection()
    ann.until(f"{CARD}?.dataset.stage", "active")
    nameless = ann.js("""[...document.querySelectorAll('button, input, select')].filter((one) =>
        !(one.textContent.trim() || one.labels?.length || one.getAttribute('aria-label')))
        .map((one) => one.outerHTML)""")
    assert nameless == []
    assert ann.js("document.getElementById('sentences').getAttribute('aria-live')") == "polite"
    reached = set()
    for _ in range(30):
        ann.press("Tab")
        reached.add(ann.js("document.activeElement.textContent || document.activeElement.name"))
    assert {"Abort and heal everything", "Heal", "Go", "Keep", "text"} <= reached


def test_the_entrance_says_what_it_asks_for(watched: Watched) -> None:
    url = watched.stand.page.address.url
    page = watched.browsers[1].visit(f"{url}/enter#{watched.stand.token()}", width=360, height=740)
    page.until("!document.getElementById('enter').hidden")
    assert page.js("document.activeElement.id") == "name"
    assert page.js("document.documentElement.scrollWidth") <= 360
