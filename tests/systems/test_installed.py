"""One learner of each installed system is killed, for real (`make deep`)."""

from pathlib import Path

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.plan.model.systems import SYSTEMS
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.prepare.systems import is_installed
from chaoslab.run.judged_run import run_and_judge

TUNED = {
    "torchft": {"heartbeat_timeout": "5s", "join_timeout": "5s"},
    "hivemind": {
        "matchmaking_time": "2s",
        "request_timeout": "1s",
        "averaging_timeout": "20s",
        "next_chunk_timeout": "5s",
        "target_group_size": "4",
    },
    "torchrun": {
        "max_restarts": "20",
        "share_rendezvous_store": "false",
        "start_method": "forkserver",
        "last_call_timeout": "1s",
        "keep_alive_interval": "1s",
    },
    "nvrx": {
        "store": "service",
        "heartbeat_timeout": "5s",
        "soft_timeout": "20s",
        "hard_timeout": "40s",
        "gloo_timeout": "5s",
    },
}
"""docs/systems.md says what these change."""
FINDINGS = {"hivemind": {"ledger"}, "nvrx": {"rejoin", "learners_rejoin", "unasked"}}
"""hivemind: learners that start one after the other average alone at first, and that work is in no
version of the others. nvrx: a process that was killed is refused when it comes back, which ends it,
and the others do not end by themselves after a loss."""


@pytest.mark.deep
@pytest.mark.soak
@pytest.mark.alone
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_learner_of_a_system_of_others_is_killed_and_comes_back(
    system: str, tmp_path: Path
) -> None:
    if not is_installed(system):
        pytest.skip(f"{system} is not installed: `chaoslab doctor systems install {system}`")
    settings = {
        "training.system": system,
        "training.algorithm": SYSTEMS[system].algorithm,
        **{f"training.{system}.{key}": value for key, value in TUNED[system].items()},
    }
    asked = Asked(
        plan=str(Path(__file__).parent / "one_dies.yaml"),
        settings=[f"{key}={value}" for key, value in settings.items()],
    )
    run = run_and_judge(prepare(asked), tmp_path)
    assert run.error is None
    failed = {one.check for one in run.verdict.findings if one.outcome is not Outcome.PASS}
    assert failed <= FINDINGS.get(system, set()), run.verdict.findings
