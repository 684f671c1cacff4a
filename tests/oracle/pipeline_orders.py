"""Writes pipeline_orders.json: what torch.distributed.pipelining's zero-bubble schedules have each rank compute, in order.

    python pipeline_orders.py pipeline_orders.json

No device and no process group: the schedules' own code is asked for each rank's list.
"""

import json
import sys
from types import SimpleNamespace

from torch.distributed.pipelining import schedules

WORDS = {"FORWARD": "F", "FULL_BACKWARD": "B", "BACKWARD_INPUT": "I", "BACKWARD_WEIGHT": "W"}
CLASSES = {"zb1": schedules.ScheduleInterleavedZeroBubble, "zbv": schedules.ScheduleZBVZeroBubble,
           "dualpipev": schedules.ScheduleDualPipeV}
# Schedule, ranks, stages a rank, micro-batches.
SHAPES = ([("zb1", ranks, chunks, n) for ranks in (2, 3, 4, 8) for chunks in (1, 2, 3) for n in (ranks, 2 * ranks, 24)]
          + [("zbv", ranks, 2, n) for ranks in (2, 3, 4, 8) for n in (ranks, 2 * ranks - 1, 2 * ranks, 21)]
          + [("dualpipev", ranks, 2, n) for ranks in (2, 3, 4, 8) for n in (2 * ranks, 2 * ranks + 1, 21)])


def flat(actions):
    for action in actions:
        if action is not None:
            yield from action.sub_actions or (action,)


def orders(schedule, ranks, chunks, n):
    rounds = max(1, n // ranks)
    own = SimpleNamespace(pp_group_size=ranks, n_local_stages=chunks, _n_microbatches=n, num_stages=ranks * chunks,
                          number_of_rounds=rounds, microbatches_per_round=n // rounds)
    for rank in range(ranks):
        actions = CLASSES[schedule]._calculate_single_rank_operations(own, rank)
        yield " ".join(f"{a.stage_index}{WORDS[a.computation_type.name]}{a.microbatch_index}" for a in flat(actions))


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        lines = [json.dumps({"schedule": schedule, "ranks": ranks, "chunks": chunks, "micro_batches": n,
                             "orders": list(orders(schedule, ranks, chunks, n))})
                 for schedule, ranks, chunks, n in SHAPES]
        file.write("[\n" + ",\n".join(lines) + "\n]\n")
