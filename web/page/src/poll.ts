// Asks `espalier ui` again and again for what may change.

import { tokenHeader } from "./token";

const interval = 1500;

// poll calls changed with the answer now, and whenever it changes. It asks only while the page is visible.
export function poll<T>(path: string, changed: (answer: T) => void, failed: (message: string) => void): void {
  let tag = "";
  // rejected is the token that espalier ui has rejected, and why what the page says about it.
  let rejected: string | undefined;
  let why = "";
  let ask: () => Promise<void>;
  const again = () => window.setTimeout(() => void ask(), interval);
  ask = async () => {
    if (document.hidden) return void again();
    const headers = tokenHeader();
    const token = JSON.stringify(headers);
    if (token === rejected) {
      failed(why);
      return void again();
    }
    try {
      const response = await fetch(path, { headers: { ...headers, ...(tag === "" ? {} : { "If-None-Match": tag }) }, cache: "no-store" });
      if (response.status === 204) return; // there is nothing to follow
      if (response.status === 200) {
        tag = response.headers.get("ETag") ?? "";
        changed((await response.json()) as T);
      } else if (response.status !== 304) {
        failed((why = `espalier ui answers ${response.status}: open the link that it has printed`));
        // It is asked again with another token only.
        if (response.status === 401 || response.status === 403) rejected = token;
      }
    } catch {
      failed("espalier ui does not answer: is it still running?");
    }
    again();
  };
  void ask();
}
