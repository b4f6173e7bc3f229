// The explorer: the schema of a CRD as a tree, and its other forms.

import type { Context, SchemaTarget, View } from "./context";
import { copyButton, h, plural, replace, type Child } from "./dom";
import { Latest } from "./engine";
import { findingList } from "./findings";
import type { Field, FieldsAnswer, Resource, RuleCost } from "./protocol";
import { costNote } from "./rules";

const tabs: { id: string; label: string }[] = [
  { id: "tree", label: "Fields" },
  { id: "sample", label: "Sample" },
  { id: "sample-full", label: "Full sample" },
  { id: "skeleton", label: "Skeleton" },
  { id: "structural", label: "Structural" },
  { id: "openapi-v2", label: "OpenAPI v2" },
  { id: "openapi-v3", label: "OpenAPI v3" },
  { id: "json-schema", label: "JSON Schema" },
  { id: "go", label: "Go" },
  { id: "proto", label: "Protobuf" },
  { id: "typescript", label: "TypeScript" },
];

// maxFields is the number of fields of a level that are shown at once, and maxText that of the characters of
// a text.
const maxFields = 300;
const maxText = 512 << 10;

export class Explorer implements View {
  readonly element: HTMLElement;
  private readonly crd = h("select", { "aria-label": "CRD" });
  private readonly version = h("select", { "aria-label": "Version" });
  // beside is the version that is shown next to the other one, or empty.
  private readonly beside = h("select", { "aria-label": "Version to show next to it" });
  private readonly query = h("input", { type: "search", "aria-label": "Search fields" });
  private readonly buttons = tabs.map((t) => h("button", { type: "button", role: "tab", id: "tab-" + t.id, "aria-controls": "explorer-panel", onclick: () => this.select(t.id) }, t.label));
  private readonly bar = h("div", { class: "tabs", role: "tablist", "aria-label": "Forms of the schema" }, ...this.buttons);
  private readonly content = h("div", { class: "content", role: "tabpanel", id: "explorer-panel", tabindex: 0 });
  private readonly about = h("p", { class: "about" });
  private readonly latest = new Latest();
  private readonly problems = h("div");
  // resources are the CRDs, custom of them, and then the built-in kinds.
  private resources: Resource[] = [];
  private custom = 0;
  private isCustom = true;
  // loads loads the fields in a field of the tree, which is done when it is opened.
  private readonly loads = new WeakMap<HTMLElement, () => Promise<void>>();
  // target is the part of a schema that is shown when the CRDs are known.
  private target: SchemaTarget | undefined;
  // opened is the match that was opened last.
  private opened = "";

  constructor(private readonly c: Context) {
    this.query.placeholder = "Search fields";
    for (const select of [this.crd, this.version, this.beside]) {
      select.addEventListener("change", () => {
        this.fillVersions();
        this.load();
      });
    }
    this.query.addEventListener("input", () => {
      this.c.state.query = this.query.value;
      this.tab = "tree";
      this.drawTabs();
      this.load(150);
    });
    this.bar.addEventListener("keydown", (e) => {
      const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
      if (step === 0) return;
      e.preventDefault();
      const shown = tabs.filter((t) => !this.isHidden(t.id));
      const at = shown.findIndex((t) => t.id === this.tab);
      this.select(shown[(at + step + shown.length) % shown.length]?.id ?? "tree");
      this.bar.querySelector<HTMLElement>("[aria-selected=true]")?.focus();
    });
    this.element = h(
      "div",
      { class: "explorer" },
      h("div", { class: "toolbar" }, this.crd, this.version, this.beside, this.query),
      this.about,
      this.problems,
      this.bar,
      this.content,
    );
    this.drawTabs();
  }

  private get tab(): string {
    return this.c.state.tab;
  }

  private set tab(id: string) {
    this.c.state.tab = id;
  }

  private drawTabs(): void {
    // The buttons stay, because one of them may have the focus.
    tabs.forEach(({ id }, i) => {
      const button = this.buttons[i];
      if (!button) return;
      button.hidden = this.isHidden(id);
      button.setAttribute("aria-selected", String(id === this.tab));
      button.tabIndex = id === this.tab ? 0 : -1;
    });
    this.content.setAttribute("aria-labelledby", "tab-" + this.tab);
  }

  private isHidden(id: string): boolean {
    return !this.isCustom && generated.includes(id);
  }

  private select(id: string): void {
    this.tab = id;
    this.drawTabs();
    this.load();
  }

  // show opens the tree at a part of a schema.
  show(target: SchemaTarget): void {
    this.target = target;
    this.c.state.query = "";
    this.tab = "tree";
  }

  refresh(): void {
    const { crds, semantics } = this.c.state;
    if (!tabs.some((t) => t.id === this.tab)) this.tab = "tree"; // a link may have anything
    this.query.value = this.c.state.query;
    this.drawTabs();
    this.latest.run(
      0,
      async (signal) => {
        const [a, own] = await Promise.all([this.c.engine.ask("resources", { crds, semantics }, signal), this.c.engine.ask("kinds", {}, signal)]);
        this.custom = a.resources.length;
        this.resources = [...a.resources, ...own.kinds];
        const options = (all: Resource[]) => all.map((r) => h("option", { value: r.name }, `${r.kind} (${r.name})`));
        replace(this.crd, a.resources.length > 0 && h("optgroup", { label: "CRDs" }, ...options(a.resources)), h("optgroup", { label: "Built-in kinds" }, ...options(own.kinds)));
        const { crd, version, beside } = this.c.state;
        if (this.resources.some((r) => r.name === crd)) this.crd.value = crd;
        // They are all that can be chosen until the versions are known.
        replace(this.version, h("option", { value: version }));
        replace(this.beside, h("option", { value: beside }));
        this.choose();
        this.fillVersions();
        replace(this.problems, findingList(a.problems, {}));
        this.load();
      },
      (m) => this.fail(m),
    );
  }

  // choose chooses the CRD and version of the target.
  private choose(): void {
    const t = this.target;
    if (!t) return;
    const [group, version] = t.apiVersion.includes("/") ? t.apiVersion.split("/", 2) : ["", t.apiVersion];
    const r = this.resources.find((r) => r.kind === t.kind && r.group === group);
    if (!r) return;
    this.crd.value = r.name;
    replace(this.version, h("option", { value: version ?? "" }, version ?? ""));
  }

  private resource(): Resource | undefined {
    return this.resources.find((r) => r.name === this.crd.value) ?? this.resources[0];
  }

  private fillVersions(): void {
    const r = this.resource();
    const before = this.version.value;
    const label = (v: { name: string; served: boolean; storage: boolean; deprecated?: string }) =>
      v.name + [v.storage && "storage", !v.served && "not served", v.deprecated && "deprecated"].filter(Boolean).map((x) => ", " + x).join("");
    replace(this.version, ...(r?.versions ?? []).map((v) => h("option", { value: v.name }, label(v))));
    const chosen = r?.versions.find((v) => v.name === before) ?? r?.versions.find((v) => v.storage) ?? r?.versions[0];
    if (chosen) this.version.value = chosen.name;
    // Types are generated for all CRDs.
    this.isCustom = !!r && this.resources.indexOf(r) < this.custom;
    if (this.isHidden(this.tab)) this.tab = "tree";
    this.drawTabs();
    const others = (r?.versions ?? []).filter((v) => v !== chosen);
    const beside = this.beside.value;
    replace(this.beside, h("option", { value: "" }, "no other version"), ...others.map((v) => h("option", { value: v.name }, "next to " + label(v))));
    this.beside.value = others.some((v) => v.name === beside) ? beside : "";
    this.beside.hidden = others.length === 0;
    Object.assign(this.c.state, { crd: this.crd.value, version: this.version.value, beside: this.beside.value });
    const names = r?.shortNames?.length ? `, short names ${r.shortNames.join(", ")}` : "";
    const deprecated = chosen?.deprecated;
    const scope = r?.namespaced ? "Namespaced" : "Cluster-scoped";
    replace(this.about, r ? `${scope} resource ${r.plural || r.name} of ${r.group ? "group " + r.group : "the core group"}${names}.` : "", !!deprecated && h("strong", { class: "deprecated" }, " " + deprecated));
  }

  private request(version = this.version.value): object {
    return { crds: this.c.state.crds, crd: this.resource()?.name ?? "", version, semantics: this.c.state.semantics };
  }

  // fill replaces the content. If it has the focus, that is moved to the element that focus returns.
  private fill(focus: () => HTMLElement | null | undefined, ...children: Child[]): void {
    const inside = this.content.contains(document.activeElement);
    replace(this.content, ...children);
    if (inside) (focus() ?? this.content).focus({ preventScroll: true });
  }

  private fail(message: string): void {
    replace(this.content, h("p", { class: "banner rejected", role: "alert" }, message));
  }

  private load(pause = 0): void {
    this.latest.run(pause, (signal) => this.ask(signal), (m) => this.fail(m));
  }

  private async ask(signal: AbortSignal): Promise<void> {
    if (this.tab === "tree" && this.query.value.trim() !== "") return this.search(signal);
    if (generated.includes(this.tab)) {
      const a = await this.c.engine.ask("generate", { crds: this.c.state.crds, target: this.tab, semantics: this.c.state.semantics }, signal);
      replace(this.content, findingList(a.problems, {}), ...a.files.map((f) => this.file(f.name, f.text)));
      return;
    }
    const version = this.version.value;
    const beside = this.beside.value;
    if (beside === "") replace(this.content, ...(await this.form(version, "", signal)));
    else {
      const both = [await this.form(version, beside, signal), await this.form(beside, version, signal)];
      const columns = both.map((children, i) => h("section", { class: "version", "aria-label": "Version " + (i === 0 ? version : beside) }, h("h2", {}, i === 0 ? version : beside), ...children));
      if (this.tab !== "tree") markLines(columns);
      replace(this.content, h("div", { class: "versions" }, ...columns));
    }
    const target = this.target;
    this.target = undefined;
    if (target) await this.reveal(target, signal);
  }

  // form returns a version in the form of the tab. other is the version next to it, or empty.
  private async form(version: string, other: string, signal: AbortSignal): Promise<Child[]> {
    const e = this.c.engine;
    const request = this.request(version);
    if (this.tab === "tree") {
      const a = await e.ask("fields", request, signal);
      const body = facts(a.field, a.costs ?? []);
      return [a.noSchema && h("p", { class: "note" }, "This version has no schema."), body && h("div", { class: "body root" }, body), h("ul", { class: "tree" }, ...(await this.fields(a, version, other, "", signal)))];
    }
    const a = await (this.tab.startsWith("sample") ? e.ask("sample", { ...request, full: this.tab === "sample-full" }, signal) : e.ask("form", { ...request, form: this.tab }, signal));
    const isSample = this.tab.startsWith("sample");
    const use = h("button", { type: "button", class: "quiet", onclick: () => this.c.open({ view: "playground", object: a.text, old: "", update: false }) }, "Open in playground");
    return [findingList(a.findings ?? [], {}), this.file("", a.text, isSample && use)];
  }

  private file(name: string, text: string, ...more: Child[]): HTMLElement {
    const rest = text.length - maxText;
    return h(
      "div",
      { class: "file" },
      h("header", {}, name === "" ? h("span", { class: "fill" }) : h("h3", {}, name), ...more, copyButton(() => text)),
      h("pre", { tabindex: 0, "aria-label": name || "Text" }, text.slice(0, maxText)),
      rest > 0 && h("p", { class: "note" }, plural(rest, "more character") + " not shown: copy has all of them."),
    );
  }

  private async search(signal: AbortSignal): Promise<void> {
    const a = await this.c.engine.ask("search", { ...this.request(), query: this.query.value }, signal);
    const paths = () => [...this.content.querySelectorAll<HTMLElement>(".path")];
    this.fill(
      () => paths().find((e) => e.textContent === this.opened) ?? paths()[0],
      a.matches.length === 0 && h("p", { class: "note" }, "No field matches."),
      h(
        "ul",
        { class: "matches" },
        ...a.matches.map((m) =>
          h("li", {}, h("button", { type: "button", class: "link path", onclick: () => this.open(m.path) }, m.path), h("span", { class: "type" }, m.type), h("span", { class: "description" }, m.description ?? "")),
        ),
      ),
      a.more && h("p", { class: "note" }, "There are more matches."),
    );
  }

  // open shows one field with what is in it.
  private open(path: string): void {
    this.opened = path;
    this.latest.run(
      0,
      async (signal) => {
        const a = await this.c.engine.ask("fields", { ...this.request(), path }, signal);
        const tree = h("ul", { class: "tree" }, this.field(a.field, a.costs ?? [], this.version.value, "", "", signal));
        const details = tree.querySelector("details");
        if (details) details.open = true;
        this.fill(() => tree.querySelector("summary"), h("button", { type: "button", class: "quiet", onclick: () => this.load() }, "← Back"), tree);
      },
      (m) => this.fail(m),
    );
  }

  // fields returns the fields in a field, with what differs in the other version, if there is one. The signal
  // is that of the tree: what is in its fields is loaded while it is shown.
  private async fields(a: FieldsAnswer, version: string, other: string, path: string, signal: AbortSignal): Promise<HTMLLIElement[]> {
    const theirs = new Map<string | undefined, Field>();
    if (other !== "") {
      try {
        const b = await this.c.engine.ask("fields", { ...this.request(other), path }, signal);
        for (const f of children(b.field)) theirs.set(f.name, f);
      } catch (e) {
        if (signal.aborted) throw e;
        // the other version does not have the field
      }
    }
    return inParts(children(a.field), (f) => {
      const peer = theirs.get(f.name);
      const difference = other === "" ? "" : !peer ? "only in " + version : shape(peer) !== shape(f) ? "differs" : "";
      const li = this.field(f, a.costs ?? [], version, other, difference, signal);
      const details = li.querySelector("details");
      if (details && path === "" && f.name === "spec") details.open = true;
      return li;
    });
  }

  // field shows a field, whose own fields are loaded when it is opened.
  private field(f: Field, costs: RuleCost[], version: string, other: string, difference: string, signal: AbortSignal): HTMLLIElement {
    const inner = h("ul", { class: "tree" });
    const deep = /Object|map\[|IntOrString\]|any/.test(f.type) && f.type !== "any" && f.type !== "map[string]string";
    const body = h("div", { class: "body" }, !!f.description && h("p", { class: "description" }, f.description), facts(f, costs));
    const title: Child[] = [
      h("span", { class: "name" }, f.name ?? "values"),
      h("span", { class: "type" }, f.type),
      difference !== "" && h("span", { class: "badge difference" }, difference),
      f.required && h("span", { class: "badge required" }, "required"),
      f.default !== undefined && h("span", { class: "badge" }, "default " + short(f.default)),
      hasRules(f) && h("span", { class: "badge rule" }, "CEL"),
      f.unknownFields?.preserved && h("span", { class: "badge preserve" }, "preserves unknown fields"),
      f.embeddedResource && h("span", { class: "badge" }, "embedded resource"),
      !!f.deprecated && h("span", { class: "badge deprecated" }, "deprecated"),
      !!f.description && h("span", { class: "brief" }, f.description.split("\n", 1)[0] ?? ""),
    ];
    const details = h("details", {}, h("summary", {}, ...title), body, inner);
    details.dataset["path"] = f.path ?? "";
    let loading: Promise<void> | undefined;
    const load = async () => {
      try {
        const a = await this.c.engine.ask("fields", { ...this.request(version), path: f.path ?? "" }, signal);
        replace(inner, ...(await this.fields(a, version, other, f.path ?? "", signal)));
      } catch (e) {
        if (signal.aborted) return;
        loading = undefined;
        replace(inner, h("li", { class: "note" }, e instanceof Error ? e.message : String(e)));
      }
    };
    this.loads.set(details, () => (deep ? (loading ??= load()) : Promise.resolve()));
    details.addEventListener("toggle", () => {
      if (details.open) void this.loads.get(details)?.();
      // The same field of the version next to it opens and closes, too.
      for (const peer of details.closest(".versions")?.querySelectorAll("details") ?? []) if (peer.dataset["path"] === f.path) peer.open = details.open;
    });
    return h("li", {}, details);
  }

  // reveal opens the tree at a part of the schema, and shows the rule that it is about.
  private async reveal(target: SchemaTarget, signal: AbortSignal): Promise<void> {
    const { names, rule } = parsed(target.path);
    let at: Element = this.content;
    for (const name of names) {
      const find = () => [...at.querySelectorAll<HTMLDetailsElement>("details")].find((d) => d.querySelector("summary > .name")?.textContent === name);
      let next = find();
      for (let more; !next && (more = at.querySelector<HTMLElement>(".more")); next = find()) more.click();
      if (!next) break;
      next.open = true;
      await this.loads.get(next)?.();
      if (signal.aborted) return;
      at = next;
    }
    const place = (rule !== undefined && at.querySelector<HTMLElement>(`[data-rule="${rule}"]`)) || at.querySelector<HTMLElement>(":scope > summary") || this.content;
    place.classList.add("target");
    place.scrollIntoView({ block: "center" });
    at.querySelector<HTMLElement>("summary")?.focus({ preventScroll: true });
  }
}

// inParts makes the elements of fields: of the first ones at once, and of the others when they are asked for.
function inParts(fields: Field[], make: (f: Field) => HTMLLIElement): HTMLLIElement[] {
  const rest = fields.slice(maxFields);
  const shown = fields.slice(0, maxFields).map(make);
  if (rest.length === 0) return shown;
  const show = () => {
    const next = inParts(rest, make);
    more.replaceWith(...next);
    // The button had the focus.
    next[0]?.querySelector("summary")?.focus({ preventScroll: true });
  };
  const more: HTMLLIElement = h("li", {}, h("button", { type: "button", class: "link more", onclick: show }, plural(rest.length, "more field")));
  return [...shown, more];
}

// generated are the tabs with types of all CRDs.
const generated = ["go", "proto", "typescript"];

// parsed returns the names of the fields on the way to a schema, and a rule of it as in facts.
function parsed(path: string): { names: string[]; rule: string | undefined } {
  const rule = /((?:\.items|\.additionalProperties)*)\.x-kubernetes-validations\[(\d+)\]$/.exec(path);
  return { names: [...path.matchAll(/\.properties\[((?:[^\]]|\](?!\.|$))*)\]/g)].map((m) => m[1] ?? ""), rule: rule ? `${rule[1]}[${rule[2]}]` : undefined };
}

// shape is what the schema of a field says, without the fields in it.
function shape(f: Field): string {
  return JSON.stringify(f, (key, value: unknown) => (key === "fields" || key === "path" ? undefined : value));
}

// markLines marks the lines of two texts that the other one does not have.
function markLines(columns: HTMLElement[]): void {
  const [left, right] = columns.map((c) => c.querySelector("pre"));
  if (!left || !right) return;
  const texts = [left, right].map((p) => (p.textContent ?? "").split("\n"));
  [left, right].forEach((pre, i) => {
    const others = new Set(texts[1 - i]);
    replace(pre, ...(texts[i] ?? []).flatMap((line) => [others.has(line) ? line : h("mark", {}, line), "\n"]));
  });
}

// children returns the fields of a value, of its items, or of the values of a map.
function children(f: Field): Field[] {
  for (let at: Field | undefined = f; at; at = at.items ?? at.values) {
    if (at.fields && at.fields.length > 0) return at.fields;
  }
  return [];
}

// hasRules reports whether a field, its items or its values have rules.
function hasRules(f: Field): boolean {
  for (let at: Field | undefined = f; at; at = at.items ?? at.values) if (at.rules && at.rules.length > 0) return true;
  return false;
}

function short(v: unknown): string {
  const text = JSON.stringify(v);
  return text.length > 40 ? text.slice(0, 40) + "…" : text;
}

// facts lists what the schema of a field, of its items and of its values says besides type and description.
function facts(f: Field, costs: RuleCost[]): HTMLElement | undefined {
  const rows: [string, Child][] = [];
  for (let at: Field | undefined = f, prefix = "", steps = ""; at; [prefix, steps, at] = at.items ? ["items ", steps + ".items", at.items] : ["values ", steps + ".additionalProperties", at.values]) {
    const path = at.path ?? "";
    if (at.enum) rows.push([prefix + "enum", at.enum.map((v) => JSON.stringify(v)).join(", ")]);
    for (const [k, v] of Object.entries(at.constraints ?? {})) rows.push([prefix + k, typeof v === "string" ? v : JSON.stringify(v)]);
    if (at.default !== undefined) rows.push([prefix + "default", JSON.stringify(at.default)]);
    if (at.nullable) rows.push([prefix + "nullable", "true"]);
    if (at.listType) rows.push([prefix + "list type", at.listType + (at.listMapKeys ? " by " + at.listMapKeys.join(", ") : "")]);
    if (at.mapType) rows.push([prefix + "map type", at.mapType]);
    for (const c of at.conditions ?? []) rows.push([prefix + "condition", c]);
    for (const [i, r] of (at.rules ?? []).entries()) {
      // An error of all rules of a schema is without a rule.
      const cost = costs.find((c) => c.path === path && !c.keyword && (c.rule === "" || c.index === i));
      rows.push([
        prefix + "rule",
        h(
          "span",
          { "data-rule": `${steps}[${i}]` },
          h("code", {}, r.rule),
          !!r.message && h("span", {}, " " + r.message),
          r.transition && h("span", { class: "badge" }, "on update"),
          cost && costNote(cost),
          ...(cost?.bounds ?? []).map((b) => h("span", { class: "cost" }, "within the limit: " + b.message)),
        ),
      ]);
    }
    if (at.unknownFields?.preserved || at.unknownFields?.other) rows.push([prefix + "unknown fields", (at.unknownFields.preserved ? "preserved: " : "pruned: ") + at.unknownFields.because]);
  }
  if (rows.length === 0) return undefined;
  return h("dl", {}, ...rows.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
}
