// Highlights one line of YAML or JSON. Colors only help to read: a line that is part of a block scalar
// may look like YAML.

export interface Token {
  start: number;
  end: number;
  class: string;
}

const value = /"(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?|[&*!][^\s,\]}]+|[[\]{},]|[^\s,[\]{}#"'][^,[\]{}#]*|#/g;

// keyOf returns the key at the start of a text, with what is between it and its colon, or nothing.
function keyOf(text: string): string | undefined {
  const quoted = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*(?=:(\s|$))/.exec(text);
  if (quoted) return quoted[0];
  // The colon is found first: a pattern for all of it would try each part of a long text without one.
  const key = text.slice(0, Math.max(0, text.search(/:(\s|$)/)));
  return /^[^\s#"'[\]{},&*!|>%@`][^#]*$/.test(key) ? key : undefined;
}

export function highlight(line: string): Token[] {
  const tokens: Token[] = [];
  const add = (start: number, end: number, name: string) => tokens.push({ start, end, class: "t-" + name });
  if (line.length > 2000) return tokens;
  const first = line.search(/\S/);
  if (first < 0) return tokens;
  if (line[first] === "#") return add(first, line.length, "comment"), tokens;
  if (/^(---|\.\.\.)/.test(line)) return add(0, 3, "punctuation"), tokens;
  let at = first;
  for (let dash = /^-\s+/.exec(line.slice(at)); dash; dash = /^-\s+/.exec(line.slice(at))) {
    add(at, at + 1, "punctuation");
    at += dash[0].length;
  }
  const key = keyOf(line.slice(at));
  if (key) {
    add(at, at + key.trimEnd().length, "key");
    at += key.length + 1;
  }
  value.lastIndex = at;
  for (let m = value.exec(line); m; m = value.exec(line)) {
    const text = m[0];
    if (text === "#") {
      if (m.index === 0 || /\s/.test(line[m.index - 1] ?? "")) return add(m.index, line.length, "comment"), tokens;
      continue;
    }
    const end = m.index + text.trimEnd().length;
    if (/^[[\]{},]$/.test(text)) add(m.index, end, "punctuation");
    else if (/^["']/.test(text)) add(m.index, end, /^\s*:/.test(line.slice(m.index + text.length)) ? "key" : "string");
    else if (/^[&*!]/.test(text)) add(m.index, end, "anchor");
    else if (/^[|>][+-]?\d?$/.test(text.trim())) add(m.index, end, "punctuation");
    else if (/^(true|false|null|~|yes|no|on|off)$/i.test(text.trim())) add(m.index, end, "constant");
    else if (/^[-+]?(\d[\d_]*)(\.\d+)?([eE][-+]?\d+)?$/.test(text.trim())) add(m.index, end, "number");
    else {
      const inner = /^([^\s:][^:]*):(?=\s|$)/.exec(text);
      if (inner && /[{,]\s*$/.test(line.slice(0, m.index))) add(m.index, m.index + (inner[1]?.length ?? 0), "key");
      else add(m.index, end, "string");
    }
  }
  return tokens;
}
