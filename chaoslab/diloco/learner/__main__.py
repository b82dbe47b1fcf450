"""`python -m chaoslab.diloco.learner`: the program of the learner."""

import sys

from chaoslab.diloco.learner.program import main

if __name__ == "__main__":
    sys.exit(main())
