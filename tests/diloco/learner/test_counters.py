"""What becomes of a learner's tokens and steps, by values alone."""

from chaoslab.diloco.learner.counters import Counters


def stepped(counters: Counters, steps: int) -> Counters:
    """After this many steps on ten tokens each."""
    for _ in range(steps):
        counters = counters.stepped(tokens=10, loss=1.0, took_s=0.5)
    return counters


def columns(counters: Counters, fragment: int) -> tuple[float, ...]:
    """Committed, discarded and in flight."""
    final = counters.final({"learner": "learner-0", "incarnation": 1}, {})
    return tuple(of[str(fragment)] for of in (final.committed, final.discarded, final.in_flight))


def test_work_counts_from_the_step_at_which_a_fragment_was_adopted() -> None:
    held = Counters.cut(2, step=70, data_position=12)
    assert (held.is_complete, held.has_work, held.c_steps(0)) == (False, False, 0)
    for fragment in range(2):
        held = held.adopted(fragment, version=3, committed_tokens=0)
    assert held.is_complete
    held = stepped(stepped(held, 2).adopted(1, version=4, committed_tokens=5), 1)
    assert (held.step, held.tokens, held.data_position) == (73, 30, 15)
    assert (held.oldest, held.has_work) == (0, True)
    assert [(held.c_steps(p), held.c_tokens(p)) for p in range(2)] == [(3, 30), (1, 10)]
    assert (columns(held, 0), columns(held, 1)) == ((0, 0, 30), (5, 15, 10))


def test_a_donors_step_is_taken_over_without_its_work() -> None:
    held = Counters.cut(2, step=60, data_position=12).handed_over(step=300, versions=[4, 7])
    assert (held.step, held.data_position, held.versions) == (300, 12, [4, 7])
    assert not held.has_work
    assert stepped(held, 1).c_steps(1) == 1


def test_work_that_was_given_up_is_discarded_at_the_next_adoption_unless_it_is_merged() -> None:
    held = stepped(Counters.cut(1, step=0, data_position=0), 3).given_up()
    assert (held.has_work, columns(held, 0)) == (False, (0, 0, 30))
    held = stepped(held, 2)
    assert columns(held.adopted(0, version=1, committed_tokens=20), 0) == (20, 30, 0)
    assert columns(held.adopted(0, version=1, committed_tokens=50), 0) == (50, 0, 0)
