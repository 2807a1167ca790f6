"""Compares the required rows with the taken ones: rows.py ALL TAKEN..."""

import collections
import itertools
import sys


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [tuple(line.rstrip("\n").split("\t")) for line in lines]


def patterns(row):
    """A row of a decision table covers each combination of its values; "any" matches every value."""
    table, *inputs = row
    return itertools.product([table], *(["any"] if it == "any" else it.split(", ") for it in inputs))


def is_taken(row, taken):
    def matches(pattern):
        return any(all(p in ("any", it) for p, it in zip(pattern, other)) for other in taken[row[0]])

    return any(matches(pattern) for pattern in patterns(row))


def main(all_rows, *taken_files):
    taken = collections.defaultdict(set)
    for _test, *row in itertools.chain.from_iterable(map(read, taken_files)):
        taken[row[0]].add(tuple(row))
    rows = read(all_rows)
    missed = [row for row in rows if not is_taken(row, taken)]
    count, total = collections.Counter(), collections.Counter(row[0] for row in rows)
    count.update(row[0] for row in rows if row not in missed)
    for table in total:
        print(f"{table}: {count[table]} of {total[table]} rows taken")
    for row in missed:
        print("not taken:", " × ".join(row))
    sys.exit(bool(missed))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("no test recorded a row")
    main(*sys.argv[1:])
