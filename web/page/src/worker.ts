// Runs the engine as WebAssembly.

declare const Go: new () => { importObject: WebAssembly.Imports; run(instance: WebAssembly.Instance): Promise<void> };
declare function importScripts(...urls: string[]): void;
declare function espalierAnswer(name: string, request: string): Promise<string>;

async function start(): Promise<void> {
  importScripts("wasm_exec.js");
  const go = new Go();
  const { instance } = await WebAssembly.instantiateStreaming(fetch("espalier.wasm"), go.importObject);
  void go.run(instance);
}

const started = start();
started.then(
  () => postMessage({ ready: true }),
  (e: unknown) => postMessage({ problem: "the engine cannot be loaded: " + (e instanceof Error ? e.message : String(e)) }),
);

onmessage = async (e: MessageEvent<{ name: string; request: string }>) => {
  await started;
  postMessage({ response: await espalierAnswer(e.data.name, e.data.request) });
};
