package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// editorFiles returns a folder with a CRD and an object with two findings, for sessions of editors.
func editorFiles(t *testing.T) string {
	return folder(t, map[string]string{
		".espalier.yaml": "validate: {fieldValidation: warn}\n",
		"crd.yaml":       widgetCRD,
		"first.yaml":     strings.Replace(widget, "size: 3", "size: 0\n  colour: red", 1),
	})
}

// editorProgram returns a directory with a program espalier for the PATH of an editor, and the file to
// which it writes its process.
func editorProgram(t *testing.T) (dir, pid string) {
	t.Helper()
	program := os.Getenv(lspProgram)
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	dir = t.TempDir()
	pid = filepath.Join(dir, "pid")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >'%s'\n%s=1 exec '%s' \"$@\"\n", pid, asProgram, program)
	if err := os.WriteFile(filepath.Join(dir, "espalier"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, pid
}

// expectEnded waits until the process whose number a file has is gone.
func expectEnded(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("the editor has not started the server: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return // it is gone
	}
	for end := time.Now().Add(30 * time.Second); process.Signal(syscall.Signal(0)) == nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the server, process %d, is still there after the editor has ended", pid)
		}
	}
}

// neovim is a running Neovim that a test controls like a user.
type neovim struct {
	t      *testing.T
	socket string
	env    []string
}

// remote runs a command of Neovim's client.
func (n *neovim) remote(args ...string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "nvim", append([]string{"--headless", "--server", n.socket}, args...)...)
	c.Env = n.env
	out, err := c.CombinedOutput()
	if err != nil {
		n.t.Fatalf("nvim %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// keys types keys.
func (n *neovim) keys(keys string) { n.t.Helper(); n.remote("--remote-send", keys) }

// await waits until the value of a Lua expression contains a text.
func (n *neovim) await(what, lua, want string) string {
	n.t.Helper()
	got := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got = n.remote("--remote-expr", "luaeval('"+strings.ReplaceAll(lua, "'", "''")+"')"); strings.Contains(got, want) {
			return got
		}
	}
	n.t.Fatalf("%s: no %q in %q", what, want, got)
	return ""
}

// TestNeovim runs a session in Neovim with the published configuration: diagnostics, hover, completion
// and a code action.
func TestNeovim(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("nvim"); err != nil {
		t.Skip("SKIPPED: nvim is not installed (Debian: apt-get install neovim)")
	}
	root, home := editorFiles(t), t.TempDir()
	program, pid := editorProgram(t)
	configuration, err := os.ReadFile("../../editors/neovim/espalier.lua")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(home, "config/nvim/plugin/espalier.lua"), configuration)
	n := &neovim{t: t, socket: filepath.Join(home, "socket"), env: append(os.Environ(), "PATH="+program+":"+os.Getenv("PATH"),
		"HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, "config"), "XDG_DATA_HOME="+filepath.Join(home, "data"),
		"XDG_STATE_HOME="+filepath.Join(home, "state"), "XDG_CACHE_HOME="+filepath.Join(home, "cache"))}
	c := exec.Command("nvim", "--headless", "--listen", n.socket, filepath.Join(root, "first.yaml"))
	c.Env, c.Dir = n.env, root
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it has usually exited
		_ = c.Wait()
	})
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(n.socket); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal("nvim does not start")
		}
	}

	const codes = `table.concat(vim.tbl_map(function(d) return d.lnum .. " " .. tostring(d.code or d.user_data.lsp.code) end, vim.diagnostic.get(0)), ", ")`
	n.await("diagnostics", codes, "validation/minimum")
	n.await("diagnostics", codes, "5 unknown-field")

	// The cursor is on size.
	n.keys(":5<CR>4|")
	n.keys(":lua vim.lsp.buf.hover()<CR>")
	n.await("hover", `table.concat(vim.tbl_map(function(w) return table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(w), 0, -1, false), " ") end, vim.tbl_filter(function(w) return vim.api.nvim_win_get_config(w).relative ~= "" end, vim.api.nvim_list_wins())), "; ")`,
		"millimetres")

	// A field that is misspelled is fixed by the first action.
	n.keys(":6<CR>4|")
	// A menu would block the remote control: the first action is selected, as a plugin for menus would.
	n.keys(":lua vim.ui.select = function(items, _, choose) choose(items[1], 1) end<CR>")
	n.keys(":lua vim.lsp.buf.code_action()<CR>")
	n.await("code action", `table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "; ")`, "color: red")
	n.await("diagnostics after the action", codes+` .. "."`, "validation/minimum.")

	n.keys(":set omnifunc=v:lua.vim.lsp.omnifunc completeopt=menu,menuone,noselect<CR>")
	n.keys(":6<CR>0C  color: <C-x><C-o>")
	n.await("completion", `table.concat(vim.tbl_map(function(i) return i.word end, vim.fn.complete_info({"items"}).items), " ")`, "green")
	n.keys("<C-n><C-n><C-y><Esc>")
	n.await("completed text", `table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "; ")`, "color: green")

	n.keys(":qa!<CR>")
	if err := c.Wait(); err != nil {
		t.Errorf("nvim: %v", err)
	}
	expectEnded(t, pid)
}

// TestEmacs runs the same session in Emacs with eglot and the published configuration.
func TestEmacs(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("emacs"); err != nil {
		t.Skip("SKIPPED: emacs is not installed (Debian: apt-get install emacs-nox elpa-eglot elpa-yaml-mode)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	home := t.TempDir()
	emacs := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, "emacs", append([]string{"--batch", "--funcall", "package-activate-all"}, args...)...)
		c.Env = append(os.Environ(), "HOME="+home)
		return c
	}
	if out, err := emacs("--eval", "(require 'eglot)", "--eval", "(or (fboundp 'yaml-mode) (error \"no yaml-mode\"))").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: emacs has no eglot or no yaml-mode (Debian: apt-get install elpa-eglot elpa-yaml-mode): %s", out)
	}
	root := editorFiles(t)
	program, pid := editorProgram(t)
	c := emacs("--load", absolute("", "../../editors/emacs/espalier.el"), "--load", absolute("", "testdata/editors/session.el"))
	c.Env = append(c.Env, "PATH="+program+":"+os.Getenv("PATH"), "FILE="+filepath.Join(root, "first.yaml"))
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASSED") {
		t.Fatalf("emacs: %v: %s", err, out)
	}
	expectEnded(t, pid)
}
