"""Ends by a signal, also of the first process of a container."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SIGNALS = (signal.SIGKILL, signal.SIGABRT)
IN_A_PID_NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork")


def program(number: signal.Signals) -> list[str]:
    text = f"from chaoslab.diloco.node.ending import end_by; end_by({number.value})"
    return [sys.executable, "-S", "-c", text]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_process_ends_by_the_signal(number: signal.Signals) -> None:
    assert subprocess.run(program(number), cwd=ROOT, check=False).returncode == -number


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_process_of_a_container_ends_by_its_exit_code(number: signal.Signals) -> None:
    try:
        subprocess.run([*IN_A_PID_NAMESPACE, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no namespaces here: {error}")
    done = subprocess.run([*IN_A_PID_NAMESPACE, *program(number)], cwd=ROOT, check=False)
    assert done.returncode == 128 + number
