"""The learner and the evaluator in NumPy of `docs/examples`, in a real run with kills."""

import os
import re
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from tests.whole_runs import ROOT, passed

EXAMPLES = ROOT / "docs" / "examples"


def test_of_chaoslab_they_import_the_messages_alone() -> None:
    sources = [file.read_text() for file in EXAMPLES.glob("numpy_*.py")]
    imports = re.findall(r"^ *(?:from|import) chaoslab.*$", "\n".join(sources), re.MULTILINE)
    assert len(sources) == 4
    assert [line.split("#")[0].strip() for line in imports] == [
        "from chaoslab.diloco.wire import wire_pb2 as pb"
    ]


@pytest.mark.deep
@pytest.mark.alone
def test_learners_in_numpy_survive_kills_of_one_of_them_and_of_the_syncer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{EXAMPLES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    ran = passed((EXAMPLES / "numpy_run.yaml").read_text(), tmp_path)
    history = ran.history
    assert ran.statuses == ["proved", "proved"]
    joined = [e.payload for e in history.of(Kind.LEARNER_JOINED)]
    assert next(one.source for one in joined if one.incarnation == 2) in ("donor", "syncer")
    assert "resumed" in {one.source for one in joined}, "the others dialled the syncer again"
    losses = [e.payload.loss for e in history.of(Kind.EVALUATION_MEASURED)]
    assert losses[-1] < losses[0], "they learn"
