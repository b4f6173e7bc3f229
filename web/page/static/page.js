"use strict";
(() => {
  // dom.ts
  function h(tag, attributes = {}, ...children2) {
    const element = document.createElement(tag);
    for (const [name, value2] of Object.entries(attributes)) {
      if (value2 === void 0 || value2 === false) continue;
      if (name === "onclick") element.addEventListener("click", value2);
      else element.setAttribute(name, value2 === true ? "" : String(value2));
    }
    append(element, ...children2);
    return element;
  }
  function append(parent, ...children2) {
    for (const child of children2) {
      if (child === void 0 || child === false) continue;
      parent.appendChild(typeof child === "string" ? document.createTextNode(child) : child);
    }
  }
  function replace(parent, ...children2) {
    parent.replaceChildren();
    append(parent, ...children2);
  }
  function arrange(parent, ...nodes) {
    const wanted = nodes.filter((n) => n instanceof Node);
    const kept2 = new Set(wanted);
    for (const child of [...parent.childNodes]) if (!kept2.has(child)) child.remove();
    let at = parent.firstChild;
    for (const node of wanted) {
      if (node === at) at = at.nextSibling;
      else parent.insertBefore(node, at);
    }
  }
  function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }
  function byId(id) {
    const element = document.getElementById(id);
    if (!element) throw new Error("no element " + id);
    return element;
  }
  async function copy(text) {
    try {
      return await navigator.clipboard.writeText(text);
    } catch {
    }
    const focused = document.activeElement;
    const area = h("textarea");
    area.value = "copy";
    document.body.appendChild(area);
    area.select();
    const set = (e) => {
      e.preventDefault();
      e.clipboardData?.setData("text/plain", text);
    };
    document.addEventListener("copy", set, { once: true });
    const done = document.execCommand("copy");
    document.removeEventListener("copy", set);
    area.remove();
    if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
    if (!done) throw new Error("the text cannot be copied");
  }
  function copyButton(text) {
    const button = h("button", { type: "button", class: "quiet" }, "Copy");
    button.addEventListener("click", () => {
      copy(text()).then(
        () => flash(button, "Copied"),
        () => flash(button, "Cannot copy")
      );
    });
    return button;
  }
  var flashing = /* @__PURE__ */ new WeakMap();
  function flash(button, message3) {
    const before = flashing.get(button);
    window.clearTimeout(before?.timer);
    const text = before?.text ?? button.textContent ?? "";
    button.textContent = message3;
    const timer2 = window.setTimeout(() => {
      flashing.delete(button);
      button.textContent = text;
    }, 1500);
    flashing.set(button, { timer: timer2, text });
  }
  function plural(n, noun) {
    return `${n} ${noun}${n === 1 ? "" : "s"}`;
  }
  var ids = 0;
  function newId() {
    return "e" + ++ids;
  }

  // token.ts
  var prefix = "#token=";
  var key = "token";
  var token = "";
  function readToken() {
    try {
      if (token === "") token = sessionStorage.getItem(key) ?? "";
    } catch {
    }
    if (!location.hash.startsWith(prefix)) return false;
    token = location.hash.slice(prefix.length);
    history.replaceState(null, "", location.pathname);
    try {
      sessionStorage.setItem(key, token);
    } catch {
    }
    return true;
  }
  function tokenHeader() {
    return token === "" ? {} : { "Espalier-Token": token };
  }

  // engine.ts
  var EngineError = class extends Error {
    constructor(code, message3) {
      super(message3);
      this.code = code;
    }
    code;
  };
  var canceled = () => new EngineError("canceled", "the request was canceled");
  function unwrap(response) {
    if (response.error) throw new EngineError(response.error.code, response.error.message);
    return response.answer;
  }
  async function post(path, request, signal) {
    let response;
    try {
      response = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json", ...tokenHeader() },
        body: JSON.stringify(request),
        ...signal ? { signal } : {}
      });
    } catch (e) {
      if (signal?.aborted) throw canceled();
      throw new EngineError("unreachable", "espalier ui does not answer: is it still running?");
    }
    if (!response.ok) throw new EngineError("http", `espalier ui answers ${response.status}: open the link that it has printed`);
    return response;
  }
  var NativeEngine = class {
    async ask(name, request, signal) {
      const response = await post("api/" + name, request, signal);
      return unwrap(await response.json());
    }
  };
  var requestTime = 3e4;
  var abandonedTime = 700;
  var firstPause = 1e3;
  var lastPause = 6e4;
  var WorkerEngine = class {
    constructor(file, loaded) {
      this.file = file;
      this.loaded = loaded;
      this.start();
    }
    file;
    loaded;
    worker;
    queue = [];
    current;
    patience;
    isReady = false;
    isBroken = false;
    failures = 0;
    notBefore = 0;
    module;
    // ready reports whether requests are answered at once.
    get ready() {
      return this.isReady;
    }
    // problem is why the engine could not be loaded, or empty.
    problem = "";
    start() {
      this.isReady = false;
      this.problem = "";
      const worker = this.worker = new Worker("worker.js", { name: this.file });
      worker.postMessage({ module: this.module });
      worker.onmessage = (e) => {
        if (worker !== this.worker) return;
        if (e.data.module) {
          this.module = e.data.module;
          return;
        }
        if (e.data.problem !== void 0) return this.broken(e.data.problem);
        if (e.data.ended !== void 0) return this.ended(e.data.ended);
        if (e.data.ready) {
          this.isReady = true;
          this.loaded();
          return this.limit();
        }
        const done = this.current;
        this.current = void 0;
        this.failures = 0;
        window.clearTimeout(this.patience);
        if (done && e.data.response !== void 0) {
          try {
            done.settle(JSON.parse(e.data.response));
          } catch (e2) {
            done.fail(e2);
          }
        }
        this.next();
      };
      worker.onerror = () => {
        if (worker !== this.worker) return;
        if (this.isReady) this.ended("the engine has ended");
        else this.broken("the engine cannot be loaded");
      };
    }
    // ended continues with a new worker after a request has ended one. A worker that ends without a request
    // would do so again and again.
    ended(problem) {
      if (this.current) this.restart(new EngineError("failed", problem));
      else this.broken(problem);
    }
    // broken fails all requests. A later one tries to load the engine again.
    broken(problem) {
      this.worker?.terminate();
      this.isReady = false;
      this.isBroken = true;
      this.problem = problem;
      this.notBefore = Date.now() + Math.min(firstPause * 2 ** this.failures++, lastPause);
      const failed = [this.current, ...this.queue.splice(0)];
      this.current = void 0;
      for (const p of failed) p?.fail(new EngineError("failed", problem));
      this.loaded(problem);
    }
    // retry loads the engine again if it could not be loaded: at once, or after a pause.
    retry(atOnce = false) {
      if (!this.isBroken || !atOnce && Date.now() < this.notBefore) return;
      this.isBroken = false;
      this.start();
    }
    // restart ends the worker with its request, and continues with a new one.
    restart(e) {
      window.clearTimeout(this.patience);
      this.worker?.terminate();
      const p = this.current;
      this.current = void 0;
      p?.fail(p.signal?.aborted ? canceled() : e);
      this.start();
      this.next();
    }
    // limit starts the time of the current request. Loading the engine does not count.
    limit() {
      const p = this.current;
      if (!p || !this.isReady) return;
      window.clearTimeout(this.patience);
      this.patience = window.setTimeout(
        () => {
          if (this.current === p) this.restart(new EngineError("timeout", "the request took too long: use fewer or smaller CRDs and objects"));
        },
        p.signal?.aborted ? abandonedTime : requestTime
      );
    }
    next() {
      this.retry();
      if (this.isBroken) {
        for (const p of this.queue.splice(0)) p.fail(new EngineError("failed", this.problem));
        return;
      }
      while (!this.current) {
        const p = this.queue.shift();
        if (!p) return;
        if (p.signal?.aborted) {
          p.fail(canceled());
          continue;
        }
        this.current = p;
        this.worker?.postMessage({ name: p.name, request: JSON.stringify(p.request) });
        this.limit();
        p.signal?.addEventListener("abort", () => this.current === p && this.limit());
      }
    }
    ask(name, request, signal) {
      return new Promise((resolve, reject) => {
        this.queue.push({
          name,
          request,
          signal,
          settle: (r) => {
            if (signal?.aborted) reject(canceled());
            else resolve(unwrap(r));
          },
          fail: reject
        });
        this.next();
      });
    }
  };
  var StagedEngine = class {
    constructor(loaded) {
      this.loaded = loaded;
      this.small = new WorkerEngine("small.wasm", (problem) => {
        if (problem !== void 0) this.isSmall = false;
        else if (!this.whole?.ready) this.loaded("small");
        this.complete();
      });
    }
    loaded;
    small;
    whole;
    isSmall = true;
    complete() {
      return this.whole ??= new WorkerEngine("espalier.wasm", (problem) => this.loaded(problem === void 0 ? "complete" : this.isSmall ? "small" : "none", problem));
    }
    async ask(name, request, signal) {
      if (name === "check" && this.isSmall && !this.whole?.ready) {
        try {
          this.whole?.retry();
          const answer = await this.small.ask(name, request, signal);
          if (!this.whole?.ready) return { ...answer, partial: true, problem: this.whole?.problem ?? "" };
        } catch (e) {
          if (signal?.aborted || e instanceof EngineError && e.code !== "incomplete" && this.isSmall) throw e;
        }
      }
      return this.complete().ask(name, request, signal);
    }
    retry() {
      this.whole?.retry(true);
    }
  };
  var Latest = class {
    controller;
    timer;
    // cancel drops the answer that is awaited.
    cancel() {
      window.clearTimeout(this.timer);
      this.controller?.abort();
    }
    // run calls ask after a pause. Its errors are shown, except cancellations.
    run(pause2, ask2, failed) {
      this.cancel();
      const controller = this.controller = new AbortController();
      this.timer = window.setTimeout(() => {
        ask2(controller.signal).catch((e) => {
          if (controller.signal.aborted) return;
          failed(e instanceof Error ? e.message : String(e));
        });
      }, pause2);
    }
  };

  // findings.ts
  function findingItem(f, actions, ...more) {
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
        ...more
      ),
      h("div", { class: "message" }, ...message(f.message)),
      f.detail && f.detail.length > 0 && h("ul", { class: "detail" }, ...f.detail.slice(0, 12).map((d) => h("li", {}, d))),
      h(
        "div",
        { class: "actions" },
        actions.rule ? h("button", { type: "button", class: "link rule", onclick: () => actions.rule?.(f.rule) }, f.rule) : h("span", { class: "rule" }, f.rule),
        schema && actions.schema && h("button", { type: "button", class: "link", title: "Show " + (f.schema?.path ?? ""), onclick: () => actions.schema?.(schema) }, (isRule ? "rule, line " : "schema, line ") + schema.line),
        path !== void 0 && tree && h("button", { type: "button", class: "link", title: "Show it in the explorer", onclick: () => tree(path) }, isRule ? "rule in explorer" : "explorer"),
        ...actions.fix ? (f.fixes ?? []).slice(0, 3).map((x) => h("button", { type: "button", class: "fix", onclick: () => actions.fix?.(x) }, capital(x.message))) : []
      )
    );
  }
  function message(text) {
    const at = text.search(/\n \| /);
    return at < 0 ? [text] : [text.slice(0, at), h("pre", { class: "excerpt" }, text.slice(at + 1).replace(/^ \| /gm, ""))];
  }
  function findingList(findings, actions) {
    if (findings.length === 0) return void 0;
    return h("ul", { class: "findings" }, ...findings.map((f) => findingItem(f, actions)));
  }
  function counts(findings) {
    const parts = [];
    for (const s of ["error", "warning", "info"]) {
      const n = findings.filter((f) => f.severity === s).length;
      if (n > 0) parts.push(plural(n, s));
    }
    return parts.join(", ");
  }
  function capital(s) {
    return s.charAt(0).toUpperCase() + s.slice(1);
  }

  // lines.ts
  function roving(list) {
    const stops = () => [...list.querySelectorAll("[tabindex]")];
    let current2 = stops()[0];
    (current2 ?? list).tabIndex = 0;
    list.addEventListener("focusin", (e) => {
      if (!current2 || e.target === list) return;
      current2.tabIndex = -1;
      current2 = e.target;
      current2.tabIndex = 0;
    });
    list.addEventListener("keydown", (e) => {
      const all = stops();
      const at = all.indexOf(e.target);
      const next = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: all.length - 1 }[e.key];
      if (at < 0 || next === void 0) return;
      e.preventDefault();
      all[next]?.focus();
    });
    return list;
  }

  // live.ts
  async function ask(name, request, signal) {
    const response = await post("api/cluster/" + name, request, signal);
    return unwrap(await response.json());
  }
  async function watch(request, changed2, signal) {
    const response = await post("api/cluster/watch", request, signal);
    if (!response.headers.get("Content-Type")?.includes("ndjson")) {
      unwrap(await response.json());
      return;
    }
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    if (!reader) return;
    let rest = "";
    try {
      for (; ; ) {
        let next;
        try {
          next = await reader.read();
        } catch {
          if (signal.aborted) return;
          throw new EngineError("unreachable", "espalier ui does not answer: is it still running?");
        }
        if (next.done) return;
        const lines = (rest + next.value).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) changed2(JSON.parse(line));
      }
    } finally {
      reader.cancel().catch(() => void 0);
    }
  }
  var steady = 3e4;
  var firstPause2 = 1e3;
  var lastPause2 = 3e4;
  var slowPause = 6e4;
  var Live = class {
    controller;
    // run ends the watch before. start asks for what is watched from where; forgotten is set if the server
    // has forgotten the state that the last watch was to start from. told tells whether the watch runs, and
    // what is wrong if not.
    run(start, changed2, told) {
      this.stop();
      const controller = this.controller = new AbortController();
      let running;
      let timer2;
      let pause2 = firstPause2;
      let forgotten = false;
      const end = () => {
        window.clearTimeout(timer2);
        running?.abort();
      };
      const attempt = async () => {
        const { signal } = running = new AbortController();
        let problem = "";
        let type;
        let since = Infinity;
        try {
          const request = await start(signal, forgotten);
          if (signal.aborted) return;
          await watch(
            request,
            (c) => {
              if (signal.aborted) return;
              type = c.type;
              if (c.type === "started") {
                since = Date.now();
                told(true, "");
              } else if (c.type === "failed" || c.type === "rejected") problem = c.message || "the watch has failed";
              else if (c.type !== "expired") changed2(c);
            },
            signal
          );
        } catch (e) {
          problem = e instanceof Error ? e.message : String(e);
        }
        if (signal.aborted) return;
        told(false, problem);
        const lasted = Date.now() - since >= steady;
        if (lasted) pause2 = firstPause2;
        forgotten = type === "expired" && !lasted;
        timer2 = window.setTimeout(() => void attempt(), type === "rejected" ? slowPause : lasted && problem === "" ? 0 : pause2);
        if (!lasted) pause2 = Math.min(2 * pause2, lastPause2);
      };
      const show2 = () => {
        end();
        pause2 = firstPause2;
        if (document.hidden) told(false, "");
        else void attempt();
      };
      controller.signal.addEventListener("abort", end);
      document.addEventListener("visibilitychange", show2, { signal: controller.signal });
      show2();
    }
    stop() {
      this.controller?.abort();
    }
  };
  function liveness(element, live, problem) {
    replace(element, h("span", { class: "dot " + (live ? "live" : problem ? "down" : "waiting") }), live ? "live" : problem ? "not live: " + problem : "");
  }

  // clusterobject.ts
  var maxChanges = 50;
  var ClusterObject = class {
    constructor(c, name, back) {
      this.c = c;
      this.name = name;
      const full = name.namespace ? name.namespace + "/" + name.name : name.name ?? "";
      this.element = h(
        "div",
        { class: "cluster-object" },
        h(
          "header",
          {},
          h("button", { type: "button", class: "quiet", onclick: back }, "← Objects"),
          h("h2", {}, full),
          this.liveness,
          h("button", { type: "button", class: "quiet", onclick: () => this.playground() }, "Open in playground")
        ),
        this.problems,
        h("h3", {}, "What each version serves"),
        h("p", { class: "note" }, "Choose a line to see why it has its value."),
        this.reason,
        this.versions,
        h("h3", {}, "Changes"),
        this.changes
      );
      this.reason.hidden = true;
    }
    c;
    name;
    element;
    liveness = h("span", { class: "liveness", role: "status" });
    problems = h("div", { class: "object-problems" });
    versions = h("div", { class: "columns" });
    reason = h("div", { class: "why", role: "region", "aria-label": "Why", "aria-live": "polite" });
    changes = h("div", { class: "changes", "aria-label": "Changes", role: "log" });
    live = new Live();
    latest = new Latest();
    asking = new Latest();
    opening = new Latest();
    answer;
    // drawn is the answer that is shown, as JSON.
    drawn = "";
    pointer = "";
    seen = 0;
    refresh() {
      this.asking.cancel();
      this.drawn = "";
      this.load(0);
      if (this.seen === 0) replace(this.changes, h("p", { class: "note" }, "Changes appear here while the page is open."));
      this.live.run(
        () => Promise.resolve(this.request()),
        (c) => this.changed(c),
        (live, problem) => {
          liveness(this.liveness, live, problem);
          if (live) this.load(0);
        }
      );
    }
    // request names the object, in the semantics of the page.
    request() {
      return { ...this.name, semantics: this.c.state.semantics };
    }
    reload() {
      this.load(300);
    }
    leave() {
      this.live.stop();
      this.latest.cancel();
      this.asking.cancel();
      this.opening.cancel();
    }
    load(pause2) {
      this.latest.run(
        pause2,
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
        }
      );
    }
    draw(a) {
      const found = a.inspected ? a.stored : a.findings;
      const text = found.length > 0 ? a.inspected ? "What is stored does not comply with the CRD" : "What is served does not comply with the CRD" : a.inspected ? "What is stored complies with the CRD" : "What is served complies with the CRD";
      replace(
        this.problems,
        h("p", { class: "banner " + (found.length > 0 ? "rejected" : "accepted") }, h("strong", {}, text), h("span", {}, found.length > 0 ? plural(found.length, "problem") : "")),
        findingList(found, {}),
        !a.inspected && h("p", { class: "note" }, "The API does not show what is stored. espalier audit reads etcd or a snapshot of it.")
      );
      replace(this.versions, ...a.versions.map((v) => this.version(v)));
    }
    version(v) {
      const lines = (v.lines ?? []).map((l) => {
        const code = l.text.trimStart();
        const pointer = l.pointer;
        const indent = h("span", { class: "indent" }, " ".repeat(l.text.length - code.length));
        const inner = pointer ? h("button", { type: "button", class: "code field", title: "Why?", tabindex: -1, onclick: () => this.why(pointer) }, code) : h("span", { class: "code" }, code);
        const row = h("div", { class: "row" + (pointer !== void 0 && pointer === this.pointer ? " chosen" : "") }, indent, inner);
        if (pointer) row.dataset["pointer"] = pointer;
        return row;
      });
      return h(
        "div",
        { class: "stored" },
        h("header", {}, h("h3", {}, v.name), h("span", { class: "summary" }, v.storage ? "storage version" : ""), !!v.text && copyButton(() => v.text ?? "")),
        !!v.problem && h("p", { class: "banner rejected" }, v.problem),
        roving(h("div", { class: "lines", role: "region", "aria-label": "Version " + v.name }, ...lines)),
        v.more && h("p", { class: "note" }, "There are more lines: copy has all of them.")
      );
    }
    why(pointer) {
      this.pointer = pointer;
      for (const row of this.versions.querySelectorAll(".row")) row.classList.toggle("chosen", row.dataset["pointer"] === pointer);
      this.asking.run(
        0,
        async (signal) => this.drawWhy(await ask("why", { ...this.request(), path: pointer }, signal)),
        (m) => this.showWhy(h("p", { class: "banner rejected" }, m))
      );
    }
    showWhy(...children2) {
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
            }
          },
          "Close"
        ),
        ...children2
      );
      this.reason.hidden = false;
    }
    drawWhy(a) {
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
              v.schema && h("span", { class: "cost" }, "schema: " + (v.schema.version ? v.schema.version + " " + (v.schema.path || "(root)") : v.schema.pointer))
            )
          ])
        )
      );
    }
    changed(c) {
      if (this.seen++ === 0) replace(this.changes);
      const title = { ADDED: "created", MODIFIED: "changed", DELETED: "deleted" }[c.type];
      const entry = h(
        "article",
        { class: "stored change" },
        h("header", {}, h("h3", {}, title), h("span", { class: "summary" }, new Date(c.time).toLocaleTimeString() + (c.revision ? ", resource version " + c.revision : ""))),
        !!c.message && h("p", { class: "note" }, c.message),
        h(
          "div",
          { class: "lines" },
          ...(c.diff ?? []).map((l) => h("div", { class: "row diff " + ({ "+": "added", "-": "removed", "@": "part" }[l.op] ?? "") }, h("span", { class: "indent", "aria-hidden": "true" }, l.op === "@" ? " " : l.op), h("span", { class: "code" }, l.op === "@" ? "⋯" : l.text)))
        ),
        c.more && h("p", { class: "note" }, "The change is longer than what is shown.")
      );
      this.changes.prepend(entry);
      while (this.changes.childElementCount > maxChanges) this.changes.lastElementChild?.remove();
      this.load(300);
    }
    playground() {
      const version = this.answer?.versions.find((v) => v.storage && v.text) ?? this.answer?.versions.find((v) => v.text);
      if (!version?.text) return;
      const object = version.text;
      this.opening.run(
        0,
        async (signal) => {
          const a = await ask("crd", { crd: this.name.crd, semantics: this.c.state.semantics }, signal);
          this.c.open({ view: "playground", crds: a.text, object, old: object, update: true });
        },
        (m) => this.c.say(m)
      );
    }
  };
  function short(v) {
    const text = JSON.stringify(v) ?? "null";
    return text.length > 200 ? text.slice(0, 200) + "…" : text;
  }

  // poll.ts
  var interval = 1500;
  function poll(path, changed2, failed) {
    let tag = "";
    let rejected;
    let problem = "";
    const fail = (message3) => {
      if (message3 !== problem) failed(message3);
      problem = message3;
    };
    let ask2;
    const again = () => window.setTimeout(() => void ask2(), interval);
    ask2 = async () => {
      const headers = tokenHeader();
      const token2 = JSON.stringify(headers);
      if (document.hidden || token2 === rejected) return void again();
      if (rejected !== void 0) problem = "";
      rejected = void 0;
      let next;
      try {
        const response = await fetch(path, { headers: { ...headers, ...tag === "" ? {} : { "If-None-Match": tag } }, cache: "no-store" });
        if (response.status === 204) return;
        if (response.status === 200) next = { tag: response.headers.get("ETag") ?? "", answer: await response.json() };
        if (response.status === 200 || response.status === 304) problem = "";
        else {
          fail(`espalier ui answers ${response.status}: open the link that it has printed`);
          if (response.status === 401 || response.status === 403) rejected = token2;
        }
      } catch {
        fail("espalier ui does not answer: is it still running?");
      }
      again();
      if (!next) return;
      changed2(next.answer);
      tag = next.tag;
    };
    void ask2();
  }

  // cluster.ts
  var maxShown = 300;
  var maxRows = 400;
  var counted = 50;
  var age = 3e4;
  var Cluster = class {
    constructor(c) {
      this.c = c;
      this.query.placeholder = "Search CRDs";
      this.query.addEventListener("input", () => this.drawList());
      this.element = h("div", { class: "cluster" }, h("aside", { "aria-label": "CRDs of the cluster" }, this.status, this.query, this.list), this.detail);
      this.welcome();
    }
    c;
    element;
    query = h("input", { type: "search", "aria-label": "Search CRDs" });
    status = h("div", { class: "cluster-status", role: "status" });
    list = h("ul", { class: "crd-list" });
    items = /* @__PURE__ */ new Map();
    rest = h("li", { class: "note" });
    detail = h("section", { class: "cluster-detail", "aria-label": "CRD" });
    state;
    selected = "";
    counts = /* @__PURE__ */ new Map();
    counting = false;
    page;
    following = false;
    refresh() {
      if (!this.following) {
        this.following = true;
        poll("api/cluster", (s) => this.take(s), (m) => this.c.say(m));
        window.setInterval(() => void this.count(), 5e3);
      }
      this.page?.refresh();
    }
    leave() {
      this.page?.leave();
    }
    take(s) {
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
          !!s.problem && s.known && h("div", { class: "note" }, "The list shows what was known before.")
        )
      );
      this.drawList();
      const crd = s.crds.find((d) => d.name === this.selected);
      if (this.selected !== "") {
        if (crd) this.page?.update(crd);
        else if (s.known) {
          this.selected = "";
          this.page?.close();
          this.page = void 0;
          this.c.say("The CRD was deleted.");
          this.welcome();
        }
      }
      void this.count();
    }
    matching() {
      const words = this.query.value.toLowerCase().split(/\s+/).filter(Boolean);
      return (this.state?.crds ?? []).filter((d) => words.every((w) => (d.name + " " + d.kind).toLowerCase().includes(w)));
    }
    drawList() {
      const found = this.matching();
      const items = /* @__PURE__ */ new Map();
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
      arrange(this.list, ...[...items.values()].map((i) => i.element), (found.length > maxShown || found.length === 0 && this.state?.known) && this.rest);
    }
    item(d) {
      const bad = d.conditions.filter((c) => isBad(c) && c.type !== "Compliant");
      const broken = d.conditions.some((c) => c.type === "Compliant" && c.status === "False");
      const count = h("span", { class: "count", title: "Objects" });
      const button = h(
        "button",
        { type: "button", class: "crd", onclick: () => this.select(d.name) },
        h("span", { class: "name" }, d.kind || d.name),
        count,
        h("span", { class: "group" }, d.group),
        bad.length > 0 && h("span", { class: "badge deprecated" }, bad.map((c) => c.status === "True" ? c.type : "not " + c.type).join(", ")),
        broken && h("span", { class: "badge required" }, "objects do not comply"),
        d.deleting && h("span", { class: "badge required" }, "being deleted")
      );
      return { revision: d.revision, element: h("li", {}, button), button, count };
    }
    drawCount(name, item) {
      setText(item.count, this.counts.get(name)?.text ?? "");
    }
    // count asks for the number of objects of some CRDs whose count is old.
    async count() {
      if (this.counting || document.hidden || !this.state?.connected || this.element.offsetParent === null) return;
      const now = Date.now();
      const crds = this.matching().slice(0, maxShown).map((d) => d.name).filter((name) => now - (this.counts.get(name)?.at ?? 0) > age).slice(0, counted);
      if (crds.length === 0) return;
      this.counting = true;
      try {
        const a = await ask("count", { crds });
        for (const name of crds) this.counts.set(name, { text: a.counts[name] !== void 0 ? String(a.counts[name]) : "?", at: now });
      } catch {
        for (const name of crds) this.counts.set(name, { text: "?", at: now });
      }
      for (const [name, item] of this.items) this.drawCount(name, item);
      this.counting = false;
    }
    welcome() {
      replace(this.detail, h("p", { class: "note welcome" }, "Choose a CRD to see its objects."));
    }
    select(name) {
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
  };
  function isBad(c) {
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
  var CRDPage = class {
    constructor(c, crd) {
      this.c = c;
      this.crd = crd;
      this.semantics = c.state.semantics;
      this.namespace.placeholder = "All namespaces";
      this.version.addEventListener("change", () => this.restart());
      this.namespace.addEventListener("change", () => this.restart());
    }
    c;
    crd;
    element = h("div", { class: "crd-page" });
    about = h("div", { class: "crd-about" });
    version = h("select", { "aria-label": "Version" });
    namespace = h("input", { type: "search", "aria-label": "Namespace", class: "namespace" });
    liveness = h("span", { class: "liveness", role: "status" });
    audited = h("div", {});
    table = h("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Objects" });
    pager = h("div", { class: "pager" });
    live = new Live();
    latest = new Latest();
    opening = new Latest();
    answer;
    tokens = [];
    failing = /* @__PURE__ */ new Map();
    object;
    elsewhere = 0;
    shown = false;
    // semantics and chosen are the semantics and the namespace of what is shown.
    semantics;
    chosen = "";
    // drawn are the rows of the table, fresh those that have just changed, and heading what the header of the
    // table shows.
    drawn = /* @__PURE__ */ new Map();
    fresh = /* @__PURE__ */ new Set();
    heading = "";
    frame = 0;
    problem = h("p", { class: "banner unknown" });
    empty = h("p", { class: "note" }, "There are no objects.");
    head = h("thead", {});
    body = h("tbody", {});
    rows = h("table", {}, this.head, this.body);
    previous = h("button", { type: "button", onclick: () => this.turn(-1) }, "Previous");
    next = h("button", { type: "button", onclick: () => this.turn(1) }, "Next");
    note = h("span", { class: "note" });
    update(crd) {
      const changed2 = crd.revision !== this.crd.revision;
      this.crd = crd;
      if (!changed2 || !this.shown) return;
      this.drawAbout();
      this.object ? this.object.reload() : this.start();
    }
    refresh() {
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
    leave() {
      this.shown = false;
      this.live.stop();
      this.opening.cancel();
      this.object?.leave();
    }
    // close ends all that the page does.
    close() {
      this.leave();
      this.latest.cancel();
      window.cancelAnimationFrame(this.frame);
    }
    // forget removes what does not hold for other semantics or another namespace.
    forget() {
      this.latest.cancel();
      this.failing.clear();
      this.answer = void 0;
      replace(this.audited);
      replace(this.table, h("p", { class: "note" }, "Loading…"));
      replace(this.pager);
    }
    draw() {
      const check = h("button", { type: "button", onclick: () => this.audit() }, "Check all objects");
      replace(
        this.element,
        this.about,
        h("div", { class: "toolbar" }, this.version, this.crd.namespaced && this.namespace, check, this.liveness),
        this.audited,
        this.table,
        this.pager
      );
    }
    drawAbout() {
      const d = this.crd;
      const before = this.version.value;
      const served = d.versions.filter((v) => v.served);
      replace(this.version, ...served.map((v) => h("option", { value: v.name }, v.name + (v.storage ? ", storage" : ""))));
      const chosen = served.find((v) => v.name === before) ?? served.find((v) => v.storage) ?? served[0];
      if (chosen) this.version.value = chosen.name;
      const open = (view) => () => this.opening.run(
        0,
        async (signal) => this.c.open({ view, crds: (await ask("crd", { crd: d.name, semantics: this.c.state.semantics }, signal)).text }),
        (m) => this.c.say(m)
      );
      replace(
        this.about,
        h(
          "header",
          {},
          h("div", {}, h("h2", {}, d.kind), h("div", { class: "note path" }, d.name)),
          h("div", { class: "buttons" }, h("button", { type: "button", class: "quiet", onclick: open("explorer") }, "Schema"), h("button", { type: "button", class: "quiet", onclick: open("lint") }, "Lint"))
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
          d.versions.length > 1 && h("dd", {}, d.conversion)
        ),
        h("ul", { class: "conditions" }, ...d.conditions.map((c) => h("li", { class: isBad(c) ? "bad" : "good" }, h("strong", {}, `${c.type}: ${c.status}`), " ", h("span", { class: "note" }, c.message || c.reason))))
      );
    }
    request() {
      const namespace = this.chosen;
      return { crd: this.crd.name, semantics: this.c.state.semantics, ...this.version.value ? { version: this.version.value } : {}, ...namespace ? { namespace } : {} };
    }
    restart() {
      this.tokens = [];
      this.chosen = this.namespace.value.trim();
      this.forget();
      this.start();
    }
    // start lists the objects, and follows their changes.
    start() {
      this.live.run(
        async (signal, forgotten) => {
          if (forgotten) this.toFirst();
          const request = this.request();
          const list = () => {
            const token2 = this.tokens.at(-1);
            return ask("objects", { ...request, ...token2 ? { continue: token2 } : {} }, signal);
          };
          let a;
          try {
            a = await list().catch((e) => {
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
        (live, problem) => liveness(this.liveness, live, problem)
      );
    }
    // toFirst returns to the first page, because the server has forgotten the state that the pages are of. It
    // reports whether another page was shown.
    toFirst() {
      if (this.tokens.length === 0) return false;
      this.tokens = [];
      this.c.say("The server has forgotten this list: the first page of the current one is shown.");
      return true;
    }
    changed(c) {
      const a = this.answer;
      const row = c.row;
      if (!a || !row) return;
      const at = a.rows.findIndex((r) => r.name === row.name && r.namespace === row.namespace);
      if (c.type === "DELETED") {
        if (at >= 0) a.rows.splice(at, 1);
      } else if (at >= 0) a.rows[at] = row;
      else if (c.type === "ADDED" && this.tokens.length === 0 && a.rows.length < maxRows) a.rows.unshift(row);
      else this.elsewhere++;
      this.failing.delete(key2(row));
      this.drawTable(c.type === "DELETED" ? void 0 : row);
    }
    // drawTable draws the table with the next frame: many changes can arrive at once.
    drawTable(changed2) {
      if (changed2) this.fresh.add(changed2);
      if (this.frame !== 0) return;
      this.frame = window.requestAnimationFrame(() => {
        this.frame = 0;
        this.paint();
        this.fresh.clear();
      });
    }
    paint() {
      const a = this.answer;
      if (!a) return;
      const columns = a.columns.map((c, i) => ({ ...c, i })).filter((c) => !c.wide && c.i > 0);
      const heading = JSON.stringify([columns, this.crd.namespaced, a.problem]);
      if (heading !== this.heading) {
        this.heading = heading;
        this.drawn.clear();
        replace(this.head, h("tr", {}, this.crd.namespaced && h("th", {}, "Namespace"), h("th", {}, "Name"), ...columns.map((c) => h("th", { title: c.description }, c.name)), h("th", {}, "Complies")));
      }
      const drawn = /* @__PURE__ */ new Map();
      for (const r of a.rows) drawn.set(key2(r), this.row(r, columns));
      this.drawn = drawn;
      arrange(this.body, ...[...drawn.values()].map((d) => d.element));
      setText(this.problem, "Objects are not checked: " + (a.problem ?? ""));
      arrange(this.table, !!a.problem && this.problem, a.rows.length === 0 ? this.empty : this.rows);
      const page = this.tokens.length > 0 ? `page ${this.tokens.length + 1}` : "";
      setText(this.note, [page, a.remaining ? plural(a.remaining, "more object") : "", this.elsewhere > 0 ? plural(this.elsewhere, "change") + " on other pages" : ""].filter(Boolean).join(", "));
      arrange(this.pager, this.tokens.length > 0 && this.previous, !!a.continue && this.next, this.note);
    }
    turn(by) {
      const token2 = this.answer?.continue;
      if (by < 0) this.tokens.pop();
      else if (!token2 || token2 === this.tokens.at(-1)) return;
      else this.tokens.push(token2);
      this.start();
    }
    // row returns the row of an object. What names the object stays: it may have the focus.
    row(r, columns) {
      const n = Math.max(r.findings?.length ?? 0, this.failing.get(key2(r)) ?? 0);
      const content = JSON.stringify([r, n]);
      let d = this.drawn.get(key2(r));
      if (!d) {
        const names2 = [this.crd.namespaced && h("td", {}, r.namespace ?? ""), h("td", {}, h("button", { type: "button", class: "link path", onclick: () => this.open(r.namespace, r.name) }, r.name))];
        d = { element: h("tr", {}), names: names2, content: "" };
      }
      if (d.content !== content) {
        d.content = content;
        const first = r.findings?.[0];
        const complies = n > 0 ? h("span", { class: "badge deprecated", title: first && first.path + ": " + first.message }, plural(n, "problem")) : r.unchecked ? h("span", { class: "badge required", title: r.unchecked }, "not checked") : h("span", { class: "ok" }, "yes");
        arrange(d.element, ...d.names, ...columns.map((c) => h("td", {}, r.cells[c.i] ?? "")), h("td", {}, complies));
      }
      if (this.fresh.has(r)) {
        d.element.classList.remove("changed");
        void d.element.offsetWidth;
        d.element.classList.add("changed");
      }
      return d;
    }
    open(namespace, name) {
      this.live.stop();
      const id = key2({ name, ...namespace ? { namespace } : {} });
      this.object = new ClusterObject(this.c, { crd: this.crd.name, name, ...namespace ? { namespace } : {} }, () => {
        this.object?.leave();
        this.object = void 0;
        this.show(() => this.draw(), () => this.drawn.get(id)?.element.querySelector("button"));
        this.start();
      });
      const { element } = this.object;
      this.show(() => replace(this.element, element), () => element.querySelector("button"));
      this.object.refresh();
    }
    // show draws the page. If it has the focus, that is moved to the element that focus returns.
    show(draw, focus) {
      const inside = this.element.contains(document.activeElement);
      draw();
      if (inside) focus()?.focus({ preventScroll: true });
    }
    audit() {
      replace(this.audited, h("p", { class: "note" }, "Checking…"));
      this.latest.run(
        0,
        async (signal) => this.drawAudit(await ask("audit", this.auditRequest(), signal)),
        (m) => replace(this.audited, h("p", { class: "banner rejected", role: "alert" }, m))
      );
    }
    auditRequest() {
      const { crd, semantics: semantics2, namespace } = this.request();
      return { crd, semantics: semantics2, ...namespace ? { namespace } : {} };
    }
    drawAudit(a) {
      this.failing.clear();
      for (const f of a.failures) this.failing.set(key2(f), f.problems);
      const text = a.failing === 0 ? `All ${plural(a.objects, "object")} comply` : `${a.failing} of ${plural(a.objects, "object")} ${a.failing === 1 ? "does" : "do"} not comply`;
      const about = a.inspected ? "The server has checked what is stored." : "Checked as the API serves it: unspecified fields and the stored version are not visible.";
      const parts = [
        h("p", { class: "banner " + (a.failing === 0 ? "accepted" : "rejected") }, h("strong", {}, text), h("span", {}, a.more ? "not all objects were checked, or are listed" : "")),
        h("p", { class: "note" }, about),
        findingList(a.findings, {}),
        a.failures.length > 0 && h(
          "p",
          { class: "failures" },
          ...a.failures.slice(0, 30).flatMap((f) => [h("button", { type: "button", class: "link path", onclick: () => this.open(f.namespace, f.name) }, f.namespace ? f.namespace + "/" + f.name : f.name), " "]),
          a.failures.length > 30 && h("span", { class: "note" }, "and more")
        )
      ];
      replace(this.audited, h("div", { class: "card" }, ...parts));
      this.drawTable();
    }
  };
  function key2(o) {
    return (o.namespace ?? "") + "/" + o.name;
  }

  // context.ts
  function assistance(c) {
    return {
      async complete(text, offset, signal) {
        return (await c.engine.ask("complete", { crds: c.state.crds, text, offset, semantics: c.state.semantics }, signal)).items;
      },
      hover(text, offset, signal) {
        return c.engine.ask("hover", { crds: c.state.crds, text, offset, semantics: c.state.semantics }, signal);
      }
    };
  }
  function isShown(editor) {
    return editor.element.offsetParent !== null;
  }
  function applyFix(c, editor, text, fix) {
    const changed2 = () => c.say("The text has changed: choose the fix again.");
    if (editor.value !== text) return changed2();
    const controller = new AbortController();
    const abort = () => controller.abort();
    editor.element.addEventListener("keydown", abort, { once: true });
    c.engine.ask("apply", { text, fix }, controller.signal).then(
      (a) => {
        if (!isShown(editor)) c.say("The fix was not applied: another view is shown.");
        else if (editor.value !== text) changed2();
        else editor.edit(a.start, a.end, a.text);
      },
      (e) => controller.signal.aborted ? changed2() : c.say(e instanceof Error ? e.message : String(e))
    ).finally(() => editor.element.removeEventListener("keydown", abort));
  }

  // markdown.ts
  function markdown(text) {
    const out = h("div", { class: "markdown" });
    const lines = text.split("\n");
    for (let i = 0; i < lines.length; ) {
      const line = lines[i] ?? "";
      const fence = /^\s*(```+|~~~+)/.exec(line);
      if (fence) {
        const code = [];
        for (i++; i < lines.length && !(lines[i] ?? "").trimStart().startsWith(fence[1] ?? "```"); i++) code.push(lines[i] ?? "");
        i++;
        out.appendChild(h("pre", { tabindex: 0 }, h("code", {}, code.join("\n"))));
        continue;
      }
      const heading = /^(#{1,6})\s+(.*)$/.exec(line);
      if (heading) {
        const element2 = h(heading[1] === "#" ? "h3" : "h4");
        inline(element2, heading[2] ?? "");
        out.appendChild(element2);
        i++;
        continue;
      }
      if (/^\s*([-*]|\d+\.)\s+/.test(line)) {
        const list = h("ul");
        for (; i < lines.length && /^\s*([-*]|\d+\.)\s+/.test(lines[i] ?? ""); ) {
          let item = (lines[i] ?? "").replace(/^\s*([-*]|\d+\.)\s+/, "");
          for (i++; i < lines.length && /^\s+\S/.test(lines[i] ?? "") && !/^\s*([-*]|\d+\.)\s+/.test(lines[i] ?? ""); i++) item += " " + (lines[i] ?? "").trim();
          const element2 = h("li");
          inline(element2, item);
          list.appendChild(element2);
        }
        out.appendChild(list);
        continue;
      }
      if (line.trim() === "" || /^\s*(---+|\*\*\*+)\s*$/.test(line)) {
        i++;
        continue;
      }
      let paragraph = line.trim();
      for (i++; i < lines.length && (lines[i] ?? "").trim() !== "" && !/^(\s*(```|~~~|[-*]\s|\d+\.\s)|#{1,6}\s)/.test(lines[i] ?? ""); i++) {
        paragraph += (/( {2}|\\)$/.test(lines[i - 1] ?? "") ? "\n" : " ") + (lines[i] ?? "").trim();
      }
      const element = h("p");
      inline(element, paragraph);
      out.appendChild(element);
    }
    return out;
  }
  var entities = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#39;": "'" };
  function inline(parent, text) {
    const pattern = /(`+)(.+?)\1|\*\*((?:\\.|[^\\])+?)\*\*|(?<!\w)\*(?! )((?:\\.|[^\\*])+)(?<! )\*(?!\w)|\[([^[\]]+)\]\([^()]*\)|\\([\\`*_{}[\]()#+.!<>|-])|(&(?:lt|gt|amp|quot|#39);)/g;
    let last = 0;
    for (let m = pattern.exec(text); m; m = pattern.exec(text)) {
      append(parent, text.slice(last, m.index));
      if (m[2] !== void 0) append(parent, h("code", {}, m[2]));
      else if (m[3] !== void 0 || m[4] !== void 0) {
        const element = h(m[3] !== void 0 ? "strong" : "em");
        inline(element, m[3] ?? m[4] ?? "");
        append(parent, element);
      } else if (m[5] !== void 0) inline(parent, m[5]);
      else append(parent, m[6] ?? entities[m[7] ?? ""] ?? "");
      last = m.index + m[0].length;
    }
    append(parent, text.slice(last));
  }

  // text.ts
  var maxText = 4 << 20;
  var notInserted = "Not inserted: the text would be larger than 4 MiB.";
  var notShown = "Only the first 4 MiB of the text are shown.";
  function isTyping(before) {
    return /[\w./-]$|: $|- $/.test(before) && !/#/.test(before);
  }
  function ranked(items, text, offset) {
    const rank = (i) => {
      const typed = text.slice(i.start, offset).trim().replace(/^["']/, "").toLowerCase();
      const filter = (i.filter || i.label).toLowerCase();
      if (typed === "") return 1;
      if (filter.startsWith(typed)) return filter === typed && i.insert === text.slice(i.start, i.end) ? -1 : 2;
      return filter.includes(typed) ? 1 : -1;
    };
    return items.filter((i) => rank(i) >= 0 && i.start <= offset).sort((a, b) => rank(b) - rank(a));
  }
  function indentAfter(before) {
    const indent = /^ */.exec(before)?.[0] ?? "";
    return /:\s*$/.test(before) ? indent + (/^ *- /.test(before) ? "    " : "  ") : indent;
  }
  function findingsAt(findings, offset) {
    return findings.filter((f) => f.range && f.range.start <= offset && offset <= f.range.end);
  }

  // about.ts
  async function aboutAt(findings, assistance2, text, offset, signal) {
    const here = findingsAt(findings, offset);
    let documentation = "";
    let ranges = here.flatMap((f) => f.range ?? []);
    try {
      const a = await assistance2?.hover(text, offset, signal);
      documentation = a?.markdown ?? "";
      if (a?.range) ranges = [...ranges, a.range];
    } catch {
      documentation = "";
    }
    if (ranges.length === 0) ranges = [{ start: offset, end: offset, line: 0 }];
    if (signal.aborted || here.length === 0 && documentation === "") return void 0;
    const shown2 = here.map((f) => h("div", { class: "finding " + f.severity }, ...message(f.message)));
    const about = documentation === "" ? void 0 : markdown(documentation);
    const texts = new Set(here.map((f) => compact(f.message)));
    for (const p of [...about?.children ?? []]) if (texts.has(compact(p.textContent ?? ""))) p.remove();
    return {
      start: Math.max(...ranges.map((r) => r.start)),
      end: Math.min(...ranges.map((r) => r.end)),
      content: [...shown2, about]
    };
  }
  function compact(text) {
    return text.replace(/\s+/g, " ").trim();
  }

  // highlight.ts
  var value = /"(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?|[&*!][^\s,\]}]+|[[\]{},]|[^\s,[\]{}#"'][^,[\]{}#]*|#/g;
  function keyOf(text) {
    const quoted = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*(?=:(\s|$))/.exec(text);
    if (quoted) return quoted[0];
    const key3 = text.slice(0, Math.max(0, text.search(/:(\s|$)/)));
    return /^[^\s#"'[\]{},&*!|>%@`][^#]*$/.test(key3) ? key3 : void 0;
  }
  function highlight(line) {
    const tokens = [];
    const add2 = (start, end, name) => tokens.push({ start, end, class: "t-" + name });
    if (line.length > 2e3) return tokens;
    const first = line.search(/\S/);
    if (first < 0) return tokens;
    if (line[first] === "#") return add2(first, line.length, "comment"), tokens;
    if (/^(---|\.\.\.)/.test(line)) return add2(0, 3, "punctuation"), tokens;
    let at = first;
    for (let dash = /^-\s+/.exec(line.slice(at)); dash; dash = /^-\s+/.exec(line.slice(at))) {
      add2(at, at + 1, "punctuation");
      at += dash[0].length;
    }
    const key3 = keyOf(line.slice(at));
    if (key3) {
      add2(at, at + key3.trimEnd().length, "key");
      at += key3.length + 1;
    }
    value.lastIndex = at;
    for (let m = value.exec(line); m; m = value.exec(line)) {
      const text = m[0];
      if (text === "#") {
        if (m.index === 0 || /\s/.test(line[m.index - 1] ?? "")) return add2(m.index, line.length, "comment"), tokens;
        continue;
      }
      const end = m.index + text.trimEnd().length;
      if (/^[[\]{},]$/.test(text)) add2(m.index, end, "punctuation");
      else if (/^["']/.test(text)) add2(m.index, end, /^\s*:/.test(line.slice(m.index + text.length)) ? "key" : "string");
      else if (/^[&*!]/.test(text)) add2(m.index, end, "anchor");
      else if (/^[|>][+-]?\d?$/.test(text.trim())) add2(m.index, end, "punctuation");
      else if (/^(true|false|null|~|yes|no|on|off)$/i.test(text.trim())) add2(m.index, end, "constant");
      else if (/^[-+]?(\d[\d_]*)(\.\d+)?([eE][-+]?\d+)?$/.test(text.trim())) add2(m.index, end, "number");
      else {
        const inner = /^([^\s:][^:]*):(?=\s|$)/.exec(text);
        if (inner && /[{,]\s*$/.test(line.slice(0, m.index))) add2(m.index, m.index + (inner[1]?.length ?? 0), "key");
        else add2(m.index, end, "string");
      }
    }
    return tokens;
  }

  // plain.ts
  var lineHeight = 20;
  var maxShown2 = 12;
  var PlainEditor = class {
    constructor(label, changed2, assistance2) {
      this.changed = changed2;
      this.assistance = assistance2;
      const popupId = newId();
      this.area = h("textarea", {
        "aria-label": label,
        "aria-autocomplete": "list",
        "aria-controls": popupId
      });
      this.area.maxLength = maxText;
      this.area.spellcheck = false;
      this.area.autocapitalize = "off";
      this.area.wrap = "off";
      this.area.setAttribute("autocomplete", "off");
      this.back = h("div", { class: "back", "aria-hidden": "true" });
      this.gutter = h("div", { class: "gutter", "aria-hidden": "true" });
      this.popup = h("div", { class: "popup", role: "listbox", id: popupId, "aria-label": "Completions", hidden: true });
      this.tip = h("div", { class: "tip", role: "tooltip", id: newId(), hidden: true });
      this.element = h("div", { class: "editor" }, this.gutter, h("div", { class: "text" }, this.back, this.area), this.popup, this.tip, this.limit);
      this.area.addEventListener("beforeinput", (e) => {
        const rest = this.text.length - (this.area.selectionEnd - this.area.selectionStart);
        const isLarge = rest + (e.data ?? e.dataTransfer?.getData("text/plain") ?? "").length > maxText;
        if (isLarge) e.preventDefault();
        this.limit.textContent = isLarge ? notInserted : "";
      });
      this.area.addEventListener("input", (e) => {
        if (this.area.value.length > maxText) {
          this.area.value = this.text;
          this.limit.textContent = notInserted;
          return;
        }
        const before = this.text;
        this.index();
        this.moveItems(this.text.length - before.length);
        this.marked = void 0;
        this.draw();
        this.changed();
        const typed = e.inputType;
        if (typed === "insertText" || typed === "deleteContentBackward" && !this.popup.hidden) this.complete(false);
        else this.closePopup();
      });
      this.area.addEventListener("scroll", () => {
        this.draw();
        this.closePopup();
        this.hideTip();
      });
      this.area.addEventListener("keydown", (e) => this.key(e));
      this.area.addEventListener("blur", () => window.setTimeout(() => this.closePopup(), 150));
      this.area.addEventListener("pointerdown", () => this.closePopup());
      this.area.addEventListener("mousemove", (e) => this.move(e));
      this.area.addEventListener("mouseleave", () => this.hideTip());
      new ResizeObserver(() => this.draw()).observe(this.area);
    }
    changed;
    assistance;
    element;
    area;
    back;
    gutter;
    popup;
    tip;
    limit = h("p", { class: "limit", role: "status" });
    // text is the value of the textarea, which takes a while to read if it is large.
    text = "";
    starts = [0];
    findings = [];
    marked;
    items = [];
    selected = 0;
    asked;
    // about is what the tip shows. hovered is what is asked for it.
    about;
    hovered;
    hoverTimer;
    characterWidth = 0;
    frame = 0;
    set hint(text) {
      this.area.placeholder = text;
    }
    get value() {
      return this.text;
    }
    set(text) {
      if (text === this.text) return;
      this.area.value = text.slice(0, maxText);
      this.limit.textContent = text.length > maxText ? notShown : "";
      this.area.scrollTop = 0;
      this.findings = [];
      this.marked = void 0;
      this.closePopup();
      this.index();
      this.draw();
    }
    show(findings) {
      this.findings = findings.filter((f) => f.range);
      this.draw();
    }
    reveal(range) {
      this.marked = range;
      this.area.focus({ preventScroll: true });
      this.area.setSelectionRange(range.start, range.end);
      this.area.scrollTop = Math.max(0, (range.line - 1) * lineHeight - this.area.clientHeight / 3);
      this.area.scrollLeft = 0;
      this.element.scrollIntoView({ block: "nearest" });
      this.draw();
    }
    edit(start, end, text) {
      this.area.focus({ preventScroll: true });
      this.area.setSelectionRange(start, end);
      const done = document.activeElement === this.area && (text === "" ? document.execCommand("delete") : document.execCommand("insertText", false, text));
      if (!done || this.area.value.slice(start, start + text.length) !== text) {
        this.area.setRangeText(text, start, end, "end");
      }
      this.index();
      this.draw();
      this.changed();
    }
    index() {
      this.hideTip();
      const text = this.text = this.area.value;
      this.starts = [0];
      for (let i = text.indexOf("\n"); i >= 0; i = text.indexOf("\n", i + 1)) this.starts.push(i + 1);
    }
    lineOf(offset) {
      let low = 0;
      let high = this.starts.length - 1;
      while (low < high) {
        const middle = low + high + 1 >> 1;
        if ((this.starts[middle] ?? 0) <= offset) low = middle;
        else high = middle - 1;
      }
      return low;
    }
    lineText(i) {
      const start = this.starts[i] ?? 0;
      const next = this.starts[i + 1];
      return this.text.slice(start, next === void 0 ? void 0 : next - 1);
    }
    // draw shows the visible lines.
    draw() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.paint();
      });
    }
    paint() {
      const top = this.area.scrollTop;
      const first = Math.max(0, Math.floor(top / lineHeight) - 2);
      const last = Math.min(this.starts.length, first + Math.ceil(this.area.clientHeight / lineHeight) + 5);
      const lines = [];
      const numbers = [];
      for (let i = first; i < last; i++) {
        lines.push(this.line(i));
        const worst = this.worstOn(i);
        numbers.push(h("div", { class: worst ? "ln " + worst : "ln" }, String(i + 1)));
      }
      replace(this.back, ...lines);
      replace(this.gutter, ...numbers);
      const shift = first * lineHeight - top;
      this.back.style.transform = `translate(${-this.area.scrollLeft}px, ${shift}px)`;
      this.gutter.style.transform = `translateY(${shift}px)`;
    }
    worstOn(line) {
      let worst = "";
      for (const f of this.findings) {
        if (f.range?.line !== line + 1) continue;
        if (f.severity === "error") return "error";
        if (f.severity === "warning" || worst === "") worst = f.severity;
      }
      return worst;
    }
    line(i) {
      const start = this.starts[i] ?? 0;
      const text = this.lineText(i);
      const shown2 = text.length > 4e3 ? text.slice(0, 4e3) : text;
      const spans = highlight(shown2);
      const edges = /* @__PURE__ */ new Set([0, shown2.length]);
      for (const s of spans) edges.add(s.start).add(s.end);
      const over = [];
      const mark = (range, name) => {
        if (!range || range.end < start || range.start > start + shown2.length) return;
        const from = Math.max(0, range.start - start);
        const to = Math.min(shown2.length, Math.max(range.end - start, from + 1));
        if (to <= from) return;
        edges.add(from).add(to);
        over.push({ start: from, end: to, class: name });
      };
      for (const f of this.findings) mark(f.range, f.severity);
      mark(this.marked, "marked");
      const element = h("div", { class: "line" });
      const sorted = [...edges].sort((a, b) => a - b);
      for (let k = 0; k + 1 < sorted.length; k++) {
        const from = sorted[k] ?? 0;
        const to = sorted[k + 1] ?? 0;
        const classes = [...spans, ...over].filter((s) => s.start <= from && s.end >= to).map((s) => s.class);
        element.appendChild(classes.length ? h("span", { class: classes.join(" ") }, shown2.slice(from, to)) : document.createTextNode(shown2.slice(from, to)));
      }
      return element;
    }
    key(e) {
      if (!this.popup.hidden) {
        switch (e.key) {
          case "ArrowDown":
          case "ArrowUp":
            e.preventDefault();
            this.selected = (this.selected + (e.key === "ArrowDown" ? 1 : this.items.length - 1)) % this.items.length;
            this.drawPopup();
            return;
          case "Enter":
          case "Tab":
            e.preventDefault();
            this.accept(this.selected);
            return;
          case "Escape":
            e.preventDefault();
            this.closePopup();
            return;
          case "ArrowLeft":
          case "ArrowRight":
          case "Home":
          case "End":
          case "PageUp":
          case "PageDown":
            this.closePopup();
        }
      }
      if (e.key === "Escape") this.hideTip();
      if (e.key === " " && e.ctrlKey) {
        e.preventDefault();
        if (e.shiftKey) void this.describe(this.area.selectionStart);
        else this.complete(true);
      } else if (e.key === "Enter" && !e.ctrlKey && !e.metaKey && !e.altKey && !e.isComposing) {
        const at = this.area.selectionStart;
        const indent = indentAfter(this.text.slice(this.starts[this.lineOf(at)] ?? 0, at));
        if (indent === "") return;
        e.preventDefault();
        this.edit(at, this.area.selectionEnd, "\n" + indent);
      }
    }
    // moveItems fits the completions that are shown to what was typed: the next ones may take a while.
    moveItems(by) {
      if (this.popup.hidden) return;
      const label = this.items[this.selected]?.label;
      const moved = this.items.map((i) => ({ ...i, end: i.end + by }));
      this.items = ranked(moved.filter((i) => i.end >= i.start), this.text, this.area.selectionStart);
      this.selected = Math.max(0, this.items.findIndex((i) => i.label === label));
      this.drawPopup();
    }
    complete(always) {
      if (!this.assistance) return;
      const offset = this.area.selectionStart;
      if (offset !== this.area.selectionEnd) return;
      if (!always && !isTyping(this.text.slice(this.starts[this.lineOf(offset)] ?? 0, offset))) return this.closePopup();
      this.asked?.abort();
      const controller = this.asked = new AbortController();
      const text = this.text;
      this.assistance.complete(text, offset, controller.signal).then(
        (items) => {
          if (controller.signal.aborted || this.text !== text || this.area.selectionStart !== offset) return;
          this.items = ranked(items, text, offset);
          this.selected = Math.max(0, this.items.findIndex((i) => i.preselect));
          this.drawPopup();
        },
        () => {
          if (!controller.signal.aborted) this.closePopup();
        }
      );
    }
    drawPopup() {
      if (this.items.length === 0) return this.closePopup();
      const first = Math.min(Math.max(0, this.selected - maxShown2 + 3), Math.max(0, this.items.length - maxShown2));
      const rows = this.items.slice(first, first + maxShown2).map((item, i) => {
        const index = first + i;
        const row = h(
          "div",
          { class: "option" + (item.deprecated ? " deprecated" : ""), role: "option", id: this.popup.id + "-" + index, "aria-selected": index === this.selected ? "true" : "false" },
          h("span", { class: "label" }, item.label),
          h("span", { class: "detail" }, item.detail ?? "")
        );
        row.addEventListener("pointerdown", (e) => {
          e.preventDefault();
          this.accept(index);
        });
        return row;
      });
      const documentation = this.items[this.selected]?.documentation;
      replace(this.popup, h("div", { class: "options" }, ...rows), !!documentation && h("div", { class: "about" }, markdown(documentation)));
      this.popup.hidden = false;
      this.area.setAttribute("aria-activedescendant", this.popup.id + "-" + this.selected);
      this.place(this.popup, this.area.selectionStart);
    }
    accept(index) {
      const item = this.items[index];
      this.closePopup();
      if (item) this.edit(item.start, item.end, item.insert);
    }
    closePopup() {
      this.asked?.abort();
      this.popup.hidden = true;
      this.area.removeAttribute("aria-activedescendant");
    }
    width() {
      if (!this.characterWidth) {
        const probe = h("span", { class: "line" }, "0".repeat(100));
        this.back.appendChild(probe);
        this.characterWidth = probe.getBoundingClientRect().width / 100 || 8;
        probe.remove();
      }
      return this.characterWidth;
    }
    // place puts an element below an offset, or above it if there is more room.
    place(element, offset) {
      const line = this.lineOf(offset);
      const x = this.area.offsetLeft + this.gutter.offsetWidth + 8 + (offset - (this.starts[line] ?? 0)) * this.width() - this.area.scrollLeft;
      const y = line * lineHeight - this.area.scrollTop + 6;
      element.style.left = Math.max(4, Math.min(x, this.element.clientWidth - element.offsetWidth - 8)) + "px";
      const below = y + lineHeight + 2;
      const above = y - element.offsetHeight - 2;
      const box = this.element.getBoundingClientRect();
      element.style.top = (box.top + below + element.offsetHeight > window.innerHeight && box.top + above > 0 ? above : below) + "px";
    }
    move(e) {
      window.clearTimeout(this.hoverTimer);
      if (e.buttons) return;
      const box = this.area.getBoundingClientRect();
      const line = Math.floor((e.clientY - box.top - 6 + this.area.scrollTop) / lineHeight);
      const column = Math.floor((e.clientX - box.left - 8 + this.area.scrollLeft) / this.width());
      if (line < 0 || line >= this.starts.length || column < 0 || column >= this.lineText(line).length) return this.hideTip();
      const offset = (this.starts[line] ?? 0) + column;
      if (this.about && this.about.start <= offset && offset < this.about.end) return;
      this.hideTip();
      this.hoverTimer = window.setTimeout(() => void this.describe(offset), 350);
    }
    // describe shows what is known at an offset.
    async describe(offset) {
      this.hideTip();
      const asked = this.hovered = new AbortController();
      const about = await aboutAt(this.findings, this.assistance, this.text, offset, asked.signal);
      if (asked.signal.aborted || !about) return;
      this.about = about;
      replace(this.tip, ...about.content);
      this.tip.hidden = false;
      this.area.setAttribute("aria-describedby", this.tip.id);
      this.place(this.tip, about.start);
    }
    hideTip() {
      window.clearTimeout(this.hoverTimer);
      this.hovered?.abort();
      this.about = void 0;
      this.tip.hidden = true;
      this.area.removeAttribute("aria-describedby");
    }
  };

  // editor.ts
  var newEditor = (label, changed2, assistance2) => {
    const other = globalThis.espalierEditor;
    return other ? other(label, changed2, assistance2) : new PlainEditor(label, changed2, assistance2);
  };

  // compare.ts
  var Compare = class {
    constructor(c) {
      this.c = c;
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
          h("section", { class: "pane tried" }, h("header", {}, h("h2", {}, "Objects to try")), this.objects.element)
        )
      );
    }
    c;
    element;
    before;
    after;
    objects;
    result = h("div", { class: "result" });
    // spoken is what screen readers say about a new result.
    spoken = h("p", { class: "spoken", role: "status" });
    latest = new Latest();
    refresh() {
      if (this.c.state.before === "") this.c.state.before = this.c.state.crds;
      this.before.set(this.c.state.before);
      this.after.set(this.c.state.crds);
      this.objects.set(this.c.state.object);
      this.ask(0);
    }
    edited(change) {
      Object.assign(this.c.state, change);
      this.c.changed();
      this.ask(250);
    }
    ask(pause2) {
      const s = this.c.state;
      this.latest.run(
        pause2,
        async (signal) => {
          this.result.classList.add("stale");
          this.show(await this.c.engine.ask("compare", { old: s.before, new: s.crds, objects: s.object, semantics: s.semantics }, signal));
        },
        (m) => {
          this.result.classList.remove("stale");
          replace(this.result, h("p", { class: "banner rejected", role: "alert" }, m));
        }
      );
    }
    show(a) {
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
              (v.objects ?? 0) > 0 && h("span", { class: "badge" }, plural(v.objects ?? 0, "object") + " affected")
            );
          })
        ),
        a.more && h("p", { class: "note" }, "There are more changes than are shown.")
      );
    }
  };

  // drop.ts
  var maxFiles = 200;
  var maxDepth = 8;
  var maxSize = 4 << 20;
  async function read(items) {
    const out = { files: [], problems: /* @__PURE__ */ new Set() };
    const entries = [...items].map((i) => i.webkitGetAsEntry()).filter((e) => e !== null);
    for (const entry of entries) await collect(entry, out, 0);
    return split(out);
  }
  function choose(files2) {
    const out = { files: [], problems: /* @__PURE__ */ new Set() };
    for (const file of files2) add(file, out);
    return split(out);
  }
  function add(file, out) {
    if (out.files.length < maxFiles) out.files.push(file);
    else out.problems.add(`only the first ${maxFiles} files were read, up to ${out.files[maxFiles - 1]?.name}`);
  }
  async function collect(entry, out, depth) {
    if (out.problems.size > 0 && out.files.length === maxFiles) return;
    if (entry.isFile) {
      if (/\.(ya?ml|json)$/i.test(entry.name)) add(await new Promise((resolve, reject) => entry.file(resolve, reject)), out);
      return;
    }
    if (depth > maxDepth) {
      out.problems.add(`folders below ${maxDepth} others were not read`);
      return;
    }
    const reader = entry.createReader();
    for (; ; ) {
      const part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (part.length === 0) return;
      for (const inner of part) if (!inner.name.startsWith(".")) await collect(inner, out, depth + 1);
    }
  }
  function isCRD(doc) {
    if (/^\s*\{/.test(doc)) {
      try {
        const { kind, items: items2 } = JSON.parse(doc);
        const kinds = [kind, ...Array.isArray(items2) ? items2.map((i) => i?.kind) : []];
        return kinds.includes("CustomResourceDefinition");
      } catch {
        return /^\s*\{[^{}]*["']?\bkind["']?:\s*["']?CustomResourceDefinition\b/.test(doc);
      }
    }
    const items = /^kind:\s*["']?\w*List\b/m.test(doc) ? /^items:\s*\n( *)- /m.exec(doc) : null;
    return hasKind(doc, "") || !!items && hasKind(doc, items[1] + "(- |  )");
  }
  function hasKind(doc, indent) {
    return new RegExp(`^${indent}["']?kind["']?:\\s*["']?CustomResourceDefinition["']?\\s*(#.*)?$`, "m").test(doc);
  }
  async function split({ files: files2, problems }) {
    if (files2.length === 0) problems.add("there is no file with the extension .yaml, .yml or .json");
    const out = { crds: "", objects: "", problem: "" };
    let size = 0;
    const missing2 = [];
    for (const file of files2) {
      if (size + file.size > maxSize) {
        missing2.push(file.name);
        continue;
      }
      size += file.size;
      for (const doc of (await file.text()).split(/^---(?=\s|$).*\n?/m)) {
        if (doc.trim() === "") continue;
        const text = doc.endsWith("\n") ? doc : doc + "\n";
        if (isCRD(doc)) out.crds += (out.crds === "" ? "" : "---\n") + text;
        else out.objects += (out.objects === "" ? "" : "---\n") + text;
      }
    }
    if (missing2.length > 0) problems.add(`the files are larger than 4 MiB: without ${missing2.join(", ")}`);
    out.problem = [...problems].join("; ");
    return out;
  }

  // examples.ts
  var crontab = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: crontabs.example.com
spec:
  group: example.com
  scope: Namespaced
  names:
    kind: CronTab
    plural: crontabs
    singular: crontab
    shortNames: [ct]
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [schedule]
            properties:
              schedule:
                description: Cron schedule with five fields.
                type: string
                pattern: '^(\\S+ ){4}\\S+$'
              replicas:
                description: Number of concurrent runs.
                type: integer
                minimum: 1
                default: 1
              concurrencyPolicy:
                description: What happens if a run takes longer than the time to the next one.
                type: string
                enum: [Allow, Forbid, Replace]
                default: Allow
          status:
            type: object
            properties:
              lastRun:
                type: string
                format: date-time
`;
  var volume = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: volumes.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Volume, plural: volumes}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - rule: self.size >= oldSelf.size
              message: a volume cannot shrink
            properties:
              size:
                description: Size in gigabytes.
                type: integer
                minimum: 1
              class:
                description: The storage class.
                type: string
                maxLength: 8
              mounts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [path]
                maxItems: 16
                items:
                  type: object
                  required: [path]
                  x-kubernetes-validations:
                  - rule: self.path.startsWith('/')
                    message: must be absolute
                  properties:
                    path: {type: string, maxLength: 256}
                    readOnly: {type: boolean, default: false}
`;
  var examples = [
    {
      name: "Pruning, defaults and a typo",
      crds: crontab,
      object: `# Two mistakes: the schedule has four fields instead of five, and replica should be replicas.
apiVersion: example.com/v1
kind: CronTab
metadata:
  name: hourly
  namespace: default
spec:
  schedule: 0 * * *
  replica: 3
`,
      before: crontab.replace("              concurrencyPolicy:", "              timeZone: {type: string}\n              concurrencyPolicy:").replace("minimum: 1", "minimum: 0")
    },
    {
      name: "Update: ratcheting and oldSelf",
      crds: volume,
      object: `apiVersion: example.com/v1
kind: Volume
metadata:
  name: data
  namespace: default
spec:
  size: 5
  class: legacy-class
  mounts:
  - path: data
`,
      old: `apiVersion: example.com/v1
kind: Volume
metadata:
  name: data
  namespace: default
spec:
  size: 10
  class: legacy-class
  mounts:
  - path: /data
`
    },
    {
      name: "Where the two semantics differ",
      crds: `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: plugins.example.com
spec:
  group: example.com
  scope: Cluster
  names: {kind: Plugin, plural: plugins}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          config:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties:
              options:
                type: object
`,
      object: `apiVersion: example.com/v1
kind: Plugin
metadata:
  name: demo
config:
  anything: is kept
  options:
    verbose: true
`
    },
    {
      name: "A Deployment of Kubernetes itself",
      crds: "",
      object: `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replica: 2
  selector:
    matchLabels:
      app: web
  template:
    metadata:
      labels:
        app: website
    spec:
      containers:
      - name: web
        image: nginx
        ports:
        - containerPort: 80800
`
    }
  ];

  // rules.ts
  var maxKinds = 5;
  var unbounded = 2 ** 63;
  function share(cost, limit) {
    if (cost >= unbounded) return "cost is unbounded";
    const percent = 100 * cost / limit;
    if (percent > 100) return `estimated cost is ${percent < 1e3 ? (percent / 100).toFixed(1) : Math.round(percent / 100).toLocaleString("en")} times the limit`;
    return `estimated cost is ${percent < 0.1 ? "less than 0.1" : percent.toFixed(1)}% of the limit`;
  }
  function costNote(c) {
    return h("div", { class: "cost" + (c.exceeded || c.error ? " exceeded" : "") }, ...message(c.error ?? share(c.cost, c.limit)));
  }
  function finding(r) {
    const text = r.error ?? "rejected: " + share(r.cost, r.limit);
    return { rule: "cel", severity: "error", path: r.path, message: text, ...r.range ? { range: r.range } : {} };
  }
  var Rules = class {
    constructor(c, actions) {
      this.c = c;
      this.actions = actions;
    }
    c;
    actions;
    element = h("div", { class: "rules" });
    latest = new Latest();
    // rejected are the rules that an API server rejects, and text the CRDs that they are of.
    rejected = [];
    text = "";
    // shown is what the rules are those of.
    shown = "";
    // findings are the rules of the CRDs of the state that an API server rejects. Those of another text have
    // other positions.
    get findings() {
      return this.text === this.c.state.crds ? this.rejected : [];
    }
    // cancel drops the answer that is awaited.
    cancel() {
      this.latest.cancel();
    }
    // show shows the rules of the kinds of objects.
    show(objects) {
      const { crds, semantics: semantics2 } = this.c.state;
      const kinds = /* @__PURE__ */ new Map();
      for (const o of objects) {
        const version = o.apiVersion.split("/").pop() ?? "";
        if (o.crd && kinds.size < maxKinds) kinds.set(o.crd + " " + version, { crd: o.crd, version, title: o.kind + " " + version });
      }
      const wanted = JSON.stringify([crds, semantics2, ...kinds.keys()]);
      if (wanted === this.shown) return;
      this.shown = "";
      this.rejected = [];
      this.actions.mark();
      this.latest.run(
        0,
        async (signal) => {
          const parts = [];
          const findings = [];
          for (const k of kinds.values()) {
            const a = await this.c.engine.ask("rules", { crds, semantics: semantics2, crd: k.crd, version: k.version }, signal);
            findings.push(...a.rules.filter((r) => r.exceeded || r.error).map(finding));
            if (a.rules.length > 0) parts.push(this.kind(kinds.size > 1 ? k.title : "", a, crds));
          }
          this.shown = wanted;
          this.set(findings, crds, parts);
        },
        () => this.set([], crds, [])
      );
    }
    set(findings, crds, parts) {
      this.rejected = findings;
      this.text = crds;
      this.actions.mark();
      replace(this.element, ...parts);
    }
    kind(title, a, crds) {
      const bad = a.rules.filter((r) => r.exceeded || r.error).length + (a.exceeded ? 1 : 0);
      const details = h(
        "details",
        { class: "rules-of" },
        h(
          "summary",
          {},
          h("span", { class: "title" }, title === "" ? "CEL rules" : "CEL rules of " + title),
          h("span", { class: "badge" }, String(a.rules.length)),
          bad > 0 ? h("span", { class: "badge deprecated" }, "an API server rejects this CRD") : h("span", { class: "note" }, share(a.cost, a.limit) + " for all rules")
        ),
        a.exceeded && h("p", { class: "cost exceeded" }, `All ${plural(a.rules.length, "rule")} together: ${share(a.cost, a.limit)}.`),
        h("ul", { class: "findings" }, ...a.rules.map((r) => this.rule(r, crds)))
      );
      details.open = bad > 0;
      return details;
    }
    rule(r, crds) {
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
        r.exceeded && !r.bounds && h("div", { class: "actions" }, "No bound on a list, map or string is sufficient: simplify the rule.")
      );
    }
  };

  // explorer.ts
  var tabs = [
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
    { id: "typescript", label: "TypeScript" }
  ];
  var maxFields = 300;
  var maxText2 = 512 << 10;
  var Explorer = class {
    constructor(c) {
      this.c = c;
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
        const shown2 = tabs.filter((t) => !this.isHidden(t.id));
        const at = shown2.findIndex((t) => t.id === this.tab);
        this.select(shown2[(at + step + shown2.length) % shown2.length]?.id ?? "tree");
        this.bar.querySelector("[aria-selected=true]")?.focus();
      });
      this.element = h(
        "div",
        { class: "explorer" },
        h("div", { class: "toolbar" }, this.crd, this.version, this.beside, this.query),
        this.about,
        this.problems,
        this.bar,
        this.content
      );
      this.drawTabs();
    }
    c;
    element;
    crd = h("select", { "aria-label": "CRD" });
    version = h("select", { "aria-label": "Version" });
    // beside is the version that is shown next to the other one, or empty.
    beside = h("select", { "aria-label": "Version to show next to it" });
    query = h("input", { type: "search", "aria-label": "Search fields" });
    buttons = tabs.map((t) => h("button", { type: "button", role: "tab", id: "tab-" + t.id, "aria-controls": "explorer-panel", onclick: () => this.select(t.id) }, t.label));
    bar = h("div", { class: "tabs", role: "tablist", "aria-label": "Forms of the schema" }, ...this.buttons);
    content = h("div", { class: "content", role: "tabpanel", id: "explorer-panel", tabindex: 0 });
    about = h("p", { class: "about" });
    latest = new Latest();
    problems = h("div");
    // resources are the CRDs, custom of them, and then the built-in kinds.
    resources = [];
    custom = 0;
    isCustom = true;
    // loads loads the fields in a field of the tree, which is done when it is opened.
    loads = /* @__PURE__ */ new WeakMap();
    // target is the part of a schema that is shown when the CRDs are known.
    target;
    // opened is the match that was opened last.
    opened = "";
    get tab() {
      return this.c.state.tab;
    }
    set tab(id) {
      this.c.state.tab = id;
    }
    drawTabs() {
      tabs.forEach(({ id }, i) => {
        const button = this.buttons[i];
        if (!button) return;
        button.hidden = this.isHidden(id);
        button.setAttribute("aria-selected", String(id === this.tab));
        button.tabIndex = id === this.tab ? 0 : -1;
      });
      this.content.setAttribute("aria-labelledby", "tab-" + this.tab);
    }
    isHidden(id) {
      return !this.isCustom && generated.includes(id);
    }
    select(id) {
      this.tab = id;
      this.drawTabs();
      this.load();
    }
    // show opens the tree at a part of a schema.
    show(target) {
      this.target = target;
      this.c.state.query = "";
      this.tab = "tree";
    }
    refresh() {
      const { crds, semantics: semantics2 } = this.c.state;
      if (!tabs.some((t) => t.id === this.tab)) this.tab = "tree";
      this.query.value = this.c.state.query;
      this.drawTabs();
      this.latest.run(
        0,
        async (signal) => {
          const [a, own] = await Promise.all([this.c.engine.ask("resources", { crds, semantics: semantics2 }, signal), this.c.engine.ask("kinds", {}, signal)]);
          this.custom = a.resources.length;
          this.resources = [...a.resources, ...own.kinds];
          const options = (all) => all.map((r) => h("option", { value: r.name }, `${r.kind} (${r.name})`));
          replace(this.crd, a.resources.length > 0 && h("optgroup", { label: "CRDs" }, ...options(a.resources)), h("optgroup", { label: "Built-in kinds" }, ...options(own.kinds)));
          const { crd, version, beside } = this.c.state;
          if (this.resources.some((r) => r.name === crd)) this.crd.value = crd;
          replace(this.version, h("option", { value: version }));
          replace(this.beside, h("option", { value: beside }));
          this.choose();
          this.fillVersions();
          replace(this.problems, findingList(a.problems, {}));
          this.load();
        },
        (m) => this.fail(m)
      );
    }
    // choose chooses the CRD and version of the target.
    choose() {
      const t = this.target;
      if (!t) return;
      const [group, version] = t.apiVersion.includes("/") ? t.apiVersion.split("/", 2) : ["", t.apiVersion];
      const r = this.resources.find((r2) => r2.kind === t.kind && r2.group === group);
      if (!r) return;
      this.crd.value = r.name;
      replace(this.version, h("option", { value: version ?? "" }, version ?? ""));
    }
    resource() {
      return this.resources.find((r) => r.name === this.crd.value) ?? this.resources[0];
    }
    fillVersions() {
      const r = this.resource();
      const before = this.version.value;
      const label = (v) => v.name + [v.storage && "storage", !v.served && "not served", v.deprecated && "deprecated"].filter(Boolean).map((x) => ", " + x).join("");
      replace(this.version, ...(r?.versions ?? []).map((v) => h("option", { value: v.name }, label(v))));
      const chosen = r?.versions.find((v) => v.name === before) ?? r?.versions.find((v) => v.storage) ?? r?.versions[0];
      if (chosen) this.version.value = chosen.name;
      this.isCustom = !!r && this.resources.indexOf(r) < this.custom;
      if (this.isHidden(this.tab)) this.tab = "tree";
      this.drawTabs();
      const others = (r?.versions ?? []).filter((v) => v !== chosen);
      const beside = this.beside.value;
      replace(this.beside, h("option", { value: "" }, "no other version"), ...others.map((v) => h("option", { value: v.name }, "next to " + label(v))));
      this.beside.value = others.some((v) => v.name === beside) ? beside : "";
      this.beside.hidden = others.length === 0;
      Object.assign(this.c.state, { crd: this.crd.value, version: this.version.value, beside: this.beside.value });
      const names2 = r?.shortNames?.length ? `, short names ${r.shortNames.join(", ")}` : "";
      const deprecated = chosen?.deprecated;
      const scope = r?.namespaced ? "Namespaced" : "Cluster-scoped";
      replace(this.about, r ? `${scope} resource ${r.plural || r.name} of ${r.group ? "group " + r.group : "the core group"}${names2}.` : "", !!deprecated && h("strong", { class: "deprecated" }, " " + deprecated));
    }
    request(version = this.version.value) {
      return { crds: this.c.state.crds, crd: this.resource()?.name ?? "", version, semantics: this.c.state.semantics };
    }
    // fill replaces the content. If it has the focus, that is moved to the element that focus returns.
    fill(focus, ...children2) {
      const inside = this.content.contains(document.activeElement);
      replace(this.content, ...children2);
      if (inside) (focus() ?? this.content).focus({ preventScroll: true });
    }
    fail(message3) {
      replace(this.content, h("p", { class: "banner rejected", role: "alert" }, message3));
    }
    load(pause2 = 0) {
      this.latest.run(pause2, (signal) => this.ask(signal), (m) => this.fail(m));
    }
    async ask(signal) {
      if (this.tab === "tree" && this.query.value.trim() !== "") return this.search(signal);
      if (generated.includes(this.tab)) {
        const a = await this.c.engine.ask("generate", { crds: this.c.state.crds, target: this.tab, semantics: this.c.state.semantics }, signal);
        replace(this.content, findingList(a.problems, {}), ...a.files.map((f) => this.file(f.name, f.text)));
        return;
      }
      const version = this.version.value;
      const beside = this.beside.value;
      if (beside === "") replace(this.content, ...await this.form(version, "", signal));
      else {
        const both = [await this.form(version, beside, signal), await this.form(beside, version, signal)];
        const columns = both.map((children2, i) => h("section", { class: "version", "aria-label": "Version " + (i === 0 ? version : beside) }, h("h2", {}, i === 0 ? version : beside), ...children2));
        if (this.tab !== "tree") markLines(columns);
        replace(this.content, h("div", { class: "versions" }, ...columns));
      }
      const target = this.target;
      this.target = void 0;
      if (target) await this.reveal(target, signal);
    }
    // form returns a version in the form of the tab. other is the version next to it, or empty.
    async form(version, other, signal) {
      const e = this.c.engine;
      const request = this.request(version);
      if (this.tab === "tree") {
        const a2 = await e.ask("fields", request, signal);
        const body = facts(a2.field, a2.costs ?? []);
        return [a2.noSchema && h("p", { class: "note" }, "This version has no schema."), body && h("div", { class: "body root" }, body), h("ul", { class: "tree" }, ...await this.fields(a2, version, other, "", signal))];
      }
      const a = await (this.tab.startsWith("sample") ? e.ask("sample", { ...request, full: this.tab === "sample-full" }, signal) : e.ask("form", { ...request, form: this.tab }, signal));
      const isSample = this.tab.startsWith("sample");
      const use2 = h("button", { type: "button", class: "quiet", onclick: () => this.c.open({ view: "playground", object: a.text, old: "", update: false }) }, "Open in playground");
      return [findingList(a.findings ?? [], {}), this.file("", a.text, isSample && use2)];
    }
    file(name, text, ...more) {
      const rest = text.length - maxText2;
      return h(
        "div",
        { class: "file" },
        h("header", {}, name === "" ? h("span", { class: "fill" }) : h("h3", {}, name), ...more, copyButton(() => text)),
        h("pre", { tabindex: 0, "aria-label": name || "Text" }, text.slice(0, maxText2)),
        rest > 0 && h("p", { class: "note" }, plural(rest, "more character") + " not shown: copy has all of them.")
      );
    }
    async search(signal) {
      const a = await this.c.engine.ask("search", { ...this.request(), query: this.query.value }, signal);
      const paths = () => [...this.content.querySelectorAll(".path")];
      this.fill(
        () => paths().find((e) => e.textContent === this.opened) ?? paths()[0],
        a.matches.length === 0 && h("p", { class: "note" }, "No field matches."),
        h(
          "ul",
          { class: "matches" },
          ...a.matches.map(
            (m) => h("li", {}, h("button", { type: "button", class: "link path", onclick: () => this.open(m.path) }, m.path), h("span", { class: "type" }, m.type), h("span", { class: "description" }, m.description ?? ""))
          )
        ),
        a.more && h("p", { class: "note" }, "There are more matches.")
      );
    }
    // open shows one field with what is in it.
    open(path) {
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
        (m) => this.fail(m)
      );
    }
    // fields returns the fields in a field, with what differs in the other version, if there is one. The signal
    // is that of the tree: what is in its fields is loaded while it is shown.
    async fields(a, version, other, path, signal) {
      const theirs = /* @__PURE__ */ new Map();
      if (other !== "") {
        try {
          const b = await this.c.engine.ask("fields", { ...this.request(other), path }, signal);
          for (const f of children(b.field)) theirs.set(f.name, f);
        } catch (e) {
          if (signal.aborted) throw e;
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
    field(f, costs, version, other, difference, signal) {
      const inner = h("ul", { class: "tree" });
      const deep = /Object|map\[|IntOrString\]|any/.test(f.type) && f.type !== "any" && f.type !== "map[string]string";
      const body = h("div", { class: "body" }, !!f.description && h("p", { class: "description" }, f.description), facts(f, costs));
      const title = [
        h("span", { class: "name" }, f.name ?? "values"),
        h("span", { class: "type" }, f.type),
        difference !== "" && h("span", { class: "badge difference" }, difference),
        f.required && h("span", { class: "badge required" }, "required"),
        f.default !== void 0 && h("span", { class: "badge" }, "default " + short2(f.default)),
        hasRules(f) && h("span", { class: "badge rule" }, "CEL"),
        f.unknownFields?.preserved && h("span", { class: "badge preserve" }, "preserves unknown fields"),
        f.embeddedResource && h("span", { class: "badge" }, "embedded resource"),
        !!f.deprecated && h("span", { class: "badge deprecated" }, "deprecated"),
        !!f.description && h("span", { class: "brief" }, f.description.split("\n", 1)[0] ?? "")
      ];
      const details = h("details", {}, h("summary", {}, ...title), body, inner);
      details.dataset["path"] = f.path ?? "";
      let loading;
      const load = async () => {
        try {
          const a = await this.c.engine.ask("fields", { ...this.request(version), path: f.path ?? "" }, signal);
          replace(inner, ...await this.fields(a, version, other, f.path ?? "", signal));
        } catch (e) {
          if (signal.aborted) return;
          loading = void 0;
          replace(inner, h("li", { class: "note" }, e instanceof Error ? e.message : String(e)));
        }
      };
      this.loads.set(details, () => deep ? loading ??= load() : Promise.resolve());
      details.addEventListener("toggle", () => {
        if (details.open) void this.loads.get(details)?.();
        for (const peer of details.closest(".versions")?.querySelectorAll("details") ?? []) if (peer.dataset["path"] === f.path) peer.open = details.open;
      });
      return h("li", {}, details);
    }
    // reveal opens the tree at a part of the schema, and shows the rule that it is about.
    async reveal(target, signal) {
      const { names: names2, rule } = parsed(target.path);
      let at = this.content;
      for (const name of names2) {
        const find = () => [...at.querySelectorAll("details")].find((d) => d.querySelector("summary > .name")?.textContent === name);
        let next = find();
        for (let more; !next && (more = at.querySelector(".more")); next = find()) more.click();
        if (!next) break;
        next.open = true;
        await this.loads.get(next)?.();
        if (signal.aborted) return;
        at = next;
      }
      const place = rule !== void 0 && at.querySelector(`[data-rule="${rule}"]`) || at.querySelector(":scope > summary") || this.content;
      place.classList.add("target");
      place.scrollIntoView({ block: "center" });
      at.querySelector("summary")?.focus({ preventScroll: true });
    }
  };
  function inParts(fields, make) {
    const rest = fields.slice(maxFields);
    const shown2 = fields.slice(0, maxFields).map(make);
    if (rest.length === 0) return shown2;
    const show2 = () => {
      const next = inParts(rest, make);
      more.replaceWith(...next);
      next[0]?.querySelector("summary")?.focus({ preventScroll: true });
    };
    const more = h("li", {}, h("button", { type: "button", class: "link more", onclick: show2 }, plural(rest.length, "more field")));
    return [...shown2, more];
  }
  var generated = ["go", "proto", "typescript"];
  function parsed(path) {
    const rule = /((?:\.items|\.additionalProperties)*)\.x-kubernetes-validations\[(\d+)\]$/.exec(path);
    return { names: [...path.matchAll(/\.properties\[((?:[^\]]|\](?!\.|$))*)\]/g)].map((m) => m[1] ?? ""), rule: rule ? `${rule[1]}[${rule[2]}]` : void 0 };
  }
  function shape(f) {
    return JSON.stringify(f, (key3, value2) => key3 === "fields" || key3 === "path" ? void 0 : value2);
  }
  function markLines(columns) {
    const [left, right] = columns.map((c) => c.querySelector("pre"));
    if (!left || !right) return;
    const texts = [left, right].map((p) => (p.textContent ?? "").split("\n"));
    [left, right].forEach((pre, i) => {
      const others = new Set(texts[1 - i]);
      replace(pre, ...(texts[i] ?? []).flatMap((line) => [others.has(line) ? line : h("mark", {}, line), "\n"]));
    });
  }
  function children(f) {
    for (let at = f; at; at = at.items ?? at.values) {
      if (at.fields && at.fields.length > 0) return at.fields;
    }
    return [];
  }
  function hasRules(f) {
    for (let at = f; at; at = at.items ?? at.values) if (at.rules && at.rules.length > 0) return true;
    return false;
  }
  function short2(v) {
    const text = JSON.stringify(v);
    return text.length > 40 ? text.slice(0, 40) + "…" : text;
  }
  function facts(f, costs) {
    const rows = [];
    for (let at = f, prefix2 = "", steps = ""; at; [prefix2, steps, at] = at.items ? ["items ", steps + ".items", at.items] : ["values ", steps + ".additionalProperties", at.values]) {
      const path = at.path ?? "";
      if (at.enum) rows.push([prefix2 + "enum", at.enum.map((v) => JSON.stringify(v)).join(", ")]);
      for (const [k, v] of Object.entries(at.constraints ?? {})) rows.push([prefix2 + k, typeof v === "string" ? v : JSON.stringify(v)]);
      if (at.default !== void 0) rows.push([prefix2 + "default", JSON.stringify(at.default)]);
      if (at.nullable) rows.push([prefix2 + "nullable", "true"]);
      if (at.listType) rows.push([prefix2 + "list type", at.listType + (at.listMapKeys ? " by " + at.listMapKeys.join(", ") : "")]);
      if (at.mapType) rows.push([prefix2 + "map type", at.mapType]);
      for (const c of at.conditions ?? []) rows.push([prefix2 + "condition", c]);
      for (const [i, r] of (at.rules ?? []).entries()) {
        const cost = costs.find((c) => c.path === path && !c.keyword && (c.rule === "" || c.index === i));
        rows.push([
          prefix2 + "rule",
          h(
            "span",
            { "data-rule": `${steps}[${i}]` },
            h("code", {}, r.rule),
            !!r.message && h("span", {}, " " + r.message),
            r.transition && h("span", { class: "badge" }, "on update"),
            cost && costNote(cost),
            ...(cost?.bounds ?? []).map((b) => h("span", { class: "cost" }, "within the limit: " + b.message))
          )
        ]);
      }
      if (at.unknownFields?.preserved || at.unknownFields?.other) rows.push([prefix2 + "unknown fields", (at.unknownFields.preserved ? "preserved: " : "pruned: ") + at.unknownFields.because]);
    }
    if (rows.length === 0) return void 0;
    return h("dl", {}, ...rows.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
  }

  // lint.ts
  var Lint = class {
    constructor(c) {
      this.c = c;
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
        h("section", { class: "pane outcome" }, h("header", {}, h("h2", {}, "Findings"), h("label", { class: "check", for: "conventions" }, this.conventions, "API conventions")), this.page, this.spoken, this.result)
      );
    }
    c;
    element;
    crds;
    conventions;
    result = h("div", { class: "result" });
    // spoken is what screen readers say about a new result.
    spoken = h("p", { class: "spoken", role: "status" });
    page = h("div", { class: "page", hidden: true });
    latest = new Latest();
    refresh() {
      this.crds.set(this.c.state.crds);
      this.conventions.checked = this.c.state.conventions;
      this.ask(0);
    }
    edited() {
      this.c.state.crds = this.crds.value;
      this.c.changed();
      this.ask(200);
    }
    ask(pause2) {
      const s = this.c.state;
      this.latest.run(
        pause2,
        async (signal) => {
          this.result.classList.add("stale");
          const crds = s.crds;
          this.show(await this.c.engine.ask("lint", { crds, semantics: s.semantics, conventions: s.conventions }, signal), crds);
        },
        (m) => {
          this.result.classList.remove("stale");
          replace(this.result, h("p", { class: "banner rejected", role: "alert" }, m));
        }
      );
    }
    show(a, crds) {
      this.result.classList.remove("stale");
      const all = [...a.problems, ...a.findings];
      this.crds.show(all);
      const verdict2 = all.some((f) => f.severity === "error") ? "rejected" : all.length > 0 ? "unknown" : "accepted";
      const text = a.checked === 0 ? "There is no CRD" : all.length === 0 ? "No findings" : counts(all);
      setText(this.spoken, text);
      replace(
        this.result,
        h("p", { class: "banner " + verdict2 }, h("strong", {}, text), a.checked > 0 && h("span", {}, plural(a.checked, "CRD"))),
        // Only the rules of lint have pages.
        findingList(a.problems, { object: (r) => this.crds.reveal(r) }),
        findingList(a.findings, { object: (r) => this.crds.reveal(r), fix: (f) => applyFix(this.c, this.crds, crds, f), rule: (r) => void this.open(r) }),
        a.more && h("p", { class: "note" }, "There are more findings than are shown.")
      );
    }
    async open(rule) {
      const from = document.activeElement;
      const closed = () => {
        this.page.hidden = true;
        const all = [...this.result.querySelectorAll("button.rule")].filter((e) => e.textContent === rule);
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
  };

  // definitions.ts
  var pause = 400;
  var Definitions = class {
    constructor(c, actions) {
      this.c = c;
      this.actions = actions;
    }
    c;
    actions;
    element = h("div", { class: "definitions" });
    // errors are those of the text.
    errors = [];
    text = "";
    latest = new Latest();
    // shown is what the findings are those of.
    shown = "";
    // findings are the errors of the CRDs of the state. Those of another text have other positions.
    get findings() {
      return this.text === this.c.state.crds ? this.errors : [];
    }
    // cancel drops the answer that is awaited.
    cancel() {
      this.latest.cancel();
    }
    // show shows the errors of the CRDs of the state.
    show() {
      const { crds, semantics: semantics2 } = this.c.state;
      const wanted = JSON.stringify([crds, semantics2]);
      if (wanted === this.shown) return;
      this.shown = "";
      this.errors = [];
      this.actions.mark();
      this.latest.run(
        pause,
        async (signal) => {
          const a = await this.c.engine.ask("lint", { crds, semantics: semantics2 }, signal);
          this.shown = wanted;
          this.set(a.findings.filter((f) => f.severity === "error"), crds);
        },
        () => this.set([], crds)
      );
    }
    set(findings, crds) {
      this.errors = findings;
      this.text = crds;
      this.actions.mark();
      const own = findings.filter((f) => !f.rule.startsWith("cel-"));
      if (own.length === 0) return replace(this.element);
      const lint = h("button", { type: "button", class: "quiet", onclick: () => this.c.open({ view: "lint" }) }, "Open in Lint");
      const title = h("p", { class: "banner rejected" }, h("strong", {}, "The CRD has " + plural(own.length, "error")), lint);
      replace(this.element, title, findingList(own, { object: (r) => this.actions.reveal(r, crds), fix: (f) => this.actions.fix(f, crds) }));
    }
  };

  // playground.ts
  var maxRows2 = 4e3;
  var keyPause = 300;
  var Playground = class {
    constructor(c) {
      this.c = c;
      const help = assistance(c);
      this.crds = newEditor("CustomResourceDefinitions", () => this.edited({ crds: this.crds.value }), help);
      this.object = newEditor("Object", () => this.edited({ object: this.object.value }), help);
      this.old = newEditor("Object before the update", () => this.edited({ old: this.old.value }), help);
      this.crds.hint = "Paste CRDs, or drop files or a folder here.\nBuilt-in kinds need no CRD.";
      this.object.hint = "Paste an object, or press Ctrl+Space for completions.";
      const onCRDs = {
        mark: () => this.markCRDs(),
        reveal: (r, crds) => this.crds.value === crds ? this.crds.reveal(r) : c.say("The text has changed: the line may be another one now."),
        fix: (f, crds) => applyFix(c, this.crds, crds, f)
      };
      this.rules = new Rules(c, onCRDs);
      this.definitions = new Definitions(c, onCRDs);
      this.update = h("input", { type: "checkbox", id: "update" });
      this.update.addEventListener("change", () => {
        if (this.update.checked && this.old.value === "") this.old.set(this.object.value);
        this.edited({ update: this.update.checked, old: this.old.value });
      });
      for (const event of ["pointerenter", "focus"]) this.kinds.addEventListener(event, () => this.listKinds());
      this.kinds.addEventListener("change", () => this.create());
      this.kinds.addEventListener("blur", () => this.kinds.value = "");
      for (const event of ["pointerdown", "keydown"]) this.kinds.addEventListener(event, () => this.withKeys = event === "keydown");
      this.oldPane = h("section", { class: "pane" }, h("header", {}, h("h2", {}, "Before")), this.old.element);
      this.element = h(
        "div",
        { class: "playground" },
        h("section", { class: "pane" }, h("header", {}, h("h2", {}, "CRD")), this.crds.element),
        h(
          "div",
          { class: "stack" },
          this.oldPane,
          h("section", { class: "pane" }, h("header", {}, h("h2", {}, "Object"), this.kinds, h("label", { class: "check", for: "update" }, this.update, "Update")), this.object.element)
        ),
        h("section", { class: "pane outcome" }, h("header", {}, h("h2", {}, "Result")), this.spoken, this.result)
      );
    }
    c;
    element;
    crds;
    object;
    old;
    oldPane;
    update;
    // kinds replaces the object by a sample of a kind.
    kinds = h("select", { class: "kinds", "aria-label": "New object of a kind" }, h("option", { value: "" }, "New object…"));
    result = h("div", { class: "result" });
    // spoken is what screen readers say about a new result.
    spoken = h("p", { class: "spoken", role: "status" });
    latest = new Latest();
    creating = new Latest();
    // withKeys is set while the keyboard is used for the list of kinds.
    withKeys = false;
    listing = new Latest();
    // listed is what the kinds in the list depend on.
    listed;
    rules;
    definitions;
    partial = false;
    // problems are those of the text of the CRDs.
    problems = [];
    // kept is the last result of a text that can be read.
    kept = [];
    // rows is the number of lines that may still be shown.
    rows = 0;
    refresh() {
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
    listKinds() {
      const { crds, semantics: semantics2 } = this.c.state;
      const wanted = semantics2 + crds;
      if (wanted === this.listed) return;
      this.listed = wanted;
      this.listing.run(
        0,
        async (signal) => {
          const [custom, own] = await Promise.all([this.c.engine.ask("resources", { crds, semantics: semantics2 }, signal), this.c.engine.ask("kinds", {}, signal)]);
          const group = (label, all) => {
            const options = all.flatMap((r) => r.versions.filter((v) => v.served).map((v) => h("option", { value: r.name + " " + v.name }, `${r.kind} (${r.group ? r.group + "/" : ""}${v.name})`)));
            return options.length > 0 && h("optgroup", { label }, ...options);
          };
          if (this.kinds.length > 1 && isOpen(this.kinds)) this.listed = void 0;
          else replace(this.kinds, h("option", { value: "" }, "New object…"), group("Kinds of the CRDs", custom.resources), group("Built-in kinds", own.kinds));
        },
        (m) => {
          this.listed = void 0;
          this.c.say(m);
        }
      );
    }
    // create replaces the object by a sample of the chosen kind. A kind that was chosen with the keyboard is shown,
    // and the list keeps the focus: arrow keys and letters change a list that is closed, often several times.
    create() {
      const kind = this.kinds.value;
      const [crd, version] = kind.split(" ");
      if (!crd) return this.creating.cancel();
      const { crds, semantics: semantics2 } = this.c.state;
      const before = this.object.value;
      const withKeys = this.withKeys;
      this.creating.run(
        withKeys ? keyPause : 0,
        async (signal) => {
          const a = await this.c.engine.ask("sample", { crds, crd, version, semantics: semantics2 }, signal);
          if (!isShown(this.object)) this.c.say("The object was not created: another view is shown.");
          else if (this.object.value !== before) this.c.say("The text has changed: choose the kind again.");
          else {
            const stays = withKeys && document.activeElement === this.kinds;
            this.object.edit(0, before.length, a.text);
            if (stays) this.kinds.focus({ preventScroll: true });
            this.kinds.value = stays ? kind : "";
          }
        },
        (m) => this.c.say(m)
      );
    }
    // edited changes the state. Only what the user has changed is written: the view need not show the rest.
    edited(change) {
      Object.assign(this.c.state, change);
      this.oldPane.hidden = !this.c.state.update;
      this.c.changed();
      this.rules.cancel();
      this.definitions.cancel();
      this.ask(120);
    }
    ask(pause2) {
      this.latest.run(
        pause2,
        async (signal) => {
          const s = this.c.state;
          this.result.classList.add("stale");
          const request = { crds: s.crds, objects: s.object, semantics: s.semantics, both: true, ...s.update ? { old: s.old } : {} };
          this.show(await this.c.engine.ask("check", request, signal), request.objects);
        },
        (message3) => this.fail(message3)
      );
    }
    fail(message3) {
      this.partial = false;
      this.result.classList.remove("stale");
      replace(this.result, h("p", { class: "banner rejected", role: "alert" }, message3));
    }
    show(a, objects) {
      this.partial = a.partial ?? false;
      this.result.classList.remove("stale");
      this.problems = a.crds;
      this.markCRDs();
      this.old.show(a.old);
      const lacking = a.crds.some((f) => f.severity === "error") && a.objects.every((o) => o.verdict === "unknown");
      const broken = a.objects.length === 0 && a.text.length > 0 || lacking && this.kept.length > 0;
      this.object.show([...a.text, ...broken ? [] : a.objects.flatMap((o) => o.findings)]);
      const parts = [];
      parts.push(this.texts("The CRDs cannot be read", a.crds, { object: (r) => this.crds.reveal(r) }));
      parts.push(this.texts("The object cannot be read", a.text, { object: (r) => this.object.reveal(r) }));
      parts.push(this.texts("The object before the update cannot be read", a.old, { object: (r) => this.old.reveal(r) }));
      parts.push(this.definitions.element);
      if (a.partial) parts.push(this.withoutRules(a.problem ?? ""));
      this.rows = maxRows2;
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
    markCRDs() {
      const errors = this.definitions.findings;
      const isKnown = (r) => errors.some((f) => f.range && r.range && f.range.start <= r.range.end && r.range.start <= f.range.end);
      this.crds.show([...this.problems, ...errors, ...this.rules.findings.filter((r) => !isKnown(r))]);
    }
    // withoutRules tells why no rules were evaluated.
    withoutRules(problem) {
      if (problem === "") return h("p", { class: "note" }, "CEL rules are not evaluated yet: they are being loaded.");
      const again = () => {
        this.c.engine.retry?.();
        this.ask(0);
      };
      const why = problem.replace("the engine cannot be loaded: ", "");
      return h("p", { class: "note", role: "alert" }, `CEL rules could not be loaded: ${why}. `, h("button", { type: "button", class: "link", onclick: again }, "Try again"));
    }
    texts(title, findings, actions) {
      if (findings.length === 0) return void 0;
      return h("div", { class: "card" }, h("p", { class: "banner rejected" }, title), findingList(findings, actions));
    }
    one(o, objects, several) {
      const name = [o.kind || "Object", o.namespace && o.name ? o.namespace + "/" + o.name : o.name].filter(Boolean).join(" ");
      const actions = { object: (r) => this.object.reveal(r), schema: (r) => this.crds.reveal(r), fix: (f) => applyFix(this.c, this.object, objects, f) };
      if (!o.builtIn) actions.tree = (path) => this.c.explore({ apiVersion: o.apiVersion, kind: o.kind, path });
      const other = o.other;
      return h(
        "article",
        { class: "card" },
        several && h("h3", {}, name),
        this.banner(o, o),
        findingList(o.findings, actions),
        ...(o.general ?? []).map((n) => h("p", { class: "note" }, n.message)),
        other ? h("div", { class: "both" }, h("p", { class: "note" }, "The two schema semantics differ for this object."), h("div", { class: "columns" }, this.stored(o, o.semantics), this.stored(other, other.semantics, other.verdict !== o.verdict ? this.banner(o, other) : void 0))) : this.stored(o)
      );
    }
    banner(o, outcome) {
      const found = counts(outcome.findings);
      const kind = isUndecided(o, outcome) ? "unknown" : outcome.verdict;
      return h("p", { class: "banner " + kind }, h("strong", {}, verdict(o, outcome)), found !== "" && h("span", {}, found));
    }
    stored(o, title, banner) {
      const lines = o.lines;
      if (!lines || lines.length === 0) return void 0;
      const pruned = lines.filter((l) => l.mark === "pruned" && l.reason).length;
      const defaulted = lines.filter((l) => l.mark === "defaulted" && l.reason).length;
      const summary = [pruned > 0 && plural(pruned, "field") + " pruned", defaulted > 0 && plural(defaulted, "default") + " added"].filter(Boolean).join(", ");
      const shown2 = lines.slice(0, this.rows);
      this.rows -= shown2.length;
      return h(
        "div",
        { class: "stored" },
        h("header", {}, h("h3", {}, title ?? (o.verdict === "rejected" ? "Would be stored" : "Stored")), h("span", { class: "summary" }, summary), copyButton(() => o.stored ?? "")),
        banner,
        shown2.length > 0 && roving(h("div", { class: "lines", role: "region", "aria-label": "Stored object" }, ...shown2.map((l) => this.line(l)))),
        lines.length > shown2.length && h("p", { class: "note" }, plural(lines.length - shown2.length, "more line") + " not shown: copy has all of them.")
      );
    }
    // to returns a part of a result that leads to the object, with a click or Enter. Its text can be selected.
    to(range, text) {
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
    line(l) {
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
  };
  function isOpen(list) {
    return CSS.supports("selector(:open)") && list.matches(":open");
  }
  function isUndecided(o, outcome) {
    return !!o.unevaluated && outcome.verdict === "accepted";
  }
  function verdict(o, outcome) {
    const what = o.update ? "update" : "create";
    if (isUndecided(o, outcome)) return "The schema accepts this object, but CEL rules are not evaluated";
    return {
      accepted: `Accepted: an API server would ${what} this object`,
      rejected: `Rejected: an API server would not ${what} this object`,
      unknown: "No CRD for this object"
    }[outcome.verdict];
  }
  function spoken(objects) {
    const [o, ...others] = objects;
    if (!o) return "";
    if (others.length === 0) return [verdict(o, o), counts(o.findings)].filter(Boolean).join(", ");
    return ["accepted", "rejected", "unknown"].map((v) => ({ v, n: objects.filter((o2) => o2.verdict === v).length })).filter(({ n }) => n > 0).map(({ v, n }) => `${plural(n, "object")} ${v}`).join(", ");
  }

  // state.ts
  var initial = { view: "playground", semantics: "kep", update: false, crds: "", object: "", old: "", before: "", crd: "", version: "", beside: "", tab: "tree", query: "", conventions: false };
  var views = ["playground", "explorer", "compare", "lint"];
  var maxLink = 8 << 20;
  var maxPacked = 7e5;
  async function encode(state2) {
    const content = new Blob([JSON.stringify(state2)]);
    const stream = content.stream().pipeThrough(new CompressionStream("deflate-raw"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    if (content.size > maxLink || bytes.length > maxPacked) throw new Error("The texts are too large for a link: share them as files.");
    let binary = "";
    for (let i = 0; i < bytes.length; i += 32768) binary += String.fromCharCode(...bytes.subarray(i, i + 32768));
    return "#s=" + btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  }
  async function decode(fragment) {
    if (!fragment.startsWith("#s=")) return void 0;
    let binary;
    try {
      binary = atob(fragment.slice(3).replaceAll("-", "+").replaceAll("_", "/"));
    } catch {
      throw new Error("the link is not complete");
    }
    const stream = new Blob([Uint8Array.from(binary, (c) => c.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const reader = stream.getReader();
    const decoder = new TextDecoder();
    let text = "";
    try {
      for (let size = 0; ; ) {
        const { done, value: value2 } = await reader.read();
        if (done) break;
        if ((size += value2.length) > maxLink) throw new RangeError("too large");
        text += decoder.decode(value2, { stream: true });
      }
      return accept(JSON.parse(text + decoder.decode()));
    } catch (e) {
      void reader.cancel().catch(() => void 0);
      throw new Error(e instanceof RangeError ? "what the link contains is too large" : "the link is not complete");
    }
  }
  function accept(value2) {
    const out = {};
    if (typeof value2 !== "object" || value2 === null) return out;
    const from = value2;
    for (const key3 of ["crds", "object", "old", "before", "crd", "version", "beside", "tab", "query"]) {
      const text = from[key3];
      if (typeof text === "string") out[key3] = text;
    }
    if (typeof from["view"] === "string" && views.includes(from["view"])) out.view = from["view"];
    if (from["semantics"] === "kep" || from["semantics"] === "kubernetes") out.semantics = from["semantics"];
    for (const key3 of ["update", "conventions"]) {
      const value3 = from[key3];
      if (typeof value3 === "boolean") out[key3] = value3;
    }
    return out;
  }

  // workspace.ts
  function watch2(changed2, failed) {
    poll("api/workspace", changed2, failed);
  }

  // main.ts
  function meta(name) {
    return document.querySelector(`meta[name=espalier-${name}]`)?.content;
  }
  var native = meta("engine") === "native";
  var hasCluster = meta("cluster") === "yes";
  var state = { ...initial, semantics: meta("semantics") === "kubernetes" ? "kubernetes" : "kep" };
  var edited = false;
  var unsaved = false;
  var edits = 0;
  var openings = 0;
  var current = "";
  var timer;
  var message2 = byId("message");
  var missing = byId("missing");
  var picker = byId("picker");
  function say(text) {
    message2.textContent = text;
    window.clearTimeout(timer);
    timer = window.setTimeout(() => message2.textContent = "", 8e3);
  }
  var missingOpened = "";
  function showMissing() {
    setText(missing, [missingOpened, files?.problem].filter(Boolean).join("; "));
  }
  var engine;
  if (native) {
    engine = new NativeEngine();
  } else {
    const loading = byId("loading");
    loading.hidden = false;
    let first = true;
    engine = new StagedEngine((stage, problem) => {
      loading.hidden = stage !== "small" || problem !== void 0;
      loading.textContent = "Loading CEL rules and built-in kinds…";
      if (problem !== void 0) say(problem);
      if (stage === "complete" && first || (stage === "complete" || problem !== void 0) && shown[current]?.partial) show(current);
      if (stage === "complete") first = false;
    });
  }
  function changed() {
    edited = unsaved = true;
    edits++;
    picker.value = "";
  }
  var context = {
    engine,
    state,
    changed,
    open: (next) => {
      Object.assign(state, next);
      changed();
      show(state.view);
    },
    explore: (target) => {
      explorer.show(target);
      show("explorer");
    },
    say
  };
  var explorer = new Explorer(context);
  var shown = {
    playground: new Playground(context),
    explorer,
    compare: new Compare(context),
    lint: new Lint(context)
  };
  if (hasCluster) {
    shown["cluster"] = new Cluster(context);
    byId("nav-cluster").hidden = false;
  }
  var names = Object.keys(shown);
  function show(view) {
    if (view !== current) shown[current]?.leave?.();
    for (const key3 of ["crds", "object", "old", "before"]) state[key3] = state[key3].replace(/\r\n?/g, "\n");
    current = state.view = view;
    document.body.classList.toggle("in-cluster", view === "cluster");
    for (const name of names) {
      const panel = byId("view-" + name);
      panel.hidden = name !== view;
      const button = byId("nav-" + name);
      if (name === view) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    }
    document.title = view.charAt(0).toUpperCase() + view.slice(1) + " · Espalier";
    shown[view]?.refresh();
  }
  for (const name of names) {
    const view = shown[name];
    if (view) byId("view-" + name).appendChild(view.element);
    byId("nav-" + name).addEventListener("click", () => show(name));
  }
  var semantics = byId("semantics");
  semantics.addEventListener("change", () => {
    state.semantics = semantics.value;
    show(state.view);
  });
  var files;
  function pick(index) {
    picker.selectedIndex = index + 1;
    if (files) {
      const file = files.files.filter((f) => f.objects !== "")[index];
      state.object = file?.objects ?? "";
      state.crds = joined(files.files.map((f) => f.crds));
      state.old = "";
      state.before = "";
      state.update = false;
    } else {
      const e = examples[index];
      if (!e) return;
      state.crds = e.crds;
      state.object = e.object;
      state.old = e.old ?? "";
      state.update = e.old !== void 0;
      state.before = e.before ?? "";
    }
    edited = unsaved = false;
    missingOpened = "";
    showMissing();
    show(state.view);
  }
  function joined(texts) {
    return texts.filter((t) => t !== "").join("---\n");
  }
  picker.addEventListener("change", () => {
    openings++;
    pick(picker.selectedIndex - 1);
  });
  function fill(options, label) {
    replace(picker, h("option", { value: "", hidden: true }, `Choose an ${label.toLowerCase()}…`), ...options.map((o) => h("option", {}, o)));
    picker.setAttribute("aria-label", label);
  }
  function take(found) {
    const first = files === void 0;
    const before = picker.value;
    files = found;
    const names2 = found.files.filter((f) => f.objects !== "").map((f) => f.name);
    fill(names2.length > 0 ? names2 : ["no objects in " + found.root], "Object of the directory");
    showMissing();
    if (!edited) pick(Math.max(0, names2.indexOf(before)));
    else if (!first) say("The files have changed: choose one to load it again.");
  }
  var opened = "opened";
  var share2 = byId("share");
  share2.addEventListener("click", () => {
    const shared = edits;
    encode(state).then(
      async (fragment) => {
        history.replaceState(opened, "", fragment);
        if (edits === shared) unsaved = false;
        if (native) say("This link works on this machine only, in a tab with the link that espalier ui has printed.");
        try {
          await copy(location.href);
          flash(share2, "Link copied");
        } catch {
          flash(share2, "Link in address bar");
        }
      },
      (e) => say(e instanceof Error ? e.message : String(e))
    );
  });
  var theme = byId("theme");
  var themes = ["auto", "light", "dark"];
  function setTheme(name) {
    document.documentElement.dataset["theme"] = name;
    theme.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[name] ?? name;
    theme.setAttribute("aria-label", "Color theme: " + name);
  }
  function storedTheme() {
    try {
      const name = localStorage.getItem("theme") ?? "auto";
      return themes.includes(name) ? name : "auto";
    } catch {
      return "auto";
    }
  }
  setTheme(storedTheme());
  theme.addEventListener("click", () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset["theme"] ?? "auto") + 1) % themes.length] ?? "auto";
    setTheme(next);
    try {
      localStorage.setItem("theme", next);
    } catch {
    }
  });
  var hasFiles = (e) => e.dataTransfer?.types.includes("Files") ?? false;
  document.addEventListener("dragover", (e) => {
    if (!hasFiles(e)) return;
    e.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", (e) => {
    if (!e.relatedTarget) document.body.classList.remove("dropping");
  });
  document.addEventListener("drop", (e) => {
    if (!e.dataTransfer || !hasFiles(e)) return;
    e.preventDefault();
    document.body.classList.remove("dropping");
    use(read(e.dataTransfer.items));
  });
  function use(reading) {
    const mine = ++openings;
    const before = edits;
    reading.then(
      (d) => {
        if (mine !== openings) return;
        if (edits !== before) return say("The text has changed: open the files again.");
        if (d.crds === "" && d.objects === "") return say(d.problem || "The files have no documents.");
        missingOpened = d.problem;
        showMissing();
        if (d.crds !== "") state.crds = d.crds;
        if (d.objects !== "") state.object = d.objects;
        changed();
        show(state.view);
      },
      () => say("The files cannot be read.")
    );
  }
  var chooser = byId("chooser");
  byId("open").addEventListener("click", () => chooser.click());
  chooser.addEventListener("change", () => {
    if (chooser.files && chooser.files.length > 0) use(choose(chooser.files));
    chooser.value = "";
  });
  var kept = "Your changes are kept: reload the page to open the link again.";
  async function follow() {
    const mine = ++openings;
    const before = edits;
    try {
      const linked = await decode(location.hash);
      if (mine !== openings) return true;
      if (!linked) return false;
      history.replaceState(opened, "");
      if (edits !== before) {
        say(kept);
        return true;
      }
      missingOpened = "";
      showMissing();
      Object.assign(state, linked);
      edited = true;
      unsaved = false;
      picker.value = "";
      semantics.value = state.semantics;
      show(state.view);
      return true;
    } catch (e) {
      say(e instanceof Error ? e.message : String(e));
      return false;
    }
  }
  window.addEventListener("beforeunload", (e) => {
    if (unsaved) e.preventDefault();
  });
  semantics.value = state.semantics;
  window.addEventListener("hashchange", () => {
    if (readToken()) show(state.view);
    else if (location.hash.startsWith("#s=")) {
      if (unsaved && history.state === opened) say(kept);
      else void follow();
    }
  });
  readToken();
  fill(
    examples.map((e) => e.name),
    "Example"
  );
  void follow().then((linked) => {
    if (!linked) pick(0);
    if (hasCluster && !edited) show("cluster");
    if (native) watch2(take, say);
  });
})();
