"""Do the sums of the two accounts add up (`accounts`)? While training, and at the end.

    learner believes committed, at each adoption     = the syncer's books for that version
    committed + discarded + in flight, at the end    = raw tokens of the life
    committed_tokens of the run, at each round       = what its contributors gave, over P
    tokens a step, of each life                      = tokens a step, of all others

Nothing is tolerated but the rounding of the last one, which is a mean.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate

from chaoslab.checks.codes import Code
from chaoslab.checks.token_accounts import Accounts, Incarnation
from chaoslab.checks.violations import Violation
from chaoslab.core.events import Event, Json, Kind
from chaoslab.core.payloads import LearnerStep, RoundMerged, SyncerFinal

_ROUNDING_TOKENS = 1.0


def believed(accounts: Accounts) -> Iterator[Violation]:
    """What a learner believes to be committed when it adopts is what the syncer wrote down."""
    believed: dict[tuple[Incarnation, str], float] = defaultdict(float)
    wrong: set[tuple[Incarnation, str]] = set()
    for life, fragment, event in accounts.adoptions():
        line, version = (life, fragment), event.payload.version
        believed[line] += event.payload.committed_tokens
        if line in wrong or version > accounts.newest.get(fragment, 0):
            continue
        booked = accounts.committed(life, fragment, version)
        text = ""
        if event.payload.discarded_tokens < 0:
            text = "was told that more of its work is committed than it has done"
        elif believed[line] != booked:
            text = (
                f"believes {believed[line]:.0f} tokens committed, the syncer's books {booked:.0f}"
            )
        if text:
            wrong.add(line)
            what = f"{life[0]}, adopting version {version} of fragment {fragment}, "
            yield Violation.at(event, Code.BELIEF_WRONG, what + text, life[0])


def adds_up(accounts: Accounts) -> Iterator[Violation]:
    """At the end committed + discarded + in flight is raw, and committed is what the syncer has."""
    for life, final in accounts.finals.items():
        said, raw = final.payload, final.payload.tokens
        columns = said.committed, said.discarded, said.in_flight
        for fragment, version in said.versions.items():
            amounts = [column.get(fragment, 0.0) for column in columns]
            booked = accounts.committed(life, fragment, version)
            where = f"{life[0]} ended with fragment {fragment}"
            if sum(amounts) != raw:
                sum_text = " + ".join(f"{amount:.0f}" for amount in amounts)
                text = (
                    f"{where} at {sum_text} tokens (committed, discarded, in flight), not {raw:.0f}"
                )
                yield Violation.at(final, Code.TOKEN_LOST, text, life[0])
            elif amounts[0] != booked:
                text = f"{where} at {amounts[0]:.0f} committed tokens, the syncer at {booked:.0f}"
                yield Violation.at(final, Code.COMMITTED_DIFFER, text, life[0])


def running_sum(accounts: Accounts) -> Iterator[Violation]:
    """committed_tokens of each round is the sum of what all contributors gave so far, over P.

    It may already count rounds that were decided with it and are written down right after it, at
    most one for each fragment.
    """
    rounds = accounts.history.of(RoundMerged)
    given: dict[int, float] = defaultdict(float)
    for entry in accounts.merged:
        given[entry.event.seq] += entry.c_tokens / max(1, accounts.fragments)
    sums = list(accumulate(given[event.seq] for event in rounds))
    ends: list[Event[RoundMerged] | Event[SyncerFinal]]
    ends = [*rounds, *accounts.history.of(SyncerFinal)]
    for index, event in enumerate(ends if accounts.fragments else ()):
        said = event.payload.committed_tokens
        due = sums[index : index + accounts.fragments] or sums[-1:] or [0.0]
        is_open = event.kind is Kind.ROUND_MERGED and index + len(due) == len(sums)
        if any(abs(said - amount) <= _ROUNDING_TOKENS for amount in due):
            continue
        if is_open and said > sums[-1] and ends[-1].kind is Kind.ROUND_MERGED:
            continue  # the record breaks off before the rounds that it counts
        text = (
            f"the syncer said {said:.0f} tokens committed at {event.time_s:.1f} s, all "
            f"contributors together gave {due[0]:.0f}"
        )
        yield Violation.at(event, Code.RUNNING_SUM_WRONG, text)


def per_step(accounts: Accounts) -> Iterator[Violation]:
    """A step is as many tokens for one learner as for another: all have the same kind of batch.

    What one counts differs; whose count is the wrong one is for the majority to say.
    """
    rates = list(_rates(accounts))
    usual = Counter(rate for _, rate, _ in rates).most_common(1)
    for (learner, incarnation), rate, last in rates:
        if rate != usual[0][0]:
            text = f"{learner} (incarnation {incarnation}) counted {rate:g} tokens a step, and"
            others = f"the others {usual[0][0]:g}"
            yield Violation.at(last, Code.TOKENS_PER_STEP_DIFFER, f"{text} {others}", learner)


def _rates(accounts: Accounts) -> Iterator[tuple[Incarnation, float, Event[LearnerStep]]]:
    """Tokens a step of each life, from its first to its last sample, which comes with it."""
    ends: dict[Incarnation, tuple[Event[LearnerStep], Event[LearnerStep]]] = {}
    for event in accounts.history.of(LearnerStep):
        life = event.payload.life
        ends[life] = ends.get(life, (event, event))[0], event
    for life, (first, last) in ends.items():
        steps = last.payload.step - first.payload.step
        if steps > 0:
            yield life, (last.payload.tokens - first.payload.tokens) / steps, last


def totals(accounts: Accounts) -> Mapping[str, Json]:
    """The balance of the whole run, and what each life that left no final account took with it."""
    balances = {life: accounts.balance(life) for life in accounts.raw_tokens}
    sums: dict[str, float] = defaultdict(float)
    for balance in balances.values():
        for name, amount in balance.items():
            sums[name] += amount
    lost = {
        f"{learner} (incarnation {incarnation})": round(balance["lost_tokens"])
        for (learner, incarnation), balance in balances.items()
        if (learner, incarnation) not in accounts.finals
    }
    return {
        **{name: round(amount) for name, amount in sums.items()},
        "lost_by_life_tokens": lost,
        "rejected_pushes": len(accounts.rejected),
    }
