"""What a mistaken plan is told: the place, the key, and what to write."""

import re
from dataclasses import make_dataclass
from pathlib import Path

import pytest

from chaoslab.core.errors import ExitCode, HarnessBug, PackageError, PlanError
from chaoslab.plan.file import Kinds
from chaoslab.plan.file import load as load_file
from chaoslab.plan.file.document import nearest
from tests.plan.file.catalogue import HEAD, KILL, KINDS, Loader, one_fault


def told(load: Loader, text: str, *overrides: str) -> str:
    with pytest.raises(PlanError) as refused:
        load(text, *overrides)
    assert refused.value.exit_code is ExitCode.REFUSED
    return str(refused.value)


@pytest.mark.parametrize(
    ("line", "place", "key"),
    [
        ("lerners: 3", "3:1", "lerners"),
        ("training: {lerners: 3}", "3:12", "training.lerners"),
        ("training: {learners: four}", "3:22", "training.learners"),
        ("training: {learners: true}", "3:22", "training.learners"),
        ("training: {learners: 4.5}", "3:22", "training.learners"),
        ("training: {outer: {lr: .nan}}", "3:24", "training.outer.lr"),
        ("training: {data: 3}", "3:18", "training.data"),
        ("training: {merge: rad}", "3:19", "training.merge"),
        ("training: {compression: int2}", "3:25", "training.compression"),
        ("training: {algorithm: decopled}", "3:23", "training.algorithm"),
        ("training: {stop: {tokens: 2m}}", "3:27", "training.stop.tokens"),
        ("training: {quorum: 9}", "3:20", "training.quorum"),
        ("training: {learners: 0}", "3:22", "training.learners"),
        ("training: {learners: 1000000000000000000000}", "3:22", "training.learners"),
        ("training: {model: nanoo}", "3:19", "training.model"),
        ("training: {model: gpt}", "3:19", "training.model"),
        ("training: {task: foo.bar}", "3:18", "training.task"),
        ("training: {task: 'foo bar:make'}", "3:18", "training.task"),
        ("training: {task: 'foo:'}", "3:18", "training.task"),
        ("training: {fragments: 21}", "3:23", "training.fragments"),
        ("training: {suspect_after: 0s}", "3:27", "training.suspect_after"),
        ("training: {drop_after: 0s}", "3:24", "training.drop_after"),
        ("training: {blend: 100%}", "3:19", "training.blend"),
        ("training: {blend: 0.5}", "3:19", "training.blend"),
        ("training: {algorithm: data_parallel, blend: 50%}", "3:45", "training.blend"),
        ("training: {algorithm: elastic_data_parallel, blend: 1%}", "3:53", "training.blend"),
        ("training: {start_patience: 0s}", "3:28", "training.start_patience"),
        ("training: {evaluate_every: 0}", "3:28", "training.evaluate_every"),
        ("training: {grace: {gamma: 1}}", "3:27", "training.grace.gamma"),
        ("training: {grace: {max_steps: -1}}", "3:31", "training.grace.max_steps"),
        ("training: {outer: {lr: -1}}", "3:24", "training.outer.lr"),
        ("training: {outer: {lr: 0}}", "3:24", "training.outer.lr"),
        ("training: {outer: {momentum: 1}}", "3:30", "training.outer.momentum"),
        ("training: {outer: {momentum: -0.1}}", "3:30", "training.outer.momentum"),
        ("training: {inner: {lr: 0}}", "3:24", "training.inner.lr"),
        ("training: {inner: {batch: 0}}", "3:27", "training.inner.batch"),
        ("training: {inner: {sequence: -128}}", "3:30", "training.inner.sequence"),
        ("training: {inner: {warmup_steps: -1}}", "3:34", "training.inner.warmup_steps"),
        (
            "training: {inner: {warmup_steps: 70, decay_steps: 70}}",
            "3:34",
            "training.inner.warmup_steps",
        ),
        ("training: {inner: {decay_steps: 0}}", "3:33", "training.inner.decay_steps"),
        ("training: {inner: {final_share: 150%}}", "3:33", "training.inner.final_share"),
        ("training: {inner: {weight_decay: -1}}", "3:34", "training.inner.weight_decay"),
        ("seed: 9223372036854775808", "3:7", "seed"),
        (f"seed: {'9' * 5000}", "3:7", "seed"),
        ("training: 3", "3:11", "training"),
        ("settle: 30", "3:9", "settle"),
        ("settle: [30s]", "3:9", "settle"),
        ("settle:", "3:1", "settle"),
        ("settle: ~", "3:1", "settle"),
        ("training: {outer: {lr: 2,5}}", "3:24", "training.outer.lr"),
        ("training: {outer: {lr: 0,05}}", "3:24", "training.outer.lr"),
        ("baseline: {warmup: 12 rounds, window 24}", "3:31", "baseline.window 24"),
        ("baseline: {warmup: 12}", "3:20", "baseline.warmup"),
        ("baseline: {max_variation: 0.25}", "3:27", "baseline.max_variation"),
        ("baseline: {window: 1 rounds}", "3:20", "baseline.window"),
        ("limits: {max_affected: 150%}", "3:9", "limits"),
        ("limits: {protected: learner-0}", "3:21", "limits.protected"),
        ("fleet: {kind: dockr}", "3:15", "fleet.kind"),
        ("fleet: {links: embeded}", "3:16", "fleet.links"),
        ("fleet: {regions: [eu]}", "3:18", "fleet.regions"),
        ("fleet: {regions: {eu: half}}", "3:23", "fleet.regions.eu"),
        ("fleet: {regions: {eu: 0}}", "3:8", "fleet"),
        ("fleet: {profiles: {eu: 3}}", "3:24", "fleet.profiles.eu"),
        ("fleet: {profiles: lan}", "3:19", "fleet.profiles"),
        ("fleet: {programs: [a]}", "3:19", "fleet.programs"),
        ("fleet: {programs: {lerner: a.b}}", "3:20", "fleet.programs.lerner"),
        ("fleet: {programs: {learner: a/b}}", "3:8", "fleet"),
        ("fleet: {links: toxiproxy, toxiproxy: x}", "3:38", "fleet.toxiproxy"),
        ("fleet: {toxiproxy: h:8474}", "3:8", "fleet"),
        ("fleet: {links: none, profiles: {eu: lan}}", "3:8", "fleet"),
        ("fleet: {labels: {learner-0: eu}}", "3:29", "fleet.labels.learner-0"),
        ("twin: run-3", "3:7", "twin"),
        ("abort: [{when: {no_round_for: 120}}]", "3:31", "abort[0].when.no_round_for"),
        ("abort: [{when: {no_round_for: 0s}}]", "3:31", "abort[0].when.no_round_for"),
        (
            "abort: [{when: {no_round_for: 9s}}, {when: {alive_below: 5}}]",
            "3:58",
            "abort[1].when.alive_below",
        ),
        ("abort: [{when: {}}]", "3:16", "abort[0].when"),
        ("abort: [{when: {x: 2m}}]", "3:17", "abort[0].when.x"),
        ("expect: [{check: rejon}]", "3:18", "expect[0].check"),
        ("expect: [{within: 3s}]", "3:10", "expect[0]"),
        ("expect: [rejoin]", "3:10", "expect[0]"),
        ("expect: {check: rejoin}", "3:9", "expect"),
        ("expect: [{check: rejoin, within: 30}]", "3:34", "expect[0].within"),
        ("expect: [{check: continuity, max_gap: 3}]", "3:39", "expect[0].max_gap"),
        ("gameday: {length: 0s}", "3:19", "gameday.length"),
        ("gameday: {holds: [half-dies]}", "3:18", "gameday.holds"),
        ("gameday: {hypotheses: {half-dies: goes on}}", "3:23", "gameday.hypotheses"),
        ("gameday: {hypotheses: [goes on]}", "3:23", "gameday.hypotheses"),
        ("vars: [1]", "3:7", "vars"),
        ("training: !!python/object:os.system {}", "3:11", "training"),
        ("training: !secret x", "3:11", "training"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_its_key(
    load: Loader, line: str, place: str, key: str
) -> None:
    message = told(load, HEAD + line)
    assert f"trial.yaml:{place}: {key}: " in message
    assert len(message.splitlines()) == 1


FAULT = "fault: process.kill, target: {learners: 1}, at: {round: 3}, for: 5s"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (FAULT.replace(".kill", ".kil"), "4:11: faults[0].fault: "),
        (FAULT + ", signl: SIGTERM", "4:73: faults[0].signl: "),
        (FAULT + ", signal: SIGTREM", "4:81: faults[0].signal: "),
        (FAULT.replace("1}, at", "no}, at"), "4:44: faults[0].target.learners: "),
        (FAULT.replace("learners: 1", "learner: 1"), "4:33: faults[0].target: "),
        (FAULT.replace("learners: 1", "learners: 0"), "4:33: faults[0].target: "),
        (FAULT.replace("learners: 1", "learners: 0.5"), "4:44: faults[0].target.learners: "),
        (FAULT.replace("learners: 1", "learners: 200%"), "4:33: faults[0].target: "),
        (FAULT.replace("learners: 1", ""), "4:33: faults[0].target: "),
        (FAULT.replace("learners: 1", "learners: 1, syncer: all"), "4:33: faults[0].target: "),
        (FAULT.replace("learners: 1", "syncer: 1"), "4:42: faults[0].target.syncer: "),
        (FAULT.replace("learners: 1", "zone: 3"), "4:33: faults[0].target: "),
        (
            FAULT.replace("learners: 1", "learners: 1, pick: tallest"),
            "4:53: faults[0].target.pick: ",
        ),
        (FAULT.replace("round: 3", "phase: writen"), "4:60: faults[0].at.phase: "),
        (FAULT.replace("round: 3", "round: 3, wait: 5s"), "4:52: faults[0].at: "),
        (FAULT.replace("round: 3", "phase: written, of: learner-1"), "4:52: faults[0].at: "),
        (FAULT.replace("round: 3", "phase: push, of: syncer"), "4:52: faults[0].at: "),
        (FAULT.replace("learners: 1", "learners: 2, pick: at_phase"), "4:33: faults[0].target: "),
        (FAULT.replace("learners: 1", "learners: 1, pick: at_phase"), "`pick: at_phase`"),
        (FAULT.replace("round: 3", "rond: 3"), "4:53: faults[0].at.rond: "),
        (FAULT.replace("round: 3", "round: 3, time: 2s"), "4:52: faults[0].at: "),
        (FAULT.replace("round: 3", "time: 3"), "4:59: faults[0].at.time: "),
        (FAULT.replace(", at: {round: 3}", ""), "`arrivals`: write `at: {round: 60}`"),
        (FAULT.replace(", for: 5s", ""), "needs one of `for: 5s`"),
        (FAULT.replace("for: 5s", "for: 5"), "4:69: faults[0].for: "),
        (FAULT.replace("for: 5s", "for: 0s"), "4:69: faults[0].for: "),
        (FAULT.replace("for: 5s", "for: 10m"), "healed after 10m"),
        (FAULT.replace("for: 5s", "outage: {dist: exponential, mean: 11m}"), "healed after 11m"),
        (FAULT.replace("round: 3", "phase: push, wait: 10m"), "10m"),
        (FAULT.replace("round: 3", "phase: push, after_round: 9999"), "round 9999"),
        (
            FAULT.replace("for: 5s", "outage: {dist: exponential, mean: 3s, at_most: 0s}"),
            "4:72: faults[0].outage: ",
        ),
        (FAULT.replace("learners: 1", "names: [learner-9]"), "4:33: faults[0].target: "),
        (FAULT.replace("for: 5s", "for: {dist: fixed}"), "4:69: faults[0].for: "),
        (FAULT + ", outage: {dist: exponential, mean: 3s}", "needs one of `for: 5s`"),
        (
            FAULT.replace("for: 5s", "outage: {dist: lognormal, mean: 3s}"),
            "4:72: faults[0].outage.median: ",
        ),
        (
            FAULT.replace("for: 5s", "outage: {dist: fixed, time: 3s}"),
            "4:79: faults[0].outage.dist: ",
        ),
        (FAULT.replace("for: 5s", "outage: {mean: 3s}"), "4:72: faults[0].outage.dist: "),
        (
            FAULT.replace("for: 5s", "outage: {dist: weibull, mean: 3s, shape: 0}"),
            "4:72: faults[0].outage: ",
        ),
        (FAULT.replace("at: {round: 3}", "arrivals: {dist: trace}"), "4:58: faults[0].arrivals: "),
        (
            FAULT.replace("at: {round: 3}", "arrivals: {dist: weibull}"),
            "4:58: faults[0].arrivals: ",
        ),
        (FAULT.replace("target: {learners: 1}, ", ""), "4:3: faults[0].target: "),
        (FAULT.replace("process.kill", "process.crash_loop") + ", times: 0", "at least one turn"),
        (FAULT.replace("process.kill", "compute.ramp"), "4:3: faults[0].ratio: "),
        (FAULT + ", id: a b", "4:77: faults[0].id: "),
    ],
)
def test_a_mistake_in_a_fault_is_named(load: Loader, entry: str, words: str) -> None:
    message = told(load, one_fault(entry))
    assert "trial.yaml:4:" in message
    assert words in message


TWICE = KILL.replace("fault:", "id: x, fault:")
AT_PHASE = KILL.replace("at: {round: 3}", "id: dies, at: {phase: push}")
ENDLESS = KILL.replace("at: {round: 3}", "arrivals: {mtbf: 9s}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: trial", "version: "),
        ("version: 1", "name: "),
        ("version: 2\nname: trial", ":1:10: version: "),
        ("version: 1\nname: a/b", "'a/b'"),
        ("version: 1\nname: latest", "'latest'"),
        (HEAD + "training:\n  learners: 2\n  learners: 3\n",
         ":5:3: training.learners: .*trial.yaml:4:3"),
        (HEAD + "training: &t {learners: 2}\nlimits: *t\n", "aliases"),
        (HEAD + "training: {<<: {learners: 2}}\n", "`<<`"),
        (HEAD + "training: {learners: ${vars.n}}", "quotes"),
        *((text, r":\d+:\d+: .*YAML") for text in ("a: [1", "a: b: c", "a:\n\t- b")),
        (HEAD + "---\nb: 2\n", r":\d+:\d+: .*YAML"),
        *((text, ":1:1: ") for text in ("", "3", "- a", "just words")),
        (HEAD + "faults:\n  - id: a\n    fault: process.kill\n   target: {learners: 1}\n",
         ":6:4: .*column 4.*line 4.*column 3"),
        (HEAD + "training:\n  learners: 3\n    quorum: 1\n", ":5:11: .*line 4.*column 3"),
        (HEAD + "faults:\n- id: a\n    fault: process.kill\n", ":5:10: .*column 3"),
        (HEAD + "faults:\n\t- id: a\n", ":4:1: .*tab"),
        (HEAD + "training: {learners: 3\nseed: 3\n", ":4:5: .*`{` of line 3"),
        (HEAD + '"a\u2028b": {c: [\n', ":4:1: "),
        (HEAD + "description: what: and why\n", ":3:18: .*quotes"),
        (HEAD + TWICE + TWICE.split("\n", 1)[1], ":5:3: fault id 'x'"),
        (HEAD + KILL.replace("round: 3", "after: nothing"), "`after: nothing`"),
        (HEAD + AT_PHASE + "gameday: {holds: [dies]}", "gameday.holds: 'dies'"),
        (HEAD + KILL.replace("round: 3", "round: 121"), ":4:.*round 121"),
        (HEAD + ENDLESS, ":4:.*`until: 90s`"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_place(load: Loader, text: str, words: str) -> None:
    message = told(load, text)
    assert re.search(words, message, re.DOTALL), message
    assert "token" not in message


@pytest.mark.parametrize(
    "more",
    [
        "seed: &x 3",
        KILL.replace("for: 5s", "outage: {dist: exponential, mean: 11m, at_most: 1m}"),
        KILL.replace("5s", "11m") + "limits: {timeout: 12m}\n",
        KILL.replace("5s", "rest"),
        "training: {task: 'a.b:make', fragments: 400}",
        "training: {model: small, fragments: 110}",
        AT_PHASE + "gameday: {owner: Ann}",
        ENDLESS.replace("mtbf: 9s", "mtbf: 9s, until: 60s"),
        ENDLESS + "\ntraining: {stop: {time: 60s}}",
    ],
)
def test_what_is_near_to_a_mistake_is_accepted(load: Loader, more: str) -> None:
    load(HEAD + more)


def test_all_mistakes_are_told_together_in_the_order_of_the_file(load: Loader) -> None:
    message = told(
        load,
        HEAD + "seed: x\ntraining: {lerners: 3, quorum: two}\nsettle:\nseed: 4\n"
        "faults:\n- {fault: process.kil}\n- {fault: process.kill, for: 5}\nexpect: [{check: no}]\n",
    )
    places = [tuple(map(int, line.split(":")[1:3])) for line in message.splitlines()]
    assert len(places) == 9
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("training: {blend: 100%, grace: {gamma: 1, max_steps: -1}}", ["3:40", "3:54"]),
        ("training: {blend: 100%, quorum: 9, overlap: 24}", ["3:11", "3:19", "3:33"]),
        ("training: {inner: {lr: 0, batch: 0}, outer: {lr: 0, momentum: 1}}",
         ["3:24", "3:34", "3:50", "3:63"]),
        ("seed: 9223372036854775808\ngameday: {holds: [a], hypotheses: {b: no}}",
         ["3:7", "4:18", "4:35"]),
        ("settle: 30\nabort: [{when: {alive_below: 5}}]", ["3:9", "4:30"]),
        ("settle: 30\n" + KILL.replace("round: 3", "round: 121"), ["3:9", "5:3"]),
        (KILL.replace("round: 3", "round: 121") + KILL.replace("5s", "11m").split("\n", 1)[1],
         ["4:3", "5:3"]),
        (KILL.replace("round: 3", "after: no").replace("5s", "11m"), ["4:3", "4:3"]),
        # what would follow from the first mistake alone is not said
        ("training: {stop: {rounds: no}}\n" + KILL.replace("round: 3", "round: 121"), ["3:27"]),
        ("training: {learners: no}\nabort: [{when: {alive_below: 5}}]", ["3:22"]),
        ("limits: {timeout: 30}\n" + KILL.replace("5s", "11m"), ["3:19"]),
        (KILL.replace("5s", "5") + "gameday: {holds: [a]}", ["4:69"]),
        ("training: {drop_after: 0s}", ["3:24"]),
        ("training: {learners: 0, quorum: 1}", ["3:22"]),
    ],
)  # fmt: skip
def test_one_mistake_hides_no_other(load: Loader, text: str, places: list[str]) -> None:
    message = told(load, HEAD + text)
    assert [":".join(line.split(":")[1:3]) for line in message.splitlines()] == places


def test_a_file_that_cannot_be_read_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("version: 1\nname: é".encode() + b"caf\xe9\n")
    for place in ("absent.yaml: ", "latin.yaml:2:11: .*0xe9"):
        with pytest.raises(PlanError, match=place):
            load_file(tmp_path / place.partition(":")[0], KINDS)


@pytest.mark.parametrize(
    "line", ["a: " + "[" * 3000, "a: " + "{b: " * 3000, "a: " + "[" * 200], ids=len
)
def test_what_is_nested_too_deep_is_refused_with_its_place(load: Loader, line: str) -> None:
    message = told(load, HEAD + line)
    assert "trial.yaml:3:" in message
    assert len(message) < 300
    for override in (f"settle={line[3:]}", ".".join("a" * 3000) + "=1"):
        assert "50 levels" in told(load, HEAD, override)


@pytest.mark.parametrize("length", ["for: 10m", "id: x"])
@pytest.mark.parametrize("fault", [
    "process.kill, target: {learners: 1}", "process.kill, target: {syncer: all}",
])  # fmt: skip
def test_an_outage_without_an_end_is_advised(load: Loader, fault: str, length: str) -> None:
    message = told(load, one_fault(f"fault: {fault}, at: {{round: 3}}, {length}"))
    assert "`for: rest`" in message


def test_an_empty_catalogue_refuses_every_name(tmp_path: Path) -> None:
    path = tmp_path / "trial.yaml"
    path.write_text(HEAD + "expect: [{check: rejoin}]")
    with pytest.raises(PlanError, match=r"`rejoin`.* none"):
        load_file(path, Kinds())


def test_a_setting_that_no_plan_could_write_is_our_own_mistake(tmp_path: Path) -> None:
    path = tmp_path / "trial.yaml"
    path.write_text(HEAD + "faults: [{fault: a.odd, target: {learners: 1}, for: 1s}]")
    for name, kind in (("things", set), ("target", str)):
        odd = make_dataclass("Odd", [(name, kind)])
        with pytest.raises((HarnessBug, PackageError), match=name):
            load_file(path, Kinds(faults={"a.odd": odd}))


@pytest.mark.parametrize(
    ("name", "known", "says"),
    [
        ("region.kill", ["process.kill", "region.outage", "update.tamper"],
         "did you mean `region.outage` or `process.kill`?"),
        ("process.kil", ["process.kill", "process.killer", "x.kil"], "did you mean `process.kill`"),
        ("process.rain", ["process.kill", "process.pause", "x.rain"],
         "known: process.kill, process.pause"),
        ("proces.kill", ["process.kill", "x.y"], "did you mean `process.kill`"),
        ("rain", ["sun", "wind"], "known: sun, wind"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_told_the_nearest_of_its_family(
    name: str, known: list[str], says: str
) -> None:
    assert says in nearest(name, known, noun="fault")


def test_a_check_that_is_named_alone_is_told_how_to_write_it(load: Loader) -> None:
    name = max(KINDS.checks)
    assert f"{{check: {name}}}" in told(load, f"{HEAD}expect: [{name}]\n")
