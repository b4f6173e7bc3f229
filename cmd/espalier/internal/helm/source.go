package helm

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// sourceComment starts the line before each document that helm renders.
const sourceComment = "# Source: "

// Source returns the file of a chart that a document of the output of helm starts with, and the
// number of lines up to the one that names it. The first element of the path is the name of the
// chart. The result is "" if the document does not name a file: it belongs to the one before.
func Source(document []byte) (file string, lines int) {
	for n := 1; len(document) > 0; n++ {
		line, rest, _ := bytes.Cut(document, []byte("\n"))
		document = rest
		text := strings.TrimRight(string(line), "\r")
		if name, ok := strings.CutPrefix(text, sourceComment); ok {
			return name, n
		}
		if text != "" && text != "---" {
			break
		}
	}
	return "", 0
}

// InCRDs reports whether a file that helm names is in a directory crds, whose files are not
// templates.
func InCRDs(file string) bool {
	parts := strings.Split(file, "/")
	for i := 1; i < len(parts)-1; i++ {
		switch {
		case parts[i] == "crds":
			return true
		case parts[i] != "charts":
			return false
		}
		i++ // the name of a subchart
	}
	return false
}

// Below returns the path of a file that helm names, relative to the directory of the chart. read
// returns the text of a file, or nil, and list the files of a directory: a subchart may be an
// archive, and helm names it by its alias.
func Below(file string, read func(string) []byte, list func(string) []string) string {
	_, rest, ok := strings.Cut(file, "/")
	if !ok {
		return file
	}
	at := ""
	for {
		after, isSub := strings.CutPrefix(rest, "charts/")
		name, inner, ok := strings.Cut(after, "/")
		if !isSub || !ok {
			return path.Join(at, rest)
		}
		if c, err := Parse(read(path.Join(at, ChartFile))); err == nil {
			for _, d := range c.Dependencies {
				if d.Alias == name {
					name = d.Name
				}
			}
		}
		dir := path.Join(at, "charts", name)
		if read(path.Join(dir, ChartFile)) == nil {
			if archive := archiveOf(name, list(path.Join(at, "charts"))); archive != "" {
				return path.Join(at, "charts", archive, inner)
			}
		}
		at, rest = dir, inner
	}
}

// Place is the position of a failure in a file, as helm names it.
type Place struct {
	File         string
	Line, Column int
}

var (
	// position finds the template that fails: of function fail or required, of any other function,
	// or of its result.
	position = regexp.MustCompile(`(?:execution error at \(|template: |parse error at \(|YAML parse error on )([^\s:()]+)(?::(\d+))?(?::(\d+))?\)?: `)
	// advice is a sentence of helm about one of its flags.
	advice = "Use --debug flag to render out invalid YAML"
)

// oneLine returns a message as one line, with each paragraph once: helm logs some messages that it
// also returns.
func oneLine(message string) string {
	var all []string
	for paragraph := range strings.SplitSeq(message, "\n\n") {
		if paragraph = strings.Join(strings.Fields(paragraph), " "); paragraph != "" && !slices.Contains(all, paragraph) {
			all = append(all, paragraph)
		}
	}
	return strings.Join(all, " ")
}

// Explain splits the message of helm about a chart that it cannot render into the position, if there
// is one, and the rest.
func Explain(message string) (at Place, text string) {
	text = oneLine(strings.ReplaceAll(message, advice, ""))
	// The innermost template is where the failure is, the others include it.
	all := position.FindAllStringSubmatchIndex(text, -1)
	if len(all) == 0 {
		return at, text
	}
	group := func(m []int, i int) string {
		if m[2*i] < 0 {
			return ""
		}
		return text[m[2*i]:m[2*i+1]]
	}
	first, last := all[0], all[len(all)-1]
	at.File = group(last, 1)
	at.Line, _ = strconv.Atoi(group(last, 2))
	at.Column, _ = strconv.Atoi(group(last, 3))
	if before := strings.TrimSpace(text[:first[0]]); before == "" {
		text = strings.TrimSpace(text[last[1]:])
	}
	return at, text
}
