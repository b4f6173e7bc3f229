// Files and folders that are dropped on the page, or chosen.

const maxFiles = 200;
const maxSize = 4 << 20;

// Dropped has the documents of files: CRDs, and all others.
export interface Dropped {
  crds: string;
  objects: string;
  problem: string;
}

export async function read(items: DataTransferItemList): Promise<Dropped> {
  const files: File[] = [];
  // The list is empty after the first pause, so all entries are taken now.
  const entries = [...items].map((i) => i.webkitGetAsEntry()).filter((e): e is FileSystemEntry => e !== null);
  for (const entry of entries) await collect(entry, files, 0);
  return split(files);
}

// choose reads files that the user has chosen.
export function choose(files: FileList): Promise<Dropped> {
  return split([...files].slice(0, maxFiles));
}

async function collect(entry: FileSystemEntry, files: File[], depth: number): Promise<void> {
  if (files.length >= maxFiles || depth > 8) return;
  if (entry.isFile) {
    if (/\.(ya?ml|json)$/i.test(entry.name)) files.push(await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)));
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const part = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (part.length === 0) return;
    for (const inner of part) if (!inner.name.startsWith(".")) await collect(inner, files, depth + 1);
  }
}

// isCRD reports whether a document is a CRD. One in JSON may have a single line.
function isCRD(doc: string): boolean {
  if (/^\s*\{/.test(doc)) {
    try {
      return (JSON.parse(doc) as { kind?: unknown }).kind === "CustomResourceDefinition";
    } catch {
      // it is a YAML mapping, or broken
    }
  }
  return /(^|[{,])\s*["']?kind["']?:\s*["']?CustomResourceDefinition\b/m.test(doc);
}

async function split(files: File[]): Promise<Dropped> {
  const out: Dropped = { crds: "", objects: "", problem: files.length === 0 ? "there is no file with the extension .yaml, .yml or .json" : "" };
  let size = 0;
  for (const file of files) {
    if ((size += file.size) > maxSize) {
      out.problem = "the files are larger than 4 MiB: only a part was read";
      break;
    }
    for (const doc of (await file.text()).split(/^---(?=\s|$).*\n?/m)) {
      if (doc.trim() === "") continue;
      const text = doc.endsWith("\n") ? doc : doc + "\n";
      if (isCRD(doc)) out.crds += (out.crds === "" ? "" : "---\n") + text;
      else out.objects += (out.objects === "" ? "" : "---\n") + text;
    }
  }
  return out;
}
