r"""LineEditor: the line that is being typed, from the bytes of a keyboard to whole lines.

    b"go ha\t\r" ─► feed ─► "go half-dies"        Enter, Backspace, Ctrl-U, Tab, up and down

It reads no keyboard and draws nothing.
"""

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

Complete: TypeAlias = Callable[[str], tuple[str, Sequence[str]]]
"""From a line to the completed line, and what it can become if that is not settled."""

_LONGEST: Final = 2000
"""Characters of a line."""
_ESCAPE: Final = "\x1b"
_UP, _DOWN = "A", "B"


class LineEditor:
    """A line and those before it. The cursor is always at the end of the line."""

    def __init__(self, complete: Complete) -> None:
        self.text = ""
        self.choices: Sequence[str] = ()
        """What the last Tab could not choose from."""
        self._complete = complete
        self._earlier: list[str] = []
        self._back = 0
        """How many lines back the shown one is; 0: it is new."""
        self._begun = ""
        """What was typed before an earlier line was shown."""
        self._sequence = ""
        """The beginning of the escape sequence of a key."""
        self._decoder = getincrementaldecoder("utf-8")(errors="ignore")

    def feed(self, data: bytes) -> Iterator[str]:
        """Take typed bytes in; the lines that were submitted, each when it is complete."""
        for char in self._decoder.decode(data):
            if self._sequence or char == _ESCAPE:
                self._escape(char)
            elif char in "\r\n":
                if line := self._submit():
                    yield line
            else:
                self._key(char)

    def _key(self, char: str) -> None:
        self.choices = ()
        if char == "\t":
            self.text, self.choices = self._complete(self.text)
        elif char in "\x7f\b":
            self.text = self.text[:-1]
        elif char == "\x15":  # Ctrl-U
            self.text = ""
        elif char.isprintable() and len(self.text) < _LONGEST:
            self.text += char

    def _submit(self) -> str:
        line, self.text = self.text.strip(), ""
        self._back, self.choices = 0, ()
        if line and self._earlier[-1:] != [line]:
            self._earlier.append(line)
        return line

    def _escape(self, char: str) -> None:
        """Keys such as up are ESC [ A or ESC O A; what else begins with ESC is passed over."""
        self._sequence += char
        if len(self._sequence) == 1 or (len(self._sequence) == 2 and char in "[O"):
            return
        if not "@" <= char <= "~" and len(self._sequence) > 2:
            return
        if self._sequence[1:2] in ("[", "O"):
            self._go_back({_UP: 1, _DOWN: -1}.get(char, 0))
        self._sequence = ""

    def _go_back(self, lines: int) -> None:
        back = min(len(self._earlier), max(0, self._back + lines))
        if back == self._back:
            return
        if not self._back:
            self._begun = self.text
        self._back, self.choices = back, ()
        self.text = self._earlier[-back] if back else self._begun
