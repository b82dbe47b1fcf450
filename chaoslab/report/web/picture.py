"""Picture of a run for a page, from its story.

    RunStory ─┬─► run_data ──┬─► JSON ─► the scripts of the page draw it
              └─► live_data ─┘   of the last minutes, while the run goes on

The size of the result depends on the number of learners, faults and notable events, not on the
length of the run: every curve has at most `_FINE` buckets of time.
"""

import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from chaoslab.core.events import Json
from chaoslab.fleet.node_links import INITIAL
from chaoslab.report.samples import COUNTS, Samples, bucket_s, digits, ranges, rates, stretches
from chaoslab.report.sentences import Tone
from chaoslab.report.story import RunStory
from chaoslab.report.story_parts import Effect, Fault, Link, Node, Span

_FINE, _COARSE = 600, 200
"""Most buckets of curves of the whole run, and of rows that may be many."""
_FAULTS_MOST, _SENTENCES_MOST, _SPANS_MOST = 400, 240, 240
_LIVE_WIDTH_S, _LIVE_LANES_MOST = 0.5, 40
_RATE_OVER_S, _RATE_OVER_ROUNDS = 3.0, 8
"""Seconds, and rounds, over which a rate is averaged."""
_LINKS_MOST = 6
"""Links with a row of their own; more share the row of the others."""
_ASKED_MOST = 400
"""Changes of what is asked that a link keeps; a storm beyond that shows as its beginning."""
_WAYS = ("up", "down")
_CUTS = frozenset({"freeze", "blackhole", "refuse", "half_open"})


def run_data(story: RunStory) -> Mapping[str, Json]:
    """Everything that the page draws of a run itself; numbers rounded for a drawing."""
    samples = story.samples
    fine, coarse = bucket_s(story.end_s, _FINE), bucket_s(story.end_s, _COARSE)
    trained_s = story.end_s if story.stopped_s is None else story.stopped_s
    counts = {name: ranges([samples.learners[name]], fine).get("low") for name in COUNTS}
    return {
        "plan": story.plan,
        "seed": story.seed,
        "fleet": story.fleet,
        "algorithm": story.algorithm,
        "who": story.who,
        "counted": story.counted,
        "version": story.version,
        "end_s": _time(story.end_s),
        "trained_s": _time(trained_s),
        "has_ended": story.stopped_s is not None,
        "phases": [[_time(at_s), phase] for at_s, phase in story.phases],
        "baseline": _baseline(story),
        "victims": sorted(story.victims),
        "faults": [_fault(one) for one in [*story.faults.values()][:_FAULTS_MOST]],
        "lanes": list(_lanes(story, samples, fine)),
        "marks_width_s": fine,
        "losses": losses_data(story, story.victims),
        "rounds": _rounds(story, samples, fine, trained_s),
        "tokens": _tokens(story, samples, fine),
        "counts": {"width_s": fine, "rows": counts},
        "step_times": {
            "width_s": coarse,
            "rows": {
                learner: ranges([found], coarse) for learner, found in samples.step_ms.items()
            },
        },
        "links": _links(story, samples, coarse),
        "timeline": _timeline(story),
        "unreadable": story.unreadable,
    }


def live_data(story: RunStory, over_s: float) -> Mapping[str, Json]:
    """What charts of nodes, tokens and losses draw of the last `over_s` seconds of a run that goes
    on, as `run_data` has it; rows of values begin with the bucket `first`.
    """
    samples, width_s = story.samples, _LIVE_WIDTH_S
    first = max(0, int((story.now_s - over_s) / width_s))
    from_s = first * width_s
    shown = [one for one in story.faults.values() if (one.healed_s or story.now_s) >= from_s]
    return {
        "who": story.who,
        "counted": story.counted,
        "end_s": _time(story.now_s),
        "first": first,
        "from_s": from_s,
        "phases": [[_time(at_s), phase] for at_s, phase in story.phases],
        "baseline": _baseline(story),
        "victims": sorted(story.victims),
        "faults": [_fault(one) for one in shown[-_FAULTS_MOST:]],
        "lanes": list(islice(_lanes(story, samples, width_s, from_s), _LIVE_LANES_MOST)),
        "marks_width_s": width_s,
        "losses": losses_data(story, story.victims, width_s, first),
        "tokens": _tokens(story, samples, width_s, first),
    }


def losses_data(
    story: RunStory, victims: Collection[str], width_s: float | None = None, first: int = 0
) -> Mapping[str, Json]:
    """Losses of victims and of survivors together, each with its range, and the evaluations."""
    samples, width_s = story.samples, width_s or bucket_s(story.end_s, _FINE)
    hit = [found for learner, found in samples.losses.items() if learner in victims]
    spared = [found for learner, found in samples.losses.items() if learner not in victims]
    return {
        "width_s": width_s,
        "victims": ranges(hit, width_s, has_mean=True, first=first),
        "survivors": ranges(spared, width_s, has_mean=True, first=first),
        "evaluated": [
            [digits(at_s, 5), digits(loss), tokens] for at_s, loss, tokens in samples.evaluated
        ],
    }


def _time(time_s: float) -> float:
    return digits(time_s, 6)


def _baseline(story: RunStory) -> Mapping[str, Json] | None:
    if story.baseline is None:
        return None
    return {
        **story.baseline._asdict(),
        "at_s": _time(story.baseline.at_s),
        "step_ms": {learner: digits(ms) for learner, ms in story.baseline.step_ms.items()},
    }


def _fault(fault: Fault) -> Mapping[str, Json]:
    return {
        "injection": fault.injection,
        "spec": fault.spec,
        "fault": fault.fault,
        "targets": list(fault.targets),
        "from_s": _time(fault.from_s),
        "healing_s": None if fault.healing_s is None else _time(fault.healing_s),
        "healed_s": None if fault.healed_s is None else _time(fault.healed_s),
        "status": fault.status,
    }


def _rounds(story: RunStory, samples: Samples, width_s: float, end_s: float) -> Mapping[str, Json]:
    """The longest gap that ended in each bucket, and the one that was open at `end_s`."""
    last_s = story.rounds.last_s
    return {
        "width_s": width_s,
        "gap_s": ranges([samples.gaps], width_s).get("high", []),
        "open_s": digits(0.0 if last_s is None else max(0.0, end_s - last_s)),
        "last_s": _time(last_s or 0.0),
        "abandoned": list(stretches(samples.abandoned, width_s)),
        "merged": story.rounds.merged,
    }


def _tokens(
    story: RunStory, samples: Samples, width_s: float, first: int = 0
) -> Mapping[str, Json]:
    """Tokens per second, trained by all learners and committed by rounds."""
    usual_s = story.baseline.gap_s_median if story.baseline else None
    over_s = max(_RATE_OVER_S, _RATE_OVER_ROUNDS * (usual_s or 0.0), 2 * width_s)
    return {
        "width_s": width_s,
        "over_s": digits(over_s, 2),
        "raw": list(map(digits, rates(samples.trained, width_s, over_s, first=first))),
        "committed": list(map(digits, rates(samples.committed, width_s, over_s, first=first))),
    }


def _timeline(story: RunStory) -> Mapping[str, Json]:
    """The notable events; of very many those that are neither good nor neutral come first."""
    kept = list(story.sentences)
    for tone in (Tone.PLAIN, Tone.GOOD):
        if len(kept) > _SENTENCES_MOST:
            kept = [one for one in kept if one.tone is not tone]
    kept = kept[:_SENTENCES_MOST]
    return {
        "said": [[_time(one.time_s), one.tone.value, one.text] for one in kept],
        "left_out": len(story.sentences) - len(kept),
    }


# ---------------------------------------------------------------- nodes


def _lanes(
    story: RunStory, samples: Samples, width_s: float, from_s: float = 0.0
) -> Iterator[Json]:
    """The syncer first, then the learners: what each did since then, and in which process."""
    nodes: list[Node] = [*filter(None, [story.nodes.syncer]), *story.nodes.learners]
    for node in nodes:
        spans: list[Json] = [
            [_time(one.from_s), one.state, one.incarnation]
            for one in _longest(_since(node.spans, from_s))
        ]
        yield {
            "node": node.name,
            "spans": spans,
            "contributed": list(stretches(samples.contributed[node.name], width_s)),
            "adopted": list(stretches(samples.adopted[node.name], width_s)),
        }


def _since(spans: Sequence[Span], from_s: float) -> Sequence[Span]:
    """Those that had not ended by then."""
    begun = bisect_left(spans, from_s, key=lambda one: one.from_s)
    return spans[max(0, begun - 1) :]


def _longest(spans: Sequence[Span]) -> Sequence[Span]:
    """All spans, or of very many those that are long enough to be drawn."""
    least_s = 0.01
    while len(spans) > _SPANS_MOST:
        ends = [*(one.from_s for one in spans[1:]), math.inf]
        spans = [
            one for one, end_s in zip(spans, ends, strict=True) if end_s - one.from_s >= least_s
        ]
        least_s *= 2
    return spans


# ---------------------------------------------------------------- links


def _links(story: RunStory, samples: Samples, width_s: float) -> Mapping[str, Json]:
    """Links that faults shaped one by one, the others as one range."""
    shaped = [
        name
        for name, link in story.links.items()
        if any(one.injection != INITIAL for one in link.effects)
    ][:_LINKS_MOST]
    measured = {name for name, _ in samples.rates} | set(samples.round_trips_ms)
    others = sorted({*story.links, *measured} - set(shaped))
    rows: list[Json] = [
        {
            "link": name,
            **_measured(samples, [name], width_s),
            "asked": _asked(story.links[name]),
        }
        for name in shaped
    ]
    return {
        "width_s": width_s,
        "rows": rows,
        "others": {"number": len(others), **_measured(samples, others, width_s)},
    }


def _measured(samples: Samples, links: Sequence[str], width_s: float) -> Mapping[str, Json]:
    """Rates at which payloads arrived, and round trips, of these links together."""
    return {
        **{way: ranges([samples.rates[name, way] for name in links], width_s) for way in _WAYS},
        "delay_ms": ranges([samples.round_trips_ms[name] for name in links], width_s),
    }


def _asked(link: Link) -> list[Json]:
    """Shape of a link at each change: time, kB/s up and down, added round trip in ms, is cut."""
    effects = link.effects[:_ASKED_MOST]
    ends = {one.to_s for one in effects if one.to_s is not None}
    changes = sorted({one.from_s for one in effects} | ends)
    return [_asked_at(effects, at_s) for at_s in changes[:_ASKED_MOST]]


def _asked_at(effects: Sequence[Effect], at_s: float) -> Json:
    now = [one for one in effects if one.from_s <= at_s and (one.to_s is None or at_s < one.to_s)]
    delay_ms = sum(
        1000 * _number(one, "mean_s") * sum(_acts(one, way) for way in _WAYS)
        for one in now
        if one.effect == "latency"
    )
    limits: list[Json] = [_least_rate(now, way) for way in _WAYS]
    return [_time(at_s), *limits, digits(delay_ms), any(one.effect in _CUTS for one in now)]


def _least_rate(effects: Sequence[Effect], way: str) -> Json:
    """The tightest limit in one direction; None without one."""
    found = [
        _number(one, "rate_bytes_per_s")
        for one in effects
        if one.effect == "bandwidth" and _acts(one, way)
    ]
    return digits(min(found) / 1000) if found else None


def _acts(effect: Effect, way: str) -> bool:
    return effect.direction in (way, "both")


def _number(effect: Effect, name: str) -> float:
    found = effect.details.get(name)
    return float(found) if isinstance(found, int | float) else 0.0
