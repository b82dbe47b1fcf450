"""Tables on demand: names are known at once, what they name is imported when it is asked for."""

import subprocess
import sys
import textwrap
from fractions import Fraction

import pytest

from chaoslab.core.on_demand import OnDemand

TABLE = OnDemand[type]({"fraction": "fractions:Fraction", "nothing": "no_such_module:Nothing"})


def test_names_are_known_without_what_they_name() -> None:
    assert list(TABLE) == ["fraction", "nothing"]
    assert len(TABLE) == 2
    assert "nothing" in TABLE
    assert "other" not in TABLE


def test_what_a_name_stands_for_is_found_when_it_is_asked_for() -> None:
    assert TABLE["fraction"] is Fraction
    with pytest.raises(ModuleNotFoundError):
        TABLE["nothing"]
    with pytest.raises(KeyError):
        TABLE["other"]


def test_a_plan_is_read_without_the_faults_checks_and_fleets_that_it_does_not_name() -> None:
    script = textwrap.dedent("""
        import sys
        from chaoslab.prepare.plans import Asked, prepare
        prepare(Asked(plan="kill_half", fleet="sim"))
        found = ("faults.process", "checks.versions", "sim.settings", "faults.network",
                 "checks.bandwidth", "fleet.docker", "fleet.local", "links.netem")
        print([name for name in found if f"chaoslab.{name}" in sys.modules])
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['faults.process', 'checks.versions', 'sim.settings']"
