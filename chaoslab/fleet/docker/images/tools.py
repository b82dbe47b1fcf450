"""A container of the tools image in another network: iptables and tc, without touching a node.

    Tools.ask ── one JSON line on its standard input ──► tool_runner ──► iptables, tc, conntrack
              ◄─ one JSON line on its standard output ──┘

Over the engine's own connection, so an engine elsewhere does as well. Nothing of this runs in a
node's container or image, and nothing on the engine's machine itself. It ends with the harness; its
container has the run's labels and goes with the run's resources.
"""

import json
import queue
import shlex
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.docker.engine.engine import ContainerSpec, Engine, Limits
from chaoslab.fleet.docker.engine.stream import STDERR
from chaoslab.fleet.docker.images import images

_PROGRAM: Final = ("python3", "-I", "-S", "/opt/chaoslab/tool_runner.py")
_LIMITS: Final = Limits(cpus=1.0, memory_bytes=256 << 20, processes=64)
_ANSWER_S: Final = 20.0
"""The tools have a deadline of their own, which is shorter."""


def why_no_image(engine: Engine) -> str:
    """Why there are no tools on an engine, as a clause; empty if there are."""
    if engine.image_id(name := images.tools_image()) is not None:
        return ""
    return f"the engine has no image {name}: run `chaoslab doctor images build`"


class Tools:
    """Running once it is made. FleetError if the engine refuses."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        network: str,
        *,
        labels: Mapping[str, str],
        is_gateway: bool = False,
    ) -> None:
        """`network` is that of a run, `none`, or `container:NAME`; a gateway forwards there."""
        self.name, self._engine = name, engine
        more = ("NET_RAW",) if is_gateway else ()
        engine.create(
            ContainerSpec(
                name=name,
                image=images.tools_image(),
                command=_PROGRAM,
                limits=engine.within(_LIMITS),
                network=network,
                labels=labels,
                hears=True,
                capabilities=("NET_ADMIN", *more),
                sysctls={"net.ipv4.ip_forward": "1"} if is_gateway else {},
            )
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._unanswered = 0
        """Number of requests whose answer was not read; they are answered in order."""
        self._asking = threading.Lock()
        try:
            self._stream = engine.attach(name, hears=True)
            engine.start(name)
        except FleetError:
            engine.remove(name)
            raise
        threading.Thread(target=self._listen, name=name, daemon=True).start()

    def run(self, tool: str, *words: str, text: str = "") -> str:
        code, said = self.ask((tool, *words), text)
        if code:
            raise FleetError(f"{tool} {shlex.join(words)} failed in {self.name}: {said}")
        return said

    def ask(self, command: Sequence[str], text: str = "") -> tuple[int, str]:
        """Exit code and output, or error output if it failed."""
        return self._tell({"command": list(command), "text": text})

    def send_syn(self, ends: Sequence[tuple[str, int, str, int]]) -> None:
        """A SYN from each first host and port to its second, see `links.netem.tool_runner`."""
        if ends:
            code, said = self._tell({"send_syn": [list(one) for one in ends]})
            if code:
                raise FleetError(f"{self.name} could not send a SYN: {said}")

    def close(self) -> None:
        """Remove it; its rules stay as long as the network that it was in."""
        self._stream.close()
        self._engine.remove(self.name)

    def _tell(self, asked: Json) -> tuple[int, str]:
        """The answer to this request; late ones to those before it are left out."""
        with self._asking:
            deadline, line = time.monotonic() + _ANSWER_S, None
            self._unanswered += 1
            try:
                self._stream.write(json.dumps(asked).encode() + b"\n")
                while self._unanswered:
                    line = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
                    if line is None:
                        break
                    self._unanswered -= 1
            except (OSError, queue.Empty) as error:
                said = str(error) or f"it was silent for {_ANSWER_S:g} s"
                raise FleetError(f"container {self.name} does not answer: {said}") from error
            if line is None:
                self._answers.put(None)  # for the next call
                raise FleetError(f"container {self.name} does not answer: it has ended")
            answer = json.loads(line)
            return int(answer["code"]), str(answer["said"])

    def _listen(self) -> None:
        """Read lines of its standard output, then None, on a thread of its own."""
        rest = b""
        while (piece := self._stream.read()) is not None:
            kind, chunk = piece
            if kind != STDERR:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._answers.put(line.decode(errors="replace"))
        self._answers.put(None)
