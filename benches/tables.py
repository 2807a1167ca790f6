"""Tables of what benches/run and end_to_end/run measured.

tables.py limit RESULTS               prints each workload as a multiple of the least work, beside the raw floor and rmcp
tables.py readme RESULTS README       rewrites the part of README between the markers
tables.py end-to-end RESULTS          prints what end_to_end/run measured
tables.py end-to-end RESULTS README   rewrites the part of README between its markers
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

END_TO_END = "<!-- figures: benches/readme end-to-end -->\n", "<!-- /figures -->\n"
END_TO_END_INTRODUCTION = """Both drivers end to end, with a process or an HTTP server at the other end, as multiples of what rmcp takes in the same
run: its time, and the CPU time of the client's process. Over HTTP it is rmcp with a client that keeps connections (by default
it opens one for each request). The bare loop reads and writes the bytes on tokio, with `serde_json`, and checks nothing:

"""
# What README has of the cases, by their names.
IN_README = {
    "stdio legacy: calls, 1 at once": "a call over stdio",
    "stdio legacy: calls, 16 at once": "16 at once",
    "stdio legacy: calls, 256 at once": "256 at once",
    "stdio modern: calls, 1 at once": "a call over stdio, modern",
    "json legacy: calls, 1 at once": "a call over HTTP, JSON",
    "json legacy: calls, 16 at once": "16 at once",
    "json legacy: calls, 256 at once": "256 at once",
    "events legacy: calls, 1 at once": "a call over HTTP, stream",
    "events legacy: calls, 16 at once": "16 at once",
    "stdio legacy: connect and list 50 tools": "connect and list 50 tools, stdio",
    "stdio legacy: connect and list 2000 tools": "2,000 tools",
    "json legacy: connect and list 50 tools": "50 tools, HTTP",
    "stdio legacy: notifications": "a progress notification",
    "stdio legacy: 10 MB received": "a result of 10 MB",
    "stdio legacy: 10 MB and its text read": "and its text read",
}


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


class EndToEnd:
    """What end_to_end/run measured: of each case and client microseconds and ratios, or one number."""

    OTHERS = ("rmcp", "rmcp-pooled", "bare")

    def __init__(self, file):
        with open(file, encoding="utf-8") as lines:
            lines = [line.rstrip("\n") for line in lines]
        self.notes = [line for line in lines if line.startswith("# ") and " got " in line or "no result" in line]
        fields = [line.split("\t") for line in lines if line and not line.startswith("#")]
        self.times = {(row[0], row[1]): row[2:] for row in fields if len(row) > 3}
        self.numbers = {(row[0], row[1]): row[2] for row in fields if len(row) == 3}

    def cases(self, of):
        return list(dict.fromkeys(case for case, _ in of))

    def ratio(self, case, client, other):
        """Time and CPU time as multiples of another client's."""
        row = self.times.get((case, client))
        if row is None:
            return "–", "–"
        at = 2 + 2 * self.OTHERS.index(other)
        return tuple("–" if it == "-" else f"{float(it):.2f}" for it in row[at : at + 2])

    def rows(self, names):
        for case, name in names.items():
            rmcp = "rmcp" if case.startswith("stdio") else "rmcp-pooled"
            of = [self.ratio(case, "tokio", rmcp), self.ratio(case, "std", rmcp), self.ratio(case, "tokio", "bare")]
            yield [name, *(f"{wall}, {cpu}" if wall != "–" else "–" for wall, cpu in of)]

    def held(self, names, clients):
        for case in names:
            yield [case, *(self.numbers.get((case, client), "–") for client in clients)]


def end_to_end(results, names):
    head = ["time, CPU", "mcp-proto-tokio × rmcp", "mcp-proto-std × rmcp", "mcp-proto-tokio × a bare loop"]
    clients = ["tokio", "std", "rmcp", "bare"]
    what = {
        "idle stdio": "KB of resident memory of an idle session, stdio",
        "idle json": "the same over HTTP",
        "system calls stdio": "system calls of a call, stdio",
        "system calls json": "the same over HTTP",
        "peak stdio 50 MB received": "heap for a result of 50 MB, × its size",
        "peak stdio 50 MB and its text read": "with its text",
    }
    numbers = [[what[row[0]], *row[1:]] for row in results.held(what, clients)]
    second = table(["", "mcp-proto-tokio", "mcp-proto-std", "rmcp", "bare loop"], numbers)
    return table(head, results.rows(names)) + "\n" + second


def whole(results):
    """Each case with the microseconds of each client, and ratios to both ways that rmcp is measured."""
    body = []
    for case in results.cases(results.times):
        for client in ("tokio", "std", "rmcp", "rmcp-pooled", "bare"):
            if (case, client) in results.times:
                wall, cpu = (f"{float(it):.1f}" for it in results.times[case, client][:2])
                ratios = (", ".join(results.ratio(case, client, other)) for other in results.OTHERS)
                body.append([case, client, wall, cpu, *ratios])
    head = ["case", "client", "µs", "CPU µs", "× rmcp", "× rmcp that keeps connections", "× bare loop"]
    clients = ["tokio", "std", "rmcp", "bare"]
    numbers = table(["", *clients], results.held(results.cases(results.numbers), clients))
    return table(head, body) + "\n" + numbers + "".join(f"\n{note[2:]}\n" for note in results.notes)


def main(which, folder, file=None):
    if which == "end-to-end":
        results = EndToEnd(folder)
        if file is None:
            print(whole(results), end="")
        else:
            rewrite(file, *END_TO_END, END_TO_END_INTRODUCTION + end_to_end(results, IN_README))
        return
    results = Results(folder)
    if which == "limit":
        print(limit(results), end="")
        return
    rewrite(file, BEGIN, END, readme(results))


def rewrite(file, begin, end, tables):
    """Rewrites what is between two markers."""
    path = pathlib.Path(file)
    text, count = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}",
        lambda _: begin + "\n" + tables + "\n" + end,
        path.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    if count != 1:
        sys.exit(f"{file} has no part between {begin.strip()} and {end.strip()}")
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
