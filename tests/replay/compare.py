#!/usr/bin/env python3
"""Compares what two builds of replay_record said of one list; ./replay calls it.

A case that both planned has moved where a part that both have differs: the program, the schedule, or a member
of the plan's JSON. A member that only one build writes is told once and is no difference.
"""

import argparse
import collections
import difflib
import json
import subprocess
import sys

WORDS = ("assumptions", "warnings")  # sentences, not figures


def read(path):
    with open(path, encoding="utf-8") as file:
        return {line["case"]: line for line in map(json.loads, file)}


def moved_parts(before, after):
    both = before["parts"].keys() & after["parts"].keys()
    return sorted(part for part in both if before["parts"][part] != after["parts"][part])


def difference(programs, listed, case, lines=24):
    texts = [
        subprocess.run([program, listed, "--show", case], check=True, capture_output=True, text=True).stdout
        for program in programs
    ]
    diff = list(difflib.unified_diff(*(text.splitlines() for text in texts), "before", "after", lineterm="", n=1))
    return "\n".join(diff[:lines] + ([f"… {len(diff) - lines} lines more"] if len(diff) > lines else []))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", required=True)
    parser.add_argument("--rows", type=int, default=3)
    parser.add_argument("before_program")
    parser.add_argument("before")
    parser.add_argument("after_program")
    parser.add_argument("after")
    options = parser.parse_args()
    before, after = read(options.before), read(options.after)
    outcomes = collections.defaultdict(list)
    new_members, gone_members, by_part = set(), set(), collections.Counter()
    for case, old in before.items():
        new = after[case]
        if "refused" in old or "refused" in new:
            outcomes[
                "refused by both"
                if "refused" in old and old["refused"] == new.get("refused")
                else "refused in other words"
                if "refused" in old and "refused" in new
                else "planned now"
                if "refused" in old
                else "refused now"
            ].append(case)
            continue
        new_members |= new["parts"].keys() - old["parts"].keys()
        gone_members |= old["parts"].keys() - new["parts"].keys()
        parts = moved_parts(old, new)
        by_part.update(parts)
        outcomes[
            "the same" if not parts else "other sentences" if set(parts) <= set(WORDS) else "moved"
        ].append(case)
    counts = ", ".join(f"{len(cases)} {name}" for name, cases in sorted(outcomes.items()))
    print(f"{len(before)} cases: {counts}")
    if new_members or gone_members:
        print("members of the plan that only one has: " + ", ".join(
            [f"+{name}" for name in sorted(new_members)] + [f"-{name}" for name in sorted(gone_members)]))
    if by_part:
        print("parts that moved: " + ", ".join(f"{part} {count}" for part, count in by_part.most_common()))
    programs = (options.before_program, options.after_program)
    for outcome in ("moved", "refused now"):
        cases = outcomes[outcome]
        for case in cases[: options.rows]:
            print(f"\n{outcome}: {case}\n{difference(programs, options.list, case)}")
        if len(cases) > options.rows:
            print(f"\n{len(cases) - options.rows} more {outcome}:")
            for case in cases[options.rows : options.rows + 20]:
                print(f"  {case}")
    return 1 if outcomes["moved"] or outcomes["refused now"] else 0


if __name__ == "__main__":
    sys.exit(main())
