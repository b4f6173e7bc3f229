package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
)

// MaxNesting bounds how deeply lists can be nested in lists.
const MaxNesting = 16

// ErrNesting is the error about lists that are nested more deeply than [MaxNesting].
var ErrNesting = fmt.Errorf("lists are nested more than %d levels deep", MaxNesting)

// Items returns the items of a list in JSON, whose apiVersion and kind are list: of a List, or of an object with items
// whose kind ends in List. It reports false for any other object.
//
// The items of a CronTabList may omit that they are CronTabs: they are returned with apiVersion and kind.
func Items(src []byte, list metav1.TypeMeta) (items [][]byte, ok bool, err error) {
	if !strings.HasSuffix(list.Kind, "List") {
		return nil, false, nil
	}
	var r jsonx.Reader
	r.Borrow(src)
	ok = list.Kind == "List"
	err = r.Members(func(name string) error {
		switch c := r.Peek(); {
		case name == "items" && c != '[' && c != 'n' && list.Kind == "List":
			return errors.New("items is not a list")
		case name != "items" || c != '[':
			return r.Skip()
		}
		items, ok = nil, true
		return r.Items(func(int) error {
			r.Peek()
			start := r.Offset()
			if err := r.Skip(); err != nil {
				return err
			}
			items = append(items, src[start:r.Offset()])
			return nil
		})
	})
	if err != nil || list.Kind == "List" {
		return items, ok, err
	}
	for i, item := range items {
		items[i] = typed(item, list)
	}
	return items, ok, nil
}

// typed returns an item of a typed list with apiVersion and kind, if it is an object that has no kind.
func typed(item []byte, list metav1.TypeMeta) []byte {
	id, err := api.Identify(item)
	if err != nil || id.Kind != "" || item[0] != '{' {
		return item
	}
	if id.APIVersion == "" {
		item = WithMember(item, "apiVersion", list.APIVersion)
	}
	return WithMember(item, "kind", strings.TrimSuffix(list.Kind, "List"))
}

// WithMember inserts a member before the others of an object in JSON.
func WithMember(src []byte, key, value string) []byte {
	i := 0
	for src[i] != '{' {
		i++
	}
	quoted, _ := json.Marshal(value) // a string never fails
	out := append([]byte(`{"`+key+`":`), quoted...)
	rest := src[i+1:]
	for len(rest) > 0 && strings.IndexByte(" \t\r\n", rest[0]) >= 0 {
		rest = rest[1:]
	}
	if len(rest) > 0 && rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, rest...)
}
