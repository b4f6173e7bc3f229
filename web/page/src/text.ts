// What both editors need to know about texts.

import type { Finding, Item } from "./protocol";

// maxText is the maximum size of a text. The engine accepts no larger ones, and a browser that lays one
// out does not answer.
export const maxText = 4 << 20;

// notInserted and notShown are the messages about larger texts.
export const notInserted = "Not inserted: the text would be larger than 4 MiB.";
export const notShown = "Only the first 4 MiB of the text are shown.";

// isTyping reports whether completions help after what is typed before the cursor in its line.
export function isTyping(before: string): boolean {
  return /[\w./-]$|: $|- $/.test(before) && !/#/.test(before);
}

// ranked returns the completions that match what is typed, the best first.
export function ranked<T extends Item>(items: T[], text: string, offset: number): T[] {
  const rank = (i: Item): number => {
    const typed = text.slice(i.start, offset).trim().replace(/^["']/, "").toLowerCase();
    const filter = (i.filter || i.label).toLowerCase();
    if (typed === "") return 1;
    if (filter.startsWith(typed)) return filter === typed && i.insert === text.slice(i.start, i.end) ? -1 : 2;
    return filter.includes(typed) ? 1 : -1;
  };
  return items.filter((i) => rank(i) >= 0 && i.start <= offset).sort((a, b) => rank(b) - rank(a));
}

// indentAfter returns the indentation of a new line after what is before the cursor: that of its line, and
// one level more after a key without a value.
export function indentAfter(before: string): string {
  const indent = /^ */.exec(before)?.[0] ?? "";
  return /:\s*$/.test(before) ? indent + (/^ *- /.test(before) ? "    " : "  ") : indent;
}

// findingsAt returns the findings at an offset.
export function findingsAt(findings: Finding[], offset: number): Finding[] {
  return findings.filter((f) => f.range && f.range.start <= offset && offset <= f.range.end);
}
