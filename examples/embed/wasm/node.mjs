// node node.mjs MODULE.wasm URL [NAME:VALUE]...
import { readFileSync } from "node:fs";
import { listTools } from "./client.mjs";

const [module, url, ...own] = process.argv.slice(2);
const tools = await listTools(readFileSync(module), url, own.map((header) => header.split(":")));
console.log(tools.join("\n"));
