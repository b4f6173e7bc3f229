// Command start measures kube-apiserver and etcd in directories for envtest: the time from the
// start of the processes until they are healthy, the time of envtest's Environment.Start, their
// memory, and the time to stop. Each argument is a directory. The values are medians.
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
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const rounds = 5

// figures are those of one round.
type figures struct {
	etcd, apiserver, environment, stop time.Duration
	memory                             int64 // in kB
}

func main() {
	for _, dir := range os.Args[1:] {
		var all []figures
		for range rounds {
			f, err := measure(dir)
			if err == nil {
				f.environment, err = environment(dir)
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", dir, err)
				os.Exit(1)
			}
			all = append(all, f)
		}
		median := func(of func(figures) int64) int64 {
			values := make([]int64, 0, rounds)
			for _, f := range all {
				values = append(values, of(f))
			}
			slices.Sort(values)
			return values[rounds/2]
		}
		duration := func(of func(figures) time.Duration) time.Duration {
			return time.Duration(median(func(f figures) int64 { return int64(of(f)) })).Round(time.Millisecond)
		}
		fmt.Printf("%s\n  etcd healthy %v, kube-apiserver healthy %v, both %v\n  Environment.Start %v, stop %v, memory %d MB\n", dir,
			duration(func(f figures) time.Duration { return f.etcd }), duration(func(f figures) time.Duration { return f.apiserver }),
			duration(func(f figures) time.Duration { return f.etcd + f.apiserver }), duration(func(f figures) time.Duration { return f.environment }),
			duration(func(f figures) time.Duration { return f.stop }), median(func(f figures) int64 { return f.memory })>>10)
	}
}

// environment returns the time of Environment.Start.
func environment(dir string) (time.Duration, error) {
	e := &envtest.Environment{BinaryAssetsDirectory: dir}
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
	ports, err := freePorts(3)
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
	f.memory = resident(etcd) + resident(apiserver)
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

// resident returns the resident memory of a process in kB.
func resident(cmd *exec.Cmd) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kB, _ := strconv.ParseInt(fields[1], 10, 64)
			return kB
		}
	}
	return 0
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
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
