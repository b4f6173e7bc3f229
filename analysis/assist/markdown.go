package assist

import (
	"strings"

	"espalier.dev/analysis/explain"
	"espalier.dev/schema"
)

// fieldMarkdown describes a field: its description, what the schema says about it, and its rules.
func fieldMarkdown(f *explain.Field) string { return strings.Join(fieldParagraphs(f, nil), "\n\n") }

// fieldParagraphs returns the paragraphs of fieldMarkdown. cost returns a note about the cost of a
// rule, or "".
func fieldParagraphs(f *explain.Field, cost func(path string, rule int) string) (paragraphs []string) {
	if f.Description != "" {
		paragraphs = append(paragraphs, escapeMarkdown(f.Description))
	}
	if f.ExternalDocs != nil && f.ExternalDocs.URL != "" {
		paragraphs = append(paragraphs, escapeMarkdown(strings.TrimSpace(f.ExternalDocs.Description+" "+f.ExternalDocs.URL)))
	}
	var facts []string
	for inner, about := f, ""; inner != nil; {
		for _, fact := range inner.Facts() {
			if fact == "required" {
				continue // the title or the detail says so
			}
			name, text, found := strings.Cut(fact, ": ")
			if found {
				fact = name + ": " + code(text)
			}
			facts = append(facts, "- "+about+fact)
		}
		next, what := inner.Items, "items: "
		if next == nil {
			next, what = inner.Values, "values: "
		}
		inner, about = next, about+what
	}
	if len(facts) > 0 {
		paragraphs = append(paragraphs, strings.Join(facts, "\n"))
	}
	for inner := f; inner != nil; {
		for i, r := range inner.Rules {
			fence := strings.Repeat("`", max(3, backticks(r.Rule)+1))
			text := "Rule:\n" + fence + "cel\n" + r.Rule + "\n" + fence
			notes := r.Notes()
			if cost != nil {
				if note := cost(inner.Path, i); note != "" {
					notes = append(notes, note)
				}
			}
			for _, note := range notes {
				text += "\n- " + escapeMarkdown(note)
			}
			paragraphs = append(paragraphs, text)
		}
		if inner.Items != nil {
			inner = inner.Items
		} else {
			inner = inner.Values
		}
	}
	return paragraphs
}

// code formats text as code.
func code(text string) string {
	fence := strings.Repeat("`", backticks(text)+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + text + fence
}

// backticks returns the length of the longest run of backticks in a text.
func backticks(text string) (longest int) {
	run := 0
	for i := range len(text) {
		if text[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// escapeMarkdown returns text whose characters Markdown does not interpret. Lists and line breaks of
// descriptions stay readable.
func escapeMarkdown(text string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`, "#", `\#`, "`", "\\`", "[", `\[`).Replace(text)
}

// schemaMarkdown describes a schema by itself.
func schemaMarkdown(name string, s *schema.Structural) string {
	f := explain.DescribeSchema(s, schema.Kubernetes)
	return strings.Join(append([]string{head(name, f)}, fieldParagraphs(f, nil)...), "\n\n")
}
