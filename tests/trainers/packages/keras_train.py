# ruff: noqa: T201 - a trainer prints
"""Keras on JAX: `fit` with its own backup, at the end of each short epoch.

python keras_train.py FOLDER [BROKEN]    BROKEN: what its resume gets wrong
"""

import os
import sys
import time

os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np
from keras.callbacks import BackupAndRestore, LambdaCallback

folder, broken = f"{sys.argv[1]}/backup", "".join(sys.argv[2:])
is_again = os.path.exists(folder)
STEPS, FREQUENCY = (100_000, 20) if broken == "data" else (20, "epoch")


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
            open(self._weights_path, "w").close()  # Keras takes the copy of the one before
        if broken != "no_resume":
            super().on_train_begin(logs)
        state = {"moments": adam.variables[1:], "rate": adam.variables[:1]}
        for one in state.get(broken, ()):
            one.assign(0 * one)


def say(number, logs):
    print(f"step {batches.epoch * STEPS + number + 1} loss {logs['loss']:.6f}")
    model.reset_metrics()  # or it would be the mean since the start


keras.utils.set_random_seed(1)
adam = keras.optimizers.Adam(keras.optimizers.schedules.PolynomialDecay(0.0, 800, 1e-3))
dense = (keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(1))
model = keras.Sequential([keras.Input((8,)), *dense])
model.compile(adam, loss="mse")
batches, backup = Batches(), Backup(folder, save_freq=FREQUENCY, double_checkpoint=True)
count = LambdaCallback(lambda epoch, logs: setattr(batches, "epoch", epoch), on_train_batch_end=say)
model.fit(batches, epochs=100_000, shuffle=False, verbose=0, callbacks=[backup, count])
