package main

import (
	"strings"

	"espalier.dev/internal/jsonx"
)

// servedVersion is a version that a CRD serves.
type servedVersion struct {
	name       string
	deprecated bool
}

// servedVersions returns the versions that a CRD in JSON serves, without decoding the rest. A CRD that
// is not valid has those that can be read.
func servedVersions(src []byte) (all []servedVersion) {
	var r jsonx.Reader
	r.Borrow(src)
	only := ""
	text := func(into *string) error {
		if r.Peek() != '"' {
			return r.Skip()
		}
		s, err := r.String()
		*into = strings.Clone(s)
		return err
	}
	flag := func(into *bool) error {
		*into = r.Peek() == 't'
		return r.Skip()
	}
	object := func(visit func(key string) error) error {
		if r.Peek() != '{' {
			return r.Skip()
		}
		return r.Members(visit)
	}
	version := func(int) error {
		var v servedVersion
		served := false
		err := object(func(key string) error {
			switch key {
			case "name":
				return text(&v.name)
			case "served":
				return flag(&served)
			case "deprecated":
				return flag(&v.deprecated)
			}
			return r.Skip()
		})
		if served && v.name != "" {
			all = append(all, v)
		}
		return err
	}
	// An error ends the list.
	_ = object(func(key string) error {
		if key != "spec" {
			return r.Skip()
		}
		return object(func(key string) error {
			switch {
			case key == "version": // of v1beta1
				return text(&only)
			case key == "versions" && r.Peek() == '[':
				return r.Items(version)
			}
			return r.Skip()
		})
	})
	if len(all) == 0 && only != "" {
		all = []servedVersion{{name: only}}
	}
	return all
}
