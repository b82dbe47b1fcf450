"""Messages to a URL: signed, in order, repeated until accepted, and never in the run's way."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.verdict import judge
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Kind
from chaoslab.report.webhook import Receiver, Webhook
from tests.histories import Story, half_killed
from tests.report.http_receiver import Receiver as HttpReceiver
from tests.report.http_receiver import http_receiver

SECRET = "a secret that both have"
WALL = "2026-11-20T05:49:01.744Z"
SOON_S = 60.0
"""Enough on any machine: what is waited for comes at once."""


@pytest.fixture
def server() -> Iterator[HttpReceiver]:
    with http_receiver() as receiver:
        yield receiver


def webhook(server: HttpReceiver, *pauses_s: float) -> Webhook:
    return Webhook(Receiver.of(server.url, SECRET), pauses_s=pauses_s)


def messages(server: HttpReceiver) -> list[Mapping[str, Any]]:
    """All that was posted, with signatures checked as a receiver would."""
    found: list[Mapping[str, Any]] = []
    for _, said, body in server.posted:
        headers = {name.lower(): value for name, value in said.items()}
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
        assert headers["content-type"] == "application/json"
        found.append(json.loads(body))
    return found


def started(hook: Webhook) -> None:
    hook.see(half_killed().end().history().of(Kind.RUN_STARTED)[0])


def tell(hook: Webhook, story: Story) -> None:
    history = story.history()
    hook.made("20261120T050742Z-3f9a1c")
    for event in history.events:
        hook.see(event)
    hook.judged(judge(history, (Rejoin(),)), WALL)


def test_start_and_verdict_are_told_in_order(server: HttpReceiver) -> None:
    hook = webhook(server)
    tell(hook, half_killed().end())
    assert hook.close(SOON_S) == ()
    start, verdict = messages(server)
    assert [one["type"] for one in (start, verdict)] == ["run.started", "verdict"]
    assert start["data"]["run"] == "20261120T050742Z-3f9a1c"
    assert (verdict["data"]["outcome"], verdict["data"]["exit_code"]) == ("PASS", 0)
    assert (verdict["data"]["plan"], verdict["timestamp"]) == (start["data"]["plan"], WALL)


def test_a_fail_is_told_with_its_findings_and_codes(server: HttpReceiver) -> None:
    hook = webhook(server)
    tell(hook, half_killed().strike("learner-2").end())
    assert hook.close(SOON_S) == ()
    doubts = messages(server)[-1]["data"]["findings"]
    assert doubts
    assert all(one["outcome"] != "PASS" and one["codes"] for one in doubts)


def test_the_twin_is_not_told(server: HttpReceiver) -> None:
    hook = webhook(server)
    history = half_killed().end().history()
    hook.made("a")
    for event in (*history.events, *history.events):
        hook.see(event)
    assert hook.close(SOON_S) == ()
    assert [one["type"] for one in messages(server)] == ["run.started"]


@pytest.mark.parametrize("answers", [[503, 500], [429], [0, 0]], ids=str)
def test_a_receiver_that_fails_first_gets_the_message_again(
    server: HttpReceiver, answers: list[int]
) -> None:
    server.first = list(answers)
    hook = webhook(server, 0.001, 0.001)
    started(hook)
    assert hook.close(SOON_S) == ()
    assert [one["type"] for one in messages(server)] == ["run.started"] * (len(answers) + 1)


@pytest.mark.parametrize("code", [400, 404, 302])
def test_a_refusal_is_final_and_reported(server: HttpReceiver, code: int) -> None:
    server.answer, server.to = code, "/elsewhere"
    hook = webhook(server, 0.001)
    started(hook)
    (problem,) = hook.close(SOON_S)
    assert all(part in problem for part in ("run.started", str(code)))
    assert (len(server.posted), server.fetched) == (1, [])


def test_a_receiver_that_is_not_there_is_reported_after_all_attempts() -> None:
    hook = Webhook(Receiver.of("http://127.0.0.1:9/", SECRET), pauses_s=(0.001, 0.001))
    started(hook)
    (problem,) = hook.close(SOON_S)
    assert "run.started" in problem


def test_a_receiver_that_hangs_holds_up_nobody(server: HttpReceiver) -> None:
    hook = webhook(server)
    with server.held:
        tell(hook, half_killed().end())  # returns at once
        (problem,) = hook.close(0.01)
    assert problem.startswith("2 ")


def test_a_receiver_that_fails_for_ever_ends_when_it_is_closed(
    server: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaoslab.report.webhook._ATTEMPT_S", 10 * SOON_S)  # until it has ended
    server.answer = 500
    hook = webhook(server, 60.0)
    tell(hook, half_killed().end())
    assert server.answered.wait(SOON_S)
    problems = hook.close(0.05)
    assert all(part in problems[0] for part in ("run.started", "500"))
    assert problems[1].startswith("1 ")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a/b",
        "example.com",
        "http://",
        "https://me:hunter2@here/hook",
        "http://[",
    ],
)
def test_a_url_that_cannot_be_posted_to_is_refused(url: str) -> None:
    with pytest.raises(PlanError, match="--notify") as refused:
        Receiver.of(url, SECRET)
    assert "hunter2" not in str(refused.value)


def test_a_secret_may_be_written_as_the_specification_does() -> None:
    """The example of the specification's own libraries."""
    receiver = Receiver.of("http://a/", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = receiver.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert "MfKQ" not in repr(receiver)
    for wrong in ("whsec_*", ""):
        with pytest.raises(PlanError, match="CHAOSLAB_WEBHOOK_SECRET"):
            Receiver.of("http://a/", wrong)
