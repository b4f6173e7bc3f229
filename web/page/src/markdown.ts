// Shows the Markdown of documentation: paragraphs, headings, lists, code. Links are text, because
// descriptions of CRDs come from anywhere.

import { append, h } from "./dom";

export function markdown(text: string): HTMLElement {
  const out = h("div", { class: "markdown" });
  const lines = text.split("\n");
  for (let i = 0; i < lines.length; ) {
    const line = lines[i] ?? "";
    const fence = /^\s*(```+|~~~+)/.exec(line);
    if (fence) {
      const code: string[] = [];
      for (i++; i < lines.length && !(lines[i] ?? "").trimStart().startsWith(fence[1] ?? "```"); i++) code.push(lines[i] ?? "");
      i++;
      out.appendChild(h("pre", { tabindex: 0 }, h("code", {}, code.join("\n"))));
      continue;
    }
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (heading) {
      const element = h(heading[1] === "#" ? "h3" : "h4");
      inline(element, heading[2] ?? "");
      out.appendChild(element);
      i++;
      continue;
    }
    if (/^\s*([-*]|\d+\.)\s+/.test(line)) {
      const list = h("ul");
      for (; i < lines.length && /^\s*([-*]|\d+\.)\s+/.test(lines[i] ?? ""); ) {
        let item = (lines[i] ?? "").replace(/^\s*([-*]|\d+\.)\s+/, "");
        for (i++; i < lines.length && /^\s+\S/.test(lines[i] ?? "") && !/^\s*([-*]|\d+\.)\s+/.test(lines[i] ?? ""); i++) item += " " + (lines[i] ?? "").trim();
        const element = h("li");
        inline(element, item);
        list.appendChild(element);
      }
      out.appendChild(list);
      continue;
    }
    if (line.trim() === "" || /^\s*(---+|\*\*\*+)\s*$/.test(line)) {
      i++;
      continue;
    }
    let paragraph = line.trim();
    for (i++; i < lines.length && (lines[i] ?? "").trim() !== "" && !/^(\s*(```|~~~|[-*]\s|\d+\.\s)|#{1,6}\s)/.test(lines[i] ?? ""); i++) {
      // Two blanks at the end of a line, or a backslash, break it.
      paragraph += (/( {2}|\\)$/.test(lines[i - 1] ?? "") ? "\n" : " ") + (lines[i] ?? "").trim();
    }
    const element = h("p");
    inline(element, paragraph);
    out.appendChild(element);
  }
  return out;
}

// entities are what Markdown has for characters with a meaning in HTML.
const entities: Record<string, string> = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#39;": "'" };

// inline shows code, bold, emphasis and the texts of links. A pattern for a link ends at the start of the
// next one: otherwise a text of many brackets would take a time that grows with the square of its length.
function inline(parent: Node, text: string): void {
  const pattern = /(`+)(.+?)\1|\*\*((?:\\.|[^\\])+?)\*\*|(?<!\w)\*(?! )((?:\\.|[^\\*])+)(?<! )\*(?!\w)|\[([^[\]]+)\]\([^()]*\)|\\([\\`*_{}[\]()#+.!<>|-])|(&(?:lt|gt|amp|quot|#39);)/g;
  let last = 0;
  for (let m = pattern.exec(text); m; m = pattern.exec(text)) {
    append(parent, text.slice(last, m.index));
    if (m[2] !== undefined) append(parent, h("code", {}, m[2]));
    else if (m[3] !== undefined || m[4] !== undefined) {
      const element = h(m[3] !== undefined ? "strong" : "em");
      inline(element, m[3] ?? m[4] ?? "");
      append(parent, element);
    } else if (m[5] !== undefined) inline(parent, m[5]);
    else append(parent, m[6] ?? entities[m[7] ?? ""] ?? "");
    last = m.index + m[0].length;
  }
  append(parent, text.slice(last));
}
