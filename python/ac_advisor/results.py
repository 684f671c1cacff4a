"""What the program writes with ``--format json``, as dataclasses. docs/schema/ describes each field;
one that is ``None`` was not measured, or is not known. ``json`` is the whole document."""

from __future__ import annotations

import html as _html
import json as _json
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Dict, List, Optional, Type, TypeVar, Union, get_args, get_origin, get_type_hints

from ._program import run

T = TypeVar("T")
#: By phase: forward, loss, backward, recompute, optimizer.
Phases = Dict[str, int]
PhaseFigures = Dict[str, float]


@dataclass(frozen=True)
class Result:
    """What a command has returned."""

    json: Dict[str, Any] = field(repr=False, compare=False)

    def html(self) -> str:
        """The program's report: one page that needs no network."""
        return run(["report", "/dev/stdin", "--format", "html"], input=_json.dumps(self.json))

    def markdown(self) -> str:
        """The program's tables in Markdown."""
        return run(["report", "/dev/stdin", "--format", "md"], input=_json.dumps(self.json))

    def _repr_html_(self) -> str:
        # A frame of its own: the page has styles and scripts for all of a document.
        page = _html.escape(self.html(), quote=True)
        return (
            '<iframe sandbox="allow-scripts" style="width:100%;height:45em;border:0" '
            f'srcdoc="{page}"></iframe>'
        )


@dataclass(frozen=True)
class Tensor:
    """One of the largest at the peak."""

    module: str
    op: str
    shape: str
    dtype: str
    category: str
    bytes: int


@dataclass(frozen=True)
class PipelineRank:
    """What the ranks of one place in a pipeline, and of one part of each sequence, hold, in bytes."""

    pp_rank: int
    stages: List[int]
    count: int
    peak_allocated_bytes: int
    peak_reserved_bytes: Optional[int] = None
    cp_rank: int = 0


@dataclass(frozen=True)
class Memory:
    """Of one GPU, in bytes."""

    peak_allocated_bytes: int
    peak_reserved_bytes: Optional[int]
    peak_excluding_workspace_bytes: int
    first_step_peak_bytes: int
    resident_bytes: int
    peak_phase: str
    peak_step: int
    peak_op: str
    peak_module: str
    at_peak: Dict[str, int]
    peak_by_phase: Phases
    peak_by_phase_excluding_workspace: Phases
    at_peak_by_module: Dict[str, int]
    largest: List[Tensor]
    timeline: List[List[Any]] = field(repr=False)
    ranks: Optional[List[PipelineRank]] = None
    host_pinned_bytes: Optional[int] = None
    reference_forward_peak_bytes: Optional[int] = None


@dataclass(frozen=True)
class Kernels:
    """Of one step on one GPU: counts, FLOPs, bytes of device memory."""

    launches: Optional[Phases]
    dispatches: Optional[Phases]
    flops: Optional[PhaseFigures]
    bytes: Optional[PhaseFigures]


@dataclass(frozen=True)
class Time:
    """Of one step, in seconds; an estimate where ``estimate`` says so."""

    estimate: bool
    step_seconds: float
    by_phase_seconds: Optional[PhaseFigures]
    launch_bound_seconds: Optional[float]
    communication_exposed_seconds: Optional[float]
    recompute_seconds: Optional[float]
    tokens_per_second: float
    mfu: Optional[float]
    basis: Optional[str] = None
    bubble_share: Optional[float] = None
    pipeline: Optional[List[List[Any]]] = None
    """Of a pipeline: rank, stage, micro-batch, "forward", "backward" or its parts "input" and "weights", begin and end
    in seconds."""


@dataclass(frozen=True)
class Fit:
    """Whether it fits the device, in bytes."""

    fits: bool
    required_bytes: int
    usable_bytes: int
    context_bytes: int
    communication_bytes: int
    margin_bytes: int
    verdict: Optional[str] = None
    """"fits", "fits_by_releasing" (PyTorch's allocator gives back what it has cached and asks again), "does_not_fit"."""
    pressure: Optional[Dict[str, Any]] = None
    """Where the device has less than the allocator would reserve: ``retries`` per step, ``excess_bytes`` allocated
    over the limit, the ``refused`` request, ``expandable_segments_reserved_bytes``."""
    engine_bytes: Optional[int] = None
    """With ``--rollout vllm:SHARE``: of the engine beside the trainer."""
    generation_peak_bytes: Optional[int] = None
    """With ``--rollout generate``: the estimated peak while completions are written."""


@dataclass(frozen=True)
class TaskPhase:
    """A phase of a step that has several (GRPO), in bytes. ``planned``: op by op, else an estimate. ``device_bytes``
    has the engine's, the context's and NCCL's, too."""

    name: str
    planned: bool
    allocated_bytes: int
    reserved_bytes: int
    parameters_bytes: int
    optimizer_states_bytes: int
    engine_bytes: int
    device_bytes: int
    largest: str = ""
    critic_bytes: int = 0


@dataclass(frozen=True)
class TrainingKey:
    """What a key of a training file became: ``options`` of the command line, empty where none is needed.
    ``line`` None: absent in the file, the tool's default, which ``source`` has."""

    key: str
    value: str
    line: Optional[int]
    options: str
    source: str


@dataclass(frozen=True)
class Training:
    """A training file of another tool, given as the model."""

    tool: str
    version: str
    file: str
    model: str
    mapping: List[TrainingKey]
    no_effect: List[str]
    unknown: List[str]
    assumptions: List[str]


@dataclass(frozen=True)
class Evidence:
    """How much of a configuration was compared with PyTorch's own steps: ``grade`` is "verified", "composed" or
    "extrapolated", ``unseen`` what was never compared, ``expected_error_percent`` of peak allocated memory."""

    grade: str
    steps: int
    unseen: List[str]
    pair_steps: List[int]
    expected_error_percent: float


@dataclass(frozen=True)
class Profile(Result):
    """One configuration. ``config`` has every option, resolved; ``model`` the model's figures."""

    model: Dict[str, Any] = field(repr=False)
    parameters: int
    config: Dict[str, Any]
    device: str
    memory: Memory
    kernels: Kernels
    time: Time
    fit: Optional[Fit]
    assumptions: List[str]
    warnings: List[str]
    source: str
    tool_version: str
    absent: Dict[str, str] = field(default_factory=dict)
    evidence: Optional[Evidence] = None
    budget: Optional[Dict[str, Any]] = None
    numerics: Optional[Dict[str, Any]] = None
    instruments: Optional[Dict[str, Any]] = None
    predicted: Optional[Dict[str, Any]] = field(default=None, repr=False)
    explanation: List[str] = field(default_factory=list)
    trainable_parameters: Optional[int] = None
    modules: Optional[Dict[str, Any]] = field(default=None, repr=False)
    training: Optional[Training] = None
    task_phases: Optional[List[TaskPhase]] = None


@dataclass(frozen=True)
class Row(Profile):
    """A configuration of a sweep; ``rank`` 1 is the best that fits, None does not fit or is not
    available: ``unavailable`` says why the framework lacks it."""

    label: str = ""
    fits: bool = False
    rank: Optional[int] = None
    pareto: bool = False
    largest_batch: Optional[int] = None
    largest_batch_exact: bool = False
    largest_batch_loss: Optional[str] = None
    unavailable: Optional[str] = None
    why: str = ""


@dataclass(frozen=True)
class Saving:
    """A row of the savings table: what one technique more does to the peak."""

    technique: str
    peak_bytes: int
    saved_bytes: int
    saved_share_of_baseline: float
    step_seconds: float
    config: Dict[str, Any] = field(repr=False)
    unavailable: Optional[str] = None


@dataclass(frozen=True)
class NotPlanned:
    """A technique of the savings table which cannot be planned here, and why."""

    technique: str
    why: str


@dataclass(frozen=True)
class NotSimulated:
    """Configurations that a sweep left out. They cannot fit: what a rank holds in any case is beyond the device
    (`too_large`); a lighter one allocates more than it has (`too_heavy`). Or, of a large space, the least that their
    step can take is slower than the first 20 rows and than the best of their layout (`too_slow`)."""

    too_large: int
    too_heavy: int
    too_slow: int = 0


@dataclass(frozen=True)
class Sweep(Result):
    """Ranked configurations, those that fit first, by estimated throughput."""

    model: str
    config: Dict[str, Any] = field(repr=False)
    configurations: int
    recommendation: str
    savings: List[Saving]
    rows: List[Row] = field(repr=False)
    varies_global_batch: bool = False
    not_planned: List[NotPlanned] = field(default_factory=list)
    not_simulated: Optional[NotSimulated] = None
    training: Optional[Training] = None


@dataclass(frozen=True)
class AskedFor:
    """The tensor of a refused request: ``rows`` of ``width`` elements (None: so many elements in all)."""

    what: str
    shape: str
    made_by: Optional[str]
    rows: Optional[int]
    width: int
    element_bytes: int
    bytes: int
    certain: bool
    op: Optional[str] = None
    module: Optional[str] = None
    phase: Optional[str] = None


@dataclass(frozen=True)
class OomError:
    """One error of a text. Sizes are as precise as the text's digits."""

    kind: str
    backend: str
    message: str
    requested_bytes: Optional[int]
    capacity_bytes: Optional[int]
    free_bytes: Optional[int]
    allocated_bytes: Optional[int]
    reserved_unallocated_bytes: Optional[int]
    allowed_bytes: Optional[int]
    process_bytes: Optional[int]
    devices: List[int]
    ranks: List[int]
    times: int
    role: Optional[str]
    phase: Optional[str]
    frame: Optional[str]
    tensor: Optional[AskedFor]
    fragmented: bool
    missing_bytes: int
    why: Optional[str]
    notes: List[str]
    alternatives: List[AskedFor] = field(default_factory=list, repr=False)
    other_processes: List[Dict[str, int]] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class OomChange:
    """Options that make the step fit, as it was planned with them; ``slower`` 0.25: 25 % more time a token."""

    options: List[List[str]]
    technique: str
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    step_seconds: float
    slower: float


@dataclass(frozen=True)
class OutOfMemory(Result):
    """What a text says of being out of memory; ``plan`` and ``changes`` where a model was given."""

    tool_version: str
    errors: List[OomError]
    cache_flushes: int
    suggestions: List[str]
    changes: List[OomChange]
    plan: Optional[Dict[str, Any]] = field(default=None, repr=False)
    training: Optional[Training] = None


@dataclass(frozen=True)
class FieldChange:
    """An option, or a figure of the model, that differs."""

    field: str
    a: str
    b: str


@dataclass(frozen=True)
class Change:
    """``delta`` is b - a."""

    a: int
    b: int
    delta: int


@dataclass(frozen=True)
class Diff(Result):
    """Two profiles."""

    a: str
    b: str
    fields: List[FieldChange]
    totals_bytes: Dict[str, Change]
    at_peak_bytes: Dict[str, Change]
    at_peak_by_module_bytes: Dict[str, Change]
    peak_by_phase_bytes: Dict[str, Change]
    launches: Dict[str, Change]
    dispatches: Dict[str, Change]
    step_seconds: PhaseFigures


@dataclass(frozen=True)
class Side:
    """A configuration in one of two sweeps."""

    peak_allocated_bytes: int
    step_seconds: float
    rank: Optional[int]


@dataclass(frozen=True)
class RowChange:
    """None where a sweep lacks the configuration."""

    label: str
    a: Optional[Side]
    b: Optional[Side]


@dataclass(frozen=True)
class SweepDiff(Result):
    """Two sweeps; the largest change of the peak first."""

    a: str
    b: str
    fields: List[FieldChange]
    rows: List[RowChange]
    recommendation: Dict[str, str]


@dataclass(frozen=True)
class Verdict:
    """A figure (bytes, seconds, counts or a share: its name tells) against its limit."""

    check: str
    figure: Optional[str]  #: None: the case as a whole
    outcome: str
    level: str
    fails: bool
    now: Optional[float]
    baseline: Optional[float]
    limit: Optional[float]
    cause: Dict[str, Any] = field(repr=False)
    message: str
    file: str
    line: int


@dataclass(frozen=True)
class Case:
    """A case of the gate; ``figures`` by name."""

    name: str
    figures: Optional[Dict[str, Optional[float]]]
    verdicts: List[Verdict]


@dataclass(frozen=True)
class Check:
    """The gate: ``exit_code`` 1 and ``failures`` where a limit is exceeded."""

    json: Dict[str, Any] = field(repr=False, compare=False)
    config: str
    exit_code: int
    failures: int
    warnings: int
    cases: List[Case]

    def _repr_html_(self) -> str:
        rows = [
            (case.name, v.figure or "", v.outcome, v.message)
            for case in self.cases
            for v in case.verdicts
        ]
        cells = ["".join(f"<td>{_html.escape(cell)}</td>" for cell in row) for row in rows]
        head = "<tr><th>case</th><th>figure</th><th>verdict</th><th></th></tr>"
        return f"<table>{head}{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def read(kind: Type[T], value: Any) -> T:
    """A document, or a part of one, as ``kind``. What a newer program writes besides is left to
    ``json``."""
    hints = get_type_hints(kind)
    arguments: Dict[str, Any] = {}
    for one in fields(kind):  # type: ignore[arg-type]
        if one.name == "json":
            arguments[one.name] = value
        elif one.name in value:
            arguments[one.name] = _convert(hints[one.name], value[one.name])
    return kind(**arguments)


def _convert(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if is_dataclass(hint):
        return read(hint, value)  # type: ignore[arg-type]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union:  # Optional
        return _convert(arguments[0], value)
    if origin is list:
        return [_convert(arguments[0], item) for item in value]
    if origin is dict:
        return {key: _convert(arguments[1], item) for key, item in value.items()}
    return value
