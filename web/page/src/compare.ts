// Compare: what a change of a CRD means for stored objects and clients.

import { assistance, type Context, type View } from "./context";
import { h, plural, replace, setText } from "./dom";
import { newEditor, type Editor } from "./editor";
import { Latest } from "./engine";
import { findingItem, findingList } from "./findings";
import type { CompareAnswer } from "./protocol";
import type { State } from "./state";

export class Compare implements View {
  readonly element: HTMLElement;
  private readonly before: Editor;
  private readonly after: Editor;
  private readonly objects: Editor;
  private readonly result = h("div", { class: "result" });
  // spoken is what screen readers say about a new result.
  private readonly spoken = h("p", { class: "spoken", role: "status" });
  private readonly latest = new Latest();

  constructor(private readonly c: Context) {
    this.before = newEditor("Old CRD", () => this.edited({ before: this.before.value }));
    this.after = newEditor("New CRD", () => this.edited({ crds: this.after.value }));
    this.objects = newEditor("Objects", () => this.edited({ object: this.objects.value }), assistance(c));
    this.objects.hint = "Paste objects to see which of them the change affects.";
    this.element = h(
      "div",
      { class: "playground" },
      h("section", { class: "pane" }, h("header", {}, h("h2", {}, "Old CRD")), this.before.element),
      h("section", { class: "pane" }, h("header", {}, h("h2", {}, "New CRD")), this.after.element),
      h(
        "div",
        { class: "stack" },
        h("section", { class: "pane outcome" }, h("header", {}, h("h2", {}, "Changes")), this.spoken, this.result),
        h("section", { class: "pane tried" }, h("header", {}, h("h2", {}, "Objects to try")), this.objects.element),
      ),
    );
  }

  refresh(): void {
    if (this.c.state.before === "") this.c.state.before = this.c.state.crds;
    this.before.set(this.c.state.before);
    this.after.set(this.c.state.crds);
    this.objects.set(this.c.state.object);
    this.ask(0);
  }

  private edited(change: Partial<State>): void {
    Object.assign(this.c.state, change);
    this.c.changed();
    this.ask(250);
  }

  private ask(pause: number): void {
    const s = this.c.state;
    this.latest.run(
      pause,
      async (signal) => {
        this.result.classList.add("stale");
        this.show(await this.c.engine.ask("compare", { old: s.before, new: s.crds, objects: s.object, semantics: s.semantics }, signal));
      },
      (m) => {
        this.result.classList.remove("stale");
        replace(this.result, h("p", { class: "banner rejected", role: "alert" }, m));
      },
    );
  }

  private show(a: CompareAnswer): void {
    this.result.classList.remove("stale");
    const worst = a.changes.some((c) => c.severity === "error") ? "rejected" : a.changes.some((c) => c.severity === "warning") ? "unknown" : "accepted";
    const text = a.changes.length === 0 ? "No changes" : plural(a.changes.length, "change");
    const tried = a.tried > 0 ? "tried with " + plural(a.tried, "object") : "";
    setText(this.spoken, [text, tried].filter(Boolean).join(", "));
    replace(
      this.result,
      findingList(a.problems, {}),
      a.problems.length === 0 && h("p", { class: "banner " + worst }, h("strong", {}, text), h("span", {}, tried)),
      h(
        "ul",
        { class: "findings" },
        ...a.changes.map((v) => {
          const old = v.old;
          return findingItem(
            v,
            { object: (r) => this.after.reveal(r) },
            old && h("button", { type: "button", class: "link", onclick: () => this.before.reveal(old) }, "old line " + old.line),
            (v.objects ?? 0) > 0 && h("span", { class: "badge" }, plural(v.objects ?? 0, "object") + " affected"),
          );
        }),
      ),
      a.more && h("p", { class: "note" }, "There are more changes than are shown."),
    );
  }
}
