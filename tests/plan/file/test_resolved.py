"""The resolved plan: everything written out, and equal when it is read again.

That any plan reads back equal is in `tests/fuzz/plan_files.py`.
"""

import math
from dataclasses import fields

import pytest

from chaoslab.plan.file import resolved_yaml
from chaoslab.plan.model import FaultPlan, Training
from tests.plan.file.catalogue import Loader


@pytest.mark.parametrize(("limit", "written"), [(8.5, "8.5"), (math.inf, "off")])
def test_a_limit_is_written_as_a_number_or_as_off(load: Loader, limit: float, written: str) -> None:
    plan = FaultPlan(name="trial", training=Training(norm_limit=limit))
    assert f"norm_limit: {written}\n" in resolved_yaml(plan)
    assert load(resolved_yaml(plan)) == plan


def test_everything_is_written_out_with_its_default() -> None:
    text = resolved_yaml(FaultPlan(name="trial"))
    absent = {"script", "task", "evaluate_every"}
    keys = {field.name.removesuffix("_s") for field in fields(Training)} - absent
    assert {key for key in keys if f"  {key}:" not in text} == set()
    assert "  suspect_after: 2s\n" in text


@pytest.mark.parametrize("text", ["yes", "1", "~", "3s", "null", "true", "a: b", "#", "", "- x"])
def test_a_text_that_looks_like_something_else_stays_a_text(load: Loader, text: str) -> None:
    assert load(resolved_yaml(FaultPlan(name="trial", description=text))).description == text
