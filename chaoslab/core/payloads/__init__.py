"""Typed payloads of events: one frozen dataclass for each kind of event in `core.events`.

    history.of(NodeExited) ─► Sequence[Event[NodeExited]] ─► event.payload.exit_code
    event.payload of any Event ─► isinstance(said, NodeExited) ─► said.exit_code

Readers of events use these fields and no keys of `event.data`. Of several kinds `of` returns
`Event[A] | Event[B]`: use what they share, or narrow with `isinstance(event.payload, A)`.

Writers say an event by its class: `recorder.note(PhaseEntered(phase=…))` in the harness,
`Observation.of(node, NodeExited(…))` in a fleet, `emit(RoundStored(round=…))` in a node. A new kind
is a line in `Kind` and a class here, in the module of its writer. The docstrings are the table of
kinds in docs/record.md.
"""
# ruff: noqa: F403 - all classes of all these modules are meant

from chaoslab.core.events import Payload as Payload
from chaoslab.core.events import kind_of as kind_of
from chaoslab.core.events import payloads as payloads
from chaoslab.core.payloads.faults import *
from chaoslab.core.payloads.gameday import *
from chaoslab.core.payloads.learner import *
from chaoslab.core.payloads.links import *
from chaoslab.core.payloads.nodes import *
from chaoslab.core.payloads.run import *
from chaoslab.core.payloads.syncer import *
