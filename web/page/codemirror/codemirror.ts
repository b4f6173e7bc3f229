// The editor of the page with CodeMirror. The page uses it if this script is loaded before its own.

import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, codeFolding, foldGutter, foldKeymap, syntaxHighlighting } from "@codemirror/language";
import { forEachDiagnostic, linter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorSelection, EditorState, Prec, RangeSet, RangeSetBuilder, StateEffect, StateField, type Extension, type Transaction } from "@codemirror/state";
import {
  closeHoverTooltips,
  Decoration,
  drawSelection,
  dropCursor,
  EditorView,
  GutterMarker,
  gutterLineClass,
  hasHoverTooltips,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  hoverTooltip,
  keymap,
  lineNumbers,
  placeholder,
  showTooltip,
  type DecorationSet,
  type Tooltip,
} from "@codemirror/view";
import { aboutAt } from "../src/about";
import { append, h } from "../src/dom";
import type { Assistance, Editor, NewEditor } from "../src/editor";
import { markdown } from "../src/markdown";
import type { Finding, Item, Range } from "../src/protocol";
import { indentAfter, isTyping, maxText, notInserted, notShown, ranked } from "../src/text";
import { colors, theme } from "./theme";

const mark = StateEffect.define<Range | undefined>();
const describe = StateEffect.define<Tooltip | null>();

// marked highlights the range that was revealed last.
const marked = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(before, tr) {
    let now = tr.docChanged ? Decoration.none : before;
    for (const e of tr.effects) {
      if (!e.is(mark)) continue;
      const range = e.value;
      now = range && range.end > range.start ? Decoration.set(Decoration.mark({ class: "cm-marked" }).range(range.start, range.end)) : Decoration.none;
    }
    return now;
  },
  provide: (f) => EditorView.decorations.from(f),
});

// described is what the keyboard has asked for: hovering needs a mouse.
const described = StateField.define<Tooltip | null>({
  create: () => null,
  update(before, tr) {
    for (const e of tr.effects) if (e.is(describe)) return e.value;
    return tr.docChanged || tr.selection ? null : before;
  },
  provide: (f) => showTooltip.from(f),
});

class LineMarker extends GutterMarker {
  override elementClass: string;
  constructor(severity: string) {
    super();
    this.elementClass = "cm-line-" + severity;
  }
}
const lineMarkers = { info: new LineMarker("info"), warning: new LineMarker("warning"), error: new LineMarker("error") };
const severities = ["info", "warning", "error"] as const;

// lineClasses marks the numbers of lines with findings.
const lineClasses = StateField.define<RangeSet<GutterMarker>>({
  create: () => RangeSet.empty,
  update(before, tr) {
    if (tr.effects.length === 0) return tr.docChanged ? before.map(tr.changes) : before;
    const worst = new Map<number, number>();
    forEachDiagnostic(tr.state, (d, from) => {
      const line = tr.state.doc.lineAt(from).from;
      worst.set(line, Math.max(worst.get(line) ?? 0, severities.indexOf(d.severity as (typeof severities)[number])));
    });
    const builder = new RangeSetBuilder<GutterMarker>();
    for (const [line, severity] of [...worst].sort((a, b) => a[0] - b[0])) builder.add(line, line, lineMarkers[severities[severity] ?? "info"]);
    return builder.finish();
  },
  provide: (f) => gutterLineClass.from(f),
});

class CodeMirror implements Editor {
  readonly element: HTMLElement;
  private readonly view: EditorView;
  private readonly limit = h("p", { class: "limit", role: "status" });
  private shownHint = "";
  private findings: Finding[] = [];
  // asked is the last question about a place.
  private asked = new AbortController();
  // text is the last text that was read, and doc what it is the text of.
  private text = "";
  private doc: unknown;

  constructor(
    private readonly label: string,
    private readonly changed: () => void,
    private readonly assistance?: Assistance,
  ) {
    const host = h("div", { class: "host" });
    this.element = h("div", { class: "editor" }, host, this.limit);
    // In a shadow root, CodeMirror adopts style sheets: the content security policy allows no style elements.
    const root = host.attachShadow({ mode: "open" });
    this.view = new EditorView({ parent: root, root, state: this.state("", "") });
  }

  private state(doc: string, hint: string): EditorState {
    const extensions: Extension[] = [
      lineNumbers(),
      highlightActiveLineGutter(),
      foldGutter({ openText: "▾", closedText: "▸" }),
      highlightSpecialChars(),
      history(),
      drawSelection(),
      dropCursor(),
      EditorState.allowMultipleSelections.of(true),
      codeFolding(),
      yaml(),
      syntaxHighlighting(colors),
      bracketMatching(),
      closeBrackets(),
      highlightActiveLine(),
      highlightSelectionMatches(),
      search({ top: true }),
      // Findings are shown together with the documentation of the field.
      linter(null, { tooltipFilter: () => [] }),
      lineClasses,
      marked,
      described,
      hoverTooltip(async (_, pos) => (await this.about(pos))?.tooltip ?? null, { hoverTime: 350 }),
      // CodeMirror shows what comes after the mouse has left.
      EditorView.domEventHandlers({ mouseleave: () => this.asked.abort() }),
      placeholder(hint),
      EditorView.contentAttributes.of({ "aria-label": this.label, tabindex: "0", spellcheck: "false", autocapitalize: "off" }),
      EditorState.transactionFilter.of((tr) => this.limited(tr)),
      EditorView.updateListener.of((u) => {
        if (u.docChanged) this.changed();
      }),
      autocompletion({ override: this.assistance ? [(c) => this.complete(c)] : [], icons: false, optionClass: (c) => (c.type === "deprecated" ? "cm-deprecated" : "") }),
      Prec.high(keymap.of([
        // Without completions, Tab leaves the editor.
        { key: "Tab", run: acceptCompletion },
        { key: "Ctrl-Shift-Space", run: () => this.describe() },
        { key: "Escape", run: (v) => (v.state.field(described) !== null || hasHoverTooltips(v.state)) && (v.dispatch({ effects: [describe.of(null), closeHoverTooltips] }), true) },
        { key: "Enter", run: (v) => this.newline(v) },
      ])),
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...completionKeymap]),
      theme,
    ];
    return EditorState.create({ doc, extensions });
  }

  set hint(text: string) {
    this.shownHint = text;
    this.view.setState(this.state(this.value, text));
  }

  get value(): string {
    return this.textOf(this.view.state);
  }

  private textOf({ doc }: EditorState): string {
    if (doc !== this.doc) {
      this.doc = doc;
      this.text = doc.toString();
    }
    return this.text;
  }

  set(text: string): void {
    if (text === this.value) return;
    this.findings = [];
    this.limit.textContent = text.length > maxText ? notShown : "";
    // The history of another text must not change this one.
    this.view.setState(this.state(text.slice(0, maxText), this.shownHint));
    this.view.scrollDOM.scrollTop = 0;
  }

  show(findings: Finding[]): void {
    this.findings = findings.filter((f) => f.range);
    const size = this.view.state.doc.length;
    const diagnostics: Diagnostic[] = [];
    for (const f of this.findings) {
      const range = f.range;
      if (range && range.start <= size) diagnostics.push({ from: range.start, to: Math.min(size, Math.max(range.end, range.start + 1)), severity: f.severity, message: f.message });
    }
    this.view.dispatch(setDiagnostics(this.view.state, diagnostics));
  }

  reveal(range: Range): void {
    const size = this.view.state.doc.length;
    const start = Math.min(range.start, size);
    const end = Math.min(range.end, size);
    this.view.dispatch({
      selection: EditorSelection.range(start, end),
      effects: [mark.of({ ...range, start, end }), EditorView.scrollIntoView(start, { y: "center" })],
    });
    this.view.focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  edit(start: number, end: number, text: string): void {
    this.view.dispatch({ changes: { from: start, to: end, insert: text }, selection: EditorSelection.cursor(start + text.length), scrollIntoView: true, userEvent: "input" });
    this.view.focus();
  }

  // limited drops changes that make the text too large.
  private limited(tr: Transaction): Transaction | [] {
    if (!tr.docChanged) return tr;
    const isLarge = tr.newDoc.length > maxText;
    this.limit.textContent = isLarge ? notInserted : "";
    return isLarge ? [] : tr;
  }

  private newline(view: EditorView): boolean {
    const { from, to, empty } = view.state.selection.main;
    if (view.state.selection.ranges.length > 1) return false;
    const before = view.state.sliceDoc(view.state.doc.lineAt(from).from, from);
    const insert = "\n" + indentAfter(before);
    view.dispatch({ changes: { from, to: empty ? from : to, insert }, selection: EditorSelection.cursor(from + insert.length), scrollIntoView: true, userEvent: "input" });
    return true;
  }

  private async complete(context: CompletionContext): Promise<CompletionResult | null> {
    const offset = context.pos;
    const line = context.state.doc.lineAt(offset);
    if (!this.assistance || (!context.explicit && !isTyping(line.text.slice(0, offset - line.from)))) return null;
    const controller = new AbortController();
    context.addEventListener("abort", () => controller.abort(), { onDocChange: true });
    const text = this.value;
    let items: Item[];
    try {
      items = await this.assistance.complete(text, offset, controller.signal);
    } catch {
      return null; // it was canceled, or there is nothing to complete
    }
    const first = ranked(items, text, offset)[0];
    if (!first) return null;
    const from = Math.max(line.from, Math.min(first.start, offset));
    const all = items.map((item) => ({ ...item, option: this.option(item, from, offset) }));
    // The order is that of the plain editor.
    const options = (moved: number, typed: number, state: EditorState, at: number) =>
      ranked(all.map((i) => ({ ...i, start: i.start + moved, end: i.end + typed })), this.textOf(state), at).map((i) => i.option);
    return {
      from,
      filter: false,
      options: options(0, 0, context.state, offset),
      // The completions follow what is typed, as those of the plain editor: without this, they would be disabled
      // until the next ones are there, and Enter would insert a new line.
      update: (current, start, _end, { state, pos }) => {
        const next = /[\w-]/.test(state.sliceDoc(pos - 1, pos)) ? options(start - from, pos - offset, state, pos) : [];
        return next.length > 0 ? { ...current, from: start, options: next } : null;
      },
    };
  }

  // option returns the completion of an item that was asked for at an offset, with what is typed after from.
  private option(item: Item, from: number, offset: number): Completion {
    const documentation = item.documentation;
    return {
      label: item.label,
      type: item.deprecated ? "deprecated" : "",
      ...(item.detail ? { detail: item.detail } : {}),
      ...(documentation ? { info: () => markdown(documentation) } : {}),
      apply: (view, _completion, at, to) => {
        const start = item.start + at - from;
        view.dispatch({
          changes: { from: start, to: Math.max(item.end + to - offset, view.state.selection.main.head), insert: item.insert },
          selection: EditorSelection.cursor(start + item.insert.length),
          userEvent: "input.complete",
        });
      },
    };
  }

  // about returns what is known at an offset: a tooltip, which is there while the mouse is in that part, and
  // its text.
  private async about(offset: number): Promise<{ tooltip: Tooltip; text: string } | undefined> {
    this.asked.abort();
    this.asked = new AbortController();
    const text = this.value;
    const about = await aboutAt(this.findings, this.assistance, text, offset, this.asked.signal);
    if (this.value !== text || !about) return undefined;
    const dom = h("div", { class: "cm-about" });
    append(dom, ...about.content);
    return { tooltip: { pos: about.start, end: about.end, above: true, create: () => ({ dom }) }, text: dom.textContent ?? "" };
  }

  private describe(): boolean {
    void this.about(this.view.state.selection.main.head).then((found) => this.view.dispatch({ effects: found ? [describe.of(found.tooltip), EditorView.announce.of(found.text)] : describe.of(null) }));
    return true;
  }
}

const create: NewEditor = (label, changed, assistance) => new CodeMirror(label, changed, assistance);
(globalThis as { espalierEditor?: NewEditor }).espalierEditor = create;
