"""What other packages bring: found by entry points, and refused with their names."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core import registry
from chaoslab.core.errors import PackageError
from chaoslab.core.registry import Group, load_plugins
from chaoslab.undo import catalogue
from chaoslab.undo.actions import is_safe_during_run, leftovers, undo
from chaoslab.undo.verbs import UndoEntry


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Packages":
    monkeypatch.syspath_prepend(tmp_path)
    return Packages(tmp_path)


class Packages:
    """Packages as pip leaves them, on the path of this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def install(self, package: str, group: Group, entry: str, *, code: str = "") -> None:
        info = self._folder / f"{package}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
        (self._folder / f"{package}.py").write_text(code)
        registry._points.cache_clear()  # as a process that begins now would find it


def anything(_name: str, _thing: object) -> str:
    return ""


def test_an_installed_package_adds_to_our_own(packages: Packages) -> None:
    packages.install("registry_one", Group.FAULTS, "x = registry_one:X", code="X = 7")
    assert load_plugins(Group.FAULTS, {"own": 1}, anything) == {"own": 1, "x": 7}


@pytest.mark.parametrize(
    ("package", "code"),
    [
        ("registry_syntax", "X = ("),
        ("registry_import", "import not_to_be_found"),
        ("registry_exits", "raise ZeroDivisionError"),
        ("registry_lacks", ""),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named_in_one_line(
    packages: Packages, package: str, code: str
) -> None:
    packages.install(package, Group.CHECKS, f"x = {package}:X", code=code)
    with pytest.raises(PackageError, match=f"{package}:X, .*{package}") as told:
        load_plugins(Group.CHECKS, {}, anything)
    assert "\n" not in str(told.value)


def test_a_name_that_is_used_twice_is_refused_and_what_is_not_what_it_claims_to_be(
    packages: Packages,
) -> None:
    packages.install("registry_first", Group.LINKS, "x = registry_first:X", code="X = 1")
    with pytest.raises(PackageError, match="registry_first"):
        load_plugins(Group.LINKS, {"x": 0}, anything)
    with pytest.raises(PackageError, match=r"registry_first .*no links"):
        load_plugins(Group.LINKS, {}, lambda *_: "it is no links")
    packages.install("registry_second", Group.LINKS, "x = registry_second:X", code="X = 2")
    with pytest.raises(PackageError, match=r"registry_second .* registry_first"):
        load_plugins(Group.LINKS, {}, anything)


def forget() -> None:
    for one in (catalogue.verbs, catalogue.maintenance):
        one.cache_clear()


@pytest.fixture
def fresh_verbs() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.mark.usefixtures("fresh_verbs")
def test_a_broken_package_keeps_nobody_from_undoing_what_is_chaoslab_s(
    packages: Packages, tmp_path: Path
) -> None:
    packages.install("registry_undo", Group.UNDO, "x = registry_undo:X", code="import nowhere")
    own = UndoEntry(number=0, do="close_bands", facts={"interface": "x"}, directory=tmp_path)
    theirs = UndoEntry(number=1, do="their_verb", facts={}, directory=tmp_path)
    assert "registry_undo" not in undo(own).remaining[0]
    for said in (undo(theirs).remaining, leftovers(theirs)):
        assert "registry_undo" in said[0]
    assert not is_safe_during_run(theirs)


MAINTENANCE = """
from chaoslab.undo.facts import Facts
from chaoslab.undo.verbs import Healed, Maintenance, Verb
verb = Verb(facts=Facts, undo=lambda _: Healed(actions=("done",)), left=lambda _: ("x",))
X = Maintenance(verbs={"VERB": verb})
"""


@pytest.mark.usefixtures("fresh_verbs")
def test_a_package_brings_undo_verbs_and_takes_none_of_ours(
    packages: Packages, tmp_path: Path
) -> None:
    packages.install(
        "registry_verbs", Group.UNDO, "x = registry_verbs:X", code=MAINTENANCE.replace("VERB", "v")
    )
    theirs = UndoEntry(number=1, do="v", facts={}, directory=tmp_path)
    assert undo(theirs).actions == ("done",)
    assert leftovers(theirs) == ("x",)
    packages.install(
        "registry_steals", Group.UNDO, "y = registry_steals:X",
        code=MAINTENANCE.replace("VERB", "unmount"),
    )  # fmt: skip
    forget()
    with pytest.raises(PackageError, match=r"y .*'unmount'"):
        catalogue.verbs()
