"""Screencasts of the documentation: whole, and without anything from elsewhere."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.text import Text

from docs import screencast

ADDRESS = "http://www.w3.org/2000/svg"


def test_frames_follow_each_other_in_a_picture_that_holds_the_tallest() -> None:
    low, high = (screencast.animated([[Text("a" + "\nb" * lines)]]) for lines in (1, 9))
    both = screencast.animated([[Text("a\nb")], [Text("a" + "\nb" * 9)]])
    sizes = [ElementTree.fromstring(one).attrib["viewBox"] for one in (low, high, both)]
    assert sizes[0] != sizes[1] == sizes[2]
    shown = re.findall(r"@keyframes f(\d) .* ([\d.]+)% { visibility: visible } ([\d.]+)%", both)
    assert shown == [("0", "0.00", "50.00"), ("1", "50.00", "100.00")]


@pytest.mark.gate
def test_a_simulated_game_day_is_shown_before_in_and_after_each_fault(tmp_path: Path) -> None:
    frames = list(screencast.game_day(tmp_path))
    text = screencast.animated(frames)
    assert len(frames) == 2 * 3 + 1
    assert ElementTree.fromstring(text).tag == f"{{{ADDRESS}}}svg"
    assert re.findall(r"https?://[^\"]*|@import|url\((?!#)", text.replace(ADDRESS, "")) == []
