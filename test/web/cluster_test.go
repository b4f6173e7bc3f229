package web

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// server is a running espalier serve with its embedded etcd.
type server struct {
	t          *testing.T
	process    *exec.Cmd
	kubeconfig string
	url        string
	client     *http.Client
}

// startServer starts a server that the test ends.
func startServer(t *testing.T) *server {
	t.Helper()
	path, err := find("espalier")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &server{t: t, kubeconfig: filepath.Join(dir, "kubeconfig"), process: exec.Command(path, "serve", "--data-dir", dir, "--secure-port", "0")}
	var out bytes.Buffer
	s.process.Stdout, s.process.Stderr = &out, &out
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	var text []byte
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if text, err = os.ReadFile(s.kubeconfig); err == nil {
			break
		}
		if time.Now().After(end) {
			s.kill()
			t.Fatalf("the server is not ready: %s", out.String())
		}
	}
	data := func(name string) []byte {
		t.Helper()
		found := regexp.MustCompile(name + `: (\S+)`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("no %s in the kubeconfig", name)
		}
		value, err := base64.StdEncoding.DecodeString(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	s.url = string(regexp.MustCompile(`server: (\S+)`).FindSubmatch(text)[1])
	pair, err := tls.X509KeyPair(data("client-certificate-data"), data("client-key-data"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(data("certificate-authority-data"))
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}}, Timeout: 20 * time.Second}
	return s
}

// kill ends the server.
func (s *server) kill() {
	_ = s.process.Process.Kill()
	_, _ = s.process.Process.Wait()
}

// send sends a request, which must succeed.
func (s *server) send(method, path, kind, body string) {
	s.t.Helper()
	if status, text := s.request(method, path, kind, body); status > 299 {
		s.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
}

// create creates an object. The resource is served a moment after its CRD was created.
func (s *server) create(path, kind, body string) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		status, text := s.request("POST", path, kind, body)
		if status < 300 {
			return
		}
		if status != http.StatusNotFound || time.Now().After(end) {
			s.t.Fatalf("POST %s: %d %s", path, status, text)
		}
	}
}

// request sends a request, and returns the status and the text of the answer.
func (s *server) request(method, path, kind, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

const (
	crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	jobsPath = "/apis/stable.example.com/v1/namespaces/default/crontabs"
)

// clusterCRD returns a CRD with two versions.
func clusterCRD(group, description string, minimum int) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, listKind: CronTabList, shortNames: [ct]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Schedule, type: string, jsonPath: .spec.schedule}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: %[2]q
        properties:
          spec:
            type: object
            properties:
              schedule: {type: string}
              replicas: {type: integer, minimum: %[3]d}
              policy: {type: string, enum: [Allow, Forbid], default: Allow}
  - name: v1beta1
    served: true
    storage: false
    deprecated: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              schedule: {type: string}
`, group, description, minimum)
}

// fillServer creates CRDs and objects, some of which do not comply.
func fillServer(s *server) {
	s.t.Helper()
	const yaml = "application/yaml"
	s.send("POST", crdsPath, yaml, clusterCRD("stable.example.com", "A schedule.", 1))
	s.send("POST", crdsPath, yaml, clusterCRD("other.example.com", script, 1))
	for i := range 60 {
		s.create(jobsPath, yaml, fmt.Sprintf("apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: job-%02d}\nspec: {schedule: '%d * * * *', replicas: %d}\n", i, i, i%5+1))
	}
	s.send("PATCH", crdsPath+"/crontabs.stable.example.com", "application/json-patch+json",
		`[{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/replicas/minimum", "value": 2}]`)
}

func (s *server) patch(name, text string) {
	s.t.Helper()
	s.send("PATCH", jobsPath+"/"+name, "application/merge-patch+json", text)
}

// crd clicks the CRD of a group.
func (b *tab) crd(group string) {
	b.t.Helper()
	find := `[...document.querySelectorAll(".crd")].find(e => e.textContent.includes("` + group + `"))`
	b.wait(find)
	b.do(find + ".click()")
}

// TestCluster looks into a server as a user does.
func TestCluster(t *testing.T) {
	t.Parallel()
	chromium(t)
	s := startServer(t)
	fillServer(s)
	b := open(t, serve(t, "--kubeconfig", s.kubeconfig, "--semantics", "kubernetes"), 1440, 900, false)
	b.text("2 CRDs")
	b.wait(`[...document.querySelectorAll(".crd .count")].some(e => e.textContent === "60")`)
	t.Run("the objects of a CRD", func(t *testing.T) {
		b.crd("stable.example.com")
		b.text("job-04")
		b.text("Established: True")
		b.text("1 problem")
		b.text("10 more objects")
		b.wait(`document.querySelector(".liveness")?.textContent === "live"`)
		b.screenshot("cluster-table")
		b.click("Next")
		b.text("job-55")
		b.click("Previous")
		b.text("job-04")
	})
	t.Run("a change appears", func(t *testing.T) {
		b.wait(`document.querySelector(".liveness")?.textContent === "live"`)
		s.patch("job-03", `{"spec": {"schedule": "changed by the test"}}`)
		b.text("changed by the test")
		s.send("DELETE", jobsPath+"/job-04", "application/json", "")
		b.wait(`![...document.querySelectorAll("td")].some(e => e.textContent === "job-04")`)
	})
	t.Run("what does not comply", func(t *testing.T) {
		b.click("Check all objects")
		b.text("12 of 59 objects do not comply")
		b.text("The server has checked what is stored.")
		b.screenshot("cluster-audit")
	})
	t.Run("an object in all versions, and why", func(t *testing.T) {
		b.click("job-00")
		b.text("What is stored does not comply with the CRD")
		b.text("v1beta1")
		b.click("policy: Allow")
		b.text("spec.policy")
		b.wait(`document.querySelector(".why")?.innerText.includes("nothing")`)
		b.screenshot("cluster-object")
	})
	t.Run("its changes", func(t *testing.T) {
		b.wait(`document.querySelector(".cluster-object .liveness")?.textContent === "live"`)
		s.patch("job-00", `{"spec": {"replicas": 7, "policy": "Forbid"}}`)
		b.wait(`document.querySelector(".change")?.innerText.includes("replicas: 7")`)
		b.text("What is stored complies with the CRD")
		b.run(chromedp.Evaluate(`document.querySelector(".change").scrollIntoView()`, nil))
		b.screenshot("cluster-changes")
	})
	t.Run("in the playground", func(t *testing.T) {
		b.click("Open in playground")
		b.text("Accepted: an API server would update this object")
		b.click("Cluster")
		b.text("What each version serves")
		b.click("← Objects")
		b.text("job-05")
		b.click("Schema")
		b.text("Namespaced resource crontabs of group stable.example.com")
		b.click("Cluster")
	})
	t.Run("scripts", func(t *testing.T) {
		b.crd("other.example.com")
		b.text("There are no objects.")
		s.create("/apis/other.example.com/v1/namespaces/default/crontabs", "application/json", `{"apiVersion": "other.example.com/v1", "kind": "CronTab", "metadata": {"name": "a"}, "spec": {"schedule": `+quoted(t, script)+`}}`)
		b.text("onerror")
		b.run(chromedp.Evaluate(`[...document.querySelectorAll("td button")].find(e => e.textContent === "a").click()`, nil))
		b.wait(`document.querySelector(".cluster-object .lines")?.innerText.includes("onerror")`)
		if got := b.eval(`document.querySelectorAll("main img, main script, iframe").length + " " + window.hacked`); got != "0 undefined" {
			t.Error(got)
		}
	})
	for _, size := range sizes {
		t.Run(size.name, func(t *testing.T) {
			b := open(t, serve(t, "--kubeconfig", s.kubeconfig, "--semantics", "kubernetes"), size.width, size.height, size.dark)
			b.text("2 CRDs")
			b.crd("stable.example.com")
			b.text("job-05")
			b.screenshot(size.name + "-cluster")
			b.accessible("cluster")
			b.click("job-05")
			b.click("replicas: 1")
			b.wait(`document.querySelector(".why dl")`)
			b.screenshot(size.name + "-cluster-object")
			b.accessible("object")
			b.narrow("object")
		})
	}
}

// TestClusterGone pauses a server, lets it continue, and kills it.
func TestClusterGone(t *testing.T) {
	t.Parallel()
	chromium(t)
	s := startServer(t)
	fillServer(s)
	b := open(t, serve(t, "--kubeconfig", s.kubeconfig, "--request-timeout", "2s"), 1200, 800, false)
	b.text("2 CRDs")
	b.crd("stable.example.com")
	b.text("job-05")
	b.wait(`document.querySelector(".liveness")?.textContent === "live"`)
	t.Run("hangs", func(t *testing.T) {
		if err := s.process.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		stopped(t, s.process.Process.Pid)
		b.click("Check all objects")
		b.wait(`document.querySelector(".crd-page .banner")?.innerText.includes("no answer in time")`)
		b.click("Playground")
		b.text("an API server would")
		b.click("Cluster")
		b.screenshot("cluster-hangs")
		if err := s.process.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		// The first answers of the server may take longer than a request may.
		for end := time.Now().Add(time.Minute); ; {
			b.click("Check all objects")
			b.wait(`!document.querySelector(".crd-page").innerText.includes("Checking…")`)
			got := b.eval(`document.querySelector(".crd-page .banner").innerText`)
			if strings.Contains(got, "12 of 60 objects do not comply") {
				break
			}
			if time.Now().After(end) {
				t.Fatal(got)
			}
		}
	})
	t.Run("dies", func(t *testing.T) {
		s.kill()
		b.text("not live:")
		b.text("The list shows what was known before.")
		b.screenshot("cluster-dies")
		b.click("Playground")
		b.text("an API server would")
	})
}

// stopped waits until all threads of a process have stopped: on a busy machine, some run on for a while.
func stopped(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		if err != nil || len(threads) == 0 {
			return // not Linux
		}
		running := slices.ContainsFunc(threads, func(name string) bool {
			text, err := os.ReadFile(name)
			return err == nil && !strings.Contains(string(text), "State:\tT")
		})
		if !running {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the process does not stop")
		}
	}
}
