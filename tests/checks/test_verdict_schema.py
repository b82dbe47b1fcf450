"""The published schema of verdict.json: frozen once written, and compatible within its version."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from chaoslab.checks.verdict import SCHEMA_VERSION, Verdict, schema
from chaoslab.core.events import MalformedEvent
from tests.generated_docs import SCHEMAS, verdict_schema

PUBLISHED = sorted(
    (tuple(map(int, path.stem.removeprefix("verdict-").split("."))), path)
    for path in SCHEMAS.glob("verdict-*.json")
)


def read(number: int) -> Any:
    return json.loads(PUBLISHED[number][1].read_text(encoding="utf-8"))


def test_the_schema_of_this_version_is_published_and_not_changed_since() -> None:
    published = json.loads(verdict_schema().read_text(encoding="utf-8"))
    assert published == schema(), (
        "verdict.json has changed: raise SCHEMA_VERSION (its second number if keys were added and "
        "nothing else, otherwise its first), then `make docs`"
    )
    assert ".".join(map(str, PUBLISHED[-1][0])) == SCHEMA_VERSION


@pytest.mark.parametrize("number", range(len(PUBLISHED)), ids=lambda n: PUBLISHED[n][1].stem)
def test_a_published_schema_is_a_schema(number: int) -> None:
    Draft202012Validator.check_schema(read(number))


def broken(old: Mapping[str, Any], new: Mapping[str, Any], key: str = "verdict") -> Iterator[str]:
    """What a reader of the older schema would trip over in a file of the newer one."""
    if missing := set(old.get("required", ())) - set(new.get("required", ())):
        yield f"{key}: {', '.join(sorted(missing))} may be missing"
    for same in ("type", "enum", "additionalProperties", "pattern"):
        if same in old and old[same] != new.get(same):
            yield f"{key}: another {same}"
    for name, before in old.get("properties", {}).items():
        if name not in new.get("properties", {}):
            yield f"{key}.{name} is gone"
        elif "const" not in before:  # the version itself
            yield from broken(before, new["properties"][name], f"{key}.{name}")
    if "items" in old:
        yield from broken(old["items"], new.get("items", {}), f"{key}[]")


def test_versions_with_the_same_first_number_only_add_keys() -> None:
    for (before, old), (after, new) in pairwise(PUBLISHED):
        if before[0] == after[0]:
            assert list(broken(json.loads(old.read_text()), json.loads(new.read_text()))) == []


def test_an_incompatible_change_would_be_seen() -> None:
    old, new = schema(), json.loads(json.dumps(schema()))
    assert list(broken(old, new)) == []
    new["properties"]["later"] = {"type": "string"}
    new["required"].append("later")
    assert list(broken(old, new)) == []
    del new["properties"]["longest_gap_s"]
    new["properties"]["findings"]["items"]["properties"]["outcome"]["enum"].append("MAYBE")
    new["properties"]["injections"]["items"]["required"].remove("status")
    assert list(broken(old, new)) == [
        "verdict.longest_gap_s is gone",
        "verdict.findings[].outcome: another enum",
        "verdict.injections[]: status may be missing",
    ]


WRITTEN = {
    "outcome": "PASS", "exit_code": 0, "training_continued": True, "longest_gap_s": 0.5,
    "learners_rejoined": {}, "findings": [], "injections": [], "residue": [], "journal": None,
    "injection_counts": {},
}  # fmt: skip


@pytest.mark.parametrize("version", ["2.0", "2.7"])
def test_verdicts_of_this_first_number_are_read_and_new_keys_ignored(version: str) -> None:
    assert Verdict.from_json({**WRITTEN, "schema_version": version, "later": 1}).outcome == "PASS"


@pytest.mark.parametrize("version", [{}, {"schema_version": "1.2"}, {"schema_version": "3.0"}])
def test_a_verdict_of_another_first_number_is_refused_by_name(version: dict[str, str]) -> None:
    named = version.get("schema_version", "none")
    with pytest.raises(MalformedEvent, match=f"schema version {named}, and this chaoslab reads 2"):
        Verdict.from_json({**WRITTEN, **version})
