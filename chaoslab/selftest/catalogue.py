"""Every trial of `chaoslab selftest`. To add one: a mutant or a plan, and an entry here.

The words are those by which the verdict shows that it understood: another reason not to pass counts
as a miss. First the runs in which nothing is wrong but the plan, then nodes that break what
chaoslab promises of a training, then a harness that does not do what it says.
"""

from chaoslab.selftest.mutants import OTHER_VICTIM, VICTIM
from chaoslab.selftest.trial import PLANS, Trial

_PLANS = (
    Trial(
        name="never_injected",
        wrong="the moment for the fault never comes",
        plan="killed",
        settings=("faults.dies.at={step: 10000000}",),
        check="evidence",
        words="was never injected",
    ),
    Trial(
        name="restless_baseline",
        wrong="nobody could say what was usual before the fault",
        plan="killed",
        settings=("baseline.max_variation=0.01%",),
        check="baseline",
        words="was not steady",
    ),
)

_CLEANUP_ALONE = "expect=[{check: cleanup}]"
_UNEXPECTED = (
    Trial(
        name="unexpected_stop",
        wrong="training stops, and the plan does not ask about it",
        plan="killed",
        programs={"syncer": "patient_syncer"},
        settings=(_CLEANUP_ALONE, "faults.dies.for=9s"),
        check="training_continues",
        words="training did not continue",
    ),
    Trial(
        name="unexpected_absence",
        wrong="the victim never takes part again, and the plan does not ask",
        plan="killed",
        programs={"learner": "mute_rejoiner"},
        settings=(_CLEANUP_ALONE,),
        check="learners_rejoin",
        words=f"{VICTIM} did not rejoin",
    ),
)

_SYNCERS = (
    Trial(
        name="patient_syncer",
        wrong="the syncer waits for everyone",
        plan="killed",
        programs={"syncer": "patient_syncer"},
        check="continuity",
        words="no round for",
    ),
    Trial(
        name="deaf_syncer",
        wrong="the syncer loses the pushes of one learner",
        plan="killed",
        programs={"syncer": "deaf_syncer"},
        check="ledger",
        words="merged without it",
        culprits=(VICTIM,),
    ),
    Trial(
        name="double_merger",
        wrong="the syncer merges pushes of one learner twice",
        plan="calm",
        programs={"syncer": "double_merger"},
        check="ledger",
        words="was merged 2 times",
        culprits=(VICTIM,),
    ),
    Trial(
        name="replaying_syncer",
        wrong="the syncer accepts again what it accepted before",
        plan="echoed",
        programs={"syncer": "replaying_syncer"},
        check="ledger",
        words="2 times",
        culprits=(VICTIM,),
    ),
    Trial(
        name="padded_syncer",
        wrong="the syncer counts committed tokens twice",
        plan="calm",
        programs={"syncer": "padded_syncer"},
        check="ledger",
        words="all contributors together gave",
    ),
    Trial(
        name="unfair_syncer",
        wrong="the work of one learner weighs less than its tokens",
        plan="calm",
        programs={"syncer": "unfair_syncer"},
        check="contribution_share",
        words="of the weight for",
        culprits=(VICTIM,),
    ),
    Trial(
        name="two_faced_syncer",
        wrong="the syncer publishes other bytes to one learner",
        plan="calm",
        programs={"syncer": "two_faced_syncer"},
        check="agreement",
        words="not what the syncer published",
        culprits=(VICTIM,),
    ),
    Trial(
        name="keeping_syncer",
        wrong="the syncer drops a member and keeps it",
        plan="paused",
        programs={"syncer": "keeping_syncer"},
        check="rejoin",
        words="yet a push of its former self was accepted",
        culprits=(VICTIM,),
    ),
    Trial(
        name="blind_syncer",
        wrong="the syncer misses nobody",
        plan="paused",
        programs={"syncer": "blind_syncer"},
        check="detection",
        words="the syncer did not miss it",
        culprits=(VICTIM,),
    ),
    Trial(
        name="idle_syncer",
        wrong="the syncer publishes versions and merges nothing",
        plan="calm",
        programs={"syncer": "idle_syncer"},
        check="versions",
        words="nothing was merged into them",
    ),
    Trial(
        name="uphill_syncer",
        wrong="the loss runs away, and all books are in order",
        plan="calm",
        programs={"syncer": "uphill_syncer"},
        check="numeric_health",
        words="'s loss ",
    ),
    Trial(
        name="forgetful_syncer",
        wrong="the syncer forgets its momentum when it is restarted",
        plan="restarted",
        programs={"syncer": "forgetful_syncer"},
        check="succession",
        words="came back with another momentum",
    ),
    Trial(
        name="believing_syncer",
        wrong="the syncer takes a stranger for a learner",
        plan="calm",
        programs={"syncer": "believing_syncer", "learner": "intruding_learner"},
        check="strangers",
        words="which was never started",
        culprits=(OTHER_VICTIM,),
    ),
    Trial(
        name="rewound_syncer",
        wrong="the syncer comes back without the last version",
        plan="restarted",
        programs={"syncer": "rewound_syncer"},
        check="succession",
        words="and came back with",
    ),
    Trial(
        name="careless_syncer",
        wrong="the syncer does not wait for its disk",
        plan="unpowered",
        programs={"syncer": "careless_syncer"},
        check="succession",
        words="and came back with",
    ),
)

_LEARNERS = (
    Trial(
        name="mute_rejoiner",
        wrong="the victim comes back and never contributes again",
        plan="killed",
        programs={"learner": "mute_rejoiner"},
        check="rejoin",
        words="nothing that it sent was accepted",
        culprits=(VICTIM,),
    ),
    Trial(
        name="stale_rejoiner",
        wrong="the victim comes back with old weights",
        plan="killed",
        programs={"learner": "stale_rejoiner"},
        check="agreement",
        words="joined with other parameters",
        culprits=(VICTIM,),
    ),
    Trial(
        name="crashing_rejoiner",
        wrong="a later life of the victim crashes, and the heal starts it silently again",
        plan="killed",
        settings=("faults.dies.fault=process.restart", "faults.dies.for=8s"),
        programs={"learner": "crashing_rejoiner"},
        check="unasked",
        words="exited with code 1",
        culprits=(VICTIM,),
    ),
    Trial(
        name="early_leaver",
        wrong="a healthy learner leaves early, as if training had ended",
        plan="calm",
        programs={"learner": "early_leaver"},
        check="unasked",
        words="as if training had ended",
        culprits=(OTHER_VICTIM,),
    ),
    Trial(
        name="repeating_learner",
        wrong="the victim trains again on what it had trained on",
        plan="killed",
        programs={"learner": "repeating_learner"},
        check="rejoin",
        words="it trains again on what it had trained on",
        culprits=(VICTIM,),
    ),
    Trial(
        name="no_reconnect",
        wrong="a learner never dials again",
        plan="refused",
        programs={"learner": "no_reconnect"},
        check="rejoin",
        words="nothing that it sent was accepted",
        culprits=(VICTIM,),
    ),
    Trial(
        name="hammering_dialler",
        wrong="a learner dials without a pause",
        plan="refused",
        programs={"learner": "hammering_dialler"},
        check="retries",
        words="dialled again",
        culprits=(VICTIM,),
    ),
    Trial(
        name="waiting_learner",
        wrong="survivors wait for the syncer, and that for everyone",
        plan="killed",
        programs={"syncer": "patient_syncer", "learner": "waiting_learner"},
        check="survivors",
        words="stood still",
    ),
    Trial(
        name="false_clock",
        wrong="a survivor reports a fifth of its step times",
        plan="killed",
        programs={"learner": "false_clock"},
        check="survivors",
        words="reported step times that add up to",
        culprits=(OTHER_VICTIM,),
    ),
    Trial(
        name="double_counter",
        wrong="a learner counts every token twice",
        plan="calm",
        programs={"learner": "double_counter"},
        check="ledger",
        words="tokens a step",
        culprits=(VICTIM,),
    ),
    Trial(
        name="malformed_learner",
        wrong="hundreds of a learner's lines are no events",
        plan="calm",
        programs={"learner": "malformed_learner"},
        check="refused",
        words=f"of {VICTIM}",
        culprits=(VICTIM,),
    ),
    Trial(
        name="wrong_adopter",
        wrong="learners adopt something else than was published",
        plan="calm",
        programs={"learner": "wrong_adopter"},
        check="agreement",
        words="other parameters than the syncer published",
        culprits=(VICTIM, OTHER_VICTIM),
    ),
    Trial(
        name="stubborn_learner",
        wrong="faults have no effect on learners",
        plan="disobeyed",
        programs={"learner": "stubborn_learner"},
        check="evidence",
        words="process.hang) is failed on learner-1",
    ),
    Trial(
        name="false_hanger",
        wrong="a learner that was told to hang only says so",
        plan="disobeyed",
        programs={"learner": "false_hanger"},
        check="evidence",
        words="went on working",
    ),
)

_FLEETS = (
    Trial(
        name="idle_kill",
        wrong="the kill kills nobody",
        plan="killed",
        fleet="idle_kill",
        check="evidence",
        words="did not exit on SIGKILL",
    ),
    Trial(
        name="stray_kill",
        wrong="the kill hits another learner",
        plan="killed",
        fleet="stray_kill",
        check="unasked",
        words=f"{OTHER_VICTIM} was killed by SIGKILL",
        culprits=(OTHER_VICTIM,),
    ),
    Trial(
        name="eager_restart",
        wrong="somebody else starts the victim at once",
        plan="killed",
        fleet="eager_restart",
        check="evidence",
        words="is weak on",
    ),
    Trial(
        name="idle_heal",
        wrong="the heal does nothing",
        plan="killed",
        fleet="idle_heal",
        check="rejoin",
        words="its process never came up",
        culprits=(VICTIM,),
    ),
    Trial(
        name="idle_resume",
        wrong="a stopped process is not resumed, and the fleet says that it was",
        plan="paused",
        fleet="idle_resume",
        check="heal",
        words="is stopped",
    ),
    Trial(
        name="messy_fleet",
        wrong="a process is left behind",
        plan="left_behind",
        fleet="messy_fleet",
        check="residue",
        words=f"of {VICTIM}",
    ),
    Trial(
        name="foreign_undo",
        wrong="the run's book names a folder of somebody else",
        plan="calm",
        fleet="foreign_undo",
        check="residue",
        words="is refused",
    ),
)

_STALLS = (
    Trial(
        name="briefly_stalled_harness",
        wrong="training pauses, and the harness stands still for a part of it",
        plan="killed",
        programs={"syncer": "patient_syncer"},
        fleet="briefly_stalled_harness",
        settings=("faults.dies.for=7s",),
        check="continuity",
        words="(meanwhile the harness stood still",
    ),
)

CONTROLS = (
    *(
        Trial(name=f"{plan}_plan", wrong="", plan=plan)
        for plan in sorted(path.stem for path in PLANS.glob("*.yaml"))
    ),
    Trial(name="kill_half", wrong="", plan="kill_half"),
    Trial(name="stalled_harness", wrong="", plan="killed", fleet="stalled_harness"),
    Trial(
        name="refused_intruder", wrong="", plan="calm", programs={"learner": "intruding_learner"}
    ),
)
"""Nothing is wrong with training: the plans that the mutants are tried with, one that comes with
chaoslab, a harness that stands still while training goes on, and a stranger that a sound syncer
turns away."""

TRIALS: tuple[Trial, ...] = (
    *_PLANS,
    *_UNEXPECTED,
    *_SYNCERS,
    *_LEARNERS,
    *_FLEETS,
    *_STALLS,
    *CONTROLS,
)
"""In the order in which they are run."""
