"""Messages to a URL: signed, in order, repeated until accepted, and never in the run's way."""

import base64
import hashlib
import hmac
import json
import queue
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.verdict import judge
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Kind
from chaoslab.report.webhook import Receiver, Webhook
from tests.histories import Story, half_killed

SECRET = "a secret that both have"
WALL = "2026-11-20T05:49:01.744Z"
SOON_S = 60.0
"""Enough on any machine: what is waited for comes at once."""


@dataclass
class Server:
    """A receiver: answers with these codes in turn, then with 204; keeps what it accepted."""

    answers: list[int] = field(default_factory=list)
    attempts: int = 0
    accepted: "queue.Queue[tuple[Message, bytes]]" = field(default_factory=queue.Queue)
    url: str = ""
    hold: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)

    def take(self, within_s: float = SOON_S) -> Mapping[str, Any]:
        """The next message that was accepted, with its signature checked as a receiver would."""
        headers, body = self.accepted.get(timeout=within_s)
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
        assert headers["Content-Type"] == "application/json"
        found: Mapping[str, Any] = json.loads(body)
        return found


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server()
    told.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.attempts += 1
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.hold.wait(SOON_S)
            code = told.answers.pop(0) if told.answers else 204
            if code == 0:
                return  # the connection is closed without an answer
            if code < 300:
                told.accepted.put((self.headers, body))
            self.send_response(code)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            told.answered.set()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        told.url = f"http://127.0.0.1:{http.server_port}/hook"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield told
        told.hold.set()
        http.shutdown()
        thread.join()


def webhook(server: Server, *pauses_s: float) -> Webhook:
    return Webhook(Receiver.of(server.url, SECRET), pauses_s=pauses_s)


def tell(hook: Webhook, story: Story) -> None:
    history = story.history()
    hook.made("20261120T050742Z-3f9a1c")
    for event in history.events:
        hook.see(event)
    hook.judged(judge(history, (Rejoin(),)), WALL)


def test_start_injections_and_verdict_are_told_in_order(server: Server) -> None:
    hook = webhook(server)
    tell(hook, half_killed().end())
    assert hook.close(SOON_S) == ()
    start, injection, verdict = (server.take() for _ in range(3))
    assert [one["type"] for one in (start, injection, verdict)] == [
        "run.started", "fault.injected", "verdict",
    ]  # fmt: skip
    assert start["data"]["run"] == "20261120T050742Z-3f9a1c"
    assert injection["data"]["targets"] == ["learner-1", "learner-3"]
    assert (verdict["data"]["outcome"], verdict["data"]["exit_code"]) == ("PASS", 0)
    assert (verdict["data"]["plan"], verdict["timestamp"]) == (start["data"]["plan"], WALL)


def test_a_fail_is_told_with_its_findings_and_codes(server: Server) -> None:
    hook = webhook(server)
    tell(hook, half_killed().strike("learner-2").end())
    assert hook.close(SOON_S) == ()
    *_, verdict = (server.take() for _ in range(server.accepted.qsize()))
    doubts = verdict["data"]["findings"]
    assert doubts
    assert all(one["outcome"] != "PASS" and one["codes"] for one in doubts)


def test_the_twin_is_not_told(server: Server) -> None:
    hook = webhook(server)
    history = half_killed().end().history()
    hook.made("a")
    for event in (*history.events, *history.events):
        hook.see(event)
    assert hook.close(SOON_S) == ()
    assert [server.take()["type"] for _ in range(2)] == ["run.started", "fault.injected"]
    assert server.accepted.empty()


@pytest.mark.parametrize("answers", [[503, 500], [429], [0, 0]], ids=str)
def test_a_receiver_that_fails_first_gets_the_message_again(
    server: Server, answers: list[int]
) -> None:
    server.answers, failures = answers, len(answers)
    hook = webhook(server, 0.001, 0.001)
    hook.see(half_killed().end().history().of(Kind.RUN_STARTED)[0])
    assert hook.close(SOON_S) == ()
    assert server.take()["type"] == "run.started"
    assert server.attempts == failures + 1


@pytest.mark.parametrize("code", [400, 404, 302])
def test_a_refusal_is_final_and_reported(server: Server, code: int) -> None:
    server.answers = [code]
    hook = webhook(server, 0.001)
    hook.see(half_killed().end().history().of(Kind.RUN_STARTED)[0])
    (problem,) = hook.close(SOON_S)
    assert "run.started" in problem
    assert str(code) in problem
    assert server.attempts == 1


def test_a_receiver_that_is_not_there_is_reported_after_all_attempts() -> None:
    hook = Webhook(Receiver.of("http://127.0.0.1:9/", SECRET), pauses_s=(0.001, 0.001))
    hook.see(half_killed().end().history().of(Kind.RUN_STARTED)[0])
    (problem,) = hook.close(SOON_S)
    assert "run.started" in problem


def test_a_receiver_that_hangs_holds_up_nobody(server: Server) -> None:
    server.hold.clear()
    hook = webhook(server)
    tell(hook, half_killed().end())  # returns at once
    (problem,) = hook.close(0.01)
    assert problem.startswith("3 ")


def test_a_receiver_that_fails_for_ever_ends_when_it_is_closed(server: Server) -> None:
    server.answers = [500] * 100
    hook = webhook(server, 60.0)
    tell(hook, half_killed().end())
    assert server.answered.wait(SOON_S)
    problems = hook.close(0.05)
    assert "run.started" in problems[0]
    assert "500" in problems[0]
    assert problems[1].startswith("2 ")


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(PlanError, match="--notify") as refused:
        Receiver.of("https://me:hunter2@here/hook", "whsec_c2VjcmV0")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://a/b", "example.com", "http://", "http://u:p@a/", "http://["],
)
def test_a_url_that_cannot_be_posted_to_is_refused(url: str) -> None:
    with pytest.raises(PlanError, match="--notify"):
        Receiver.of(url, SECRET)


def test_without_a_secret_nothing_is_told() -> None:
    with pytest.raises(PlanError, match="CHAOSLAB_WEBHOOK_SECRET"):
        Receiver.of("http://a/", "")


def test_a_secret_may_be_written_as_the_specification_does() -> None:
    """The example of the specification's own libraries."""
    receiver = Receiver.of("http://a/", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = receiver.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert "MfKQ" not in repr(receiver)
    with pytest.raises(PlanError, match="whsec_"):
        Receiver.of("http://a/", "whsec_*")
