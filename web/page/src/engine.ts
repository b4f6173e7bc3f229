// Asks the engine: `espalier ui` over HTTP, or WebAssembly in a worker.

import type { Answers, Name, Response } from "./protocol";
import { tokenHeader } from "./token";

// EngineError is an answer that the engine could not give.
export class EngineError extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export interface Engine {
  ask<N extends Name>(name: N, request: object, signal?: AbortSignal): Promise<Answers[N]>;
  // retry loads the engine again if it could not be loaded.
  retry?(): void;
}

const canceled = () => new EngineError("canceled", "the request was canceled");

// unwrap returns the answer of a response, or throws its error.
export function unwrap(response: Response): unknown {
  if (response.error) throw new EngineError(response.error.code, response.error.message);
  return response.answer;
}

// post sends a request to the server that the page comes from.
export async function post(path: string, request: object, signal?: AbortSignal): Promise<globalThis.Response> {
  let response: globalThis.Response;
  try {
    response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...tokenHeader() },
      body: JSON.stringify(request),
      ...(signal ? { signal } : {}),
    });
  } catch (e) {
    if (signal?.aborted) throw canceled();
    throw new EngineError("unreachable", "espalier ui does not answer: is it still running?");
  }
  if (!response.ok) throw new EngineError("http", `espalier ui answers ${response.status}: open the link that it has printed`);
  return response;
}

// NativeEngine asks the server that the page comes from.
export class NativeEngine implements Engine {
  async ask<N extends Name>(name: N, request: object, signal?: AbortSignal): Promise<Answers[N]> {
    const response = await post("api/" + name, request, signal);
    return unwrap((await response.json()) as Response) as Answers[N];
  }
}

// requestTime and abandonedTime are how long a request may take, and one that is no longer needed, in
// milliseconds.
const requestTime = 30000;
const abandonedTime = 700;

// firstPause is how long an engine that could not be loaded is not loaded again, in milliseconds. It
// doubles up to lastPause.
const firstPause = 1000;
const lastPause = 60000;

interface Pending {
  name: Name;
  request: object;
  settle(response: Response): void;
  fail(e: unknown): void;
  signal: AbortSignal | undefined;
}

// WorkerEngine asks WebAssembly in a worker, one request at a time. WebAssembly cannot be interrupted,
// so a canceled request that takes long ends with its worker, and the next one gets a new worker.
export class WorkerEngine implements Engine {
  private worker: Worker | undefined;
  private readonly queue: Pending[] = [];
  private current: Pending | undefined;
  private patience: number | undefined;
  private isReady = false;
  private isBroken = false;
  private failures = 0;
  private notBefore = 0;
  private module: WebAssembly.Module | undefined;

  constructor(
    private readonly file: string,
    private readonly loaded: (problem?: string) => void,
  ) {
    this.start();
  }

  // ready reports whether requests are answered at once.
  get ready(): boolean {
    return this.isReady;
  }

  // problem is why the engine could not be loaded, or empty.
  problem = "";

  private start(): void {
    this.isReady = false;
    this.problem = "";
    const worker = (this.worker = new Worker("worker.js", { name: this.file }));
    worker.postMessage({ module: this.module });
    worker.onmessage = (e: MessageEvent<{ ready?: boolean; module?: WebAssembly.Module; problem?: string; ended?: string; response?: string }>) => {
      if (worker !== this.worker) return;
      if (e.data.module) {
        this.module = e.data.module;
        return;
      }
      if (e.data.problem !== undefined) return this.broken(e.data.problem);
      if (e.data.ended !== undefined) return this.ended(e.data.ended);
      if (e.data.ready) {
        this.isReady = true;
        this.loaded();
        return this.limit();
      }
      const done = this.current;
      this.current = undefined;
      this.failures = 0;
      window.clearTimeout(this.patience);
      if (done && e.data.response !== undefined) {
        try {
          done.settle(JSON.parse(e.data.response) as Response);
        } catch (e) {
          done.fail(e);
        }
      }
      this.next();
    };
    worker.onerror = () => {
      if (worker !== this.worker) return;
      if (this.isReady) this.ended("the engine has ended");
      else this.broken("the engine cannot be loaded");
    };
  }

  // ended continues with a new worker after a request has ended one. A worker that ends without a request
  // would do so again and again.
  private ended(problem: string): void {
    if (this.current) this.restart(new EngineError("failed", problem));
    else this.broken(problem);
  }

  // broken fails all requests. A later one tries to load the engine again.
  private broken(problem: string): void {
    this.worker?.terminate();
    this.isReady = false;
    this.isBroken = true;
    this.problem = problem;
    this.notBefore = Date.now() + Math.min(firstPause * 2 ** this.failures++, lastPause);
    const failed = [this.current, ...this.queue.splice(0)];
    this.current = undefined;
    for (const p of failed) p?.fail(new EngineError("failed", problem));
    this.loaded(problem);
  }

  // retry loads the engine again if it could not be loaded: at once, or after a pause.
  retry(atOnce = false): void {
    if (!this.isBroken || (!atOnce && Date.now() < this.notBefore)) return;
    this.isBroken = false;
    this.start();
  }

  // restart ends the worker with its request, and continues with a new one.
  private restart(e: EngineError): void {
    window.clearTimeout(this.patience);
    this.worker?.terminate();
    const p = this.current;
    this.current = undefined;
    p?.fail(p.signal?.aborted ? canceled() : e);
    this.start();
    this.next();
  }

  // limit starts the time of the current request. Loading the engine does not count.
  private limit(): void {
    const p = this.current;
    if (!p || !this.isReady) return;
    window.clearTimeout(this.patience);
    this.patience = window.setTimeout(
      () => {
        if (this.current === p) this.restart(new EngineError("timeout", "the request took too long: use fewer or smaller CRDs and objects"));
      },
      p.signal?.aborted ? abandonedTime : requestTime,
    );
  }

  private next(): void {
    this.retry();
    if (this.isBroken) {
      for (const p of this.queue.splice(0)) p.fail(new EngineError("failed", this.problem));
      return;
    }
    while (!this.current) {
      const p = this.queue.shift();
      if (!p) return;
      if (p.signal?.aborted) {
        p.fail(canceled());
        continue;
      }
      this.current = p;
      this.worker?.postMessage({ name: p.name, request: JSON.stringify(p.request) });
      this.limit();
      // A request that is no longer needed gets less time, but some: that keeps what the worker has compiled.
      p.signal?.addEventListener("abort", () => this.current === p && this.limit());
    }
  }

  ask<N extends Name>(name: N, request: object, signal?: AbortSignal): Promise<Answers[N]> {
    return new Promise((resolve, reject) => {
      this.queue.push({
        name,
        request,
        signal,
        settle: (r) => {
          if (signal?.aborted) reject(canceled());
          else resolve(unwrap(r) as Answers[N]);
        },
        fail: reject,
      });
      this.next();
    });
  }
}

// Stage is how much of the engine is loaded. The small one knows neither CEL rules nor Kubernetes' own
// kinds.
export type Stage = "none" | "small" | "complete";

// StagedEngine starts with a small engine, which is loaded in a fraction of the time, and loads the
// complete one meanwhile. The small one also answers while the complete one starts again.
export class StagedEngine implements Engine {
  private readonly small: WorkerEngine;
  private whole: WorkerEngine | undefined;
  private isSmall = true;

  constructor(private readonly loaded: (stage: Stage, problem?: string) => void) {
    this.small = new WorkerEngine("small.wasm", (problem) => {
      if (problem !== undefined) this.isSmall = false;
      else if (!this.whole?.ready) this.loaded("small");
      this.complete();
    });
  }

  private complete(): WorkerEngine {
    return (this.whole ??= new WorkerEngine("espalier.wasm", (problem) => this.loaded(problem === undefined ? "complete" : this.isSmall ? "small" : "none", problem)));
  }

  async ask<N extends Name>(name: N, request: object, signal?: AbortSignal): Promise<Answers[N]> {
    if (name === "check" && this.isSmall && !this.whole?.ready) {
      try {
        this.whole?.retry();
        const answer = await this.small.ask(name, request, signal);
        if (!this.whole?.ready) return { ...answer, partial: true, problem: this.whole?.problem ?? "" };
      } catch (e) {
        // Only the complete engine knows the kind, or the small one cannot be loaded.
        if (signal?.aborted || (e instanceof EngineError && e.code !== "incomplete" && this.isSmall)) throw e;
      }
    }
    return this.complete().ask(name, request, signal);
  }

  retry(): void {
    this.whole?.retry(true);
  }
}

// Latest asks again and again, and cancels at once what it has asked before: that is about another text.
export class Latest {
  private controller: AbortController | undefined;
  private timer: number | undefined;

  // cancel drops the answer that is awaited.
  cancel(): void {
    window.clearTimeout(this.timer);
    this.controller?.abort();
  }

  // run calls ask after a pause. Its errors are shown, except cancellations.
  run(pause: number, ask: (signal: AbortSignal) => Promise<void>, failed: (message: string) => void): void {
    this.cancel();
    const controller = (this.controller = new AbortController());
    this.timer = window.setTimeout(() => {
      ask(controller.signal).catch((e: unknown) => {
        if (controller.signal.aborted) return;
        failed(e instanceof Error ? e.message : String(e));
      });
    }, pause);
  }
}
