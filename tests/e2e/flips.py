"""Requires a test to fail for each cell of a table that is replaced: flips.py SUITE LISTED [TABLE]...

SUITE is the test binary, built with the feature `rows`. Each of its tests runs alone once, to learn which cells it takes. Then
each cell is replaced in turn: one that changes something by none, another by what another state does, a decision by another
one. The tests that take it run, the quickest first, until one fails.

LISTED has the cells for which no test fails, `table × state × input: why`, under `# Equivalent` if the other row has the same
effect, else under `# Without a test`. A part may be several values, `a|b`. Fails if a cell that is not listed survives, or a
listed one does not.
"""

import collections
import itertools
import pathlib
import sys

from changed import Binary, learn, processors, survives


def listed(path):
    """The listed cells, each with its heading."""
    heading, cells = None, {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            heading = line[2:].lower()
        elif line:
            pattern, _why = line.split(": ", 1)
            cells |= dict.fromkeys(itertools.product(*(part.split("|") for part in pattern.split(" × "))), heading)
    return cells


def read(line):
    return tuple(line.split("\t")[1:]) if line.startswith("+") else None


def main(suite, path, *only):
    known = {cell: heading for cell, heading in listed(path).items() if not only or cell[0] in only}
    with processors() as pool:
        seconds, takers = learn([Binary(suite)], pool, "MCP_ROWS", read)
        cells = sorted(cell for cell in takers if not only or cell[0] in only)
        print(f"{len(seconds)} tests take {len(cells)} cells", flush=True)

        def result(cell):
            survived = survives(takers[cell], seconds, float("inf"), MCP_FLIP="\t".join(cell))
            if survived != (cell in known):
                what = "no test fails:" if survived else "listed, but a test fails:"
                print(f"{what} {' × '.join(cell)}\n", end="", flush=True)
            return known.get(cell, "survived") if survived else "caught"

        results = dict(zip(cells, pool.map(result, cells)))
    for cell in sorted(set(known) - set(cells)):
        print("listed, but no test takes it:", " × ".join(cell))
    for table in [*sorted({cell[0] for cell in cells}), *([] if only else ["all"])]:
        of = collections.Counter(result for cell, result in results.items() if table in ("all", cell[0]))
        counts = ", ".join(f"{of[it]} {it}" for it in ("caught", "equivalent", "without a test", "survived"))
        print(f"{table}: {of.total()} cells, {counts}")
    sys.exit(not cells or set(known) != {cell for cell in cells if results[cell] != "caught"})


if __name__ == "__main__":
    main(*sys.argv[1:])
