// Command start measures kube-apiserver and etcd in directories for envtest: the time from the
// start of the processes until they are healthy, the time of Environment.Start, their memory, and
// the time to stop.
//
//	go run ./start [-rounds N] ESPALIER [REAL]
//
// ESPALIER is the directory of espalier, REAL that of the real programs. Both are measured in
// turns, and so is the Environment of espaliertest. The values are medians.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"espalier.dev/espaliertest"
	"espalier.dev/internal/process/setup"
)

// settle is the time between healthy and the measurement of memory, because programs keep
// initializing after they report that they are healthy.
const settle = 2 * time.Second

// figures are those of one round. Memory is in bytes.
type figures struct {
	etcd, apiserver, environment, imported, stop time.Duration
	resident, proportional                       int64
}

func main() {
	rounds := flag.Int("rounds", 5, "`number` of measurements")
	flag.Parse()
	if flag.NArg() < 1 || flag.NArg() > 2 || *rounds < 1 {
		fmt.Fprintln(os.Stderr, "start needs the directory of espalier, and optionally that of the real programs")
		os.Exit(2)
	}
	klog.SetLogger(logr.Discard()) // of the server that runs in this process
	log.SetLogger(logr.Discard())  // of controller-runtime
	all := make([][]figures, flag.NArg())
	for range *rounds {
		for i, dir := range flag.Args() {
			f, err := round(dir, i == 0)
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", dir, err)
				os.Exit(1)
			}
			all[i] = append(all[i], f)
		}
	}
	printTable(os.Stdout, all)
}

// round measures the programs in a directory once, and the Environment of espaliertest if ours.
func round(dir string, ours bool) (figures, error) {
	f, err := measure(dir)
	if err != nil {
		return f, err
	}
	if f.environment, err = environment(&envtest.Environment{BinaryAssetsDirectory: dir}); err != nil || !ours {
		return f, err
	}
	f.imported, err = environment(&espaliertest.Environment{})
	return f, err
}

// environment returns the time of Environment.Start.
func environment(e interface {
	Start() (*rest.Config, error)
	Stop() error
}) (time.Duration, error) {
	began := time.Now()
	_, err := e.Start()
	return time.Since(began), errors.Join(err, e.Stop())
}

// measure starts both programs as envtest does.
func measure(dir string) (f figures, err error) {
	temp, err := os.MkdirTemp("", "start-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(temp)
	if err := writeCertificates(temp); err != nil {
		return f, err
	}
	ports, err := setup.FreePorts(3)
	if err != nil {
		return f, err
	}
	client := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	etcd, took, err := start(filepath.Join(dir, "etcd"), client+"/health",
		"--advertise-client-urls="+client, "--data-dir="+filepath.Join(temp, "data"), "--listen-client-urls="+client,
		fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", ports[1]), "--unsafe-no-fsync=true")
	if err != nil {
		return f, err
	}
	f.etcd = took
	apiserver, took, err := start(filepath.Join(dir, "kube-apiserver"), fmt.Sprintf("https://127.0.0.1:%d/healthz", ports[2]),
		"--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1", "--cert-dir="+temp, "--client-ca-file="+filepath.Join(temp, "apiserver.crt"),
		"--disable-admission-plugins=ServiceAccount", "--etcd-servers="+client, fmt.Sprintf("--secure-port=%d", ports[2]),
		fmt.Sprintf("--service-account-issuer=https://127.0.0.1:%d/", ports[2]), "--service-account-key-file="+filepath.Join(temp, "apiserver.crt"),
		"--service-account-signing-key-file="+filepath.Join(temp, "apiserver.key"), "--service-cluster-ip-range=10.0.0.0/24")
	if err != nil {
		return f, errors.Join(err, stop(etcd))
	}
	f.apiserver = took
	time.Sleep(settle)
	for _, cmd := range []*exec.Cmd{etcd, apiserver} {
		f.resident += memory(cmd, "status", "VmRSS:")
		f.proportional += memory(cmd, "smaps_rollup", "Pss:")
	}
	began := time.Now()
	err = errors.Join(stop(apiserver), stop(etcd))
	f.stop = time.Since(began)
	return f, err
}

// start starts a program, and returns when it is healthy.
func start(program, url string, args ...string) (*exec.Cmd, time.Duration, error) {
	cmd := exec.Command(program, args...)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	for time.Since(began) < 2*time.Minute {
		if resp, err := client.Get(url); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return cmd, time.Since(began), nil
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil, 0, errors.Join(fmt.Errorf("%s does not become healthy", program), stop(cmd))
}

// stop stops a process as envtest does. etcd ends with the signal.
func stop(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = cmd.Wait() // the exit code does not matter
	return nil
}

// memory returns a value of a file of a process in /proc, in bytes, or 0 if there is none.
func memory(cmd *exec.Cmd, file, name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			kB, _ := strconv.ParseInt(fields[1], 10, 64)
			return kB << 10
		}
	}
	return 0
}

// writeCertificates writes a serving certificate, which also serves as the CA of clients and as
// the key of service accounts.
func writeCertificates(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "apiserver.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(filepath.Join(dir, "apiserver.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600),
	)
}
