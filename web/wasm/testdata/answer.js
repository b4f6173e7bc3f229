// Answers requests with the engine as WebAssembly, for tests: node answer.js wasm_exec.js espalier.wasm.
// A line of standard input is [name, request], and the answer is a line of standard output.
"use strict";

const fs = require("node:fs");
const readline = require("node:readline");

globalThis.require = require;
globalThis.fs = fs;
globalThis.path = require("node:path");
require(fs.realpathSync(process.argv[2]));

async function main() {
  const go = new globalThis.Go();
  const { instance } = await WebAssembly.instantiate(fs.readFileSync(process.argv[3]), go.importObject);
  void go.run(instance);
  for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const [name, request] = JSON.parse(line);
    process.stdout.write((await globalThis.espalierAnswer(name, request)) + "\n");
  }
  process.exit(0);
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
