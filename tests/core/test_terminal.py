"""The end of what a program printed, short enough for a message."""

from pathlib import Path

from chaoslab.core.terminal import ends_with, last_lines, read_end


def test_only_the_last_lines_that_say_something_are_shown_and_none_is_long() -> None:
    event = '{"kind":"link.measured","data":{}}'
    said = [*map(str, range(100)), "x" * 5000, "", "  ~~~^^^", event, "Error: no\n\n", event]
    printed = "\n".join(said)
    shown = last_lines(printed).splitlines()
    assert shown[:3] == ["97", "98", "99"]
    assert shown[-1] == "Error: no"
    assert max(map(len, shown)) == 200
    assert last_lines("\n---\n") == ""


def test_a_log_is_named_with_its_end_and_one_that_says_nothing_is_not(tmp_path: Path) -> None:
    log = tmp_path / "stderr.log"
    log.write_text("loading\n" * 10_000 + "no data\n")
    assert read_end(log).endswith("loading\nno data\n")
    assert len(read_end(log)) < 20_000
    assert str(log) in ends_with(log)
    log.write_text("\n")
    assert ends_with(log) == ""
