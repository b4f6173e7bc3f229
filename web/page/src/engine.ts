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
}

const canceled = () => new EngineError("canceled", "the request was canceled");

function unwrap<N extends Name>(response: Response): Answers[N] {
  if (response.error) throw new EngineError(response.error.code, response.error.message);
  return response.answer as Answers[N];
}

// NativeEngine asks the server that the page comes from.
export class NativeEngine implements Engine {
  async ask<N extends Name>(name: N, request: object, signal?: AbortSignal): Promise<Answers[N]> {
    let response: globalThis.Response;
    try {
      response = await fetch("api/" + name, {
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
    return unwrap<N>((await response.json()) as Response);
  }
}

interface Pending {
  name: Name;
  message: string;
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

  constructor(private readonly loaded: (problem?: string) => void) {
    this.start();
  }

  private start(): void {
    this.worker = new Worker("worker.js");
    this.worker.onmessage = (e: MessageEvent<{ ready?: boolean; problem?: string; response?: string }>) => {
      if (e.data.problem !== undefined) return this.loaded(e.data.problem);
      if (e.data.ready) return this.loaded();
      const done = this.current;
      this.current = undefined;
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
    this.worker.onerror = () => this.loaded("the engine cannot be loaded");
  }

  private next(): void {
    while (!this.current) {
      const p = this.queue.shift();
      if (!p) return;
      if (p.signal?.aborted) {
        p.fail(canceled());
        continue;
      }
      this.current = p;
      this.worker?.postMessage({ name: p.name, request: p.message });
      p.signal?.addEventListener("abort", () => this.abandon(p));
    }
  }

  // abandon gives a request that is no longer needed two more seconds, which keeps what the worker has
  // compiled.
  private abandon(p: Pending): void {
    if (this.current !== p) return;
    this.patience = window.setTimeout(() => {
      if (this.current !== p) return;
      this.worker?.terminate();
      this.current = undefined;
      p.fail(canceled());
      this.start();
      this.next();
    }, 2000);
  }

  ask<N extends Name>(name: N, request: object, signal?: AbortSignal): Promise<Answers[N]> {
    return new Promise((resolve, reject) => {
      this.queue.push({
        name,
        message: JSON.stringify(request),
        signal,
        settle: (r) => {
          if (signal?.aborted) reject(canceled());
          else resolve(unwrap<N>(r));
        },
        fail: reject,
      });
      this.next();
    });
  }
}

// Latest asks again and again, and cancels what it has asked before.
export class Latest {
  private controller: AbortController | undefined;
  private timer: number | undefined;

  // run calls ask after a pause. Its errors are shown, except cancellations.
  run(pause: number, ask: (signal: AbortSignal) => Promise<void>, failed: (message: string) => void): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      this.controller?.abort();
      const controller = (this.controller = new AbortController());
      ask(controller.signal).catch((e: unknown) => {
        if (controller.signal.aborted || (e instanceof EngineError && e.code === "canceled")) return;
        failed(e instanceof Error ? e.message : String(e));
      });
    }, pause);
  }
}
