"""Composer: a small classifier that finds its newest checkpoint itself (`autoresume`).

python composer_train.py FOLDER
"""

import sys

import torch
from composer import Trainer
from composer.models import ComposerClassifier
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __len__(self):
        return 16 * 100_000

    def __getitem__(self, number):
        point = torch.randn(8, generator=torch.Generator().manual_seed(number))
        return point, int(point.sum() > 0)


folder = sys.argv[1]
torch.set_num_threads(1)
torch.manual_seed(1)
layers = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
trainer = Trainer(
    model=ComposerClassifier(layers, num_classes=2),
    optimizers=torch.optim.Adam(layers.parameters(), lr=1e-3),
    train_dataloader=DataLoader(Points(), batch_size=16),
    max_duration="100000ba", seed=1, run_name="run", device="cpu", progress_bar=False,
    log_to_console=True, console_log_interval="1ba",
    save_folder=folder, save_interval="20ba", save_num_checkpoints_to_keep=3, autoresume=True,
)  # fmt: skip
trainer.fit()
