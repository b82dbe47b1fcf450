"""Dataclasses whose methods are compiled when they are used are those of the standard library."""

import abc
import copy
import dataclasses
import inspect
import pickle
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar, get_type_hints

import pytest

from chaoslab.core import lazy_dataclass
from chaoslab.core.lazy_dataclass import dataclass

OPTIONS: list[dict[str, bool]] = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"slots": True, "kw_only": True, "eq": False},
    {"frozen": True, "order": True},
    {"repr": False},
    {"frozen": True, "kw_only": True, "init": False},
]


def _made(decorate: Any, **options: bool) -> Any:
    class Point:
        """A place."""

        shared: ClassVar[int] = 3
        x: int
        tags: list[str] = field(default_factory=list, compare=False)
        y: float = 1.5
        found: dict[str, int] = field(init=False, default_factory=dict, repr=False, compare=False)
        answer: int = field(init=False, default=42)

        def __post_init__(self) -> None:
            self.found["x"] = self.x

    return decorate(**options)(Point)


def _of(made: Any) -> Any:
    """An instance, also of a class without an `__init__`."""
    return made(x=1, tags=["a"]) if "x" in inspect.signature(made).parameters else made()


def _asked(made: Any, question: Callable[[Any], object]) -> object:
    """What comes of it, as text; an error by its kind and words."""
    try:
        found = question(_of(made))
        return re.sub("0x[0-9a-f]+", "address", repr(found))
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    "question",
    [
        lambda one: one if "object at" not in repr(one) else None,
        lambda one: (one.x, one.tags, one.y, one.found, one.answer, one.shared),
        lambda one: one == _of(type(one)),
        lambda one: one == dataclasses.replace(one, x=2),
        lambda one: one == 1,
        lambda one: hash(one) == hash(_of(type(one))),
        lambda one: hash(one) == hash(dataclasses.replace(one, x=2)),
        lambda one: one < dataclasses.replace(one, y=2.0) >= one,
        lambda one: one <= 1,
        lambda one: setattr(one, "x", 7) or one.x,
        lambda one: delattr(one, "x"),
        dataclasses.asdict,
        lambda one: type(one)(),
        lambda one: type(one)(x=1, unknown=2),
        lambda one: type(one)(1),
        lambda one: type(one)(x=5).tags is type(one)(x=5).tags,
        lambda one: inspect.signature(type(one)),
        lambda one: type(one).__match_args__,
        lambda one: (type(one).__doc__, type(one).__name__, type(one).__module__),
        lambda one: copy.deepcopy(one) == one,
        lambda one: type(one).__dataclass_params__,
        lambda one: isinstance(one, type(one)) and dataclasses.is_dataclass(one),
    ],
)
def test_it_does_what_the_standard_one_does(
    options: dict[str, bool], question: Callable[[Any], object]
) -> None:
    expected = _asked(_made(dataclasses.dataclass, **options), question)
    assert _asked(_made(dataclass, **options), question) == expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """Frozen, with slots: pickled by name."""

    x: int
    rest: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heir(Base):
    """With a field more."""

    y: int = 2


def test_heirs_have_the_fields_of_both_and_are_pickled() -> None:
    one = Heir(x=1, y=3)
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == "Heir(x=1, rest=(), y=3)"
    assert one != Base(x=1)
    assert not hasattr(one, "__dict__")


def test_users_derive_their_own_from_one_with_the_standard_decorator() -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Own(Base):
        z: int = 4

    assert Own(x=1) == Own(x=1, z=4)
    assert hash(Own(x=1)) == hash(Own(x=1))
    with pytest.raises(FrozenInstanceError):
        Own(x=1).z = 5  # type: ignore[misc]
    for decorate in (dataclasses.dataclass, dataclass):
        with pytest.raises(TypeError, match="frozen"):
            decorate(type("Loose", (Base,), {"__annotations__": {"z": int}}))


def test_own_methods_are_kept() -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert (repr(Own(1)), Own(1) == Own(2), hash(Own(1))) == ("own", True, 7)


def test_nothing_is_compiled_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    init, method = lazy_dataclass._init, lazy_dataclass._method

    def counted_init(cls: Any, *, is_frozen: bool) -> Any:
        compiled.append("__init__")
        return init(cls, is_frozen=is_frozen)

    def counted_method(cls: Any, name: str) -> Any:
        compiled.append(name)
        return method(cls, name)

    monkeypatch.setattr(lazy_dataclass, "_init", counted_init)
    monkeypatch.setattr(lazy_dataclass, "_method", counted_method)
    made = _made(dataclass, frozen=True, slots=True)
    assert compiled == []
    one = made(x=1)
    assert compiled == ["__init__"]
    assert one == made(x=1)
    assert repr(one) == repr(made(x=1))
    assert compiled == ["__init__", "__eq__", "__repr__"]


@dataclass(frozen=True, slots=True)
class Kept:
    """Pickled in its own way."""

    x: int

    def __getstate__(self) -> int:
        return self.x + 1

    def __setstate__(self, state: int) -> None:
        object.__setattr__(self, "x", state)


def test_own_ways_to_be_made_and_pickled_are_kept() -> None:
    @dataclass(slots=True)
    class Own:
        x: int

        def __init__(self) -> None:
            self.x = 7

    assert Own().x == 7
    assert copy.copy(Kept(1)).x == 2


def test_an_heir_of_a_frozen_one_has_more_than_its_fields() -> None:
    @dataclass(frozen=True)
    class Plain:
        x: int

    class Counting(Plain):
        seen: int

        def __init__(self) -> None:
            super().__init__(x=1)
            self.seen = 3

    one = Counting()
    assert one.seen == 3
    del one.seen
    assert not hasattr(one, "seen")
    with pytest.raises(FrozenInstanceError):
        one.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        Plain(1).seen = 3  # type: ignore[attr-defined]


def test_the_types_of_its_parameters_are_found_where_it_was_written() -> None:
    @dataclass(kw_only=True)
    class Named:
        base: "Base"

    assert get_type_hints(Named.__init__)["base"] is Base


def test_fields_may_have_any_name() -> None:
    @dataclass(frozen=True)
    class Odd:
        self: int
        _put: int
        _factory: list[int] = field(default_factory=list)

    assert Odd(1, 2) == Odd(self=1, _put=2, _factory=[])


def test_methods_that_are_asked_for_make_a_class_concrete() -> None:
    class Hashed(abc.ABC):
        @abc.abstractmethod
        def __hash__(self) -> int: ...

    @dataclass(frozen=True)
    class Number(Hashed):
        x: int

    assert hash(Number(1)) == hash(Number(1))  # type: ignore[abstract]


def test_a_method_that_was_replaced_meanwhile_stays_so() -> None:
    @dataclass
    class Patched:
        x: int

    stand_in = vars(Patched)["__init__"]

    def make(self: Any, x: int) -> None:
        self.x = 2 * x

    Patched.__init__ = make  # type: ignore[method-assign]
    assert stand_in.__get__(None, Patched) is not make
    assert Patched(2).x == 4


def test_heirs_of_one_class_are_made_by_several_threads_at_once() -> None:
    def derive(_: int) -> None:
        for _ in range(200):
            body = {"__annotations__": {"z": int}, "z": 1}
            dataclass(frozen=True)(type("Derived", (Base,), body))

    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # in the midst of everything
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(derive, range(4)))
    finally:
        sys.setswitchinterval(before_s)


def test_its_fields_are_the_same_all_the_while_that_a_method_is_compiled() -> None:
    seen: list[tuple[str, ...]] = []
    made = _made(dataclass, frozen=True)
    one = made(x=1)

    def look(*_: object) -> Any:
        seen.append(tuple(field.name for field in dataclasses.fields(made)))
        return look

    before = sys.gettrace()
    sys.settrace(look)  # as another thread may, at any line
    try:
        repr(one)
    finally:
        sys.settrace(before)
    assert set(seen) == {("x", "tags", "y", "found", "answer")}
