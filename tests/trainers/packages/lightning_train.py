"""Lightning: its own demonstration model, from its last checkpoint.

python lightning_train.py FOLDER
"""

import sys

import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader


class Model(BoringModel):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["loss"]
        self.log("loss", loss, prog_bar=True)
        return loss

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, 100_000))


folder = sys.argv[1]
seed_everything(1)
torch.set_num_threads(1)
saves = ModelCheckpoint(folder, every_n_train_steps=20, save_top_k=-1, save_last=True)
trainer = Trainer(
    accelerator="cpu", max_steps=100_000, default_root_dir=folder, callbacks=[saves],
    limit_val_batches=0, log_every_n_steps=1,
)  # fmt: skip
trainer.fit(Model(), ckpt_path="last")
