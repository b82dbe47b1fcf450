"""Variables with defaults, and secrets that appear nowhere."""

from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.plan import file
from chaoslab.plan.file import Kinds, resolved_yaml
from chaoslab.prepare.kinds import FLEETS
from tests.plan.file.catalogue import HEAD, KILL, KINDS, Loader

VARS = (
    "vars:\n  outage: {type: duration, default: 6s, description: how long}\n  half: 50%\n  n: 3\n"
)


def told(load: Loader, text: str, *overrides: str) -> str:
    with pytest.raises(PlanError) as refused:
        load(text, *overrides)
    return str(refused.value)


def test_a_variable_stands_for_its_default(load: Loader) -> None:
    kill = KILL.replace("5s", "'${vars.outage}'").replace("learners: 1", "learners: '${vars.half}'")
    plan = load(HEAD + VARS + kill + "training: {learners: '${vars.n}'}\n")
    assert (plan.faults[0].outage.seconds, plan.faults[0].target.share) == (6, 0.5)
    assert plan.training.learners == 3


def test_a_variable_inside_a_text_is_written_out(load: Loader) -> None:
    plan = load(HEAD + VARS + 'description: "${vars.half} for ${vars.outage}, ${vars.n} times"\n')
    assert plan.description == "50% for 6s, 3 times"


def test_a_variable_is_set_from_the_command_line(load: Loader) -> None:
    kill = KILL.replace("5s", "'${vars.outage}'")
    assert load(HEAD + VARS + kill, "vars.outage=9s").faults[0].outage.seconds == 9
    plan = load(HEAD + VARS + kill + "training: {learners: '${vars.n}'}", "vars.n=5")
    assert plan.training.learners == 5


@pytest.mark.parametrize(
    ("text", "override", "words"),
    [
        ("", "vars.outage=7", "--set vars.outage=7: vars.outage.default: "),
        ("seed: ${vars.m}", "", "`m`"),
        ("seed: ${vars.outag}", "", "`outage`"),
        ("seed: ${outage}", "", "${outage}"),
        ("seed: ${vars.half}", "", "'50%'"),
    ],
)
def test_a_mistaken_variable_is_named(load: Loader, text: str, override: str, words: str) -> None:
    assert words in told(load, HEAD + VARS + text, *filter(None, [override]))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{type: duration}", "vars.it"),
        ("{type: size, default: 3s}", "'3s'"),
        ("{type: length, default: 3s}", "`length`"),
        ("{type: text, default: 3}", "3"),
        ("{type: number, default: x}", "'x'"),
        ("{type: count, default: 2.5}", "'2.5'"),
        ("{defalt: 3}", "`default`"),
        ("${vars.outage}", "`outage`"),
    ],
)
def test_a_mistaken_definition_is_named(load: Loader, entry: str, words: str) -> None:
    assert words in told(load, f"{HEAD}vars:\n  it: {entry}\n")


@pytest.mark.parametrize("value", ["1", "hunter2", "completed", "learner-12", "no_progress"])
def test_a_secret_that_cannot_be_hidden_is_refused_where_it_stands(
    load: Loader, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("RACK", value)
    message = told(load, HEAD + "description: 'rack ${env:RACK}'\n")
    assert "trial.yaml:3:14: description: the value of RACK " in message
    assert "${env.public:RACK}" in message
    assert len(value) == 1 or value not in message


def test_what_everybody_may_read_is_taken_from_the_environment_and_is_no_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RACK", "1")
    path = tmp_path / "trial.yaml"
    path.write_text(HEAD + "description: 'rack ${env.public:RACK}'\n")
    plan, document = file.load(path, KINDS)
    assert plan.description == "rack 1"
    assert not document.secrets.values


@pytest.mark.parametrize("training", ["{task: 'a:${env:T}'}", "{task: '${env:T}:make'}"])
def test_a_secret_cannot_be_a_name(
    load: Loader, monkeypatch: pytest.MonkeyPatch, training: str
) -> None:
    monkeypatch.setenv("T", "x9_y8_z7_w6")
    message = told(load, f"{HEAD}training: {training}\n")
    assert "training.task: " in message
    assert "x9_y8_z7_w6" not in message


def test_a_plan_on_record_is_read_where_its_secrets_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TOKEN", raising=False)
    path = tmp_path / "record.yaml"
    path.write_text(HEAD + "training: {data: 's3://${env:TOKEN}@x'}\n")
    plan, _ = file.load(path, Kinds(fleets=FLEETS), is_record=True)
    assert plan.training.data == "s3://${env:TOKEN}@x"


def test_an_environment_variable_is_read_late(
    load: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORPUS", "/data/hidden")
    assert load(HEAD + "training: {data: '${env:CORPUS}/a'}").training.data == "/data/hidden/a"


def test_an_environment_variable_that_is_not_set_is_refused(
    load: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CORPUS", raising=False)
    message = told(load, HEAD + "training: {data: '${env:CORPUS}'}")
    assert "trial.yaml:3:18: training.data: " in message
    assert "CORPUS" in message


def test_a_secret_appears_in_no_error_and_in_no_written_plan(
    load: Loader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2-and-6")
    message = told(load, HEAD + "seed: ${env:TOKEN}\ntraining: {merge: '${env:TOKEN}'}\n")
    assert "hunter2-and-6" not in message
    assert "${env:TOKEN}" in message
    path = tmp_path / "secret.yaml"
    path.write_text(HEAD + "training: {data: 's3://x?key=${env:TOKEN}'}\n")
    plan, document = file.load(path, KINDS)
    secrets = document.secrets
    assert secrets.values == {"TOKEN": "hunter2-and-6"}
    assert "hunter2-and-6" not in resolved_yaml(plan, secrets=secrets)
    assert load(resolved_yaml(plan, secrets=secrets)) == plan


def test_secrets_of_overrides_and_variables_are_known_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("A", "first-secret-1!")
    monkeypatch.setenv("B", "second-secret-2!")
    path = tmp_path / "trial.yaml"
    path.write_text(HEAD + "vars: {where: '${env:A}'}\ntraining: {data: '${vars.where}'}\n")
    _, document = file.load(path, KINDS, overrides=["description=${env:B}"])
    assert document.secrets.values == {"A": "first-secret-1!", "B": "second-secret-2!"}
