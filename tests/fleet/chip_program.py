"""A node that takes its chip as a learner does, and then steps as `node_program` does.

python chip_program.py DIRECTORY [flags of node_program]
"""

import sys
from pathlib import Path

from chaoslab.diloco.node.chip import EXIT_CODE, ChipInUse, take
from tests.contracts import node_program

if __name__ == "__main__":
    try:
        take(Path(sys.argv[1]))
    except ChipInUse as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(EXIT_CODE)
    sys.argv[1:] = sys.argv[2:]
    node_program.main()
