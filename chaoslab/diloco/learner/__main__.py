"""`python -m chaoslab.diloco.learner`: the program of the learner."""

import gc
import sys

from chaoslab.diloco.learner.hosts.supervisor import supervised

if __name__ == "__main__" and (code := supervised()) is not None:
    sys.exit(code)

gc.disable()  # imports leave little garbage, and collecting meanwhile takes a fifth of their time

from chaoslab.diloco.learner.program import main  # noqa: E402 - see above

gc.freeze()
gc.enable()

if __name__ == "__main__":
    sys.exit(main())
