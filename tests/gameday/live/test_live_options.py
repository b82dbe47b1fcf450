"""--serve and what belongs to it: links on stderr, and refusals before anything starts."""

import re
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.commands.live_options import Serving, live_options, parsed
from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.plan.model import GameDay
from chaoslab.run.operators import Inbox
from tests.gameday_room import plan_of


@click.command()
@live_options
def command(*, serving: Serving) -> None:
    """Stand in for `chaoslab gameday`."""
    with serving.begin(Inbox(), plan_of(gameday=GameDay(facilitator="Fay"))) as observers:
        click.echo(f"{len(observers)} observers")


def run(*words: str) -> Result:
    return CliRunner().invoke(command, words)


def refused(*words: str) -> str:
    error = run(*words).exception
    assert isinstance(error, PlanError)
    return str(error)


def test_nothing_is_served_unasked() -> None:
    assert (run().stdout, run().stderr) == ("0 observers\n", "")


def test_each_operator_gets_a_link_and_viewers_share_one() -> None:
    done = run("--serve", "0", "--operator", "Ann", "--operator", "Bo B.")
    assert done.stdout == "1 observers\n"
    first, *links = done.stderr.splitlines()
    url = re.fullmatch(r"live page: (http://127\.0\.0\.1:\d+)/", first)
    assert url
    found = [re.fullmatch(rf"  (.*): {url[1]}/enter#([ov]-[\w-]{{43}})", line) for line in links]
    assert [one and one[1] for one in found] == [
        "operator Ann, once", "operator Bo B., once", "viewers, as many as like",
    ]  # fmt: skip


def test_without_a_name_the_facilitator_is_the_operator() -> None:
    assert "operator Fay, once: " in run("--serve", "localhost:0").stderr


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("8080", ("127.0.0.1", 8080)),
        (":8080", ("127.0.0.1", 8080)),
        ("a.example:1", ("a.example", 1)),
        ("[::1]:0", ("::1", 0)),
    ],
)
def test_an_address_has_a_host_and_a_port(address: str, found: tuple[str, int]) -> None:
    assert parsed(address) == found


@pytest.mark.parametrize("address", ["", "x", "localhost", "1:", "1:65536", "h:²"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(PlanError, match="write PORT or HOST:PORT"):
        parsed(address)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--operator", "Ann"), "--operator is for the live page: add --serve"),
        (("--tls-key", "x"), "--tls-key is for the live page: add --serve"),
        (("--serve", "a.example:0"), "needs TLS: add --tls-cert FILE and --tls-key FILE"),
        (("--serve", "0", "--tls-key", "x"), "--tls-cert and --tls-key belong together"),
        (("--serve", "0", "--operator", " "), "--operator: write a name"),
    ],
)
def test_what_does_not_fit_is_refused(words: tuple[str, ...], why: str) -> None:
    assert why in refused(*words)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith("chaoslab.gameday.live.")]:
        if Path(name).suffix in (".app", ".server"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    error = run("--serve", "0").exception
    assert isinstance(error, AbilityError)
    assert str(error).endswith("pip install 'chaoslab[gameday]'")
