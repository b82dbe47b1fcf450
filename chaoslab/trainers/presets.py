"""Presets: what known trainers print, and a guess at which of them printed some lines.

    preset("hf-trainer").patterns()        for `training.script.preset`
    guess(lines) ─► presets that read them, then a pattern made from their words: best first

Each preset names the file and version that its patterns were checked against. Tests run them on
lines built from the formats in these files, and on the output of the versions that were recorded.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise, product
from typing import Final

from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import LineKind
from chaoslab.trainers.reading import CURSOR_UP, OWN_LINES, Patterns, Reader, TrainerLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Patterns of one trainer."""

    name: str
    trainer: str
    progress: str
    saved: str | None = None
    """Pattern of a saved checkpoint; None: nothing is printed after one is complete."""
    resumed: str | None = None
    checkpoints: str = ""
    """Pattern of the file of a checkpoint that is written last, within the folder of all of them;
    the number of its path that is nearest to the worker's step is its step."""
    lacks: str
    """Facts that its lines lack, and what to do about it."""
    checked: str
    """File and version with the formats."""
    is_generic: bool = False
    """Whether other programs print such lines too; `guess` prefers what reads more of them."""
    recorded: str = ""
    """Version whose output, of a killed and resumed run, is read in a test."""

    def patterns(self) -> Patterns:
        """Its compiled patterns."""
        return Patterns.of(progress=self.progress, saved=self.saved, resumed=self.resumed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to read some lines."""

    preset: str
    """Name of the preset; empty if `patterns` are made from the words of the lines."""
    patterns: Patterns
    said: tuple[TrainerLine, ...]
    """Matches of the lines, in their order."""


def preset(name: str) -> Preset:
    """The preset of a plan; PlanError with the nearest name if there is none."""
    for one in PRESETS:
        if one.name == name:
            return one
    names = [one.name for one in PRESETS]
    near = get_close_matches(name, names, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise PlanError(f"unknown preset {name!r}: {meant}Presets are {', '.join(names)}", key="preset")


# ---------------------------------------------------------------- a sample of output

_N = r"[\d.eE+-]+"
_STEP_WORDS = ("global[_ ]?step", "step", "iteration", "iter", "update", "batch")
_LOSS_WORDS = (r"(?:train(?:ing)?[_/ ])?loss", r"[\w/]*loss[\w/]*")
_VERB = r"\b(?:saved|wrote|written|stored|dumped|exported|persisted)\b"
_NO_SAVE = (
    r"saving|writing|will|be|not|never|fail\w*|error|cannot|could|unable|skip\w*|remov\w*|delet\w*"
)
_OTHER_FILE = r"\d|\.(?:png|jpe?g|gif|svg|pdf|html|txt|log|csv|tsv|jsonl?|ya?ml|mp4|wav)\b"
_NAME = (
    r"(?<![a-z])(?:checkpoint|ckpt|snapshot|model|state|weights|(?:global_?)?step|iter(?:ation)?)"
    rf"s?[-_=.]{{0,2}}(?P<step>\d+)(?!{_OTHER_FILE})"
)
"""Name of a file or a folder, with the step of what is in it."""
_WORD = rf"\b(?:step|iteration|iter|checkpoint|ckpt)[-_ =:#]*(?P<step>\d+)(?!{_OTHER_FILE})"
_WHOLE = r"\b(?:checkpoint|snapshot)"
_SAVED = tuple(
    rf"(?i)^(?!.*\b(?:{_NO_SAVE})\b).*?{said}"
    for said in (
        rf"{_VERB}.*?{_WORD}",
        rf"{_VERB}.*?{_NAME}",
        rf"{_NAME}.*?{_VERB}",
        rf"(?:\bsaved (?:\w+ )?{_WHOLE}|{_WHOLE} (?:was )?(?:saved|written))\b",
    )
)
"""Lines about something that is saved, not about what is to be or was not. A number counts as its
step if it is near those that were reported by then."""
_REPORTED = re.compile(rf"(?i)\b(?:{'|'.join(_STEP_WORDS)})s?\b[ =:\[(#]*(\d+)|\b(\d+)/\d+\b")
_RECENT = 64
"""Reports by then, of all workers that print to one file."""
_RESUMED = (
    r"(?i)\b(?:resum(?:ed|ing)|restored|continuing)\b.*?"
    r"\b(?:step|iteration|iter)[-_ =:#]*(?P<step>\d+)"
)


def guess(lines: Sequence[str]) -> list[Candidate]:
    """Programs that may have printed these lines, best first; empty if no line is progress.

    First come presets whose lines no other program prints, then what understood most steps with a
    loss, then most steps, most losses. Of equal ones a preset comes before a pattern of words.
    """
    found = [*_presets_that_read(lines), *_made_from_words(lines)]
    return sorted(found, key=_understood, reverse=True)


def _understood(candidate: Candidate) -> tuple[bool, int, int, int, int]:
    progress = [said for said in candidate.said if said.what is LineKind.PROGRESS]
    steps = {said.step for said in progress if said.step is not None}
    with_loss = {said.step for said in progress if said.loss is not None} & steps
    losses = sum(said.loss is not None for said in progress)
    is_certain = bool(candidate.preset) and not preset(candidate.preset).is_generic
    return is_certain, len(with_loss), len(steps), losses, len(candidate.said)


def _presets_that_read(lines: Sequence[str]) -> Iterator[Candidate]:
    for one in PRESETS:
        if found := _candidate(one.patterns(), lines, preset=one.name):
            yield found


def _made_from_words(lines: Sequence[str]) -> Iterator[Candidate]:
    saved = next((pattern for pattern in _SAVED if _is_of_steps(pattern, lines)), None)
    resumed = _RESUMED if _matches(_RESUMED, lines) else None
    steps = [rf"\b{word}s?\b[ =:\[(#]*(?P<step>\d+)" for word in _STEP_WORDS]
    losses = [rf"\b{word}[ =:]+(?P<loss>{_N})" for word in _LOSS_WORDS]
    together = [f"{one}.*?{other}" for one, other in product(steps, losses)]
    turned = [f"{other}.*?{one}" for one, other in product(steps, losses)]
    for pattern in [*together, *turned, *steps, *losses]:
        patterns = Patterns.of(progress=f"(?i){pattern}", saved=saved, resumed=resumed)
        if found := _candidate(patterns, lines):
            yield found


def _is_of_steps(pattern: str, lines: Sequence[str]) -> bool:
    """Whether lines match, each with the step of a report before it, give or take one report, if
    the pattern and the lines have steps.
    """
    reported, found = list[int](), list[tuple[int, int]]()
    for line in lines:
        if match := re.search(pattern, line):
            found.append((len(reported), int(match.groupdict().get("step") or -1)))
        elif report := _REPORTED.search(line):
            reported.append(int(report[1] or report[2]))
    between = Counter(after - before for before, after in pairwise(reported) if after > before)
    stride = max(between, key=lambda steps: between[steps], default=1)
    return bool(found) and all(
        step < 0
        or any(abs(step - one) <= stride for one in reported[max(0, at - _RECENT) : at + 1])
        for at, step in found
        if reported
    )


def _matches(pattern: str, lines: Sequence[str]) -> bool:
    return any(re.search(pattern, line) for line in lines)


def _candidate(patterns: Patterns, lines: Sequence[str], preset: str = "") -> Candidate | None:
    reader = Reader(patterns)
    said = [*reader.feed("".join(f"{line}\n" for line in lines).encode()), *reader.end()]
    if all(one.what is not LineKind.PROGRESS for one in said):
        return None
    return Candidate(preset=preset, patterns=patterns, said=tuple(said))


# ---------------------------------------------------------------- the table

_BAR = rf"^\s*\d+%\|[^|]*\| *(?P<step>[1-9]\d*)/\d+ \[[^{CURSOR_UP}]*$"
"""A tqdm bar without description, and not below another one, as an evaluation's is. At 0 it says
nothing: it begins so after a resume as well."""
_HF_PROGRESS = rf"\{{'loss': '?(?P<loss>{_N})'?(?:.*?'learning_rate': '?(?P<lr>{_N}))?|{_BAR}"
_HF_RESUMED = (
    r"(?:Resuming training from checkpoint with epoch \d+ and|Continuing training from) "
    r"global step (?P<step>\d+)"
)
_HF_CHECKPOINTS = "**/checkpoint-*/trainer_state.json"
_HF_LACKS = (
    "a saved line. Steps are read from the bar, losses from the dictionaries; `resumed` needs "
    "`log_level: info`"
)

PRESETS: Final = (
    Preset(
        name="chaoslab",
        trainer="a program that prints the lines of chaoslab itself",
        progress=OWN_LINES.progress.pattern,
        saved=OWN_LINES.saved.pattern if OWN_LINES.saved else None,
        resumed=OWN_LINES.resumed.pattern if OWN_LINES.resumed else None,
        lacks="nothing",
        checked="chaoslab/trainers/reading.py",
        recorded="any version",
    ),
    Preset(
        name="torchtitan",
        trainer="torchtitan",
        progress=rf"(?<!validate )\bstep: *(?P<step>\d+) +loss: *(?P<loss>{_N})",
        saved=r"(?:Finished saving the checkpoint|Last step checkpoint completed) in ",
        resumed=r"Loading the checkpoint from .*step-(?P<step>\d+)\.",
        lacks="the step of a saved checkpoint; with `async_mode` a saved line (staging is not "
        "saving). Checkpoints are off by default",
        checked="torchtitan/components/metrics.py, checkpointer/dcp.py at b5bcd76c6",
    ),
    Preset(
        name="ddp-tutorial",
        trainer="torchrun with DDP: pytorch/examples, ddp-tutorial-series",
        progress=r"\[GPU(?P<rank>\d+)\] Epoch (?P<epoch>\d+) \| Batchsize: \d+ "
        r"\| Steps: (?P<steps_per_epoch>\d+)",
        saved=r"Training (?:snapshot|checkpoint) saved at ",
        resumed=r"Resuming training from snapshot at Epoch \d+",
        lacks="a loss, steps within an epoch, and the step of a checkpoint",
        checked="distributed/ddp-tutorial-series/multigpu_torchrun.py at 77f55b9",
    ),
    Preset(
        name="mingpt-ddp",
        trainer="torchrun with DDP: pytorch/examples, minGPT-ddp",
        progress=rf"\[RANK(?P<rank>\d+)\] Epoch \d+ \| Iter \d+ \| Train Loss (?P<loss>{_N})",
        saved=r"Snapshot saved at epoch \d+",
        resumed=r"Resuming training from snapshot at Epoch \d+",
        lacks="steps: its iterations begin anew in each epoch, whose length it does not print",
        checked="distributed/minGPT-ddp/mingpt/trainer.py at 77f55b9",
    ),
    Preset(
        name="lightning",
        trainer="Lightning, with its tqdm bar",
        progress=r"\bEpoch (?P<epoch>\d+): +\d+%\|[^|]*\| *(?P<step>\d+)/(?P<steps_per_epoch>\d+) "
        rf"\[(?:.*?loss(?:_step)?=(?P<second_loss>{_N}))?",
        resumed=r"Restored all states from the checkpoint at (?:.*step=(?P<step>\d+))?",
        checkpoints="**/*step=*.ckpt",
        lacks="a saved line; the loss unless it is logged with `prog_bar=True`; optimizer steps "
        "with `accumulate_grad_batches`: batches are counted. The dataloader needs a length. After "
        "a resume within an epoch the bar has neither epoch nor length, and nothing is read until "
        "the next one: read the table of CSVLogger instead (`from: {csv: …}`). Where rich is "
        "installed Lightning draws another bar, which prints nothing to a file: pass "
        "`TQDMProgressBar()`",
        is_generic=True,
        checked="src/lightning/pytorch/callbacks/progress/tqdm_progress.py at 7f0c3436cd",
        recorded="Lightning 2.6.6",
    ),
    Preset(
        name="hf-trainer",
        trainer="Hugging Face Trainer",
        progress=_HF_PROGRESS,
        resumed=_HF_RESUMED,
        checkpoints=_HF_CHECKPOINTS,
        lacks=_HF_LACKS,
        is_generic=True,
        checked="transformers/trainer_callback.py, trainer.py of transformers 5.24.0",
        recorded="Transformers 5.24.0",
    ),
    Preset(
        name="accelerate",
        trainer="Accelerate, with a tqdm bar over all steps",
        progress=_BAR,
        resumed=r"(?:Loading states from|Resumed from checkpoint:) .*step_(?P<step>\d+)",
        lacks="a saved line, and a loss: Accelerate prints no progress, its examples show the bar",
        is_generic=True,
        checked="examples/by_feature/deepspeed_with_config_support.py, "
        "src/accelerate/accelerator.py at 16cb6eb8",
    ),
    Preset(
        name="axolotl",
        trainer="axolotl",
        progress=_HF_PROGRESS,
        resumed=_HF_RESUMED,
        checkpoints=_HF_CHECKPOINTS,
        lacks=_HF_LACKS,
        is_generic=True,
        checked="src/axolotl/core/trainers/base.py of 0.18.0, at 067b021c8",
    ),
    Preset(
        name="megatron",
        trainer="Megatron-LM",
        progress=rf"\biteration +(?P<step>\d+)/ *\d+ \|(?:.*? learning rate: (?P<lr>{_N}) \|)?"
        rf"(?:.*? lm loss: (?P<loss>{_N}) \|)?",
        saved=r"successfully saved checkpoint from iteration +(?P<step>\d+) to ",
        resumed=r"successfully loaded checkpoint from .* at iteration (?P<step>\d+)",
        lacks="a loss that is nan or negative, which is left out of the line",
        checked="megatron/training/training.py, checkpointing.py at d98e8a64dd",
    ),
    Preset(
        name="nemo",
        trainer="NeMo 2, LLM collection",
        progress=rf"\bTraining epoch \d+, iteration \d+/\d+ \|(?:.*?\blr: (?P<lr>{_N}))?"
        rf"(?:.*?\bglobal_step: (?P<step>\d+))?"
        rf"(?:.*?\b(?:reduced_)?train_loss(?:_step)?: (?P<loss>{_N}))?",
        saved=r"[Ss]uccessfully saved checkpoint from iteration +(?P<step>\d+) to ",
        lacks="a resumed line; a saved line unless saves are asynchronous",
        checked="nemo/lightning/pytorch/callbacks/progress_printer.py, io/pl.py at 8cfedd7203",
    ),
    Preset(
        name="maxtext",
        trainer="MaxText",
        progress=r"\bcompleted (?:profiler activation/deactivation )?step: (?P<step>\d+),"
        rf"(?:.*?, loss: (?P<loss>{_N}))?",
        saved=r"Saved a checkpoint at step (?P<step>\d+)\.",
        resumed=r"restoring from this run's directory step (?P<step>\d+)",
        lacks="a saved line with `async_checkpointing`, its default",
        checked="src/maxtext/common/metric_logger.py, checkpointing.py at e591f30cb",
    ),
    Preset(
        name="levanter",
        trainer="Levanter, with the tracker json_logger",
        progress=r'(?:"event": "log", "step": (?P<step>\d+), .*?"train/loss": '
        rf"|Progress on:train .*postfix:loss=)(?P<loss>{_N})",
        saved=r"Saved checkpoint to \S+ for step (?P<step>\d+)",
        resumed=r"Resuming training from step (?P<step>\d+)",
        lacks="steps without json_logger: the other line comes once a minute, with rounded steps",
        checked="src/levanter/tracker/json_logger.py, checkpoint.py, main/train_lm.py at 9263f81e",
    ),
    Preset(
        name="deepspeed",
        trainer="DeepSpeed, with `steps_per_print`",
        progress=rf"\bsteps?[=:] ?(?P<step>\d+)(?: loss: (?P<loss>{_N}) iter time"
        rf"|, skipped=\d+, lr=\[(?P<lr>{_N}))",
        lacks="saved and resumed lines; a loss unless it is a pipeline",
        checked="deepspeed/runtime/engine.py, pipe/engine.py of 0.19.6, at edaa72212",
    ),
    Preset(
        name="torchft",
        trainer="torchft's examples",
        progress=r"\[(?:[^\[\]]*/\d+ - step )?(?P<step>\d+)\] "
        rf"(?:loss = (?P<loss>{_N})|should_commit=True)",
        resumed=r"healing required, fetching checkpoint metadata from .*max_step=(?P<step>\d+)",
        lacks="checkpoints, which it does not save: a restarted replica heals from its peers. "
        "Losses come every 100 steps, the other lines need logging at INFO",
        checked="train_ddp.py, torchft/manager.py at 73dafea",
    ),
    Preset(
        name="composer",
        trainer="Composer, with `log_to_console=True`",
        progress=r"\[(?:epoch=(?P<epoch_from_1>\d+)\]\[)?batch=(?P<step>\d+)"
        rf"(?:/(?P<steps_per_epoch>\d+))?\]|\bTrain loss/train/total: (?P<loss>{_N})",
        resumed=r"Trainer checkpoint loaded from (?:.*-ba(?P<step>\d+))?",
        lacks="a saved line; `resumed` needs logging at INFO, and its step is in the name of the "
        "checkpoint, which with `autoresume` is `latest`; a loss stands in a line of its own, "
        "without a step, and is told with the step after it",
        checked="composer/loggers/console_logger.py at 640518880",
        recorded="Composer 0.32.1",
    ),
    Preset(
        name="nanogpt",
        trainer="nanoGPT",
        progress=rf"\biter (?P<step>\d+): loss (?P<loss>{_N})",
        resumed=r"Resuming training from ",
        lacks="a saved line (`saving checkpoint to` comes before), the step that it resumes from",
        checked="train.py at 3adf61e1",
    ),
    Preset(
        name="nanochat",
        trainer="nanochat",
        progress=rf"\bstep (?P<step>\d+)/\d+ \([\d.]+%\) \| loss: (?P<loss>{_N})",
        saved=r"Saved optimizer state to: .*optim_(?P<step>\d+)_rank0\.pt",
        resumed=r"Resuming optimization from step (?P<step>\d+)",
        lacks="whether other ranks saved their part of the optimizer",
        checked="scripts/base_train.py, nanochat/checkpoint_manager.py at 92d63d4",
    ),
)
"""Presets in the order in which they are shown, and preferred if several read the same lines."""
CHECKPOINT_FILES: Final = frozenset(one.checkpoints for one in PRESETS if one.checkpoints)
"""Patterns of the files that presets know."""
