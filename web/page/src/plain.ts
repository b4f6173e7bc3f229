// A plain code editor: a textarea for input, with the highlighted lines that are visible behind it.

import { aboutAt, type About } from "./about";
import { h, newId, replace } from "./dom";
import { highlight, type Token } from "./highlight";
import { markdown } from "./markdown";
import type { Assistance, Editor } from "./editor";
import type { Finding, Item, Range } from "./protocol";
import { indentAfter, isTyping, maxText, notInserted, notShown, ranked } from "./text";

const lineHeight = 20;
const maxShown = 12;

export class PlainEditor implements Editor {
  readonly element: HTMLElement;
  private readonly area: HTMLTextAreaElement;
  private readonly back: HTMLElement;
  private readonly gutter: HTMLElement;
  private readonly popup: HTMLElement;
  private readonly tip: HTMLElement;
  private readonly limit = h("p", { class: "limit", role: "status" });
  // text is the value of the textarea, which takes a while to read if it is large.
  private text = "";
  private starts: number[] = [0];
  private findings: Finding[] = [];
  private marked: Range | undefined;
  private items: Item[] = [];
  private selected = 0;
  private asked: AbortController | undefined;
  // about is what the tip shows. hovered is what is asked for it.
  private about: About | undefined;
  private hovered: AbortController | undefined;
  private hoverTimer: number | undefined;
  private characterWidth = 0;
  private frame = 0;

  constructor(
    label: string,
    private readonly changed: () => void,
    private readonly assistance?: Assistance,
  ) {
    const popupId = newId();
    this.area = h("textarea", {
      "aria-label": label,
      "aria-autocomplete": "list",
      "aria-controls": popupId,
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
      // The browser would lay out the text before it does anything else.
      if (this.area.value.length > maxText) {
        this.area.value = this.text;
        this.limit.textContent = notInserted;
        return;
      }
      const before = this.text;
      this.index();
      this.moveItems(this.text.length - before.length);
      this.marked = undefined;
      this.draw();
      this.changed();
      const typed = (e as InputEvent).inputType;
      if (typed === "insertText" || (typed === "deleteContentBackward" && !this.popup.hidden)) this.complete(false);
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

  set hint(text: string) {
    this.area.placeholder = text;
  }

  get value(): string {
    return this.text;
  }

  set(text: string): void {
    if (text === this.text) return;
    this.area.value = text.slice(0, maxText);
    this.limit.textContent = text.length > maxText ? notShown : "";
    this.area.scrollTop = 0;
    this.findings = [];
    this.marked = undefined;
    this.closePopup();
    this.index();
    this.draw();
  }

  show(findings: Finding[]): void {
    this.findings = findings.filter((f) => f.range);
    this.draw();
  }

  reveal(range: Range): void {
    this.marked = range;
    this.area.focus({ preventScroll: true });
    this.area.setSelectionRange(range.start, range.end);
    this.area.scrollTop = Math.max(0, (range.line - 1) * lineHeight - this.area.clientHeight / 3);
    this.area.scrollLeft = 0;
    this.element.scrollIntoView({ block: "nearest" });
    this.draw();
  }

  edit(start: number, end: number, text: string): void {
    this.area.focus({ preventScroll: true });
    this.area.setSelectionRange(start, end);
    // It is deprecated, but nothing else keeps the history of the textarea. It edits what has the focus, which
    // a textarea that is not shown cannot have.
    const done = document.activeElement === this.area && (text === "" ? document.execCommand("delete") : document.execCommand("insertText", false, text));
    if (!done || this.area.value.slice(start, start + text.length) !== text) {
      this.area.setRangeText(text, start, end, "end");
    }
    this.index();
    this.draw();
    this.changed();
  }

  private index(): void {
    this.hideTip();
    const text = (this.text = this.area.value);
    this.starts = [0];
    for (let i = text.indexOf("\n"); i >= 0; i = text.indexOf("\n", i + 1)) this.starts.push(i + 1);
  }

  private lineOf(offset: number): number {
    let low = 0;
    let high = this.starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  private lineText(i: number): string {
    const start = this.starts[i] ?? 0;
    const next = this.starts[i + 1];
    return this.text.slice(start, next === undefined ? undefined : next - 1);
  }

  // draw shows the visible lines.
  private draw(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  private paint(): void {
    const top = this.area.scrollTop;
    const first = Math.max(0, Math.floor(top / lineHeight) - 2);
    const last = Math.min(this.starts.length, first + Math.ceil(this.area.clientHeight / lineHeight) + 5);
    const lines: HTMLElement[] = [];
    const numbers: HTMLElement[] = [];
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

  private worstOn(line: number): string {
    let worst = "";
    for (const f of this.findings) {
      if (f.range?.line !== line + 1) continue;
      if (f.severity === "error") return "error";
      if (f.severity === "warning" || worst === "") worst = f.severity;
    }
    return worst;
  }

  private line(i: number): HTMLElement {
    const start = this.starts[i] ?? 0;
    const text = this.lineText(i);
    const shown = text.length > 4000 ? text.slice(0, 4000) : text;
    const spans: Token[] = highlight(shown);
    const edges = new Set([0, shown.length]);
    for (const s of spans) edges.add(s.start).add(s.end);
    const over: Token[] = [];
    const mark = (range: Range | undefined, name: string) => {
      if (!range || range.end < start || range.start > start + shown.length) return;
      const from = Math.max(0, range.start - start);
      const to = Math.min(shown.length, Math.max(range.end - start, from + 1));
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
      element.appendChild(classes.length ? h("span", { class: classes.join(" ") }, shown.slice(from, to)) : document.createTextNode(shown.slice(from, to)));
    }
    return element;
  }

  private key(e: KeyboardEvent): void {
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
          this.closePopup(); // the completions are for another place
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
  private moveItems(by: number): void {
    if (this.popup.hidden) return;
    const label = this.items[this.selected]?.label;
    const moved = this.items.map((i) => ({ ...i, end: i.end + by }));
    this.items = ranked(moved.filter((i) => i.end >= i.start), this.text, this.area.selectionStart);
    this.selected = Math.max(0, this.items.findIndex((i) => i.label === label));
    this.drawPopup();
  }

  private complete(always: boolean): void {
    if (!this.assistance) return;
    const offset = this.area.selectionStart;
    if (offset !== this.area.selectionEnd) return;
    if (!always && !isTyping(this.text.slice(this.starts[this.lineOf(offset)] ?? 0, offset))) return this.closePopup();
    this.asked?.abort();
    const controller = (this.asked = new AbortController());
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
      },
    );
  }

  private drawPopup(): void {
    if (this.items.length === 0) return this.closePopup();
    const first = Math.min(Math.max(0, this.selected - maxShown + 3), Math.max(0, this.items.length - maxShown));
    const rows = this.items.slice(first, first + maxShown).map((item, i) => {
      const index = first + i;
      const row = h(
        "div",
        { class: "option" + (item.deprecated ? " deprecated" : ""), role: "option", id: this.popup.id + "-" + index, "aria-selected": index === this.selected ? "true" : "false" },
        h("span", { class: "label" }, item.label),
        h("span", { class: "detail" }, item.detail ?? ""),
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

  private accept(index: number): void {
    const item = this.items[index];
    this.closePopup();
    if (item) this.edit(item.start, item.end, item.insert);
  }

  private closePopup(): void {
    this.asked?.abort();
    this.popup.hidden = true;
    this.area.removeAttribute("aria-activedescendant");
  }

  private width(): number {
    if (!this.characterWidth) {
      const probe = h("span", { class: "line" }, "0".repeat(100));
      this.back.appendChild(probe);
      this.characterWidth = probe.getBoundingClientRect().width / 100 || 8;
      probe.remove();
    }
    return this.characterWidth;
  }

  // place puts an element below an offset, or above it if there is more room.
  private place(element: HTMLElement, offset: number): void {
    const line = this.lineOf(offset);
    const x = this.area.offsetLeft + this.gutter.offsetWidth + 8 + (offset - (this.starts[line] ?? 0)) * this.width() - this.area.scrollLeft;
    const y = line * lineHeight - this.area.scrollTop + 6;
    element.style.left = Math.max(4, Math.min(x, this.element.clientWidth - element.offsetWidth - 8)) + "px";
    const below = y + lineHeight + 2;
    const above = y - element.offsetHeight - 2;
    const box = this.element.getBoundingClientRect();
    element.style.top = (box.top + below + element.offsetHeight > window.innerHeight && box.top + above > 0 ? above : below) + "px";
  }

  private move(e: MouseEvent): void {
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
  private async describe(offset: number): Promise<void> {
    this.hideTip();
    const asked = (this.hovered = new AbortController());
    const about = await aboutAt(this.findings, this.assistance, this.text, offset, asked.signal);
    if (asked.signal.aborted || !about) return;
    this.about = about;
    replace(this.tip, ...about.content);
    this.tip.hidden = false;
    this.area.setAttribute("aria-describedby", this.tip.id);
    this.place(this.tip, about.start);
  }

  private hideTip(): void {
    window.clearTimeout(this.hoverTimer);
    this.hovered?.abort();
    this.about = undefined;
    this.tip.hidden = true;
    this.area.removeAttribute("aria-describedby");
  }
}
