// The cluster: its CRDs, and the objects of one of them as a table that follows changes.

import { ClusterObject } from "./clusterobject";
import type { Context, View } from "./context";
import { arrange, h, plural, replace, setText, type Child } from "./dom";
import { EngineError, Latest } from "./engine";
import { findingList } from "./findings";
import { ask, Live, liveness, type AuditAnswer, type Change, type ClusterCRD, type ClusterState, type Condition, type ObjectsAnswer, type Row } from "./live";
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
  private items = new Map<string, Item>();
  private readonly rest = h("li", { class: "note" });
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
        this.page?.close();
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
    const items = new Map<string, Item>();
    for (const d of found.slice(0, maxShown)) {
      const before = this.items.get(d.name);
      const item = before?.revision === d.revision ? before : this.item(d);
      items.set(d.name, item);
      if (d.name === this.selected) item.button.setAttribute("aria-current", "true");
      else item.button.removeAttribute("aria-current");
      this.drawCount(d.name, item);
    }
    this.items = items;
    setText(this.rest, found.length > maxShown ? plural(found.length - maxShown, "more CRD") + ": search for them." : "No CRD matches.");
    arrange(this.list, ...[...items.values()].map((i) => i.element), (found.length > maxShown || (found.length === 0 && this.state?.known)) && this.rest);
  }

  private item(d: ClusterCRD): Item {
    const bad = d.conditions.filter((c) => isBad(c) && c.type !== "Compliant");
    const broken = d.conditions.some((c) => c.type === "Compliant" && c.status === "False");
    const count = h("span", { class: "count", title: "Objects" });
    const button = h(
      "button",
      { type: "button", class: "crd", onclick: () => this.select(d.name) },
      h("span", { class: "name" }, d.kind || d.name),
      count,
      h("span", { class: "group" }, d.group),
      bad.length > 0 && h("span", { class: "badge deprecated" }, bad.map((c) => (c.status === "True" ? c.type : "not " + c.type)).join(", ")),
      broken && h("span", { class: "badge required" }, "objects do not comply"),
      d.deleting && h("span", { class: "badge required" }, "being deleted"),
    );
    return { revision: d.revision, element: h("li", {}, button), button, count };
  }

  private drawCount(name: string, item: Item): void {
    setText(item.count, this.counts.get(name)?.text ?? "");
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
    } catch {
      for (const name of crds) this.counts.set(name, { text: "?", at: now });
    }
    for (const [name, item] of this.items) this.drawCount(name, item);
    this.counting = false;
  }

  private welcome(): void {
    replace(this.detail, h("p", { class: "note welcome" }, "Choose a CRD to see its objects."));
  }

  private select(name: string): void {
    const crd = this.state?.crds.find((d) => d.name === name);
    if (!crd) return;
    this.selected = name;
    this.page?.close();
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

// Item is a CRD in the list.
interface Item {
  revision: string;
  element: HTMLElement;
  button: HTMLElement;
  count: HTMLElement;
}

// DrawnRow is a row of the table. content is what it shows, as JSON.
interface DrawnRow {
  element: HTMLElement;
  names: (HTMLElement | false)[];
  content: string;
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
  private readonly opening = new Latest();
  private answer: ObjectsAnswer | undefined;
  private tokens: string[] = [];
  private readonly failing = new Map<string, number>();
  private object: ClusterObject | undefined;
  private elsewhere = 0;
  private shown = false;
  // semantics and chosen are the semantics and the namespace of what is shown.
  private semantics: string;
  private chosen = "";
  // drawn are the rows of the table, fresh those that have just changed, and heading what the header of the
  // table shows.
  private drawn = new Map<string, DrawnRow>();
  private readonly fresh = new Set<Row>();
  private heading = "";
  private frame = 0;
  private readonly problem = h("p", { class: "banner unknown" });
  private readonly empty = h("p", { class: "note" }, "There are no objects.");
  private readonly head = h("thead", {});
  private readonly body = h("tbody", {});
  private readonly rows = h("table", {}, this.head, this.body);
  private readonly previous = h("button", { type: "button", onclick: () => this.turn(-1) }, "Previous");
  private readonly next = h("button", { type: "button", onclick: () => this.turn(1) }, "Next");
  private readonly note = h("span", { class: "note" });

  constructor(
    private readonly c: Context,
    private crd: ClusterCRD,
  ) {
    this.semantics = c.state.semantics;
    this.namespace.placeholder = "All namespaces";
    this.version.addEventListener("change", () => this.restart());
    this.namespace.addEventListener("change", () => this.restart());
  }

  update(crd: ClusterCRD): void {
    const changed = crd.revision !== this.crd.revision;
    this.crd = crd;
    // A page that is not shown is drawn when it is refreshed.
    if (!changed || !this.shown) return;
    this.drawAbout();
    this.object ? this.object.reload() : this.start();
  }

  refresh(): void {
    this.shown = true;
    if (this.semantics !== this.c.state.semantics) {
      this.semantics = this.c.state.semantics;
      this.forget();
    }
    this.drawAbout();
    if (this.object) return this.object.refresh();
    this.draw();
    this.start();
  }

  leave(): void {
    this.shown = false;
    this.live.stop();
    this.opening.cancel();
    this.object?.leave();
  }

  // close ends all that the page does.
  close(): void {
    this.leave();
    this.latest.cancel();
    window.cancelAnimationFrame(this.frame);
  }

  // forget removes what does not hold for other semantics or another namespace.
  private forget(): void {
    this.latest.cancel();
    this.failing.clear();
    this.answer = undefined;
    replace(this.audited);
    replace(this.table, h("p", { class: "note" }, "Loading…"));
    replace(this.pager);
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
    const open = (view: string) => () =>
      this.opening.run(
        0,
        async (signal) => this.c.open({ view, crds: (await ask("crd", { crd: d.name, semantics: this.c.state.semantics }, signal)).text }),
        (m) => this.c.say(m),
      );
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
    const namespace = this.chosen;
    return { crd: this.crd.name, semantics: this.c.state.semantics, ...(this.version.value ? { version: this.version.value } : {}), ...(namespace ? { namespace } : {}) };
  }

  private restart(): void {
    this.tokens = [];
    this.chosen = this.namespace.value.trim();
    this.forget();
    this.start();
  }

  // start lists the objects, and follows their changes.
  private start(): void {
    this.live.run(
      async (signal, forgotten) => {
        if (forgotten) this.toFirst();
        const request = this.request();
        const list = () => {
          const token = this.tokens.at(-1);
          return ask("objects", { ...request, ...(token ? { continue: token } : {}) }, signal);
        };
        let a: ObjectsAnswer;
        try {
          a = await list().catch((e: unknown) => {
            if (signal.aborted || !(e instanceof EngineError) || e.code !== "expired" || !this.toFirst()) throw e;
            return list();
          });
        } catch (e) {
          if (!signal.aborted && !this.answer) replace(this.table, h("p", { class: "banner rejected", role: "alert" }, e instanceof Error ? e.message : String(e)));
          throw e;
        }
        if (!signal.aborted) {
          this.answer = a;
          this.elsewhere = 0;
          this.drawTable();
        }
        return { ...request, resourceVersion: a.resourceVersion };
      },
      (c) => this.changed(c),
      (live, problem) => liveness(this.liveness, live, problem),
    );
  }

  // toFirst returns to the first page, because the server has forgotten the state that the pages are of. It
  // reports whether another page was shown.
  private toFirst(): boolean {
    if (this.tokens.length === 0) return false;
    this.tokens = [];
    this.c.say("The server has forgotten this list: the first page of the current one is shown.");
    return true;
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

  // drawTable draws the table with the next frame: many changes can arrive at once.
  private drawTable(changed?: Row): void {
    if (changed) this.fresh.add(changed);
    if (this.frame !== 0) return;
    this.frame = window.requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
      this.fresh.clear();
    });
  }

  private paint(): void {
    const a = this.answer;
    if (!a) return;
    const columns = a.columns.map((c, i) => ({ ...c, i })).filter((c) => !c.wide && c.i > 0);
    const heading = JSON.stringify([columns, this.crd.namespaced, a.problem]);
    if (heading !== this.heading) {
      this.heading = heading;
      this.drawn.clear();
      replace(this.head, h("tr", {}, this.crd.namespaced && h("th", {}, "Namespace"), h("th", {}, "Name"), ...columns.map((c) => h("th", { title: c.description }, c.name)), h("th", {}, "Complies")));
    }
    const drawn = new Map<string, DrawnRow>();
    for (const r of a.rows) drawn.set(key(r), this.row(r, columns));
    this.drawn = drawn;
    arrange(this.body, ...[...drawn.values()].map((d) => d.element));
    setText(this.problem, "Objects are not checked: " + (a.problem ?? ""));
    arrange(this.table, !!a.problem && this.problem, a.rows.length === 0 ? this.empty : this.rows);
    const page = this.tokens.length > 0 ? `page ${this.tokens.length + 1}` : "";
    setText(this.note, [page, a.remaining ? plural(a.remaining, "more object") : "", this.elsewhere > 0 ? plural(this.elsewhere, "change") + " on other pages" : ""].filter(Boolean).join(", "));
    arrange(this.pager, this.tokens.length > 0 && this.previous, !!a.continue && this.next, this.note);
  }

  private turn(by: number): void {
    const token = this.answer?.continue;
    if (by < 0) this.tokens.pop();
    // A second click before the page is there does not skip a page.
    else if (!token || token === this.tokens.at(-1)) return;
    else this.tokens.push(token);
    this.start();
  }

  // row returns the row of an object. What names the object stays: it may have the focus.
  private row(r: Row, columns: { i: number }[]): DrawnRow {
    const n = Math.max(r.findings?.length ?? 0, this.failing.get(key(r)) ?? 0);
    const content = JSON.stringify([r, n]);
    let d = this.drawn.get(key(r));
    if (!d) {
      const names = [this.crd.namespaced && h("td", {}, r.namespace ?? ""), h("td", {}, h("button", { type: "button", class: "link path", onclick: () => this.open(r.namespace, r.name) }, r.name))];
      d = { element: h("tr", {}), names, content: "" };
    }
    if (d.content !== content) {
      d.content = content;
      const first = r.findings?.[0];
      const complies =
        n > 0 ? h("span", { class: "badge deprecated", title: first && first.path + ": " + first.message }, plural(n, "problem"))
        : r.unchecked ? h("span", { class: "badge required", title: r.unchecked }, "not checked")
        : h("span", { class: "ok" }, "yes");
      arrange(d.element, ...d.names, ...columns.map((c) => h("td", {}, r.cells[c.i] ?? "")), h("td", {}, complies));
    }
    if (this.fresh.has(r)) {
      d.element.classList.remove("changed");
      void d.element.offsetWidth; // the animation starts again
      d.element.classList.add("changed");
    }
    return d;
  }

  private open(namespace: string | undefined, name: string): void {
    this.live.stop();
    const id = key({ name, ...(namespace ? { namespace } : {}) });
    this.object = new ClusterObject(this.c, { crd: this.crd.name, name, ...(namespace ? { namespace } : {}) }, () => {
      this.object?.leave();
      this.object = undefined;
      this.show(() => this.draw(), () => this.drawn.get(id)?.element.querySelector("button"));
      this.start();
    });
    const { element } = this.object;
    this.show(() => replace(this.element, element), () => element.querySelector("button"));
    this.object.refresh();
  }

  // show draws the page. If it has the focus, that is moved to the element that focus returns.
  private show(draw: () => void, focus: () => HTMLElement | null | undefined): void {
    const inside = this.element.contains(document.activeElement);
    draw();
    if (inside) focus()?.focus({ preventScroll: true });
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
