"""Settings of faults and checks as a plan writes them: keys, defaults, meaning."""

from collections.abc import Mapping

from chaoslab.core.events import Json
from chaoslab.plan.file.conventions import field_docs, fields_of, hints_of, is_required, key_of
from chaoslab.plan.file.writing import written_default


def settings_json(kind: type) -> list[Mapping[str, Json]]:
    """The keys that a plan may write for a fault or a check, with defaults in its own units."""
    hints, docs = hints_of(kind), field_docs(kind)
    return [
        {
            "key": key_of(field.name),
            "is_required": is_required(field),
            "default": written_default(field, hints[field.name]),
            "help": docs.get(field.name, ""),
        }
        for field in fields_of(kind)
    ]


def setting_lines(kind: type) -> str:
    """One line for each key, with what it means; empty without any."""
    return "\n".join(map(_line, settings_json(kind)))


def _line(about: Mapping[str, Json]) -> str:
    key, default = str(about["key"]), about["default"]
    written = key if default is None else f"{key}: {default}"
    written += " (required)" if about["is_required"] else ""
    return f"{written}   {about['help']}".rstrip()
