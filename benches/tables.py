"""Tables of what benches/run measured.

tables.py limit RESULTS          prints each workload as a multiple of the least work, beside the raw floor and rmcp
tables.py readme RESULTS README  rewrites the part of README between the markers
"""

import pathlib
import re
import sys

from figures import CLIENT, FLOOR, PEER, WHAT, fields, rows

LIMIT, RMCP = "limit", "rmcp-mem"
PER_OPERATION = ("w1", "w2", "w3", "w5", "w1m", "w2m", "h1", "h2", "h2s", "h1m", "h2m")
HELD = {"w4": RMCP, "h4": "rmcp"}
BEGIN, END = "<!-- figures: benches/readme -->\n", "<!-- /figures -->\n"
INTRODUCTION = """The cost of an operation beside reading and writing the same bytes with bare `serde_json`, in instructions; rmcp 3.11 with
its fastest transport:

"""


class Results:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.instructions = {(name, workload): int(value) for name, workload, value in rows(folder / "instr.tsv")}
        self.heap = {(row[0], row[2]): fields(row) for row in rows(folder / "heap.tsv")}
        self.memory = {(row[0], row[2]): fields(row) for row in rows(folder / "mem.tsv")}

    def net(self, name, workload):
        """Instructions without those of the peer; none if the client lacks the workload."""
        whole = self.instructions.get((name, workload))
        return whole and whole - self.instructions[PEER, workload]

    def times(self, name, other, workload):
        one, two = self.net(name, workload), self.net(other, workload)
        return f"{one / two:.2f}" if one and two else "–"

    def rmcp(self, workload):
        """rmcp's best case; over HTTP it has one."""
        return RMCP if (RMCP, workload) in self.instructions else "rmcp"


def table(head, body):
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *body]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def limit(results):
    workloads = [workload for name, workload in results.instructions if name == LIMIT]
    body = [
        [
            WHAT[workload],
            str(results.net(LIMIT, workload)),
            *(results.times(name, LIMIT, workload) for name in (CLIENT, FLOOR, results.rmcp(workload))),
        ]
        for workload in workloads
    ]
    return table(["instructions", "least work", "mcp-proto ×", "bare serde_json ×", "rmcp ×"], body)


def readme(results):
    def allocations(name, workload):
        count = results.heap.get((name, workload))
        return f"{float(count['allocs/op']):.0f}" if count else "–"

    body = []
    for workload in PER_OPERATION:
        rmcp = results.rmcp(workload)
        ratios = [results.times(name, FLOOR, workload) for name in (CLIENT, rmcp)]
        body.append([WHAT[workload], *ratios, allocations(CLIENT, workload), allocations(rmcp, workload)])
    head = ["an operation", "instructions × bare serde_json", "rmcp's", "allocations", "rmcp's"]
    text = table(head, body)
    held = [
        [WHAT[workload], *(results.memory[name, workload]["live_bytes/session"] for name in (CLIENT, rmcp))]
        for workload, rmcp in HELD.items()
    ]
    return INTRODUCTION + text + "\n" + table(["heap, lists aside", "bytes", "rmcp's"], held)


def main(which, folder, file=None):
    results = Results(folder)
    if which == "limit":
        print(limit(results), end="")
        return
    path = pathlib.Path(file)
    text, count = re.subn(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}",
        lambda _: BEGIN + "\n" + readme(results) + "\n" + END,
        path.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    if count != 1:
        sys.exit(f"{file} has no part between {BEGIN.strip()} and {END.strip()}")
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
