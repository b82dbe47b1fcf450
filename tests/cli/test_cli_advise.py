"""`chaoslab research advise`: what it prints, its JSON, its exit codes, its errors."""

import json

import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.main import main
from chaoslab.core.errors import ExitCode

ASKED = ("--chips", "200000", "--mtbi", "1y", "--gbps", "3", "--seeds", "1")


def advise(*words: str) -> Result:
    return CliRunner().invoke(main, ["research", "advise", *words])


def test_it_says_what_to_choose_and_the_json_has_the_alternatives() -> None:
    done = advise(*ASKED)
    assert done.exit_code == ExitCode.PASS, done.output
    assert all(text in done.stdout for text in ("M = 8, ", "K = 1", "P = 24 ", "55.4"))
    told = json.loads(advise(*ASKED, "--json").stdout)
    assert (told["learners"], told["quorum"], told["keeps_pace"]) == (8, 1, True)
    assert told["rounds"]["fragments"] == 24
    assert [one["learners"] for one in told["by_learners"]] == [1, 2, 4, 8, 16, 32, 64]
    assert told["neighbours"]


def test_a_link_that_is_too_thin_for_everything_ends_with_exit_code_1() -> None:
    done = advise(*ASKED, "--gbps", "0.001")
    assert done.exit_code == ExitCode.FAIL
    assert "0.4% of the planned rounds" in done.stdout


def test_a_published_fleet_can_be_named() -> None:
    done = advise("--chips", "16k", "--failures", "llama_3", "--gbps", "10", "--seeds", "1")
    assert done.exit_code == ExitCode.PASS, done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--chips", "200000", "--gbps", "3"), "--mtbi"),
        ((*ASKED, "--failures", "llama_3"), "--mtbi"),
        ((*ASKED, "--mtbi", "1year"), "or 1y"),
        ((*ASKED, "--mtbi", "0y"), "0y"),
        ((*ASKED, "--mtbi", "1s"), "200,000"),
        ((*ASKED, "--chips", "1000T"), "chips"),
        ((*ASKED, "--chips", "100"), "256"),
        ((*ASKED, "--chips", "many"), "--chips"),
        ((*ASKED, "--chips", "5e6"), "write 5M"),
        ((*ASKED, "--gbps", "0"), "--gbps"),
        ((*ASKED, "--gbps", "nan"), "--gbps"),
        ((*ASKED, "--gbps", "3Gbit"), "--gbps"),
        ((*ASKED, "--parameters", "0"), "parameters"),
        ((*ASKED, "--failures", "llama"), "llama_3"),
        ((*ASKED, "--step", "0s"), "step"),
    ],
)
def test_a_mistake_is_refused_and_says_what_to_write(words: tuple[str, ...], said: str) -> None:
    done = advise(*words)
    assert done.exit_code == ExitCode.REFUSED
    assert said in done.stderr
    assert "simulations to do" not in done.stderr


@pytest.mark.parametrize(
    ("mtbi", "said"),
    [
        ("10y", "M = 1 has as much"),
        pytest.param("10m", "most of the chip time is lost", marks=pytest.mark.deep),
    ],
)
def test_few_failures_ask_for_few_learners_and_too_many_are_named(mtbi: str, said: str) -> None:
    assert said in advise(*ASKED, "--chips", "2048", "--mtbi", mtbi).stdout
