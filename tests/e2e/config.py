"""Runs probe with configuration files of demo servers, and of the real servers in the folder that the variable
SERVERS names, if any; and with a command.

usage: config.py PROBE [CASE]...
"""
import hashlib, json, os, signal, socket, subprocess, sys, tempfile, time

from cases import chosen

PROBE = os.path.abspath(sys.argv[1])
SERVERS = os.path.abspath(os.environ.get("SERVERS", "servers"))
FOLDER = tempfile.TemporaryDirectory()
RESOURCES, PROMPTS = ["list_resources", "read_resource"], ["list_prompts", "get_prompt"]


def path(name):
    return os.path.join(FOLDER.name, name)


def probe(args, env=None):
    """Returns the exit status, standard output and standard error of probe."""
    run = subprocess.run([PROBE] + args, env=dict(os.environ, **(env or {})), stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=300)
    return run.returncode, run.stdout, run.stderr


def write(name, servers, key="mcpServers"):
    with open(path(name), "w") as file:
        json.dump({key: servers}, file)
    return path(name)


def report(args, env=None):
    status, out, err = probe(["--json"] + args, env)
    return status, json.loads(out), err


def expect(what, got, want):
    if got != want:
        raise AssertionError("%s: %s, not %s" % (what, json.dumps(got)[:2000], json.dumps(want)[:2000]))


def within(what, text, whole):
    if text not in whole:
        raise AssertionError("%s: no %r in %r" % (what, text, whole[:2000]))


def demo(**more):
    return dict({"command": PROBE, "args": ["demo-server"]}, **more)


def marks(name):
    """A command that creates a file and exits; it is not a server."""
    return {"command": "sh", "args": ["-c", "echo a word on the way out >&2; : > \"$0\"; exit 3", path(name)]}


def outcomes(got):
    return {name: (server["outcome"], (server["failure"] or {}).get("kind")) for name, server in got["servers"].items()}


def usage():
    file = write("usage.json", {"one": demo(), "off": dict(marks("usage"), enabled=False)})
    with open(path("not.json"), "w") as text:
        text.write('{"mcpServers": ')
    with open(path("not.yaml"), "w") as text:
        text.write("mcp_servers: [a, b]\n")
    for args, words in [
        (["config"], "usage: config FILE"),
        (["config", path("missing.json")], "missing.json: "),
        (["config", path("not.json")], "as JSON: "),
        (["config", path("not.yaml")], "not a map by their names"),
        (["config", write("empty.json", {})], "there are no servers in it"),
        (["config", file, "two"], 'there is no server "two"; there are off, one'),
        (["--watch", "1", "config", file], "--watch is for one server"),
        (["--diagram", "config", file], "--diagram is for one server"),
        (["--read", "a:b", "config", file], "there is no --read"),
        (["config", "--json", file], "options come before the subcommand"),
    ]:
        status, out, err = probe(args)
        expect("exit status of %s" % args, status, 2)
        expect("output of %s" % args, out, "")
        within(args, words, err)
    status, got, _ = report(["config", file, "off"])
    expect("off alone", (status, outcomes(got)), (0, {"off": ("disabled", None)}))
    status, got, _ = report(["config", file, "one"])
    expect("one alone", (status, outcomes(got)), (0, {"one": ("ready", None)}))
    expect("what is turned off was opened", os.path.exists(path("usage")), False)


def command():
    """What is no subcommand is a command, and all that follows belongs to it."""
    status, got, _ = report(["--call", "echo", "--args", '{"text": "x"}', "sh", "-c", 'exec "$0" "$1"', PROBE, "demo-server"])
    expect("a command", (status, got["outcome"], got["calls"][0]["outcome"]), (0, "ready", "result"))
    status, got, err = report(["sh", "-c", 'echo "$@" >&2', "0", "--json", "--", "--help", "--era"])
    expect("its arguments", (status, set(err.splitlines())), (1, {"--json -- --help --era"}))
    status, got, _ = report(["no-such-program", "-y"])
    expect("a program that is missing", (status, got["failure"]["kind"]), (1, "spawn"))
    for word, meant in ("htp", "http"), ("confi", "config"), ("stdi", "stdio"):
        status, out, err = probe([word, "x"])
        expect("exit status of %s" % word, (status, out), (2, ""))
        within(word, "was `%s` meant?" % meant, err)
    os.mkdir(path("bin"))
    with open(path("bin/htp"), "w") as file:
        file.write('#!/bin/sh\nexec "$@"\n')
    os.chmod(path("bin/htp"), 0o755)
    status, got, _ = report(["htp", PROBE, "demo-server"], {"PATH": path("bin") + os.pathsep + os.environ["PATH"]})
    expect("a program that is there", (status, got["outcome"]), (0, "ready"))


def environment():
    """A program gets a few variables and those of its entry, and all with `--inherit-env`."""
    script = 'echo "of probe: $PROBE_TEST, own: $OWN, home: $HOME" >&2; exec "$0" demo-server'
    server = {"command": "sh", "args": ["-c", script, PROBE], "env": {"OWN": "x"}}
    file, env = write("environment.json", {"one": server}), {"PROBE_TEST": "y", "OWN": "z", "HOME": "/h"}
    for options, words in ([], "one: of probe: , own: x, home: /h\n"), (["--inherit-env"], "one: of probe: y, own: x, home: /h\n"):
        status, got, err = report([*options, "config", file], env)
        expect("outcome with %s" % options, (status, outcomes(got)), (0, {"one": ("ready", None)}))
        within("environment with %s" % options, words, err)
    status, out, err = probe(["--inherit-env", "stdio", "--", "x"])
    expect("exit status", (status, "--inherit-env is for `config`" in err), (2, True))


def side_by_side():
    """Three servers, each of which waits for the others; and others that fail."""
    together = "for each in a b c; do while [ ! -e \"$0.$each\" ]; do sleep 0.02; done; done; exec \"$@\""
    def waits(name, **more):
        args = ["-c", ": > \"$0.%s\"; %s" % (name, together), path("there"), PROBE, "demo-server"]
        return dict({"command": "sh", "args": args}, **more)

    servers = {
        "a": waits("a", tools={"include": ["echo", "ecco"]}),
        "b-b": waits("b", tools={"exclude": "*e*", "resources": "no"}, timeuot=3),
        "c": waits("c", tools={"include": [], "prompts": False, "resources": False}),
        "gone": marks("gone"),
        "missing": {"command": "${COMMAND}", "cwd": FOLDER.name},
        "nowhere": {"url": "http://127.0.0.1:1/mcp", "headers": {"x-y": "${env:TOKEN}"}},
        "off": dict(marks("off"), disabled=True),
        "both": {"command": "x", "url": "http://127.0.0.1:1/"},
        "variable": {"command": "x", "env": {"A": "${NO_SUCH_VARIABLE}"}},
        "header": {"url": "http://127.0.0.1:1/", "headers": {"a b": "secret-1"}},
    }
    call = ["--call", "mcp_a_echo", "--args", '{"text": "x"}', "--call", "mcp_b_b_echo", "--call", "mcp_b_b_list_prompts"]
    env = {"COMMAND": "not-there", "TOKEN": "secret-2"}
    status, got, err = report(call + ["config", write("demo.json", servers, "mcp_servers")], env)
    expect("exit status", status, 1)
    expect("outcomes", outcomes(got), {
        "a": ("ready", None), "b-b": ("ready", None), "c": ("ready", None), "off": ("disabled", None),
        "gone": ("failed", "closed"), "missing": ("failed", "spawn"), "nowhere": ("failed", "connect"),
        "both": ("failed", "configuration"), "variable": ("failed", "configuration"),
        "header": ("failed", "configuration"),
    })
    message = {name: server["failure"]["message"] for name, server in got["servers"].items() if server["failure"]}
    within("gone", "a word on the way out", message["gone"])
    within("missing", "`not-there`", message["missing"])
    within("nowhere", "nowhere (http://127.0.0.1:1/mcp) cannot be reached", message["nowhere"])
    within("both", "remove one of them", message["both"])
    within("variable", "there is no `NO_SUCH_VARIABLE`", message["variable"])
    within("header", "`headers.a b`", message["header"])
    expect("what is turned off was opened", os.path.exists(path("off")), False)
    expect("what is broken was opened", os.path.exists(path("gone")), True)
    for name in "a", "b-b", "c":
        server = got["servers"][name]
        expect(name, (server["connects"], server["families"]["tools"]["items"], server["quirks"]), (1, 7, []))
    exposed = {tool["name"]: tool["exposedName"] for tool in got["servers"]["a"]["tools"]}
    expect("exposed", {own: name for own, name in exposed.items() if name}, {"echo": "mcp_a_echo"})
    single = set(json.loads(probe(["--json"])[1]))
    for name, server in got["servers"].items():
        expect("members of %s" % name, set(server), single)
    expect("toolset", sorted(tool["name"] for tool in got["toolset"]),
           sorted(["mcp_a_" + tool for tool in ["echo"] + RESOURCES + PROMPTS] +
                  ["mcp_b_b_" + tool for tool in ["add", "fail", "slow"] + PROMPTS]))
    function = next(tool for tool in got["toolset"] if tool["name"] == "mcp_b_b_add")
    expect("add", {key: function[key] for key in ("server", "tool", "renamed", "description")},
           {"server": "b-b", "tool": "add", "renamed": "characters", "description": "Adds two numbers."})
    expect("its schema", function["inputSchema"]["type"], "object")
    left_out = {(it["server"], it["tool"]): it["why"] for it in got["leftOut"]}
    expect("echo of b-b", left_out["b-b", "echo"], "`exclude` names it")
    expect("add of a", left_out["a", "add"], "`include` does not name it")
    expect("list_prompts of c", left_out["c", "list_prompts"], "the configuration turns it off")
    expect("errors", sorted({it["server"] for it in got["configuration"]["errors"]}), ["both", "header", "variable"])
    expect("warnings", [(it["server"], it["key"]) for it in got["configuration"]["warnings"]],
           [("b-b", "timeuot"), ("a", "tools.include")])
    expect("calls", [(call["server"], call["target"], call["outcome"]) for call in got["calls"]],
           [("a", "mcp_a_echo", "result"), (None, "mcp_b_b_echo", "not-advertised"),
            ("b-b", "mcp_b_b_list_prompts", "result")])
    within("standard error", "was `timeout` meant?", err)
    for secret in "secret-1", "secret-2":
        expect("a secret that is told", secret in err + json.dumps(got), False)


def for_people():
    servers = {"one": demo(tools={"exclude": "echo"}), "two": demo(), "off": demo(enabled=False)}
    yaml = path("people.yaml")
    with open(yaml, "w") as file:
        file.write("mcp_servers:\n")
        for name, entry in servers.items():
            file.write("  %s: %s\n" % (name, json.dumps(entry)))
    status, out, err = probe(["config", yaml])
    expect("exit status", status, 0)
    _, version, _ = probe(["--version"])
    demo_server = version.strip().replace("mcp-probe", "demo-garden")
    for words in (demo_server + ": ready, 7 tools (one)", demo_server + ": ready, 7 tools (two)", "off  disabled", "What a model would get  21",
                  "echo of one: `exclude` names it"):
        within("report", words, out)
    for words in ("  one  ready, 7 tools\n", "  two  ready, 7 tools\n"):
        within("standard error", words, err)
    _, out, _ = probe(["--call", "nosuch", "config", yaml])
    within("report", "not sent: no server has a tool of this name", out)
    servers = {"a": {"comand": "x"}, "bad": {"url": "htp://x"}, "gone": {"command": "/nonexistent/server"}, "one": demo()}
    status, out, err = probe(["config", write("failed.json", servers)])
    expect("exit status", status, 1)
    within("standard error", "was `command` meant?", err)
    for words in ("a: ", "gone: there is no such command: `/nonexistent/server`", "`/nonexistent/server`"):
        within("report", words, out)
    places = [out.find(words) for words in ("configuration: ", "gone: there is no", "What a model would get")]
    expect("order", (places == sorted(places), min(places) > 0), (True, True))
    within("report", "its `url` is invalid", out)
    expect("advice of an invalid URL", "Is the server running" in out, False)


def find():
    """What hosts have on this machine, of which nothing is started."""
    home = path("home")
    for file, text in {
        ".cursor/mcp.json": '{"mcpServers": {"a": {"command": "touch", "args": ["started", "--token", "hush-hush-hush"]}}}',
        ".mcp.json": json.dumps({"mcpServers": {
            "off": {"url": "https://a.example/mcp?exaApiKey=hush-hush-hush", "disabled": True},
            "header": {"command": "npx", "args": ["mcp-remote", "https://h.example", "--header", "Authorization: Bearer hush-hush-hush"]},
            "words": {"command": "uvx srv --api-key hush-hush-hush"},
            "quoted": {"command": "x", "args": ["--token", 'hush-hush "hush"']},
            "endless": {"command": "x", "envFile": "/dev/zero", "env": {"\x1b]0;x\x07A": "1"}},
        }}),
        ".claude.json": '{"projects": {"/x": {"mcpServers": {"p": {"command": "touch", "args": ["started"]}}}}}',
        ".codex/config.toml": '[mcp_servers.b]\nurl = "https://b.example/mcp"\n',
        ".config/zed/settings.json": '// mine\n{"theme": "x", "context_servers": {"c": {"command": "touch", "args": ["started"]}},}',
        ".config/opencode/opencode.jsonc": '{"mcp": {"d": {"type": "local", "command": ["touch", "started"]}}}',
        ".config/goose/config.yaml": "extensions: {e: {type: stdio, cmd: touch, args: [started], enabled: false}}",
        "project/.vscode/mcp.json": '{"servers": {"f": {"command": "touch", "args": ["started"]}}}',
        "project/.gemini/settings.json": '{"mcpServers": {"g": {"httpUrl": "https://g.example/mcp"}}}',
        ".config/Claude/claude_desktop_config.json": '{"mcpServers": {"h": {"command": "C:\\Users"}}}',
    }.items():
        os.makedirs(os.path.dirname(os.path.join(home, file)), exist_ok=True)
        with open(os.path.join(home, file), "w") as out:
            out.write(text)
    project = os.path.join(home, "project")
    for args in ([], ["--json"]):
        done = subprocess.run([PROBE, *args, "config", "--find"], capture_output=True, text=True, cwd=project, check=False,
                              env={"HOME": home, "PATH": os.environ["PATH"]})
        expect("secrets", "hush" in done.stdout + done.stderr, False)
        # A file cannot be used.
        expect("exit status", done.returncode, 1)
    files = {file["host"]: file for file in json.loads(done.stdout)["files"]}
    names = {host: [server["name"] for server in file["servers"]] for host, file in files.items()}
    expect("home", "mcp-remote" in done.stdout, False)
    done = subprocess.run([PROBE, "config", "--find"], capture_output=True, text=True, cwd=home, check=False,
                          env={"HOME": home, "PATH": os.environ["PATH"]})
    expect("secrets", "hush" in done.stdout + done.stderr, False)
    expect("control characters", "\x1b" in done.stdout, False)
    within("report", "mcp-remote", done.stdout)
    expect("once", done.stdout.count(".cursor/mcp.json"), 1)
    expect("servers", names, {
        "Claude Desktop": [], "Claude Code": ["p"], "Cursor": ["a"], "VS Code": ["f"], "Codex": ["b"], "Zed": ["c"],
        "Gemini CLI": ["g"], "opencode": ["d"], "goose": ["e"],
    })
    within("error", "a backslash in a string is written twice", files["Claude Desktop"]["error"])
    expect("enabled", files["goose"]["servers"][0]["enabled"], False)
    expect("started", [name for name in os.listdir(project) if not name.startswith(".")], [])


def time_is_up():
    """One server does not respond before the timeout; the other becomes ready."""
    servers = {"one": demo(), "silent": {"command": "sh", "args": ["-c", "while read -r line; do :; done"]}}
    status, got, _ = report(["--timeout", "6", "config", write("silent.json", servers)])
    expect("exit status", status, 1)
    expect("outcomes", outcomes(got), {"one": ("ready", None), "silent": ("failed", "timeout")})
    within("silent", "waited for the answer", got["servers"]["silent"]["failure"]["message"])
    expect("toolset", {tool["server"] for tool in got["toolset"]}, {"one"})
    servers["silent"]["connect_timeout"] = 1
    status, got, _ = report(["config", write("silent.json", servers)])
    expect("with a time of its own", outcomes(got), {"one": ("ready", None), "silent": ("failed", "handshake-timeout")})


def rests():
    """A program that nothing uses for a second is stopped while another server is called, and started by the next call."""
    counts = "echo start >> \"$0\"; \"$@\"; echo end >> \"$0\""
    counted = {"command": "sh", "args": ["-c", counts, path("counted"), PROBE, "demo-server"]}
    servers = {"a": dict(counted, idle_timeout=1), "b": demo()}
    call = ["--call", "mcp_b_slow", "--call", "mcp_a_echo", "--args", '{"text": "x"}']
    status, got, err = report(call + ["config", write("rests.json", servers)])
    expect("exit status", status, 0)
    expect("calls", [(call["server"], call["outcome"]) for call in got["calls"]], [("b", "result"), ("a", "result")])
    expect("connects", [got["servers"][name]["connects"] for name in ("a", "b")], [2, 1])
    expect("quirks", [got["servers"][name]["quirks"] for name in ("a", "b")], [[], []])
    kinds = [event["kind"] for event in got["servers"]["a"]["events"]]
    expect("events", [kind for kind in kinds if kind in ("ready", "down", "resting", "reconnected", "closed")],
           ["ready", "resting", "reconnected", "closed"])
    with open(path("counted")) as lines:
        expect("processes", lines.read().split()[:3], ["start", "end", "start"])


def bounds():
    """The result of a tool is cut to the bytes that its server's entry names; another server's is not."""
    call = [part for name in ("a", "b") for part in ("--call", "mcp_%s_echo" % name, "--args", json.dumps({"text": "x" * 9000}))]
    servers = {"a": demo(tools={"max_result_bytes": 2000}), "b": demo()}
    status, got, err = report(call + ["config", write("bounds.json", servers)])
    expect("exit status", status, 0)
    cut, whole = [call["result"] for call in got["calls"]]
    expect("bytes", (len(json.dumps(cut["content"])) <= 2000, len(whole["content"][0]["text"])), (True, 9000))
    within("notice", "Left out", json.dumps(cut))


def times():
    """Each server's times are its own: a handshake lasts as long as its program sleeps."""
    late = {"command": "sh", "args": ["-c", 'sleep 0.3; exec "$0" demo-server', PROBE]}
    status, got, err = report(["config", write("times.json", {"late": late, "soon": demo()})])
    expect("exit status", status, 0)
    late = got["servers"]["late"]
    ready = next(event["atMs"] for event in late["events"] if event["kind"] == "ready")
    if not 300 <= late["timings"]["handshakeMs"] <= ready:
        raise AssertionError("a program that sleeps for 300 ms took %s, ready at %d ms" % (late["timings"], ready))


def listening(port, process):
    end = time.monotonic() + 90
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as s:
            s.settimeout(1)
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("the server over HTTP did not start")


def real():
    """Five real servers: one over HTTP, one broken, one disabled, two more. Expects four reports, one of them disabled,
    and one failure."""
    root = os.environ.get("MCP_SERVERS_ROOT") or os.path.join(
        os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")),
        "mcp-servers-" + hashlib.sha256(open(SERVERS + "/units.json", "rb").read()).hexdigest()[:8])
    subprocess.run([SERVERS + "/install", root], check=True, stdout=subprocess.DEVNULL)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])

    def known(name):
        server = json.loads(subprocess.check_output([SERVERS + "/run-one", "--json", name, root, port]))
        os.makedirs(server["cwd"], exist_ok=True)
        return server

    def entry(name, before=(), **more):
        server = known(name)
        command, *args = list(before) + server["command"]
        return dict({"command": command, "args": args, "env": server["env"], "cwd": server["cwd"]}, **more)

    web = known("everything-http")
    servers = {
        "everything-http": {"url": web["command"]["url"]},
        "time": entry("time"),
        "memory": entry("memory", tools={"include": "read_*"}),
        "sqlite-broken": entry("sqlite-broken"),
        # It creates a file when it starts.
        "everything": entry("everything", ["sh", "-c", ': > "$0"; exec "$@"', path("real")], enabled=False),
    }
    process = subprocess.Popen(web["command"]["start"], cwd=web["cwd"], env=dict(os.environ, **web["env"]),
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        listening(int(port), process)
        status, got, err = report(["config", write("real.json", servers)])
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    expect("exit status", status, 1)
    ready = ["everything-http", "memory", "time"]
    expect("outcomes", outcomes(got), dict({name: ("ready", None) for name in ready}, **{
        "sqlite-broken": ("failed", "closed"), "everything": ("disabled", None)}))
    within("why it is broken", "its last words on standard error: ", got["servers"]["sqlite-broken"]["failure"]["message"])
    within("standard error", "  sqlite-broken  failed: closed: ", err)
    expect("what is turned off was opened", os.path.exists(path("real")), False)
    toolset = []
    for name in ready:
        server, want = got["servers"][name], known(name)["expect"]
        families = server["families"]
        expect("era of " + name, (server["era"], server["protocolVersion"]), (want["era"], want["protocolVersion"]))
        # A line without a number states the reason.
        counts = [want[it] if isinstance(want[it], int) else 0 for it in ("tools", "prompts", "resources", "templates")]
        expect("families of " + name,
               [families[it]["items"] for it in ("tools", "prompts", "resources", "resourceTemplates")], counts)
        tools = [tool["name"] for tool in server["tools"] if name != "memory" or tool["name"].startswith("read_")]
        tools += RESOURCES if families["resources"]["status"] == "listed" else []
        tools += PROMPTS if families["prompts"]["status"] == "listed" else []
        toolset += [(name, tool, "mcp_%s_%s" % (name.replace("-", "_"), tool.replace("-", "_"))) for tool in tools]
    expect("toolset", [(tool["server"], tool["tool"], tool["name"]) for tool in got["toolset"]], toolset)

    # The times of starting overlap.
    spans = []
    for name in ready:
        server = got["servers"][name]
        end = next(event["atMs"] for event in server["events"] if event["kind"] == "ready")
        spans.append((end - server["timings"]["handshakeMs"] - server["timings"]["discoveryMs"], end))
    spans.append((0, next(event["atMs"] for event in got["servers"]["sqlite-broken"]["events"]
                          if event["kind"] == "closed")))
    starts, ends = zip(*spans)
    if max(starts) > min(ends):
        raise AssertionError("they did not start side by side: %s" % spans)
    took = [end - start for start, end in spans]
    # Closer to the slowest than to the sum, on any machine.
    if max(ends) > (max(took) + sum(took)) / 2:
        raise AssertionError("all took %d ms, the slowest %d ms, each %s" % (max(ends), max(took), took))
    print("     ready or failed after %d ms; one after the other: %d ms" % (max(ends), sum(took)))


jobs = [usage, command, environment, side_by_side, for_people, find, time_is_up, rests, bounds, times]
if os.path.exists(SERVERS + "/servers.json"):
    jobs.append(real)
elif not sys.argv[2:]:
    print("skipped: there is no %s/servers.json" % SERVERS, file=sys.stderr)
failed = False
for job in chosen({job.__name__: job for job in jobs}, sys.argv[2:]).values():
    try:
        job()
        print("ok   " + job.__name__.replace("_", " "), flush=True)
    except Exception as error:
        failed = True
        print("FAIL %s: %s: %s" % (job.__name__.replace("_", " "), type(error).__name__, error), flush=True)
sys.exit(failed)
