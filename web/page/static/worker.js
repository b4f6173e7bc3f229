"use strict";
(() => {
  // worker.ts
  async function start() {
    importScripts("wasm_exec.js");
    const go = new Go();
    const { instance } = await WebAssembly.instantiateStreaming(fetch("espalier.wasm"), go.importObject);
    void go.run(instance);
  }
  var started = start();
  started.then(
    () => postMessage({ ready: true }),
    (e) => postMessage({ problem: "the engine cannot be loaded: " + (e instanceof Error ? e.message : String(e)) })
  );
  onmessage = async (e) => {
    await started;
    postMessage({ response: await espalierAnswer(e.data.name, e.data.request) });
  };
})();
