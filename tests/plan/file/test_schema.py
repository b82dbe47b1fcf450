"""The JSON Schema that editors complete plans with."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from chaoslab.plan.file import json_schema
from tests.plan.file.catalogue import HEAD, KILL, KINDS, one_fault


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json_schema(KINDS)


def problems(schema: dict[str, Any], text: str) -> list[str]:
    tree = YAML(typ="safe", pure=True).load(text)
    return [error.message for error in Draft202012Validator(schema).iter_errors(tree)]


def test_it_is_a_valid_schema_of_the_2020_draft(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    "text",
    [
        HEAD,
        HEAD + KILL,
        HEAD + "vars: {a: 5s, b: {type: count, default: 3}}\nseed: ${vars.b}\n",
        HEAD + "training: {learners: 3, merge: rda, stop: {tokens: 2M, time: 1m30s}}\n",
        HEAD + "expect: [{check: continuity, max_gap: 3x baseline}, {check: rejoin, within: 3s}]",
        one_fault("fault: process.kill, target: {region: eu}, arrivals: {mtbf: 3s}, for: rest"),
        HEAD + "fleet: {kind: local, links: none, labels: {learner-0: {region: eu}}}\n",
        HEAD + "fleet: {regions: {eu: [learner-0], us: 2}, profiles: {eu: transatlantic}}\n",
        HEAD + "baseline: {warmup: 3 rounds}\nabort: [{when: {alive_below: 2}}]\n",
    ],
)
def test_it_accepts_what_the_reader_accepts(schema: dict[str, Any], text: str) -> None:
    assert problems(schema, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "name: trial",
        "version: 1\nname: latest",
        HEAD + "lerners: 3",
        HEAD + "training: {lerners: 3}",
        HEAD + "training: {learners: x}",
        HEAD + "training: {merge: median}",
        HEAD + "settle: 30",
        HEAD + "settle: 30 s",
        HEAD + "limits: {max_affected: 0.5}",
        HEAD + "expect: [{check: rejon}]",
        HEAD + "expect: [{check: rejoin, within: 30}]",
        one_fault("fault: process.kil, target: {learners: 1}, at: {round: 3}, for: 5s"),
        one_fault("fault: process.kill, target: {learners: 1}, at: {round: 3}, for: 5s, signl: x"),
        one_fault("fault: process.kill, at: {round: 3}, for: 5s"),
    ],
)
def test_it_refuses_what_the_reader_refuses(schema: dict[str, Any], text: str) -> None:
    assert problems(schema, text) != []


def test_it_carries_the_words_of_settings_and_their_defaults(schema: dict[str, Any]) -> None:
    signal = schema["$defs"]["Kill"]["properties"]["signal"]
    assert (signal["description"], signal["default"]) == ("How it is ended.", "SIGKILL")
    assert schema["$defs"]["Rejoin"]["properties"]["within"]["default"] == "30s"
    assert schema["$defs"]["Training"]["properties"]["suspect_after"]["default"] == "2s"
