// What the views share.

import type { Engine } from "./engine";
import type { Assistance, Editor } from "./editor";
import type { Fix } from "./protocol";
import type { State } from "./state";

// SchemaTarget is a part of a schema: path is that of a place of the protocol.
export interface SchemaTarget {
  apiVersion: string;
  kind: string;
  path: string;
}

export interface Context {
  engine: Engine;
  state: State;
  // changed tells the page that a view has changed the state.
  changed(): void;
  // open shows another state.
  open(state: Partial<State>): void;
  // explore shows a part of a schema in the explorer.
  explore(target: SchemaTarget): void;
  // say shows a message for a while.
  say(message: string): void;
}

// View is a part of the page. It shows the state when it is refreshed.
export interface View {
  element: HTMLElement;
  // partial is set while the view shows an answer without rules.
  partial?: boolean;
  refresh(): void;
  // leave is called when another view is shown.
  leave?(): void;
}

// assistance returns completion and documentation for a text.
export function assistance(c: Context): Assistance {
  return {
    async complete(text, offset, signal) {
      return (await c.engine.ask("complete", { crds: c.state.crds, text, offset, semantics: c.state.semantics }, signal)).items;
    },
    hover(text, offset, signal) {
      return c.engine.ask("hover", { crds: c.state.crds, text, offset, semantics: c.state.semantics }, signal);
    },
  };
}

// isShown reports whether the view of an editor is shown. The text of another one is not the state, and an
// edit of it would take the focus.
export function isShown(editor: Editor): boolean {
  return editor.element.offsetParent !== null;
}

// applyFix changes the text of an editor, if it is still the text that the fix is for.
export function applyFix(c: Context, editor: Editor, text: string, fix: Fix): void {
  const changed = () => c.say("The text has changed: choose the fix again.");
  if (editor.value !== text) return changed();
  // The next keystroke cancels it.
  const controller = new AbortController();
  const abort = () => controller.abort();
  editor.element.addEventListener("keydown", abort, { once: true });
  c.engine
    .ask("apply", { text, fix }, controller.signal)
    .then(
      (a) => {
        if (!isShown(editor)) c.say("The fix was not applied: another view is shown.");
        else if (editor.value !== text) changed();
        else editor.edit(a.start, a.end, a.text);
      },
      (e: unknown) => (controller.signal.aborted ? changed() : c.say(e instanceof Error ? e.message : String(e))),
    )
    .finally(() => editor.element.removeEventListener("keydown", abort));
}
