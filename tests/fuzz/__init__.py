"""Fuzzing by seeds: each module named in `TARGETS` feeds one parser or protocol with bad input.

    TARGETS ─► module.one(seed) ─► returns: refused or accepted in order    raises: a defect

A target has `one(seed: int) -> None`. It draws everything from `random.Random(seed)`, so a failure
is repeated by its seed alone. It may also have `SECONDS_MAX`, the CPU time of one seed.
"""

TARGETS: tuple[str, ...] = ("journals", "plan_files", "proxy_api", "syncer_messages")
"""Modules of this package, one for each thing that is fuzzed. To add one: a module and its name."""
