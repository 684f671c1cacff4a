"""What a transformer's training step holds in GPU memory, launches and costs, before a GPU is spent.

A thin layer over the program ``ac-advisor``, which does the work::

    import ac_advisor

    p = ac_advisor.plan("llama-3.2-1b", batch=8, seq=2048, ac="full")
    p.memory.peak_allocated_bytes / 2**30      # GiB
    ac_advisor.advise("llama-3.2-1b", batch=8, seq=2048, world=8).recommendation
    ac_advisor.explore("llama-3.2-1b", batch=8)  # a page to vary it by hand

Options are the program's, without the dashes: ``--param-dtype fp32`` is ``param_dtype="fp32"``, a
flag is ``True``, ``--as`` is ``as_``; ``ac-advisor plan --help`` lists them with their defaults.
Sizes are bytes, times seconds, exact integers where they count something. In a notebook a result
shows itself as the program's HTML report.
"""

from importlib.metadata import PackageNotFoundError, version as _version

from ._commands import Options, advise, check, compare, oom, plan
from ._explore import Explorer, explore
from ._program import Failed, UserError, program, run
from .results import (
    Case,
    Change,
    Check,
    Diff,
    Evidence,
    FieldChange,
    Fit,
    Kernels,
    Memory,
    NotPlanned,
    NotSimulated,
    OutOfMemory,
    PipelineRank,
    Profile,
    Result,
    Row,
    RowChange,
    Saving,
    Side,
    Sweep,
    SweepDiff,
    TaskPhase,
    Tensor,
    Time,
    Training,
    TrainingKey,
    Verdict,
)

try:
    __version__ = _version("ac-advisor")
except PackageNotFoundError:  # the folder itself on sys.path, not installed
    __version__ = "0"

__all__ = [
    "Case",
    "Change",
    "Check",
    "Diff",
    "Evidence",
    "Explorer",
    "Failed",
    "FieldChange",
    "Fit",
    "Kernels",
    "Memory",
    "NotPlanned",
    "NotSimulated",
    "Options",
    "OutOfMemory",
    "PipelineRank",
    "Profile",
    "Result",
    "Row",
    "RowChange",
    "Saving",
    "Side",
    "Sweep",
    "SweepDiff",
    "TaskPhase",
    "Tensor",
    "Time",
    "Training",
    "TrainingKey",
    "UserError",
    "Verdict",
    "advise",
    "check",
    "compare",
    "explore",
    "oom",
    "plan",
    "program",
    "run",
]
