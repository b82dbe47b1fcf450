"""What is hidden of a secret, in which of its forms, and what stays as it is."""

import json
import shlex
from pathlib import Path

import pytest

from chaoslab.core.events import Event, Json, Kind
from chaoslab.core.secrets import Secrets, why_not_hidden
from chaoslab.plan.model import FaultPlan, Stop, Training
from chaoslab.prepare.launch import Launch
from chaoslab.record.history import History
from chaoslab.record.journal import Journal
from tests.payload_reading import observed
from tests.virtual_clock import VirtualClock

KEY = "s3cr3t-k3y"
SECRETS = Secrets({"KEY": KEY})
AWKWARD = 'it\'s "quoted"\nand-two-lines\t\\ü'


def test_texts_are_hidden_and_keys_and_numbers_stay() -> None:
    secrets = Secrets({"DIGITS": "12345678"})
    value: dict[str, Json] = {
        "12345678": [12345678, 1.5, True, None, "a 12345678 b"],
        "more": {"n": 12345678.0},
    }
    assert secrets.hide(value) == {
        "12345678": [12345678, 1.5, True, None, "a ${env:DIGITS} b"],
        "more": {"n": 12345678.0},
    }


@pytest.mark.parametrize(
    "shown",
    [
        AWKWARD,
        json.dumps(AWKWARD),
        json.dumps(AWKWARD, ensure_ascii=False),
        repr(AWKWARD),
        shlex.quote(AWKWARD),
        "\n".join(f"> {line}" for line in AWKWARD.splitlines()),
    ],
    ids=["as it is", "JSON", "JSON in UTF-8", "Python", "shell", "by lines"],
)
def test_quotes_and_newlines_do_not_show_a_secret(shown: str) -> None:
    hidden = Secrets({"KEY": AWKWARD}).text(f"said {shown} there")
    assert "quoted" not in hidden
    assert "two-lines" not in hidden
    assert "${env:KEY}" in hidden


def test_the_longer_of_two_secrets_is_hidden_first() -> None:
    secrets = Secrets({"A": "abcd-1234", "B": "abcd-1234-5678"})
    assert secrets.text("abcd-1234-5678 abcd-1234") == "${env:B} ${env:A}"


@pytest.mark.parametrize("value", ["", "1", "1234567", "completed", "learner-12", "no_progress"])
def test_what_a_record_is_made_of_cannot_be_a_secret(value: str) -> None:
    assert why_not_hidden(value)


@pytest.mark.parametrize("value", [KEY, AWKWARD, "12345678", "correcthorsebatterystaple"])
def test_what_nothing_else_looks_like_can_be_a_secret(value: str) -> None:
    assert not why_not_hidden(value)


def test_a_journal_with_a_secret_in_it_stays_a_journal(tmp_path: Path) -> None:
    secrets = Secrets({"KEY": AWKWARD, "DIGITS": "00000000"})
    seen: list[Event] = []

    class Seeing:
        def see(self, event: Event) -> None:
            seen.append(event)

    with Journal(tmp_path, VirtualClock(), secrets=secrets, observers=[Seeing()]) as journal:
        said: dict[str, Json] = {"phase": f"a{AWKWARD}b", "n": 100000000, "00000000": 1}
        journal.write(observed(Kind.PHASE_ENTERED, said))
    (event,) = History.read(tmp_path).events
    assert event.data == {"phase": "a${env:KEY}b", "n": 100000000, "00000000": 1}
    assert [event] == list(journal.history.events) == seen


def test_a_command_line_names_a_secret_and_the_environment_holds_it(tmp_path: Path) -> None:
    plan = FaultPlan(name="p", training=Training(data=f"s3://{KEY}@x", stop=Stop(rounds=9)))
    launch = Launch(plan=plan, snapshots=tmp_path, tokens=tmp_path, secrets=SECRETS)
    addresses = dict.fromkeys(plan.training.learner_names, "here:1")
    for spec in (*launch.learners(addresses), launch.evaluator()):
        assert "s3://${env:KEY}@x" in spec.command
        assert KEY not in " ".join(spec.command)
        assert spec.secrets == {"KEY": KEY}
        assert KEY not in repr(spec)
    assert not launch.syncer().secrets
