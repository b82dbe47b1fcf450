"""chaoslab's own training as a script: judged by its lines alone, as by its protocol.

The syncer is a service that runs already. Learners are workers that print a JSON object a line and
are reached by their links. The trials of the selftest say what the protocol finds.
"""

import sys
from pathlib import Path

import pytest

from chaoslab.prepare.launch import compilation_cache
from chaoslab.selftest.catalogue import TRIALS
from chaoslab.selftest.trial import program_of
from tests.training_processes import SYNCER, Processes
from tests.whole_runs import Ran, begin, ended, whole

pytestmark = [pytest.mark.deep, pytest.mark.soak, pytest.mark.alone]

LEARNER = Path(__file__).parent / "trainers" / "own_learner.py"
PLAN = r"""
version: 1
name: own-training-as-a-script
training:
  script:
    command: >-
      {learner} {{folder}} learner-{{rank}} '{program}'
      --syncer 127.0.0.1:{{port:syncer}}
      --token-file {tokens}/learner-{{rank}} --shard {{rank}} --shards 3
      --step-time 0.15 --save-every 2 --lr 0.012 --compilation-cache {cache}
    workers: 3
    ports: {{syncer: "{address}"}}
    progress: >-
      "kind":"learner.step",.*?"step":(?P<step>\d+),.*"loss":(?P<loss>[^,]+),.*"learning_rate":(?P<lr>[^,]+)
    resumed: '"kind":"learner.joined",.*?"step":(?P<step>\d+)'
baseline: {{warmup: 10 rounds, window: 40 rounds, max_variation: 150%}}
settle: 60s
limits: {{min_alive: 0, timeout: 5m}}
twin: false
faults:
  - {{id: breaks, {fault}, target: {{workers: [worker-1]}}, at: {{step: 60}}, for: 4s}}
expect:
  - {{check: rejoin, within: 60s}}
  - {{check: cleanup}}
"""


def as_script(
    folder: Path, fault: str = "process.kill", program: str = "chaoslab.diloco.learner"
) -> Ran:
    with Processes(folder / "service", learners=3) as training:
        training.start_syncer()
        plan = PLAN.format(
            learner=f"{sys.executable} {LEARNER}",
            program=program,
            tokens=training.folder / SYNCER / "tokens",
            cache=compilation_cache(),
            address=training.address,
            fault=f"fault: {fault}",
        )
        return ended(begin(plan, folder), folder)


@pytest.mark.parametrize("fault", ["process.kill", "process.pause", "network.partition"])
def test_the_answers_are_those_of_the_protocol(fault: str, tmp_path: Path) -> None:
    ran = as_script(tmp_path, fault)
    assert (ran.code, ran.verdict["outcome"]) == (0, "PASS"), whole(ran.verdict)
    assert ran.statuses == ["proved"]
    assert ran.verdict["training_continued"]
    assert ran.verdict["learners_rejoined"]


@pytest.mark.parametrize("mutant", ["crawling_rejoiner", "hot_rejoiner"])
def test_a_defect_that_shows_in_steps_is_found_as_by_the_protocol(
    mutant: str, tmp_path: Path
) -> None:
    (trial,) = [one for one in TRIALS if one.name == mutant]
    ran = as_script(tmp_path, program=program_of("learner", mutant))
    found = ran.finding(trial.check)
    assert (found["outcome"], found["codes"]) == ("FAIL", list(trial.codes)), whole(ran.verdict)
