"""Accounts of a training by a system of others: members and versions, from reports."""

from pathlib import Path
from typing import Any

import pytest

from chaoslab.core.events import Kind, Payload, data_of, decode, encode, kind_of
from chaoslab.core.payloads import SyncerReady
from chaoslab.systems.accounts import BACK_S, LATE_S, Accounts, Report

A, B = "learner-0", "learner-1"


class Heard:
    """The events of some accounts."""

    def __init__(self, file: Path) -> None:
        self.events: list[tuple[Kind, Any]] = []
        self.accounts = Accounts(self._emit, file)

    def _emit(self, said: Payload) -> None:
        self.events.append((kind_of(type(said)), decode(encode(data_of(said)))))

    def kinds(self) -> list[Kind]:
        return [kind for kind, _ in self.events]

    def of(self, kind: Kind) -> list[Any]:
        return [data for one, data in self.events if one is kind]

    def join(self, name: str, incarnation: int = 1, source: str = "initial") -> int:
        return self.accounts.join(name, incarnation, source=source, donor=None)

    def report(
        self, name: str, version: int, contributors: tuple[str, ...], *, now_s: float = 0.0
    ) -> None:
        work = {
            "step": 24 * version, "c_steps": 24, "c_tokens": 10, "base_version": version - 1,
            "tokens_from": 10 * version - 10, "tokens_to": 10 * version, "epoch": 1,
        }  # fmt: skip
        said = {
            "committed": version, "digest": f"digest {version}", "contributors": contributors,
            "work": work if name in contributors else {},
        }  # fmt: skip
        self.accounts.report(Report.of(name, 1, said), now_s)
        self.accounts.advance(now_s)


@pytest.fixture
def empty(tmp_path: Path) -> Heard:
    """Accounts of nobody yet."""
    return Heard(tmp_path / "accounts.json")


@pytest.fixture
def heard(empty: Heard) -> Heard:
    """Two learners have joined."""
    for name in (A, B):
        empty.join(name)
    return empty


def test_a_version_is_merged_when_all_of_its_contributors_have_told_of_it(heard: Heard) -> None:
    heard.report(A, 1, (A, B))
    assert not heard.of(Kind.ROUND_MERGED)
    heard.report(B, 1, (A, B))
    (merged,) = heard.of(Kind.ROUND_MERGED)
    assert merged["version"] == 1
    assert merged["committed_tokens"] == 20
    assert [one["learner"] for one in merged["contributors"]] == [A, B]
    assert [one["learner"] for one in heard.of(Kind.PUSH_ACCEPTED)] == [A, B]


def test_one_that_died_before_it_reported_is_not_waited_for(heard: Heard) -> None:
    heard.report(A, 1, (A, B))
    assert not heard.of(Kind.ROUND_MERGED)
    heard.accounts.leave(B, 1, said_goodbye=False)
    heard.accounts.advance(0.0)
    (merged,) = heard.of(Kind.ROUND_MERGED)
    assert [one["learner"] for one in merged["contributors"]] == [A]
    assert merged["missed"] == [B]


def test_one_that_is_connected_is_waited_for_even_if_others_are_further(heard: Heard) -> None:
    heard.report(A, 1, (A, B))
    heard.report(A, 2, (A,))
    assert not heard.of(Kind.ROUND_MERGED)
    heard.report(B, 1, (A, B))
    assert [one["version"] for one in heard.of(Kind.ROUND_MERGED)] == [1, 2]


def test_one_that_has_reported_a_newer_version_is_not_waited_for(heard: Heard) -> None:
    heard.report(A, 1, (A, B))
    heard.report(B, 2, (A, B))  # it counts the same average as its second
    assert [one["version"] for one in heard.of(Kind.ROUND_MERGED)] == [1]


def test_nobody_is_waited_for_without_end(heard: Heard) -> None:
    heard.report(A, 1, (A, B))
    heard.accounts.advance(LATE_S)
    assert len(heard.of(Kind.ROUND_MERGED)) == 1


def test_a_version_that_only_a_checkpoint_shows_is_merged_without_work(empty: Heard) -> None:
    empty.join(A)
    empty.report(A, 1, (A,))
    empty.accounts.adopt(2, "digest 2", 0.0)  # it was saved, and nobody lived to report it
    empty.report(A, 3, (A,))
    merged = empty.of(Kind.ROUND_MERGED)
    assert [one["version"] for one in merged] == [1, 2, 3]
    assert [len(one["contributors"]) for one in merged] == [1, 0, 1]


def test_work_stays_that_of_the_process_that_did_it(heard: Heard) -> None:
    heard.report(B, 1, (A, B))
    heard.accounts.leave(B, 1, said_goodbye=False)
    heard.join(B, 2)
    heard.report(A, 1, (A, B))
    heard.accounts.advance(0.0)
    contributors = heard.of(Kind.ROUND_MERGED)[0]["contributors"]
    assert {(one["learner"], one["incarnation"]) for one in contributors} == {(A, 1), (B, 1)}


def test_a_report_that_is_repeated_counts_once(heard: Heard) -> None:
    for name in (A, A, B, B):
        heard.report(name, 1, (A, B))
    (merged,) = heard.of(Kind.ROUND_MERGED)
    assert merged["committed_tokens"] == 20


def test_whoever_is_left_out_of_a_version_is_suspected_and_recovers(heard: Heard) -> None:
    for name in (A, B):
        heard.report(name, 1, (A, B))
    heard.report(A, 2, (A,), now_s=5.0)
    assert [one["learner"] for one in heard.of(Kind.MEMBER_SUSPECTED)] == [B]
    for name in (A, B):
        heard.report(name, 3, (A, B), now_s=6.0)
    assert [one["learner"] for one in heard.of(Kind.MEMBER_RECOVERED)] == [B]


def test_one_that_is_gone_is_a_member_until_the_system_goes_on_without_it(heard: Heard) -> None:
    for name in (A, B):
        heard.report(name, 1, (A, B))
    heard.accounts.leave(B, 1, said_goodbye=False)
    assert not heard.of(Kind.MEMBER_LEFT)
    heard.report(A, 2, (A,))
    (left,) = heard.of(Kind.MEMBER_LEFT)
    assert (left["learner"], left["reason"]) == (B, "no_progress")


def test_a_goodbye_waits_for_the_merge_of_its_work(heard: Heard) -> None:
    heard.report(A, 1, (A, B))
    heard.accounts.leave(A, 1, said_goodbye=True)
    heard.report(B, 1, (A, B))
    kinds = heard.kinds()
    assert kinds.index(Kind.ROUND_MERGED) < kinds.index(Kind.MEMBER_LEFT)
    assert [one["learner"] for one in heard.of(Kind.ROUND_MERGED)[0]["contributors"]] == [A, B]


def test_a_new_incarnation_ends_the_membership_of_the_one_before(empty: Heard) -> None:
    first = empty.join(A)
    second = empty.join(A, 2)
    assert second > first
    assert empty.kinds() == [Kind.MEMBER_JOINED, Kind.MEMBER_LEFT, Kind.MEMBER_JOINED]


def test_a_connection_that_is_made_again_changes_nothing(empty: Heard) -> None:
    epoch = empty.join(A)
    empty.accounts.leave(A, 1, said_goodbye=False)
    assert empty.join(A, source="resumed") == epoch
    empty.report(A, 1, (A,))
    assert not empty.of(Kind.MEMBER_LEFT)


def test_who_has_not_connected_again_is_waited_for_a_while(heard: Heard, tmp_path: Path) -> None:
    after = Heard(tmp_path / "accounts.json")
    after.join(A, source="resumed")
    after.report(A, 1, (A, B))
    assert not after.of(Kind.ROUND_MERGED)
    after.join(B, source="resumed")
    after.report(B, 1, (A, B))
    (merged,) = after.of(Kind.ROUND_MERGED)
    assert len(merged["contributors"]) == 2


def test_who_never_connects_again_is_not_waited_for_without_end(
    heard: Heard, tmp_path: Path
) -> None:
    after = Heard(tmp_path / "accounts.json")
    after.join(A, source="resumed")
    after.report(A, 1, (A, B))
    after.accounts.advance(BACK_S)
    assert len(after.of(Kind.ROUND_MERGED)) == 1


def test_a_version_that_is_not_newer_is_not_merged_again(heard: Heard) -> None:
    heard.report(A, 5, (A,))
    heard.report(B, 1, (B,))  # it began alone, from the initial parameters
    assert [one["version"] for one in heard.of(Kind.ROUND_MERGED)] == [5]


def test_accounts_go_on_where_a_process_was_taken_away(empty: Heard, tmp_path: Path) -> None:
    epoch = empty.join(A)
    empty.report(A, 1, (A,))
    after = Heard(tmp_path / "accounts.json")
    after.accounts.restate()
    assert [one["is_restated"] for one in after.of(Kind.ROUND_MERGED)] == [True]
    assert after.accounts.ready("here") == SyncerReady(
        address="here", rounds=1, committed_tokens=10, is_recovered=True, last_epoch=epoch,
        versions={"0": 1}, digests={"0": "digest 1"},
    )  # fmt: skip
    assert after.join(A, source="resumed") == epoch + 1
    after.report(A, 2, (A,))
    assert after.of(Kind.ROUND_MERGED)[-1]["committed_tokens"] == 20
