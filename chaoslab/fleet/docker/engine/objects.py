"""Images, networks and volumes of an engine.

Everything is found again by its name or its labels.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from types import MappingProxyType
from typing import IO, Final

from chaoslab.core.errors import FleetError
from chaoslab.fleet.docker.engine.connection import APIError, EngineConnection, Missing, labelled

_IN_MEMORY: Final = MappingProxyType(
    {"type": "tmpfs", "device": "tmpfs", "o": "mode=1777,nosuid,nodev"}
)
"""Any user of a container may write there: an image says which user that is."""


class Stores(EngineConnection):
    """Images, networks and volumes of one engine."""

    # ---------------------------------------------------------------- images

    def image_id(self, name: str) -> str | None:
        """The id of an image that is there; None if it is not."""
        with suppress(Missing), self._asked(f"for the image {name}"):
            return str(self._client.api.inspect_image(name)["Id"])
        return None

    def image_labels(self, name: str) -> Mapping[str, str]:
        """Labels of an image."""
        with self._asked(f"for the image {name}"):
            return dict(self._client.api.inspect_image(name)["Config"].get("Labels") or {})

    def image_bytes(self, name: str) -> int:
        """Size of an image, unpacked."""
        with self._asked(f"for the image {name}"):
            return int(self._client.api.inspect_image(name)["Size"])

    def pull(self, name: str) -> None:
        """Fetch an image from its registry."""
        with self._asked(f"to fetch {name}"):
            self._client.images.pull(name)

    def build(
        self,
        context: IO[bytes],
        *,
        dockerfile: str,
        name: str,
        arguments: Mapping[str, str],
        has_network: bool = False,
    ) -> Iterator[str]:
        """Build an image of a tar archive; yields what the engine prints.

        All that goes in is in the archive, unless its steps have a network.
        """
        with self._asked(f"to build {name}"):
            said = self._client.api.build(
                fileobj=context, custom_context=True, dockerfile=dockerfile, tag=name,
                buildargs=dict(arguments), rm=True, forcerm=True, decode=True,
                network_mode=None if has_network else "none",
            )  # fmt: skip
            for piece in said:
                if "error" in piece:
                    raise FleetError(f"{name} could not be built: {str(piece['error']).strip()}")
                if text := str(piece.get("stream", "")).strip():
                    yield text

    # ---------------------------------------------------------------- networks and volumes

    def create_network(self, name: str, labels: Mapping[str, str]) -> None:
        """Create a bridge network."""
        with self._asked(f"to create the network {name}"):
            self._client.api.create_network(name, driver="bridge", labels=dict(labels))

    def disconnect(self, network: str, container: str) -> None:
        """Pull the cable: open connections hear nothing of it."""
        with self._asked(f"to disconnect {container} from {network}"):
            self._client.api.disconnect_container_from_network(container, network, force=False)

    def reconnect(self, network: str, container: str, aliases: Sequence[str], address: str) -> None:
        """Plug it in again under its names, and with its old address where the engine allows it."""
        with self._asked(f"to connect {container} to {network}"):
            try:
                self._client.api.connect_container_to_network(
                    container, network, aliases=list(aliases), ipv4_address=address
                )
            except APIError as error:
                if error.status_code != HTTPStatus.BAD_REQUEST:
                    raise  # it refuses addresses in a network whose subnet it chose itself
                self._client.api.connect_container_to_network(
                    container, network, aliases=list(aliases)
                )

    def remove_network(self, name: str) -> bool:
        """Remove it; whether it was there."""
        return self._is_removed(
            f"the network {name}", lambda: self._client.api.remove_network(name)
        )

    def networks(self, labels: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
        """Every network with these labels: its labels by its name."""
        with self._asked("for its networks"):
            found = self._client.api.networks(filters=labelled(labels))
        return {str(one["Name"]): dict(one["Labels"] or {}) for one in found}

    def create_volume(
        self, name: str, labels: Mapping[str, str], *, is_in_memory: bool = False
    ) -> None:
        """A named volume; one of that name that is there is kept as it is.

        One in memory is empty whenever no container has it.
        """
        options = dict(_IN_MEMORY) if is_in_memory else None
        with self._asked(f"to create the volume {name}"):
            self._client.api.create_volume(
                name, driver="local", driver_opts=options, labels=dict(labels)
            )

    def remove_volume(self, name: str) -> bool:
        """Remove it; whether it was there."""
        return self._is_removed(
            f"the volume {name}", lambda: self._client.api.remove_volume(name, force=True)
        )

    def volumes(self, labels: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
        """Every volume with these labels: its labels by its name."""
        with self._asked("for its volumes"):
            found = self._client.api.volumes(filters=labelled(labels))["Volumes"] or []
        return {str(one["Name"]): dict(one["Labels"] or {}) for one in found}

    def _is_removed(self, what: str, remove: Callable[[], object]) -> bool:
        """Whether it was there, and now is not."""
        try:
            with self._asked(f"to remove {what}"):
                remove()
        except Missing:
            return False
        return True
