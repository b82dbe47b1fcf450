"""Presets: the lines of each trainer, built from the formats in its source, and the guess at them.

Where a format stands is named in `Preset.checked`. In `recorded/` is the output of the trainings in
`packages/`, cut and without paths: of a process that was killed, and of the next one. They logged
at INFO and saved every 5 steps, Lightning with `TQDMProgressBar`.
"""

from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import LineKind
from chaoslab.trainers.presets import PRESETS, guess, preset
from chaoslab.trainers.reading import Reader

PROGRESS, SAVED, RESUMED = LineKind.PROGRESS, LineKind.SAVED, LineKind.RESUMED

TITAN = "[rank0]:[titan] 2026-08-21 10:00:00,123 - root - INFO - "
HF_LOGS = {"loss": "2.31", "grad_norm": "1.5", "learning_rate": "5e-05", "epoch": "0.4"}
MEGATRON = " [2026-08-22 10:00:00.000001] iteration {:8d}/{:8d} | consumed samples: {:12d} |"

LINES: dict[str, list[tuple[str, tuple[LineKind, int | None, float | None] | None]]] = {
    "chaoslab": [
        ("chaoslab: step=12 loss=3.25", (PROGRESS, 12, 3.25)),
        ("chaoslab: saved step=12", (SAVED, 12, None)),
        ("chaoslab: resumed step=12", (RESUMED, 12, None)),
    ],
    "torchtitan": [
        (
            (
                f"{TITAN}\x1b[31mstep:  1  \x1b[32mloss: {8.1345:8.5f}  \x1b[38;2;9;9;0mgrad_norm: "
                f"{1.5:7.4f}  \x1b[36mmemory: {0.51:5.2f}GiB(0.64%)  \x1b[34mtps: {7123:,}\x1b[0m"
            ),
            (PROGRESS, 1, 8.1345),
        ),
        (f"{TITAN}step: {1234:2}  loss: {float('inf'):8.5f}  grad", (PROGRESS, 1234, float("inf"))),
        (f"{TITAN}validate step: {1234:2}  loss: {3.5:7.4f}", None),
        (f"{TITAN}Staging the checkpoint.", None),
        (f"{TITAN}Finished staging the checkpoint in 0.10 seconds.", None),
        (f"{TITAN}Finished saving the checkpoint in 1.20 seconds.", (SAVED, None, None)),
        (f"{TITAN}Last step checkpoint completed in 1.20s", (SAVED, None, None)),
        (f"{TITAN}Loading the checkpoint from out/checkpoint/step-50.", (RESUMED, 50, None)),
        (f"{TITAN}Finished loading the checkpoint in 0.10 seconds.", None),
        (f"{TITAN}Training starts at step 51", None),
    ],
    "ddp-tutorial": [
        ("[GPU0] Epoch 2 | Batchsize: 32 | Steps: 64", (PROGRESS, 128, None)),
        ("Epoch 2 | Training snapshot saved at snapshot.pt", (SAVED, None, None)),
        ("Resuming training from snapshot at Epoch 2", (RESUMED, None, None)),
    ],
    "mingpt-ddp": [
        ("[RANK1] Epoch 1 | Iter 100 | Train Loss 2.31000", (PROGRESS, None, 2.31)),
        ("[RANK1] Epoch 1 | Iter 0 | Eval Loss 2.31000", None),
        ("Snapshot saved at epoch 3", (SAVED, None, None)),
        ("Resuming training from snapshot at Epoch 3", (RESUMED, None, None)),
        ("Snapshot not found. Training model from scratch", None),
    ],
    "lightning": [
        ("Sanity Checking DataLoader 0: 100%|###| 2/2 [00:00<00:00, 90.1it/s]", None),
        ("Epoch 0:   0%|          | 0/32 [00:00<?, ?it/s]", (PROGRESS, 0, None)),
        (
            "Epoch 1:  31%|███       | 10/32 [00:00<00:01, 20.0it/s, v_num=0, train_loss=2.310]",
            (PROGRESS, 42, None),  # a line like this follows, with its own loss
        ),
        ("Validation DataLoader 0:  50%|#####     | 1/2 [00:00<00:00, 90.1it/s]", None),
        (
            "Restored all states from the checkpoint at logs/checkpoints/epoch=1-step=64.ckpt",
            (RESUMED, 64, None),
        ),
        ("Restored all states from the checkpoint at last.ckpt", (RESUMED, None, None)),
        ("Restoring states from the checkpoint path at last.ckpt", None),
    ],
    "hf-trainer": [
        ("Loading weights: 100%|##########| 12/12 [00:00<00:00, 900.0it/s]", None),
        (" 40%|████      | 20/50 [00:10<00:15,  2.00it/s]", (PROGRESS, 20, None)),
        (" 25%|##5       | 1/4 [00:00<00:00,  9.00it/s] \x1b[A", None),
        (str(HF_LOGS), (PROGRESS, None, 2.31)),
        (str({"loss": 2.31, "learning_rate": 5e-05, "epoch": 0.4}), (PROGRESS, None, 2.31)),
        (str({"loss": "nan", "grad_norm": "nan"}), (PROGRESS, None, float("nan"))),
        (str({"eval_loss": "2.4", "eval_runtime": "1.2"}), None),
        (str({"train_runtime": "12.5", "train_loss": "2.4"}), None),
        ("Saving model checkpoint to out/checkpoint-20", None),
        (
            "  Resuming training from checkpoint with epoch 1 and global step 20",
            (RESUMED, 20, None),
        ),
        ("  Continuing training from global step 20", (RESUMED, 20, None)),
    ],
    "accelerate": [
        (" 40%|████      | 20/50 [00:10<00:15,  2.00it/s]", (PROGRESS, 20, None)),
        ("INFO:accelerate.accelerator:Saving current state to out/step_20", None),
        ("INFO:accelerate.accelerator:Loading states from out/step_20", (RESUMED, 20, None)),
    ],
    "axolotl": [
        (
            str({**HF_LOGS, "ppl": "10.07", "memory/max_active (GiB)": "1.2"}),
            (PROGRESS, None, 2.31),
        ),
        (" 40%|████      | 20/50 [00:10<00:15,  2.00it/s]", (PROGRESS, 20, None)),
    ],
    "megatron": [
        (
            MEGATRON.format(20, 100, 640)
            + f" elapsed time per iteration (ms): 12.3 | learning rate: {1.5e-4:.6E} | global batch"
            f" size: {32:5d} | lm loss: {2.5:.6E} | loss scale: 1.0 | grad norm: 0.231 |",
            (PROGRESS, 20, 2.5),
        ),
        (
            MEGATRON.format(21, 100, 672) + " global batch size:    32 | loss scale: 1.0 |",
            (PROGRESS, 21, None),
        ),
        ("  [2026-08-22] scheduled an async checkpoint save at iteration      20 to out", None),
        (
            "  [2026-08-22] successfully saved checkpoint from iteration      20 to out [ t 1/1 ]",
            (SAVED, 20, None),
        ),
        (
            "  successfully loaded checkpoint from out [ t 1/1, p 1/1 ] at iteration 20",
            (RESUMED, 20, None),
        ),
    ],
    "nemo": [
        (
            (
                "Training epoch 0, iteration 19/99 | lr: 3e-05 | global_batch_size: 32 | "
                "global_step: 19 | reduced_train_loss: 7.319 | val_loss: 4.106"
            ),
            (PROGRESS, 19, 7.319),
        ),
        ("Validation: iteration 1/2", None),
        (
            "Successfully saved checkpoint from iteration      20 to out/step=20.ckpt",
            (SAVED, 20, None),
        ),
    ],
    "maxtext": [
        (
            (
                "completed step: 12, seconds: 0.512, TFLOP/s/device: 1.2, Tokens/s/device: 512.0, "
                "total_weights: 4096, loss: 3.250, lm_loss: 3.250, perplexity: 25.790"
            ),
            (PROGRESS, 12, 3.25),
        ),
        (
            "completed profiler activation/deactivation step: 5, total_weights: 4096, loss: 3.250",
            (PROGRESS, 5, 3.25),
        ),
        ("Completed eval after train step 12, loss=3.250, perplexity=25.790", None),
        ("Started an asynchronous checkpoint save for step 12", None),
        ("Saved a checkpoint at step 12.", (SAVED, 12, None)),
        ("restoring from this run's directory step 12", (RESUMED, 12, None)),
    ],
    "levanter": [
        (
            (
                'INFO:levanter.json_logger:{"tracker": "json_logger", "event": "log", "step": 12, '
                '"metrics": {"train/loss": 3.25, "global_step": 12}}'
            ),
            (PROGRESS, 12, 3.25),
        ),
        (
            (
                "Progress on:train 1.23kit/2.00kit rate:2.0it/s remaining:06:25 elapsed:10:15 "
                "postfix:loss=3.25"
            ),
            (PROGRESS, None, 3.25),
        ),
        ("Saving checkpoint to out/step-12 for step 12", None),
        ("Saved checkpoint to out/step-12 for step 12", (SAVED, 12, None)),
        ("Resuming training from step 12", (RESUMED, 12, None)),
    ],
    "deepspeed": [
        (
            (
                "[2026-08-22 10:00:00,000] [INFO] [logging.py:112:log_dist] [Rank 0] step=10, "
                "skipped=0, lr=[0.001], mom=[(0.9, 0.999)]"
            ),
            (PROGRESS, 10, None),
        ),
        (
            "steps: 10 loss: 2.3100 iter time (s): 0.512 samples/sec: 62.500",
            (PROGRESS, 10, 2.31),
        ),
        ("[Rank 0] [Torch] Checkpoint global_step10 is about to be saved!", None),
        ("[Rank 0] Saving model checkpoint: out/mp_rank_00_model_states.pt", None),
    ],
    "torchft": [
        ("[100] loss = 2.31", (PROGRESS, 100, 2.31)),
        (
            (
                "INFO:torchft.manager:[train_ddp_0:8f1e/0 - step 99] should_commit=True "
                "enough_replicas=True, errored=None"
            ),
            (PROGRESS, 99, None),
        ),
        ("[train_ddp_0:8f1e/0 - step 99] should_commit=False enough_replicas=False", None),
        (
            (
                "[train_ddp_1:77aa/0 - step 0] healing required, fetching checkpoint metadata from "
                "recover_src_manager_address='http://h:1' max_step=99"
            ),
            (RESUMED, 99, None),
        ),
    ],
    "composer": [
        ("[epoch=2][batch=3/10]:", (PROGRESS, 13, None)),
        ("\t Train loss/train/total: 2.3100", (PROGRESS, None, 2.31)),
        ("[batch=3/100]:", (PROGRESS, 3, None)),
        ("[Eval batch=3/10] Eval on eval data", None),
        ("Trainer checkpoint loaded from out/ep0-ba10-rank0.pt", (RESUMED, 10, None)),
    ],
    "nanogpt": [
        ("step 250: train loss 2.4100, val loss 2.5100", None),
        ("iter 250: loss 2.3100, time 12.34ms, mfu 1.20%", (PROGRESS, 250, 2.31)),
        ("iter 251: loss nan, time 12.34ms, mfu 1.20%", (PROGRESS, 251, float("nan"))),
        ("saving checkpoint to out", None),
        ("Resuming training from out", (RESUMED, None, None)),
    ],
    "nanochat": [
        (
            "step 00012/01000 (1.20%) | loss: 2.310000 | lrm: 1.00 | dt: 12.34ms | tok/sec: 1,234",
            (PROGRESS, 12, 2.31),
        ),
        ("Saved model parameters to: out/model_000012.pt", None),
        ("Saved optimizer state to: out/optim_000012_rank0.pt", (SAVED, 12, None)),
        ("Resuming optimization from step 12", (RESUMED, 12, None)),
    ],
}


@pytest.mark.parametrize("name", [one.name for one in PRESETS])
def test_a_preset_reads_the_lines_of_its_trainer(name: str) -> None:
    for line, expected in LINES[name]:
        reader = Reader(preset(name).patterns())
        said = [*reader.feed(f"{line}\n".encode()), *reader.end()]
        found = [(one.what, one.step, one.loss) for one in said]
        assert repr(found) == repr([] if expected is None else [expected]), line


@pytest.mark.parametrize("name", [one.name for one in PRESETS])
def test_the_lines_of_a_trainer_are_recognized(name: str) -> None:
    best = guess([line for line, _ in LINES[name]])[0]
    assert best.preset == ("hf-trainer" if name == "axolotl" else name)
    steps = [(one[0], one[1]) for _, one in LINES[name] if one and one[1] is not None]
    assert [(one.what, one.step) for one in best.said if one.step is not None] == steps


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["batch size 32", "Step [10/1000], Loss: 2.5", "Step [20/1000], Loss: 2.25"],
            [(PROGRESS, 10, 2.5), (PROGRESS, 20, 2.25)],
        ),
        (
            [
                "epoch 0 batch 3 global_step=13 train_loss=nan",
                "epoch 0 batch 4 global_step=14 loss=1",
            ],
            [(PROGRESS, 13, float("nan")), (PROGRESS, 14, 1.0)],
        ),
        (
            ["step 1 val_loss: 3.5 train_loss: 2.5", "saved checkpoint to out/step_1.pt"],
            [(PROGRESS, 1, 2.5), (SAVED, 1, None)],
        ),
        (
            ["resumed from step 50", "saving checkpoint", "step 51 loss 2", "Checkpoint saved"],
            [(RESUMED, 50, None), (PROGRESS, 51, 2.0), (SAVED, None, None)],
        ),
        (
            ["{'loss': 2.5, 'step': 1}", "{'loss': 2.25, 'step': 2}"],
            [(PROGRESS, 1, 2.5), (PROGRESS, 2, 2.25)],
        ),
        (["update 7", "update 8"], [(PROGRESS, 7, None), (PROGRESS, 8, None)]),
        (["loss: 2.5"], [(PROGRESS, None, 2.5)]),
    ],
)
def test_lines_of_no_preset_are_read_by_their_words(
    lines: list[str], expected: list[tuple[LineKind, int | None, float | None]]
) -> None:
    best = guess(lines)[0]
    assert not best.preset
    assert repr([(one.what, one.step, one.loss) for one in best.said]) == repr(expected)


def around(line: str) -> list[int | None]:
    """Steps of the checkpoints that are understood of a line after step 50."""
    lines = [f"[iter {step:>6d}] train_loss=0.5" for step in range(40, 52)]
    lines.insert(lines.index("[iter     51] train_loss=0.5"), line)
    return [one.step for one in guess(lines)[0].said if one.what is SAVED]


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("checkpoint written: ckpt_50.pkl", 50),
        ("saved to out/step_50/", 50),
        ("wrote checkpoint-50", 50),
        ("ckpt_0000050.pt saved in 3.2 s", 50),
        ("[rank1]: Saved model to m/model-50.safetensors", 50),
        ("dumped global_step50", 50),
        ("stored out/rank0-iter=50.npz", 50),
        ("Saved checkpoint 3 (step 50)", None),  # the third one
        ("checkpoint written", None),
    ],
)
def test_what_is_saved_has_the_step_in_its_name_that_was_reported(
    line: str, step: int | None
) -> None:
    assert around(line) == [step]


@pytest.mark.parametrize(
    "line",
    [
        "saved 50 samples to eval.json",
        "saved samples to out/step_50.png",
        "wrote run_50.log",
        "written 50 files",
        "saved epoch_3.pt",
        "saved ckpt_7.pt",  # of none of its steps
        "best model 3 saved",
        "saving checkpoint ckpt_50.pkl",
        "the checkpoint will be written to ckpt_50.pkl",
        "checkpoint could not be written: ckpt_50.pkl",
        "checkpoint not saved: ckpt_50.pkl",
        "removed ckpt_50.pkl, saved 3 MB",
        "Loaded ckpt_50.pkl, continuing at iter 50",
    ],
)
def test_what_only_looks_like_a_saved_checkpoint_is_none(line: str) -> None:
    assert around(line) == []


def test_bars_and_logs_of_one_training_are_its_steps_with_their_losses() -> None:
    """As tqdm 4.70.1 draws it and transformers uses it: a log, an evaluation below the bar."""
    output = (
        "\r  0%|          | 0/50 [00:00<?, ?it/s]\r  2%|2         | 1/50 [00:00<00:06,  8.0it/s]"
        f"\r                          \r{HF_LOGS}\n"
        "\r  2%|2         | 1/50 [00:00<00:06,  8.0it/s]\n"
        "\r  0%|          | 0/4 [00:00<?, ?it/s]\x1b[A\n"
        "\r 25%|##5       | 1/4 [00:00<00:00, 41.0it/s]\x1b[A\n"
        "\r                          \x1b[A\r  4%|4         | 2/50 [00:00<00:06,  8.0it/s]"
        "\r  6%|6         | 3/50 [00:00<00:06,  8.0it/s]"
        f"\r                          \r{HF_LOGS}\n"
        "\r  6%|6         | 3/50 [00:00<00:06,  8.0it/s]"
        f"\r                          \r{dict(HF_LOGS, loss='2.25')}\n"
        "\r  8%|8         | 4/50 [00:00<00:06,  8.0it/s]"
        "\r 10%|9         | 5/50 [00:00<00:06,  8.0it/s]\n"
    )
    reader = Reader(preset("hf-trainer").patterns())
    said = [*reader.feed(output.encode()), *reader.end()]
    assert [(one.step, one.loss) for one in said] == [
        (1, None), (2, None), (3, 2.31), (4, 2.25), (5, None)
    ]  # fmt: skip


RECORDED = Path(__file__).parent / "recorded"


def test_output_is_recorded_of_the_presets_that_say_so() -> None:
    recorded = {one.name for one in PRESETS if one.recorded} - {"chaoslab"}
    assert {path.name for path in RECORDED.iterdir()} == {
        f"{name}.{life}.log" for name in recorded for life in (1, 2)
    }


@pytest.mark.parametrize(
    ("log", "steps", "losses", "resumed"),
    [
        ("hf-trainer.1", range(1, 13), {2: 4.028, 11: 4.03, 12: 4.033}, []),
        ("hf-trainer.2", range(11, 19), {12: 4.033, 17: 4.029}, [10]),
        ("lightning.1", range(16), {0: None, 1: 1.96, 2: 1.81, 15: 2.21}, []),
        ("lightning.2", range(0), {}, [None]),  # within an epoch
        ("composer.1", range(9, 14), {10: 0.7515, 13: 0.6758}, []),
        ("composer.2", range(11, 14), {12: 0.6602, 13: 0.6758}, [None]),
    ],
)
def test_recorded_output_is_read_by_its_preset(
    log: str, steps: range, losses: dict[int, float | None], resumed: list[int | None]
) -> None:
    reader = Reader(preset(log[:-2]).patterns())
    said = [*reader.feed((RECORDED / f"{log}.log").read_bytes()), *reader.end()]
    progress = [one for one in said if one.what is PROGRESS]
    found = {one.step: one.loss for one in reversed(progress)}  # the first word on a step counts
    assert sorted(step for step in found if step is not None) == [*steps]
    assert losses.items() <= found.items()
    assert [one.step for one in said if one.what is RESUMED] == resumed
    assert not [one for one in said if one.what is SAVED]  # known by the files


def test_lines_without_progress_are_not_guessed_at() -> None:
    assert guess(["loading data", "done in 3 s", "saved checkpoint at step 3"]) == []


def test_an_unknown_preset_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(PlanError) as refused:
        preset("hf_trainer")
    assert "did you mean hf-trainer?" in str(refused.value)
