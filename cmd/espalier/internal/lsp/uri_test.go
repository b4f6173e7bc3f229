package lsp

import "testing"

func TestURI(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		uri     URI
		windows bool
		path    string
		// back is the URI of the path.
		back URI
	}{
		{"file:///a/b.yaml", false, "/a/b.yaml", "file:///a/b.yaml"},
		{"file:///", false, "/", "file:///"},
		{"FILE:///a%20b/%C3%A9%25.yaml", false, "/a b/é%.yaml", "file:///a%20b/%C3%A9%25.yaml"},
		{"file:///a b/é#?.yaml", false, "/a b/é#?.yaml", "file:///a%20b/%C3%A9%23%3F.yaml"},
		{"file:///50%.yaml", false, "/50%.yaml", "file:///50%25.yaml"},
		{"file://localhost/a", false, "/a", "file:///a"},
		{"file:/a/b", false, "/a/b", "file:///a/b"},
		{"file:///a/../b/", false, "/b", "file:///b"},
		{"file:///c:/a", false, "/c:/a", "file:///c%3A/a"},
		{"file:///c%3A/Users/x%20y/a.yaml", true, `C:\Users\x y\a.yaml`, "file:///c%3A/Users/x%20y/a.yaml"},
		{"file:///C:/a", true, `C:\a`, "file:///c%3A/a"},
		{"file://server/share/a.yaml", true, `\\server\share\a.yaml`, "file://server/share/a.yaml"},
	} {
		path, ok := c.uri.path(c.windows)
		if !ok || path != c.path {
			t.Errorf("the path of %s is %q, %v, want %q", c.uri, path, ok, c.path)
		}
		if back := fileURI(c.path, c.windows); back != c.back {
			t.Errorf("the URI of %s is %s, want %s", c.path, back, c.back)
		}
		if again, ok := c.back.path(c.windows); !ok || again != c.path {
			t.Errorf("the path of %s is %q, %v, want %q", c.back, again, ok, c.path)
		}
	}
	for _, uri := range []URI{"", "untitled:Untitled-1", "git:/a/b.yaml?%7B%7D", "vscode-notebook-cell:/a#1", "/a/b", "file:", "file://", "file://host", "file:a", "file:///a%00b", "file://host/a", "c:/a"} {
		if path, ok := uri.path(false); ok {
			t.Errorf("the path of %q is %q", uri, path)
		}
	}
	if !URI("file:///a%20b").SameFile("file:///a b") || URI("file:///a").SameFile("file:///b") || !URI("untitled:a").SameFile("untitled:a") || URI("untitled:a").SameFile("untitled:b") {
		t.Error("SameFile is wrong")
	}
}
