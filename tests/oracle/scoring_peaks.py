"""Writes scoring_peaks.json: as task_peaks.json, of GRPOTrainer's steps whose completions a reference scores, and of RLOOTrainer's,
which the policy scores, too. What each of these forwards without gradients allocates at most, in the second step, is in
`task_phases`; the step's peak is the update's.

    ac-advisor dryrun -- python scoring_peaks.py scoring_peaks.json [--only TEXT]
"""

import sys

import torch
import trl

import loop_peaks
import task_step
from loop_step import parse
from task_cases import CASES, LEAVE_ONE_OUT

SCORED = [(model, words) for model, words in CASES if "--task grpo" in words and "--ref" in words]
scored = {}


def who_scores(trainer, model):
    """The reference is a second model, or the policy with its adapters off."""
    off = any(getattr(m, "disable_adapters", False) is True for m in model.modules())
    return "ref_log_prob" if model is trainer.ref_model or off else "old_log_prob"


def watched(trainer):
    class Watched(written_out(trainer)):
        def _get_per_token_logps_and_entropies(self, model, *given, **more):
            if torch.is_grad_enabled() or self.state.global_step != 1:
                return super()._get_per_token_logps_and_entropies(model, *given, **more)
            torch.cuda.reset_peak_memory_stats()
            result = super()._get_per_token_logps_and_entropies(model, *given, **more)
            scored[who_scores(self, model)] = {"allocated": torch.cuda.max_memory_allocated()}
            torch.cuda.reset_peak_memory_stats()
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
    sys.exit(loop_peaks.main([*SCORED, *LEAVE_ONE_OUT], __doc__, f"trl {trl.__version__}, "))
