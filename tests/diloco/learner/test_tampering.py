"""The test hook on a learner's pushes: what is sent in place of an honest one, and what is said."""

import numpy as np
import pytest

from chaoslab.core.events import Payload
from chaoslab.core.payloads import UpdateTampered
from chaoslab.core.protocol import Corruption
from chaoslab.diloco.learner.exchange import Outgoing
from chaoslab.diloco.learner.payloads import changed
from chaoslab.diloco.learner.tampering import Make, Tampering
from chaoslab.diloco.model.codec import decode, encode
from chaoslab.diloco.model.encodings import Codec, NotFinite
from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.wire import wire_pb2 as pb
from tests.diloco.known import WHOSE

VALUES: FloatArray = np.linspace(-1, 1, 300, dtype=np.float32)


def make(values: FloatArray, codec: Codec) -> Make:
    return lambda change, factor: encode(changed(values, change, factor), codec)


class Hooked:
    """A learner's hook, and what it said."""

    def __init__(self) -> None:
        self.told: list[UpdateTampered] = []
        self.tampering = Tampering(self._emit, WHOSE)

    def _emit(self, said: Payload) -> None:
        assert isinstance(said, UpdateTampered)
        self.told.append(said)

    def send(
        self,
        *,
        round_: int = 7,
        fragment: int = 0,
        base: int | None = None,
        values: FloatArray = VALUES,
    ) -> list[Outgoing]:
        asked = push(round_, fragment, base)
        return list(self.tampering.outgoing(asked, make(values, Codec.INT8)))


def push(round_: int = 7, fragment: int = 0, base: int | None = None) -> pb.Push:
    base = round_ - 1 if base is None else base
    return pb.Push(round=round_, fragment=fragment, base_version=base, c_steps=24, codec="int8")


def received(sent: Outgoing) -> FloatArray:
    return decode(sent[1](), VALUES.size, Codec.INT8)


def test_nothing_is_touched_before_it_is_asked_nor_after_it_was_let_go() -> None:
    hooked = Hooked()
    (before,) = hooked.send()
    hooked.tampering.apply_hook({"kind": "nan"})
    hooked.tampering.apply_hook({})
    (after,) = hooked.send()
    assert before[0] == after[0] == push()
    assert before[1]() == after[1]() == encode(VALUES, Codec.INT8)
    assert not hooked.told


@pytest.mark.parametrize("codec", list(Codec))
def test_a_nan_arrives_as_no_number_in_every_codec(codec: Codec) -> None:
    hooked = Hooked()
    hooked.tampering.apply_hook({"kind": "nan"})
    ((header, payload),) = hooked.tampering.outgoing(push(), make(VALUES, codec))
    assert header == push()
    with pytest.raises(NotFinite):
        decode(payload(), VALUES.size, codec)
    assert hooked.told == [UpdateTampered(**WHOSE, round=7, fragment=0, how=Corruption.NAN)]
    assert np.isfinite(VALUES).all()


def test_a_scaled_push_is_larger_under_an_honest_header() -> None:
    hooked = Hooked()
    hooked.tampering.apply_hook({"kind": "scaled", "factor": -1000})
    (sent,) = hooked.send()
    assert sent[0] == push()
    assert received(sent) == pytest.approx(-1000 * VALUES, abs=5.0)
    assert hooked.told[0].factor == -1000


def test_a_stale_push_answers_the_newest_pull_with_the_first_one_since() -> None:
    hooked = Hooked()
    hooked.tampering.apply_hook({"kind": "stale"})
    (first,) = hooked.send(round_=3)
    assert first[0] == push(3)
    assert not hooked.told
    (sent,) = hooked.send(round_=9, values=5 * VALUES)
    assert (sent[0].round, sent[0].base_version) == (9, 2)
    assert received(sent) == pytest.approx(VALUES, abs=0.01)
    (other,) = hooked.send(round_=10, fragment=1)
    assert other[0] == push(10, 1)
    assert [(one.round, one.how) for one in hooked.told] == [(9, "stale")]


def test_a_push_on_the_version_of_the_first_one_is_not_stale_and_goes_as_it_is() -> None:
    hooked = Hooked()
    hooked.tampering.apply_hook({"kind": "stale"})
    hooked.send(round_=3, base=2)
    (again,) = hooked.send(round_=4, base=2, values=5 * VALUES)
    assert again[0] == push(4, base=2)
    assert received(again) == pytest.approx(5 * VALUES, abs=0.03)
    assert not hooked.told
    (stale,) = hooked.send(round_=5, base=3)
    assert (stale[0].round, stale[0].base_version) == (5, 2)


def test_a_push_that_is_on_its_way_out_goes_by_what_it_began_with() -> None:
    """The word to let go may come from another thread between any two lines."""

    class LetGoInMidPush(Hooked):
        def _emit(self, said: Payload) -> None:
            super()._emit(said)
            self.tampering.apply_hook({})

    hooked = LetGoInMidPush()
    hooked.tampering.apply_hook({"kind": "stale"})
    hooked.send(round_=3)
    (sent,) = hooked.send(round_=9, values=5 * VALUES)
    assert (sent[0].round, sent[0].base_version) == (9, 2)
    (after,) = hooked.send(round_=10)
    assert after[0] == push(10)


def test_a_duplicate_is_sent_twice() -> None:
    hooked = Hooked()
    hooked.tampering.apply_hook({"kind": "duplicate"})
    one, other = hooked.send()
    assert one[0] == other[0] == push()
    assert one[1]() == other[1]()
