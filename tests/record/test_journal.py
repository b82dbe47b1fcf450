"""The journal as it is read back: a torn end is tolerated, any other damage is named."""

import json
import os
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaoslab.core.errors import ExitCode, FleetError
from chaoslab.core.events import Event, Json, Kind, MalformedEvent
from chaoslab.record import journal_file
from chaoslab.record.history import History
from chaoslab.record.journal import Journal
from chaoslab.record.journal_file import JOURNAL, JournalFile, read_journal
from tests.histories import half_killed
from tests.payload_reading import observed
from tests.virtual_clock import VirtualClock


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return [event.to_line() for event in half_killed().end().events]


def write(folder: Path, lines: list[str], *, torn: bytes = b"") -> None:
    (folder / JOURNAL).unlink(missing_ok=True)
    file = JournalFile(folder)
    for line in lines:
        file.append(line)
    file.close()
    with (folder / JOURNAL).open("ab") as journal:
        journal.write(torn)


def refusal(folder: Path) -> str:
    with pytest.raises(FleetError) as why:
        History.read(folder)
    assert (why.value.exit_code, "\n" in str(why.value)) == (ExitCode.BROKEN, False)
    return str(why.value)


@pytest.mark.parametrize("torn", [b'{"seq": 9', b"\xff\xfe", b"\0\0\0", b"7"])
def test_a_torn_last_line_is_left_out(tmp_path: Path, lines: list[str], torn: bytes) -> None:
    write(tmp_path, lines, torn=torn)
    assert len(History.read(tmp_path).events) == len(lines)


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        "",
        "[]",
        "{}",
        "[" * 100_000,
        "9" * 10_000,
        '{"seq":7,"time_s":"late","source":"harness","kind":"run.settled","data":{}}',
        '{"seq":7,"time_s":NaN,"source":"harness","kind":"run.settled","data":{}}',
        '{"seq":7,"time_s":1e999,"source":"harness","kind":"run.settled","data":{}}',
        '{"seq":1e999,"time_s":1,"source":"harness","kind":"run.settled","data":{}}',
        '{"seq":7,"time_s":1,"source":"harness","kind":"run.danced","data":{}}',
        f'{{"seq":7,"time_s":1,"node_s":{10**400},"source":"h","kind":"run.settled","data":{{}}}}',
        '{"seq":7,"time_s":1,"source":"harness","kind":"run.settled","data":[]}',
    ],
)
def test_a_broken_line_in_the_middle_is_named_by_file_and_number(
    tmp_path: Path, lines: list[str], line: str
) -> None:
    write(tmp_path, [*lines[:7], line, *lines[8:]])
    assert refusal(tmp_path).startswith(f"{tmp_path / JOURNAL}:8 ")


def test_a_line_that_is_no_text_is_named(tmp_path: Path, lines: list[str]) -> None:
    write(tmp_path, lines)
    path = tmp_path / JOURNAL
    path.write_bytes(path.read_bytes().replace(b'"seq":4,', b'"\xff":4,', 1))
    assert f"{JOURNAL}:5 " in refusal(tmp_path)


def test_a_missing_or_repeated_line_is_named(tmp_path: Path, lines: list[str]) -> None:
    write(tmp_path, [*lines[:5], *lines[6:]])
    assert f"{JOURNAL}:6 " in refusal(tmp_path)
    write(tmp_path, lines[:5], torn=lines[3].encode())
    assert f"{JOURNAL}:6 " in refusal(tmp_path)
    (tmp_path / JOURNAL).unlink()
    assert str(tmp_path / JOURNAL) in refusal(tmp_path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", [JOURNAL, "run.json"])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(
    tmp_path: Path, lines: list[str], name: str
) -> None:
    write(tmp_path, lines)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    assert f"{tmp_path / name} " in refusal(tmp_path)


def test_a_damaged_twin_is_named_by_its_own_file(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "twin").mkdir()
    write(tmp_path, lines)
    write(tmp_path / "twin", ["garbage", *lines])
    assert str(tmp_path / "twin" / JOURNAL) in refusal(tmp_path)


LINE = '{"seq":0,"time_s":1,"source":"harness","kind":"run.settled","data":%s}'


@pytest.mark.parametrize(
    "data",
    [
        '{"reason":"\\ud800"}',
        '{"pending":' + "[" * 300 + "]" * 300 + "}",
        '{"pending":' + "[" * 150 + "]" * 150 + "}",
        '{"":' * 99 + "{}" + "}" * 99,
        '{"a":1.}',
        '{"a":01}',
        '{"a":+1}',
        '{"a":inf}',
        '{"a":"\x01"}',
        '{"a":1,}',
        "{'a':1}",
        '{"a":1} {}',
        "[]",
    ],
)
def test_a_line_that_nobody_could_write_again_is_malformed(tmp_path: Path, data: str) -> None:
    with pytest.raises(MalformedEvent):
        Event.from_line(LINE % data)
    write(tmp_path, [LINE % data] * 2)
    assert f"{JOURNAL}:1 " in refusal(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        '{"a":"\\u001b\\ud83d\\ude00\\\\u"}',
        '{"a":"\x7f\u00e9\U0001f600"}',
        '{"a":NaN,"b":-Infinity,"c":1e999,"d":-0,"e":-0.0}',
        '{"a":123456789012345678901234567890,"b":0.1,"c":1E5}',
        '{"a":1,"a":2}',
        '{"pending":' + "[" * 90 + "]" * 90 + "}",
        '{"":' * 98 + "{}" + "}" * 98,
        ' { "a" : [ ] } ',
    ],
)
def test_a_journal_is_read_as_each_of_its_lines(tmp_path: Path, data: str) -> None:
    write(tmp_path, [LINE % data])
    assert repr(History.read(tmp_path).events) == repr([Event.from_line(LINE % data)])


# ---------------------------------------------------------------- the writer, and what cuts it off


@contextmanager
def no_file_larger_than(size_bytes: int) -> Iterator[None]:
    """As on a disk that has no more room; for this process, for the time of the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room_bytes", [0, 1, 40, 120])
def test_a_full_disk_is_an_error_once_and_never_half_a_line(
    tmp_path: Path, room_bytes: int
) -> None:
    padding: dict[str, Json] = {"phase": "x" * 200_000}
    with Journal(tmp_path, VirtualClock()) as journal:
        journal.write(observed(Kind.PHASE_ENTERED, padding))
        size_bytes = (tmp_path / JOURNAL).stat().st_size
        with no_file_larger_than(size_bytes + room_bytes):
            with pytest.raises(FleetError, match="healed"):
                journal.write(observed(Kind.PHASE_ENTERED, {"phase": "lost"}))
            journal.write(observed(Kind.PHASE_ENTERED, {"phase": "lost, too, while it is healed"}))
            assert (tmp_path / JOURNAL).stat().st_size == size_bytes
        journal.write(observed(Kind.PHASE_ENTERED, {"phase": "there is room again"}))
    first, second = History.read(tmp_path).events
    assert (first.seq, second.seq) == (0, 1)
    assert second.payload.phase == "there is room again"


def test_lines_that_wait_are_on_disk_when_there_are_enough_or_it_is_sealed_or_closed(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path, VirtualClock(), lines_at_once=3) as journal:
        seen = []
        for phase in ("start", "baseline", "inject", "settle"):
            journal.write(observed(Kind.PHASE_ENTERED, {"phase": phase}))
            seen.append(len(History.read(tmp_path).events))
        assert seen == [0, 0, 3, 3]
        assert journal.seal.lines == len(History.read(tmp_path).events) == 4
        journal.write(observed(Kind.PHASE_ENTERED, {"phase": "stop"}))
    assert len(History.read(tmp_path).events) == 5


def test_lines_that_wait_are_all_written_once_a_full_disk_has_room(tmp_path: Path) -> None:
    with Journal(tmp_path, VirtualClock(), lines_at_once=2) as journal:
        with no_file_larger_than(40):
            journal.write(observed(Kind.PHASE_ENTERED, {"phase": "start"}))
            with pytest.raises(FleetError, match="healed"):
                journal.write(observed(Kind.PHASE_ENTERED, {"phase": "lost"}))
            assert journal.seal.lines == 0
        journal.write(observed(Kind.PHASE_ENTERED, {"phase": "stop"}))
        assert journal.seal.lines == 2
    phases = [event.data["phase"] for event in History.read(tmp_path).events]
    assert phases == ["start", "stop"]


# ---------------------------------------------------------------- changed after it was written


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """The directory of a finished run: a chained journal, and what run.json says of it."""
    with Journal(tmp_path, VirtualClock()) as journal:
        for event in half_killed().end().events[:30]:
            journal.write(observed(event.kind, event.data, source=event.source))
        (tmp_path / "run.json").write_text(json.dumps({"journal": journal.seal.to_json()}))
    return tmp_path


def written(record: Path) -> list[bytes]:
    return (record / JOURNAL).read_bytes().splitlines(keepends=True)


def renumbered(lines: list[bytes]) -> list[bytes]:
    """As somebody would who removes a line and wants nobody to see it."""
    return [re.sub(rb'^{"seq":\d+', b'{"seq":%d' % n, line) for n, line in enumerate(lines)]


def test_a_run_that_ends_while_its_record_is_read_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = JournalFile(tmp_path)
    first, last = half_killed().end().events[:2]
    file.append(first.to_line())
    read = journal_file._written

    def ends_meanwhile(path: Path) -> bytes:
        written = read(path)
        file.append(last.to_line())
        (tmp_path / "run.json").write_text(json.dumps({"journal": file.seal.to_json()}))
        return written

    monkeypatch.setattr(journal_file, "_written", ends_meanwhile)
    events, seal = read_journal(tmp_path)
    assert [event.seq for event in events] == [0]
    assert seal.lines == 1
    file.close()


def test_the_writer_the_reader_and_run_json_agree_on_the_seal(record: Path) -> None:
    seal = History.read(record).seal
    assert seal.lines == len(written(record))
    assert json.loads((record / "run.json").read_text())["journal"] == seal.to_json()
    assert seal.digest in written(record)[-1].decode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda ls: [*ls[:9], ls[9].replace(b'"incarnation":1', b'"incarnation":2'), *ls[10:]], 10),
        (lambda ls: [*ls[:9], ls[9].replace(b'"time_s":0.0', b'"time_s":0.1'), *ls[10:]], 10),
        (lambda ls: renumbered([*ls[:9], *ls[10:]]), 10),
        (lambda ls: renumbered([*ls[:9], ls[9], *ls[9:]]), 11),
        (lambda ls: renumbered([*ls[:9], ls[10], ls[9], *ls[11:]]), 10),
        (lambda ls: [*ls[:9], re.sub(rb',"chain":"\w+"', b"", ls[9]), *ls[10:]], 10),
    ],
    ids=["number", "time", "removed", "repeated", "swapped", "chain"],
)
def test_a_line_that_was_changed_after_it_was_written_is_named(
    record: Path, change: Callable[[list[bytes]], list[bytes]], said: int
) -> None:
    before = written(record)
    after = change(before)
    assert after != before
    (record / JOURNAL).write_bytes(b"".join(after))
    assert refusal(record).startswith(f"{record / JOURNAL}:{said} ")


def test_a_journal_that_is_changed_after_it_was_read_is_not_what_it_was(record: Path) -> None:
    read = History.read(record)
    journal = record / JOURNAL
    state, whole = journal.stat(), journal.read_bytes()
    journal.write_bytes(whole.replace(b'"incarnation":1', b'"incarnation":2', 1))
    os.utime(journal, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert "was changed" in refusal(record)
    journal.write_bytes(whole)
    assert History.read(record).events == read.events
    (record / "run.json").write_text('{"journal":{"lines":30,"digest":"00"}}')
    assert "is not what run.json says" in refusal(record)


@pytest.mark.parametrize(
    ("facts", "is_refused"),
    [
        ({"outcome": "completed"}, True),
        ({"outcome": None, "journal": None}, True),
        ({"outcome": None}, False),  # the harness died before it could write more
        ({"outcome": "broken"}, False),
    ],
)
def test_a_run_json_of_a_finished_run_has_the_digest_of_a_journal_with_chains(
    record: Path, facts: dict[str, str | None], is_refused: bool
) -> None:
    (record / "run.json").write_text(json.dumps(facts))
    if is_refused:
        assert refusal(record).startswith(f"{record / 'run.json'} lacks the digest")
    else:
        assert History.read(record).seal is not None


def test_what_is_missing_or_too_much_at_the_end_of_a_finished_run_is_missed(record: Path) -> None:
    whole = (record / JOURNAL).read_bytes()
    tails = [whole + tail for tail in (b"\x10", b'{"seq":30', b"7")]
    for changed in (b"", b"".join(written(record)[:-1]), whole.removesuffix(b"\n"), *tails):
        (record / JOURNAL).write_bytes(changed)
        assert str(record / JOURNAL) in refusal(record)


def test_the_journal_of_a_finished_twin_is_missed(record: Path) -> None:
    (record / "twin").mkdir()
    (record / "twin" / "run.json").write_bytes((record / "run.json").read_bytes())
    assert f"{record / 'twin' / JOURNAL} " in refusal(record)


@pytest.mark.parametrize(
    "facts",
    [
        '{"journal": {"lines": Infinity, "digest": ""}}',
        '{"journal": 7}',
        "[" * 100_000,
        '{"plan": "\\ud800"}',
    ],
)
def test_a_run_json_that_says_nothing_of_use_is_named(record: Path, facts: str) -> None:
    (record / "run.json").write_text(facts)
    assert refusal(record).startswith(f"{record / 'run.json'} ")


def test_a_journal_whose_chains_were_made_anew_is_told_by_run_json(record: Path) -> None:
    events = History.read(record).events
    (record / JOURNAL).unlink()
    with Journal(record, VirtualClock()) as journal:
        for event in events[1:]:
            journal.write(observed(event.kind, event.data, source=event.source))
        journal.write(observed(events[0].kind, events[0].data))
    assert "digest" in refusal(record)
    (record / JOURNAL).write_bytes(b"".join(f"{e.to_line()}\n".encode() for e in events))
    assert JOURNAL in refusal(record)


def test_every_beginning_of_a_journal_is_read_as_that_of_a_run_that_was_cut_off(
    record: Path,
) -> None:
    (record / "run.json").write_text("{}")
    whole = (record / JOURNAL).read_bytes()
    for end in range(0, len(whole), 29):
        (record / JOURNAL).write_bytes(whole[:end])
        read = History.read(record)
        assert len(read.events) == whole[: end + 1].count(b"\n")


# ---------------------------------------------------------------- observers


class Seen(list[Kind]):
    """An observer that remembers."""

    def see(self, event: Event) -> None:
        self.append(event.kind)


def test_observers_wait_while_it_is_urgent_and_miss_nothing(tmp_path: Path) -> None:
    seen, kinds = Seen(), [Kind.FAULT_INJECTING, Kind.FAULT_INJECTED, Kind.NODE_PROBED]
    with Journal(tmp_path, VirtualClock(), observers=[seen]) as journal:
        for kind in kinds[:2]:
            journal.defer_observers(is_urgent=True)
            journal.write(observed(kind))
        assert seen == []
        assert [event.kind for event in journal.history.events] == kinds[:2]
        journal.defer_observers(is_urgent=False)
        assert seen == kinds[:2]
        journal.write(observed(kinds[2]))
    assert seen == kinds
