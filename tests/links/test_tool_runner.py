"""The program of the tools image answers every line, whatever the tool does."""

import json
import subprocess
import sys

from chaoslab.links.netem import tool_runner


def answers(*asked: object) -> list[dict[str, object]]:
    lines = "".join(f"{json.dumps(one)}\n" for one in asked)
    command = (sys.executable, "-I", "-S", tool_runner.__file__)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_tool_is_run_with_its_input_and_its_words_come_back() -> None:
    assert answers({"command": ["cat"], "text": "a rule\n"}) == [{"code": 0, "said": "a rule\n"}]


def test_a_tool_that_fails_is_quoted_and_the_next_one_runs() -> None:
    failing = ["sh", "-c", "echo 'no such chain' >&2; exit 4"]
    assert answers({"command": failing}, {"command": ["echo", "on"]}) == [
        {"code": 4, "said": "no such chain"},
        {"code": 0, "said": "on\n"},
    ]


def test_a_tool_that_is_missing_is_said() -> None:
    (answer,) = answers({"command": ["no-such-tool"]})
    assert answer["code"] == 1
    assert "no-such-tool" in str(answer["said"])


def test_whom_nobody_can_knock_at_is_said() -> None:
    (answer,) = answers({"send_syn": [["10.0.0.1", 1, "nowhere.invalid", 2]]})
    assert answer["code"] == 1
    assert answer["said"]
