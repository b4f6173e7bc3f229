// Files and folders that are dropped on the page, or chosen.

const maxFiles = 200;
const maxDepth = 8;
const maxSize = 4 << 20;

// Dropped has the documents of files: CRDs, and all others.
export interface Dropped {
  crds: string;
  objects: string;
  // problem is what was left out, or empty.
  problem: string;
}

export async function read(items: DataTransferItemList): Promise<Dropped> {
  const out: Collected = { files: [], problems: new Set() };
  // The list is empty after the first pause, so all entries are taken now.
  const entries = [...items].map((i) => i.webkitGetAsEntry()).filter((e): e is FileSystemEntry => e !== null);
  for (const entry of entries) await collect(entry, out, 0);
  return split(out);
}

// choose reads files that the user has chosen.
export function choose(files: FileList): Promise<Dropped> {
  const out: Collected = { files: [], problems: new Set() };
  for (const file of files) add(file, out);
  return split(out);
}

// Collected are files, and what was left out.
interface Collected {
  files: File[];
  problems: Set<string>;
}

function add(file: File, out: Collected): void {
  if (out.files.length < maxFiles) out.files.push(file);
  else out.problems.add(`only the first ${maxFiles} files were read, up to ${out.files[maxFiles - 1]?.name}`);
}

async function collect(entry: FileSystemEntry, out: Collected, depth: number): Promise<void> {
  if (out.problems.size > 0 && out.files.length === maxFiles) return;
  if (entry.isFile) {
    if (/\.(ya?ml|json)$/i.test(entry.name)) add(await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)), out);
    return;
  }
  if (depth > maxDepth) {
    out.problems.add(`folders below ${maxDepth} others were not read`);
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const part = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (part.length === 0) return;
    for (const inner of part) if (!inner.name.startsWith(".")) await collect(inner, out, depth + 1);
  }
}

// isCRD reports whether a document has a CRD: it is one, or a list with one in it.
function isCRD(doc: string): boolean {
  if (/^\s*\{/.test(doc)) {
    try {
      const { kind, items } = JSON.parse(doc) as { kind?: unknown; items?: unknown };
      const kinds = [kind, ...(Array.isArray(items) ? items.map((i: { kind?: unknown } | null) => i?.kind) : [])];
      return kinds.includes("CustomResourceDefinition");
    } catch {
      return /^\s*\{[^{}]*["']?\bkind["']?:\s*["']?CustomResourceDefinition\b/.test(doc); // a mapping in YAML's flow style
    }
  }
  // The fields of the items of a list are as far to the right as those of the first one.
  const items = /^kind:\s*["']?\w*List\b/m.test(doc) ? /^items:\s*\n( *)- /m.exec(doc) : null;
  return hasKind(doc, "") || (!!items && hasKind(doc, items[1] + "(- |  )"));
}

// hasKind reports whether a line of a YAML document says that something is a CRD, after an indentation.
function hasKind(doc: string, indent: string): boolean {
  return new RegExp(`^${indent}["']?kind["']?:\\s*["']?CustomResourceDefinition["']?\\s*(#.*)?$`, "m").test(doc);
}

async function split({ files, problems }: Collected): Promise<Dropped> {
  if (files.length === 0) problems.add("there is no file with the extension .yaml, .yml or .json");
  const out: Dropped = { crds: "", objects: "", problem: "" };
  let size = 0;
  const missing: string[] = [];
  for (const file of files) {
    if (size + file.size > maxSize) {
      missing.push(file.name);
      continue;
    }
    size += file.size;
    for (const doc of (await file.text()).split(/^---(?=\s|$).*\n?/m)) {
      if (doc.trim() === "") continue;
      const text = doc.endsWith("\n") ? doc : doc + "\n";
      if (isCRD(doc)) out.crds += (out.crds === "" ? "" : "---\n") + text;
      else out.objects += (out.objects === "" ? "" : "---\n") + text;
    }
  }
  if (missing.length > 0) problems.add(`the files are larger than 4 MiB: without ${missing.join(", ")}`);
  out.problem = [...problems].join("; ");
  return out;
}
