"""What a run is never to answer is known before it starts."""

from chaoslab.prepare.lacking import never_judged
from chaoslab.prepare.plans import Asked, prepare


def test_checks_that_need_what_the_run_is_not_to_have_are_never_judged() -> None:
    names = ("loss_parity", "goodput", "rejoin", "rejoin (2)", "stop")
    plan = prepare(Asked(plan="kill_half", settings=("twin=false",))).plan
    assert never_judged(plan, names) == {"loss_parity"}
    assert never_judged(prepare(Asked(plan="kill_half")).plan, names) == frozenset()
