// Lint: problems in CRDs, with pages that explain them and fixes.

import { applyFix, assistance, type Context, type View } from "./context";
import { h, plural, replace, setText } from "./dom";
import { newEditor, type Editor } from "./editor";
import { Latest } from "./engine";
import { counts, findingList } from "./findings";
import { markdown } from "./markdown";
import type { LintAnswer } from "./protocol";

export class Lint implements View {
  readonly element: HTMLElement;
  private readonly crds: Editor;
  private readonly conventions: HTMLInputElement;
  private readonly result = h("div", { class: "result" });
  // spoken is what screen readers say about a new result.
  private readonly spoken = h("p", { class: "spoken", role: "status" });
  private readonly page = h("div", { class: "page", hidden: true });
  private readonly latest = new Latest();

  constructor(private readonly c: Context) {
    this.crds = newEditor("CustomResourceDefinitions", () => this.edited(), assistance(c));
    this.conventions = h("input", { type: "checkbox", id: "conventions" });
    this.conventions.addEventListener("change", () => {
      this.c.state.conventions = this.conventions.checked;
      this.ask(0);
    });
    this.element = h(
      "div",
      { class: "playground two" },
      h("section", { class: "pane" }, h("header", {}, h("h2", {}, "CRD")), this.crds.element),
      h("section", { class: "pane outcome" }, h("header", {}, h("h2", {}, "Findings"), h("label", { class: "check", for: "conventions" }, this.conventions, "API conventions")), this.page, this.spoken, this.result),
    );
  }

  refresh(): void {
    this.crds.set(this.c.state.crds);
    this.conventions.checked = this.c.state.conventions;
    this.ask(0);
  }

  private edited(): void {
    this.c.state.crds = this.crds.value;
    this.c.changed();
    this.ask(200);
  }

  private ask(pause: number): void {
    const s = this.c.state;
    this.latest.run(
      pause,
      async (signal) => {
        this.result.classList.add("stale");
        const crds = s.crds;
        this.show(await this.c.engine.ask("lint", { crds, semantics: s.semantics, conventions: s.conventions }, signal), crds);
      },
      (m) => {
        this.result.classList.remove("stale");
        replace(this.result, h("p", { class: "banner rejected", role: "alert" }, m));
      },
    );
  }

  private show(a: LintAnswer, crds: string): void {
    this.result.classList.remove("stale");
    const all = [...a.problems, ...a.findings];
    this.crds.show(all);
    const verdict = all.some((f) => f.severity === "error") ? "rejected" : all.length > 0 ? "unknown" : "accepted";
    const text = a.checked === 0 ? "There is no CRD" : all.length === 0 ? "No findings" : counts(all);
    setText(this.spoken, text);
    replace(
      this.result,
      h("p", { class: "banner " + verdict }, h("strong", {}, text), a.checked > 0 && h("span", {}, plural(a.checked, "CRD"))),
      // Only the rules of lint have pages.
      findingList(a.problems, { object: (r) => this.crds.reveal(r) }),
      findingList(a.findings, { object: (r) => this.crds.reveal(r), fix: (f) => applyFix(this.c, this.crds, crds, f), rule: (r) => void this.open(r) }),
      a.more && h("p", { class: "note" }, "There are more findings than are shown."),
    );
  }

  private async open(rule: string): Promise<void> {
    const from = document.activeElement;
    const closed = () => {
      this.page.hidden = true;
      // The findings may have been replaced.
      const all = [...this.result.querySelectorAll<HTMLElement>("button.rule")].filter((e) => e.textContent === rule);
      (all.find((e) => e === from) ?? all[0])?.focus();
    };
    try {
      const a = await this.c.engine.ask("rule", { rule });
      const close = h("button", { type: "button", class: "quiet", onclick: closed }, "Close");
      replace(this.page, h("header", {}, h("h3", {}, a.rule + ": " + a.title), close), markdown(a.markdown.replace(/^\s*# .*\n/, "")));
      this.page.hidden = false;
      this.page.scrollIntoView({ block: "nearest" });
      close.focus({ preventScroll: true });
    } catch (e) {
      this.c.say(e instanceof Error ? e.message : String(e));
    }
  }
}
