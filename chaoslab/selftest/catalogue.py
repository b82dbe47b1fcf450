"""Trials of `chaoslab research selftest`. To add one: a mutant or a plan, and an entry here.

A trial is caught if the named check is not PASS, with these codes and these culprits;
a verdict that is not PASS for another reason is mistaken. The trials are runs in which nothing is
wrong but the plan; defective syncers, learners and fleets; and controls, which must pass.
"""

from collections.abc import Mapping, Sequence

from chaoslab.checks.codes import Code
from chaoslab.faults.evidence.codes import Code as Evidence
from chaoslab.selftest.mutants import OTHER_VICTIM, VICTIM
from chaoslab.selftest.trial import PLANS, Trial


def _trial(
    name: str,
    plan: str,
    wrong: str,
    check: str,
    codes: str | Sequence[str],
    *culprits: str,
    programs: Mapping[str, str] | None = None,
    fleet: str = "",
    settings: Sequence[str] = (),
) -> Trial:
    return Trial(
        name=name, plan=plan, wrong=wrong, check=check,
        codes=(codes,) if isinstance(codes, str) else tuple(codes), culprits=culprits,
        programs=programs or {}, fleet=fleet, settings=settings,
    )  # fmt: skip


def _mutants(role: str, *trials: tuple[str, ...]) -> tuple[Trial, ...]:
    """Trials of one mutant each, of a role or of the fleet: its name, then as for `_trial`."""
    return tuple(
        _trial(*trial, fleet=trial[0])
        if role == "fleet"
        else _trial(*trial, programs={role: trial[0]})
        for trial in trials
    )


# fmt: off
_PLANS = (
    _trial("never_injected", "killed", "the moment for the fault never comes",
           "evidence", Code.NOT_INJECTED, settings=["faults.dies.at={step: 10000000}"]),
    _trial("restless_baseline", "killed", "what was usual before the fault is unknown",
           "baseline", Code.BASELINE_NOT_STEADY, settings=["baseline.max_variation=0.01%"]),
)

_CLEANUP_ALONE = "expect=[{check: cleanup}]"
_UNEXPECTED = (
    _trial("unexpected_stop", "killed", "training stops, and the plan does not ask about it",
           "training_continues", Code.TRAINING_STOPPED,
           programs={"syncer": "patient_syncer"},
           settings=[_CLEANUP_ALONE, "faults.dies.for=9s"]),
    _trial("unexpected_absence", "killed",
           "the victim never takes part again, and the plan does not ask",
           "learners_rejoin", Code.TOO_LITTLE_TIME, VICTIM,
           programs={"learner": "mute_rejoiner"}, settings=[_CLEANUP_ALONE]),
)

_SYNCERS = _mutants(
    "syncer",
    ("patient_syncer", "killed", "the syncer waits for everyone", "continuity", Code.GAP_TOO_LONG),
    ("deaf_syncer", "killed", "the syncer loses the pushes of one learner",
     "ledger", Code.PUSH_LOST, VICTIM),
    ("double_merger", "calm", "the syncer merges pushes of one learner twice",
     "ledger", Code.MERGED_TWICE, VICTIM),
    ("replaying_syncer", "echoed", "the syncer accepts again what it accepted before",
     "ledger", Code.ACCEPTED_TWICE, VICTIM),
    ("padded_syncer", "calm", "the syncer counts committed tokens twice",
     "ledger", Code.RUNNING_SUM_WRONG),
    ("unfair_syncer", "calm", "the work of one learner weighs less than its tokens",
     "contribution_share", Code.WEIGHT_WRONG, VICTIM),
    ("two_faced_syncer", "calm", "the syncer publishes other bytes to one learner",
     "agreement", Code.ADOPTED_OTHER_STATE, VICTIM),
    ("keeping_syncer", "paused", "the syncer drops a member and keeps it",
     "rejoin", Code.FORMER_SELF_ACCEPTED, VICTIM),
    ("blind_syncer", "paused", "the syncer misses no learner",
     "detection", Code.NOT_MISSED, VICTIM),
    ("idle_syncer", "calm", "the syncer publishes versions and merges nothing",
     "versions", Code.NOTHING_CHANGED),
    ("uphill_syncer", "calm", "the loss runs away, and all books are in order",
     "numeric_health", Code.LOSS_TOO_HIGH),
    ("forgetful_syncer", "restarted", "the syncer forgets its momentum when it is restarted",
     "succession", Code.CAME_BACK_WITH_OTHER_MOMENTUM),
    ("rewound_syncer", "restarted", "the syncer comes back without the last version",
     "succession", Code.VERSION_LOST),
    ("careless_syncer", "unpowered", "the syncer does not wait for its disk",
     "succession", Code.VERSION_LOST),
)

_LEARNERS = _mutants(
    "learner",
    ("mute_rejoiner", "killed", "the victim comes back and never contributes again",
     "rejoin", Code.NOTHING_ACCEPTED, VICTIM),
    ("stale_rejoiner", "killed", "the victim comes back with old weights",
     "agreement", Code.JOINED_WITH_OTHER_STATE, VICTIM),
    ("early_leaver", "calm", "a healthy learner leaves early, as if training had ended",
     "unasked", Code.LEFT_EARLY, OTHER_VICTIM),
    ("repeating_learner", "killed", "the victim trains again on what it had trained on",
     "real_work", Code.DATA_REPEATED, VICTIM),
    ("reopening_learner", "restarted",
     "the victim begins its data anew when the syncer is back",
     "real_work", Code.DATA_REPEATED, VICTIM),
    ("hot_rejoiner", "killed", "the victim comes back, and trains at ten times the learning rate",
     "real_work", Code.LEARNING_RATE_WRONG, VICTIM),
    ("misplaced_rejoiner", "killed", "the victim comes back, and reads the data of another",
     "real_work", Code.SHARD_WRONG, VICTIM),
    ("forgetful_rejoiner", "killed", "the victim comes back, and loses its donor's moments",
     "real_work", Code.MOMENTS_WRONG, VICTIM),
    ("no_reconnect", "refused", "a learner never reconnects",
     "rejoin", Code.NOTHING_ACCEPTED, VICTIM),
    ("false_clock", "killed", "a survivor reports a fifth of its step times",
     "survivors", Code.STEP_TIMES_FALSE, OTHER_VICTIM),
    ("double_counter", "calm", "a learner counts every token twice",
     "ledger", Code.TOKENS_PER_STEP_DIFFER, VICTIM),
    ("malformed_learner", "calm", "hundreds of a learner's lines are no events",
     "refused", Code.LINES_REFUSED, VICTIM),
    ("wrong_adopter", "calm", "learners adopt something else than was published",
     "agreement", Code.ENDED_WITH_OTHER_STATE, VICTIM, OTHER_VICTIM),
    ("stubborn_learner", "disobeyed", "faults have no effect on learners",
     "evidence", Evidence.STILL_WORKING),
    ("lasting_slowness", "slowed", "a chip stays slow when its fault is healed",
     "heal", Code.EFFECT_GOES_ON),
    ("shirking_learner", "slowed", "a learner answers no pull while its chip is slow",
     "participation", Code.WORKED_TOO_LITTLE, VICTIM),
    ("false_hanger", "disobeyed", "a learner that was told to hang only says so",
     "evidence", Evidence.STILL_WORKING),
)

_LONG = ["training.stop={rounds: 300}", "limits.timeout=4m"]
"""Until the work of the victim after its return can be judged."""
_AFTER_RETURNS = tuple(
    _trial(name, "killed", wrong, check, code, VICTIM, programs={"learner": name}, settings=_LONG)
    for name, wrong, check, code in (
        ("declining_rejoiner", "the victim comes back, and declines from the fourth pull on",
         "participation", Code.WORKED_TOO_LITTLE),
        ("idle_rejoiner", "the victim comes back, and pushes zeros",
         "real_work", Code.EMPTY_PUSH),
        ("faint_rejoiner", "the victim comes back, and trains at a thousandth of the rate",
         "real_work", Code.FAINT_PUSH),
        ("stuck_rejoiner", "the victim comes back, and pushes its first updates for ever",
         "real_work", Code.REPEATED_PUSH),
        ("skipping_rejoiner", "the victim comes back, and skips a part of its data",
         "real_work", Code.DATA_SKIPPED),
        ("one_batch_rejoiner", "the victim comes back, and trains on one batch",
         "real_work", Code.LOSS_UNLIKE_PEERS),
        ("lossless_rejoiner", "the victim comes back, and reports a loss of 0",
         "real_work", Code.LOSS_UNLIKE_PEERS),
    )
)

_HANDED_OVER = (
    _trial("flipping_donor", "killed", "donors hand over fragments with one bit flipped",
           "agreement", Code.JOINED_WITH_OTHER_STATE, VICTIM,
           programs={"learner": "flipping_donor"}, settings=["training.sync_every=240"]),
)
"""With few rounds: a newer version that comes before the join undoes what is flipped."""

_FLIPPED = tuple(
    _trial(name, "calm", wrong, "real_work", code, VICTIM, programs={"learner": name},
           settings=["training.stop={rounds: 150}"])
    for name, wrong, code in (
        ("turned_learner", "the updates of a learner have the wrong sign",
         Code.MISDIRECTED_PUSH),
        ("flipped_learner", "the signs of a learner's parameters flip now and then",
         Code.OVERSIZED_PUSH),
    )
)
"""Until the usual norm of each fragment is known, and for some contributions after that."""

_IN_THE_END = tuple(
    _trial(name, "calm", wrong, check, code, programs={"syncer": name}, settings=[stop])
    for name, wrong, check, code, stop in (
        ("rare_syncer", "the syncer begins a round every 1.4 s, and did so far more often",
         "cadence", Code.ROUNDS_TOO_RARE, "training.stop={time: 25s}"),
        ("partial_syncer", "the syncer merges one fragment no more",
         "cadence", Code.ROUNDS_TOO_RARE, "training.stop={time: 25s}"),
        ("hasty_syncer", "the syncer ends training long before its stop rule is met",
         "stop", Code.STOPPED_EARLY, "training.stop={rounds: 240}"),
    )
)

_FLEETS = _mutants(
    "fleet",
    ("idle_kill", "killed", "the kill kills nothing", "evidence", Evidence.STILL_RUNNING),
    ("stray_kill", "killed", "the kill hits another learner",
     "unasked", Code.UNEXPECTED_EXIT, OTHER_VICTIM),
    ("eager_restart", "killed", "another program starts the victim at once",
     "evidence", Evidence.TOO_SHORT),
    ("idle_heal", "killed", "the heal does nothing", "rejoin", Code.NOT_RESTARTED, VICTIM),
    ("idle_resume", "paused", "a stopped process is not resumed, and the fleet says that it was",
     "heal", Code.HEAL_FAILED),
    ("hung_pause", "paused", "the call that stops the victim never returns",
     "evidence", Code.NOT_INJECTED),
    ("messy_fleet", "left_behind", "a process is left behind", "residue", Code.LEFT_OVER),
    ("foreign_undo", "calm", "the run's book names a folder that is not the run's",
     "residue", Code.LEFT_OVER),
)

_SCRIPTS = tuple(
    _trial(f"{broken}_trainer", "scripted", wrong, check, code, *(culprits or ["worker-1"]),
           settings=[f"vars.broken={broken}"])
    for broken, wrong, check, code, *culprits in (
        ("no_resume", "a trainer begins anew", "resume", Code.BEGAN_ANEW),
        ("older", "a trainer goes on from an older checkpoint",
         "resume", Code.RESUMED_FROM_OLDER),
        ("weights", "a trainer goes on with its step, and begins its weights anew",
         "resume", Code.BEGAN_ANEW),
        ("moments", "a trainer goes on with fresh moments", "divergence", Code.DIVERGED),
        ("rate", "a trainer goes on with its learning rate from zero",
         "real_work", Code.LEARNING_RATE_WRONG),
        ("data", "a trainer begins its data anew", "divergence", Code.DIVERGED),
        ("shard", "a trainer goes on with the data of another", "divergence", Code.DIVERGED),
        ("skips", "a trainer goes on, and skips 100 steps after 20 steps",
         "resume", Code.STEPS_SKIPPED),
        ("unsaved", "a trainer goes on, and saves no more", "resume", Code.NOT_SAVED_AGAIN),
        ("hangs", "a trainer goes on, and hangs after 20 steps",
         "participation", Code.WORKED_TOO_LITTLE),
        ("ends", "a trainer goes on, and ends after 20 steps as if it had finished",
         "unasked", Code.UNEXPECTED_EXIT),
        ("leaves", "a trainer that was not killed ends as if all had finished",
         "unasked", Code.UNEXPECTED_EXIT, "worker-0"),
    )
)
"""Trainings that are not chaoslab's own: nothing but lines of text tells what they do."""

_SEVERAL = (
    _trial("bursting_syncer", "restarted",
           "the syncer makes up at once for all rounds that became due while it was away",
           "bandwidth", Code.PEAK_TOO_HIGH,
           programs={"syncer": "bursting_syncer"},
           settings=["expect=[{check: bandwidth, max_peak: 3x}, {check: cleanup}]",
                     "training.step_time=80ms", "training.stop={time: 25s}"]),
    _trial("losing_syncer", "restarted", "the syncer comes back, and merges one fragment no more",
           "cadence", Code.ROUNDS_TOO_RARE,
           programs={"syncer": "losing_syncer"}, settings=["training.stop={time: 25s}"]),
    _trial("crawling_rejoiner", "killed", "the victim comes back at a fifth of its pace",
           "participation", Code.WORKED_TOO_LITTLE, VICTIM,
           programs={"learner": "crawling_rejoiner"},
           settings=["training.step_time=200ms", "training.stop={rounds: 150}",
                     "limits.timeout=4m"]),
    _trial("keeping_rejoiner", "killed", "the victim comes back with moments that it once saved",
           "real_work", Code.MOMENTS_WRONG, VICTIM,
           programs={"learner": "keeping_rejoiner"}, settings=["training.save_every=1s"]),
    _trial("noisy_learners", "calm", "all learners push noise",
           "real_work", Code.LOSS_NOT_LOWERED,
           programs={"learner": "noisy_learners"},
           settings=["training.evaluate_every=100000", "training.stop={rounds: 200}"]),
    _trial("reconnecting_without_pause", "refused", "a learner reconnects without a pause",
           "retries", Code.RECONNECTS_TOO_OFTEN, VICTIM,
           programs={"learner": "reconnecting_without_pause"}, settings=["faults.cut.for=9s"]),
    _trial("unauthenticating_syncer", "calm", "the syncer takes a stranger for a learner",
           "strangers", Code.NEVER_STARTED, OTHER_VICTIM,
           programs={"syncer": "unauthenticating_syncer", "learner": "intruding_learner"}),
    _trial("crashing_rejoiner", "killed",
           "a later life of the victim crashes, and the heal starts it silently again",
           "unasked", Code.UNEXPECTED_EXIT, VICTIM,
           programs={"learner": "crashing_rejoiner"},
           settings=["faults.dies.restart=true", "faults.dies.for=8s"]),
    _trial("waiting_learner", "killed", "survivors wait for the syncer, and that for everyone",
           "survivors", Code.STALLED,
           programs={"syncer": "patient_syncer", "learner": "waiting_learner"},
           settings=["faults.dies.for=8s",
                     "expect=[{check: survivors, max_slowdown: 3x, min_samples: 6}]"]),
    _trial("briefly_stalled_harness", "killed",
           "training pauses, and the harness stalls for a part of it",
           "continuity", (Code.GAP_TOO_LONG, Code.MACHINE_STALLED),
           programs={"syncer": "patient_syncer"}, fleet="briefly_stalled_harness",
           settings=["faults.dies.for=7s"]),
)
"""Several mutants at once, or a mutant on an altered plan."""
# fmt: on

CONTROLS = (
    *(Trial(name=f"{own.stem}_plan", plan=own.stem) for own in sorted(PLANS.glob("*.yaml"))),
    Trial(name="kill_half", plan="kill_half"),
    Trial(name="stalled_harness", plan="killed", fleet="stalled_harness"),
    Trial(name="refused_intruder", plan="calm", programs={"learner": "intruding_learner"}),
)
"""The plans of the trials and one that comes with chaoslab, without a defect; a harness that stands
still while training goes on; and a stranger that a sound syncer turns away."""

TRIALS: tuple[Trial, ...] = (
    *_PLANS, *_UNEXPECTED, *_SYNCERS, *_LEARNERS, *_AFTER_RETURNS, *_HANDED_OVER, *_FLIPPED,
    *_IN_THE_END, *_FLEETS, *_SCRIPTS, *_SEVERAL, *CONTROLS,
)  # fmt: skip
"""Trials in the order in which they are run."""
