"""Texts about the run, its faults and its operators, for the table of `sentences`.

One function for each kind of event; what is said in one expression stands in the table itself.
"""

from collections.abc import Callable
from statistics import median

from chaoslab.core import payloads
from chaoslab.core.units import elapsed as seconds
from chaoslab.core.units import plural


def started(said: payloads.RunStarted) -> str:
    more = f" and {len(said.reserve)} in reserve" if said.reserve else ""
    return (
        f"{said.plan} begins: {plural(len(said.learners), said.who)}{more}, "
        f"{said.algorithm}, fleet {said.fleet}, seed {said.seed}"
    )


def pace(said: payloads.PaceSet) -> str:
    measured_s = said.measured_s.values()
    why = f", because it took {median(measured_s) * 1000:.0f} ms before" if measured_s else ""
    return f"each step takes {said.step_s * 1000:.0f} ms from now on{why}"


def baseline(said: payloads.BaselineMeasured) -> str:
    if not said.is_steady:
        return f"the baseline is not steady: {said.reason}"
    if said.gap_s_median is None or said.tokens_per_s is None:
        return "steady baseline"
    gap = seconds(said.gap_s_median)
    return f"steady baseline: a round every {gap}, {said.tokens_per_s:,.0f} {said.counted}/s"


def left(said: payloads.RunLeft) -> str:
    gone = f"; not started again: {', '.join(said.gone)}" if said.gone else ""
    return (
        f"{', '.join(said.nodes) or 'no nodes'} keep running: they were there before the run{gone}"
    )


def settled(said: payloads.RunSettled) -> str:
    if said.is_settled:
        return "settled: everything has converged again"
    return f"not settled, still pending: {', '.join(said.pending)}"


def finished(said: payloads.RunFinished) -> str:
    reason = said.reason
    return f"the run is {said.outcome}" + (f": {reason}" if reason else "")


def fault(verb: str) -> Callable[[payloads.OfInjection], str]:
    return lambda said: f"{said.injection} {verb}: {said.fault} on {', '.join(said.targets)}"


def refused(
    verb: str,
) -> Callable[[payloads.FaultFailed | payloads.FaultSkipped | payloads.FaultHealFailed], str]:
    return lambda said: f"{fault(verb)(said)}{_because(said.reason)}"


def healed(verb: str) -> Callable[[payloads.FaultHealing | payloads.FaultHealed], str]:
    return lambda said: f"{fault(verb)(said)}{_because(said.because)}"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def stop_rule_met(said: payloads.SyncerStopRuleMet) -> str:
    return (
        f"training reached its end ({said.reason}); it continues until all are back and as many "
        "rounds have followed as before the faults"
    )


def stalled(said: payloads.HarnessStalled) -> str:
    undone = f"; its janitor undid: {'; '.join(said.undone)}" if said.undone else ""
    return f"{said.what} for {seconds(said.silent_s)}{undone}"


def janitor_died(said: payloads.JanitorDied) -> str:
    pid = said.successor
    then = f"process {pid} took its place" if pid is not None else "no janitor is running"
    return f"the janitor, process {said.pid}, died ({said.how}): {then}"


def opened(said: payloads.GamedayOpened) -> str:
    led = f", led by {said.facilitator}" if said.facilitator else ""
    led += f", notes by {said.scribe}" if said.scribe else ""
    led += f", with {', '.join(said.responders)}" if said.responders else ""
    held = ", ".join(said.holds)
    sealed = f"; {plural(said.sealed, 'sealed fault')}" if said.sealed else ""
    return f"a game-day{led}: {f'operators decide of {held}' if held else 'no fault waits'}{sealed}"


def waits(said: payloads.FaultHeld) -> str:
    """A fault that waits, without its targets: viewers may still predict those."""
    return f"{said.spec} waits for an operator: {said.fault} ({said.trigger})"


def acted(said: payloads.OperatorActed) -> str:
    what = f"{said.action} {said.spec}".rstrip()
    return f"{said.by}: {what}{_because(said.reason)}"


def predicted(said: payloads.OperatorPredicted) -> str:
    expected = []
    if said.continues is not None:
        expected.append(f"training {'goes on' if said.continues else 'stops'}")
    if said.gap_s is not None:
        expected.append(f"longest gap {seconds(said.gap_s)}")
    if said.hit is not None:
        expected.append(f"hit: {', '.join(said.hit) or 'nobody'}")
    if said.back_s is not None:
        expected.append(f"back {seconds(said.back_s)} after the heal")
    return f"{said.by} predicts of {said.spec}: {'; '.join(expected) or 'nothing'}"


def noted(said: payloads.OperatorNoted) -> str:
    about = f" of {said.spec}" if said.spec else ""
    return f"{said.by} notes{about}: {said.text}"


def machine(said: payloads.MachineSampled) -> str:
    return (
        f"the machine: {said.idle_cores:.1f} of {plural(said.cores, 'core')} idle, "
        f"{said.others_cores:.1f} used by others, load {said.load_1m:.1f}"
    )


def counts(said: payloads.CountsSampled) -> str:
    return (
        f"members {said.members}, alive {said.alive}, stepping {said.stepping}, "
        f"contributing {said.contributing}"
    )
