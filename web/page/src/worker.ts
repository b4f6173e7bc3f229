// Runs an engine as WebAssembly: the file that is the name of the worker.

declare const Go: new () => { importObject: WebAssembly.Imports; run(instance: WebAssembly.Instance): Promise<void> };
declare function importScripts(...urls: string[]): void;
declare function espalierAnswer(name: string, request: string): Promise<string>;

// compile compiles an engine. Only a file that is sent as application/wasm can be compiled while it is loaded.
async function compile(file: string): Promise<WebAssembly.Module> {
  const response = await fetch(file);
  if (!response.ok) throw new Error(`${file}: ${response.status} ${response.statusText}`);
  if (response.headers.get("Content-Type") === "application/wasm") return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());
}

async function start(given: WebAssembly.Module | undefined): Promise<void> {
  importScripts("wasm_exec.js");
  const go = new Go();
  const module = given ?? (await compile((self as unknown as { name: string }).name));
  // The next worker need not load and compile it again.
  if (!given) postMessage({ module });
  const instance = await WebAssembly.instantiate(module, go.importObject);
  const ended = (why: string) => postMessage({ ended: "the engine has ended: " + why });
  go.run(instance).then(
    () => ended("it may need more memory than the browser gives it"),
    (e: unknown) => ended(e instanceof Error ? e.message : String(e)),
  );
}

let started: Promise<void> | undefined;

onmessage = async (e: MessageEvent<{ module?: WebAssembly.Module } | { name: string; request: string }>) => {
  const message = e.data;
  if (!("name" in message)) {
    started = start(message.module);
    started.then(
      () => postMessage({ ready: true }),
      (e: unknown) => postMessage({ problem: "the engine cannot be loaded: " + (e instanceof Error ? e.message : String(e)) }),
    );
    return;
  }
  try {
    await started;
  } catch {
    return; // the page knows
  }
  try {
    postMessage({ response: await espalierAnswer(message.name, message.request) });
  } catch (e) {
    postMessage({ ended: "the engine has ended: " + (e instanceof Error ? e.message : String(e)) });
  }
};
