"""A run that has no room for its record is refused with what it takes and what is there."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaoslab.core.errors import AbilityError
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.disk_room import needed_bytes, refuse_full_disk
from chaoslab.prepare.plans import Asked, decode


def plan(*settings: str, fleet: str | None = None) -> FaultPlan:
    found, _ = decode(Asked(plan="kill_one", settings=settings, fleet=fleet))
    return found


def needed(*settings: str, fleet: str | None = None) -> int:
    return needed_bytes(plan(*settings, fleet=fleet))


def test_it_takes_more_for_larger_models_more_learners_and_a_twin() -> None:
    own = needed("twin=false")
    assert own < needed("twin=false", "training.learners=8")
    assert 3 * 4 * 12 * 1_037_696 < needed("twin=false", "training.model=micro") < 300_000_000
    assert needed() >= 2 * own


def test_a_run_takes_no_more_than_it_can_write_until_its_time_is_over() -> None:
    endless = ("twin=false", "training.stop={rounds: 1000000000}")
    assert needed(*endless) < 1_000_000_000
    assert needed(*endless, "limits.timeout=1m") < needed(*endless, "limits.timeout=5m")
    assert needed(*endless, "training.task=a:b", "limits.timeout=1m") < 20_000_000


def test_a_simulation_takes_only_its_record() -> None:
    assert needed("training.model=small", fleet="sim") < 100_000_000


@pytest.mark.parametrize("is_enough", [True, False])
def test_too_little_room_is_refused_with_both_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_enough: bool
) -> None:
    found = plan("twin=false")
    free = needed_bytes(found) - (0 if is_enough else 1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    if is_enough:
        return refuse_full_disk(found, tmp_path / "runs")
    with pytest.raises(AbilityError) as refused:
        refuse_full_disk(found, tmp_path / "runs")
    assert f"{free / 1e6:,.1f} MB" in str(refused.value)
    assert f"{(free + 1_000_000) / 1e6:,.1f} MB" in str(refused.value)
    return None
