"""Refusals of a cluster's API server, as errors. Needs none of its client's packages."""

from chaoslab.core.errors import FleetError


class Refused(FleetError):
    """The server answered that it does not do this."""

    broke_off = False
    """Whether it was asked before, without an answer, and may have done it then."""
    may_pass = False
    """Whether it is for now, as of a server that is busy."""


class Missing(Refused):
    """No such object."""
