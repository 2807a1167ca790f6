"""Compares measured costs with those in the repository: figures.py RESULTS FIGURES (BLESS=1 writes FIGURES)."""

import os
import pathlib
import sys

CLIENT, FLOOR, PEER = "mcp-proto", "floor-raw", "floor-null"
MORE_INSTRUCTIONS = 1.02
WHAT = {
    "w1": "connect, 50 tools",
    "w2": "call",
    "w3": "progress notification",
    "w3log": "log notification",
    "w5": "connect, 2,000 tools",
    "w1m": "connect, modern",
    "w2m": "call, modern",
    "h1": "connect and close over HTTP",
    "h2": "call over HTTP, JSON",
    "h2s": "call over HTTP, stream",
    "h1m": "connect and close over HTTP, modern",
    "h2m": "call over HTTP, modern",
    "w4": "idle session",
    "h4": "idle session over HTTP",
    "used": "held more after a call",
    "hub": "a hub's call, to one without a hub",
    "hub_": "the same, names with several _",
    "hub10k": "the same, 10,000 of each",
}

# The costs that are to be reached.
GOALS = {
    "w1": 1.25,
    "w2": 0.85,
    "w3": 1.0,
    "w5": 1.15,
    "w1m": 1.25,
    "w2m": 0.9,
    "h1": 1.3,
    "h2": 1.2,
    "h2s": 1.2,
    "h1m": 1.3,
    "h2m": 1.2,
    "w4": 600,
    "h4": 1700,
    "used": 0,
    "hub": 1.4,
    "hub10k": 1.4,
}


def rows(path):
    with open(path, encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines if line.strip() and not line.startswith("#")]


def fields(row):
    return dict(field.split("=", 1) for field in row if "=" in field)


def measured(results):
    """Per workload: a cost (instructions as a ratio, or bytes held), and allocations (or blocks held)."""
    results = pathlib.Path(results)
    instructions = {(name, workload): int(value) for name, workload, value in rows(results / "instr.tsv")}
    figures = {}
    for row in rows(results / "heap.tsv"):
        if row[0] == CLIENT:
            workload = row[2]
            peer = instructions[PEER, workload]
            ratio = (instructions[CLIENT, workload] - peer) / (instructions[FLOOR, workload] - peer)
            figures[workload] = ratio, float(fields(row)["allocs/op"])
    for row in rows(results / "mem.tsv"):
        if row[0] == CLIENT and row[2] in WHAT:
            held = fields(row)
            figures[row[2]] = float(held["live_bytes/session"]), float(held["live_blocks/session"])
    for hub, cost, allocations in rows(results / "hub.tsv"):
        figures[hub] = float(cost), float(allocations)
    missing = WHAT.keys() - figures.keys()
    if missing:
        sys.exit(f"not measured: {', '.join(sorted(missing))}")
    return figures


def main(results, file):
    figures = measured(results)
    known = {row[0]: row for row in rows(file)} if os.path.exists(file) else {}
    failed = False
    print(f"{'':38}{'cost':>10}{'was':>10}{'allocs':>10}{'was':>10}{'to reach':>10}")
    for workload, what in WHAT.items():
        cost, allocations = figures[workload]
        if workload not in known:
            print(f"{what:38}{cost:10.3f}{'-':>10}{allocations:10.2f}{'-':>10}")
            failed = failed or not os.environ.get("BLESS")
            continue
        was_cost, was_allocations = float(known[workload][2]), float(known[workload][3])
        held = workload in ("w4", "h4", "used")
        over = cost > was_cost * (1 if held else MORE_INSTRUCTIONS) or allocations > was_allocations + 0.005
        failed = failed or over
        goal = GOALS.get(workload)
        reached = "" if goal is None else f"{goal:10}  {'reached' if round(cost, 2) <= goal else 'not reached'}"
        verdict = "  FAILED" if over else "  less than written" if cost < was_cost / MORE_INSTRUCTIONS else ""
        print(f"{what:38}{cost:10.3f}{was_cost:10.3f}{allocations:10.2f}{was_allocations:10.2f}{reached}{verdict}")
    if os.environ.get("BLESS"):
        with open(file, "w", encoding="utf-8") as out:
            out.write("# workload, what, instructions net of the peer as a ratio to the bare-JSON floor (of an idle session:\n")
            out.write("# bytes held; of a hub's call: as a ratio to a call of as many without a hub), allocations (of an idle session:\n")
            out.write("# blocks held), why it is more than before\n")
            for workload, what in WHAT.items():
                cost, allocations = figures[workload]
                why = known.get(workload, [""] * 5)[4:]
                out.write("\t".join([workload, what, f"{cost:.3f}", f"{allocations:.2f}", *why]).rstrip() + "\n")
        return
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
