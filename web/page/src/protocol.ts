// The types of package web/protocol, as far as the page uses them.

export type Semantics = "kep" | "kubernetes";
export type Severity = "error" | "warning" | "info";

export interface Range {
  start: number;
  end: number;
  line: number;
}

export interface Place {
  path: string;
  range?: Range;
}

export interface Fix {
  message: string;
  object: number;
  edits: unknown[];
}

export interface Finding {
  rule: string;
  severity: Severity;
  path?: string;
  message: string;
  detail?: string[];
  range?: Range;
  schema?: Place;
  fixes?: Fix[];
}

export interface Line {
  text: string;
  mark?: "pruned" | "defaulted" | "added";
  reason?: string;
  range?: Range;
  schema?: Place;
}

export interface Outcome {
  semantics: Semantics;
  verdict: "accepted" | "rejected" | "unknown";
  findings: Finding[];
  stored?: string;
  lines?: Line[];
  general?: Finding[];
}

export interface CheckedObject extends Outcome {
  apiVersion: string;
  kind: string;
  namespace?: string;
  name?: string;
  crd?: string;
  update?: boolean;
  // unevaluated is set if the CRD has rules that were not evaluated.
  unevaluated?: boolean;
  builtIn?: boolean;
  range?: Range;
  other?: Outcome;
}

export interface CheckAnswer {
  crds: Finding[];
  text: Finding[];
  old: Finding[];
  objects: CheckedObject[];
  more?: boolean;
  // partial is set by the page if rules were not evaluated.
  partial?: boolean;
  // problem is why the rules could not be loaded. It is empty while they are being loaded.
  problem?: string;
}

export interface Version {
  name: string;
  served: boolean;
  storage: boolean;
  deprecated?: string;
  status?: boolean;
}

export interface Resource {
  name: string;
  group: string;
  kind: string;
  plural: string;
  shortNames?: string[];
  namespaced: boolean;
  versions: Version[];
  problem?: string;
  range?: Range;
}

export interface ResourcesAnswer {
  resources: Resource[];
  problems: Finding[];
}

export interface Field {
  name?: string;
  path?: string;
  type: string;
  title?: string;
  description?: string;
  deprecated?: string;
  required?: boolean;
  nullable?: boolean;
  default?: unknown;
  enum?: unknown[];
  constraints?: Record<string, unknown>;
  conditions?: string[];
  rules?: { rule: string; message?: string; transition?: boolean }[];
  listType?: string;
  listMapKeys?: string[];
  mapType?: string;
  embeddedResource?: boolean;
  unknownFields?: { preserved: boolean; because: string; other?: { preserved: boolean } };
  fields?: Field[];
  items?: Field;
  values?: Field;
}

export interface RuleCost {
  path: string;
  index: number;
  rule: string;
  keyword?: string;
  cost: number;
  limit: number;
  exceeded?: boolean;
  error?: string;
  bounds?: Fix[];
  range?: Range;
}

export interface RulesAnswer {
  rules: RuleCost[];
  cost: number;
  limit: number;
  exceeded?: boolean;
}

export interface FieldsAnswer {
  group: string;
  version: string;
  kind: string;
  deprecated?: string;
  noSchema?: boolean;
  field: Field;
  costs?: RuleCost[];
  range?: Range;
}

export interface SearchAnswer {
  matches: { path: string; type: string; description?: string }[];
  more?: boolean;
}

export interface TextAnswer {
  text: string;
  language: string;
  findings?: Finding[];
}

export interface GenerateAnswer {
  files: { name: string; text: string }[];
  problems: Finding[];
}

export interface Item {
  label: string;
  kind: string;
  detail?: string;
  documentation?: string;
  insert: string;
  start: number;
  end: number;
  filter: string;
  preselect?: boolean;
  deprecated?: boolean;
}

export interface LintAnswer {
  problems: Finding[];
  findings: Finding[];
  checked: number;
  more?: boolean;
}

export interface RuleAnswer {
  rule: string;
  severity: Severity;
  title: string;
  markdown: string;
}

export interface Verdict extends Finding {
  crd: string;
  class: string;
  title: string;
  version?: string;
  field?: string;
  old?: Range;
  objects?: number;
}

export interface CompareAnswer {
  problems: Finding[];
  changes: Verdict[];
  classes: Record<string, number>;
  tried: number;
  affected: Record<string, number>;
  more?: boolean;
}

// Answers has the answer of each request.
export interface Answers {
  check: CheckAnswer;
  resources: ResourcesAnswer;
  kinds: { kinds: Resource[] };
  fields: FieldsAnswer;
  search: SearchAnswer;
  rules: RulesAnswer;
  form: TextAnswer;
  sample: TextAnswer;
  generate: GenerateAnswer;
  complete: { items: Item[] };
  hover: { markdown: string; range?: Range };
  lint: LintAnswer;
  rule: RuleAnswer;
  apply: { start: number; end: number; text: string };
  compare: CompareAnswer;
}

export type Name = keyof Answers;

export interface Response {
  answer?: unknown;
  error?: { code: string; message: string };
}
