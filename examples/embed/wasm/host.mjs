// Lists the tools of a server over HTTP: node host.mjs MODULE.wasm URL [NAME:VALUE]...
import { readFileSync } from "node:fs";

const [module, url, ...own] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(module), {});
const client = instance.exports;
const now = () => BigInt(Math.round(performance.now()));
const give = (bytes) => {
  if (typeof bytes === "string") bytes = new TextEncoder().encode(bytes);
  const at = client.input(bytes.length);
  new Uint8Array(client.memory.buffer, at, bytes.length).set(bytes);
};
const exchanges = new Map();
let timer;

async function run({ exchange, method, url, headers, body }) {
  const id = BigInt(exchange);
  const stop = new AbortController();
  exchanges.set(exchange, stop);
  try {
    const all = [...headers, ...own.map((header) => header.split(":"))];
    const response = await fetch(url, { method, headers: all, body: body || undefined, redirect: "manual", signal: stop.signal });
    give([...response.headers].map((header) => header.join(": ")).join("\n"));
    client.head(now(), id, response.status);
    act();
    for await (const chunk of response.body ?? []) {
      give(chunk);
      client.body(now(), id);
      act();
    }
    client.end(now(), id, false);
  } catch (error) {
    if (stop.signal.aborted) return;
    give(String(error.cause ?? error));
    client.end(now(), id, true);
  }
  act();
}

function act() {
  for (let length; (length = client.poll(now())) > 0; ) {
    const action = JSON.parse(new TextDecoder().decode(new Uint8Array(client.memory.buffer, client.output(), length)));
    if (action.method) run(action);
    if (action.drop !== undefined) exchanges.get(action.drop)?.abort();
    if (action.tools) console.log(action.tools.join("\n"));
    if (action.failed) {
      console.error(action.failed);
      process.exitCode = 1;
    }
  }
  clearTimeout(timer);
  const due = client.deadline();
  if (due >= 0n) {
    timer = setTimeout(() => {
      client.timeout(now());
      act();
    }, Number(due - now()));
  }
}

give(url);
if (!client.open(now(), BigInt(Math.floor(Math.random() * 2 ** 32)))) throw new Error(`${url} is not the URL of a server`);
act();
