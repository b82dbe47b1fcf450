# ruff: noqa: T201 - a trainer prints
"""Keras on JAX: `fit` with its own backup, which goes on within an epoch.

python keras_train.py FOLDER
"""

import os
import sys

os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, number):
        drawn = np.random.default_rng(number).normal(size=(16, 8)).astype("float32")
        return drawn, np.sin(drawn.sum(axis=1, keepdims=True))


folder = sys.argv[1]
keras.utils.set_random_seed(1)
layers = keras.layers
model = keras.Sequential([layers.Dense(32, activation="tanh"), layers.Dense(1)])
model.compile(keras.optimizers.Adam(1e-3), loss="mse")
backup = keras.callbacks.BackupAndRestore(f"{folder}/backup", save_freq=20, delete_checkpoint=False)


def say(number, logs):
    print(f"batch {number + 1} loss {logs['loss']:.6f}")
    model.reset_metrics()  # or it would be the mean since the start


printed = keras.callbacks.LambdaCallback(on_train_batch_end=say)
model.fit(Batches(), epochs=1, verbose=0, callbacks=[backup, printed])
