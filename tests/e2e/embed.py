"""Runs the examples of examples/embed with drivers/tests/server.py, and compares the tools that each lists: embed.py TARGET."""

import gzip
import os
import pathlib
import shutil
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
EMBED = ROOT / "examples" / "embed"
SERVER = [sys.executable, ROOT / "drivers" / "tests" / "server.py"]
# An example is short enough to be read at once.
LINES = 120
MANY = 20
PATIENCE = 60


def tools():
    """The tools in the order of the server, which are those that each example is to list."""
    for line in SERVER[1].read_text().splitlines():
        if line.startswith("TOOLS = "):
            return eval(line.removeprefix("TOOLS = "))
    sys.exit("there are no tools in the server")


def listed(command, **how):
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, **how)
    return ran.stdout.splitlines() if ran.returncode == 0 else [f"status {ran.returncode}"]


def over_http(module):
    server = subprocess.Popen([*SERVER, "http"], stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/mcp"
        return listed(["node", EMBED / "wasm" / "host.mjs", module, url, "x-key:hush"])
    finally:
        server.kill()


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
    image = target / "embed/thumbv7m-none-eabi/release/embed-bare"
    runs = [
        ("std", [EMBED / "std.rs"], None, lambda: listed([debug / "embed-std", *SERVER])),
        ("tokio", [EMBED / "tokio.rs"], None, lambda: listed([debug / "embed-tokio", *SERVER])),
        ("smol", [EMBED / "smol.rs"], None, lambda: listed([debug / "embed-smol", *SERVER])),
        (f"mio, {MANY} servers", [EMBED / "mio.rs"], None, lambda: listed([debug / "embed-mio", str(MANY), *SERVER])),
        ("wasm in Node.js", [EMBED / "wasm/lib.rs", EMBED / "wasm/host.mjs"], "node", lambda: over_http(module)),
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
    sys.exit(failed)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
