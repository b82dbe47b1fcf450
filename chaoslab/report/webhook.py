"""A run told to a URL: its start and its verdict, as signed JSON.

    run ─► Webhook.see ─┐
                        ├─► queue ─► one thread ─► POST, again with growing pauses ─► receiver
    verdict ─► judged ──┘

An observer: it never waits and cannot fail the run. Messages are signed as in the specification
Standard Webhooks 1.0 (standardwebhooks.com), so that receivers find libraries: the headers
`webhook-id`, `webhook-timestamp` and `webhook-signature`, which is `v1,` and the base64 form of
HMAC-SHA256 over `id.timestamp.body`.
"""

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import secrets
import threading
import time
import urllib.error
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json, Kind, encode
from chaoslab.core.payloads import RunStarted
from chaoslab.core.units import plural
from chaoslab.report.posting import is_address, post, shown

SECRET = "CHAOSLAB_WEBHOOK_SECRET"
"""Name of the environment variable that has the secret."""
PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Between two attempts; there is one attempt more."""
_ATTEMPT_S = 5.0
_RETRIED = frozenset({408, 425, 429, *range(500, 600)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """URL of the receiver, and the key with which messages are signed."""

    url: str
    key: bytes = field(repr=False)
    now: Callable[[], float] = time.time
    """The calendar time, in s since the epoch."""

    @classmethod
    def of(cls, url: str, secret: str) -> "Receiver":
        """PlanError if the URL cannot be posted to or there is no secret."""
        if not is_address(url) or "@" in urlsplit(url).netloc:
            raise PlanError(f"--notify {shown(url)}: write http://HOST/PATH or https://HOST/PATH")
        if not secret:
            raise PlanError(
                f"--notify: messages are signed, and ${SECRET} is not set: set it to a secret that "
                "the receiver has, too, such as that of `openssl rand -hex 32`"
            )
        return cls(url=url, key=_key(secret))

    def sign(self, id_: str, timestamp: int, body: bytes) -> str:
        """The signature of one message."""
        signed = b".".join((id_.encode(), str(timestamp).encode(), body))
        digest = hmac.new(self.key, signed, hashlib.sha256).digest()
        return f"v1,{base64.b64encode(digest).decode()}"

    def post(self, id_: str, body: bytes) -> None:
        """Post once, within seconds. OSError or HTTPException if it was not accepted."""
        timestamp = int(self.now())
        headers = {
            "webhook-id": id_,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": self.sign(id_, timestamp, body),
        }
        post(self.url, body, headers, timeout_s=_ATTEMPT_S)


class Webhook:
    """Tells one run to a receiver. `close` once it is over."""

    def __init__(self, receiver: Receiver, *, pauses_s: tuple[float, ...] = PAUSES_S) -> None:
        """Starts the thread that delivers."""
        self._receiver, self._pauses_s = receiver, pauses_s
        self._about: dict[str, Json] = {}
        self._is_started = False
        self._waiting: SimpleQueue[Mapping[str, Json] | None] = SimpleQueue()
        self._is_closing = threading.Event()
        self._problems: list[str] = []
        self._thread = threading.Thread(target=self._deliver, name="webhook", daemon=True)
        self._thread.start()

    def made(self, run: str) -> None:
        """The id of the run that begins; its messages have it."""
        self._about, self._is_started = {"run": run}, False

    def see(self, event: Event[Any]) -> None:
        """Tell the start of the run; of its twin, nothing."""
        said = event.payload if event.kind is Kind.RUN_STARTED else None
        if self._is_started or not isinstance(said, RunStarted):
            return
        self._is_started = True
        self._about |= {"plan": said.plan, "seed": said.seed, "fleet": said.fleet}
        learners = plural(len(said.learners), said.who)
        text = f"{said.plan}, seed {said.seed}: a run with {learners} has started"
        self._send("run.started", event.wall, text, {"learners": list(said.learners)})

    def judged(self, verdict: Verdict, wall: str) -> None:
        """Tell the verdict; `wall`: when it was reached."""
        doubts = [one for one in verdict.findings if one.outcome is not Outcome.PASS]
        text = f"{self._about.get('plan', self._about.get('run'))}: {verdict.outcome}"
        text += "".join(f"; {one.outcome} {one.check}: {one.reason}" for one in doubts[:5])
        data: Mapping[str, Json] = {
            "outcome": verdict.outcome.value,
            "exit_code": int(verdict.exit_code),
            "training_continued": verdict.training_continued,
            "findings": [
                {"check": one.check, "outcome": one.outcome.value, "codes": list(one.codes)}
                for one in doubts
            ],
        }
        self._send("verdict", wall, text, data)

    def close(self, within_s: float) -> tuple[str, ...]:
        """Let what is waiting be delivered for a while; what could not be, a sentence each."""
        self._waiting.put(None)
        self._thread.join(within_s)
        self._is_closing.set()
        self._thread.join(_ATTEMPT_S / 10)
        left = self._waiting.qsize() - 1 + self._thread.is_alive()  # the last is the end
        if left > 0:
            self._problems.append(f"{left} more were not delivered within {within_s:g} s")
        return tuple(self._problems)

    def _send(self, kind: str, wall: str, text: str, data: Mapping[str, Json]) -> None:
        about = {"type": kind, "timestamp": wall, "text": text}
        self._waiting.put({**about, "data": {**self._about, **data}})

    # ---------------------------------------------------------------- in its thread

    def _deliver(self) -> None:
        while not self._is_closing.is_set() and (message := self._waiting.get()) is not None:
            body = json.dumps(json.loads(encode(message)), ensure_ascii=False).encode()
            if problem := self._delivered(f"msg_{secrets.token_hex(12)}", body):
                self._problems.append(f"{message['type']} was not delivered: {problem}")

    def _delivered(self, id_: str, body: bytes) -> str:
        """Error after all attempts; empty if the message was accepted."""
        problem = ""
        for pause_s in (0.0, *self._pauses_s):
            if pause_s and self._is_closing.wait(pause_s):
                break
            try:
                self._receiver.post(id_, body)
            except urllib.error.HTTPError as error:
                problem = f"the receiver answered {error.code} {error.reason}"
                error.close()
                if error.code not in _RETRIED:
                    break
            except (OSError, http.client.HTTPException) as error:
                problem = str(getattr(error, "reason", error)) or type(error).__name__
            else:
                return ""
        return problem


def _key(secret: str) -> bytes:
    """`whsec_` and base64, as the specification writes secrets, or any other text as it is."""
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error as error:
            raise PlanError(f"${SECRET}: what follows whsec_ is not base64") from error
    return secret.encode()
