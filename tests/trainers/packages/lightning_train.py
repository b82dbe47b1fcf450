"""Lightning: its own demonstration model, from its last checkpoint, at the end of a short epoch.

python lightning_train.py FOLDER [BROKEN]    BROKEN: what its resume gets wrong
"""

import sys
import time
from pathlib import Path

import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint, TQDMProgressBar
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

folder, broken = sys.argv[1], "".join(sys.argv[2:])
saved = sorted(Path(folder).glob("*step=*.ckpt"), key=lambda one: one.stat().st_mtime)


class Model(BoringModel):
    def training_step(self, batch, batch_idx):
        time.sleep(0.02)  # in place of a larger model
        loss = super().training_step(batch, batch_idx)["loss"]
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        adam = torch.optim.Adam(self.parameters(), lr=1e-4)
        rates = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: min(1, step / 800))
        return [adam], [{"scheduler": rates, "interval": "step"}]

    def on_load_checkpoint(self, checkpoint):
        if broken == "moments":
            checkpoint["optimizer_states"][0]["state"] = {}
        elif broken == "rate":
            checkpoint["lr_schedulers"] = []

    def train_dataloader(self):
        shard = 1 << 20 if saved and broken == "shard" else 0
        torch.manual_seed(shard + self.current_epoch)
        return DataLoader(RandomDataset(32, 100_000 if broken == "data" else 20))


seed_everything(1)
torch.set_num_threads(1)
saves = ModelCheckpoint(folder, every_n_train_steps=20, save_top_k=-1, save_last=True)
trainer = Trainer(
    accelerator="cpu", max_steps=100_000, limit_val_batches=0, log_every_n_steps=1,
    logger=CSVLogger(folder, flush_logs_every_n_steps=1), callbacks=[saves, TQDMProgressBar()],
    reload_dataloaders_every_n_epochs=1,
)  # fmt: skip
start = {"no_resume": None, "older": saved[0] if saved else None}.get(broken, "last")
trainer.fit(Model(), ckpt_path=start)
