// One object of a cluster: what each version serves, why, and how it changes.

import type { Context } from "./context";
import { copyButton, h, plural, replace, type Child } from "./dom";
import { Latest } from "./engine";
import { findingList } from "./findings";
import { roving } from "./lines";
import { ask, Live, liveness, type Change, type ObjectAnswer, type ObjectName, type ObjectVersion, type WhyAnswer } from "./live";

// maxChanges is the number of changes that are kept.
const maxChanges = 50;

export class ClusterObject {
  readonly element: HTMLElement;
  private readonly liveness = h("span", { class: "liveness", role: "status" });
  private readonly problems = h("div", { class: "object-problems" });
  private readonly versions = h("div", { class: "columns" });
  private readonly reason = h("div", { class: "why", role: "region", "aria-label": "Why", "aria-live": "polite" });
  private readonly changes = h("div", { class: "changes", "aria-label": "Changes", role: "log" });
  private readonly live = new Live();
  private readonly latest = new Latest();
  private readonly asking = new Latest();
  private readonly opening = new Latest();
  private answer: ObjectAnswer | undefined;
  // drawn is the answer that is shown, as JSON.
  private drawn = "";
  private pointer = "";
  private seen = 0;

  constructor(
    private readonly c: Context,
    private readonly name: ObjectName,
    back: () => void,
  ) {
    const full = name.namespace ? name.namespace + "/" + name.name : (name.name ?? "");
    this.element = h(
      "div",
      { class: "cluster-object" },
      h(
        "header",
        {},
        h("button", { type: "button", class: "quiet", onclick: back }, "← Objects"),
        h("h2", {}, full),
        this.liveness,
        h("button", { type: "button", class: "quiet", onclick: () => this.playground() }, "Open in playground"),
      ),
      this.problems,
      h("h3", {}, "What each version serves"),
      h("p", { class: "note" }, "Choose a line to see why it has its value."),
      this.reason,
      this.versions,
      h("h3", {}, "Changes"),
      this.changes,
    );
    this.reason.hidden = true;
  }

  refresh(): void {
    this.asking.cancel();
    this.drawn = "";
    this.load(0);
    if (this.seen === 0) replace(this.changes, h("p", { class: "note" }, "Changes appear here while the page is open."));
    this.live.run(
      () => Promise.resolve(this.request()),
      (c) => this.changed(c),
      (live, problem) => {
        liveness(this.liveness, live, problem);
        // The object may have changed while it was not watched.
        if (live) this.load(0);
      },
    );
  }

  // request names the object, in the semantics of the page.
  private request(): object {
    return { ...this.name, semantics: this.c.state.semantics };
  }

  reload(): void {
    this.load(300);
  }

  leave(): void {
    this.live.stop();
    this.latest.cancel();
    this.asking.cancel();
    this.opening.cancel();
  }

  private load(pause: number): void {
    this.latest.run(
      pause,
      async (signal) => {
        const answer = await ask("object", this.request(), signal);
        const text = JSON.stringify(answer);
        if (text === this.drawn) return;
        this.drawn = text;
        this.answer = answer;
        this.draw(answer);
        if (this.pointer !== "") this.why(this.pointer);
      },
      (m) => {
        this.drawn = "";
        replace(this.problems, h("p", { class: "banner rejected", role: "alert" }, m));
      },
    );
  }

  private draw(a: ObjectAnswer): void {
    const found = a.inspected ? a.stored : a.findings;
    const text = found.length > 0 ? (a.inspected ? "What is stored does not comply with the CRD" : "What is served does not comply with the CRD") : a.inspected ? "What is stored complies with the CRD" : "What is served complies with the CRD";
    replace(
      this.problems,
      h("p", { class: "banner " + (found.length > 0 ? "rejected" : "accepted") }, h("strong", {}, text), h("span", {}, found.length > 0 ? plural(found.length, "problem") : "")),
      findingList(found, {}),
      !a.inspected && h("p", { class: "note" }, "The API does not show what is stored. espalier audit reads etcd or a snapshot of it."),
    );
    replace(this.versions, ...a.versions.map((v) => this.version(v)));
  }

  private version(v: ObjectVersion): HTMLElement {
    const lines = (v.lines ?? []).map((l) => {
      const code = l.text.trimStart();
      const pointer = l.pointer;
      const indent = h("span", { class: "indent" }, " ".repeat(l.text.length - code.length));
      const inner = pointer ? h("button", { type: "button", class: "code field", title: "Why?", tabindex: -1, onclick: () => this.why(pointer) }, code) : h("span", { class: "code" }, code);
      const row = h("div", { class: "row" + (pointer !== undefined && pointer === this.pointer ? " chosen" : "") }, indent, inner);
      if (pointer) row.dataset["pointer"] = pointer;
      return row;
    });
    return h(
      "div",
      { class: "stored" },
      h("header", {}, h("h3", {}, v.name), h("span", { class: "summary" }, v.storage ? "storage version" : ""), !!v.text && copyButton(() => v.text ?? "")),
      !!v.problem && h("p", { class: "banner rejected" }, v.problem),
      roving(h("div", { class: "lines", role: "region", "aria-label": "Version " + v.name }, ...lines)),
      v.more && h("p", { class: "note" }, "There are more lines: copy has all of them."),
    );
  }

  private why(pointer: string): void {
    this.pointer = pointer;
    for (const row of this.versions.querySelectorAll<HTMLElement>(".row")) row.classList.toggle("chosen", row.dataset["pointer"] === pointer);
    this.asking.run(
      0,
      async (signal) => this.drawWhy(await ask("why", { ...this.request(), path: pointer }, signal)),
      (m) => this.showWhy(h("p", { class: "banner rejected" }, m)),
    );
  }

  private showWhy(...children: Child[]): void {
    replace(
      this.reason,
      h(
        "button",
        {
          type: "button",
          class: "quiet close",
          onclick: () => {
            this.reason.hidden = true;
            this.pointer = "";
          },
        },
        "Close",
      ),
      ...children,
    );
    this.reason.hidden = false;
  }

  private drawWhy(a: WhyAnswer): void {
    this.showWhy(
      h("h4", { class: "path" }, a.path),
      h(
        "dl",
        {},
        ...a.versions.flatMap((v) => [
          h("dt", {}, v.name + (v.storage ? ", storage" : "") + (v.served ? "" : ", not served")),
          h(
            "dd",
            {},
            h("strong", {}, v.found ? short(v.value) : v.decision === "webhook" ? "not known" : "nothing"),
            h("span", { class: "cost" }, v.reason + (v.nearest ? `; did you mean "${v.nearest}"?` : "")),
            v.schema && h("span", { class: "cost" }, "schema: " + (v.schema.version ? v.schema.version + " " + (v.schema.path || "(root)") : v.schema.pointer)),
          ),
        ]),
      ),
    );
  }

  private changed(c: Change): void {
    if (this.seen++ === 0) replace(this.changes);
    const title = { ADDED: "created", MODIFIED: "changed", DELETED: "deleted" }[c.type as "ADDED" | "MODIFIED" | "DELETED"];
    const entry = h(
      "article",
      { class: "stored change" },
      h("header", {}, h("h3", {}, title), h("span", { class: "summary" }, new Date(c.time).toLocaleTimeString() + (c.revision ? ", resource version " + c.revision : ""))),
      !!c.message && h("p", { class: "note" }, c.message),
      h(
        "div",
        { class: "lines" },
        ...(c.diff ?? []).map((l) => h("div", { class: "row diff " + ({ "+": "added", "-": "removed", "@": "part" }[l.op] ?? "") }, h("span", { class: "indent", "aria-hidden": "true" }, l.op === "@" ? " " : l.op), h("span", { class: "code" }, l.op === "@" ? "⋯" : l.text))),
      ),
      c.more && h("p", { class: "note" }, "The change is longer than what is shown."),
    );
    this.changes.prepend(entry);
    while (this.changes.childElementCount > maxChanges) this.changes.lastElementChild?.remove();
    this.load(300);
  }

  private playground(): void {
    const version = this.answer?.versions.find((v) => v.storage && v.text) ?? this.answer?.versions.find((v) => v.text);
    if (!version?.text) return;
    const object = version.text;
    this.opening.run(
      0,
      async (signal) => {
        const a = await ask("crd", { crd: this.name.crd, semantics: this.c.state.semantics }, signal);
        this.c.open({ view: "playground", crds: a.text, object, old: object, update: true });
      },
      (m) => this.c.say(m),
    );
  }
}

function short(v: unknown): string {
  const text = JSON.stringify(v) ?? "null";
  return text.length > 200 ? text.slice(0, 200) + "…" : text;
}
