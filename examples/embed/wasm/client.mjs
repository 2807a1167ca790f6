// Lists the tools of a server over HTTP, in Node.js and in a browser: the clock, the timers and `fetch` for `lib.rs`.
export async function listTools(module, url, own = []) {
  const { instance } = await WebAssembly.instantiate(module, {});
  const client = instance.exports;
  const now = () => BigInt(Math.round(performance.now()));
  const give = (bytes) => {
    if (typeof bytes === "string") bytes = new TextEncoder().encode(bytes);
    const at = client.input(bytes.length);
    new Uint8Array(client.memory.buffer, at, bytes.length).set(bytes);
  };
  const exchanges = new Map();
  let timer;

  async function run(exchange, method, url, headers, body) {
    const id = BigInt(exchange);
    const stop = new AbortController();
    exchanges.set(exchange, stop);
    try {
      const all = [...headers, ...own];
      const redirect = "manual";
      const response = await fetch(url, { method, headers: all, body: body || undefined, redirect, signal: stop.signal });
      // A browser does not say where to.
      if (response.type === "opaqueredirect") throw new Error("the server redirects the request");
      give([...response.headers].map((header) => header.join(": ")).join("\n"));
      client.head(now(), id, response.status);
      act();
      const reader = response.body?.getReader();
      for (let piece; reader && !(piece = await reader.read()).done; ) {
        give(piece.value);
        client.body(now(), id);
        act();
      }
      client.end(now(), id, false);
    } catch (error) {
      if (stop.signal.aborted) return;
      give(String(error.cause ?? error));
      client.end(now(), id, true);
    } finally {
      exchanges.delete(exchange);
    }
    act();
  }

  let resolve, reject;
  const listed = new Promise((...both) => ([resolve, reject] = both));
  const actions = {
    request: run,
    drop: (exchange) => exchanges.get(exchange)?.abort(),
    tools: resolve,
    failed: (why) => reject(new Error(why)),
  };
  function act() {
    for (let length; (length = client.poll(now())) > 0; ) {
      const text = new TextDecoder().decode(new Uint8Array(client.memory.buffer, client.output(), length));
      const [name, ...values] = JSON.parse(text);
      actions[name]?.(...values);
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
  return listed;
}
