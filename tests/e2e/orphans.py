"""Checks that probe and the example host leave no process of a server running.

usage: orphans.py PROBE HUB
"""
import concurrent.futures, itertools, json, os, signal, subprocess, sys, tempfile, time

PROBE, HUB = map(os.path.abspath, sys.argv[1:])
NUMBERS = itertools.count()
# Seconds that a killed process may take to disappear.
GRACE = 5


def alive(mark):
    """Processes with this word in their command line."""
    lines = subprocess.check_output(["ps", "-A", "-o", "pid=", "-o", "args="], text=True, errors="replace").splitlines()
    return [line.strip() for line in lines if mark in line]


def until(what, condition):
    end = time.monotonic() + GRACE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(what)
        time.sleep(0.02)


def server(script):
    """A shell with this script, where `$1` is probe, and a unique duration of `sleep` that identifies its processes."""
    # Of fixed width, so that no mark is the start of another one.
    mark = "1000.%d%03d" % (os.getpid(), next(NUMBERS))
    return mark, ["sh", "-c", script.replace("SLEEP", "sleep " + mark), "sh", PROBE]


def configured(command, folder):
    path = os.path.join(folder, "servers.json")
    with open(path, "w") as file:
        json.dump({"mcpServers": {"one": {"command": command[0], "args": command[1:]}}}, file)
    return path


def end(process):
    try:
        return process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError("it does not end")


def start(args):
    return subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# Like a package runner: starts a helper, and becomes the server or waits for it.
HELPER = "SLEEP & exec \"$1\" demo-server"
PARENT = "SLEEP & \"$1\" demo-server; exit"
# The helper ignores the end of its input and signals.
DEAF = "(trap '' TERM HUP INT; SLEEP) & exec \"$1\" demo-server"
SILENT = "SLEEP & exec sleep 1000"
# Ignores the request to terminate.
STUBBORN = "trap '' TERM; SLEEP & while :; do sleep 1; done"
QUIET = "(SLEEP) >/dev/null 2>&1 </dev/null & exec \"$1\" demo-server"
# Exits at once; its descendant continues.
GONE = "SLEEP & exit 3"


def run(name, script, args, status):
    mark, command = server(script)
    with tempfile.TemporaryDirectory() as folder:
        process = start([configured(command, folder) if arg == "FILE" else arg for arg in args]
                        if "FILE" in args else args + ["stdio", "--"] + command)
        got = end(process)
    if got != status:
        raise AssertionError("exit status %s, not %s" % (got, status))
    until("left behind: %s" % alive(mark), lambda: not alive(mark))


def interrupted(name, args, what, script):
    mark, command = server(script)
    with tempfile.TemporaryDirectory() as folder:
        process = start([configured(command, folder) if arg == "FILE" else arg for arg in args]
                        if "FILE" in args else args + ["stdio", "--"] + command)
        until("it was not started", lambda: len(alive(mark)) >= 1)
        time.sleep(0.2)
        process.send_signal(what)
        end(process)
    until("left behind: %s" % alive(mark), lambda: not alive(mark))


JOBS = [
    ("a helper, normal end", run, HELPER, [PROBE], 0),
    ("a runner that waits, normal end", run, PARENT, [PROBE], 0),
    ("a helper that ignores signals, normal end", run, DEAF, [PROBE], 0),
    ("a helper with nothing inherited, normal end", run, QUIET, [PROBE], 0),
    ("a silent server, time is up", run, SILENT, [PROBE, "--timeout", "1"], 1),
    ("a server that has to be killed", run, STUBBORN, [PROBE, "--timeout", "1"], 1),
    ("a server that exits at once", run, GONE, [PROBE], 1),
    ("a helper, configuration", run, HELPER, [PROBE, "config", "FILE"], 0),
    ("a helper, host", run, HELPER, [HUB, "FILE"], 0),
    ("a runner that waits, host", run, PARENT, [HUB, "FILE"], 0),
    ("a server that exits at once, host", run, GONE, [HUB, "FILE"], 0),
]
for what in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    JOBS.append(("probe gets %s" % what.name, interrupted, [PROBE, "--watch", "30"], what, HELPER))
    JOBS.append(("host gets %s" % what.name, interrupted, [HUB, "FILE"], what, SILENT))


def judge(job):
    name, test, *args = job
    try:
        test(name, *args)
        return "ok   " + name
    except AssertionError as error:
        return "FAIL %s: %s" % (name, error)


failed = 0
# The cases wait most of the time.
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    for line in pool.map(judge, JOBS):
        failed += line.startswith("FAIL")
        print(line, flush=True)
for line in alive("1000.%d" % os.getpid()):
    pid = int(line.split()[0])
    if pid != os.getpid():
        os.kill(pid, signal.SIGKILL)
sys.exit(failed > 0)
