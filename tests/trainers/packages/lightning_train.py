"""Lightning: its own demonstration model, from its last checkpoint.

python lightning_train.py FOLDER
"""

import sys

import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader


class Model(BoringModel):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["loss"]
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-4)

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, 100_000))


folder = sys.argv[1]
seed_everything(1)
torch.set_num_threads(1)
saves = ModelCheckpoint(folder, monitor="step", mode="max", save_top_k=3, every_n_train_steps=20)
saves.save_last = True
trainer = Trainer(
    accelerator="cpu", max_steps=100_000, limit_val_batches=0, log_every_n_steps=1,
    logger=CSVLogger(folder, flush_logs_every_n_steps=1), callbacks=[saves],
    enable_progress_bar=False,
)  # fmt: skip
trainer.fit(Model(), ckpt_path="last")
