"""Plans: every plan of fault_plans/ for real, several times, with what is left to its bounds.

    each plan in turn, then all again ─► `chaoslab run PLAN` ─► verdict.json, journal
        experiments/plans/README.md ◄── results.json ◄── outcome, least room, time, load
                                             └─► fault_plans/times.json: what a plan takes

    python benchmarks/plans.py --times 3           make what is missing of three runs of each plan
    python benchmarks/plans.py kill_half --times 5 of this plan alone
    python benchmarks/plans.py --times 1 --fresh   forget earlier runs
    python benchmarks/plans.py --page              write the page from results.json alone

Each plan runs as it is, on its own fleet. `--no-twin` skips the fault-free twins; what only a
twin can show is then left out. An interrupted measurement goes on where it stopped, after its
last whole run. The row of a plan that this machine refuses stays as it was. A run in which learners
could not keep their step time was disturbed: it is counted apart and made again.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from fidelity_figures import outcomes
from figures import Cell, MachineLoad, place_line, rewritten, table, text

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode
from chaoslab.core.payloads import MachineSampled
from chaoslab.prepare.plans import TIMES, bundled_plans
from chaoslab.record.history import History
from chaoslab.record.journal_file import RUN_JSON
from chaoslab.record.run_directory import LATEST

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "experiments" / "plans"
RESULTS = FOLDER / "results.json"
ATTEMPTS = 3
"""Runs of a plan in one pass, if they are disturbed."""
TIMEOUT_S = 1200.0
"""Longest time for one run and its twin; the limits of the plans are shorter."""


def main() -> int:
    """Make missing runs, pass after pass, and write results.json and the page after each."""
    options = _options()
    results: dict[str, Any] = {"plans": {}}
    if RESULTS.exists() and not options.fresh:
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
    load = MachineLoad()
    left: set[str] = set()
    if not options.times:
        _write(results)
    for number in range(1, options.times + 1):
        for plan in options.plans or sorted(bundled_plans()):
            runs = results["plans"].get(plan, [])
            if plan in left or len(runs) >= number:
                continue
            for said in _runs(options.runs, plan, options.more):
                kept = "disturbed" if _is_disturbed(said) else "plans"
                results.setdefault(kept, {}).setdefault(plan, []).append(said)
                results["place"] = load.place()
                _write(results)
                if kept == "plans":
                    break
            else:
                left.add(plan)  # refused, or disturbed each time
    return 0


def _runs(folder: Path, plan: str, more: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """What is kept of one run after the other; nothing more once the plan was refused."""
    for _ in range(ATTEMPTS):
        if not _run(folder, plan, more):
            return
        yield _said((folder / plan / LATEST).resolve())


def _is_disturbed(run: Mapping[str, Any]) -> bool:
    """Whether the machine was not quiet."""
    return any(Code.STEP_TIME_NOT_KEPT in said.split() for said in run["findings"].values())


def _run(folder: Path, plan: str, more: Sequence[str]) -> bool:
    """One run, whatever its verdict; False if it was refused."""
    command = [sys.executable, "-m", "chaoslab", "run", plan, "--quiet", "--out", str(folder)]
    done = subprocess.run([*command, *more], cwd=ROOT, check=False, timeout=TIMEOUT_S)
    code = ExitCode(done.returncode)
    if code in {ExitCode.BROKEN, ExitCode.INTERRUPTED}:
        sys.exit(f"chaoslab run {plan} ended with exit code {code.value}")
    return code is not ExitCode.REFUSED


def _said(run: Path) -> Mapping[str, Any]:
    """What the page and `fidelity.py` show of one run."""
    verdict = Verdict.from_json(json.loads((run / "verdict.json").read_text(encoding="utf-8")))
    git = json.loads((run / RUN_JSON).read_text(encoding="utf-8"))["git"] or {}
    history = History.read(run)
    sampled = history.of(MachineSampled)
    found = {name: one for name, one in verdict.by_name.items() if Code.NO_TWIN not in one.codes}
    rooms = {name: one.margin for name, one in found.items() if one.margin is not None}
    findings = {name: " ".join([one.outcome.value, *one.codes]) for name, one in found.items()}
    tightest = min(rooms, key=rooms.__getitem__, default=None)
    return {
        "run": run.name,
        "commit": git.get("commit"),
        "outcome": outcomes(findings).outcome,
        "took_s": round(history.end_s, 1),
        "findings": findings,
        "injections": dict(verdict.injection_counts),
        "tightest": tightest,
        "room": rooms[tightest] if tightest else None,
        "others_cores": mean(one.payload.others_cores for one in sampled) if sampled else 0.0,
    }


# ---------------------------------------------------------------- page


def _write(results: Mapping[str, Any]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    took = {
        plan: round(seconds)
        for plan, runs in sorted(results["plans"].items())
        if (seconds := _took_s(runs)) is not None
    }
    times = ROOT / "fault_plans" / TIMES
    times.write_text(json.dumps(took, indent=1) + "\n", encoding="utf-8")
    page = FOLDER / "README.md"
    commits = {run["commit"] for runs in results["plans"].values() for run in runs}
    of = ", ".join(sorted(commit[:7] for commit in commits if commit))
    made = f"{_table(results)}\n\nOf {of}. Measured on: {place_line(results['place'])}."
    page.write_text(rewritten(page.read_text(encoding="utf-8"), made), encoding="utf-8")


def _table(results: Mapping[str, Any]) -> str:
    heads = ["plan", "verdicts", "time (s)", "least room", "of", "faults", "others (cores)",
             "disturbed", "not passed"]  # fmt: skip
    disturbed = results.get("disturbed", {})
    rows = [
        _row(plan, runs, len(disturbed.get(plan, ())))
        for plan, runs in sorted(results["plans"].items())
    ]
    return table(heads, rows)


def _row(plan: str, runs: Sequence[Mapping[str, Any]], disturbed: int) -> Sequence[Cell]:
    tightest = [run for run in runs if run["room"] is not None]
    least = min(tightest, key=lambda run: run["room"], default=None)
    return [
        plan,
        " ".join(run["outcome"] for run in runs),
        _took_s(runs),
        " ".join(text(float(run["room"])) for run in tightest),
        least["tightest"] if least else None,
        "; ".join(dict.fromkeys(filter(None, (_faults(run["injections"]) for run in runs)))),
        max((run["others_cores"] for run in runs if run["others_cores"] is not None), default=None),
        disturbed,
        "; ".join(dict.fromkeys(said for run in runs for said in _not_passed(run))),
    ]


def _took_s(runs: Sequence[Mapping[str, Any]]) -> float | None:
    """Median of the whole runs without the twin; None if none came to its end."""
    whole = [run["took_s"] for run in runs if run["outcome"] == Outcome.PASS.value]
    return median(whole) if whole else None


def _faults(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def _not_passed(run: Mapping[str, Any]) -> Sequence[str]:
    return [f"{check} {said}" for check, said in run["findings"].items() if said != "PASS"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("plans", nargs="*", metavar="PLAN", help="all that come with chaoslab")
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "runs" / "plans", help="folder of the runs"
    )
    parser.add_argument(
        "--times", type=int, default=1, metavar="N",
        help="make runs until there are so many of each plan; one to four minutes each",
    )  # fmt: skip
    parser.add_argument("--fresh", action="store_true", help="forget the runs of results.json")
    parser.add_argument(
        "--no-twin", action="append_const", const="--no-twin", dest="more", default=[],
        help="skip the fault-free twins; leave out what they alone show",
    )  # fmt: skip
    parser.add_argument("--page", action="store_const", const=0, dest="times",
                        help="make no run; write the page from results.json")  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
