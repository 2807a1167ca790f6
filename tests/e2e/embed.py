"""Runs the examples of examples/embed, and examples/reqwest, with examples/embed/server.py, and compares the tools that each lists: embed.py TARGET."""

import base64
import ctypes
import gzip
import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

from oauth.chromium import Driver

ROOT = pathlib.Path(__file__).parents[2]
EMBED = ROOT / "examples" / "embed"
SERVER = [sys.executable, EMBED / "server.py"]
# An example is short enough to be read at once.
LINES = 120
MANY = 20
PATIENCE = 60
# Two seeds of each of the five kinds of program.
SEEDS = range(10)


def tools():
    """The tools in the order of the server, which are those that each example is to list."""
    for line in SERVER[1].read_text().splitlines():
        if line.startswith("TOOLS = "):
            return eval(line.removeprefix("TOOLS = "))
    sys.exit("there are no tools in the server")


def listed(command, **how):
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, **how)
    return ran.stdout.splitlines() if ran.returncode == 0 else [f"status {ran.returncode}"]


def over_http(run):
    server = subprocess.Popen([*SERVER, "http"], stdout=subprocess.PIPE, text=True)
    try:
        return run(f"http://127.0.0.1:{server.stdout.readline().strip()}/mcp")
    finally:
        server.kill()


def asked(driver, script):
    return driver.send("/execute/sync", {"script": f"return {script}", "args": []})


def photograph(driver, name, width):
    if "SCREENSHOTS" in os.environ:
        driver.send("/window/rect", {"width": width, "height": 800})
        image = base64.b64decode(driver.send("/screenshot"))
        (pathlib.Path(os.environ["SCREENSHOTS"]) / f"{name}-{width}.png").write_bytes(image)


def in_chromium(module, url):
    """The page comes from another origin than the server's."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        extensions_map = {".mjs": "text/javascript", ".html": "text/html", ".wasm": "application/wasm"}

        def log_message(self, *_):
            pass

        def translate_path(self, path):
            name = path.split("?")[0].strip("/")
            return str(module if name == module.name else EMBED / "wasm" / name)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        query = urllib.parse.urlencode({"module": module.name, "server": url, "header": "x-key:hush"})
        page = f"http://127.0.0.1:{pages.server_port}/page.html?{query}"
        driver = Driver()
        try:
            driver.send("/url", {"url": page})
            for _ in range(PATIENCE * 10):
                state = asked(driver, "document.getElementById('state').textContent")
                if state != "Connecting …":
                    break
                time.sleep(0.1)
            photograph(driver, "tools", 400)
            return asked(driver, "[...document.querySelectorAll('#tools code')].map((code) => code.textContent)") or [state]
        finally:
            driver.close()
            pages.shutdown()


def simulated(page, library):
    """The page draws each seed, as the same code simulates it natively. Returns the number of arrows."""
    library.run.argtypes, library.run.restype, library.output.restype = [ctypes.c_uint64], ctypes.c_size_t, ctypes.c_void_p
    driver, arrows = Driver(), 0
    try:
        driver.send("/url", {"url": f"file://{page.resolve()}#{SEEDS[0]}"})
        for seed in SEEDS:
            for _ in range(PATIENCE * 10):
                if asked(driver, f"typeof shown == 'object' && shown?.seed === {seed}"):
                    break
                time.sleep(0.1)
            length = library.run(seed)
            native = json.loads(ctypes.string_at(library.output(), length))
            if asked(driver, "shown.data") != native:
                sys.exit(f"seed {seed} runs in the page otherwise than natively")
            calls = [(server, json.loads(text)[0]) for _, server, _, what, text in native["notes"] if what == "call"]
            cells = "[...row.cells].map((cell) => cell.textContent)"
            ledger = asked(driver, f"[...document.querySelectorAll('#ledger tr')].map((row) => {cells})")
            drawn = asked(driver, "document.querySelectorAll('#drawing .arrow').length")
            if not calls or [(server, tool) for server, tool, _, _ in ledger] != calls:
                sys.exit(f"seed {seed}: the calls are {calls}, the ledger is {ledger}")
            if drawn < 10 or not all(ended and ran in ("0", "1") for _, _, ended, ran in ledger):
                sys.exit(f"seed {seed}: {drawn} arrows, the ledger is {ledger}")
            arrows += drawn
            for width in (1280, 400):
                photograph(driver, f"simulator-{seed}", width)
            driver.send(f"{driver.find('#next')[0]}/click", {})
        return arrows
    finally:
        driver.close()


def over_a_serial_line(image):
    """The server is at the other end of the board's serial line."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        board = ["qemu-system-arm", "-machine", "mps2-an385", "-display", "none", "-monitor", "none", "-kernel", image]
        line = ["-serial", f"tcp:127.0.0.1:{listener.getsockname()[1]}", "-semihosting-config", "enable=on,target=native"]
        qemu = subprocess.Popen([*board, *line], stdout=subprocess.PIPE, text=True)
        listener.settimeout(PATIENCE)
        end, _ = listener.accept()
    with end:
        end.settimeout(None)
        server = subprocess.Popen(SERVER, stdin=end, stdout=end)
    try:
        output, _ = qemu.communicate(timeout=PATIENCE)
    finally:
        qemu.kill()
        server.kill()
    return output.splitlines() if qemu.returncode == 0 else [f"status {qemu.returncode}"]


def size(module):
    brotli = 'const z = require("zlib"); console.log(z.brotliCompressSync(require("fs").readFileSync(process.argv[1])).length)'
    brotli = int(subprocess.run(["node", "-e", brotli, module], stdout=subprocess.PIPE, check=True).stdout)
    text = module.read_bytes()
    kib = [f"{len(gzip.compress(text)) / 1024:.0f} KiB with gzip", f"{brotli / 1024:.0f} KiB with brotli"]
    return f"{len(text) / 1024:.0f} KiB, " + ", ".join(kib)


def main(target):
    expected, failed, debug = tools(), False, target / "debug"
    module = target / "embed/wasm32-unknown-unknown/release/mcp_proto_embed_wasm.wasm"
    wasm = [EMBED / "wasm/lib.rs", EMBED / "wasm/client.mjs"]
    in_node = lambda url: listed(["node", EMBED / "wasm/node.mjs", module, url, "x-key:hush"])
    in_browser = lambda url: in_chromium(module, url)
    with_reqwest = lambda url: listed([debug / "reqwest", url], env={**os.environ, "MCP_KEY": "hush"})
    image = target / "embed/thumbv7m-none-eabi/release/embed-bare"
    runs = [
        ("std", [EMBED / "std.rs"], None, lambda: listed([debug / "embed-std", *SERVER])),
        ("tokio", [EMBED / "tokio.rs"], None, lambda: listed([debug / "embed-tokio", *SERVER])),
        ("tokio, reqwest", [ROOT / "examples/reqwest/main.rs"], None, lambda: over_http(with_reqwest)),
        ("smol", [EMBED / "smol.rs"], None, lambda: listed([debug / "embed-smol", *SERVER])),
        (f"mio, {MANY} servers", [EMBED / "mio.rs"], None, lambda: listed([debug / "embed-mio", str(MANY), *SERVER])),
        ("wasm in Node.js", [*wasm, EMBED / "wasm/node.mjs"], "node", lambda: over_http(in_node)),
        ("wasm in Chromium", [*wasm, EMBED / "wasm/page.html"], "chromedriver", lambda: over_http(in_browser)),
        ("no_std in qemu", [EMBED / "bare/main.rs"], "qemu-system-arm", lambda: over_a_serial_line(image)),
    ]
    for name, files, program, run in runs:
        if program and not shutil.which(program):
            print(f"{name:18} skipped: there is no {program}")
            failed = failed or bool(os.environ.get("CI"))
            continue
        lines = [len(file.read_text().splitlines()) for file in files]
        found = run()
        count = MANY if "servers" in name else 1
        good = found == expected * count and max(lines) < LINES
        failed = failed or not good
        about = "; ".join([size(module)] if program == "node" else [])
        print(f"{name:18} {' + '.join(map(str, lines)):>8} lines, {len(found):3} tools, {'ok' if good else 'FAILED'} {about}")
        if not good:
            print(f"  found {found[:30]}")
    if shutil.which("chromedriver"):
        name = "libmcp_proto_simulator" + (".dylib" if sys.platform == "darwin" else ".so")
        drawn = simulated(target / "simulator.html", ctypes.CDLL(target / "embed/debug" / name))
        print(f"simulator in Chromium: {len(SEEDS)} seeds, {drawn} arrows, ok")
    else:
        print("simulator in Chromium: skipped, because chromedriver is not there")
    sys.exit(failed)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
