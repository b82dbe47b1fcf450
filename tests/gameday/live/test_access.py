"""Who gets in, from where, how often, and that nothing changes without a POST of the own page."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import Action
from chaoslab.gameday.live import access as access_module
from chaoslab.gameday.live.access import Access, Address, Denied, RateLimit, Role
from chaoslab.gameday.live.server import Listen
from chaoslab.run.operators import Ask, Note, Predict
from tests.gameday.live.visitors import Stand, Visitor, opened
from tests.gameday_room import plan_of
from tests.virtual_clock import VirtualClock

PAGES = ("/", "/stream", "/assets/live.js", "/assets/nothing")
GO = {"action": "go", "fault": "half-dies"}


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    with opened() as made:
        yield made


# ---------------------------------------------------------------- links and cookies


def test_the_link_of_an_operator_can_be_used_once(stand: Stand) -> None:
    ann = stand.operator("Bo")
    assert ann.get("/").status == 200
    again = Visitor(stand.page).enter(stand.token("Bo"))
    assert again.status == 403
    assert ann.get("/").status == 200


def test_the_link_of_viewers_can_be_used_by_many(stand: Stand) -> None:
    assert [stand.viewer().get("/").status for _ in range(3)] == [200] * 3


def test_a_link_tells_which_run_it_is_for_and_who_watches_and_is_not_used_up() -> None:
    with opened() as fresh:
        with fresh.viewer("Cy").stream() as cy, fresh.viewer().stream() as nameless:
            for stream in (cy, nameless):
                stream.until("picture")
            answer = Visitor(fresh.page).post("/invitation", {"token": fresh.token("Bo")})
        told = json.loads(answer.text)
        assert fresh.operator("Bo").get("/").status == 200
    assert (told["plan"], told["role"], told["name"]) == (plan_of().name, "operator", "Bo")
    assert (told["people"], told["watching"]) == (["Cy"], 2)


def test_without_a_link_nothing_is_told_of_the_run(stand: Stand) -> None:
    answer = stand.viewer("Cy").post("/invitation", {"token": "v-nothing"})
    assert answer.status == 403
    assert plan_of().name not in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_nothing_but_the_entrance_is_shown_without_a_cookie(stand: Stand, path: str) -> None:
    stranger = Visitor(stand.page)
    assert stranger.get(path).status == 401
    assert Visitor(stand.page, cookie="x=y").get(path).status == 401
    assert [stranger.get(f"/{one}").status for one in ("enter", "assets/enter.js")] == [200, 200]


def test_every_script_and_style_that_the_page_names_is_served_to_those_who_are_in() -> None:
    with opened() as fresh:
        cy, stranger = fresh.viewer("Cy"), Visitor(fresh.page)
        named = set(re.findall(r"/assets/([\w.]+)", cy.get("/").text))
        for script in [one for one in named if one.endswith(".js")]:
            imported = re.findall(r'from "\./([\w.]+)"', cy.get(f"/assets/{script}").text)
            named |= set(imported)
        assert {"charts.js", "charts.css", "curves.js", "cards.js"} <= named
        assert {cy.get(f"/assets/{one}").status for one in named} == {200}
        closed = named - {"live.css"}
        assert {stranger.get(f"/assets/{one}").status for one in closed} == {401}
        assert "class TimeAxis" in cy.get("/assets/charts.js").text


def test_a_cookie_is_not_for_scripts_nor_for_other_sites(stand: Stand) -> None:
    answer = Visitor(stand.page).enter(stand.token())
    name, *flags = answer.headers["set-cookie"].lower().split("; ")
    assert name.startswith(f"chaoslab-live-{stand.page.address.port}=")
    assert sorted(flags) == ["httponly", "path=/", "samesite=strict"]


def test_a_second_cookie_takes_the_place_of_the_first() -> None:
    access = Access()
    token = access.invite(Role.VIEWER)
    first = access.enter(token, "Cy", address="a")
    second = access.enter(token, "Cy", address="a", cookie=first)
    assert access.visit(second).name == "Cy"
    with pytest.raises(Denied, match="link"):
        access.visit(first)


@pytest.mark.parametrize("name", ["Ann", "ann", "\uff21nn", "Dee"])
def test_nobody_takes_the_name_of_somebody_else(name: str) -> None:
    access = Access()
    access.invite(Role.OPERATOR, "Ann")
    token = access.invite(Role.VIEWER)
    access.enter(token, "Dee", address="a")
    with pytest.raises(Denied) as found:
        access.enter(token, name, address="a")
    assert found.value.status == 409


@pytest.mark.parametrize("name", ["x" * 41, "a\u202eb", "a\x1bb", "\ud800"])
def test_a_name_is_short_and_printable(name: str) -> None:
    access = Access()
    with pytest.raises(Denied) as found:
        access.enter(access.invite(Role.VIEWER), name, address="a")
    assert found.value.status == 400
    with pytest.raises(PlanError, match="--operator"):
        access.invite(Role.OPERATOR, name)


def test_old_viewers_give_way_and_operators_do_not() -> None:
    access = Access()
    ann = access.enter(access.invite(Role.OPERATOR, "Ann"), "", address="a")
    token = access.invite(Role.VIEWER)
    cookies = [access.enter(token, "", address=str(number)) for number in range(1001)]
    assert access.visit(ann).name == "Ann"
    assert access.visit(cookies[1]).role is Role.VIEWER
    with pytest.raises(Denied):
        access.visit(cookies[0])


# ---------------------------------------------------------------- from where


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("host", ["evil.example:80", "evil.example", "127.0.0.1", None])
def test_another_host_is_refused(stand: Stand, method: str, host: str | None) -> None:
    answer = stand.viewer("").ask(method, "/", Host=host)
    assert answer.status in (400, 403)  # uvicorn itself refuses a request without any
    assert "200" not in answer.text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", None])
def test_a_post_of_another_page_is_refused(stand: Stand, origin: str | None) -> None:
    viewer = stand.viewer("Eve" + str(len(origin or "")))
    answer = viewer.post("/note", {"text": "hello"}, Origin=origin)
    assert answer.status == 403
    assert Visitor(stand.page).post("/enter", {"token": stand.token()}, Origin=origin).status == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_body_that_a_form_could_send_is_refused(stand: Stand, kind: str | None) -> None:
    answer = stand.viewer().post("/note", {"text": "hello"}, Content_Type=kind)
    assert (answer.status, answer.error.split(":")[0]) == (400, "Content-Type")


@pytest.mark.parametrize("path", ["/act", "/predict", "/note"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_nothing_is_done_but_by_post(method: str, path: str) -> None:
    with opened() as fresh:
        ann = fresh.operator()
        assert ann.ask(method, f"{path}?action=abort&fault=half-dies", GO).status == 405
        ann.get(f"/enter?token={fresh.token('Bo')}")
        assert list(fresh.inbox.take()) == []
        assert Visitor(fresh.page).enter(fresh.token("Bo")).status == 204, "it was not spent"


def test_every_answer_tells_browsers_to_be_strict(stand: Stand) -> None:
    viewer = stand.viewer()
    for path in ("/", "/enter", "/nothing", "/act", "/assets/live.css"):
        headers = viewer.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
    assert "default-src" in viewer.get("/", Host="evil.example").headers["content-security-policy"]


# ---------------------------------------------------------------- what each may do


def test_an_operator_acts_under_the_own_name() -> None:
    with opened() as fresh:
        ann = fresh.operator()
        assert ann.post("/act", {**GO, "reason": "all  is\ncalm"}).status == 202
        assert ann.post("/predict", {"fault": "other", "gap_s": 3, "hit": []}).status == 202
        assert ann.post("/note", {"text": "it is slow"}).status == 202
        assert fresh.taken(3) == [
            Ask(by="Ann", action=Action.GO, spec="half-dies", reason="all is calm"),
            Predict(by="Ann", spec="other", gap_s=3.0, hit=()),
            Note(by="Ann", text="it is slow"),
        ]


def test_a_viewer_predicts_and_notes_and_does_nothing_else() -> None:
    with opened() as fresh:
        cy = fresh.viewer("Cy")
        for action in Action:
            answer = cy.post("/act", {"action": action, "fault": "half-dies"})
            assert answer.status == 403
        assert cy.post("/predict", {"fault": "half-dies", "continues": False}).status == 202
        assert cy.post("/note", {"text": "look", "fault": "other"}).status == 202
        assert fresh.taken(2) == [
            Predict(by="Cy", spec="half-dies", continues=False),
            Note(by="Cy", text="look", spec="other"),
        ]


def test_who_gives_no_name_only_looks(stand: Stand) -> None:
    nobody = stand.viewer()
    assert nobody.get("/").status == 200
    for path in ("/predict", "/note"):
        answer = nobody.post(path, {"fault": "half-dies", "text": "x"})
        assert answer.status == 403


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/act", {"action": "explode"}, "action: "),
        ("/act", {"action": ["go"]}, "action: "),
        ("/act", {"action": "skip"}, "fault: "),
        ("/act", {"action": "go", "fault": "third"}, "third"),
        ("/act", {"action": "go", "reason": "x" * 301}, "reason: "),
        ("/predict", {"fault": "other"}, ""),
        ("/predict", {"gap_s": 1}, "`fault`"),
        ("/predict", {"fault": "other", "gap_s": -1}, "gap_s: "),
        ("/predict", {"fault": "other", "back_s": 10**400}, "back_s: "),
        ("/predict", {"fault": "other", "gap_s": True}, "gap_s: "),
        ("/predict", {"fault": "other", "continues": "yes"}, "continues: "),
        ("/predict", {"fault": "other", "hit": ["learner-9"]}, "hit: learner-9"),
        ("/predict", {"fault": "other", "hit": "learner-1"}, "hit: "),
        ("/note", {"text": " \n "}, "text: "),
        ("/note", {"text": "x", "by": "Bo"}, "`by`"),
        ("/note", ["x"], "JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(path: str, body: object, why: str) -> None:
    with opened() as fresh:
        answer = fresh.operator().post(path, body)
        assert (answer.status, why in answer.error) == (400, True), answer.error
        assert list(fresh.inbox.take()) == []


@pytest.mark.parametrize("raw", [b"", b"{", b'{"gap_s": NaN', b"\xff", b'{"text": "\\ud800"}'])
def test_a_body_that_is_not_json_is_refused(raw: bytes) -> None:
    with opened() as fresh:
        answer = fresh.operator().ask("POST", "/note", raw=raw)
        assert answer.status == 400


def test_text_that_could_move_a_terminal_is_escaped() -> None:
    with opened() as fresh:
        fresh.operator().post("/note", {"text": "a\x1b[2Jb\u202ec"})
        assert fresh.taken() == [Note(by="Ann", text="a\\x1b[2Jb\\u202ec")]


def test_a_body_that_is_too_long_is_refused(stand: Stand) -> None:
    answer = stand.viewer("Long").post("/note", {"text": "x" * 20_000})
    assert (answer.status, "16384" in answer.error) == (413, True)


# ---------------------------------------------------------------- how often


@pytest.fixture
def frozen_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit fills up again, however slow the machine is."""
    monkeypatch.setattr(access_module, "WallClock", VirtualClock)


@pytest.mark.usefixtures("frozen_time")
def test_orders_come_five_at_once_and_an_abort_always_gets_through() -> None:
    with opened() as fresh:
        ann = fresh.operator()
        answers = [ann.post("/act", {"action": "heal"}) for _ in range(8)]
        assert [one.status for one in answers] == [202] * 5 + [429] * 3
        assert ann.post("/act", {"action": "abort"}).status == 202
        assert fresh.operator("Bo").post("/act", {"action": "heal"}).status == 202


@pytest.mark.usefixtures("frozen_time")
def test_wrong_tokens_are_counted_and_do_not_lock_out_the_right_one() -> None:
    """On loopback, and through `ssh -L`, everybody comes from the same address."""
    with opened() as fresh:
        stranger = Visitor(fresh.page)
        statuses = [stranger.enter(f"o-guess-{number}").status for number in range(11)]
        assert statuses == [403] * 10 + [429]
        for token in (fresh.token("Ann"), fresh.token()):
            assert Visitor(fresh.page).enter(token).status == 204
        assert stranger.enter(fresh.token("Ann")).status == 429, "it was used before"
        assert fresh.page.address.host == "127.0.0.1"


def test_many_cookies_of_viewers_do_not_flood_the_run() -> None:
    clock = VirtualClock()
    access = Access(clock)
    ann = access.enter(access.invite(Role.OPERATOR, "Ann"), "", address="a")
    token = access.invite(Role.VIEWER)
    cookies = [access.enter(token, "", address="a") for _ in range(40)]
    for cookie in cookies[:30]:
        access.take_turn(cookie)
    with pytest.raises(Denied) as found:
        access.take_turn(cookies[30])
    assert found.value.status == 429
    access.take_turn(ann)
    for _ in range(60):
        access.enter(token, "", address="a")
    with pytest.raises(Denied, match="too many at once"):
        access.enter(token, "", address="a")
    access.enter(token, "", address="b")


def test_a_rate_limit_fills_up_again() -> None:
    clock = VirtualClock()
    limit = RateLimit(at_once=2, per_s=2.0, clock=clock)
    for _ in range(2):
        limit.take("a")
    with pytest.raises(Denied, match="1 s"):
        limit.take("a")
    limit.take("b")
    clock.advance_to(0.5)
    limit.take("a")
    with pytest.raises(Denied):
        limit.take("a")


# ---------------------------------------------------------------- beyond this machine


def test_what_others_can_reach_needs_tls() -> None:
    with pytest.raises(PlanError, match=r"gameday\.example.*TLS"):
        Listen(host="gameday.example", port=8443)
    with pytest.raises(PlanError, match="--serve"):
        Listen(host="0.0.0.0")
    with pytest.raises(PlanError, match="--tls-key"):
        Listen(certificate=Path("x.pem"))


def test_files_that_are_no_certificate_are_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("nothing")
    with pytest.raises(PlanError, match="--tls-cert, --tls-key"):
        Listen(certificate=tmp_path / "x.pem", key=tmp_path / "x.pem")
    with pytest.raises(PlanError, match="--tls-cert"):
        Listen(certificate=tmp_path / "y.pem", key=tmp_path / "y.pem")


def test_with_tls_the_cookie_never_travels_in_plaintext(tmp_path: Path) -> None:
    authority = pytest.importorskip("chaoslab.fleet.authority")
    mine = authority.Authority(60.0).issue("localhost", serves=True)
    (tmp_path / "cert.pem").write_bytes(mine.certificate)
    (tmp_path / "key.pem").write_bytes(mine.key)
    listen = Listen(
        host="localhost", certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem"
    )  # fmt: skip
    with opened(listen=listen) as fresh:
        visitor = Visitor(fresh.page, trusts=mine.ca.decode())
        assert fresh.page.links[0].url.startswith("https://localhost:")
        answer = visitor.enter(fresh.token("Ann"))
        name, *flags = answer.headers["set-cookie"].split("; ")
        assert name.startswith("__Host-chaoslab-live-")
        assert "Secure" in flags
        assert visitor.post("/act", {"action": "abort"}).status == 202
        assert visitor.post("/act", {"action": "abort"}, Origin="http://localhost").status == 403


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        (Address(host="a.example", port=443, has_tls=True), {"a.example", "a.example:443"}),
        (Address(host="a.example", port=8443, has_tls=True), {"a.example:8443"}),
        (Address(host="10.0.0.5", port=80, has_tls=True), {"10.0.0.5:80"}),
        (Address(host="fe80::1", port=8443, has_tls=True), {"[fe80::1]:8443"}),
        (Address(host="::1", port=9), {"127.0.0.1:9", "[::1]:9", "localhost:9"}),
    ],
)
def test_hosts_are_those_that_browsers_write(address: Address, hosts: set[str]) -> None:
    assert address.hosts == hosts


def test_a_port_that_is_taken_is_refused(stand: Stand) -> None:
    with pytest.raises(PlanError, match=r"--serve 127"):
        Listen(port=stand.page.address.port).bound()
