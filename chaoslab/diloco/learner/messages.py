"""Conversion at the learner: counters to messages, the syncer's messages to inbox items.

    Counters ──► hello, progress, push, declined, checkpoint ──► messages ══► syncer
    Joined, Adoption ◄── joined, adoption ◄── messages ◄══╝

Pure functions. `messenger` decides when a message is sent; the syncer's side is `syncer.messages`,
and `wire.proto` describes every field.
"""

from collections.abc import Sequence

from chaoslab.diloco.learner.exchange import Adoption, Counters, Joined
from chaoslab.diloco.model.codec import Codec, decode, digest
from chaoslab.diloco.model.fragments import Layout, TensorSpec, specs_to_json
from chaoslab.diloco.settings import Settings, Source
from chaoslab.diloco.wire import wire_pb2 as pb

# ---------------------------------------------------------------- to the syncer


def hello(
    learner: str,
    incarnation: int,
    process: int,
    *,
    specs: Sequence[TensorSpec],
    held: Counters | None,
) -> pb.Hello:
    """Hello: identity of the process, and what it holds (None: nothing)."""
    return pb.Hello(
        learner=learner,
        incarnation=incarnation,
        specs_json=specs_to_json(specs),
        versions=held.versions if held else (),
        step=held.step if held else 0,
        data_position=held.data_position if held else 0,
        tokens=held.tokens if held else 0,
        process=process,
    )


def progress(held: Counters) -> pb.Progress:
    """Counters of a step boundary."""
    return pb.Progress(
        step=held.step,
        tokens=held.tokens,
        c_steps=[fragment.c_steps for fragment in held.fragments],
        c_tokens=[held.c_tokens(index) for index in range(len(held.fragments))],
        versions=held.versions,
        loss=held.loss,
        step_s=held.step_s,
        data_position=held.data_position,
        waits=held.waits,
        communicator=held.communicator,
        meeting=held.meeting,
    )


def initial(fragment: int) -> pb.Push:
    """Header of a fragment of the initial parameters, which are sent in full precision."""
    return pb.Push(fragment=fragment, base_version=-1, codec=Codec.F32.value)


def push(held: Counters, pull: pb.Pull, codec: Codec) -> pb.Push:
    """Header of a push: the work on a fragment since it was adopted."""
    fragment = pull.fragment
    return pb.Push(
        round=pull.round,
        fragment=fragment,
        base_version=pull.base_version,
        step=held.step,
        c_steps=held.fragments[fragment].c_steps,
        c_tokens=held.c_tokens(fragment),
        tokens_from=held.fragments[fragment].tokens_from,
        tokens_to=held.tokens,
        codec=codec.value,
    )


def declined(held: Counters, pull: pb.Pull, codec: Codec) -> pb.Push:
    """Header of an empty push, which declines a pull."""
    return pb.Push(
        round=pull.round,
        fragment=pull.fragment,
        base_version=held.fragments[pull.fragment].version,
        codec=codec.value,
    )


def checkpoint(held: Counters, request: int, donor: str) -> pb.Checkpoint:
    """Header of a donor's checkpoint."""
    return pb.Checkpoint(
        request=request,
        versions=held.versions,
        step=held.step,
        data_position=held.data_position,
        donor=donor,
    )


# ---------------------------------------------------------------- from the syncer


def joined(message: pb.ToLearner, specs: Sequence[TensorSpec]) -> Joined:
    """Membership that a welcome grants; ValueError if it cannot be parsed."""
    welcome = message.welcome
    settings, source = Settings.from_json(welcome.settings_json), Source(welcome.source)
    return Joined(
        epoch=message.epoch,
        source=source,
        settings=settings,
        layout=Layout.balance(specs, settings.fragments),
        data_position=welcome.data_position,
        step=welcome.step,
    )


def adoption(header: pb.Fragment, payload: memoryview, size: int) -> Adoption:
    """A published fragment of `size` values; MalformedPayload or ValueError if invalid."""
    values = decode(payload, size, Codec(header.codec))
    return Adoption(
        fragment=header.fragment,
        version=header.version,
        committed_tokens=header.committed_tokens,
        digest=digest(values),
        values=values,
    )
