"""Hugging Face Trainer: a random GPT-2 that goes on from its newest checkpoint.

python hf_train.py FOLDER [BROKEN]    or below torchrun; BROKEN: what its resume gets wrong
"""

import sys
import time
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

folder, broken = sys.argv[1], "".join(sys.argv[2:])
newest = get_last_checkpoint(folder)


class Lines(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        time.sleep(0.02 / 8)  # in place of a larger model
        shard = 1 << 20 if newest and broken == "shard" else 0
        drawn = torch.Generator().manual_seed(number + shard)
        words = torch.randint(0, 64, (8,), generator=drawn).repeat(4)
        return {"input_ids": words, "labels": words}


class Broken(TrainerCallback):
    def on_train_begin(self, *_, optimizer, lr_scheduler, **more):
        if newest and broken == "moments":
            optimizer.state.clear()
        elif newest and broken == "rate":
            lr_scheduler.last_epoch = 0


if newest and broken == "older":
    newest = str(sorted(Path(folder).glob("checkpoint-*"), key=lambda one: one.stat().st_mtime)[0])
torch.manual_seed(1)
torch.set_num_threads(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2))
arguments = TrainingArguments(
    folder, max_steps=100_000, per_device_train_batch_size=8, use_cpu=True, report_to=[],
    logging_steps=1, save_steps=20, save_total_limit=3, learning_rate=1e-3, warmup_steps=800,
    ignore_data_skip=broken == "data",
)  # fmt: skip
trainer = Trainer(model, arguments, train_dataset=Lines(), callbacks=[Broken] if broken else [])
trainer.train(resume_from_checkpoint=None if broken == "no_resume" else newest)
