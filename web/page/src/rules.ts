// The CEL rules of CRDs: what they cost, and the bounds that bring a rejected one below the limit.

import type { Context } from "./context";
import { h, plural, replace, type Child } from "./dom";
import { Latest } from "./engine";
import { capital, message } from "./findings";
import type { CheckedObject, Finding, Fix, Range, RuleCost, RulesAnswer } from "./protocol";

// maxKinds is the number of kinds whose rules are shown.
const maxKinds = 5;

// unbounded is where the engine's estimates end.
const unbounded = 2 ** 63;

// share says which part of a limit a cost is.
function share(cost: number, limit: number): string {
  if (cost >= unbounded) return "cost is unbounded";
  const percent = (100 * cost) / limit;
  if (percent > 100) return `estimated cost is ${percent < 1000 ? (percent / 100).toFixed(1) : Math.round(percent / 100).toLocaleString("en")} times the limit`;
  return `estimated cost is ${percent < 0.1 ? "less than 0.1" : percent.toFixed(1)}% of the limit`;
}

// costNote shows the cost of a rule, or why it has none.
export function costNote(c: RuleCost): HTMLElement {
  return h("div", { class: "cost" + (c.exceeded || c.error ? " exceeded" : "") }, ...message(c.error ?? share(c.cost, c.limit)));
}

// finding returns a rule that an API server rejects as a finding about the CRDs.
function finding(r: RuleCost): Finding {
  const text = r.error ?? "rejected: " + share(r.cost, r.limit);
  return { rule: "cel", severity: "error", path: r.path, message: text, ...(r.range ? { range: r.range } : {}) };
}

// Actions go to a position of the CRDs, change them, and mark the rules that an API server rejects.
interface Actions {
  mark(): void;
  reveal(range: Range, crds: string): void;
  fix(fix: Fix, crds: string): void;
}

// Rules shows the rules of the CRDs of objects.
export class Rules {
  readonly element = h("div", { class: "rules" });
  private readonly latest = new Latest();
  // rejected are the rules that an API server rejects, and text the CRDs that they are of.
  private rejected: Finding[] = [];
  private text = "";
  // shown is what the rules are those of.
  private shown = "";

  constructor(
    private readonly c: Context,
    private readonly actions: Actions,
  ) {}

  // findings are the rules of the CRDs of the state that an API server rejects. Those of another text have
  // other positions.
  get findings(): Finding[] {
    return this.text === this.c.state.crds ? this.rejected : [];
  }

  // cancel drops the answer that is awaited.
  cancel(): void {
    this.latest.cancel();
  }

  // show shows the rules of the kinds of objects.
  show(objects: CheckedObject[]): void {
    const { crds, semantics } = this.c.state;
    const kinds = new Map<string, { crd: string; version: string; title: string }>();
    for (const o of objects) {
      const version = o.apiVersion.split("/").pop() ?? "";
      if (o.crd && kinds.size < maxKinds) kinds.set(o.crd + " " + version, { crd: o.crd, version, title: o.kind + " " + version });
    }
    const wanted = JSON.stringify([crds, semantics, ...kinds.keys()]);
    if (wanted === this.shown) return;
    this.shown = "";
    this.rejected = [];
    this.actions.mark();
    this.latest.run(
      0,
      async (signal) => {
        const parts: Child[] = [];
        const findings: Finding[] = [];
        for (const k of kinds.values()) {
          const a = await this.c.engine.ask("rules", { crds, semantics, crd: k.crd, version: k.version }, signal);
          findings.push(...a.rules.filter((r) => r.exceeded || r.error).map(finding));
          if (a.rules.length > 0) parts.push(this.kind(kinds.size > 1 ? k.title : "", a, crds));
        }
        this.shown = wanted;
        this.set(findings, crds, parts);
      },
      () => this.set([], crds, []),
    );
  }

  private set(findings: Finding[], crds: string, parts: Child[]): void {
    this.rejected = findings;
    this.text = crds;
    this.actions.mark();
    replace(this.element, ...parts);
  }

  private kind(title: string, a: RulesAnswer, crds: string): HTMLElement {
    const bad = a.rules.filter((r) => r.exceeded || r.error).length + (a.exceeded ? 1 : 0);
    const details = h(
      "details",
      { class: "rules-of" },
      h(
        "summary",
        {},
        h("span", { class: "title" }, title === "" ? "CEL rules" : "CEL rules of " + title),
        h("span", { class: "badge" }, String(a.rules.length)),
        bad > 0 ? h("span", { class: "badge deprecated" }, "an API server rejects this CRD") : h("span", { class: "note" }, share(a.cost, a.limit) + " for all rules"),
      ),
      a.exceeded && h("p", { class: "cost exceeded" }, `All ${plural(a.rules.length, "rule")} together: ${share(a.cost, a.limit)}.`),
      h("ul", { class: "findings" }, ...a.rules.map((r) => this.rule(r, crds))),
    );
    details.open = bad > 0;
    return details;
  }

  private rule(r: RuleCost, crds: string): HTMLElement {
    const range = r.range;
    const where = (r.path === "" ? "object" : r.path) + (r.keyword ? ", " + r.keyword : "");
    const bad = r.exceeded || r.error;
    const meter = h("meter", { "aria-hidden": "true" });
    meter.max = r.limit;
    meter.low = r.limit / 4;
    meter.high = r.limit / 2;
    meter.optimum = 0;
    meter.value = Math.min(r.cost, r.limit);
    return h(
      "li",
      { class: "finding " + (bad ? "error" : "info") },
      h("div", { class: "head" }, range ? h("button", { type: "button", class: "link path", title: "Show line " + range.line, onclick: () => this.actions.reveal(range, crds) }, where) : h("span", { class: "path" }, where)),
      r.rule !== "" && h("code", { class: "expression" }, r.rule),
      h("div", { class: "spent" }, !r.error && meter, costNote(r)),
      (r.bounds?.length ?? 0) > 0 && h("div", { class: "actions" }, "Within the limit:", ...(r.bounds ?? []).map((b) => h("button", { type: "button", class: "fix", onclick: () => this.actions.fix(b, crds) }, capital(b.message)))),
      r.exceeded && !r.bounds && h("div", { class: "actions" }, "No bound on a list, map or string is sufficient: simplify the rule."),
    );
  }
}
