// The files of the directory that `espalier ui` serves.

import { poll } from "./poll";

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

// watch calls changed with the files now, and whenever they change.
export function watch(changed: (files: Files) => void, failed: (message: string) => void): void {
  poll("api/workspace", changed, failed);
}
