package report

import (
	"bytes"
	"encoding/json"
	"io"

	"espalier.dev/internal/yamlx"
)

// jsonFormat writes {"findings":[…],"summary":{…}}, one finding per line.
type jsonFormat struct {
	w     io.Writer
	count int
}

func newJSON(w io.Writer) format { return &jsonFormat{w: w} }

func (j *jsonFormat) finding(f *Finding) error {
	text, err := marshal(newRecord(f))
	if err != nil {
		return err
	}
	before := ",\n"
	if j.count == 0 {
		before = "{\"findings\":[\n"
	}
	j.count++
	_, err = io.WriteString(j.w, before+string(text))
	return err
}

func (j *jsonFormat) close(s *Summary) error {
	text, err := marshal(s)
	if err != nil {
		return err
	}
	before := "\n"
	if j.count == 0 {
		before = "{\"findings\":["
	}
	_, err = io.WriteString(j.w, before+"],\"summary\":"+string(text)+"}\n")
	return err
}

// marshal is json.Marshal without HTML escaping, so that people can read <, > and &.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// yamlFormat writes the structure of jsonFormat as YAML.
type yamlFormat struct {
	w     io.Writer
	count int
}

func newYAML(w io.Writer) format { return &yamlFormat{w: w} }

func (y *yamlFormat) finding(f *Finding) error {
	text, err := yamlx.Marshal([]record{newRecord(f)})
	if err != nil {
		return err
	}
	if y.count++; y.count == 1 {
		text = append([]byte("findings:\n"), text...)
	}
	_, err = y.w.Write(text)
	return err
}

func (y *yamlFormat) close(s *Summary) error {
	text, err := yamlx.Marshal(map[string]any{"summary": s})
	if err != nil {
		return err
	}
	if y.count == 0 {
		text = append([]byte("findings: []\n"), text...)
	}
	_, err = y.w.Write(text)
	return err
}
