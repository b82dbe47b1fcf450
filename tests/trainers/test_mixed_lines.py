"""Lines of several workers that nothing tells apart: found, not guessed at, and no member flaps."""

from collections.abc import Callable, Sequence

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.mixed_lines import RULE
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.resume import Resume
from chaoslab.checks.verdict import Verdict, judge
from chaoslab.core.payloads import LineKind, MemberLeft, Mixing, TrainerMixed
from chaoslab.record.history import History
from tests.trainers.script_story import STEP_S, ScriptStory

FOUR = ("worker-0", "worker-1", "worker-2", "worker-3")


class Mixed(ScriptStory):
    """Four workers of a launcher, of which some print their rank before each line."""

    def __init__(
        self, *, ahead: Sequence[int] = (0, 1, 0, 2), ranked: Sequence[str] = (), lines: int = 1,
        speakers: Sequence[str] = FOUR, is_one_for_all: bool = False,
    ) -> None:  # fmt: skip
        """`ahead`: steps that each has made before the run; `lines`: how many of them it prints
        together; `speakers`: those that print at all.
        """
        super().__init__(4, is_one_for_all=is_one_for_all)
        self.start("launcher")
        self._ranked, self._lines, self._speakers = ranked, lines, speakers
        for worker, step in zip(self.workers.values(), ahead, strict=True):
            worker.step = step

    def print(self, steps: int) -> "Mixed":
        """All that live make so many steps, and print them."""
        for _ in range(steps // self._lines):
            self.now_s += STEP_S * self._lines
            for worker in self.workers.values():
                for _ in range(self._lines if worker.is_alive else 0):
                    worker.step += 1
                    if worker.name in self._ranked:
                        self.tell(worker.name, LineKind.PROGRESS, worker.step, 2.0)
                    elif worker.name in self._speakers:
                        self.tell_of_launcher(LineKind.PROGRESS, worker.step)
        return self

    def broken(self, at: int = 30) -> "Mixed":
        """The last one is killed at step 40, and comes back by itself at another one."""
        self.print(40).measure()
        self.kill("worker-3").print(10)
        self.heal("worker-3", at=at, is_silent=True)
        return self.print(60)


def found(history: History) -> list[Mixing]:
    return [event.payload.how for event in history.of(TrainerMixed)]


def lives_that_began_anew(history: History) -> list[str]:
    """Workers whose membership ended in a process that lived on."""
    return [e.payload.learner for e in history.of(MemberLeft) if e.payload.reason == "fenced"]


KINDS: dict[str, tuple[Callable[[], Mixed], Mixing]] = {
    "each at its own pace": (Mixed, Mixing.BACK),
    "written in blocks": (lambda: Mixed(ahead=(0, 0, 0, 0), lines=10), Mixing.BACK),
    "two of four with a rank": (lambda: Mixed(ranked=FOUR[:2]), Mixing.BACK),
    "two of four with a rank, the others side by side": (
        lambda: Mixed(ahead=(0, 1, 0, 0), ranked=FOUR[:2]), Mixing.REPEATED,
    ),
    "the same step from all in a row": (lambda: Mixed(ahead=(0, 0, 0, 0)), Mixing.REPEATED),
    "all, although one reports for all": (lambda: Mixed(is_one_for_all=True), Mixing.BACK),
    "all with a rank, although one reports for all": (
        lambda: Mixed(is_one_for_all=True, ranked=FOUR), Mixing.BACK,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("story", "how"), KINDS.values(), ids=[*KINDS])
def test_lines_that_nothing_tells_apart_are_found_before_any_fault(
    story: Callable[[], Mixed], how: Mixing
) -> None:
    history = story().print(40).history()
    assert found(history) == [how]
    assert history.of(MemberLeft) == []


@pytest.mark.parametrize("at", [0, 30, 45])
@pytest.mark.parametrize("story", [story for story, _ in KINDS.values()], ids=[*KINDS])
def test_what_rests_on_them_is_unknown_wherever_the_victim_goes_on(
    story: Callable[[], Mixed], at: int
) -> None:
    history = story().broken(at).end().history()
    verdict = judge(history, [Rejoin(), Resume()])
    assert lives_that_began_anew(history) == []
    assert_unknown(verdict)


def assert_unknown(verdict: Verdict) -> None:
    codes = {one.check: (one.outcome, one.codes) for one in verdict.findings}
    mixed = (Outcome.UNKNOWN, (Code.LINES_MIXED,))
    assert codes[RULE] == codes["rejoin"] == codes["resume"] == mixed, verdict.explain()
    assert {outcome for outcome, _ in codes.values()} == {Outcome.UNKNOWN}, verdict.explain()
    assert (verdict.training_continued, verdict.work_lost) == (None, None)
    assert {back.rejoined for back in verdict.learners_rejoined.values()} == {None}


def test_one_for_all_that_are_side_by_side_is_wrong_once_one_of_them_lags() -> None:
    """Until the fault nothing showed that the others print as well."""
    story = Mixed(ahead=(0, 0, 0, 0), is_one_for_all=True).print(40)
    assert found(story.history()) == []
    story.measure().kill("worker-3").print(10).heal("worker-3", at=30, is_silent=True)
    history = story.print(60).end().history()
    assert found(history) == [Mixing.BACK]
    assert len(lives_that_began_anew(history)) <= 3 * len(FOUR)
    assert_unknown(judge(history, [Rejoin(), Resume()]))


def test_one_that_never_comes_back_fails_whosever_the_lines_are() -> None:
    story = Mixed().print(40)
    story.measure().kill("worker-3").heal(at=0)
    story.now_s += 60
    history = story.print(5).end().history()
    by_name = judge(history, [Rejoin()]).by_name
    assert by_name["rejoin"].outcome is Outcome.FAIL
    assert (Code.NOT_RESTARTED in by_name["rejoin"].codes, by_name[RULE].codes) == (
        True, (Code.LINES_MIXED,),
    )  # fmt: skip


def test_steps_that_begin_anew_in_each_epoch_are_no_resume() -> None:
    story = ScriptStory(workers=1)
    for _ in range(3):
        story.train(12)
        story.workers["worker-0"].step = 0
    history = story.history()
    assert (found(history), history.of(MemberLeft)) == ([Mixing.BACK], [])


@pytest.mark.parametrize(
    "story",
    [
        lambda: Mixed(ranked=FOUR),
        lambda: Mixed(speakers=FOUR[:1]),
        lambda: Mixed(speakers=FOUR[:1], is_one_for_all=True),
        lambda: Mixed(ahead=(0, 0, 0, 0), is_one_for_all=True),
        lambda: Mixed(ranked=FOUR[:3]),
    ],
    ids=["ranks", "one speaks", "one for all", "all the same for all", "one without a rank"],
)  # fmt: skip
def test_lines_with_a_worker_each_are_not_mixed(story: Callable[[], Mixed]) -> None:
    history = story().print(40).history()
    assert (found(history), history.of(MemberLeft)) == ([], [])


def test_a_line_without_a_rank_is_about_none_that_prints_its_own() -> None:
    story = Mixed(ranked=FOUR).print(10)
    for step in (3, 90, 4):
        story.tell_of_launcher(LineKind.PROGRESS, step)
    assert (found(story.history()), story.history().of(MemberLeft)) == ([], [])
    assert max(story.progress.steps.values()) == 12


def test_a_worker_that_goes_back_after_a_fault_in_its_process_is_no_other_one() -> None:
    story = ScriptStory(workers=1).train(40).measure().kill()
    for _ in range(2):
        story.workers["worker-0"].step -= 10
        story.train(15)
    history = story.history()
    assert (found(history), len(lives_that_began_anew(history))) == ([], 2)


def test_a_bar_that_is_drawn_again_is_not_drawn_by_each_worker() -> None:
    story = Mixed()
    for step in (1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 7, 8):
        story.tell_of_launcher(LineKind.PROGRESS, step)
    assert found(story.history()) == []
