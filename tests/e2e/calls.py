"""Fails if functions of two files call each other, directly or in a circle of files.

It reads an index of the workspace in SCIP's format, a Protocol Buffers message, as `rust-analyzer scip` writes it. A use
of a function's name counts as a call. Inline modules for tests are left out.

usage: calls.py INDEX FOLDER
"""
import collections, pathlib, re, sys

# Field numbers of scip.proto.
DOCUMENTS, PATH, OCCURRENCES = 2, 1, 2
RANGE, SYMBOL, ROLES = 1, 2, 3
DEFINITION = 1


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """The numbers and values of a message's fields: integers and byte strings, which are all that the index has."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        elif key & 7:
            raise SystemExit(f"the index has a field of the unexpected type {key & 7}")
        yield key >> 3, value


def occurrences(index, folder):
    """Each occurrence of a function's name in the folder: the file, the line, the symbol, whether it is the definition."""
    for number, document in fields(index):
        if number != DOCUMENTS:
            continue
        members = list(fields(document))
        path = next(bytes(value).decode() for number, value in members if number == PATH)
        if not path.startswith(folder):
            continue
        tests = first_line_of_tests(path)
        for number, value in members:
            if number != OCCURRENCES:
                continue
            found = dict(fields(value))
            symbol, line = bytes(found[SYMBOL]).decode(), varint(found[RANGE], 0)[0] + 1
            if symbol.endswith("().") and line < tests:
                yield path, line, symbol, bool(found.get(ROLES, 0) & DEFINITION)


def first_line_of_tests(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    match = re.search(r"(?m)^#\[cfg\(test\)\]\s*mod \w+ \{", text)
    return text.count("\n", 0, match.start()) + 1 if match else sys.maxsize


def circles(calls):
    """The strongly connected components of more than one file (Tarjan)."""
    place, low, stack, found = {}, {}, [], []

    def visit(file):
        place[file] = low[file] = len(place)
        stack.append(file)
        for callee in calls[file]:
            if callee not in place:
                visit(callee)
                low[file] = min(low[file], low[callee])
            elif callee in stack:
                low[file] = min(low[file], place[callee])
        if low[file] == place[file]:
            at = stack.index(file)
            found.append(stack[at:])
            del stack[at:]

    for file in sorted(calls):
        if file not in place:
            visit(file)
    return [circle for circle in found if len(circle) > 1]


def main(index, folder):
    defined, used = {}, []
    for path, line, symbol, definition in occurrences(memoryview(pathlib.Path(index).read_bytes()), folder):
        if definition:
            defined[symbol] = path
        else:
            used.append((path, line, symbol))
    calls = collections.defaultdict(lambda: collections.defaultdict(list))
    for path, line, symbol in used:
        if defined.get(symbol, path) != path:
            calls[path][defined[symbol]].append(f"{line}: {symbol.rsplit('/', 1)[-1]}")
    for file in list(defined.values()):
        calls[file]
    found = circles(calls)
    for circle in found:
        print("files whose functions call each other:")
        for file in sorted(circle):
            for callee in sorted(set(circle) & set(calls[file])):
                print(f"  {file} calls {callee}: {', '.join(calls[file][callee][:3])}")
    count = sum(len(lines) for callees in calls.values() for lines in callees.values())
    if not count:
        raise SystemExit(f"no calls between files of {folder} are in the index")
    print(f"{count} calls between {len(calls)} files of {folder}, {len(found)} circles")
    sys.exit(bool(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
