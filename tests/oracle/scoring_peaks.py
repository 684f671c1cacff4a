"""Writes scoring_peaks.json: as task_peaks.json, of GRPOTrainer's steps whose completions a reference scores. What that forward
without gradients allocates at most, in the second step, is in `task_phases`.

    ac-advisor dryrun -- python scoring_peaks.py scoring_peaks.json [--only TEXT]
"""

import sys

import torch
import trl

import loop_peaks
import task_step
from loop_step import parse
from task_cases import CASES

SCORED = [(model, words) for model, words in CASES if "--task grpo" in words and "--ref" in words]
scored = {}


def watched(trainer):
    class Watched(written_out(trainer)):
        def _get_per_token_logps_and_entropies(self, *given, **more):
            if torch.is_grad_enabled() or self.state.global_step != 1:
                return super()._get_per_token_logps_and_entropies(*given, **more)
            torch.cuda.reset_peak_memory_stats()
            result = super()._get_per_token_logps_and_entropies(*given, **more)
            before = scored.get("ref_log_prob", {"allocated": 0})["allocated"]
            scored["ref_log_prob"] = {"allocated": max(before, torch.cuda.max_memory_allocated())}
            return result

    return Watched


def measure(model, words):
    scored.clear()
    figures = task_step.measure_task(loop_peaks.MODELS[model], parse(words))
    return figures | {"task_phases": dict(scored)}


written_out = task_step.written_out
task_step.written_out = watched

if __name__ == "__main__":
    loop_peaks.measure = measure
    sys.exit(loop_peaks.main(SCORED, __doc__, f"trl {trl.__version__}, "))
