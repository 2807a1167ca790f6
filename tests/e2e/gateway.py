"""Kills one of two gateways (examples/gateway) with calls in flight, again and again, while users call through their port.

Each call has to get an outcome, and the server must not run one twice. The other gateway continues the sessions: the server
sees one handshake of each. Then another process takes all leases away, and the gateways have to let go.

At last servers forge replies, the store loses its data with a call in flight, and a user never says what it has seen.

usage: gateway.py GATEWAY [KILLS]
"""
import collections, json, os, random, shutil, socket, subprocess, sys, tempfile, threading, time

import ledger

GATEWAY, KILLS = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
# A user makes so many calls a round, and so many at once.
USERS, CALLS, WINDOW = 16, 12, 6
PATIENCE = 60
# Debian has the one or the other. A session survives the machine's crash only if the store has it on its disk.
STORES = [found for found in map(shutil.which, ["valkey-server", "redis-server"]) if found]
DURABLE = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]


def until(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.001)


def reserve():
    """A port that only sockets with SO_REUSEPORT can bind."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind(("127.0.0.1", 0))
    return held


def tell(connection, message):
    connection.sendall(json.dumps(message).encode() + b"\n")


def heard(lines):
    """The next line: a reply. A carriage return ends one, too, for many readers."""
    line = lines.readline()
    if not line.endswith("\n"):
        raise ConnectionResetError
    return json.loads(line)


class Talk:
    """A connection of a user, which it makes again until there is a gateway for it."""

    def __init__(self, port, name):
        self.name = name
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
                self.lines = self.connection.makefile("r")
                tell(self.connection, {"session": name})
                self.record = self.hear().get("record")
                return
            except ConnectionError:
                assert time.monotonic() < end, "no gateway takes %s" % name
                time.sleep(0.05)

    def call(self, call, record=None, seen=1):
        """Calls the tool; the server knows the call by the returned name."""
        name = "%s call %d" % (self.name, call)
        message = {"call": call, "seen": seen, "record": record or self.record, "tool": "work", "arguments": {"n": name}}
        tell(self.connection, message)
        return name

    def hear(self):
        return heard(self.lines)


class User(threading.Thread):
    """Makes the calls of one round; connects again whenever the connection breaks, and repeats what has no outcome."""

    def __init__(self, port, name, first):
        super().__init__(daemon=True)
        self.port, self.name = port, name
        self.calls = range(first, first + CALLS)
        self.gateways = []
        self.outcomes = {}
        # The record that each call was first sent with.
        self.records = {}
        self.start()

    def run(self):
        while len(self.outcomes) < CALLS:
            try:
                with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
                    self.talk(connection, connection.makefile("r"))
            except ConnectionError:
                time.sleep(0.02)

    def talk(self, connection, lines):
        say, hear = lambda message: tell(connection, message), lambda: heard(lines)
        say({"session": self.name})
        hello = hear()
        self.gateways.append(hello["gateway"])
        asked = set()
        while len(self.outcomes) < CALLS:
            missing = [call for call in self.calls if call not in self.outcomes]
            for call in missing[:WINDOW]:
                if call not in asked:
                    arguments = {"n": "%s call %d" % (self.name, call)}
                    record = self.records.setdefault(call, hello["record"])
                    say({"call": call, "seen": missing[0], "record": record, "tool": "work", "arguments": arguments})
                    asked.add(call)
            reply = hear()
            assert reply["call"] in asked and "refused" not in reply, reply
            self.outcomes[reply["call"]] = reply["outcome"]["type"]


class Test:
    def __init__(self, folder, port, server):
        self.folder, self.port, self.server = folder, port, server
        store = reserve()
        self.store_port = store.getsockname()[1]
        store.close()
        self.processes = []
        self.start_store(folder)
        self.gateways = [self.gateway(), self.gateway()]
        self.counts = collections.Counter()

    def start_store(self, folder):
        command = [STORES[0], "--bind", "127.0.0.1", "--port", str(self.store_port), "--dir", folder, *DURABLE]
        self.store_process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.processes.append(self.store_process)
        until("the store does not start", lambda: self.store("PING") == "PONG")

    def store(self, *command):
        cli = STORES[0].removesuffix("-server") + "-cli"
        ran = subprocess.run([cli, "-p", str(self.store_port), *command], capture_output=True, text=True)
        return ran.stdout.strip()

    def gateway(self):
        store = "redis://127.0.0.1:%d" % self.store_port
        process = subprocess.Popen([GATEWAY, "127.0.0.1:%d" % self.port, store, self.server.url], stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def names(self, users, process):
        """The users whose connection is with a gateway."""
        return {user.name for user in users if user.gateways[-1:] == [process.pid]}

    def running(self, users, process):
        names = self.names(users, process)
        return sum(n.split(" call ")[0] in names for n in set(self.server.running))

    def round(self, number, harm):
        """All calls of a round, in the middle of which there is harm done to some users."""
        users = [User(self.port, "user %d" % user, 1 + number * CALLS) for user in range(USERS)]
        until("a user has no gateway", lambda: all(user.gateways for user in users))
        # In the first round, a session is established before its first call.
        until("a user's call does not run", lambda: len({n.split(" call ")[0] for n in set(self.server.runs)}) == USERS)
        harmed = harm(users)
        for user in users:
            user.join(PATIENCE)
            assert not user.is_alive(), "%s has no outcome for some of its calls" % user.name
        for user in users:
            outcomes = collections.Counter(user.outcomes.values())
            assert set(outcomes) <= {"result", "unknown"}, "an outcome of a call: %s" % outcomes
            kept = len(user.gateways) == 1
            assert not kept or outcomes["result"] == CALLS, "%s kept its gateway: %s" % (user.name, outcomes)
            self.counts["sessions that a slow gateway lost"] += not kept and user.name not in harmed
            for call, outcome in user.outcomes.items():
                runs = self.server.runs["%s call %d" % (user.name, call)]
                assert runs < 2, "a call ran twice"
                assert runs == 1 or outcome == "unknown", "a result without a run"
                self.counts[outcome if outcome == "result" else "unknown, and %s" % ("ran" if runs else "did not run")] += 1
        self.counts["sessions taken over"] += sum(len(user.gateways) > 1 for user in users)

    def kill(self, users):
        number = random.randrange(2)
        victim = self.gateways[number]
        until("no calls are in flight", lambda: self.running(users, victim) >= 2 or not self.names(users, victim))
        time.sleep(random.uniform(0, 0.1))
        harmed, running = self.names(users, victim), self.running(users, victim)
        victim.kill()
        victim.wait()
        self.counts["kills"] += 1
        self.counts["calls in flight at a kill"] += running
        until("a session is not taken over", lambda: all(len(user.gateways) > 1 for user in users if user.name in harmed and user.is_alive()))
        self.gateways[number] = self.gateway()
        return harmed

    def steal(self, users):
        """The leases go to a process that does nothing until they are over."""
        until("no calls are in flight", lambda: len(self.server.running) >= USERS)
        for user in users:
            self.store("SET", "mcp:{%s}:holder" % user.name, "thief", "PX", "1000")
        until("a gateway does not let go", lambda: all(len(user.gateways) > 1 or not user.is_alive() for user in users))
        return {user.name for user in users}


    def forge(self):
        """The answer to one call has what looks like the reply to another, on lines of its own."""
        forged = '{"call": 2, "outcome": {"type": "result", "value": {"content": []}}}'
        answers = ['"result": {"content": [], "structuredContent":%s}', '"error": {"code": -1, "message": "no", "data":%s}']
        for number, (answer, end) in enumerate((answer, end) for answer in answers for end in ("\n", "\r")):
            talk = Talk(self.port, "forger %d" % number)
            self.server.answers["%s call 1" % talk.name] = answer % (end + forged + end)
            self.server.answers["%s call 2" % talk.name] = '"result": {"content": [{"type": "text", "text": "true"}]}'
            talk.call(1)
            assert talk.hear()["call"] == 1
            talk.call(2)
            reply = talk.hear()
            assert reply["call"] == 2 and reply["outcome"]["value"]["content"], "a forged reply: %s" % reply
        self.counts["forged replies"] = number + 1

    def lose(self, name, lose):
        """The store loses its data while a call runs. The user repeats the call, and makes another."""
        talk = Talk(self.port, name)
        first = talk.call(1)
        until("the call does not run", lambda: self.server.runs[first])
        lose()
        try:
            while talk.hear()["call"] != 1:
                pass
            # The reply was faster.
        except ConnectionError:
            pass
        again = Talk(self.port, name)
        again.call(1, talk.record)
        reply = again.hear()
        # A second run would take its time.
        time.sleep(0.5)
        assert self.server.runs[first] == 1, "a call ran twice after the store lost its data"
        assert again.record != talk.record and reply == {"call": 1, "outcome": {"type": "unknown"}}, reply
        second = again.call(2)
        assert again.hear()["outcome"]["type"] == "result" and self.server.runs[second] == 1
        self.counts["calls that a store lost"] += 1

    def restart_store(self):
        self.store_process.kill()
        self.store_process.wait()
        empty = os.path.join(self.folder, "empty")
        os.mkdir(empty)
        self.start_store(empty)

    def never_see(self):
        """A user whose `seen` stays: its session does not grow beyond a bound, and goes on when the user has seen."""
        talk = Talk(self.port, "blind")
        most = 0
        for call in range(1, 101):
            name = "%s call %d" % (talk.name, call)
            self.server.answers[name] = '"result": {"content": [{"type": "text", "text": "%s"}]}' % ("x" * 20_000)
            talk.call(call)
            reply = talk.hear()
            most = max(most, int(self.store("STRLEN", "mcp:{%s}:session" % talk.name)))
            if "refused" in reply:
                break
        assert "refused" in reply and not self.server.runs[name], "a session grows with what a user does not see: %d bytes" % most
        assert most < 400_000, "a session of %d bytes" % most
        talk.call(101, seen=call)
        assert talk.hear()["outcome"]["type"] == "result", "the session does not go on"
        talk = Talk(self.port, "blind to little")
        for call in range(1, 66):
            talk.call(call)
        refused = [reply["call"] for reply in (talk.hear() for _ in range(65)) if "refused" in reply]
        assert refused == [65], "refused are %s" % refused
        self.counts["bytes of a session whose user sees nothing"] = most


def main():
    if not STORES:
        sys.exit("valkey-server or redis-server is required")
    seed = random.randrange(1 << 32)
    random.seed(seed)
    print("seed %d, %s" % (seed, os.path.basename(STORES[0])))
    server, port = ledger.Server(), reserve()
    with tempfile.TemporaryDirectory() as folder:
        test = Test(folder, port.getsockname()[1], server)
        try:
            for number in range(KILLS):
                test.round(number, test.kill)
            print("; ".join("%s: %d" % it for it in sorted(test.counts.items())))
            test.counts.clear()
            test.round(KILLS, test.steal)
            print("with stolen leases: " + "; ".join("%s: %d" % it for it in sorted(test.counts.items())))
            assert server.methods["initialize"] == USERS, "each session continues: %s" % server.methods
            test.counts.clear()
            test.forge()
            test.never_see()
            test.lose("flushed", lambda: test.store("FLUSHALL"))
            test.lose("restarted", test.restart_store)
            print("; ".join("%s: %d" % it for it in sorted(test.counts.items())))
        finally:
            for process in test.processes:
                process.kill()
                process.wait()
    expected = (KILLS + 1) * USERS * CALLS
    of_rounds = sum(runs for name, runs in server.runs.items() if name.startswith("user "))
    assert of_rounds <= expected and max(server.runs.values()) == 1, "a call ran twice"


main()
