// The files of the directory that `espalier ui` serves.

import { tokenHeader } from "./token";

export interface WorkspaceFile {
  name: string;
  crds: string;
  objects: string;
}

export interface Files {
  root: string;
  files: WorkspaceFile[];
  // problem says what was left out, or is empty.
  problem: string;
}

const interval = 1500;

// watch calls changed with the files now, and whenever they change. It asks only while the page is
// visible.
export function watch(changed: (files: Files) => void, failed: (message: string) => void): void {
  let tag = "";
  let ask: () => Promise<void>;
  const again = () => window.setTimeout(() => void ask(), interval);
  ask = async () => {
    if (document.hidden) return void again();
    try {
      const response = await fetch("api/workspace", { headers: { ...tokenHeader(), ...(tag === "" ? {} : { "If-None-Match": tag }) }, cache: "no-store" });
      if (response.status === 204) return; // it serves no directory
      if (response.status === 200) {
        tag = response.headers.get("ETag") ?? "";
        changed((await response.json()) as Files);
      } else if (response.status !== 304) failed(`espalier ui answers ${response.status}: open the link that it has printed`);
    } catch {
      failed("espalier ui does not answer: is it still running?");
    }
    again();
  };
  void ask();
}
