"""Finds the program that is installed beside this package, and runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import warnings
from pathlib import Path
from typing import Optional, Sequence

_PREFIX = "ac-advisor: "


class UserError(ValueError):
    """Bad input. The message is the program's: what is wrong, where, and what would be right."""


class Failed(RuntimeError):
    """The program ended in another way than by bad input: with the code ``exit_code``."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def program() -> str:
    """The path of the program: ``AC_ADVISOR`` of the environment, else where pip has put it, else
    the one on ``PATH``. Raises FileNotFoundError where there is none."""
    given = os.environ.get("AC_ADVISOR")
    if given:
        return given
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", f"{os.name}_user"),
        # pip install --target
        str(Path(__file__).resolve().parent.parent / "bin"),
    ]
    for folder in folders:
        path = os.path.join(folder, "ac-advisor")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("ac-advisor")
    if found is None:
        raise FileNotFoundError(
            "ac-advisor is neither in " + " nor in ".join(folders) + " nor on PATH; "
            "install the package again, or name the program in AC_ADVISOR"
        )
    return found


def run(arguments: Sequence[str], *, input: Optional[str] = None, judges: bool = False) -> str:
    """Runs the program with ``arguments``; what it writes to stdout. Its warnings become Python's.

    ``judges``: exit code 1 (a limit of the gate is exceeded) is a result as well. Raises UserError
    for exit code 2, Failed for all others."""
    ended = subprocess.run(
        [program(), *arguments], input=input, capture_output=True, encoding="utf-8"
    )
    message = ended.stderr.strip()
    if message.startswith(_PREFIX):
        message = message[len(_PREFIX) :]
    if ended.returncode == 2:
        raise UserError(message)
    if ended.returncode != 0 and not (judges and ended.returncode == 1):
        raise Failed(message or f"ended with code {ended.returncode}", ended.returncode)
    if message and not judges:  # a gate's messages are in its result
        warnings.warn(message, stacklevel=4)
    return ended.stdout
