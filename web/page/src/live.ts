// The requests of the page about a cluster. package ui answers them.

import { h, replace } from "./dom";
import { EngineError, post, unwrap } from "./engine";
import type { Finding, Response } from "./protocol";

export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
}

export interface ClusterCRD {
  name: string;
  group: string;
  kind: string;
  plural: string;
  namespaced: boolean;
  created: string;
  deleting?: boolean;
  conversion: string;
  versions: { name: string; served: boolean; storage: boolean; deprecated?: boolean }[];
  stored: string[];
  conditions: Condition[];
  revision: string;
}

export interface ClusterState {
  server: string;
  connected: boolean;
  known: boolean;
  problem?: string;
  crds: ClusterCRD[];
  more?: boolean;
}

export interface Row {
  namespace?: string;
  name: string;
  cells: string[];
  findings?: Finding[];
  // unchecked is why the object was not checked.
  unchecked?: string;
}

export interface ObjectsAnswer {
  version: string;
  columns: { name: string; type: string; description?: string; wide?: boolean }[];
  rows: Row[];
  continue?: string;
  remaining?: number;
  resourceVersion: string;
  problem?: string;
}

export interface YAMLLine {
  text: string;
  pointer?: string;
}

export interface ObjectVersion {
  name: string;
  storage?: boolean;
  text?: string;
  lines?: YAMLLine[];
  more?: boolean;
  problem?: string;
}

export interface ObjectAnswer {
  versions: ObjectVersion[];
  findings: Finding[];
  inspected: boolean;
  stored: Finding[];
}

export interface WhyAnswer {
  path: string;
  versions: {
    name: string;
    served: boolean;
    storage: boolean;
    found: boolean;
    value?: unknown;
    decision: string;
    reason: string;
    nearest?: string;
    schema?: { version?: string; path: string; pointer: string };
  }[];
}

export interface AuditAnswer {
  inspected: boolean;
  objects: number;
  failing: number;
  findings: Finding[];
  failures: { namespace?: string; name: string; problems: number }[];
  more?: boolean;
}

export interface Change {
  type: "started" | "ADDED" | "MODIFIED" | "DELETED" | "expired" | "failed" | "rejected";
  time: string;
  row?: Row;
  diff?: { op: string; text: string }[];
  revision?: string;
  more?: boolean;
  message?: string;
}

interface LiveAnswers {
  crd: { text: string; problem?: string };
  count: { counts: Record<string, number>; problems: Record<string, string> };
  objects: ObjectsAnswer;
  object: ObjectAnswer;
  why: WhyAnswer;
  audit: AuditAnswer;
}

export interface ObjectName {
  crd: string;
  namespace?: string;
  name?: string;
}

export async function ask<N extends keyof LiveAnswers>(name: N, request: object, signal?: AbortSignal): Promise<LiveAnswers[N]> {
  const response = await post("api/cluster/" + name, request, signal);
  return unwrap((await response.json()) as Response) as LiveAnswers[N];
}

// watch calls changed with the changes until the signal or the watch ends.
export async function watch(request: object, changed: (c: Change) => void, signal: AbortSignal): Promise<void> {
  const response = await post("api/cluster/watch", request, signal);
  if (!response.headers.get("Content-Type")?.includes("ndjson")) {
    unwrap((await response.json()) as Response);
    return;
  }
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  try {
    for (;;) {
      let next: ReadableStreamReadResult<string>;
      try {
        next = await reader.read();
      } catch {
        if (signal.aborted) return;
        throw new EngineError("unreachable", "espalier ui does not answer: is it still running?");
      }
      if (next.done) return;
      const lines = (rest + next.value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) changed(JSON.parse(line) as Change);
    }
  } finally {
    // A change that cannot be shown ends the watch, which would take a connection otherwise.
    reader.cancel().catch(() => undefined);
  }
}

// The pauses between two watches, in milliseconds. steady is how long a watch lasts if nothing is wrong;
// after a shorter one the pause doubles, from firstPause to lastPause. A server that allows no watch is
// asked after slowPause.
const steady = 30000;
const firstPause = 1000;
const lastPause = 30000;
const slowPause = 60000;

// Live keeps a watch while the page is visible, and starts it again after a pause. Browsers have few
// connections to a server: hidden tabs must not take them.
export class Live {
  private controller: AbortController | undefined;

  // run ends the watch before. start asks for what is watched from where; forgotten is set if the server
  // has forgotten the state that the last watch was to start from. told tells whether the watch runs, and
  // what is wrong if not.
  run(start: (signal: AbortSignal, forgotten: boolean) => Promise<object>, changed: (c: Change) => void, told: (live: boolean, problem: string) => void): void {
    this.stop();
    const controller = (this.controller = new AbortController());
    let running: AbortController | undefined;
    let timer: number | undefined;
    let pause = firstPause;
    let forgotten = false;
    const end = () => {
      window.clearTimeout(timer);
      running?.abort();
    };
    const attempt = async () => {
      const { signal } = (running = new AbortController());
      let problem = "";
      let type: Change["type"] | undefined;
      let since = Infinity;
      try {
        const request = await start(signal, forgotten);
        if (signal.aborted) return;
        await watch(
          request,
          (c) => {
            if (signal.aborted) return;
            type = c.type;
            if (c.type === "started") {
              since = Date.now();
              told(true, "");
            } else if (c.type === "failed" || c.type === "rejected") problem = c.message || "the watch has failed";
            else if (c.type !== "expired") changed(c);
          },
          signal,
        );
      } catch (e) {
        problem = e instanceof Error ? e.message : String(e);
      }
      if (signal.aborted) return;
      told(false, problem);
      const lasted = Date.now() - since >= steady;
      if (lasted) pause = firstPause;
      forgotten = type === "expired" && !lasted;
      timer = window.setTimeout(() => void attempt(), type === "rejected" ? slowPause : lasted && problem === "" ? 0 : pause);
      if (!lasted) pause = Math.min(2 * pause, lastPause);
    };
    const show = () => {
      end();
      pause = firstPause;
      if (document.hidden) told(false, "");
      else void attempt();
    };
    controller.signal.addEventListener("abort", end);
    document.addEventListener("visibilitychange", show, { signal: controller.signal });
    show();
  }

  stop(): void {
    this.controller?.abort();
  }
}

// liveness shows in an element whether a watch runs.
export function liveness(element: HTMLElement, live: boolean, problem: string): void {
  replace(element, h("span", { class: "dot " + (live ? "live" : problem ? "down" : "waiting") }), live ? "live" : problem ? "not live: " + problem : "");
}
