// Puts the page together.

import { Cluster } from "./cluster";
import { Compare } from "./compare";
import type { Context, View } from "./context";
import { byId, copy, flash, h, replace, setText } from "./dom";
import { choose, read, type Dropped } from "./drop";
import { NativeEngine, StagedEngine, type Engine } from "./engine";
import { examples } from "./examples";
import { Explorer } from "./explorer";
import { Lint } from "./lint";
import { Playground } from "./playground";
import type { Semantics } from "./protocol";
import { decode, encode, initial, type State } from "./state";
import { readToken } from "./token";
import { watch, type Files } from "./workspace";

function meta(name: string): string | undefined {
  return document.querySelector<HTMLMetaElement>(`meta[name=espalier-${name}]`)?.content;
}

const native = meta("engine") === "native";
const hasCluster = meta("cluster") === "yes";
const state: State = { ...initial, semantics: meta("semantics") === "kubernetes" ? "kubernetes" : "kep" };

// edited is set if the state is not that of the option that is chosen. unsaved is set if neither an option
// nor a link has it.
let edited = false;
let unsaved = false;
// edits counts the changes of the user, and openings what the user has opened. What is read while there is
// another one does not replace it.
let edits = 0;
let openings = 0;
// current is the view that is shown. It is empty before the first one.
let current = "";
let timer: number | undefined;
const message = byId("message");
const missing = byId("missing");
const picker = byId("picker") as HTMLSelectElement;

function say(text: string): void {
  message.textContent = text;
  window.clearTimeout(timer);
  timer = window.setTimeout(() => (message.textContent = ""), 8000);
}

// missingOpened is what the files that the user has opened lack. Unlike a message, it is shown as long as they are.
let missingOpened = "";

function showMissing(): void {
  setText(missing, [missingOpened, files?.problem].filter(Boolean).join("; "));
}

let engine: Engine;
if (native) {
  engine = new NativeEngine();
} else {
  const loading = byId("loading");
  loading.hidden = false;
  let first = true;
  engine = new StagedEngine((stage, problem) => {
    loading.hidden = stage !== "small" || problem !== undefined;
    loading.textContent = "Loading CEL rules and built-in kinds…";
    if (problem !== undefined) say(problem);
    // A request that has ended the engine is not repeated: it would end the next one.
    if ((stage === "complete" && first) || ((stage === "complete" || problem !== undefined) && shown[current]?.partial)) show(current);
    if (stage === "complete") first = false;
  });
}

// changed tells that the user has changed the state. No option is chosen then, so that each can be.
function changed(): void {
  edited = unsaved = true;
  edits++;
  picker.value = "";
}

const context: Context = {
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
  say,
};

const explorer = new Explorer(context);
const shown: Record<string, View> = {
  playground: new Playground(context),
  explorer,
  compare: new Compare(context),
  lint: new Lint(context),
};
if (hasCluster) {
  shown["cluster"] = new Cluster(context);
  byId("nav-cluster").hidden = false;
}
const names = Object.keys(shown);

function show(view: string): void {
  if (view !== current) shown[current]?.leave?.();
  // Editors have lines that end with a line feed, and positions must be theirs.
  for (const key of ["crds", "object", "old", "before"] as const) state[key] = state[key].replace(/\r\n?/g, "\n");
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

// The semantics.
const semantics = byId("semantics") as HTMLSelectElement;
semantics.addEventListener("change", () => {
  state.semantics = semantics.value as Semantics;
  show(state.view);
});

// Examples, or the files of a directory.
let files: Files | undefined;

function pick(index: number): void {
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
    state.update = e.old !== undefined;
    state.before = e.before ?? "";
  }
  edited = unsaved = false;
  missingOpened = "";
  showMissing();
  show(state.view);
}

function joined(texts: string[]): string {
  return texts.filter((t) => t !== "").join("---\n");
}

picker.addEventListener("change", () => {
  openings++;
  pick(picker.selectedIndex - 1);
});

// fill fills the picker. Its first option is that nothing is chosen.
function fill(options: string[], label: string): void {
  replace(picker, h("option", { value: "", hidden: true }, `Choose an ${label.toLowerCase()}…`), ...options.map((o) => h("option", {}, o)));
  picker.setAttribute("aria-label", label);
}

function take(found: Files): void {
  const first = files === undefined;
  const before = picker.value;
  files = found;
  const names = found.files.filter((f) => f.objects !== "").map((f) => f.name);
  fill(names.length > 0 ? names : ["no objects in " + found.root], "Object of the directory");
  showMissing();
  if (!edited) pick(Math.max(0, names.indexOf(before)));
  else if (!first) say("The files have changed: choose one to load it again.");
}

// Links. opened marks the entries of the history whose links were opened or made in this tab.
const opened = "opened";
const share = byId("share");
share.addEventListener("click", () => {
  const shared = edits;
  encode(state).then(
    async (fragment) => {
      history.replaceState(opened, "", fragment);
      if (edits === shared) unsaved = false;
      if (native) say("This link works on this machine only, in a tab with the link that espalier ui has printed.");
      try {
        await copy(location.href);
        flash(share, "Link copied");
      } catch {
        flash(share, "Link in address bar");
      }
    },
    (e: unknown) => say(e instanceof Error ? e.message : String(e)),
  );
});

// Light and dark.
const theme = byId("theme");
const themes = ["auto", "light", "dark"];
function setTheme(name: string): void {
  document.documentElement.dataset["theme"] = name;
  theme.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[name] ?? name;
  theme.setAttribute("aria-label", "Color theme: " + name);
}
function storedTheme(): string {
  try {
    const name = localStorage.getItem("theme") ?? "auto";
    return themes.includes(name) ? name : "auto";
  } catch {
    return "auto"; // storage may be blocked
  }
}
setTheme(storedTheme());
theme.addEventListener("click", () => {
  const next = themes[(themes.indexOf(document.documentElement.dataset["theme"] ?? "auto") + 1) % themes.length] ?? "auto";
  setTheme(next);
  try {
    localStorage.setItem("theme", next);
  } catch {
    // the theme holds until the page is closed
  }
});

// Files that are dropped anywhere. Text can be dragged to an editor, or within it.
const hasFiles = (e: DragEvent) => e.dataTransfer?.types.includes("Files") ?? false;
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

// use shows the documents of files.
function use(reading: Promise<Dropped>): void {
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
    () => say("The files cannot be read."),
  );
}

const chooser = byId("chooser") as HTMLInputElement;
byId("open").addEventListener("click", () => chooser.click());
chooser.addEventListener("change", () => {
  if (chooser.files && chooser.files.length > 0) use(choose(chooser.files));
  chooser.value = ""; // the same files can be chosen again
});

// kept is the message about a link that was not opened.
const kept = "Your changes are kept: reload the page to open the link again.";

// follow shows what the link in the address bar has. It reports whether there is one.
async function follow(): Promise<boolean> {
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

// The browser asks before a reload, or the way to another page, discards what was typed.
window.addEventListener("beforeunload", (e) => {
  if (unsaved) e.preventDefault();
});

semantics.value = state.semantics;
// Other fragments, such as that of the link to the content, change nothing: the user may have typed.
window.addEventListener("hashchange", () => {
  if (readToken()) show(state.view);
  else if (location.hash.startsWith("#s=")) {
    // The way back to a link must not discard what was typed since. A link that was pasted is meant.
    if (unsaved && history.state === opened) say(kept);
    else void follow();
  }
});
readToken();
fill(
  examples.map((e) => e.name),
  "Example",
);
void follow().then((linked) => {
  if (!linked) pick(0);
  if (hasCluster && !edited) show("cluster");
  if (native) watch(take, say);
});
