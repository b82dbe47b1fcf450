"""The trainer of `selftest.mutants` for `python -c`; it goes on where it cannot save."""

from pathlib import Path

from chaoslab.selftest.mutants import trainer

_SAVES = "            partial.write_text(json.dumps(state))\n"
_TRIES = f"            try:\n    {_SAVES}            except OSError:\n                continue\n"
SOURCE = Path(trainer.__file__).read_text(encoding="utf-8").replace(_SAVES, _TRIES)
assert _TRIES in SOURCE
