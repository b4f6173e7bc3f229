// Asks `espalier ui` again and again for what may change.

import { tokenHeader } from "./token";

const interval = 1500;

// poll calls changed with the answer now, and whenever it changes. It asks only while the page is visible.
// failed is called when something else is wrong than before: a screen reader would repeat a message.
export function poll<T>(path: string, changed: (answer: T) => void, failed: (message: string) => void): void {
  let tag = "";
  // rejected is the token that espalier ui has rejected. It is asked again with another one only.
  let rejected: string | undefined;
  let problem = "";
  const fail = (message: string) => {
    if (message !== problem) failed(message);
    problem = message;
  };
  let ask: () => Promise<void>;
  const again = () => window.setTimeout(() => void ask(), interval);
  ask = async () => {
    const headers = tokenHeader();
    const token = JSON.stringify(headers);
    if (document.hidden || token === rejected) return void again();
    if (rejected !== undefined) problem = "";
    rejected = undefined;
    let next: { tag: string; answer: T } | undefined;
    try {
      const response = await fetch(path, { headers: { ...headers, ...(tag === "" ? {} : { "If-None-Match": tag }) }, cache: "no-store" });
      if (response.status === 204) return; // there is nothing to follow
      if (response.status === 200) next = { tag: response.headers.get("ETag") ?? "", answer: (await response.json()) as T };
      if (response.status === 200 || response.status === 304) problem = "";
      else {
        fail(`espalier ui answers ${response.status}: open the link that it has printed`);
        if (response.status === 401 || response.status === 403) rejected = token;
      }
    } catch {
      fail("espalier ui does not answer: is it still running?");
    }
    again();
    if (!next) return;
    changed(next.answer);
    // An answer that could not be read or shown is asked for again.
    tag = next.tag;
  };
  void ask();
}
