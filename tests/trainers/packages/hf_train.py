"""Hugging Face Trainer: a random GPT-2 that goes on from its newest checkpoint.

python hf_train.py FOLDER    or below torchrun
"""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Lines(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        drawn = torch.Generator().manual_seed(number)
        words = torch.randint(0, 64, (8,), generator=drawn).repeat(4)
        return {"input_ids": words, "labels": words}


folder = sys.argv[1]
torch.manual_seed(1)
torch.set_num_threads(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2))
arguments = TrainingArguments(
    folder, max_steps=100_000, per_device_train_batch_size=8, use_cpu=True, report_to=[],
    logging_steps=1, save_steps=20, save_total_limit=3,
)  # fmt: skip
trainer = Trainer(model, arguments, train_dataset=Lines())
trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
