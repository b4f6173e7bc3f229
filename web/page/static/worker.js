"use strict";
(() => {
  // worker.ts
  async function start() {
    importScripts("wasm_exec.js");
    const go = new Go();
    const { instance } = await WebAssembly.instantiateStreaming(fetch("espalier.wasm"), go.importObject);
    const ended = (why) => postMessage({ ended: "the engine has ended: " + why });
    go.run(instance).then(
      () => ended("it may need more memory than the browser gives it"),
      (e) => ended(e instanceof Error ? e.message : String(e))
    );
  }
  var started = start();
  started.then(
    () => postMessage({ ready: true }),
    (e) => postMessage({ problem: "the engine cannot be loaded: " + (e instanceof Error ? e.message : String(e)) })
  );
  onmessage = async (e) => {
    try {
      await started;
    } catch {
      return;
    }
    try {
      postMessage({ response: await espalierAnswer(e.data.name, e.data.request) });
    } catch (e2) {
      postMessage({ ended: "the engine has ended: " + (e2 instanceof Error ? e2.message : String(e2)) });
    }
  };
})();
