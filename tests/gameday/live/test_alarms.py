"""Alarms of monitoring systems: who may send them, what becomes a note, and how often.

The last test needs Alertmanager (`apt-get install prometheus-alertmanager`) and is skipped without.
"""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from ruamel.yaml import YAML

from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import AlarmState
from chaoslab.gameday.live.access import Access, Denied, Role
from chaoslab.gameday.live.alarms import ALERTS_MOST, Alarms
from chaoslab.gameday.live.bodies import TEXT_MOST
from chaoslab.run.operators import Note
from tests.gameday.live.visitors import Answer, Stand, Visitor, opened
from tests.virtual_clock import VirtualClock

TOKEN = "5a" * 32
BEARER = f"Bearer {TOKEN}"
STARTED = "2026-01-31T12:00:00.123456789Z"
STARTED_S = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC).timestamp()
MONITORING = Path(__file__).parents[3] / "docker" / "monitoring"


def alert(**changed: Json) -> dict[str, Json]:
    return {
        "status": "firing",
        "labels": {
            "alertname": "LearnerStandsStill", "learner": "learner-1", "instance": "a:9464",
        },
        "annotations": {
            "summary": "it stands", "description": "for\n10 s", "runbook_url": "http://a/",
        },
        "startsAt": STARTED,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://a/graph",
        "fingerprint": "0a1b",
        **changed,
    }  # fmt: skip


def body(*alerts: Json, **changed: Json) -> dict[str, Json]:
    """As Alertmanager 0.28 sends it."""
    return {
        "version": "4",
        "groupKey": "{}:{}",
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "gameday",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://a:9093",
        "alerts": list(alerts or (alert(),)),
        **changed,
    }


def from_grafana(*alerts: Json) -> dict[str, Json]:
    return body(*alerts, version="1", orgId=1, title="[FIRING:1]", state="alerting", message="…")


@pytest.fixture
def stand() -> Iterator[Stand]:
    with opened(alarms=TOKEN) as made:
        yield made


def send(stand: Stand, what: object, **headers: str | None) -> Answer:
    """As a machine does: no cookie, no Origin."""
    return Visitor(stand.page).post(
        "/alarms", what, **{"Origin": None, "Authorization": BEARER, **headers}
    )


def noted(stand: Stand, number: int = 1) -> list[Note]:
    found = [one for one in stand.taken(number) if isinstance(one, Note)]
    assert len(found) == number
    return found


# ---------------------------------------------------------------- what becomes of them


def test_an_alarm_becomes_a_note_that_says_everything_about_it() -> None:
    (note,) = Alarms().notes(body(), now_s=STARTED_S + 4.5)
    assert note == Note(
        by="alertmanager",
        text="LearnerStandsStill fires (instance=a:9464, learner=learner-1): it stands; for 10 s",
        alarm=AlarmState.FIRING,
        firing_s=4.5,
    )


def test_it_is_noted_once_when_it_fires_and_once_when_it_is_resolved() -> None:
    alarms = Alarms()
    resolved = alert(status="resolved")
    later = alert(startsAt="2026-01-31T13:00:00Z")
    told = [
        [note.text.split(" (")[0] for note in alarms.notes(body(*some), now_s=0.0)]
        for some in ([alert(), alert()], [alert()], [resolved, alert()], [resolved], [later])
    ]
    fires, is_resolved = "LearnerStandsStill fires", "LearnerStandsStill is resolved"
    assert told == [[fires], [], [is_resolved], [], [fires]]


def test_grafana_is_known_by_its_own_words() -> None:
    (note,) = Alarms().notes(from_grafana(alert(annotations={})), now_s=0.0)
    assert (note.by, note.firing_s) == ("grafana", 0.0)
    assert note.text.endswith("(instance=a:9464, learner=learner-1)")


def test_without_a_fingerprint_labels_tell_alarms_apart() -> None:
    one = {key: value for key, value in alert().items() if key != "fingerprint"}
    other = {**one, "labels": {"alertname": "Other"}}
    alarms = Alarms()
    assert len(alarms.notes(body(one, other), now_s=0.0)) == 2
    assert alarms.notes(body(other, one), now_s=0.0) == []


def test_a_note_is_short_and_printable_whatever_is_sent() -> None:
    said = alert(annotations={"summary": "a\x1b[31m" + "x" * 9999}, labels=None)
    (note,) = Alarms().notes(body(said), now_s=0.0)
    assert len(note.text) == TEXT_MOST
    assert note.text.startswith("an alarm without a name fires: a\\x1b[31mxx")


def test_the_oldest_alarms_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaoslab.gameday.live.alarms._SEEN_MOST", 2)
    alarms = Alarms()
    for name in "abac":
        alarms.notes(body(alert(fingerprint=name)), now_s=0.0)
    again = [len(alarms.notes(body(alert(fingerprint=name)), now_s=0.0)) for name in "acb"]
    assert again == [0, 0, 1]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (body(version="3"), 'version: must be "4" (Alertmanager) or "1" (Grafana), not \'3\''),
        (body(version=4), "version: must be"),
        ({**from_grafana(), "version": "4"}, "version: must be"),
        ({"alerts": []}, "not missing"),
        (body(alerts={}), "alerts: must be a list"),
        (body("x"), "alerts[0]: must be an object"),
        (
            body(alert(), alert(status="on")),
            "alerts[1].status: must be firing or resolved, not 'on",
        ),
        (body(alert(status=None)), "alerts[0].status: must be firing or resolved, not missing"),
        (body(alert(status=[])), "alerts[0].status: must be"),
        (body(alert(labels={"a": 1})), "alerts[0].labels: must be an object whose values are text"),
        (body(alert(annotations=["a"])), "alerts[0].annotations: must be an object"),
        (body(alert(startsAt=None)), "alerts[0].startsAt: must be a time with its zone"),
        (
            body(alert(startsAt="2026-01-31T12:00:00")),
            "with its zone, such as 2026-01-31T12:00:00Z",
        ),
        (body(alert(startsAt=7)), "alerts[0].startsAt: must be a time"),
        (body(alert(fingerprint=7)), "alerts[0].fingerprint: must be text"),
    ],
)
def test_what_is_no_alarm_is_refused_whole(wrong: Mapping[str, Json], why: str) -> None:
    alarms = Alarms()
    with pytest.raises(Denied) as denied:
        alarms.notes(wrong, now_s=0.0)
    assert why in str(denied.value)
    assert denied.value.status == 400
    assert len(alarms.notes(body(), now_s=0.0)) == 1


def test_too_many_at_once_are_refused() -> None:
    with pytest.raises(Denied, match="set `max_alerts`") as denied:
        Alarms().notes(body(*[alert()] * (ALERTS_MOST + 1)), now_s=0.0)
    assert denied.value.status == 413


# ---------------------------------------------------------------- who may send them


def test_a_machine_with_the_token_needs_neither_cookie_nor_origin(stand: Stand) -> None:
    answer = send(stand, body())
    assert (answer.status, json.loads(answer.text)) == (202, {"noted": 1})
    assert json.loads(send(stand, body()).text) == {"noted": 0}
    (note,) = noted(stand)
    assert note.firing_s > 0
    assert "content-security-policy" in {name.lower() for name in answer.headers}


def test_it_may_come_by_another_name_of_the_machine(stand: Stand) -> None:
    assert send(stand, body(), Host="trainer.example.org:1").status == 202
    assert Visitor(stand.page).ask("GET", "/enter", Host="trainer.example.org:1").status == 403


@pytest.mark.parametrize("given", [None, "", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN[2:]}"])
def test_without_the_token_nothing_is_taken(stand: Stand, given: str | None) -> None:
    answer = send(stand, body(), Authorization=given)
    assert (answer.status, "--alarms" in answer.error) == (401, True)
    assert not list(stand.inbox.take())


def test_neither_the_cookie_of_an_operator_nor_their_link_lets_alarms_in(stand: Stand) -> None:
    ann = stand.operator()
    assert ann.post("/alarms", body()).status == 401
    assert ann.post("/alarms", body(), Authorization=f"Bearer {stand.token('Bo')}").status == 401


def test_the_token_is_good_for_nothing_else(stand: Stand) -> None:
    visitor = Visitor(stand.page)
    assert visitor.enter(TOKEN).status == 403
    assert visitor.post("/note", {"text": "x"}, Authorization=BEARER).status == 401
    assert visitor.get("/stream", Authorization=BEARER).status == 401


def test_without_the_option_there_are_no_alarms() -> None:
    with opened() as closed:
        answer = send(closed, body())
    assert (answer.status, "--alarms" in answer.error) == (404, True)


def test_wrong_tokens_are_counted_and_do_not_keep_the_right_one_out() -> None:
    access = Access(VirtualClock(), alarms=TOKEN)
    statuses = []
    for _ in range(12):
        with pytest.raises(Denied) as denied:
            access.admit_alarms("Bearer x", address="a")
        statuses.append(denied.value.status)
    assert statuses == [401] * 10 + [429] * 2
    access.admit_alarms(BEARER, address="a")


def test_requests_are_limited() -> None:
    access = Access(VirtualClock(), alarms=TOKEN)
    for _ in range(30):
        access.admit_alarms(BEARER, address="a")
    with pytest.raises(Denied) as denied:
        access.admit_alarms(BEARER, address="b")
    assert denied.value.status == 429


@pytest.mark.parametrize("name", ["alertmanager", "Grafana"])
def test_nobody_takes_the_name_of_a_machine(name: str) -> None:
    access = Access()
    with pytest.raises(Denied, match=name):
        access.enter(access.invite(Role.VIEWER), name, address="a")


def test_a_body_that_is_no_json_or_too_long_is_refused(stand: Stand) -> None:
    asked = {"Origin": None, "Authorization": BEARER}
    visitor = Visitor(stand.page)
    assert visitor.ask("POST", "/alarms", raw=b"{", **asked).status == 400
    long = visitor.ask("POST", "/alarms", raw=b" " * (1 << 19), **asked)
    assert (long.status, "262144" in long.error) == (413, True)
    text = send(stand, body(), Content_Type="text/plain")
    assert (text.status, text.error.split(":")[0]) == (400, "Content-Type")
    assert Visitor(stand.page).get("/alarms", Authorization=BEARER).status == 405


def test_nothing_is_taken_once_the_run_is_over(stand: Stand) -> None:
    stand.tell(Kind.RUN_FINISHED, outcome="completed", reason="")
    with stand.viewer().stream() as stream:
        stream.until_over()
    assert send(stand, body()).status == 409


# ---------------------------------------------------------------- by Alertmanager itself


@contextmanager
def alertmanager(folder: Path, page: str) -> Iterator[str]:
    """A server with the configuration of docker/monitoring, but for where the page is."""
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        pytest.skip("needs Alertmanager: apt-get install prometheus-alertmanager")
    (folder / "alarms").write_text(f"{TOKEN}\n")
    written = (MONITORING / "alertmanager.yaml").read_text()
    written = written.replace("/run/secrets/alarms", str(folder / "alarms"))
    (folder / "alertmanager.yaml").write_text(written.replace("http://127.0.0.1:8080", page))
    with socket.create_server(("127.0.0.1", 0)) as one:
        address = f"127.0.0.1:{one.getsockname()[1]}"
    with subprocess.Popen(
        [program, f"--config.file={folder}/alertmanager.yaml", f"--storage.path={folder}/data",
         f"--web.listen-address={address}", "--cluster.listen-address="],
        stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        try:
            yield f"http://{address}"
        finally:
            server.terminate()


def fire(url: str, labels: Mapping[str, str], **more: Any) -> None:
    """Post an alert as Prometheus does, once the server is there."""
    data = json.dumps([{"labels": labels, "annotations": {"summary": "it stands"}, **more}])
    request = Request(f"{url}/api/v2/alerts", data.encode(), {"Content-Type": "application/json"})
    for _ in range(600):
        try:
            with urlopen(request, timeout=20) as answer:
                assert answer.status == 200
                return
        except URLError:
            Event().wait(0.1)
    raise AssertionError("Alertmanager does not answer")


@pytest.mark.deep
def test_alertmanager_delivers_what_fires_and_what_is_resolved(
    stand: Stand, tmp_path: Path
) -> None:
    labels = {"alertname": "LearnerStandsStill", "learner": "learner-1"}
    with alertmanager(tmp_path, stand.page.address.url) as url:
        fire(url, labels)
        (first,) = noted(stand)
        fire(url, labels, endsAt=datetime.now(UTC).isoformat())
        _, second = noted(stand, 2)
    text = "LearnerStandsStill {} (learner=learner-1): it stands"
    assert (first.text, first.by) == (text.format("fires"), "alertmanager")
    assert (second.text, second.alarm) == (text.format("is resolved"), AlarmState.RESOLVED)


def test_the_receiver_and_the_page_are_of_one_mind() -> None:
    found = YAML(typ="safe").load((MONITORING / "alertmanager.yaml").read_text())
    ((hook,),) = [one["webhook_configs"] for one in found["receivers"]]
    assert hook["url"].endswith("/alarms")
    assert hook["max_alerts"] == ALERTS_MOST
