// The code editor of the page: an interface with two implementations, a plain one of ours and CodeMirror.

import { PlainEditor } from "./plain";
import type { Finding, Item, Range } from "./protocol";

export interface Editor {
  readonly element: HTMLElement;
  readonly value: string;
  // hint is shown while there is no text.
  hint: string;
  // set replaces the text without telling the page.
  set(text: string): void;
  // show underlines findings.
  show(findings: Finding[]): void;
  // reveal selects a range and scrolls to it.
  reveal(range: Range): void;
  // edit replaces a part of the text, so that undo brings it back.
  edit(start: number, end: number, text: string): void;
}

export interface Assistance {
  complete(text: string, offset: number, signal: AbortSignal): Promise<Item[]>;
  hover(text: string, offset: number, signal: AbortSignal): Promise<{ markdown: string; range?: Range }>;
}

// NewEditor makes an editor. changed is called when the user changes the text.
export type NewEditor = (label: string, changed: () => void, assistance?: Assistance) => Editor;

// newEditor makes an editor with CodeMirror if its script is there, otherwise a plain one.
export const newEditor: NewEditor = (label, changed, assistance) => {
  const other = (globalThis as { espalierEditor?: NewEditor }).espalierEditor;
  return other ? other(label, changed, assistance) : new PlainEditor(label, changed, assistance);
};
