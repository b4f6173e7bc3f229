// Creates elements. Nothing in the page is made from markup: text is always text.

export type Child = Node | string | undefined | false;

export interface Attributes {
  class?: string | undefined;
  title?: string | undefined;
  type?: string;
  role?: string;
  for?: string;
  id?: string;
  href?: string;
  value?: string;
  label?: string;
  hidden?: boolean;
  tabindex?: number;
  onclick?: (e: MouseEvent) => void;
  [aria: `aria-${string}`]: string | boolean | undefined;
  [data: `data-${string}`]: string | undefined;
}

// h creates an element.
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name === "onclick") element.addEventListener("click", value as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, ...children);
  return element;
}

export function append(parent: Node, ...children: Child[]): void {
  for (const child of children) {
    if (child === undefined || child === false) continue;
    parent.appendChild(typeof child === "string" ? document.createTextNode(child) : child);
  }
}

// replace replaces the content of an element.
export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, ...children);
}

// arrange makes nodes the children of an element. Those that are its children already stay where they are
// as far as possible: an element that is removed loses the focus, and a click that has begun.
export function arrange(parent: Element, ...nodes: (Node | undefined | false)[]): void {
  const wanted = nodes.filter((n) => n instanceof Node);
  const kept = new Set<Node>(wanted);
  for (const child of [...parent.childNodes]) if (!kept.has(child)) child.remove();
  let at = parent.firstChild;
  for (const node of wanted) {
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
  }
}

// setText changes the text of an element if it is another one.
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

// byId returns an element of the page.
export function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (!element) throw new Error("no element " + id);
  return element;
}

// copy copies a text.
export async function copy(text: string): Promise<void> {
  try {
    return await navigator.clipboard.writeText(text);
  } catch {
    // Pages that come over plain http have no clipboard: it is undefined.
  }
  const focused = document.activeElement;
  const area = h("textarea");
  area.value = "copy"; // something must be selected
  document.body.appendChild(area);
  area.select();
  const set = (e: ClipboardEvent) => {
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

// copyButton returns a button that copies a text.
export function copyButton(text: () => string): HTMLButtonElement {
  const button = h("button", { type: "button", class: "quiet" }, "Copy");
  button.addEventListener("click", () => {
    copy(text()).then(
      () => flash(button, "Copied"),
      () => flash(button, "Cannot copy"),
    );
  });
  return button;
}

// flashing has the timers of buttons that show a message, with their own texts.
const flashing = new WeakMap<HTMLElement, { timer: number; text: string }>();

// flash shows a message on a button for a moment.
export function flash(button: HTMLElement, message: string): void {
  const before = flashing.get(button);
  window.clearTimeout(before?.timer);
  const text = before?.text ?? button.textContent ?? "";
  button.textContent = message;
  const timer = window.setTimeout(() => {
    flashing.delete(button);
    button.textContent = text;
  }, 1500);
  flashing.set(button, { timer, text });
}

// plural returns a number with its noun.
export function plural(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

let ids = 0;

// newId returns an ID that no other element has.
export function newId(): string {
  return "e" + ++ids;
}
