"""Rows as JSON lines: each is written whole and flushed before the next is measured, so whatever ends the run leaves a
file that parses, but for a last line that was cut short."""

import json
import os


class Rows:
    def __init__(self, path):
        self.path = path
        # One write a line, past Python's buffer: killed between two writes, the file ends with a whole line.
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, row):
        os.write(self.file, (json.dumps(row) + "\n").encode())


def read(path):
    """The rows of a file; a last line that was cut short is none."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def latest(rows):
    """By label: of two rows of one label a later one counts, unless it failed where the earlier one had not."""
    found = {}
    for row in rows:
        before = found.get(row["label"])
        if before is None or "failed" not in row or "failed" in before:
            found[row["label"]] = row
    return found
