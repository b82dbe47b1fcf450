"""Composer: a small classifier that finds its newest checkpoint itself (`autoresume`).

python composer_train.py FOLDER [BROKEN]    BROKEN: what its resume gets wrong
"""

import sys
import time
from pathlib import Path

import torch
from composer import Trainer
from composer.models import ComposerClassifier
from torch.utils.data import DataLoader, Dataset

folder, broken = sys.argv[1], "".join(sys.argv[2:])
saved = sorted(Path(folder).glob("ep*-ba*-rank0.pt"), key=lambda one: one.stat().st_mtime)


class Points(Dataset):
    def __len__(self):
        return 16 * 100_000

    def __getitem__(self, number):
        time.sleep(0.02 / 16)  # in place of a larger model
        shard = 1 << 30 if saved and broken == "shard" else 0
        point = torch.randn(8, generator=torch.Generator().manual_seed(shard + number))
        return point, int(point.sum() > 0)


torch.set_num_threads(1)
torch.manual_seed(1)
layers = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
ignored = ["state/optimizers"] if broken == "moments" else None
begun = int(saved[-1].name[6:].split("-")[0]) if saved and broken == "rate" else 0
start = {"no_resume": [], "older": saved[:1], "moments": saved[-1:]}.get(broken)
trainer = Trainer(
    model=ComposerClassifier(layers, num_classes=2),
    optimizers=torch.optim.Adam(layers.parameters(), lr=1e-3),
    schedulers=lambda state: min(1, (state.timestamp.batch.value - begun) / 800),
    train_dataloader=DataLoader(Points(), batch_size=16),
    max_duration="100000ba", seed=1, run_name="run", device="cpu", progress_bar=False,
    log_to_console=True, console_log_interval="1ba",
    save_folder=folder, save_interval="20ba", save_num_checkpoints_to_keep=3,
    autoresume=start is None, save_overwrite=start is not None,
    load_path=str(start[0]) if start else None, load_ignore_keys=ignored,
    spin_dataloaders=broken != "data",
)  # fmt: skip
trainer.fit()
