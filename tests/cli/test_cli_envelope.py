"""`chaoslab research envelope`: the borders that it prints, its questions, its exit codes."""

import json
from collections.abc import Sequence

import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.main import main
from chaoslab.core.errors import ExitCode
from chaoslab.core.units import DURATION
from chaoslab.experiments.envelope import TriedValue
from chaoslab.prepare.plans import Asked

TRIED = "chaoslab.experiments.envelope.simulated"


@pytest.fixture(autouse=True)
def _modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage of n learners passes up to 100 s / n; of all four, never."""

    def tried(asked: Asked, seeds: Sequence[int]) -> TriedValue:
        assert seeds
        given = dict(setting.split("=") for setting in asked.settings)
        learners = int(given.get("faults.half-dies.target", "{learners: 2}").strip("{}")[-1])
        lasts_s = DURATION.parse(given.get("faults.half-dies.for", "6s"))
        is_short = learners < 4 and lasts_s <= 100 / learners
        return TriedValue(passes=is_short, reason="" if is_short else "rejoin: too late")

    monkeypatch.setattr(TRIED, tried)


def envelope(*words: str) -> Result:
    return CliRunner().invoke(main, ["research", "envelope", "kill_half", "--jobs", "1", *words])


def test_by_default_it_answers_all_questions_and_the_longest_outage_by_the_share() -> None:
    done = envelope("--json")
    assert done.exit_code == ExitCode.PASS, done.output
    told = json.loads(done.stdout)
    single = {one["question"]: one for one in told["edges"] if not one["by"]}
    assert list(single) == ["share", "outage", "link"]
    assert (single["share"]["passes"], single["share"]["fails"]) == ("3", "4")
    assert "arrivals" in told["not_asked"]["rate"]
    frontier = [one for one in told["edges"] if one["by"]]
    assert [one["by"] for one in frontier] == [
        f"faults.half-dies.target={{learners: {number}}}" for number in (1, 2, 3, 4)
    ]
    for number, one in enumerate(frontier[:3], start=1):
        assert DURATION.parse(one["passes"]) <= 100 / number < DURATION.parse(one["fails"])
    assert (frontier[3]["passes"], frontier[3]["fails"]) == (None, "6s")


def test_it_says_why_and_how_to_see_it() -> None:
    done = envelope()
    assert "rejoin: too late" in done.stdout
    assert "chaoslab run kill_half" in done.stderr
    assert "--fleet sim" in done.stderr


def test_one_question_can_be_asked_by_another() -> None:
    edges = json.loads(envelope("--vary", "outage", "--by", "share", "--json").stdout)["edges"]
    assert len(edges) == 4
    assert {one["question"] for one in edges} == {"outage"}
    assert envelope("--vary", "share").stdout.count("faults.half-dies.target") == 1


def test_ctrl_c_prints_what_was_found_before(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter([TriedValue(passes=True), TriedValue(passes=False, reason="too long")])

    def tried(_asked: Asked, _seeds: Sequence[int]) -> TriedValue:
        found = next(calls, None)
        if found is None:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(TRIED, tried)
    done = envelope("--vary", "outage")
    assert done.exit_code == ExitCode.INTERRUPTED
    assert all(text in done.stdout for text in ("6s", "5m", "too long"))


def test_the_exit_code_says_whether_a_value_passes() -> None:
    done = envelope("--set", "faults.half-dies.target={learners: 4}", "--vary", "outage")
    assert done.exit_code == ExitCode.FAIL
    end = envelope("--vary", "faults.half-dies.target.learners=1..9")
    assert end.exit_code == ExitCode.PASS
    assert "warning: --vary faults.half-dies.target.learners=1..9: " in end.stderr, "9 is refused"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--vary", "faults.half-dies.for=6s"), "--vary: "),
        (("--vary", "longest"), "share, outage, link, rate"),
        (("--vary", "rate"), "--vary: "),
        (("--vary", "faults.half-dies.target.learners=5..9"), "at 9"),
        (("--vary", "faults.other.for=1s..5m"), "at 1s"),
        (("--by", "training.quorum=5..8"), "--by training.quorum=5..8: "),
        (("--vary", "outage", "--by", "outage"), "--by: faults.half-dies.for "),
        (("--by", "faults.half-dies.for=1s..9s"), "--by: faults.half-dies.for "),
        (("--vary", "share", "--by", "faults.half-dies.target.learners=1..4"), "--by: "),
        (("--set", "training.learnes=8"), "learners"),
    ],
)
def test_a_mistake_is_refused_with_the_option_and_what_to_write(
    words: Sequence[str], said: str
) -> None:
    done = envelope(*words)
    assert done.exit_code == ExitCode.REFUSED
    assert said in done.stderr
