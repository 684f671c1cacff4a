"""One stage of a pipeline under 1F1B, by torch.distributed.pipelining; run with --world N [--rank R]."""

import os

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from loop import report
from model import arguments, config, model, tokens

args = arguments()
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
first, last = rank == 0, rank == world - 1


class Stage(torch.nn.Module):
    """(batch, seq) tokens or (batch, seq, hidden) to (batch, seq, hidden) or logits."""

    def __init__(self, whole):
        super().__init__()
        self.model, self.head = whole.model, whole.lm_head if last else None
        each = -(-len(self.model.layers) // world)
        self.model.layers = self.model.layers[rank * each : (rank + 1) * each]
        if not first:
            self.model.embed_tokens = None
        if not last:
            self.model.norm = torch.nn.Identity()

    def forward(self, x):
        given = {"input_ids" if first else "inputs_embeds": x}
        hidden = self.model(**given, use_cache=False).last_hidden_state
        return self.head(hidden) if last else hidden


def loss(logits, labels):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


module = Stage(model(args.tiny))
count = 2 * world
width = config(args.tiny).hidden_size
shape = (args.batch, args.seq) if first else (args.batch, args.seq, width)
given = torch.empty(shape, device="meta", dtype=torch.long if first else torch.bfloat16)
made = torch.empty(
    (args.batch, args.seq, config(args.tiny).vocab_size if last else width), device="meta", dtype=torch.bfloat16
)
stage = PipelineStage(module, rank, world, torch.device("cuda"), input_args=(given,), output_args=(made,))
schedule = Schedule1F1B(stage, count, loss_fn=loss)
optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True)
args.batch *= count
ids = tokens(args)
for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    schedule.step(*([ids] if first else []), **({"target": ids} if last else {}))
    optimizer.step()
report()
dist.destroy_process_group()
