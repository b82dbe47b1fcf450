"""Conversion at the learner: counters to messages, a welcome to a membership.

    Counters ──► hello, progress, push, declined, checkpoint ──► messages ══► syncer
    Joined ◄── joined ◄── messages ◄══╝

Pure functions. `messenger` decides when a message is sent; the syncer's side is `syncer.messages`,
and `wire.proto` describes every field.
"""

from chaoslab.diloco.learner.counters import Counters
from chaoslab.diloco.learner.exchange import Joined, Payloads
from chaoslab.diloco.model.encodings import Codec
from chaoslab.diloco.settings import Settings, Source
from chaoslab.diloco.wire import wire_pb2 as pb

# ---------------------------------------------------------------- to the syncer


def hello(
    learner: str,
    incarnation: int,
    process: int,
    *,
    specs_json: str,
    counters: Counters | None,
) -> pb.Hello:
    """Hello: identity of the process, and what it holds (None: nothing)."""
    return pb.Hello(
        learner=learner,
        incarnation=incarnation,
        specs_json=specs_json,
        versions=counters.versions if counters else (),
        step=counters.step if counters else 0,
        data_position=counters.data_position if counters else 0,
        tokens=counters.tokens if counters else 0,
        process=process,
    )


def progress(counters: Counters) -> pb.Progress:
    """Counters of a step boundary."""
    return pb.Progress(
        step=counters.step,
        tokens=counters.tokens,
        c_steps=[counters.c_steps(index) for index in range(len(counters.fragments))],
        c_tokens=[counters.c_tokens(index) for index in range(len(counters.fragments))],
        versions=counters.versions,
        loss=counters.loss,
        step_s=counters.step_s,
        data_position=counters.data_position,
        waits=counters.waits,
        communicator=counters.communicator,
        meeting=counters.meeting,
    )


def initial(fragment: int) -> pb.Push:
    """Header of a fragment of the initial parameters, which are sent in full precision."""
    return pb.Push(fragment=fragment, base_version=-1, codec=Codec.F32.value)


def push(counters: Counters, pull: pb.Pull, codec: Codec) -> pb.Push:
    """Header of a push: the work on a fragment since it was adopted."""
    fragment = pull.fragment
    return pb.Push(
        round=pull.round,
        fragment=fragment,
        base_version=pull.base_version,
        step=counters.step,
        c_steps=counters.c_steps(fragment),
        c_tokens=counters.c_tokens(fragment),
        tokens_from=counters.fragments[fragment].tokens_from,
        tokens_to=counters.tokens,
        codec=codec.value,
    )


def declined(counters: Counters, pull: pb.Pull, codec: Codec) -> pb.Push:
    """Header of an empty push, which declines a pull."""
    return pb.Push(
        round=pull.round,
        fragment=pull.fragment,
        base_version=counters.fragments[pull.fragment].version,
        codec=codec.value,
    )


def checkpoint(counters: Counters, request: int, donor: str) -> pb.Checkpoint:
    """Header of a donor's checkpoint."""
    return pb.Checkpoint(
        request=request,
        versions=counters.versions,
        step=counters.step,
        data_position=counters.data_position,
        donor=donor,
    )


# ---------------------------------------------------------------- from the syncer


def joined(message: pb.ToLearner, payloads: Payloads) -> Joined:
    """Membership that a welcome grants; ValueError if it cannot be parsed."""
    welcome = message.welcome
    settings, source = Settings.from_json(welcome.settings_json), Source(welcome.source)
    return Joined(
        epoch=message.epoch,
        source=source,
        settings=settings,
        layout=payloads.cut(settings),
        data_position=welcome.data_position,
        step=welcome.step,
    )
