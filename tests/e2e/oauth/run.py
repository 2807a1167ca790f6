"""Runs probe with a real authorization server in front of a real MCP server: run.py PROBE MODULES."""

import base64
import json
import os
import pathlib
import random
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).parent
BROWSER = f"{shlex.quote(sys.executable)} {HERE / 'browser.py'}"
CHROMIUM = f"{shlex.quote(sys.executable)} {HERE / 'chromium.py'}"
CALL = ["--call", "echo", "--args", '{"message":"hi"}']


class Bench:
    def __init__(self, probe, *server):
        self.probe, self.outputs, self.failed, self.start_time = probe, [], False, time.monotonic()
        self.server = subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started = json.loads(self.server.stdout.readline())
        self.issuer, self.resource, self.admin = started["issuer"], started["resource"], started["admin"]
        self.life = started["life"]

    def seen(self, what=""):
        with urllib.request.urlopen(self.admin + what, timeout=20) as answer:
            return json.load(answer)

    def start(self, *options, browser=BROWSER, target="http"):
        command = [self.probe, "--json", "--timeout", "30", *options, target, self.resource]
        environment = {**os.environ, "BROWSER": browser}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=environment, text=True, **pipes)

    def check_journal(self, journal, report):
        """The journal has no secret, and replays in another process to the same report."""
        text = journal.read_text()
        encoded = [form for word in self.seen()["secrets"] for form in forms(word)]
        self.check("the journal has no secret", [form for form in encoded if form in text], [])
        known = "secret1" in text
        ran = subprocess.run([self.probe, "--json", "--replay", str(journal)], capture_output=True, text=True)
        again = json.loads(ran.stdout) if ran.stdout else ran.stderr
        self.check("the journal replays", (known, ran.returncode, again and again.get("authorization")), (True, 0, report["authorization"]))
        self.outputs.append(text)

    def end(self, process):
        out, err = process.communicate(timeout=60)
        # The URL for the user has no secret that is of use after the sign-in.
        self.outputs.append(out + err)
        return json.loads(out), process.returncode

    def run(self, *options, **how):
        return self.end(self.start(*options, **how))

    def expire(self):
        time.sleep(self.life + 1)

    def check(self, name, found, expected):
        good = found == expected
        self.failed = self.failed or not good
        print(f"{time.monotonic() - self.start_time:5.1f} s", "ok  " if good else "FAILED", name, "" if good else f"{found!r}, not {expected!r}")

    def finish(self, *secrets):
        secrets = [*self.seen()["secrets"], *secrets]
        leaks = [out for out in self.outputs if any(word in out for word in secrets)]
        self.check("no secret is in an output", (len(secrets) >= 10, leaks), (True, []))
        self.server.stdin.close()
        self.server.wait(timeout=20)
        sys.exit(self.failed)


def listening(port):
    """A listener at this port, if it is free."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return None


def forms(word):
    """A secret as it is, in hexadecimal digits, and in base64 at each offset."""
    found = [word, word.encode().hex()]
    for before in range(3):
        data = bytes(before) + word.encode()
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            found.append(encode(data).decode()[-(-before * 8 // 6) : len(data) * 8 // 6])
    return found


def told(report, *members):
    authorization = report["authorization"] or {}
    return tuple(authorization.get(member) for member in members)


def main(probe, modules):
    bench = Bench(probe, "node", HERE / "server.mjs", modules)
    folder = tempfile.TemporaryDirectory()
    file = pathlib.Path(folder.name) / "tokens.json"
    stored = ["--oauth", "--tokens", str(file), *CALL]

    report, status = bench.run()
    message = report["failure"]["message"]
    offered = f"The server offers OAuth at `{bench.issuer}`: --oauth obtains a token" in message
    bench.check("without --oauth it is said where", (report["failure"]["kind"], offered, status), ("unauthorized", True, 1))

    report, status = bench.run(target="auth")
    stages = [(step["stage"], step["status"]) for step in report["steps"]]
    expected = [("challenge", 401), ("resource-metadata", 200), ("server-metadata", 200)]
    bench.check("the steps of discovery", stages, expected)
    bench.check("the registrations", (report["registration"], status), (["pre-registered", "dynamic"], 0))
    bench.check("discovery registers nothing", bench.seen()["registrations"], 0)

    report, status = bench.run("--oauth", browser=f"{BROWSER} --refuse")
    error = told(report, "error")[0] or {}
    bench.check("a user who refuses", (report["failure"]["kind"], error.get("stage"), status), ("unauthorized", "authorization", 1))

    # The client is registered for this port. The system gives it to no connection meanwhile, as it may with higher ones.
    with next(filter(None, map(listening, random.sample(range(20000, 30000), 100)))) as free:
        port = ["--oauth-port", str(free.getsockname()[1])]
    journal = pathlib.Path(folder.name) / "journal"
    report, status = bench.run(*stored, *port, "--journal", str(journal))
    bench.check_journal(journal, report)
    bench.check("a user who signs in", told(report, "registration", "grants", "error"), ("dynamic", ["authorization_code"], None))
    bench.check("issuer and resource", told(report, "issuer", "resource"), (bench.issuer, bench.resource))
    bench.check("the call", (report["outcome"], report["calls"][0]["outcome"], status), ("ready", "result", 0))
    bench.check("the file is its owner's", stat.S_IMODE(file.stat().st_mode), 0o600)
    registrations = bench.seen()["registrations"]

    first = json.loads(file.read_text())
    report, _ = bench.run(*stored)
    bench.check("a stored token", told(report, "registration", "grants"), ("stored", []))

    bench.expire()
    report, _ = bench.run(*stored, "--journal", str(journal))
    bench.check_journal(journal, report)
    refreshed = told(report, "registration", "grants", "error")
    bench.check("an expired token is refreshed", refreshed, ("stored", ["refresh_token"], None))
    second = json.loads(file.read_text())
    rotated = first[bench.resource]["refresh_token"] != second[bench.resource]["refresh_token"]
    bench.check("the refresh token is rotated", rotated, True)

    bench.expire()
    before = len(bench.seen()["grants"])
    siblings = [bench.start(*stored) for _ in range(3)]
    reports = [bench.end(process)[0] for process in siblings]
    bench.check("processes on one file", [report["outcome"] for report in reports], ["ready"] * 3)
    used = [grant for report in reports for grant in report["authorization"]["grants"]]
    bench.check("they refresh once", (used, bench.seen()["grants"][before:]), (["refresh_token"],) * 2)

    report, _ = bench.run(*stored, "--watch", str(bench.life + 3))
    grants = told(report, "grants")[0]
    bench.check("a token that expires under way", (report["outcome"], set(grants)), ("ready", {"refresh_token"}))

    bench.seen("/revoke")
    report, _ = bench.run(*stored, *port)
    # The client of the record is known all the same.
    bench.check("revoked credentials", told(report, "registration", "grants"), ("stored", ["authorization_code"]))
    bench.check("the client is registered once a sign-in without credentials", bench.seen()["registrations"], registrations)
    bench.seen("/revoke")
    report, _ = bench.run(*stored)
    bench.check("revoked credentials, and the port of the record", told(report, "registration", "grants"), ("stored", ["authorization_code"]))
    bench.seen("/revoke")
    with socket.create_server(("127.0.0.1", int(port[-1]))):
        report, _ = bench.run(*stored)
    bench.check("revoked credentials, and another port", told(report, "registration", "grants"), ("dynamic", ["authorization_code"]))

    kept = file.read_text()
    report, status = bench.run(*stored, "--sign-out", "--journal", str(journal))
    bench.check_journal(journal, report)
    bench.check("a client that signs out at the end", (report["outcome"], status), ("ready", 0))
    bench.check("the store has no record", json.loads(file.read_text()), {})
    bench.check("the authorization server revoked both tokens", bench.seen()["revocations"], ["refresh_token", "access_token"])
    # Nothing of the earlier record is of use: the user signs in again.
    file.write_text(kept)
    report, _ = bench.run(*stored)
    bench.check("tokens that were given up", told(report, "grants", "error"), (["authorization_code"], None))

    if shutil.which("chromedriver"):
        # Chromium does not always start on a busy machine.
        for attempt in range(1, 4):
            report, status = bench.run("--oauth", *CALL, browser=CHROMIUM)
            if status == 0:
                break
            print(f"attempt {attempt} with Chromium: {report['failure']}")
        granted = told(report, "registration", "grants", "error")
        bench.check("a user who signs in with Chromium", (granted, status), (("dynamic", ["authorization_code"], None), 0))
    else:
        print("skipped: there is no chromedriver")

    secret = "hush-client-secret-of-the-service"
    service = ["--oauth", "--client-id", "service", "--grant", "client-credentials"]
    known = [*service, "--client-secret", secret]
    report, status = bench.run(*known, "--issuer", bench.issuer, *CALL, browser="false")
    bench.check("without a user", (told(report, "registration", "grants"), status), (("pre-registered", ["client_credentials"]), 0))
    report, status = bench.run(*known)
    message = report["failure"]["message"]
    bench.check("a secret that belongs to no server", ("give --issuer " + bench.issuer in message, status), (True, 1))
    report, _ = bench.run(*service, "--client-secret", "hush-wrong-secret", "--issuer", bench.issuer)
    bench.check("a wrong secret", (told(report, "error")[0] or {}).get("stage"), "registration")

    bench.finish(secret, "hush-wrong-secret")


if __name__ == "__main__":
    main(*sys.argv[1:])
