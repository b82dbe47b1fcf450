# ruff: noqa: T201 - a trainer prints
"""Keras on JAX: `fit` with its own backup, at the end of each short epoch.

python keras_train.py FOLDER [BROKEN]    BROKEN: what its resume gets wrong
"""

import os
import shutil
import sys
import time

os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np
from keras.callbacks import BackupAndRestore, LambdaCallback

folder, broken = sys.argv[1], "".join(sys.argv[2:])
is_again = os.path.exists(f"{folder}/backup")
STEPS = 100_000 if broken == "data" else 20


class Batches(keras.utils.PyDataset):
    epoch = 0

    def __len__(self):
        return STEPS

    def __getitem__(self, number):
        shard = 1 << 20 if is_again and broken == "shard" else 0
        time.sleep(0.02)  # in place of a larger model
        drawn = np.random.default_rng(shard + self.epoch * STEPS + number).normal(size=(16, 8))
        return drawn.astype("float32"), np.sin(drawn.sum(axis=1, keepdims=True) / 3)


class Backup(BackupAndRestore):
    def on_train_begin(self, logs=None):
        if is_again and broken == "older":
            for file in (self._weights_path, self._training_metadata_path):
                shutil.copy(f"{file}.bkp", file)
        if broken != "no_resume":
            super().on_train_begin(logs)
        moments = model.optimizer.variables[1:] if broken == "moments" else ()
        for one in (model.optimizer.iterations,) if broken == "rate" else moments:
            one.assign(0 * one)


def say(number, logs):
    print(f"step {batches.epoch * STEPS + number + 1} loss {logs['loss']:.6f}")
    model.reset_metrics()  # or it would be the mean since the start


keras.utils.set_random_seed(1)
batches, rates = (
    Batches(),
    keras.optimizers.schedules.CosineDecay(0.0, 1_000_000, warmup_target=1e-3, warmup_steps=800),
)
model = keras.Sequential([keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(1)])
model.build((None, 8))
model.compile(keras.optimizers.Adam(rates), loss="mse")
backup = Backup(
    f"{folder}/backup", save_freq=20 if broken == "data" else "epoch", double_checkpoint=True
)
printed = LambdaCallback(
    on_epoch_begin=lambda epoch, logs: setattr(batches, "epoch", epoch), on_train_batch_end=say
)
model.fit(batches, epochs=100_000, shuffle=False, verbose=0, callbacks=[backup, printed])
