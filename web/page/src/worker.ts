// Runs the engine as WebAssembly.

declare const Go: new () => { importObject: WebAssembly.Imports; run(instance: WebAssembly.Instance): Promise<void> };
declare function importScripts(...urls: string[]): void;
declare function espalierAnswer(name: string, request: string): Promise<string>;

async function start(): Promise<void> {
  importScripts("wasm_exec.js");
  const go = new Go();
  const { instance } = await WebAssembly.instantiateStreaming(fetch("espalier.wasm"), go.importObject);
  const ended = (why: string) => postMessage({ ended: "the engine has ended: " + why });
  go.run(instance).then(
    () => ended("it may need more memory than the browser gives it"),
    (e: unknown) => ended(e instanceof Error ? e.message : String(e)),
  );
}

const started = start();
started.then(
  () => postMessage({ ready: true }),
  (e: unknown) => postMessage({ problem: "the engine cannot be loaded: " + (e instanceof Error ? e.message : String(e)) }),
);

onmessage = async (e: MessageEvent<{ name: string; request: string }>) => {
  try {
    await started;
  } catch {
    return; // the page knows
  }
  try {
    postMessage({ response: await espalierAnswer(e.data.name, e.data.request) });
  } catch (e) {
    postMessage({ ended: "the engine has ended: " + (e instanceof Error ? e.message : String(e)) });
  }
};
