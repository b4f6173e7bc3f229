// What is known at a place of a text: findings, and the documentation of a field or keyword.

import { h, type Child } from "./dom";
import type { Assistance } from "./editor";
import { message } from "./findings";
import { markdown } from "./markdown";
import type { Finding } from "./protocol";
import { findingsAt } from "./text";

export interface About {
  // start and end are the part of the text that it is about.
  start: number;
  end: number;
  content: Child[];
}

// aboutAt returns what is known at an offset, or undefined.
export async function aboutAt(findings: Finding[], assistance: Assistance | undefined, text: string, offset: number, signal: AbortSignal): Promise<About | undefined> {
  const here = findingsAt(findings, offset);
  let documentation = "";
  let ranges = here.flatMap((f) => f.range ?? []);
  try {
    const a = await assistance?.hover(text, offset, signal);
    documentation = a?.markdown ?? "";
    if (a?.range) ranges = [...ranges, a.range];
  } catch {
    documentation = ""; // findings are shown without it
  }
  if (ranges.length === 0) ranges = [{ start: offset, end: offset, line: 0 }];
  if (signal.aborted || (here.length === 0 && documentation === "")) return undefined;
  const shown = here.map((f) => h("div", { class: "finding " + f.severity }, ...message(f.message)));
  const about = documentation === "" ? undefined : markdown(documentation);
  // The documentation of a rule also has its error.
  const texts = new Set(here.map((f) => compact(f.message)));
  for (const p of [...(about?.children ?? [])]) if (texts.has(compact(p.textContent ?? ""))) p.remove();
  return {
    start: Math.max(...ranges.map((r) => r.start)),
    end: Math.min(...ranges.map((r) => r.end)),
    content: [...shown, about],
  };
}

function compact(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
