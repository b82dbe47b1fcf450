"""Variables with defaults, and secrets that appear nowhere."""

from pathlib import Path

import pytest

from chaoslab.plan import file
from chaoslab.plan.file import Kinds, resolved_yaml
from chaoslab.prepare.kinds import FLEETS
from tests.plan.file.catalogue import HEAD, KILL, KINDS, Loader, told

VARS = (
    "vars:\n  outage: {type: duration, default: 6s, description: how long}\n  half: 50%\n  n: 3\n"
)


def test_a_variable_stands_for_its_default_or_for_what_is_set(load: Loader) -> None:
    kill = KILL.replace("5s", "'${vars.outage}'").replace("learners: 1", "learners: '${vars.half}'")
    more = 'training: {learners: "${vars.n}"}\ndescription: "${vars.half} for ${vars.outage}"\n'
    for overrides, outage_s, learners in (((), 6, 3), (("vars.outage=9s", "vars.n=5"), 9, 5)):
        plan = load(HEAD + VARS + kill + more, *overrides)
        assert (plan.faults[0].outage.seconds, plan.faults[0].target.share) == (outage_s, 0.5)
        assert plan.training.learners == learners
        assert plan.description == f"50% for {outage_s}s"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed: ${vars.m}", "`m`"),
        ("seed: ${vars.outag}", "`outage`"),
        ("seed: ${outage}", "${outage}"),
        ("seed: ${vars.half}", "'50%'"),
        ("  it: {type: duration}", "vars.it"),
        ("  it: {type: size, default: 3s}", "'3s'"),
        ("  it: {type: length, default: 3s}", "`length`"),
        ("  it: {type: text, default: 3}", "3"),
        ("  it: {type: number, default: x}", "'x'"),
        ("  it: {type: count, default: 2.5}", "'2.5'"),
        ("  it: {defalt: 3}", "`default`"),
        ("  it: ${vars.outage}", "`outage`"),
    ],
)
def test_a_mistaken_variable_is_named(load: Loader, text: str, words: str) -> None:
    assert words in told(load, HEAD + VARS + text)


def test_a_variable_that_is_mistaken_on_the_command_line_is_named(load: Loader) -> None:
    said = told(load, HEAD + VARS, "vars.outage=7")
    assert said.startswith("--set vars.outage=7: vars.outage.default: ")


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


def test_an_environment_variable_is_read_late_and_refused_if_it_is_not_set(
    load: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = HEAD + "training: {data: '${env:CORPUS}/a'}"
    monkeypatch.setenv("CORPUS", "/data/hidden")
    assert load(text).training.data == "/data/hidden/a"
    monkeypatch.delenv("CORPUS")
    said = told(load, text)
    assert "trial.yaml:3:18: training.data: " in said
    assert "CORPUS" in said


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
