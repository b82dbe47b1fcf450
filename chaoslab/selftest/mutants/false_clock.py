"""A learner, a survivor, whose step times are a fifth of what they are."""

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.learner import program
from chaoslab.diloco.learner.program import Learner
from chaoslab.selftest.mutants import OTHER_VICTIM, Mutant, Part, flag

_SHARE = 0.2


class FalseClock(Learner):
    """Makes its steps as fast as it can, and says that it is faster."""

    def _say(self, kind: Kind, **data: Json) -> None:
        step_s = data.get("step_s")
        if isinstance(step_s, float) and flag("--name") == OTHER_VICTIM:
            data["step_s"] = _SHARE * step_s
        super()._say(kind, **data)


MUTANT = Mutant(program=program, parts=(Part(module=program, name="Learner", wrong=FalseClock),))

if __name__ == "__main__":
    MUTANT.start()
