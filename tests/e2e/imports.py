"""Fails if an import in src/ points up a layer, or if components import each other, directly or in a circle. Other packages
have no layers, and each file or folder at the top is a component.

In `client`, `binding` and `host` a component is a file or a folder directly below, and the files that `SHARED` names
together are one; every other module at the top is one component. The file of a layer itself (`mod.rs`) counts if it
defines something that others import. An inherent `impl` block counts as an import in both directions, because its
functions are called through values of the type: a component that has no way to name another or to hold a value of it
cannot call it.

It reads `use` declarations, paths in the code, and paths in attributes such as `serde(with = "…")`. An import of a
re-exported item counts as one of the file that defines the item. A `pub use` of a descendant, which the module does not
use itself, is no import. Modules that are compiled for tests only are left out.

usage: imports.py SRC [--flat]
"""
import collections, os, re, sys

# A layer imports only its own files and the layers below it; lib.rs only declares and re-exports.
LAYERS = [
    ["testkit", "guide"], ["journal"], ["host", "skills", "diagnosis"], ["binding"], ["client"], ["catalog"], ["machine"],
    ["protocol"], ["validation"], ["snapshot"], ["jsonrpc"], ["form"], ["time", "text", "encodings", "collections"],
]
SPLIT = {"client", "binding", "host"}
# The state that all components of a client share, and the engine, the only one that sees all components.
SHARED = {
    "client/action": "client/core", "client/request_table": "client/core", "client/server": "client/core",
    "client/exchanges": "client/engine",
}
LAYER_OF = {name: at for at, names in enumerate(LAYERS) for name in names}

# They only declare and re-export, or start the program.
ROOTS = ("lib.rs", "main.rs")
PATH = re.compile(r"(?<![\w:$])(?:crate|self|super|[a-z]\w*)(?:::\w+)+")
USE = re.compile(r"(?m)^[ \t]*((?:pub(?:\([^)]*\))?[ \t]+)?)use\s+([^;]+);")
IMPL = re.compile(r"(?m)^impl\b(?:\s*<(?:[^<>{]|<[^<>{]*>)*>)?\s+(\w+)(?:<[^{]*?>)?\s*(?:where[^{]*)?\{")
DEFINES = re.compile(r"\b(?:struct|enum|trait|type|const|static|fn|union|macro_rules!)\s+(\w+)")


def read(path):
    text = open(path, encoding="utf-8").read()
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    text = re.sub(r'"((?:crate|self|super)(?:::\w+)+)"', r"\1", text)
    text = re.sub(r"b?'(?:\\.[^']*|[^'\\])'", "' '", text)
    text = re.sub(r'r(#*)".*?"\1|"(?:\\.|[^"\\])*"', '""', text, flags=re.S)
    return re.sub(r"pub\(in [^)]*\)", "pub(crate)", text)


def block_end(text, start):
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.end()
    raise SystemExit("a block does not end")


def scopes(module, text):
    """The modules in a file, without those for tests: their paths and texts."""
    match = re.search(r"(#\[cfg\(test\)\]\s*)?(?:pub(?:\([^)]*\))?\s+)?\bmod\s+(\w+)\s*\{", text)
    if not match:
        return [(module, text)]
    end = block_end(text, match.end())
    found = [] if match[1] else scopes(module + (match[2],), text[match.end():end - 1])
    return found + scopes(module, text[:match.start()] + text[end:])


def leaves(tree, before=()):
    """The paths of a `use` declaration, with the names that they get."""
    match = re.fullmatch(r"\s*((?:[\w]+\s*::\s*)*)\{(.*)\}\s*", tree, re.S)
    if not match:
        path, _, name = tree.strip().partition(" as ")
        path = before + tuple(re.split(r"\s*::\s*", path.strip().removeprefix("::")))
        path = path[:-1] if path[-1] == "self" and len(path) > 1 else path
        return [(path, name.strip() or path[-1])]
    prefix = before + tuple(part for part in re.split(r"\s*::\s*", match[1]) if part)
    parts, depth = [""], 0
    for char in match[2]:
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [leaf for part in parts if part.strip() for leaf in leaves(part, prefix)]


class Crate:
    def __init__(self, root):
        texts = {}
        for folder, _, names in os.walk(root):
            for name in names:
                if name.endswith(".rs"):
                    path = os.path.join(folder, name)
                    texts[os.path.relpath(path, root)] = read(path)
        module = {path: tuple(p for p in path[:-3].split("/") if p not in ("mod", "lib", "main")) for path in texts}
        tests = [
            module[path] + (name,)
            for path, text in texts.items()
            for name in re.findall(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", text)
        ]
        self.file_of, self.uses, self.code, self.names = {}, {}, {}, collections.defaultdict(dict)
        self.defines = collections.defaultdict(set)
        for path, text in sorted(texts.items()):
            if any(module[path][:len(test)] == test for test in tests):
                continue
            for inner, code in scopes(module[path], text):
                self.file_of[inner] = path
                self.code[inner] = USE.sub("", code)
                self.defines[inner] = set(DEFINES.findall(code))
                self.uses[inner] = [
                    (bool(m[1]), leaf, name) for m in USE.finditer(code) for leaf, name in leaves(m[2])
                ]
        for inner, uses in self.uses.items():
            for _, leaf, name in uses:
                target = self.absolute(inner, leaf)
                if target is not None and name not in self.defines[inner]:
                    self.names[inner][name] = target

    def absolute(self, module, path):
        """A path from the root of the crate; none for one of another crate."""
        if path[0] == "crate":
            return path[1:]
        if path[0] == "self":
            return module + path[1:]
        if path[0] == "super":
            while path and path[0] == "super":
                module, path = module[:-1], path[1:]
            return module + path
        return module + path if module + path[:1] in self.file_of else None

    def definition(self, path, depth=0):
        """The file that defines what a path names, through re-exports."""
        for length in range(len(path), -1, -1):
            module = path[:length]
            if module in self.file_of:
                if length < len(path) and depth < 16:
                    target = self.names[module].get(path[length])
                    if target is not None and target != path[:length + 1]:
                        return self.definition(target + path[length + 1:], depth + 1)
                return self.file_of[module]

    def imports(self):
        """For each file the files that it imports, with the paths."""
        found = collections.defaultdict(lambda: collections.defaultdict(set))
        for module, uses in self.uses.items():
            code, paths = self.code[module], []
            for public, leaf, name in uses:
                target = self.absolute(module, leaf)
                of_descendant = target is not None and target[:len(module)] == module
                if not (public and of_descendant and not re.search(rf"\b{re.escape(name)}\b", code)):
                    paths.append(leaf)
            paths += [tuple(match.group().split("::")) for match in PATH.finditer(code)]
            for path in paths:
                # A path may begin with a name that is imported, which counts already.
                target = None if path[0] in self.names[module] else self.absolute(module, path)
                file, own = self.definition(target) if target is not None else None, self.file_of[module]
                if file not in (None, own, *ROOTS) and own not in ROOTS:
                    found[own][file].add("::".join(path))
            for name in set(IMPL.findall(code)) - self.defines[module]:
                file = self.definition(self.names[module].get(name, ()))
                if file not in (None, *ROOTS, self.file_of[module]) and layer(file) == layer(self.file_of[module]):
                    found[file][self.file_of[module]].add(f"impl {name}")
        return found


def circles(graph):
    """The groups of components of which each reaches each other one."""
    reach = {}
    for start in graph:
        seen, todo = set(), [start]
        while todo:
            for file in graph.get(todo.pop(), ()):
                if file not in seen:
                    seen.add(file)
                    todo.append(file)
        reach[start] = seen
    groups = {frozenset(b for b in reach[a] if a in reach.get(b, ())) for a in reach if a in reach[a]}
    return sorted(sorted(group) for group in groups)


FLAT = "--flat" in sys.argv


def layer(file):
    return 0 if FLAT else LAYER_OF[file.removesuffix(".rs").split("/")[0]]


def component(file):
    name = "/".join(file.removesuffix(".rs").split("/")[:2])
    name = name if name.split("/")[0] in SPLIT else name.split("/")[0]
    return SHARED.get(name, name)


files = Crate(sys.argv[1]).imports()
graph = collections.defaultdict(lambda: collections.defaultdict(set))
wrong = []
for a in sorted(files):
    for b in sorted(files[a]):
        why = f"{a} → {b} ({', '.join(sorted(files[a][b]))})"
        if layer(b) < layer(a):
            wrong.append(f"points up: {why}")
        elif component(a) != component(b):
            graph[component(a)][component(b)].add(why)
for circle in circles(graph):
    wrong.append(f"circle: {', '.join(circle)}")
    wrong += [f"  {why}" for a in circle for b in circle if b in graph[a] for why in sorted(graph[a][b])]
if wrong:
    sys.exit("\n".join(wrong))
print(f"{sum(map(len, graph.values()))} imports between {len(graph)} components: none points up, none is in a circle")
