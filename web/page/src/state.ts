// The state of the page, and links that share it.

import type { Semantics } from "./protocol";

export interface State {
  view: string;
  semantics: Semantics;
  update: boolean;
  crds: string;
  object: string;
  old: string;
  // before is the old CRD of a comparison.
  before: string;
  // crd, version, beside, tab and query are what the explorer shows.
  crd: string;
  version: string;
  beside: string;
  tab: string;
  query: string;
  // conventions is set if lint checks API conventions.
  conventions: boolean;
}

// initial is the state before anything is chosen.
export const initial: State = { view: "playground", semantics: "kep", update: false, crds: "", object: "", old: "", before: "", crd: "", version: "", beside: "", tab: "tree", query: "", conventions: false };

export const views = ["playground", "explorer", "compare", "lint"];

// maxLink is the maximum size of what a link contains: a short link can unpack to gigabytes. maxPacked is
// that of the link itself: browsers accept about a million characters.
const maxLink = 8 << 20;
const maxPacked = 700_000;

// encode returns the fragment of a link. A state that is too large is an error.
export async function encode(state: State): Promise<string> {
  const content = new Blob([JSON.stringify(state)]);
  const stream = content.stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  if (content.size > maxLink || bytes.length > maxPacked) throw new Error("The texts are too large for a link: share them as files.");
  let binary = "";
  for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return "#s=" + btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

// decode returns the state in a fragment, or what is wrong with it. It returns nothing if there is none.
export async function decode(fragment: string): Promise<Partial<State> | undefined> {
  if (!fragment.startsWith("#s=")) return undefined;
  let binary: string;
  try {
    binary = atob(fragment.slice(3).replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    throw new Error("the link is not complete");
  }
  const stream = new Blob([Uint8Array.from(binary, (c) => c.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (let size = 0; ; ) {
      const { done, value } = await reader.read();
      if (done) break;
      if ((size += value.length) > maxLink) throw new RangeError("too large");
      text += decoder.decode(value, { stream: true });
    }
    return accept(JSON.parse(text + decoder.decode()));
  } catch (e) {
    void reader.cancel().catch(() => undefined);
    throw new Error(e instanceof RangeError ? "what the link contains is too large" : "the link is not complete");
  }
}

// accept returns the parts of a value that are a state.
function accept(value: unknown): Partial<State> {
  const out: Partial<State> = {};
  if (typeof value !== "object" || value === null) return out;
  const from = value as Record<string, unknown>;
  for (const key of ["crds", "object", "old", "before", "crd", "version", "beside", "tab", "query"] as const) {
    const text = from[key];
    if (typeof text === "string") out[key] = text;
  }
  if (typeof from["view"] === "string" && views.includes(from["view"])) out.view = from["view"];
  if (from["semantics"] === "kep" || from["semantics"] === "kubernetes") out.semantics = from["semantics"];
  for (const key of ["update", "conventions"] as const) {
    const value = from[key];
    if (typeof value === "boolean") out[key] = value;
  }
  return out;
}
