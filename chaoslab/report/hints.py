"""Hints after a finding that is not PASS: one for each code, and one for any other.

    Finding.codes ─► hint ─► "give it more time: `chaoslab run … --set settle=60s`"

The first code of a finding decides. `{again}` is the command that repeats the run, `{run}` what
commands take for its record, `{node}` the first culprit, `{suspects}` the syncer and that one,
`{stderr}` where to read what it wrote: above, if anything of it stands there. Every command in a
hint can be carried out on any record, or on the plan of any record; a test parses them all. What a
command sets differs from what the plan says: more than that, or else another hint takes its place.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any, Final

from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.core.errors import PlanError
from chaoslab.core.units import COUNT, DURATION, ROUNDS, Quantity
from chaoslab.plan.file.document import Tree, read
from chaoslab.record.journal_file import JOURNAL
from chaoslab.record.run_directory import RESOLVED_PLAN, RunDirectory

_ATTACHED: Final = frozenset({"processes", "compose", "namespace", "hosts"})
"""Fleets of trainings that others have started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Names of a record and of its plan in commands."""

    run: str
    """RUN argument of commands."""
    plan: str
    """PLAN argument of a command that repeats the run as it was."""
    journal: str
    """Path of journal.jsonl."""
    settings: Mapping[str, Tree] = field(default_factory=dict)
    """Settings of the plan; empty if its file cannot be read."""

    @classmethod
    def of(cls, directory: RunDirectory, run: str, path: Path) -> "Record":
        """`path` is the record's, as short as it can be written."""
        plan, settings, journal = str(path / RESOLVED_PLAN), {}, str(path / JOURNAL)
        try:
            settings = read(directory.path / RESOLVED_PLAN, is_record=True).tree
        except PlanError:  # not there, or damaged: the plan of that name is the next best
            plan = directory.plan_name
        return cls(run=quote(run), plan=quote(plan), journal=quote(journal), settings=settings)

    @property
    def is_attached(self) -> bool:
        """Whether the training was started by others: no hint starts one in its place."""
        return self.setting("fleet.kind") in _ATTACHED

    @property
    def again(self) -> str:
        """The command that repeats it; `PID` stands for a process that is another one by then."""
        if not self.is_attached:
            return f"chaoslab run {self.plan}"
        kind = self.setting("fleet.kind")
        which = self.setting("fleet.project") or self.setting("fleet.namespace")
        if context := self.setting("fleet.context"):
            which = f"{which}@{context}"
        pattern, hosts = self.setting("fleet.pattern"), self._value("fleet.hosts")
        if isinstance(hosts, list):
            kind, which = "ssh", ",".join(map(str, hosts))
        elif pattern:
            kind, which = "pattern", pattern
        elif self.setting("fleet.pid"):
            kind, which = "pid", "PID"
        words = [f"{kind}:{which}" if which else f"{kind}"]
        services = self._value("fleet.services")
        for service in services if isinstance(services, list) else ():
            words += ["--service", str(service)]
        if selector := self.setting("fleet.selector"):
            words += ["--selector", selector]
        if isinstance(hosts, list):
            words += ["--pattern", str(pattern)]
        if inventory := self.setting("fleet.inventory"):
            words += ["--inventory", inventory]
        return f"chaoslab attach {' '.join(map(quote, words))} {self.plan}"

    def setting(self, key: str) -> str | None:
        """The plan's value of a dotted key as text; None if it has none."""
        found = self._value(key)
        return None if found is None else str(found)

    def _value(self, key: str) -> Tree:
        found: Tree = dict(self.settings)
        for name in key.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found


def hint(finding: Finding, record: Record, stderr: Mapping[str, str] = MappingProxyType({})) -> str:
    """What to try, in one or two sentences.

    `stderr` is what stands above of the standard error of nodes, by node; empty if one was silent.
    """
    known = next((HINTS[Code(one)] for one in finding.codes if one in _KNOWN), OTHERWISE)
    is_script = record.setting("training.script") is not None
    if is_script and _OF_LEARNERS.search(known):
        known = _OF_SCRIPTS.get(known, OTHERWISE)
    if "{again}" in known and record.is_attached:
        known = OTHERWISE
    template = _beyond_the_plan(known, record)
    node = next(iter(finding.culprits), _ANYBODY)
    suspects = "the syncer" if node in (_ANYBODY, "syncer") else f"the syncer or of {node}"
    return template.format(
        again=record.again,
        run=record.run,
        journal=record.journal,
        node=node,
        suspects="the script" if is_script else suspects,
        stderr=_stderr(node, record, stderr),
    )


def _beyond_the_plan(template: str, record: Record) -> str:
    """The hint with settings that change something: a run as before would show nothing new."""
    for written, key, value in _SETTING.findall(template):
        said, quantity = record.setting(key), _MORE.get(key)
        if said is None:
            continue
        if quantity and quantity.parse(said) >= quantity.parse(value.strip("'")):
            more = quantity.show(2 * quantity.parse(said))
            template = template.replace(written, f"--set {key}={quote(str(more))}")
        elif said == value:
            return ALREADY.format(setting=f"{key}: {value}", run="{run}", again="{again}")
    return template


_SETTING = re.compile(r"(--set ([\w.]+)=('[^']+'|[^\s`]+))")
_MORE: Mapping[str, Quantity[Any]] = {
    "baseline.warmup": ROUNDS,
    "limits.timeout": DURATION,
    "settle": DURATION,
    "training.stop.rounds": COUNT,
}
"""Keys that hints raise; twice what the plan says if that is as much already."""


def _stderr(node: str, record: Record, shown: Mapping[str, str]) -> str:
    if shown.get(node):
        return f"read what {node} wrote above"
    if node in shown:
        last = f"grep -F {quote(node)} {record.journal} | tail"
        return f"{node} wrote nothing there; see what was last heard of it: `{last}`"
    return f"see what became of {node} in `chaoslab show {record.run} --all`"


_ANYBODY = "the node"

OTHERWISE = (
    "see all that happened in `chaoslab show {run} --all`, then judge the record again with the "
    "checks of today: `chaoslab show {run} --judge`"
)
"""Hint for codes of other packages, and for findings without a code."""

ALREADY = (
    "the plan says `{setting}` already, so the cause is another: see all that happened in "
    "`chaoslab show {run} --all`, and how often it happens: `{again} --repeat 5`"
)
"""Replacement for a hint if the plan has its setting already."""

_MORE_TIME = "repeat it with more time after the last fault: `{again} --set settle=60s`"
_LONGER = "give it more rounds to judge: `{again} --set training.stop.rounds=480`"
_BUSY = (
    "see whether the machine was busy: `chaoslab doctor`; then find out how often it happens: "
    "`{again} --repeat 5`"
)
_PACED = (
    "if learners share cores, pace them as if each had a chip of its own: "
    "`{again} --set training.step_time=auto`"
)
_LOSES = (
    "let learners contribute, or save, more often: `training.sync_every` and "
    "`training.save_every` bound what a death costs"
)
_COMES_BACK = (
    "{stderr}; then see whether it comes back at all with more time: `{again} --set settle=60s`"
)
_CORRUPT = (
    "look for a corrupted parameter, gradient or moment of {node} (a faulty chip, a wrong sign); "
    "compare `cosine` and `norm` of its pushes with its peers' in the journal: "
    "`grep -E 'round.merged|push.accepted|push.bounded' {journal}`"
)
_NOT_ACCEPTED = (
    "the journal says whether {node} sent anything (`learner.pushed`), and why it was refused "
    "(`push.rejected`): `grep -E 'learner.pushed|push.rejected' {journal} | grep {node}`. Then see "
    "whether it happens again: `{again} --repeat 5 --until-failure`"
)
_PROTOCOL = (
    "the journal lines above contradict each other, which no setting of the plan explains: it is "
    "a defect of {suspects}. Confirm it: `{again} --repeat 5 --until-failure`"
)
_RESTORED = (
    "see what {node} said at each join, beside the others: `grep -F learner.joined {journal}`. Its "
    "step, learning rate, moments and place in the data have to come back with its parameters. "
    "Confirm it: `{again} --repeat 5 --until-failure`"
)
_RESUMES = (
    "see which checkpoints {node} had said to be saved, and where it went on: `grep -F "
    "trainer.said {journal}`; its own words are in stdout.log under nodes/ of the record"
)
_RESUMES_ALL = (
    "see what {node} said around its start: `grep -F trainer.said {journal}`. A resume has to "
    "bring back the optimizer's moments, the learning-rate schedule, the place in the data and the "
    "state of random numbers, beside the parameters"
)
_UNTRAINED = (
    "if the program of the learners is your own, look at what it trains on and pushes; or else try "
    "a smaller learning rate: `{again} --set training.inner.lr=0.001`"
)
_STATE = (
    "parameters differ, so a merge, a publication or a join changed them on the way. Without "
    "compression the difference is easier to find: `{again} --set training.compression=f32`"
)
_RECORD = (
    "the record lacks what the check needs. What ended the harness is in crash.txt of the run or "
    "in the last lines of `chaoslab show {run} --all`; repeat the run: `{again}`"
)
_TWIN = "make a fault-free twin to compare with: `{again} --set twin=true`"
_NO_FAULT = (
    "no fault of the plan does what this check judges: leave the check out of `expect`, or add a "
    "fault that does (`chaoslab catalog faults` lists what each takes away)"
)
_LEFT = "undo what is left, then look again: `chaoslab heal {run}`, `chaoslab doctor`"
_PROOF = (
    "`chaoslab catalog faults` says what proves each fault, and what it needs; `chaoslab doctor` "
    "says what this machine supports"
)
_TRIGGER = (
    "the fault came too late, or never: let it begin earlier (`at`), or let training last longer: "
    "`{again} --set training.stop.rounds=480`"
)
_DIVERGES = (
    "see whether it does so without faults, too: look at the loss of the twin in the report, or "
    "lower the rate: `{again} --set training.inner.lr=0.003`"
)
_PAUSE_OF_TRAINING = (
    "see in the timeline above which learners were left and which ones rounds waited for; with a "
    "smaller quorum no learner is waited for: `{again} --set training.quorum=1`"
)
_DETECTION = (
    "the syncer suspects a learner after `suspect_after` without a step, and drops it after "
    "`drop_after`: `{again} --set training.drop_after=4s`"
)
_SLOW_LEARNER = (
    "rounds should take what a slow learner has, and wait for none: "
    "`{again} --set training.contribute=ready`"
)
_DISK = (
    "learners save every `save_every`, and look for the newest whole checkpoint when they start: "
    "{stderr}; then `{again} --set training.save_every=5s`"
)
_LINK = "push less, or less precisely: `{again} --set training.compression=int4`"
_EXPECTED_NOT = (
    "the plan expects this answer to be no, and it is yes: make the fault harder, or leave "
    "`expected: false` out"
)

_OF_LEARNERS = re.compile(r"training\.|learner|syncer|push")
_OF_SCRIPTS: Mapping[str, str] = {
    _LONGER: _MORE_TIME,
    _PACED: _BUSY,
    _LOSES: "let it save more often: the steps since the last checkpoint are what a death costs",
    _NOT_ACCEPTED: _COMES_BACK,
    _RESTORED: _RESUMES_ALL,
}
"""Hints in place of those about what a script does not have."""

HINTS: Mapping[Code, str] = {
    # -- training as a whole
    Code.GAP_TOO_LONG: _PAUSE_OF_TRAINING,
    Code.TRAINING_STOPPED: _PAUSE_OF_TRAINING,
    Code.STOPPED_EARLY: _PROTOCOL,
    Code.ROUNDS_TOO_RARE: _PAUSE_OF_TRAINING,
    Code.TRAINING_WENT_ON: _EXPECTED_NOT,
    Code.TOO_MUCH_LOST: _LOSES,
    Code.PACE_TOO_LOW: _PACED,
    Code.PACE_TOO_HIGH: _PACED,
    Code.PACE_NOT_REGAINED: _MORE_TIME,
    # -- learners that come back or are brought in
    Code.NOT_REJOINED: _COMES_BACK,
    Code.NOT_RESTARTED: _COMES_BACK,
    Code.NO_STEP: _COMES_BACK,
    Code.NOTHING_ACCEPTED: _NOT_ACCEPTED,
    Code.ALL_REJOINED: _EXPECTED_NOT,
    Code.TOO_LATE: _COMES_BACK,
    Code.TOO_FEW_CONTRIBUTIONS: _LONGER,
    Code.OUT_OF_DATE: _MORE_TIME,
    Code.FORMER_SELF_ACCEPTED: _PROTOCOL,
    Code.NOT_JOINED: _COMES_BACK,
    Code.OWN_INITIAL_STATE: _PROTOCOL,
    # -- workers of a script that go on
    Code.ORPHANED: "let workers end with their launcher: by PR_SET_PDEATHSIG (prctl(2)), or when "
    "they read the end of a pipe that it holds open. Those that are left keep ports and devices, "
    "and write checkpoints beside the workers that are started next",
    Code.BEGAN_ANEW: _RESUMES,
    Code.RESUMED_FROM_OLDER: _RESUMES,
    Code.RESUMED_OTHERWISE: _RESUMES,
    Code.STEPS_SKIPPED: _RESUMES,
    Code.DIVERGED: _RESUMES_ALL,
    # -- what learners contribute
    Code.EMPTY_PUSH: _PROTOCOL,
    Code.FAINT_PUSH: _PROTOCOL,
    Code.OVERSIZED_PUSH: _CORRUPT,
    Code.REPEATED_PUSH: _PROTOCOL,
    Code.MISDIRECTED_PUSH: _CORRUPT,
    Code.DATA_REPEATED: _PROTOCOL,
    Code.DATA_SKIPPED: _PROTOCOL,
    Code.JOINED_WITHOUT_DIGESTS: _PROTOCOL,
    Code.JOINED_AT_EARLIER_STEP: _RESTORED,
    Code.LEARNING_RATE_WRONG: _RESTORED,
    Code.MOMENTS_WRONG: _RESTORED,
    Code.SHARD_WRONG: _RESTORED,
    Code.WORKS_AFTER_DEATH: _PROTOCOL,
    Code.LOSS_UNLIKE_PEERS: _PROTOCOL,
    Code.LOSS_UNLIKE_EVALUATED: _PROTOCOL,
    Code.LOSS_NOT_LOWERED: _UNTRAINED,
    # -- learners that no fault touched
    Code.WORKED_TOO_LITTLE: _BUSY,
    Code.SLOWED: _PACED,
    Code.STALLED: _BUSY,
    Code.STEP_TIMES_FALSE: _PROTOCOL,
    Code.STEP_WENT_BACK: _PROTOCOL,
    Code.UNEXPECTED_EXIT: "{stderr}; all that it wrote is in the record, under nodes/. See whether "
    "it happens again: `{again} --repeat 5 --until-failure`",
    Code.REPAIR_GIVEN_UP: "see what the provider said of the slice of {node} (`repair.moved` and "
    "`provider.reported` in the journal). More budget or more time: keys `repair` of the inventory",
    Code.LEFT_EARLY: "{stderr}. See whether it happens again: `{again} --repeat 5 --until-failure`",
    Code.NEVER_STARTED: "another process took part: end strays and what earlier runs left with "
    "`chaoslab halt`, look with `chaoslab doctor`, then repeat the run: `{again}`",
    Code.BEHIND: _MORE_TIME,
    Code.RECONNECTS_TOO_OFTEN: "a learner should wait longer after each failed attempt; they "
    "are `link.opened` in the journal: `chaoslab show {run} --all`",
    # -- membership
    Code.NOT_MISSED: _DETECTION,
    Code.MISSED_TOO_LATE: _DETECTION,
    Code.DROPPED_WRONGLY: _BUSY,
    Code.SUSPECTED_WRONGLY: _BUSY,
    Code.DROPPED_FOR_SLOWNESS: "a slow learner is not a dead one: give it more time than its step "
    "takes, `{again} --set training.suspect_after=5s --set training.drop_after=15s`",
    Code.WEIGHT_WRONG: _PROTOCOL,
    Code.SLOW_LEARNER_AWAITED: _SLOW_LEARNER,
    # -- the accounts of tokens
    Code.NEVER_SENT: _PROTOCOL,
    Code.NOT_ACCEPTED: _PROTOCOL,
    Code.COUNTS_DIFFER: _PROTOCOL,
    Code.ACCEPTED_TWICE: _PROTOCOL,
    Code.MERGED_TWICE: _PROTOCOL,
    Code.PUSH_LOST: _PROTOCOL,
    Code.ROUND_NEVER_CLOSED: _PROTOCOL,
    Code.PUSH_UNANSWERED: _PROTOCOL,
    Code.TOKENS_MISCOUNTED: _PROTOCOL,
    Code.TOKENS_NOT_TRAINED: _PROTOCOL,
    Code.TOKENS_OVERLAP: _PROTOCOL,
    Code.COMMITTED_TOKENS_MISMATCH: _PROTOCOL,
    Code.TOKEN_LOST: _PROTOCOL,
    Code.COMMITTED_DIFFER: _PROTOCOL,
    Code.RUNNING_SUM_WRONG: _PROTOCOL,
    Code.TOKENS_PER_STEP_DIFFER: _PROTOCOL,
    # -- versions and parameters
    Code.JOINED_WITH_OTHER_STATE: _STATE,
    Code.NEVER_PUBLISHED: _STATE,
    Code.ADOPTED_OTHER_STATE: _STATE,
    Code.NOT_CONVERGED: _MORE_TIME,
    Code.ENDED_WITH_OTHER_STATE: _STATE,
    Code.STATE_CHANGED: _STATE,
    Code.MOMENTUM_CHANGED: _STATE,
    Code.STORED_STATE_DIFFERS: _STATE,
    Code.VERSION_SKIPPED: _PROTOCOL,
    Code.WRONG_BASE: _PROTOCOL,
    Code.NOTHING_CHANGED: _PROTOCOL,
    Code.ROUND_CLOSED_TWICE: _PROTOCOL,
    Code.TWO_SYNCERS: "two syncers took part: look for one that an earlier run left with "
    "`chaoslab doctor`, end it with `chaoslab halt`, and repeat the run: `{again}`",
    Code.LAST_VERSION_DIFFERS: _PROTOCOL,
    # -- a syncer that was away
    Code.NOT_HEARD_AGAIN: _MORE_TIME,
    Code.VERSION_LOST: _PROTOCOL,
    Code.CAME_BACK_WITH_OTHER_STATE: _PROTOCOL,
    Code.CAME_BACK_WITH_OTHER_MOMENTUM: _PROTOCOL,
    Code.MERGE_RESTATED_OTHERWISE: _PROTOCOL,
    Code.EPOCH_GIVEN_TWICE: _PROTOCOL,
    # -- checkpoints, links, loss, what is left over
    Code.NOT_SAVED_AGAIN: _DISK,
    Code.DAMAGED_FILE_BELIEVED: _DISK,
    Code.OLDER_FILE_RESUMED: _DISK,
    Code.RATE_TOO_HIGH: _LINK,
    Code.PEAK_TOO_HIGH: "fragments that are pushed at different times do not add up: "
    "`{again} --set training.fragments=12`",
    Code.SAVING_TOO_LOW: _LINK,
    Code.LOSS_TOO_HIGH: _DIVERGES,
    Code.LOSS_NOT_FINITE: _DIVERGES,
    Code.UPDATE_NOT_FINITE: _DIVERGES,
    Code.LEFT_OVER: _LEFT,
    Code.NOT_HEALED: _LEFT,
    Code.STILL_RUNNING: _LEFT,
    # -- what was missing
    Code.NOTHING_TO_JUDGE: "the plan gives this check nothing to judge: see what each check is "
    "about with `chaoslab catalog checks`, and change `expect`",
    Code.START_UNKNOWN: "kill a worker after a checkpoint was saved (`at`), and see whether "
    "`saved` and `resumed` of the plan match its lines: `grep -F trainer.said {journal}`",
    Code.LIVES_OVERLAPPED: "whoever starts the pods does so before the last one has ended, as a "
    "StatefulSet does for one that is deleted by force: use `pod.delete` with `how: evict`, or let "
    "the trainer lock its folder of checkpoints",
    Code.NO_BASELINE: "the run ended before a baseline was measured: see why in "
    "`chaoslab show {run} --all`, or give it more rounds: "
    "`{again} --set training.stop.rounds=480`",
    Code.BASELINE_NOT_STEADY: "rounds came at an uneven pace before any fault. Close what else "
    "uses the machine (`chaoslab doctor`), or warm up for longer: "
    "`{again} --set baseline.warmup='30 rounds'`",
    Code.BASELINE_UNEVEN: "see in `chaoslab show {run} --all` which pulls the learner did not "
    "answer before any fault; if its link or its share of the work is smaller by design, give "
    "`participation` a lower `min_share` in the plan",
    Code.NO_FAULT: _NO_FAULT,
    Code.NOT_HELPED: "see in `chaoslab show {run} --all` what became of the donors of {node}, and "
    "whether the syncer asked another one",
    Code.TOO_FEW_SAMPLES: _LONGER,
    Code.TOO_LITTLE_TIME: _LONGER,
    Code.END_UNKNOWN: _RECORD,
    Code.RECORD_INCOMPLETE: _RECORD,
    Code.RECORD_BROKEN: "the journal is damaged, or of another version: put back a copy of it, or "
    "repeat the run: `{again}`",
    Code.LINES_REFUSED: "{node} printed malformed or forbidden event lines: see its "
    "stdout.log under nodes/ of the record, and let it print to standard error instead",
    Code.LINES_MIXED: "see the lines and whom each was taken for: `grep -F trainer.said {journal}`",
    Code.NO_TWIN: _TWIN,
    Code.TWIN_NOT_COMPARABLE: _TWIN,
    Code.TWIN_TOO_SHORT: _LONGER,
    Code.NO_LEARNER_LEFT: "at times no learner was alive, so there is no pace to judge: protect "
    "one, `{again} --set limits.min_alive=1`",
    Code.MACHINE_STALLED: _BUSY,
    Code.STEP_TIME_NOT_KEPT: "the machine cannot carry the learners at this step time: use fewer "
    "learners, or let it be measured: `{again} --set training.step_time=auto`",
    Code.CHECK_CRASHED: "the check itself is broken; judge with the others, by a plan that leaves "
    "it out: `chaoslab show {run} --expect-from PLAN`",
    Code.NOT_PROVED: _PROOF,
    Code.NOT_INJECTED: _TRIGGER,
    Code.INJECTED_TOO_LATE: _TRIGGER,
    Code.HEAL_FAILED: _LEFT,
    Code.EFFECT_GOES_ON: "compare steps and links of its target before and after the fault: "
    "`chaoslab show {run}`; what the fault does is left on the target, or the target does not "
    "recover from it by itself",
    Code.NO_JANITOR: "see why none could be started in janitor.log of the record; "
    "`chaoslab doctor` shows what this machine lacks",
    Code.DISK_BLOCKED: "make room on {node}, where ~/.chaoslab and temporary files are, or have it "
    "replaced; then repeat the run: `{again}`",
    Code.LINKS_LOST: "the links ended by themselves: `chaoslab doctor` shows what they lack on "
    "this machine; then repeat the run: `{again}`",
    Code.RUN_CUT_SHORT: "the run did not come to its end: see why in `chaoslab show {run} --all`. "
    "If only the time ran out: `{again} --set limits.timeout=20m`",
    Code.STOP_NOT_SAID: "read what the syncer wrote to standard error, in nodes/syncer of the "
    "record; then `{again}`",
    Code.STOPPED_BY_REQUEST: "the syncer was asked to end, by a signal or `chaoslab halt`: "
    "repeat the run and leave it alone: `{again}`",
}

_KNOWN = frozenset(code.value for code in HINTS)
