"""The cases of a script that are run: all, or those that its arguments name; `--list` prints their names."""

import sys


def chosen(cases, names):
    if list(names) == ["--list"]:
        print(*cases, sep="\n")
        sys.exit()
    return {name: cases[name] for name in names or cases}
