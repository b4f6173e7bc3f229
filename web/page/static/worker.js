"use strict";
(() => {
  // worker.ts
  async function compile(file) {
    const response = await fetch(file);
    if (!response.ok) throw new Error(`${file}: ${response.status} ${response.statusText}`);
    if (response.headers.get("Content-Type") === "application/wasm") return WebAssembly.compileStreaming(response);
    return WebAssembly.compile(await response.arrayBuffer());
  }
  async function start(given) {
    importScripts("wasm_exec.js");
    const go = new Go();
    const module = given ?? await compile(self.name);
    if (!given) postMessage({ module });
    const instance = await WebAssembly.instantiate(module, go.importObject);
    const ended = (why) => postMessage({ ended: "the engine has ended: " + why });
    go.run(instance).then(
      () => ended("it may need more memory than the browser gives it"),
      (e) => ended(e instanceof Error ? e.message : String(e))
    );
  }
  var started;
  onmessage = async (e) => {
    const message = e.data;
    if (!("name" in message)) {
      started = start(message.module);
      started.then(
        () => postMessage({ ready: true }),
        (e2) => postMessage({ problem: "the engine cannot be loaded: " + (e2 instanceof Error ? e2.message : String(e2)) })
      );
      return;
    }
    try {
      await started;
    } catch {
      return;
    }
    try {
      postMessage({ response: await espalierAnswer(message.name, message.request) });
    } catch (e2) {
      postMessage({ ended: "the engine has ended: " + (e2 instanceof Error ? e2.message : String(e2)) });
    }
  };
})();
