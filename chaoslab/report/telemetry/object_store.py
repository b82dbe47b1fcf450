"""Records of runs in an object store, or in any other place that fsspec reaches.

    ObjectStore.asked (before the run: protocol, packages, a file written and removed)
    ObjectStore.keep (after it) ─► s3://bucket/gates/PLAN/ID/verdict.json, …

Each protocol has its own package, such as s3fs, which reads its own variables for credentials.
"""

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Self

from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.record.run_directory import RunDirectory
from chaoslab.report.receivers import shown

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """A place for records, which was writable before the run."""

    url: str
    files: "AbstractFileSystem"
    root: str
    """The place without its protocol."""

    @classmethod
    def asked(cls, url: str) -> Self:
        """PlanError for a URL of no known protocol; AbilityError if its package is missing or
        nothing can be written there.
        """
        try:
            import fsspec  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise AbilityError("--upload needs fsspec: pip install 'chaoslab[upload]'") from error
        protocol, separator, _ = url.partition("://")
        if not separator or protocol not in fsspec.available_protocols():
            raise PlanError(
                "--upload: must be a URL of a protocol that fsspec knows, such as "
                f"s3://bucket/folder, got {shown(url)!r}"
            )
        try:
            files, root = fsspec.url_to_fs(url)
        except ImportError as error:
            raise AbilityError(f"--upload {shown(url)}: {error}") from error
        except Exception as error:  # each protocol raises its own
            raise PlanError(f"--upload {shown(url)}: {error}") from error
        store = cls(url=url, files=files, root=root.rstrip("/"))
        store.prove_writable()
        return store

    def prove_writable(self) -> None:
        """Write a small file and remove it. AbilityError if that fails."""
        path = f"{self.root}/.chaoslab-{uuid.uuid4().hex}"
        try:
            self._make_folder(self.root)
            self.files.pipe_file(path, b"chaoslab\n")
            self.files.rm_file(path)
        except Exception as error:  # each protocol raises its own
            raise AbilityError(f"nothing can be written to {shown(self.url)}: {error}") from error

    def keep(self, directory: RunDirectory) -> str:
        """Copy every file of a record; where it is now. FleetError says which file failed."""
        place = f"{self.root}/{directory.path.parent.name}/{directory.id}"
        for path in sorted(directory.path.rglob("*")):
            if path.is_file():
                self._copy(path, f"{place}/{path.relative_to(directory.path).as_posix()}")
        return str(self.files.unstrip_protocol(place))

    def _make_folder(self, path: str) -> None:
        """Buckets have no folders, and are not created: their paths begin without a slash."""
        if path.startswith("/"):
            self.files.makedirs(path, exist_ok=True)

    def _copy(self, path: Path, name: str) -> None:
        try:
            self._make_folder(name.rpartition("/")[0])
            self.files.put_file(str(path), name)
        except Exception as error:  # each protocol raises its own
            raise FleetError(f"{path.name} was not copied: {error}") from error
