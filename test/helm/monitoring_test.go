package helm

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestAlertsOfChart checks that the alerts in deploy/monitoring match the metrics that Prometheus scrapes for
// the chart, whatever the release is named: the ServiceMonitor names the label of the Service that has their job.
func TestAlertsOfChart(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := os.ReadFile("../../deploy/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var jobs []string
	for _, m := range regexp.MustCompile(`job="([^"]*)"`).FindAllSubmatch(alerts, -1) {
		jobs = append(jobs, string(m[1]))
	}
	slices.Sort(jobs)
	if jobs = slices.Compact(jobs); len(jobs) != 1 {
		t.Fatalf("the alerts have the jobs %q", jobs)
	}
	// helm, another process, reads the chart: go test repeats the test after a change only of what the test itself has read.
	if _, err := os.ReadDir(ownChart + "/templates"); err != nil {
		t.Fatal(err)
	}
	for _, release := range []string{"espalier", "prod"} {
		cmd := exec.CommandContext(t.Context(), self, "template", release, ownChart, "--kube-version", "1.37.0", "--set", "metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.secretName=metrics")
		cmd.Env = append(os.Environ(), asHelm+"=1", "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var monitor struct {
			Spec struct {
				JobLabel  string `json:"jobLabel"`
				Endpoints []struct {
					Relabelings []struct{ Regex, Action string } `json:"relabelings"`
				} `json:"endpoints"`
			} `json:"spec"`
		}
		services := map[string]corev1.Service{}
		for _, text := range strings.Split(string(out), "\n---\n") {
			switch {
			case strings.Contains(text, "kind: ServiceMonitor\n"):
				if err := yaml.Unmarshal([]byte(text), &monitor); err != nil {
					t.Fatal(err)
				}
			case strings.Contains(text, "kind: Service\n"):
				var s corev1.Service
				if err := yaml.Unmarshal([]byte(text), &s); err != nil {
					t.Fatal(err)
				}
				services[s.Name] = s
			}
		}
		scraped := services[monitor.Spec.Endpoints[0].Relabelings[0].Regex]
		if got := scraped.Labels[monitor.Spec.JobLabel]; got != jobs[0] {
			t.Errorf("release %s: Prometheus has the job %q, the alerts %q:\n%s", release, got, jobs[0], out)
		}
	}
}
