"""A gateway for tests of its links: its kernel writes down what it is asked for, and does it."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from chaoslab.core.errors import FleetError
from chaoslab.links.effects import LinkAbility
from chaoslab.links.netem.gateway import Ends

T = TypeVar("T")


class Written:
    """A gateway whose kernel does no more than write down; one call to it may fail."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        """What was asked for, but for questions."""
        self.rules: dict[tuple[str, str], list[str]] = {}
        """By table and chain, as they are listed."""
        self.classes: dict[str, tuple[str, str]] = {}
        """By identity: the limits of each, and its queue."""
        self.has_root = False
        self.flows = ""
        self.forgotten = ""
        self.knocked: list[Ends] = []
        self.address: str | None = "10.0.0.3"
        self.missing: dict[LinkAbility, str] = {}
        self.end = ""
        self.fails_in: int | None = None
        """The call that fails, counted from now."""
        self.is_done = False
        """Whether what fails was done, and only the answer was lost."""

    def open(self) -> str:
        return "10.0.0.2"

    def run(self, tool: str, *words: str, text: str = "") -> str:
        return self._called(lambda: self._run(tool, words, text))

    def ask(self, command: Sequence[str], text: str = "") -> tuple[int, str]:
        try:
            return 0, self.run(*command, text=text)
        except FleetError as error:
            return 1, str(error)

    def send_syn(self, ends: Sequence[Ends]) -> None:
        self._called(lambda: self.knocked.extend(ends))

    def _called(self, act: Callable[[], T]) -> T:
        self.fails_in = None if self.fails_in is None else self.fails_in - 1
        if self.fails_in != 0:
            return act()
        if self.is_done:
            act()
        raise FleetError("it was silent for 10 s")

    def _run(self, tool: str, words: Sequence[str], text: str) -> str:
        if tool == "iptables-save":
            return "\n".join(f"{where} {rules}" for where, rules in self.rules.items())
        if tool == "tc" and words[1] == "show":
            root = "qdisc htb 1: root\n" * self.has_root
            return (
                root if words[0] == "qdisc" else "".join(map("class htb {}\n".format, self.classes))
            )
        if tool == "iptables" and "-S" in words:
            of_table = {at: rules for at, rules in self.rules.items() if at[0] == words[3]}
            chain = words[5:6] if words[5:6] != ("-v",) else ()
            return "".join(
                f"-A {at} {rule}{' -c 7 300' * ('-v' in words)}\n"
                for (_, at), rules in of_table.items()
                for rule in rules
                if not chain or chain == (at,)
            )
        if tool == "conntrack" and words[0] == "-L":
            return self.flows
        self.lines += [" ".join((tool, *words)), *text.splitlines()]
        if tool == "conntrack":
            gone, self.flows = self.flows, ""
            self.forgotten += gone
            return gone
        if tool == "iptables":
            self._write(words[3], *words[4:])
        if tool == "iptables-restore":
            for line in text.splitlines():
                if " PREROUTING -p" in line:
                    self._write("nat", *line.split())
        if tool == "tc":
            self._shape(" ".join(words[:2]), words[4:])
        return ""

    def _write(self, table: str, verb: str, chain: str, *rule: str) -> None:
        rules = self.rules.setdefault((table, chain), [])
        rules.append(" ".join(rule)) if verb == "-A" else rules.remove(" ".join(rule))

    def _shape(self, verb: str, words: Sequence[str]) -> None:
        """As the kernel does, which refuses what is there already, or not there."""
        match verb:
            case "qdisc add":
                assert not self.has_root, "it is there"
                self.has_root = True
            case "class replace":
                limits, (_, queue) = " ".join(words[4:]), self.classes.get(words[3], ("", ""))
                self.classes[words[3]] = limits, queue
            case "qdisc replace":
                limits, queue = self.classes[words[1]]
                assert queue.split()[:1] in ([], [words[4]]), "it is of another kind"
                self.classes[words[1]] = limits, " ".join(words[4:])
            case "qdisc del":
                assert self.classes[words[1]][1], "it is not there"
                self.classes[words[1]] = self.classes[words[1]][0], ""
            case "class del":
                del self.classes[words[1]]

    @property
    def in_force(self) -> object:
        """All that the kernel has, but for the random end of the comment of a drop."""
        there = {where: sorted(rules) for where, rules in self.rules.items() if rules}
        return re.sub(r"(:up|:down):[0-9a-f]{4}\b", r"\1", str(there)), dict(self.classes)

    def locate(self, host: str) -> str | None:
        assert host == "syncer"
        return self.address

    def ended(self) -> str:
        return self.end

    def close(self) -> None:
        self.end = "it was closed"

    def lacks(self) -> dict[LinkAbility, str]:
        return self.missing

    def said(self, part: str) -> list[str]:
        """The lines with this in them, once."""
        found = [line for line in self.lines if part in line]
        self.lines = [line for line in self.lines if part not in line]
        return found
