"""The command `chaoslab` with a live page whose server dies when a file appears.

python -m tests.gameday.live.crashing FILE gameday PLAN --serve 0 …
"""

import asyncio
import runpy
import sys
from pathlib import Path

from chaoslab.gameday.live.stream import Stream


def main() -> None:
    """Run the command; the file is removed with the server."""
    name, *words = sys.argv[1:]
    pump = Stream.pump

    async def crashing(stream: Stream) -> None:
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(_stop_loop_at(Path(name)))
            await pump(stream)
            watch.cancel()

    Stream.pump = crashing  # type: ignore[method-assign]
    sys.argv[1:] = words
    runpy.run_module("chaoslab", run_name="__main__", alter_sys=True)


async def _stop_loop_at(file: Path) -> None:
    while not file.exists():
        await asyncio.sleep(0.02)
    file.unlink()
    asyncio.get_running_loop().stop()


if __name__ == "__main__":
    main()
