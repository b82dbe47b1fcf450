"""Program of a node that a system of others trains, in the environment of that system.

`ENV/bin/python -m chaoslab.systems.node torchft learner FLAGS`, or `syncer`; the flags are those of
chaoslab's own programs.
"""

import sys
from collections.abc import Sequence

from chaoslab.systems.recorder import adapter


def main(arguments: Sequence[str]) -> int:
    """Run it; the exit code."""
    name, role, *flags = arguments
    system = adapter(name)
    if role == "syncer":
        from chaoslab.systems import recorder  # noqa: PLC0415 - needs none of a learner's imports

        return recorder.main(system, flags)
    from chaoslab.systems.learner import Learner  # noqa: PLC0415 - nor the other way round

    return Learner(flags).run(system.train)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
