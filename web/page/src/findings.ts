// Shows findings as a list.

import { h, plural, type Child } from "./dom";
import type { Finding, Fix, Range } from "./protocol";

export interface Actions {
  // object and schema go to a position.
  object?: (range: Range) => void;
  schema?: (range: Range) => void;
  // tree shows a schema in the explorer.
  tree?: (path: string) => void;
  fix?: (fix: Fix) => void;
  rule?: (rule: string) => void;
}

export function findingItem(f: Finding, actions: Actions, ...more: Child[]): HTMLLIElement {
  const range = f.range;
  const schema = f.schema?.range;
  const go = actions.object;
  const path = f.schema?.path;
  const tree = actions.tree;
  const isRule = path?.includes(".x-kubernetes-validations[");
  const where = f.path || (range ? "line " + range.line : "");
  return h(
    "li",
    { class: "finding " + f.severity },
    h(
      "div",
      { class: "head" },
      h("span", { class: "severity" }, f.severity),
      where !== "" && (range && go ? h("button", { type: "button", class: "link path", title: "Show line " + range.line, onclick: () => go(range) }, where) : h("span", { class: "path" }, where)),
      ...more,
    ),
    h("div", { class: "message" }, ...message(f.message)),
    f.detail && f.detail.length > 0 && h("ul", { class: "detail" }, ...f.detail.slice(0, 12).map((d) => h("li", {}, d))),
    h(
      "div",
      { class: "actions" },
      actions.rule ? h("button", { type: "button", class: "link rule", onclick: () => actions.rule?.(f.rule) }, f.rule) : h("span", { class: "rule" }, f.rule),
      schema && actions.schema && h("button", { type: "button", class: "link", title: "Show " + (f.schema?.path ?? ""), onclick: () => actions.schema?.(schema) }, (isRule ? "rule, line " : "schema, line ") + schema.line),
      path !== undefined && tree && h("button", { type: "button", class: "link", title: "Show it in the explorer", onclick: () => tree(path) }, isRule ? "rule in explorer" : "explorer"),
      ...(actions.fix ? (f.fixes ?? []).slice(0, 3).map((x) => h("button", { type: "button", class: "fix", onclick: () => actions.fix?.(x) }, capital(x.message))) : []),
    ),
  );
}

// message shows a message. The lines at its end that point to a part of an expression are aligned.
export function message(text: string): Child[] {
  const at = text.search(/\n \| /);
  return at < 0 ? [text] : [text.slice(0, at), h("pre", { class: "excerpt" }, text.slice(at + 1).replace(/^ \| /gm, ""))];
}

export function findingList(findings: Finding[], actions: Actions): HTMLElement | undefined {
  if (findings.length === 0) return undefined;
  return h("ul", { class: "findings" }, ...findings.map((f) => findingItem(f, actions)));
}

// counts says how many findings of each severity there are.
export function counts(findings: Finding[]): string {
  const parts: string[] = [];
  for (const s of ["error", "warning", "info"] as const) {
    const n = findings.filter((f) => f.severity === s).length;
    if (n > 0) parts.push(plural(n, s));
  }
  return parts.join(", ");
}

export function capital(s: string): string {
  return s.charAt(0).toUpperCase() + s.slice(1);
}
