package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// root is the root of the repository.
const root = "../.."

// program returns the path of espalier with one of the editors.
func program(editor int) (string, error) { return built[editor]() }

var built = []func() (string, error){
	sync.OnceValues(func() (string, error) { return find(editors[0].program) }),
	sync.OnceValues(func() (string, error) { return find(editors[1].program) }),
}

// find returns the path of a flavor of espalier, which is built if necessary.
func find(flavor string) (string, error) {
	find := exec.Command("go", "run", "./internal/program/cmd", flavor)
	var stderr strings.Builder
	find.Dir, find.Stderr = root, &stderr
	out, err := find.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// chromium returns the path of a browser, and skips the test if there is none.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no browser: install chromium")
	}
	t.Skip("SKIPPED: no browser: install chromium to test the web page")
	return ""
}

// serve runs espalier ui, and returns the link that it prints.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	return serveWith(t, 0, args...)
}

// serveWith runs espalier ui with one of the editors.
func serveWith(t *testing.T, editor int, args ...string) string {
	t.Helper()
	path, err := program(editor)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, append([]string{"ui"}, args...)...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	link, ok := strings.CutPrefix(strings.TrimSpace(line), "Open ")
	if !ok {
		t.Fatalf("ui prints %q", line)
	}
	return link
}

// tab is a tab of a browser.
type tab struct {
	t   *testing.T
	ctx context.Context
	mu  sync.Mutex
	// problems are errors of the console, exceptions, and requests to other origins.
	problems []string
	// leaving has the answer to the next question whether to leave the page. Any other dialog is a problem.
	leaving chan bool
}

// open starts a browser with the web page.
func open(t *testing.T, link string, width, height int64, dark bool) *tab {
	t.Helper()
	b := browse(t, link, width, height, dark)
	b.wait(`document.querySelector("main > div:not([hidden])")`)
	return b
}

// browse starts a browser with any page.
func browse(t *testing.T, link string, width, height int64, dark bool) *tab {
	t.Helper()
	return browseFor(t, 5*time.Minute, link, width, height, dark)
}

// browseFor starts a browser with any page. The limit is that of all that the test does with it.
func browseFor(t *testing.T, limit time.Duration, link string, width, height int64, dark bool) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, leaving: make(chan bool, 1)}
	at, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.problem("exception: %s", e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeAssert {
				b.problem("console: %v", e.Args)
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError {
				b.problem("console: %s %s", e.Entry.Text, e.Entry.URL)
			}
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err != nil || u.Host != at.Host && u.Scheme != "data" && u.Scheme != "blob" {
				b.problem("request to %s", e.Request.URL)
			}
		case *page.EventJavascriptDialogOpening:
			select {
			case leave := <-b.leaving:
				go func() { _ = chromedp.Run(ctx, page.HandleJavaScriptDialog(leave)) }()
			default:
				b.problem("dialog: %s", e.Message)
			}
		}
	})
	theme := "light"
	if dark {
		theme = "dark"
	}
	b.run(network.Enable(), log.Enable(), runtime.Enable(),
		chromedp.EmulateViewport(width, height),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}),
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(editorScript).Do(ctx)
			return err
		}),
		chromedp.Navigate(link))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.problems {
			t.Error(p)
		}
	})
	return b
}

func (b *tab) problem(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// do runs a script.
func (b *tab) do(script string) {
	b.t.Helper()
	b.run(chromedp.Evaluate(script, nil))
}

// promise waits until a promise is settled, and stores its value unless out is nil.
func (b *tab) promise(script string, out any) {
	b.t.Helper()
	b.run(chromedp.Evaluate(script, out, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// frames waits for two frames. What the page does in the first one is drawn then.
func (b *tab) frames() {
	b.t.Helper()
	b.promise(`new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))).then(() => undefined)`, nil)
}

// eval returns the value of an expression as a string.
func (b *tab) eval(expression string) string {
	b.t.Helper()
	var out any
	if err := chromedp.Run(b.ctx, chromedp.Evaluate("String("+expression+")", &out)); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	text, _ := out.(string)
	return text
}

// wait waits until an expression is true.
func (b *tab) wait(expression string) {
	b.t.Helper()
	b.waitFor(expression, 30*time.Second)
}

// waitFor waits for a limited time until an expression is true.
func (b *tab) waitFor(expression string, limit time.Duration) {
	b.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(30 * time.Millisecond) {
		var ok bool
		err := chromedp.Run(b.ctx, chromedp.Evaluate("!!("+expression+")", &ok))
		if err == nil && ok {
			return
		}
		if time.Now().After(end) || errors.Is(err, context.DeadlineExceeded) {
			// The text of the page cannot be had if the time of the test is over.
			b.t.Errorf("never true: %s (%v)", expression, err)
			b.screenshot("failed")
			b.t.Fatal(b.eval(`document.body.innerText.slice(0, 3000)`))
		}
	}
}

// text waits until the visible text of the page contains a text.
func (b *tab) text(want string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("document.body.innerText.includes(%q)", want))
}

// shows does something, and waits until the page has shown a text since. Messages disappear after a while.
func (b *tab) shows(want string, do func()) {
	b.t.Helper()
	b.do("expect(" + quoted(b.t, want) + ")")
	do()
	b.wait("seen.has(" + quoted(b.t, want) + ")")
}

// asked runs a script that leaves the page, and answers the question of the browser whether to leave it.
func (b *tab) asked(leave bool, script string) {
	b.t.Helper()
	b.leaving <- leave
	b.do("setTimeout(() => {" + script + "}); undefined")
	for end := time.Now().Add(30 * time.Second); len(b.leaving) > 0; time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("the browser does not ask before %s", script)
		}
	}
}

// click clicks the visible button or link with a text.
func (b *tab) click(text string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("button,label,summary")].find(e => e.offsetParent && e.textContent.trim().startsWith(%q))`, text)
	b.wait(find)
	b.run(chromedp.Evaluate("("+find+").click()", nil))
}

// set chooses a value of an element, as the mouse does.
func (b *tab) set(element, value string) {
	b.t.Helper()
	b.do("{ const e = document.querySelector(" + quoted(b.t, element) + "); e.value = " + quoted(b.t, value) + `; e.dispatchEvent(new Event("change")); }`)
}

// narrow fails the test if what the page shows is wider than the window.
func (b *tab) narrow(where string) {
	b.t.Helper()
	if wide := b.eval(`document.documentElement.scrollWidth > innerWidth`); wide != "false" {
		b.t.Errorf("%s is wider than the window", where)
	}
}

// screenshot writes a picture to the directory that ESPALIER_SHOTS names, if it is set.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv("ESPALIER_SHOTS")
	if dir == "" {
		return
	}
	var picture []byte
	if err := chromedp.Run(b.ctx, chromedp.Sleep(250*time.Millisecond), chromedp.CaptureScreenshot(&picture)); err != nil {
		b.t.Log(err)
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
