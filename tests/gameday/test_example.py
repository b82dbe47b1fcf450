"""The worked example in docs/gameday.md is whole, and of the plan and orders beside it."""

import pytest

from chaoslab.gameday.orders import Names
from chaoslab.gameday.script import Wait, is_ended_by, read_script
from chaoslab.plan.file import load
from chaoslab.prepare.kinds import kinds
from tests.generated_docs import ROOT, Block

PAGE = "docs/gameday.md"
EXAMPLES = ROOT / "docs" / "examples"


def part(name: str) -> str:
    """What stands between the markers of a name."""
    return Block(PAGE, name, str).current()


@pytest.mark.parametrize(("name", "file"), [("plan", "gameday.yaml"), ("orders", "gameday.txt")])
def test_what_is_shown_is_what_was_played(name: str, file: str) -> None:
    _, _, shown = part(name).partition("\n")
    assert shown.removesuffix("```").strip()
    assert shown.removesuffix("```").strip() in (EXAMPLES / file).read_text(encoding="utf-8")


def test_its_orders_decide_on_every_fault_and_end_the_run() -> None:
    plan, _ = load(EXAMPLES / "gameday.yaml", kinds())
    text = (EXAMPLES / "gameday.txt").read_text(encoding="utf-8")
    lines = read_script(text, source="gameday.txt", by="Ann", names=Names.of(plan))
    assert is_ended_by(lines)
    waited = {line.does.spec for line in lines if isinstance(line.does, Wait)}
    assert waited - {""} == {fault.id for fault in plan.faults} == set(plan.held)
