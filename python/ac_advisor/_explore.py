"""The planner's page in a notebook."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Union

from ._commands import Options, PathLike, _words
from ._program import UserError, run

_PLACE = '<script type="application/json" id="given">{}</script>'


@dataclass(frozen=True)
class Explorer:
    """The page that plans in a browser; a notebook shows it. It connects to nothing."""

    page: str

    def html(self) -> str:
        """The page as one file, which opens in any browser."""
        return self.page

    def _repr_html_(self) -> str:
        page = html.escape(self.page, quote=True)
        return (
            '<iframe sandbox="allow-scripts" style="width:100%;height:60em;border:0" '
            f'srcdoc="{page}"></iframe>'
        )


def explore(
    model: Union[PathLike, Mapping[str, Any]] = "llama-3.2-1b", **options: Options
) -> Explorer:
    """A page to vary the options of ``model`` by hand: each change plans again, in the notebook's
    browser. ``model`` is a config.json, a folder that has one, a built-in model's name, or the configuration
    itself (transformers' ``config.to_dict()``); ``options`` are those of ``plan``, to begin with.

    Raises UserError for what cannot be planned, with the reason."""
    words = _words(options)
    source, text = _model(model)
    # What the page would refuse is refused here, in the same words.
    run(["plan", "-" if text is not None else source["sample"], *words, "--format", "json"], input=text)
    start: Dict[str, Any] = {"model": source, "as": "", "options": []}
    for word in words:
        name, _, value = word.partition("=")
        if name == "--as":
            start["as"] = value
        else:
            start["options"].append([name, value])
    page = run(["generate", "page"])
    given = json.dumps({"start": start}).replace("<", "\\u003c")
    return Explorer(page.replace(_PLACE, _PLACE.replace("{}", given), 1))


def _model(model: Union[PathLike, Mapping[str, Any]]) -> "tuple[Dict[str, str], Optional[str]]":
    """The model as the page takes it, and its text where it is no sample."""
    if isinstance(model, Mapping):
        text = json.dumps(model)
        return {"text": text, "origin": "config.json", "name": "config"}, text
    path = Path(os.fspath(model))
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        text = path.read_text(encoding="utf-8")
        name = path.resolve().parent.name if path.name == "config.json" else path.stem
        return {"text": text, "origin": path.name, "name": name}, text
    names: List[str] = [line.split()[0] for line in run(["models", ""]).splitlines()]
    for name in names:
        if name.lower() == os.fspath(model).lower():
            return {"sample": name}, None
    raise UserError(
        f"{os.fspath(model)}: neither a file, a folder with a config.json, nor a built-in model "
        "(ac-advisor models lists them)"
    )
