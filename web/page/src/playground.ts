// The playground: a CRD, an object, and what would be stored.

import { applyFix, assistance, isShown, type Context, type View } from "./context";
import { Definitions } from "./definitions";
import { copyButton, h, plural, replace, setText, type Child } from "./dom";
import { newEditor, type Editor } from "./editor";
import { Latest } from "./engine";
import { counts, findingList, type Actions } from "./findings";
import type { CheckAnswer, CheckedObject, Finding, Fix, Line, Outcome, Range, Resource } from "./protocol";
import { roving } from "./lines";
import { Rules } from "./rules";
import type { State } from "./state";

// maxRows is the number of lines of stored objects that are shown, of all objects together.
const maxRows = 4000;

// keyPause is how long no other kind is chosen with the keyboard before the object is replaced, in milliseconds.
const keyPause = 300;

export class Playground implements View {
  readonly element: HTMLElement;
  private readonly crds: Editor;
  private readonly object: Editor;
  private readonly old: Editor;
  private readonly oldPane: HTMLElement;
  private readonly update: HTMLInputElement;
  // kinds replaces the object by a sample of a kind.
  private readonly kinds = h("select", { class: "kinds", "aria-label": "New object of a kind" }, h("option", { value: "" }, "New object…"));
  private readonly result = h("div", { class: "result" });
  // spoken is what screen readers say about a new result.
  private readonly spoken = h("p", { class: "spoken", role: "status" });
  private readonly latest = new Latest();
  private readonly creating = new Latest();
  // withKeys is set while the keyboard is used for the list of kinds.
  private withKeys = false;
  private readonly listing = new Latest();
  // listed is what the kinds in the list depend on.
  private listed: string | undefined;
  private readonly rules: Rules;
  private readonly definitions: Definitions;
  partial = false;
  // problems are those of the text of the CRDs.
  private problems: Finding[] = [];
  // kept is the last result of a text that can be read.
  private kept: HTMLElement[] = [];
  // rows is the number of lines that may still be shown.
  private rows = 0;

  constructor(private readonly c: Context) {
    const help = assistance(c);
    this.crds = newEditor("CustomResourceDefinitions", () => this.edited({ crds: this.crds.value }), help);
    this.object = newEditor("Object", () => this.edited({ object: this.object.value }), help);
    this.old = newEditor("Object before the update", () => this.edited({ old: this.old.value }), help);
    this.crds.hint = "Paste CRDs, or drop files or a folder here.\nBuilt-in kinds need no CRD.";
    this.object.hint = "Paste an object, or press Ctrl+Space for completions.";
    const onCRDs = {
      mark: () => this.markCRDs(),
      reveal: (r: Range, crds: string) => (this.crds.value === crds ? this.crds.reveal(r) : c.say("The text has changed: the line may be another one now.")),
      fix: (f: Fix, crds: string) => applyFix(c, this.crds, crds, f),
    };
    this.rules = new Rules(c, onCRDs);
    this.definitions = new Definitions(c, onCRDs);
    this.update = h("input", { type: "checkbox", id: "update" });
    this.update.addEventListener("change", () => {
      if (this.update.checked && this.old.value === "") this.old.set(this.object.value);
      this.edited({ update: this.update.checked, old: this.old.value });
    });
    // The list is made when it is needed: a page without the complete engine would wait for it.
    for (const event of ["pointerenter", "focus"]) this.kinds.addEventListener(event, () => this.listKinds());
    this.kinds.addEventListener("change", () => this.create());
    this.kinds.addEventListener("blur", () => (this.kinds.value = ""));
    for (const event of ["pointerdown", "keydown"]) this.kinds.addEventListener(event, () => (this.withKeys = event === "keydown"));
    this.oldPane = h("section", { class: "pane" }, h("header", {}, h("h2", {}, "Before")), this.old.element);
    this.element = h(
      "div",
      { class: "playground" },
      h("section", { class: "pane" }, h("header", {}, h("h2", {}, "CRD")), this.crds.element),
      h(
        "div",
        { class: "stack" },
        this.oldPane,
        h("section", { class: "pane" }, h("header", {}, h("h2", {}, "Object"), this.kinds, h("label", { class: "check", for: "update" }, this.update, "Update")), this.object.element),
      ),
      h("section", { class: "pane outcome" }, h("header", {}, h("h2", {}, "Result")), this.spoken, this.result),
    );
  }

  refresh(): void {
    const s = this.c.state;
    this.crds.set(s.crds);
    this.object.set(s.object);
    this.old.set(s.old);
    this.update.checked = s.update;
    this.oldPane.hidden = !s.update;
    this.rules.cancel();
    this.definitions.cancel();
    this.ask(0);
  }

  private listKinds(): void {
    const { crds, semantics } = this.c.state;
    const wanted = semantics + crds;
    if (wanted === this.listed) return;
    this.listed = wanted;
    this.listing.run(
      0,
      async (signal) => {
        const [custom, own] = await Promise.all([this.c.engine.ask("resources", { crds, semantics }, signal), this.c.engine.ask("kinds", {}, signal)]);
        const group = (label: string, all: Resource[]) => {
          const options = all.flatMap((r) => r.versions.filter((v) => v.served).map((v) => h("option", { value: r.name + " " + v.name }, `${r.kind} (${r.group ? r.group + "/" : ""}${v.name})`)));
          return options.length > 0 && h("optgroup", { label }, ...options);
        };
        // A list that is open must not change, except the one before the first answer.
        if (this.kinds.length > 1 && isOpen(this.kinds)) this.listed = undefined;
        else replace(this.kinds, h("option", { value: "" }, "New object…"), group("Kinds of the CRDs", custom.resources), group("Built-in kinds", own.kinds));
      },
      (m) => {
        this.listed = undefined;
        this.c.say(m);
      },
    );
  }

  // create replaces the object by a sample of the chosen kind. A kind that was chosen with the keyboard is shown,
  // and the list keeps the focus: arrow keys and letters change a list that is closed, often several times.
  private create(): void {
    const kind = this.kinds.value;
    const [crd, version] = kind.split(" ");
    if (!crd) return this.creating.cancel();
    const { crds, semantics } = this.c.state;
    const before = this.object.value;
    const withKeys = this.withKeys;
    this.creating.run(
      withKeys ? keyPause : 0,
      async (signal) => {
        const a = await this.c.engine.ask("sample", { crds, crd, version, semantics }, signal);
        if (!isShown(this.object)) this.c.say("The object was not created: another view is shown.");
        else if (this.object.value !== before) this.c.say("The text has changed: choose the kind again.");
        else {
          const stays = withKeys && document.activeElement === this.kinds;
          this.object.edit(0, before.length, a.text);
          if (stays) this.kinds.focus({ preventScroll: true });
          this.kinds.value = stays ? kind : "";
        }
      },
      (m) => this.c.say(m),
    );
  }

  // edited changes the state. Only what the user has changed is written: the view need not show the rest.
  private edited(change: Partial<State>): void {
    Object.assign(this.c.state, change);
    this.oldPane.hidden = !this.c.state.update;
    this.c.changed();
    this.rules.cancel();
    this.definitions.cancel();
    this.ask(120);
  }

  private ask(pause: number): void {
    this.latest.run(
      pause,
      async (signal) => {
        const s = this.c.state;
        this.result.classList.add("stale");
        const request = { crds: s.crds, objects: s.object, semantics: s.semantics, both: true, ...(s.update ? { old: s.old } : {}) };
        this.show(await this.c.engine.ask("check", request, signal), request.objects);
      },
      (message) => this.fail(message),
    );
  }

  private fail(message: string): void {
    this.partial = false;
    this.result.classList.remove("stale");
    replace(this.result, h("p", { class: "banner rejected", role: "alert" }, message));
  }

  private show(a: CheckAnswer, objects: string): void {
    this.partial = a.partial ?? false;
    this.result.classList.remove("stale");
    this.problems = a.crds;
    this.markCRDs();
    this.old.show(a.old);
    // A text that cannot be read while it is typed does not hide the last result.
    const lacking = a.crds.some((f) => f.severity === "error") && a.objects.every((o) => o.verdict === "unknown");
    const broken = (a.objects.length === 0 && a.text.length > 0) || (lacking && this.kept.length > 0);
    this.object.show([...a.text, ...(broken ? [] : a.objects.flatMap((o) => o.findings))]);
    const parts: Child[] = [];
    parts.push(this.texts("The CRDs cannot be read", a.crds, { object: (r) => this.crds.reveal(r) }));
    parts.push(this.texts("The object cannot be read", a.text, { object: (r) => this.object.reveal(r) }));
    parts.push(this.texts("The object before the update cannot be read", a.old, { object: (r) => this.old.reveal(r) }));
    parts.push(this.definitions.element);
    if (a.partial) parts.push(this.withoutRules(a.problem ?? ""));
    this.rows = maxRows;
    const cards = broken ? [] : a.objects.map((o) => this.one(o, objects, a.objects.length > 1));
    parts.push(...cards);
    if (broken && this.kept.length > 0) parts.push(h("div", { class: "last" }, h("p", { class: "note" }, "The result before:"), ...this.kept));
    else this.kept = cards;
    if (a.more) parts.push(h("p", { class: "note" }, "There are more objects than are shown."));
    if (a.objects.length === 0 && a.text.length === 0) parts.push(h("p", { class: "note" }, "Enter an object to see what an API server would store."));
    parts.push(this.rules.element);
    replace(this.result, ...parts);
    setText(this.spoken, broken ? "The text cannot be read" : spoken(a.objects));
    if (!a.partial && !broken) this.rules.show(a.objects);
    if (!a.partial) this.definitions.show();
  }

  // markCRDs shows what is wrong with the CRDs, of which the most is known later than the rest. Rules that
  // are rejected are errors of the CRDs, too.
  private markCRDs(): void {
    const errors = this.definitions.findings;
    const isKnown = (r: Finding) => errors.some((f) => f.range && r.range && f.range.start <= r.range.end && r.range.start <= f.range.end);
    this.crds.show([...this.problems, ...errors, ...this.rules.findings.filter((r) => !isKnown(r))]);
  }

  // withoutRules tells why no rules were evaluated.
  private withoutRules(problem: string): HTMLElement {
    if (problem === "") return h("p", { class: "note" }, "CEL rules are not evaluated yet: they are being loaded.");
    const again = () => {
      this.c.engine.retry?.();
      this.ask(0);
    };
    const why = problem.replace("the engine cannot be loaded: ", "");
    return h("p", { class: "note", role: "alert" }, `CEL rules could not be loaded: ${why}. `, h("button", { type: "button", class: "link", onclick: again }, "Try again"));
  }

  private texts(title: string, findings: Finding[], actions: Actions): Child {
    if (findings.length === 0) return undefined;
    return h("div", { class: "card" }, h("p", { class: "banner rejected" }, title), findingList(findings, actions));
  }

  private one(o: CheckedObject, objects: string, several: boolean): HTMLElement {
    const name = [o.kind || "Object", o.namespace && o.name ? o.namespace + "/" + o.name : o.name].filter(Boolean).join(" ");
    const actions: Actions = { object: (r) => this.object.reveal(r), schema: (r) => this.crds.reveal(r), fix: (f) => applyFix(this.c, this.object, objects, f) };
    if (!o.builtIn) actions.tree = (path) => this.c.explore({ apiVersion: o.apiVersion, kind: o.kind, path });
    const other = o.other;
    return h(
      "article",
      { class: "card" },
      several && h("h3", {}, name),
      this.banner(o, o),
      findingList(o.findings, actions),
      ...(o.general ?? []).map((n) => h("p", { class: "note" }, n.message)),
      other
        ? h("div", { class: "both" }, h("p", { class: "note" }, "The two schema semantics differ for this object."), h("div", { class: "columns" }, this.stored(o, o.semantics), this.stored(other, other.semantics, other.verdict !== o.verdict ? this.banner(o, other) : undefined)))
        : this.stored(o),
    );
  }

  private banner(o: CheckedObject, outcome: Outcome): HTMLElement {
    const found = counts(outcome.findings);
    const kind = isUndecided(o, outcome) ? "unknown" : outcome.verdict;
    return h("p", { class: "banner " + kind }, h("strong", {}, verdict(o, outcome)), found !== "" && h("span", {}, found));
  }

  private stored(o: Outcome, title?: string, banner?: HTMLElement): Child {
    const lines = o.lines;
    if (!lines || lines.length === 0) return undefined;
    const pruned = lines.filter((l) => l.mark === "pruned" && l.reason).length;
    const defaulted = lines.filter((l) => l.mark === "defaulted" && l.reason).length;
    const summary = [pruned > 0 && plural(pruned, "field") + " pruned", defaulted > 0 && plural(defaulted, "default") + " added"].filter(Boolean).join(", ");
    const shown = lines.slice(0, this.rows);
    this.rows -= shown.length;
    return h(
      "div",
      { class: "stored" },
      h("header", {}, h("h3", {}, title ?? (o.verdict === "rejected" ? "Would be stored" : "Stored")), h("span", { class: "summary" }, summary), copyButton(() => o.stored ?? "")),
      banner,
      shown.length > 0 && roving(h("div", { class: "lines", role: "region", "aria-label": "Stored object" }, ...shown.map((l) => this.line(l)))),
      lines.length > shown.length && h("p", { class: "note" }, plural(lines.length - shown.length, "more line") + " not shown: copy has all of them."),
    );
  }

  // to returns a part of a result that leads to the object, with a click or Enter. Its text can be selected.
  private to(range: Range, text: string): HTMLElement {
    const element = h("span", { role: "link", tabindex: -1, class: "to", title: "Show line " + range.line }, text);
    element.addEventListener("click", () => {
      if (getSelection()?.isCollapsed !== false) this.object.reveal(range);
    });
    element.addEventListener("keydown", (e) => {
      if (e.key !== "Enter") return;
      e.preventDefault();
      this.object.reveal(range);
    });
    return element;
  }

  private line(l: Line): HTMLElement {
    const tag = l.mark === "pruned" ? "del" : l.mark ? "ins" : "span";
    const code = l.text.trimStart();
    const range = l.range;
    const text = h(tag, { class: "code" }, range ? this.to(range, code) : code);
    const schema = l.schema?.range;
    const row = h("div", { class: "row" + (l.mark ? " " + l.mark : "") }, h("span", { class: "indent" }, " ".repeat(l.text.length - code.length)), text);
    if (l.reason) {
      row.appendChild(schema ? h("button", { type: "button", class: "link reason", title: "Show the schema", onclick: () => this.crds.reveal(schema) }, l.reason) : h("span", { class: "reason" }, l.reason));
    }
    return row;
  }
}

// isOpen reports whether a list is open, where browsers can tell.
function isOpen(list: HTMLSelectElement): boolean {
  return CSS.supports("selector(:open)") && list.matches(":open");
}

// isUndecided reports whether a rule may reject what the schema accepts.
function isUndecided(o: CheckedObject, outcome: Outcome): boolean {
  return !!o.unevaluated && outcome.verdict === "accepted";
}

// verdict says what an API server would do with an object.
function verdict(o: CheckedObject, outcome: Outcome): string {
  const what = o.update ? "update" : "create";
  if (isUndecided(o, outcome)) return "The schema accepts this object, but CEL rules are not evaluated";
  return {
    accepted: `Accepted: an API server would ${what} this object`,
    rejected: `Rejected: an API server would not ${what} this object`,
    unknown: "No CRD for this object",
  }[outcome.verdict];
}

// spoken says what a screen reader says about objects: the verdict on one, or how many have each verdict.
function spoken(objects: CheckedObject[]): string {
  const [o, ...others] = objects;
  if (!o) return "";
  if (others.length === 0) return [verdict(o, o), counts(o.findings)].filter(Boolean).join(", ");
  return (["accepted", "rejected", "unknown"] as const)
    .map((v) => ({ v, n: objects.filter((o) => o.verdict === v).length }))
    .filter(({ n }) => n > 0)
    .map(({ v, n }) => `${plural(n, "object")} ${v}`)
    .join(", ");
}
