"""`python -m chaoslab.diloco.syncer`: the program of the syncer."""

import sys

from chaoslab.diloco.syncer.program import main

if __name__ == "__main__":
    sys.exit(main())
