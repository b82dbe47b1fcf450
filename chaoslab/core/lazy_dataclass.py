"""The standard library's `dataclass`, whose methods are compiled when they are first used.

    @dataclass ─► its fields and slots; a stand-in for `__init__`, `__repr__`, `__eq__`, …
    first use  ─► the method is compiled and takes the place of its stand-in

A command imports some three hundred dataclasses, and uses the half of them. Compiling the methods
of all took a fifth of a short command's time.
"""

import abc
import dataclasses
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

_NOTHING = {"init": False, "repr": False, "eq": False}
_OPTIONS: Mapping[str, Mapping[str, bool]] = {
    "__repr__": _NOTHING | {"repr": True},
    "__eq__": _NOTHING | {"eq": True},
    "__hash__": _NOTHING | {"unsafe_hash": True},
    "__lt__": (ordered := _NOTHING | {"eq": True, "order": True}),
    "__le__": ordered,
    "__gt__": ordered,
    "__ge__": ordered,
}
"""What lets `dataclasses` make a method, and little beside it."""
_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
_ONE_AT_A_TIME = RLock()

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  # so that others may import it
else:

    def dataclass(cls=None, /, **options):
        """As `dataclasses.dataclass`, without `unsafe_hash` and `InitVar`."""
        return partial(_prepared, **options) if cls is None else _prepared(cls, **options)


def _prepared(
    cls: type,
    *,
    init: bool = True,
    repr: bool = True,  # noqa: A002  # the name in the standard library
    eq: bool = True,
    order: bool = False,
    frozen: bool = False,
    **layout: bool,
) -> type:
    own = vars(cls)
    is_hash_open = own.get("__hash__") is None and ("__eq__" in own or "__hash__" not in own)
    names = [name for name in ["__repr__"] * repr + ["__eq__"] * eq if name not in own]
    names += [*_ORDER] * order + ["__hash__"] * (is_hash_open and eq and frozen)
    cls.__doc__ = cls.__doc__ or f"{cls.__name__}()"  # else `dataclasses` looks for the signature
    made: Any = _with_fields(cls, is_frozen=frozen, **layout)
    if init and "__init__" not in own:
        made.__init__ = _StandIn(made, "__init__", partial(_init, made, is_frozen=frozen))
    for name in names:
        setattr(made, name, _StandIn(made, name, partial(_method, made, name)))
    if is_hash_open and eq and not frozen:
        made.__hash__ = None
    its = made.__dataclass_params__
    its.init, its.repr, its.eq, its.order, its.frozen = init, repr, eq, order, frozen
    if frozen:
        made.__setattr__, made.__delattr__ = _refusals(made)
        if "__slots__" in vars(made):
            if "__getstate__" not in own:
                made.__getstate__ = _state
            if "__setstate__" not in own:
                made.__setstate__ = _set_state
    abc.update_abstractmethods(made)
    return made  # type: ignore[no-any-return]  # a class


def _with_fields(cls: type, *, is_frozen: bool, **layout: bool) -> type:
    """A dataclass without methods. Those with which `dataclasses` refuses assignments are compiled,
    too, so it takes the class, and what it derives from, for mutable meanwhile.
    """
    inherited = [vars(base).get("__dataclass_params__") for base in cls.__mro__[1:]]
    with _ONE_AT_A_TIME:  # two modules may be imported at once, by two threads
        frozen = [its for its in inherited if its is not None and its.frozen and is_frozen]
        try:
            for its in frozen:
                its.frozen = False
            return dataclasses.dataclass(init=False, repr=False, eq=False, **layout)(cls)
        finally:
            for its in frozen:
                its.frozen = True


class _StandIn:
    """Stands for a method of a class until that is looked for."""

    def __init__(self, owner: type, name: str, compiled: Callable[[], Any]) -> None:
        self._owner, self._name, self._compiled = owner, name, compiled

    def __get__(self, instance: object, cls: type | None = None) -> Callable[..., object]:
        method = self._compiled()
        if vars(self._owner).get(self._name) is self:  # nobody has put another in its place
            setattr(self._owner, self._name, method)
        return method.__get__(instance, cls)  # type: ignore[no-any-return]  # a function's


def _init(cls: Any, *, is_frozen: bool) -> Any:
    """Its `__init__`; `dataclasses` takes four times as long to make that of a frozen class."""
    names: dict[str, object] = {"__put": object.__setattr__, "__factory": _FACTORY}
    own = "self" if "self" not in cls.__dataclass_fields__ else "__self"
    positional, keywords = [own], list[str]()
    body = ["pass"]
    for field in dataclasses.fields(cls):
        name = field.name
        is_made, has_default = field.default_factory is not MISSING, field.default is not MISSING
        names |= {f"__make_{name}": field.default_factory, f"__default_{name}": field.default}
        if field.init:
            default = "=__factory" * is_made or f"=__default_{name}" * has_default
            (keywords if field.kw_only else positional).append(name + default)
            value = f"__make_{name}() if {name} is __factory else {name}" if is_made else name
        elif is_made or has_default:
            value = f"__make_{name}()" if is_made else f"__default_{name}"
        else:
            continue
        body.append(f"__put({own}, {name!r}, {value})" if is_frozen else f"{own}.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(f"{own}.__post_init__()")
    parameters = ", ".join([*positional, *["*"] * bool(keywords), *keywords])
    lines = [f"def make({', '.join(names)}):", f" def __init__({parameters}):"]
    lines += [*(f"  {line}" for line in body), " return __init__"]
    local: dict[str, Any] = {}
    module = sys.modules.get(cls.__module__)  # whose names its annotations may be written in
    exec("\n".join(lines), vars(module) if module else {}, local)  # noqa: S102
    made = local["make"](**names)
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    made.__annotations__ = {one.name: one.type for one in dataclasses.fields(cls) if one.init}
    made.__annotations__["return"] = None
    return made


def _method(cls: Any, name: str) -> Any:
    """What `dataclasses` makes for a class of the same fields; it asks for no other class.

    Class variables are left out: `dataclasses` takes them for fields for a moment, and another
    thread may look at the class just then.
    """
    fields = {one.name: one for one in dataclasses.fields(cls)}
    body = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__annotations__": {one.name: one.type for one in fields.values()},
        **fields,
    }
    model: type = dataclasses.dataclass(**_OPTIONS[name])(type(cls.__name__, (), body))
    return vars(model)[name]


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
"""The default of a parameter in whose place a value is made."""


def _refusals(cls: Any) -> tuple[Callable[..., None], Callable[..., None]]:
    """Its `__setattr__` and `__delattr__`. What an heir adds to the fields is its own affair."""

    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _state(self: Any) -> list[object]:
    """What is pickled of a frozen instance with slots."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
