from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FromLearner(_message.Message):
    __slots__ = ("epoch", "hello", "progress", "push", "checkpoint", "goodbye", "ping", "pong", "chunk")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    hello: Hello
    progress: Progress
    push: Push
    checkpoint: Checkpoint
    goodbye: Goodbye
    ping: Ping
    pong: Pong
    chunk: Chunk
    def __init__(self, epoch: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., push: _Optional[_Union[Push, _Mapping]] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ...) -> None: ...

class ToLearner(_message.Message):
    __slots__ = ("epoch", "welcome", "refused", "pull", "fragment", "checkpoint_request", "checkpoint", "fenced", "stop", "ping", "pong", "communicator", "chunk")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PULL_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATOR_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    welcome: Welcome
    refused: Refused
    pull: Pull
    fragment: Fragment
    checkpoint_request: CheckpointRequest
    checkpoint: Checkpoint
    fenced: Fenced
    stop: Stop
    ping: Ping
    pong: Pong
    communicator: Communicator
    chunk: Chunk
    def __init__(self, epoch: _Optional[int] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., pull: _Optional[_Union[Pull, _Mapping]] = ..., fragment: _Optional[_Union[Fragment, _Mapping]] = ..., checkpoint_request: _Optional[_Union[CheckpointRequest, _Mapping]] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., fenced: _Optional[_Union[Fenced, _Mapping]] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., communicator: _Optional[_Union[Communicator, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ...) -> None: ...

class Payload(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("offset", "checksum", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    checksum: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., checksum: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("sent_s",)
    SENT_S_FIELD_NUMBER: _ClassVar[int]
    sent_s: float
    def __init__(self, sent_s: _Optional[float] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("sent_s", "held_s")
    SENT_S_FIELD_NUMBER: _ClassVar[int]
    HELD_S_FIELD_NUMBER: _ClassVar[int]
    sent_s: float
    held_s: float
    def __init__(self, sent_s: _Optional[float] = ..., held_s: _Optional[float] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("learner", "incarnation", "specs_json", "versions", "step", "data_position", "tokens", "process")
    LEARNER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SPECS_JSON_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    DATA_POSITION_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    learner: str
    incarnation: int
    specs_json: str
    versions: _containers.RepeatedScalarFieldContainer[int]
    step: int
    data_position: int
    tokens: int
    process: int
    def __init__(self, learner: _Optional[str] = ..., incarnation: _Optional[int] = ..., specs_json: _Optional[str] = ..., versions: _Optional[_Iterable[int]] = ..., step: _Optional[int] = ..., data_position: _Optional[int] = ..., tokens: _Optional[int] = ..., process: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("step", "tokens", "c_steps", "c_tokens", "versions", "loss", "step_s", "data_position", "waits", "communicator", "meeting")
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    C_STEPS_FIELD_NUMBER: _ClassVar[int]
    C_TOKENS_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    STEP_S_FIELD_NUMBER: _ClassVar[int]
    DATA_POSITION_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATOR_FIELD_NUMBER: _ClassVar[int]
    MEETING_FIELD_NUMBER: _ClassVar[int]
    step: int
    tokens: int
    c_steps: _containers.RepeatedScalarFieldContainer[int]
    c_tokens: _containers.RepeatedScalarFieldContainer[int]
    versions: _containers.RepeatedScalarFieldContainer[int]
    loss: float
    step_s: float
    data_position: int
    waits: bool
    communicator: int
    meeting: str
    def __init__(self, step: _Optional[int] = ..., tokens: _Optional[int] = ..., c_steps: _Optional[_Iterable[int]] = ..., c_tokens: _Optional[_Iterable[int]] = ..., versions: _Optional[_Iterable[int]] = ..., loss: _Optional[float] = ..., step_s: _Optional[float] = ..., data_position: _Optional[int] = ..., waits: bool = ..., communicator: _Optional[int] = ..., meeting: _Optional[str] = ...) -> None: ...

class Push(_message.Message):
    __slots__ = ("round", "fragment", "base_version", "step", "c_steps", "c_tokens", "tokens_from", "tokens_to", "codec", "payload")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    C_STEPS_FIELD_NUMBER: _ClassVar[int]
    C_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FROM_FIELD_NUMBER: _ClassVar[int]
    TOKENS_TO_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    round: int
    fragment: int
    base_version: int
    step: int
    c_steps: int
    c_tokens: int
    tokens_from: int
    tokens_to: int
    codec: str
    payload: Payload
    def __init__(self, round: _Optional[int] = ..., fragment: _Optional[int] = ..., base_version: _Optional[int] = ..., step: _Optional[int] = ..., c_steps: _Optional[int] = ..., c_tokens: _Optional[int] = ..., tokens_from: _Optional[int] = ..., tokens_to: _Optional[int] = ..., codec: _Optional[str] = ..., payload: _Optional[_Union[Payload, _Mapping]] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("request", "versions", "step", "data_position", "donor", "payload")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    DATA_POSITION_FIELD_NUMBER: _ClassVar[int]
    DONOR_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    request: int
    versions: _containers.RepeatedScalarFieldContainer[int]
    step: int
    data_position: int
    donor: str
    payload: Payload
    def __init__(self, request: _Optional[int] = ..., versions: _Optional[_Iterable[int]] = ..., step: _Optional[int] = ..., data_position: _Optional[int] = ..., donor: _Optional[str] = ..., payload: _Optional[_Union[Payload, _Mapping]] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("versions", "source", "donor", "settings_json", "data_position", "step")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DONOR_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_JSON_FIELD_NUMBER: _ClassVar[int]
    DATA_POSITION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedScalarFieldContainer[int]
    source: str
    donor: str
    settings_json: str
    data_position: int
    step: int
    def __init__(self, versions: _Optional[_Iterable[int]] = ..., source: _Optional[str] = ..., donor: _Optional[str] = ..., settings_json: _Optional[str] = ..., data_position: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Pull(_message.Message):
    __slots__ = ("round", "fragment", "base_version")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    round: int
    fragment: int
    base_version: int
    def __init__(self, round: _Optional[int] = ..., fragment: _Optional[int] = ..., base_version: _Optional[int] = ...) -> None: ...

class Fragment(_message.Message):
    __slots__ = ("fragment", "version", "round", "codec", "committed_tokens", "digest", "payload")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    version: int
    round: int
    codec: str
    committed_tokens: int
    digest: str
    payload: Payload
    def __init__(self, fragment: _Optional[int] = ..., version: _Optional[int] = ..., round: _Optional[int] = ..., codec: _Optional[str] = ..., committed_tokens: _Optional[int] = ..., digest: _Optional[str] = ..., payload: _Optional[_Union[Payload, _Mapping]] = ...) -> None: ...

class CheckpointRequest(_message.Message):
    __slots__ = ("request", "versions")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    request: int
    versions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, request: _Optional[int] = ..., versions: _Optional[_Iterable[int]] = ...) -> None: ...

class Communicator(_message.Message):
    __slots__ = ("number", "rank", "size", "address")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    number: int
    rank: int
    size: int
    address: str
    def __init__(self, number: _Optional[int] = ..., rank: _Optional[int] = ..., size: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class Fenced(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("reason", "versions")
    REASON_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    versions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, reason: _Optional[str] = ..., versions: _Optional[_Iterable[int]] = ...) -> None: ...
