"""Choice between Jobs of JobSets and pods for a plan's nodes, by the plan and by the cluster.

    fleet.heal, fleet.job_set, learners ──────┐
    the server: has it JobSets, do they start ├─► "" or why not ─┬─ auto ──► plain Jobs
    Jobs again alone, may this user make them ┘                  └─ always ► AbilityError

A JobSet starts a Job that failed again at once, or all of its Jobs, or none and is over. So it can
only be used where the cluster heals, and only with the failure policy that restarts one Job alone:
what restarts all would take away learners that no fault has hit. The server is asked to check such
a JobSet, because it depends on the release of the controller and on its feature gate `RestartJob`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from chaoslab.core.errors import AbilityError

if TYPE_CHECKING:
    from chaoslab.fleet.kubernetes.cluster import Cluster

_NODES_MOST: Final = 200
"""Most nodes of a JobSet, which is one object of at most 1.5 MB: each takes 5.6 kB of it."""


class JobSetUse(StrEnum):
    """Whether syncer and learners are to be the Jobs of a JobSet."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetChoice:
    """Settings of a plan by which the cluster heals."""

    use: JobSetUse
    exclusive_topology: str = ""
    learners: int = 0
    """All that may run."""

    def made(self, cluster: "Cluster") -> str:
        """Why there are no JobSets; empty: there are.

        AbilityError if there are none and the plan asks for what only they can do.
        """
        why_not = next(self._objections(cluster), "")
        if why_not and self.use is JobSetUse.ALWAYS:
            raise AbilityError(
                f"the nodes cannot be Jobs of a JobSet: {why_not}", key="fleet.job_set"
            )
        if why_not and self.exclusive_topology:
            raise AbilityError(
                f"machines of one's own need a JobSet, and there is none: {why_not}",
                key="fleet.exclusive_topology",
            )
        return why_not

    def _objections(self, cluster: "Cluster") -> Iterator[str]:
        from chaoslab.fleet.kubernetes.job_sets import trial  # noqa: PLC0415
        from chaoslab.fleet.kubernetes.refusals import Refused  # noqa: PLC0415  # lightkube
        from chaoslab.fleet.kubernetes.resources import JOB_SETS  # noqa: PLC0415
        from chaoslab.fleet.kubernetes.rights import JOB_SET_RIGHTS, lacking  # noqa: PLC0415

        if self.use is JobSetUse.NEVER:
            yield "the plan says fleet.job_set: never"
            return
        if self.learners > _NODES_MOST:
            yield f"{self.learners} learners are too many for one JobSet: at most {_NODES_MOST}"
        if not cluster.serves(JOB_SETS):
            yield "the cluster has none (no CRD jobsets.jobset.x-k8s.io)"
            return
        if missing := lacking(cluster, JOB_SET_RIGHTS):
            yield (
                f"you may not {', '.join(missing)} (`chaoslab doctor rights kubernetes` prints the "
                "Role that is needed)"
            )
            return
        try:
            cluster.create(trial(), is_trial=True)
        except Refused as error:
            yield (
                f"the server takes none that starts a Job again alone ({error}); that needs JobSet "
                "0.12 or newer whose controller runs, with its feature gate RestartJob"
            )
