"""When a loop's names let go of what the step before made.

`held_until` of a case: `next-forward`, as in `for batch in data: output = model(**batch)`, whose output and loss live
until the next forward is done and they are assigned again; without it they are gone when that forward begins, as
those of a loop that clears them, or whose body is a function.
"""


def before_forward(case, names):
    if case.get("held_until") != "next-forward":
        names.clear()


def assign(names, *values):
    names[:] = values
