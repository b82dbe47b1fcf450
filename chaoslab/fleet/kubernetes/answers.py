"""Answers of a cluster's API server, and which errors they are.

    answer ─► json_of ─► an object
                └─► ApiError, HTTPError … ─► failed ─► Missing: there is no such object
                                                      Refused: it does not do this, or not now
                                                      FleetError: no answer of a server

Needs the packages of its client, which `cluster` asks for.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import httpx2
from httpx2.websockets import HTTPXWSException
from lightkube.core.exceptions import ApiError
from wsproto.utilities import ProtocolError

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes.refusals import Missing, Refused

_AWAY: Final = frozenset(
    {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
)
_BUSY: Final = _AWAY | {HTTPStatus.TOO_MANY_REQUESTS}
FAILURES: Final = (
    httpx2.HTTPError,  # of which lightkube's ApiError is one
    httpx2.StreamError,
    HTTPXWSException,
    ProtocolError,  # such as a command that has ended before its input was sent
    OSError,
)
"""Whatever the client raises."""


def json_of(answer: httpx2.Response) -> Mapping[str, Json]:
    """Object of an answer; an error of the client or of lightkube if it is no object."""
    try:
        if answer.is_error:
            raise ApiError(request=answer.request, response=answer)
        found = answer.json()
    except (ValueError, TypeError) as error:  # a gateway before the server, such as a login page
        answer.raise_for_status()
        raise httpx2.DecodingError("the answer is no JSON", request=answer.request) from error
    return found if isinstance(found, dict) else {}


def code_of(error: Exception) -> int | None:
    """Status code of the answer, if there was one."""
    if isinstance(error, ApiError) and error.status is not None:
        return error.status.code
    response = getattr(error, "response", None)
    return response.status_code if isinstance(response, httpx2.Response) else None


def may_pass(error: Exception) -> bool:
    """Whether the same question may be answered later."""
    code = code_of(error)
    if isinstance(error, ApiError) and error.response:
        method, reason = error.response.request.method, error.status.reason
        if (method, reason) == ("POST", "Conflict") or (method, code) == ("GET", 500):
            return True  # others use a quota, too; at changes a webhook may fail, and for good
    return code in _BUSY if code is not None else isinstance(error, httpx2.TransportError | OSError)


def failed(what: str, error: Exception) -> FleetError:
    """The error to raise where this could not be done."""
    text, code = f"cannot {what}: {str(error) or type(error).__name__}", code_of(error)
    if code == HTTPStatus.NOT_FOUND:
        return Missing(text)
    if code is None or code in _AWAY:
        return FleetError(text)
    refused = Refused(text)
    refused.may_pass = may_pass(error)
    return refused


@contextmanager
def said(what: str) -> Iterator[None]:
    """Whatever the client raises as FleetError or Missing."""
    try:
        yield
    except FAILURES as error:
        raise failed(what, error) from error
