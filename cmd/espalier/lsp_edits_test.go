package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// editedFiles returns a folder with CRDs, objects and other files that random edits can break.
func editedFiles() map[string]string {
	gadget := strings.NewReplacer("widget", "gadget", "Widget", "Gadget").Replace(widgetCRD)
	return map[string]string{
		"crd/widget.yaml":     widgetCRD,
		"crd/both.yaml":       gadget + "---\n" + widgetCRD,
		"objects/first.yaml":  widget,
		"objects/second.yaml": strings.Replace(widget, "size: 3", "size: 0\n  colour: red # espalier:ignore unknown-field -- kept for old clients", 1),
		"objects/more.yaml": strings.Replace(widget, "first", "third", 1) + "---\n" + strings.Replace(widget, "Widget", "Gadget", 1) +
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n",
		"objects/list.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: example.com/v1\n  kind: Widget\n  metadata: {name: listed}\n  spec: {size: 1}\n",
		"objects/web.json":  `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": "3"}}` + "\n",
		"policy.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: sizes}\n" +
			"spec: {policyName: sizes, validationActions: [Deny]}\n",
		".espalier.yaml": "lint: {disable: [list-type]}\n",
	}
}

// randomEdit changes a text: a part of it is deleted, repeated, or replaced with a part of another one.
func randomEdit(random *rand.Rand, text []byte, others []string) []byte {
	at := random.IntN(len(text) + 1)
	if random.IntN(3) > 0 { // whole lines are edited more often
		at = bytes.LastIndexByte(text[:at], '\n') + 1
	}
	end := min(len(text), at+random.IntN(30))
	if random.IntN(2) == 0 {
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
	}
	var insert string
	switch random.IntN(4) {
	case 0: // deleted
	case 1:
		insert = string(text[at:end]) + string(text[at:end])
	case 2:
		words := []string{"x", ":", "  ", "size: 7\n", "kind: Widget\n", "---\n", "- ", "\"", "{", "}", "é😀", "\r\n", "minimum: 2\n", "type: string\n", "#"}
		insert = words[random.IntN(len(words))]
	default:
		lines := strings.SplitAfter(others[random.IntN(len(others))], "\n")
		insert = lines[random.IntN(len(lines))]
		end = at
	}
	return slices.Concat(text[:at], []byte(insert), text[end:])
}

// TestWorkspaceEdits edits open files at random, and compares after each edit what the workspace finds
// with what the commands report. ESPALIER_LSP_EDITS sets the number of edits.
func TestWorkspaceEdits(t *testing.T) {
	t.Parallel()
	edits := 100
	if value := os.Getenv("ESPALIER_LSP_EDITS"); value != "" {
		var err error
		if edits, err = strconv.Atoi(value); err != nil {
			t.Fatal(err)
		}
	}
	files := editedFiles()
	root := folder(t, files)
	w := testWorkspace(root)
	random := rand.New(rand.NewPCG(35, 1))
	var paths, originals []string
	for name, text := range files {
		if name != ".espalier.yaml" {
			paths, originals = append(paths, filepath.Join(root, name)), append(originals, text)
		}
	}
	slices.Sort(paths)
	slices.Sort(originals)
	text := map[string][]byte{}
	for i := range edits {
		path := paths[random.IntN(len(paths))]
		name, _ := filepath.Rel(root, path)
		if text[path] == nil || random.IntN(8) == 0 || len(text[path]) > 8<<10 {
			text[path] = []byte(files[filepath.ToSlash(name)]) // it was broken for long enough
		}
		text[path] = randomEdit(random, text[path], originals)
		if err := os.WriteFile(path, text[path], 0o600); err != nil {
			t.Fatal(err)
		}
		if random.IntN(4) > 0 {
			w.buffers.Set(path, text[path])
		} else {
			w.buffers.Remove(path)
		}
		w.changed(path)
		open := slices.Clone(paths)
		random.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
		open = open[:1+random.IntN(len(open))]
		got, err := w.findings(t.Context(), open)
		if err != nil {
			t.Fatal(err)
		}
		want := commandFindings(t, root, "--config", filepath.Join(root, ".espalier.yaml"))
		for _, file := range open {
			if have := asText(got[file].reported); !slices.Equal(have, want[file]) {
				t.Fatalf("edit %d of %s: %s differs:\n%s\n%s", i, path, file, difference(want[file], have), text[path])
			}
		}
	}
}
