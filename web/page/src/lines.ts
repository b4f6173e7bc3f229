// Lines of YAML that lead somewhere.

// roving makes a list of lines one tab stop: the arrow keys, Home and End move between the parts of it that
// can have the focus.
export function roving(list: HTMLElement): HTMLElement {
  const stops = () => [...list.querySelectorAll<HTMLElement>("[tabindex]")];
  let current = stops()[0];
  // A list without such parts can still be scrolled with the keyboard.
  (current ?? list).tabIndex = 0;
  list.addEventListener("focusin", (e) => {
    if (!current || e.target === list) return;
    current.tabIndex = -1;
    current = e.target as HTMLElement;
    current.tabIndex = 0;
  });
  list.addEventListener("keydown", (e) => {
    const all = stops();
    const at = all.indexOf(e.target as HTMLElement);
    const next = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: all.length - 1 }[e.key];
    if (at < 0 || next === undefined) return;
    e.preventDefault();
    all[next]?.focus();
  });
  return list;
}
