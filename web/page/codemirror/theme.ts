// The looks of CodeMirror: the colors of the page, whose custom properties are inherited by shadow roots.

import { HighlightStyle } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags as t } from "@lezer/highlight";

export const colors = HighlightStyle.define([
  { tag: [t.propertyName, t.definition(t.propertyName)], color: "var(--key)" },
  { tag: [t.string, t.content, t.attributeValue], color: "var(--string)" },
  { tag: t.number, color: "var(--number)" },
  { tag: [t.bool, t.null, t.keyword, t.labelName, t.typeName, t.meta], color: "var(--constant)" },
  { tag: t.comment, color: "var(--comment)", fontStyle: "italic" },
  { tag: [t.separator, t.punctuation, t.squareBracket, t.brace, t.special(t.string)], color: "var(--punctuation)" },
]);

const underline = (color: string) => ({ backgroundImage: "none", paddingBottom: "0", textDecoration: `underline wavy 1px var(${color})`, textDecorationSkipInk: "none", textUnderlineOffset: "3px" });

export const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "transparent", fontSize: "13px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px" },
  ".cm-content": { padding: "6px 0", caretColor: "var(--text)" },
  ".cm-line": { padding: "0 8px" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--text)" },
  "& .cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": { background: "color-mix(in srgb, var(--focus) 30%, transparent)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--soft) 55%, transparent)" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--comment)", borderRight: "1px solid var(--line)", fontSize: "12px" },
  ".cm-activeLineGutter": { backgroundColor: "transparent", color: "var(--text)" },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 2px 0 6px", minWidth: "30px", borderLeft: "3px solid transparent" },
  ".cm-lineNumbers .cm-line-error": { borderLeftColor: "var(--error)", color: "var(--error)" },
  ".cm-lineNumbers .cm-line-warning": { borderLeftColor: "var(--warning)", color: "var(--warning)" },
  ".cm-lineNumbers .cm-line-info": { borderLeftColor: "var(--info)" },
  ".cm-foldGutter .cm-gutterElement": { padding: "0 3px", cursor: "pointer" },
  ".cm-foldPlaceholder": { background: "var(--soft)", border: "1px solid var(--line)", color: "var(--muted)", padding: "0 5px" },
  ".cm-placeholder": { color: "var(--comment)", fontStyle: "italic", whiteSpace: "pre-wrap" },
  ".cm-marked": { background: "color-mix(in srgb, var(--focus) 22%, transparent)", borderRadius: "3px" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--accent)" },
  ".cm-selectionMatch": { backgroundColor: "color-mix(in srgb, var(--accent) 18%, transparent)" },
  ".cm-searchMatch": { backgroundColor: "var(--warning-soft)", outline: "1px solid var(--warning)" },
  ".cm-searchMatch-selected": { backgroundColor: "color-mix(in srgb, var(--warning) 40%, transparent)" },
  ".cm-lintRange-error": underline("--error"),
  ".cm-lintRange-warning": underline("--warning"),
  ".cm-lintRange-info": underline("--info"),
  ".cm-panels": { backgroundColor: "var(--soft)", color: "var(--text)", fontFamily: "var(--sans)" },
  ".cm-panels.cm-panels-top": { borderBottom: "1px solid var(--line)" },
  ".cm-panel.cm-search": { padding: "6px 26px 6px 8px" },
  ".cm-panel.cm-search [name=close]": { color: "var(--text)", fontSize: "16px" },
  ".cm-textfield": { backgroundColor: "var(--panel)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "5px" },
  ".cm-button": { background: "var(--panel)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "5px" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "8px", boxShadow: "0 6px 24px rgb(0 0 0 / 18%)", fontFamily: "var(--sans)", lineHeight: "1.4", overflow: "hidden", zIndex: "6" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "12.5px", maxHeight: "260px", minWidth: "240px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { display: "flex", justifyContent: "space-between", gap: "18px", padding: "1px 10px", lineHeight: "20px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent-soft)", color: "var(--accent)" },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "600" },
  ".cm-deprecated .cm-completionLabel": { textDecoration: "line-through" },
  ".cm-tooltip.cm-completionInfo": { padding: "8px 12px", maxWidth: "340px", maxHeight: "260px", overflow: "auto", fontSize: "13px" },
  ".cm-about": { padding: "8px 12px", maxWidth: "min(520px, 90vw)", maxHeight: "260px", overflow: "auto", fontSize: "13px" },
  ".cm-finding": { margin: "0 0 6px", borderLeft: "3px solid var(--info)", paddingLeft: "8px", whiteSpace: "pre-line" },
  ".cm-finding.error": { borderLeftColor: "var(--error)" },
  ".cm-finding.warning": { borderLeftColor: "var(--warning)" },
  ".markdown": { display: "flex", flexDirection: "column", gap: "7px", overflowWrap: "anywhere", whiteSpace: "normal" },
  ".markdown p, .markdown ul, .markdown h3, .markdown h4": { margin: "0" },
  ".markdown p": { whiteSpace: "pre-line" },
  ".markdown ul": { paddingLeft: "20px" },
  ".markdown code": { font: "12.5px/1.5 var(--mono)", background: "var(--soft)", padding: "0 4px", borderRadius: "4px" },
  ".markdown pre": { margin: "0", padding: "8px 10px", border: "1px solid var(--line)", borderRadius: "6px", overflow: "auto" },
  ".markdown pre code": { background: "none", padding: "0" },
});
