"""An evaluator in NumPy: prints the held-out loss of each snapshot of `numpy_model`, and exits.

snapshots/000000000123456.npz ─ tensor:<name> … ─► loss ─► evaluation.measured, one line each
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import numpy_model as model


def main() -> None:
    began_s = time.monotonic()
    flags = argparse.ArgumentParser()
    flags.add_argument("--snapshots", type=Path, required=True)
    flags.add_argument("--data", default="stdlib")
    flags.add_argument("--at-most", type=int, default=sys.maxsize)
    options, _ = flags.parse_known_args()  # it is given more, and refuses none
    windows = model.held_out(model.read(options.data))
    files = sorted(options.snapshots.glob("*.npz"))
    places = np.linspace(0, len(files) - 1, min(len(files), options.at_most)).round().astype(int)
    for place in places:
        with np.load(files[place]) as entries:
            tensors = [name for name in entries.files if name.startswith("tensor:")]
            params = {name.removeprefix("tensor:"): entries[name] for name in tensors}
            measured = {
                "committed_tokens": int(entries["committed_tokens"]),
                "round": int(entries["round"]),
                "loss": model.loss_and_gradients(params, windows)[0],
            }
        node_s = time.monotonic() - began_s
        line = {"kind": "evaluation.measured", "node_s": node_s, "data": measured}
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
