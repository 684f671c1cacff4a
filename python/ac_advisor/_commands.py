"""A function a command."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Union, overload

from ._program import run
from .results import Check, Diff, OutOfMemory, Profile, Result, Sweep, SweepDiff, read

PathLike = Union[str, "os.PathLike[str]"]
#: Options of the program: text, numbers, ``True`` for a flag; ``None`` and ``False`` leave one out.
Options = Union[str, int, float, None]


def _words(options: Dict[str, Options]) -> List[str]:
    """``param_dtype="fp32"`` → ``--param-dtype fp32``."""
    words: List[str] = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if option in ("--format", "--output"):
            raise TypeError(f"{name}: a result is returned; save result.json or result.html()")
        if value is None:
            continue
        if value is True:
            words.append(option)
        elif value is False:
            # The only flag with an opposite.
            words += ["--no-hold-output"] if name == "hold_output" else []
        else:
            # One word: a value may begin with a dash.
            words.append(f"{option}={value}")
    return words


def _operand(path: PathLike) -> str:
    """A file of any name: one that begins with a dash is no option."""
    text = os.fspath(path)
    return "./" + text if text.startswith("-") else text


def plan(model: PathLike, **options: Options) -> Profile:
    """One configuration: what it holds (bytes), launches and costs (seconds, an estimate).

    ``model`` is a Hugging Face config.json, a folder that has one, or a built-in model's name. Raises
    UserError for what cannot be planned, with the reason."""
    text = run(["plan", _operand(model), *_words(options), "--format", "json"])
    return read(Profile, json.loads(text))


def advise(model: PathLike, **options: Options) -> Sweep:
    """All configurations, ranked; the savings table; which to use."""
    text = run(["advise", _operand(model), *_words(options), "--format", "json"])
    return read(Sweep, json.loads(text))


def check(
    config: PathLike = "ac-advisor.json",
    *,
    only: Sequence[str] = (),
    today: Optional[str] = None,
) -> Check:
    """The gate: the cases of ``config``, each with its verdicts; ``only`` these. ``today``
    (YYYY-MM-DD) is the day that waivers are judged on. A limit that is exceeded is no exception: it
    is in ``failures``."""
    words = ["check", f"--config={os.fspath(config)}", "--format", "json"]
    words += [f"--only={case}" for case in only]
    if today is not None:
        words.append(f"--today={today}")
    return read(Check, json.loads(run(words, judges=True)))


def oom(text: str, model: Optional[PathLike] = None, **options: Options) -> OutOfMemory:
    """What an out-of-memory error's text says: a log, or as much of it as was pasted. With ``model``
    and the options of its step, what makes the step fit."""
    words = [] if model is None else [os.fspath(model)]
    found = run(["oom", "-", *words, *_words(options), "--format", "json"], input=text)
    return read(OutOfMemory, json.loads(found))


@overload
def compare(a: Profile, b: Profile) -> Diff: ...
@overload
def compare(a: Sweep, b: Sweep) -> SweepDiff: ...
@overload
def compare(a: PathLike, b: PathLike) -> Union[Diff, SweepDiff]: ...


def compare(a: Any, b: Any) -> Union[Diff, SweepDiff]:
    """What differs between two results, or two files that ``--format json`` wrote."""
    with tempfile.TemporaryDirectory(prefix="ac-advisor.") as folder:
        files: List[str] = []
        for name, value in (("a", a), ("b", b)):
            if isinstance(value, Result):
                file = Path(folder, name + ".json")
                file.write_text(json.dumps(value.json), encoding="utf-8")
                files.append(str(file))
            else:
                files.append(_operand(value))
        found: Dict[str, Any] = json.loads(run(["compare", *files, "--format", "json"]))
    if found["schema"].startswith("ac-advisor/sweep-diff/"):
        return read(SweepDiff, found)
    return read(Diff, found)
