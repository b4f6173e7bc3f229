// The requests of the page about a cluster. package ui answers them.

import { EngineError, post, unwrap } from "./engine";
import type { Finding, Response, Semantics } from "./protocol";

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
  type: "started" | "ADDED" | "MODIFIED" | "DELETED" | "expired" | "failed";
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
  semantics: Semantics;
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
}

// Live keeps a watch, and starts it again after a pause. start asks for what is watched from where.
export class Live {
  private controller: AbortController | undefined;
  private timer: number | undefined;

  // run ends the watch before. told tells whether the watch runs, and what is wrong if not.
  run(start: (signal: AbortSignal) => Promise<object>, changed: (c: Change) => void, told: (live: boolean, problem: string) => void): void {
    this.stop();
    const controller = (this.controller = new AbortController());
    const signal = controller.signal;
    let pause = 1000;
    const attempt = async () => {
      let problem = "";
      try {
        const request = await start(signal);
        if (signal.aborted) return;
        await watch(
          request,
          (c) => {
            if (signal.aborted) return;
            if (c.type === "started") {
              pause = 1000;
              return told(true, "");
            }
            if (c.type === "failed") problem = c.message ?? "";
            else if (c.type !== "expired") changed(c);
          },
          signal,
        );
      } catch (e) {
        problem = e instanceof Error ? e.message : String(e);
      }
      if (signal.aborted) return;
      told(false, problem);
      this.timer = window.setTimeout(() => void attempt(), problem === "" ? 0 : pause);
      pause = Math.min(2 * pause, 30000);
    };
    void attempt();
  }

  stop(): void {
    window.clearTimeout(this.timer);
    this.controller?.abort();
  }
}
