"""Writes zero_experts_peaks.json: peaks of DeepSpeed's ZeRO 3 with PEFT's adapters of experts, on the emulated device.

    python zero_experts_peaks.py --list
    ac-advisor dryrun --world N --rank 0 --output /dev/null -- python zero_experts_peaks.py zero_experts_peaks.json --case K

As zero_peaks.py, of steps that a seeded generator draws: PEFT's ParamWrapper around the parameters of transformers' experts.
"""

import random
import sys

import zero_peaks

NAMED = {"mixtral": "w1,w2,w3", "qwen3_moe": "gate_proj,up_proj,down_proj"}


def cases():
    draw = random.Random("adapters of experts under ZeRO 3")
    for number in range(14):
        model = ("mixtral", "qwen3_moe")[number % 2]
        batch, seq = draw.choice(((1, 1024), (2, 1024), (1, 2048), (3, 500)))
        targets = draw.choice(("all-linear", "all-linear", NAMED[model], "q_proj,v_proj," + NAMED[model]))
        words = [f"--world {draw.choice((2, 4, 8))} --shard zero3 --batch {batch} --seq {seq}",
                 f"--ac {draw.choice(('none', 'full'))}",
                 f"--lora {draw.choice((4, 8, 16))} --lora-dtype fp32 --lora-targets {targets}"]
        if draw.random() < 0.3:
            words.append("--grad-accum 2")
        if draw.random() < 0.3:
            words.append("--clip-grad 1.0")
        yield model, " ".join(words) + " --no-hold-output --attn flash"


zero_peaks.CASES = list(cases())

if __name__ == "__main__":
    sys.exit(zero_peaks.main())
