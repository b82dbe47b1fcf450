# ruff: noqa: T201 - a trainer prints
"""torchft: replicas that average their gradients, and heal from each other; no checkpoints.

python torchft_train.py RANK WORKERS
"""

import logging
import sys
import time

import torch
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo
from torchft.coordination import LighthouseServer

rank, workers = map(int, sys.argv[1:])
logging.basicConfig(level=logging.INFO)
torch.set_num_threads(1)
torch.manual_seed(1)
if rank == 0:
    lighthouse = LighthouseServer(bind="127.0.0.1:29517", min_replicas=1, join_timeout_ms=10_000)
store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
layers = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
adam = torch.optim.Adam(layers.parameters(), lr=1e-3)


def give():
    return {"layers": layers.state_dict(), "adam": adam.state_dict()}


def take(state):
    layers.load_state_dict(state["layers"])
    adam.load_state_dict(state["adam"])


manager = Manager(
    pg=ProcessGroupGloo(), load_state_dict=take, state_dict=give, min_replica_size=1,
    rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port,
    lighthouse_addr="http://127.0.0.1:29517", replica_id=f"worker-{rank}-", hostname="127.0.0.1",
)  # fmt: skip
model, optimizer = DistributedDataParallel(manager, layers), Optimizer(manager, adam)
while True:
    time.sleep(0.02)  # in place of a larger model
    drawn = torch.Generator().manual_seed(manager.current_step() * workers + rank)
    points = torch.randn(16, 8, generator=drawn)
    optimizer.zero_grad()
    loss = ((model(points) - torch.sin(points.sum(1, keepdim=True) / 3)) ** 2).mean()
    loss.backward()
    optimizer.step()
    if manager.is_participating():  # else it was computed before it healed
        print(f"[{manager.current_step()}] loss = {loss.item():.6f}")
