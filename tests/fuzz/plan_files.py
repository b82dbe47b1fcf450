"""Plan files that are wrong in bytes, in YAML, in keys or in values, and overrides like them.

    seed ─► text, --set … ─► load ─► FaultPlan ─► schedule, resolved_yaml ─► load: the same plan
                              └─► PlanError: each of its lines begins with a place

Most seeds damage a small plan, made of parts of the plans that come with chaoslab; some a whole
one. Nothing is started, and nothing that a plan names is looked for.
"""

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from ruamel.yaml import YAML

import chaoslab
from chaoslab.core.errors import PlanError
from chaoslab.plan.file import load, resolved_yaml
from chaoslab.plan.model import FaultPlan
from chaoslab.plan.schedule import roster_of, schedule, to_lines
from chaoslab.prepare.kinds import kinds
from tests.fuzz.damage import ODD, damaged_bytes, damaged_value
from tests.memory_folder import in_memory

_PACKAGE: Final = Path(chaoslab.__file__).parent
_TEXTS: Final = tuple(
    path.read_bytes()
    for folder in (_PACKAGE.parent / "fault_plans", _PACKAGE / "selftest" / "plans")
    for path in sorted(folder.glob("*.yaml"))
)
_PLANS: Final[tuple[dict[str, Any], ...]] = tuple(YAML(typ="safe").load(text) for text in _TEXTS)
_SECRET: Final = "s3cret:/that is nowhere"
_ENVIRONMENT: Final = {
    "FUZZ_SECRET": _SECRET,
    "FUZZ_SHORT": "1",
    "FUZZ_EMPTY": "",
    "FUZZ_PUBLIC": "p",
}
_VALUES: Final = (
    *ODD, "5s", "-5s", "0s", "1e-9s", "1e300h", "999999999d", "nans", "infs", "50%", "-1%", "1e9%",
    "3x", "3x baseline", "4 rounds", "1e9 rounds", "64MiB", "9e99GB/s", "all", "rest", "none",
    "2M", "${vars.x}", "${env:FUZZ_SECRET}", "a ${env:FUZZ_SECRET}", "${env:FUZZ_SHORT}",
    "${env:FUZZ_EMPTY}", "${env:FUZZ_NOT_THERE}", "${env.public:FUZZ_PUBLIC}", "${", "$${x}",
    "SIGKILL", "syncer", "*", "../x", "os:abort", "docker", {"learners": 1}, {"syncer": "all"},
    {"learners": "100%", "pick": "last_victim"}, {"round": 1}, {"time": "0s"}, {"phase": "merge"},
    {"mtbf": "1ms"}, {"mtbf": "1e-300s", "per": "target"}, {"every": "1ms"}, {"rate": 1e9},
    {"dist": "weibull", "mean": "1s", "shape": 1e-9}, {"dist": "lognormal", "median": "1s",
    "sigma": 1e9},
)  # fmt: skip
_KEYS: Final = ("seed", "name", "training.learners", "training.stop.time", "training.reserve",
    "limits.max_affected", "limits.timeout", "faults.0.for", "faults.0.target.learners",
    "faults.0.at.time", "faults.0.arrivals", "fleet.kind", "fleet.labels", "vars.x", "expect.0",
    "expect", "", ".", "a..b", "faults.99", "faults.-1.for", "version.x")  # fmt: skip


def one(seed: int) -> None:
    """One plan file and what the command line adds to it."""
    chance = random.Random(seed)
    text, overrides = _text(chance), _overrides(chance)
    with in_memory() as folder, patch.dict(os.environ, _ENVIRONMENT):
        path = folder / "plan.yaml"
        path.write_bytes(text)
        plan = _loaded(path, overrides)
        if plan is None:
            return
        _schedule(plan)
        if chance.random() < 0.15:
            path.write_text(resolved_yaml(plan), encoding="utf-8")
            with patch.dict(os.environ, {"FUZZ_SECRET": "another secret"}):
                assert load(path, kinds(), is_record=True)[0] == plan


def _loaded(path: Path, overrides: Sequence[str]) -> FaultPlan | None:
    try:
        return load(path, kinds(), overrides=overrides)[0]
    except PlanError as error:
        text = str(error)
        assert _SECRET not in text
        assert len(text.encode()) < 1 << 20
        for line in text.split("\n"):
            assert line.startswith((f"{path}:", "--set ")), line
        return None


def _schedule(plan: FaultPlan) -> None:
    try:
        drawn = schedule(plan, roster_of(plan))
    except PlanError as error:
        str(error).encode()
        return
    for line in to_lines(drawn):
        json.loads(line.encode())


# ---------------------------------------------------------------- what is written


def _text(chance: random.Random) -> bytes:
    draw = chance.random()
    if draw < 0.01:
        return damaged_bytes(chance, chance.choice(_TEXTS))
    tree = _small(chance)
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        tree = damaged_value(chance, tree, _VALUES)
    text = json.dumps(tree, indent=1 if draw < 0.5 else None).encode()
    return damaged_bytes(chance, text) if draw < 0.4 else text


def _small(chance: random.Random) -> Any:
    """A plan with one fault, one check and one more key, each out of a plan that exists."""
    plan = {"version": 1, "name": "fuzz"}
    training, faulty, expecting = (chance.choice(_PLANS) for _ in range(3))
    if chance.random() < 0.6:
        plan["training"] = training["training"]
    if "faults" in faulty and chance.random() < 0.9:
        plan["faults"] = [chance.choice(faulty["faults"])]
    plan["expect"] = [chance.choice(expecting["expect"])]
    key = chance.choice(list(faulty))
    return plan if key in ("description", "vars") else {**plan, key: faulty[key]}


def _overrides(chance: random.Random) -> list[str]:
    return [_override(chance) for _ in range(chance.choice((0, 0, 0, 1, 2)))]


def _override(chance: random.Random) -> str:
    key, value = chance.choice(_KEYS), chance.choice(_VALUES)
    if chance.random() < 0.1:
        return chance.choice((key, "=", "é\nx=1", "a" * 3000, "a." * 2000 + "b=1", "\udcff=\udcff"))
    return f"{key}={value if isinstance(value, str) else json.dumps(value)}"
