"""DeepSpeed's ZeRO: `zero.py --stage 1|2|3`; run with --world N."""

import os
import sys

import deepspeed
import torch

from loop import report
from model import arguments, model, tokens

stage = 3
if "--stage" in sys.argv:
    at = sys.argv.index("--stage")
    stage = int(sys.argv[at + 1])
    del sys.argv[at : at + 2]
args = arguments(batch=2)
for name, value in {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_PORT": 29555}.items():
    os.environ.setdefault(name, str(value))
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
net = model(args.tiny)
engine, _, _, _ = deepspeed.initialize(
    model=net,
    model_parameters=net.parameters(),
    config={
        "train_micro_batch_size_per_gpu": args.batch,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "torch_adam": True}},
    },
)
ids = tokens(args)
for _ in range(args.steps):
    loss = engine(input_ids=ids, labels=ids, use_cache=False).loss
    engine.backward(loss)
    engine.step()
assert any(engine.optimizer.optimizer.state.values()), "every step was skipped: no moments"
report()
