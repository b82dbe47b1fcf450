"""A learner of chaoslab's own, as a worker of a script: `own_learner.py FOLDER NAME PROGRAM FLAG…`

PROGRAM is the learner's, or `MODULE MUTANT`. Counts its lives in the folder: mutants go by
`--incarnation`.
"""

import os
import sys
from pathlib import Path

folder, name = Path(sys.argv[1]) / sys.argv[2], sys.argv[2]
folder.mkdir(parents=True, exist_ok=True)
with (folder / "lives").open("a") as lives:
    lives.write("\n")
    incarnation = lives.tell()
flags = ["--name", name, "--directory", str(folder), "--incarnation", str(incarnation)]
os.environ["NPROC"] = "1"
os.execv(sys.executable, [sys.executable, "-m", *sys.argv[3].split(), *flags, *sys.argv[4:]])
