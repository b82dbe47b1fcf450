"""A learner's words: its snapshots as messages to the syncer, and the syncer's messages as news.

    Snapshot ──► hello, progress, push, declined, checkpoint ──► messages ══► syncer
    Joined, Adoption, Handover ◄── joined, adoption, handover ◄── messages ◄══╝

Pure functions of what they are given. When each is said is the messenger's affair (`messenger`);
the syncer's side is `syncer_words`, and `wire.proto` says what every field means.
"""

from collections.abc import Sequence

from chaoslab.diloco.learner.exchange import Adoption, Handover, Joined, Snapshot
from chaoslab.diloco.model.codec import Codec, decode, digest
from chaoslab.diloco.model.fragments import Layout, TensorSpec, specs_to_json
from chaoslab.diloco.settings import Settings, Source
from chaoslab.diloco.wire import wire_pb2 as pb

# ---------------------------------------------------------------- what is said


def hello(
    learner: str,
    incarnation: int,
    process: int,
    *,
    specs: Sequence[TensorSpec],
    held: Snapshot | None,
) -> pb.Hello:
    """Who is there, and what it holds."""
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


def progress(held: Snapshot) -> pb.Progress:
    """The counters of a step boundary."""
    return pb.Progress(
        step=held.step,
        tokens=held.tokens,
        c_steps=held.since_steps,
        c_tokens=[held.c_tokens(index) for index in range(len(held.versions))],
        versions=held.versions,
        loss=held.loss,
        step_s=held.step_s,
        data_position=held.data_position,
    )


def initial(fragment: int) -> pb.Push:
    """The header of a fragment of the initial parameters, which go out in full precision."""
    return pb.Push(fragment=fragment, base_version=-1, codec=Codec.F32.value)


def push(held: Snapshot, pull: pb.Pull, codec: Codec) -> pb.Push:
    """The header of the work on a fragment since it was adopted."""
    fragment = pull.fragment
    return pb.Push(
        round=pull.round,
        fragment=fragment,
        base_version=pull.base_version,
        step=held.step,
        c_steps=held.since_steps[fragment],
        c_tokens=held.c_tokens(fragment),
        tokens_from=held.since_tokens[fragment],
        tokens_to=held.tokens,
        codec=codec.value,
    )


def declined(held: Snapshot, pull: pb.Pull, codec: Codec) -> pb.Push:
    """An empty push: there is nothing to give for this pull."""
    return pb.Push(
        round=pull.round,
        fragment=pull.fragment,
        base_version=held.versions[pull.fragment],
        codec=codec.value,
    )


def checkpoint(held: Snapshot, request: int, donor: str) -> pb.Checkpoint:
    """The header of what a donor gives."""
    return pb.Checkpoint(
        request=request,
        versions=held.versions,
        step=held.step,
        data_position=held.data_position,
        donor=donor,
    )


# ---------------------------------------------------------------- what is heard


def joined(message: pb.ToLearner, specs: Sequence[TensorSpec]) -> Joined:
    """The membership that a welcome grants; ValueError if it cannot be understood."""
    welcome = message.welcome
    settings, source = Settings.from_json(welcome.settings_json), Source(welcome.source)
    return Joined(
        epoch=message.epoch,
        source=source,
        donor=welcome.donor,
        settings=settings,
        layout=Layout.balance(specs, settings.fragments),
        data_position=welcome.data_position,
        step=welcome.step,
    )


def adoption(header: pb.Fragment, payload: memoryview, size: int) -> Adoption:
    """A published fragment of `size` values; MalformedPayload or ValueError if unreadable."""
    values = decode(payload, size, Codec(header.codec))
    return Adoption(
        fragment=header.fragment,
        version=header.version,
        committed_tokens=header.committed_tokens,
        digest=digest(values),
        values=values,
    )


def handover(header: pb.Checkpoint, payload: memoryview) -> Handover:
    """A donor's checkpoint, as the syncer passed it on."""
    return Handover(
        versions=tuple(header.versions),
        step=header.step,
        data_position=header.data_position,
        donor=header.donor,
        payload=payload,
    )
