"""The JSON Schema of verdict.json, for those who read it with other tools. Data only."""

from collections.abc import Mapping, Sequence

from chaoslab.core.events import Json

_Schema = Mapping[str, Json]
_TEXT: _Schema = {"type": "string"}
_TEXTS: _Schema = {"type": "array", "items": _TEXT}
_NUMBER_OR_NULL: _Schema = {"type": ["number", "null"]}


def _object(properties: Mapping[str, Json], described: str = "") -> _Schema:
    required: Sequence[str] = list(properties)
    schema: dict[str, Json] = {"type": "object", "required": required, "properties": properties}
    return schema | ({"description": described} if described else {})


STATUSES = ("proved", "weak", "failed", "moot")
"""Of an injection."""
_OUTCOME: _Schema = {"enum": ["PASS", "FAIL", "UNKNOWN"]}

_FINDING = _object(
    {
        "check": {**_TEXT, "description": "name of the check, or of a rule that always holds"},
        "outcome": _OUTCOME,
        "reason": {**_TEXT, "description": "one sentence; names the culprit if there is one"},
        "observed": {},
        "bound": {},
        "margin": {
            **_NUMBER_OR_NULL,
            "description": "signed distance to the bound as a share of it; negative when violated",
        },
        "samples": {"type": "integer"},
        "evidence": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "sequence numbers in journal.jsonl, the first violation first",
        },
        "culprits": _TEXTS,
        "numbers": {"type": "object"},
    }
)

_INJECTION = _object(
    {
        "id": _TEXT,
        "fault": _TEXT,
        "targets": _TEXTS,
        "status": {
            "enum": list(STATUSES),
            "description": "moot: another injection of the plan had its targets already",
        },
        "reason": _TEXT,
        "requested": {"type": "object", "description": "by target"},
        "measured": {"type": "object", "description": "by target"},
    }
)

_RETURN = _object(
    {
        "rejoined": {
            "type": ["boolean", "null"],
            "description": "null: unknown, the run was cut short before it had its chance",
        },
        "after_s": _NUMBER_OR_NULL,
        "was_asked": {
            "type": "boolean",
            "description": "false: the plan never heals what took it away, so it need not return",
        },
    }
)

VERDICT_SCHEMA: _Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "chaoslab verdict",
    **_object(
        {
            "outcome": _OUTCOME,
            "exit_code": {"enum": [0, 1, 3, 4, 130]},
            "training_continued": {
                "type": ["boolean", "null"],
                "description": "whether rounds went on being merged to the end; null: unknown",
            },
            "longest_gap_s": _NUMBER_OR_NULL,
            "learners_rejoined": {
                "type": "object",
                "additionalProperties": _RETURN,
                "description": "every learner that a fault took away",
            },
            "findings": {"type": "array", "items": _FINDING},
            "injection_counts": _object({status: {"type": "integer"} for status in STATUSES}),
            "injections": {"type": "array", "items": _INJECTION},
            "residue": {
                "type": "array",
                "items": _object({"what": _TEXT, "where": _TEXT, "remedy": _TEXT}),
            },
            "journal": {
                **_object(
                    {"lines": {"type": "integer"}, "digest": _TEXT},
                    "of the journal that was judged; null: it was written without a digest",
                ),
                "type": ["object", "null"],
            },
        }
    ),
}
