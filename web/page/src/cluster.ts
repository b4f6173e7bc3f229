// The cluster: its CRDs, and the objects of one of them as a table that follows changes.

import { ClusterObject } from "./clusterobject";
import type { Context, View } from "./context";
import { h, plural, replace, type Child } from "./dom";
import { Latest } from "./engine";
import { findingList } from "./findings";
import { ask, Live, type AuditAnswer, type Change, type ClusterCRD, type ClusterState, type Condition, type ObjectsAnswer, type Row } from "./live";
import { poll } from "./poll";

// maxShown is the number of CRDs in the list, and maxRows that of rows in the table: changes add some.
const maxShown = 300;
const maxRows = 400;
// counted is the number of CRDs whose objects a request counts.
const counted = 50;
// age is how long a count is shown before it is asked for again, in milliseconds.
const age = 30000;

export class Cluster implements View {
  readonly element: HTMLElement;
  private readonly query = h("input", { type: "search", "aria-label": "Search CRDs" });
  private readonly status = h("div", { class: "cluster-status", role: "status" });
  private readonly list = h("ul", { class: "crd-list" });
  private readonly detail = h("section", { class: "cluster-detail", "aria-label": "CRD" });
  private state: ClusterState | undefined;
  private selected = "";
  private readonly counts = new Map<string, { text: string; at: number }>();
  private counting = false;
  private page: CRDPage | undefined;
  private following = false;

  constructor(private readonly c: Context) {
    this.query.placeholder = "Search CRDs";
    this.query.addEventListener("input", () => this.drawList());
    this.element = h("div", { class: "cluster" }, h("aside", { "aria-label": "CRDs of the cluster" }, this.status, this.query, this.list), this.detail);
    this.welcome();
  }

  refresh(): void {
    if (!this.following) {
      this.following = true;
      poll<ClusterState>("api/cluster", (s) => this.take(s), (m) => this.c.say(m));
      window.setInterval(() => void this.count(), 5000);
    }
    this.page?.refresh();
  }

  leave(): void {
    this.page?.leave();
  }

  private take(s: ClusterState): void {
    this.state = s;
    const kind = s.connected ? "live" : s.problem ? "down" : "waiting";
    replace(
      this.status,
      h("span", { class: "dot " + kind }),
      h(
        "div",
        {},
        h("strong", {}, s.server || "Cluster"),
        h("div", { class: "note" }, s.connected ? plural(s.crds.length, "CRD") + (s.more ? " (there are more)" : "") : s.problem ? "" : "waiting for an answer…"),
        !!s.problem && h("div", { class: "problem" }, s.problem),
        !!s.problem && s.known && h("div", { class: "note" }, "The list shows what was known before."),
      ),
    );
    this.drawList();
    const crd = s.crds.find((d) => d.name === this.selected);
    if (this.selected !== "") {
      if (crd) this.page?.update(crd);
      else if (s.known) {
        this.selected = "";
        this.page?.leave();
        this.page = undefined;
        this.c.say("The CRD was deleted.");
        this.welcome();
      }
    }
    void this.count();
  }

  private matching(): ClusterCRD[] {
    const words = this.query.value.toLowerCase().split(/\s+/).filter(Boolean);
    return (this.state?.crds ?? []).filter((d) => words.every((w) => (d.name + " " + d.kind).toLowerCase().includes(w)));
  }

  private drawList(): void {
    const found = this.matching();
    replace(
      this.list,
      ...found.slice(0, maxShown).map((d) => {
        const bad = d.conditions.filter((c) => isBad(c) && c.type !== "Compliant");
        const broken = d.conditions.some((c) => c.type === "Compliant" && c.status === "False");
        return h(
          "li",
          {},
          h(
            "button",
            { type: "button", class: "crd", "aria-current": d.name === this.selected ? "true" : undefined, onclick: () => this.select(d.name) },
            h("span", { class: "name" }, d.kind || d.name),
            h("span", { class: "count", title: "Objects" }, this.counts.get(d.name)?.text ?? ""),
            h("span", { class: "group" }, d.group),
            bad.length > 0 && h("span", { class: "badge deprecated" }, bad.map((c) => (c.status === "True" ? c.type : "not " + c.type)).join(", ")),
            broken && h("span", { class: "badge required" }, "objects do not comply"),
            d.deleting && h("span", { class: "badge required" }, "being deleted"),
          ),
        );
      }),
      found.length > maxShown && h("li", { class: "note" }, plural(found.length - maxShown, "more CRD") + ": search for them."),
      found.length === 0 && this.state?.known && h("li", { class: "note" }, "No CRD matches."),
    );
  }

  // count asks for the number of objects of some CRDs whose count is old.
  private async count(): Promise<void> {
    if (this.counting || document.hidden || !this.state?.connected || this.element.offsetParent === null) return;
    const now = Date.now();
    const crds = this.matching()
      .slice(0, maxShown)
      .map((d) => d.name)
      .filter((name) => now - (this.counts.get(name)?.at ?? 0) > age)
      .slice(0, counted);
    if (crds.length === 0) return;
    this.counting = true;
    try {
      const a = await ask("count", { crds });
      for (const name of crds) this.counts.set(name, { text: a.counts[name] !== undefined ? String(a.counts[name]) : "?", at: now });
      this.drawList();
    } catch {
      for (const name of crds) this.counts.set(name, { text: "?", at: now });
    }
    this.counting = false;
  }

  private welcome(): void {
    replace(this.detail, h("p", { class: "note welcome" }, "Choose a CRD to see its objects."));
  }

  private select(name: string): void {
    const crd = this.state?.crds.find((d) => d.name === name);
    if (!crd) return;
    this.selected = name;
    this.page?.leave();
    this.page = new CRDPage(this.c, crd);
    replace(this.detail, this.page.element);
    this.page.refresh();
    this.drawList();
    this.detail.scrollIntoView({ block: "nearest" });
  }
}

// isBad reports whether a condition says that something is wrong.
function isBad(c: Condition): boolean {
  switch (c.type) {
    case "Established":
    case "NamesAccepted":
    case "Compliant":
    case "KubernetesAPIApprovalPolicyConformant":
      return c.status === "False";
    case "NonStructuralSchema":
    case "Terminating":
      return c.status === "True";
  }
  return false;
}

// CRDPage shows a CRD and its objects.
class CRDPage {
  readonly element = h("div", { class: "crd-page" });
  private readonly about = h("div", { class: "crd-about" });
  private readonly version = h("select", { "aria-label": "Version" });
  private readonly namespace = h("input", { type: "search", "aria-label": "Namespace", class: "namespace" });
  private readonly liveness = h("span", { class: "liveness", role: "status" });
  private readonly audited = h("div", {});
  private readonly table = h("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Objects" });
  private readonly pager = h("div", { class: "pager" });
  private readonly live = new Live();
  private readonly latest = new Latest();
  private answer: ObjectsAnswer | undefined;
  private tokens: string[] = [];
  private readonly failing = new Map<string, number>();
  private object: ClusterObject | undefined;
  private elsewhere = 0;

  constructor(
    private readonly c: Context,
    private crd: ClusterCRD,
  ) {
    this.namespace.placeholder = "All namespaces";
    this.version.addEventListener("change", () => this.restart());
    this.namespace.addEventListener("change", () => this.restart());
  }

  update(crd: ClusterCRD): void {
    const changed = crd.revision !== this.crd.revision;
    this.crd = crd;
    this.drawAbout();
    if (changed) this.object ? this.object.reload() : this.start();
  }

  refresh(): void {
    this.drawAbout();
    if (this.object) return this.object.refresh();
    this.draw();
    this.start();
  }

  leave(): void {
    this.live.stop();
    this.object?.leave();
  }

  private draw(): void {
    const check = h("button", { type: "button", onclick: () => this.audit() }, "Check all objects");
    replace(
      this.element,
      this.about,
      h("div", { class: "toolbar" }, this.version, this.crd.namespaced && this.namespace, check, this.liveness),
      this.audited,
      this.table,
      this.pager,
    );
  }

  private drawAbout(): void {
    const d = this.crd;
    const before = this.version.value;
    const served = d.versions.filter((v) => v.served);
    replace(this.version, ...served.map((v) => h("option", { value: v.name }, v.name + (v.storage ? ", storage" : ""))));
    const chosen = served.find((v) => v.name === before) ?? served.find((v) => v.storage) ?? served[0];
    if (chosen) this.version.value = chosen.name;
    const open = (view: string) => () => {
      ask("crd", { crd: d.name, semantics: this.c.state.semantics }).then(
        (a) => this.c.open({ view, crds: a.text, ...(view === "playground" ? { object: "", old: "", update: false } : {}) }),
        (e: unknown) => this.c.say(e instanceof Error ? e.message : String(e)),
      );
    };
    replace(
      this.about,
      h(
        "header",
        {},
        h("div", {}, h("h2", {}, d.kind), h("div", { class: "note path" }, d.name)),
        h("div", { class: "buttons" }, h("button", { type: "button", class: "quiet", onclick: open("explorer") }, "Schema"), h("button", { type: "button", class: "quiet", onclick: open("lint") }, "Lint")),
      ),
      h(
        "dl",
        {},
        h("dt", {}, "scope"),
        h("dd", {}, d.namespaced ? "Namespaced" : "Cluster"),
        h("dt", {}, "versions"),
        h("dd", {}, ...d.versions.map((v) => h("span", { class: "badge" + (v.deprecated ? " deprecated" : v.storage ? " storage" : "") }, v.name + [v.storage && "storage", !v.served && "not served", v.deprecated && "deprecated"].filter(Boolean).map((x) => ", " + x).join("")))),
        h("dt", {}, "may be stored in"),
        h("dd", {}, d.stored.join(", ") || "unknown"),
        d.versions.length > 1 && h("dt", {}, "conversion"),
        d.versions.length > 1 && h("dd", {}, d.conversion),
      ),
      h("ul", { class: "conditions" }, ...d.conditions.map((c) => h("li", { class: isBad(c) ? "bad" : "good" }, h("strong", {}, `${c.type}: ${c.status}`), " ", h("span", { class: "note" }, c.message || c.reason)))),
    );
  }

  private request(): { crd: string; semantics: string; version?: string; namespace?: string } {
    const namespace = this.namespace.value.trim();
    return { crd: this.crd.name, semantics: this.c.state.semantics, ...(this.version.value ? { version: this.version.value } : {}), ...(namespace ? { namespace } : {}) };
  }

  private restart(): void {
    this.tokens = [];
    this.failing.clear();
    replace(this.audited);
    this.start();
  }

  // start lists the objects, and follows their changes.
  private start(): void {
    const token = this.tokens.at(-1);
    this.live.run(
      async (signal) => {
        let a: ObjectsAnswer;
        try {
          a = await ask("objects", { ...this.request(), ...(token ? { continue: token } : {}) }, signal);
        } catch (e) {
          if (!signal.aborted && !this.answer) replace(this.table, h("p", { class: "banner rejected", role: "alert" }, e instanceof Error ? e.message : String(e)));
          throw e;
        }
        if (!signal.aborted) {
          this.answer = a;
          this.elsewhere = 0;
          this.drawTable();
        }
        return { ...this.request(), resourceVersion: a.resourceVersion };
      },
      (c) => this.changed(c),
      (live, problem) => replace(this.liveness, h("span", { class: "dot " + (live ? "live" : problem ? "down" : "waiting") }), live ? "live" : problem ? "not live: " + problem : ""),
    );
  }

  private changed(c: Change): void {
    const a = this.answer;
    const row = c.row;
    if (!a || !row) return;
    const at = a.rows.findIndex((r) => r.name === row.name && r.namespace === row.namespace);
    if (c.type === "DELETED") {
      if (at >= 0) a.rows.splice(at, 1);
    } else if (at >= 0) a.rows[at] = row;
    else if (c.type === "ADDED" && this.tokens.length === 0 && a.rows.length < maxRows) a.rows.unshift(row);
    else this.elsewhere++;
    this.failing.delete(key(row));
    this.drawTable(c.type === "DELETED" ? undefined : row);
  }

  private drawTable(changed?: Row): void {
    const a = this.answer;
    if (!a) return;
    const columns = a.columns.map((c, i) => ({ ...c, i })).filter((c) => !c.wide && c.i > 0);
    replace(
      this.table,
      !!a.problem && h("p", { class: "banner unknown" }, "Objects are not checked: " + a.problem),
      a.rows.length === 0
        ? h("p", { class: "note" }, "There are no objects.")
        : h(
            "table",
            {},
            h("thead", {}, h("tr", {}, this.crd.namespaced && h("th", {}, "Namespace"), h("th", {}, "Name"), ...columns.map((c) => h("th", { title: c.description }, c.name)), h("th", {}, "Complies"))),
            h("tbody", {}, ...a.rows.map((r) => this.row(r, columns, r === changed))),
          ),
    );
    const shown = this.tokens.length > 0 ? `page ${this.tokens.length + 1}` : "";
    replace(
      this.pager,
      this.tokens.length > 0 && h("button", { type: "button", onclick: () => this.turn(-1) }, "Previous"),
      !!a.continue && h("button", { type: "button", onclick: () => this.turn(1) }, "Next"),
      h("span", { class: "note" }, [shown, a.remaining ? plural(a.remaining, "more object") : "", this.elsewhere > 0 ? plural(this.elsewhere, "change") + " on other pages" : ""].filter(Boolean).join(", ")),
    );
  }

  private turn(by: number): void {
    if (by < 0) this.tokens.pop();
    else if (this.answer?.continue) this.tokens.push(this.answer.continue);
    this.start();
  }

  private row(r: Row, columns: { i: number }[], changed: boolean): HTMLElement {
    const n = Math.max(r.findings?.length ?? 0, this.failing.get(key(r)) ?? 0);
    return h(
      "tr",
      { class: changed ? "changed" : undefined },
      this.crd.namespaced && h("td", {}, r.namespace ?? ""),
      h("td", {}, h("button", { type: "button", class: "link path", onclick: () => this.open(r.namespace, r.name) }, r.name)),
      ...columns.map((c) => h("td", {}, r.cells[c.i] ?? "")),
      h("td", {}, this.answer?.problem ? "" : n > 0 ? h("span", { class: "badge deprecated", title: r.findings?.[0] ? r.findings[0].path + ": " + r.findings[0].message : undefined }, plural(n, "problem")) : h("span", { class: "ok" }, "yes")),
    );
  }

  private open(namespace: string | undefined, name: string): void {
    this.live.stop();
    this.object = new ClusterObject(this.c, { crd: this.crd.name, semantics: this.c.state.semantics, name, ...(namespace ? { namespace } : {}) }, () => {
      this.object?.leave();
      this.object = undefined;
      this.draw();
      this.start();
    });
    replace(this.element, this.object.element);
    this.object.refresh();
  }

  private audit(): void {
    replace(this.audited, h("p", { class: "note" }, "Checking…"));
    this.latest.run(
      0,
      async (signal) => this.drawAudit(await ask("audit", this.auditRequest(), signal)),
      (m) => replace(this.audited, h("p", { class: "banner rejected", role: "alert" }, m)),
    );
  }

  private auditRequest(): object {
    const { crd, semantics, namespace } = this.request();
    return { crd, semantics, ...(namespace ? { namespace } : {}) };
  }

  private drawAudit(a: AuditAnswer): void {
    this.failing.clear();
    for (const f of a.failures) this.failing.set(key(f), f.problems);
    const text = a.failing === 0 ? `All ${plural(a.objects, "object")} comply` : `${a.failing} of ${plural(a.objects, "object")} ${a.failing === 1 ? "does" : "do"} not comply`;
    const about = a.inspected ? "The server has checked what is stored." : "Checked as the API serves it: unspecified fields and the stored version are not visible.";
    const parts: Child[] = [
      h("p", { class: "banner " + (a.failing === 0 ? "accepted" : "rejected") }, h("strong", {}, text), h("span", {}, a.more ? "not all objects were checked, or are listed" : "")),
      h("p", { class: "note" }, about),
      findingList(a.findings, {}),
      a.failures.length > 0 &&
        h(
          "p",
          { class: "failures" },
          ...a.failures.slice(0, 30).flatMap((f) => [h("button", { type: "button", class: "link path", onclick: () => this.open(f.namespace, f.name) }, f.namespace ? f.namespace + "/" + f.name : f.name), " "]),
          a.failures.length > 30 && h("span", { class: "note" }, "and more"),
        ),
    ];
    replace(this.audited, h("div", { class: "card" }, ...parts));
    this.drawTable();
  }
}

function key(o: { namespace?: string; name: string }): string {
  return (o.namespace ?? "") + "/" + o.name;
}
