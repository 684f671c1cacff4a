"""``python -m ac_advisor``: the program itself, with the same arguments and exit codes."""

import os
import sys

from ._program import program


def main() -> None:
    path = program()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
