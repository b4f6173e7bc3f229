// What is wrong with the CRDs themselves, beside what happens to objects. Warnings are left to the view Lint.

import type { Context } from "./context";
import { h, plural, replace } from "./dom";
import { Latest } from "./engine";
import { findingList } from "./findings";
import type { Finding, Fix, Range } from "./protocol";

// pause is how long nothing is typed before CRDs are checked, in milliseconds.
const pause = 400;

// Actions go to a position of the CRDs, change them, and mark what is wrong.
interface Actions {
  mark(): void;
  reveal(range: Range, crds: string): void;
  fix(fix: Fix, crds: string): void;
}

// Definitions shows the errors of CRDs.
export class Definitions {
  readonly element = h("div", { class: "definitions" });
  // errors are those of the text.
  private errors: Finding[] = [];
  private text = "";
  private readonly latest = new Latest();
  // shown is what the findings are those of.
  private shown = "";

  constructor(
    private readonly c: Context,
    private readonly actions: Actions,
  ) {}

  // findings are the errors of the CRDs of the state. Those of another text have other positions.
  get findings(): Finding[] {
    return this.text === this.c.state.crds ? this.errors : [];
  }

  // cancel drops the answer that is awaited.
  cancel(): void {
    this.latest.cancel();
  }

  // show shows the errors of the CRDs of the state.
  show(): void {
    const { crds, semantics } = this.c.state;
    const wanted = JSON.stringify([crds, semantics]);
    if (wanted === this.shown) return;
    this.shown = "";
    this.errors = [];
    this.actions.mark();
    this.latest.run(
      pause,
      async (signal) => {
        const a = await this.c.engine.ask("lint", { crds, semantics }, signal);
        this.shown = wanted;
        this.set(a.findings.filter((f) => f.severity === "error"), crds);
      },
      () => this.set([], crds),
    );
  }

  private set(findings: Finding[], crds: string): void {
    this.errors = findings;
    this.text = crds;
    this.actions.mark();
    // Rules are shown with their costs.
    const own = findings.filter((f) => !f.rule.startsWith("cel-"));
    if (own.length === 0) return replace(this.element);
    const lint = h("button", { type: "button", class: "quiet", onclick: () => this.c.open({ view: "lint" }) }, "Open in Lint");
    const title = h("p", { class: "banner rejected" }, h("strong", {}, "The CRD has " + plural(own.length, "error")), lint);
    replace(this.element, title, findingList(own, { object: (r) => this.actions.reveal(r, crds), fix: (f) => this.actions.fix(f, crds) }));
  }
}
