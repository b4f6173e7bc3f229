package lsp

import (
	"net/url"
	"path/filepath"
	"strings"
)

// Path returns the path of a file URI in the form of the operating system, and false for URIs of
// other schemes, such as untitled: and git:, and for files of other hosts.
func (u URI) Path() (string, bool) { return u.path(filepath.Separator == '\\') }

// path returns the path of a file URI on Windows or elsewhere.
func (u URI) path(windows bool) (string, bool) {
	scheme, rest, ok := strings.Cut(string(u), ":")
	if !ok || !strings.EqualFold(scheme, "file") {
		return "", false
	}
	host := ""
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		slash := strings.IndexByte(after, '/')
		if slash < 0 {
			return "", false
		}
		host, rest = after[:slash], after[slash:]
	}
	// Clients that encode nothing write ? and # as they are, and those are not parts of file URIs.
	path, err := url.PathUnescape(rest)
	if err != nil {
		// A percent sign that encodes nothing is one.
		path = rest
	}
	if strings.ContainsRune(path, 0) || !strings.HasPrefix(path, "/") {
		return "", false
	}
	if strings.EqualFold(host, "localhost") {
		host = ""
	}
	if !windows {
		return filepath.Clean(path), host == ""
	}
	switch {
	case host != "":
		path = "//" + host + path
	case hasDrive(path[1:]):
		path = strings.ToUpper(path[1:2]) + path[2:]
	}
	return strings.ReplaceAll(path, "/", `\`), true
}

// FileURI returns the URI of an absolute path, encoded as by most clients.
func FileURI(path string) URI { return fileURI(path, filepath.Separator == '\\') }

// fileURI returns the URI of a path on Windows or elsewhere.
func fileURI(path string, windows bool) URI {
	host := ""
	if windows {
		path = strings.ReplaceAll(path, `\`, "/")
		if unc, ok := strings.CutPrefix(path, "//"); ok {
			name, rest, _ := strings.Cut(unc, "/")
			host, path = name, "/"+rest
		} else if hasDrive(path) {
			path = "/" + strings.ToLower(path[:1]) + path[1:]
		}
	}
	var b strings.Builder
	b.WriteString("file://")
	b.WriteString(host)
	for i := range len(path) {
		if c := path[i]; unreserved(c) || c == '/' {
			b.WriteByte(c)
		} else {
			const digits = "0123456789ABCDEF"
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return URI(b.String())
}

// SameFile reports whether two URIs are the same, or name the same path in different encodings.
func (u URI) SameFile(other URI) bool {
	if u == other {
		return true
	}
	a, ok := u.Path()
	b, also := other.Path()
	return ok && also && a == b
}

// unreserved reports whether a byte is the same in a path and in a URI. Clients encode colons, of
// Windows too.
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// hasDrive reports whether a path with slashes starts with the letter of a drive.
func hasDrive(path string) bool {
	return len(path) >= 2 && path[1] == ':' && ('a' <= path[0] && path[0] <= 'z' || 'A' <= path[0] && path[0] <= 'Z')
}
