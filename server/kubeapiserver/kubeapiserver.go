// Package kubeapiserver runs the API server with the command line of kube-apiserver, for
// programs that start one, such as envtest. As with kube-apiserver, no controllers run: there is
// no garbage collection, and a deleted namespace stays Terminating.
package kubeapiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"

	"espalier.dev/schema"
	"espalier.dev/server"
)

const (
	// serverLease is short, because suites kill servers, and then the next one waits for the
	// lease before it establishes CRDs. A server that loses its lease registers again.
	serverLease = 3 * time.Second
	// etcdTimeout is the time to wait for etcd to listen, as in kube-apiserver.
	etcdTimeout = 20 * time.Second
	etcdPoll    = 10 * time.Millisecond
	// helpWidth is the width of the help text.
	helpWidth = 100
)

// command is a parsed command line.
type command struct {
	options *server.Options
	flags   *flags
	// certDir is the directory with the serving certificate, apiserver.crt and apiserver.key.
	certDir       string
	help, version bool
	verbosity     uint32
	format        string
	// notes are logged when the log is set up.
	notes []string
}

// defaults returns the values that flags of kube-apiserver have by default, if they differ from
// those of espalier serve.
func defaults() map[string]string {
	return map[string]string{
		"anonymous-auth":     "true",
		"authorization-mode": "AlwaysAllow",
		"bind-address":       "0.0.0.0",
		"profiling":          "true",
		// Suites send from one user what their tests need, and compare how long it takes.
		"enable-priority-and-fairness": "false",
	}
}

// Apply sets options of a server from flags of kube-apiserver. The options keep their values if
// there is no flag. It returns the flags and values that have no effect, for the log.
func Apply(o *server.Options, args []string) (ignored []string, err error) {
	c := &command{options: o}
	if c.flags, err = newFlags(o, pflag.NewFlagSet("", pflag.ContinueOnError)); err != nil {
		return nil, err
	}
	if err := c.flags.set.Parse(args); err != nil {
		return nil, err
	}
	if err := c.selectGates(); err != nil {
		return nil, err
	}
	c.selectPlugins()
	c.selectModes()
	c.completeAudit()
	if names := c.flags.given(); len(names) > 0 {
		c.notes = append(c.notes, ineffective+": "+strings.Join(names, " "))
	}
	return c.notes, nil
}

// ineffective is the message about flags without effect.
const ineffective = "These flags of kube-apiserver have no effect in this server"

// newCommand returns a command line with kube-apiserver's defaults.
func newCommand() (*command, error) {
	c := &command{options: server.NewOptions()}
	o := c.options
	o.Semantics = schema.Kubernetes
	o.Controllers = nil
	o.ServerLease = serverLease
	o.Ephemeral = true // do not wait for clients at the end

	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringVar(&c.certDir, "cert-dir", "",
		"`directory` with the serving certificate apiserver.crt and its key apiserver.key, unless --tls-cert-file is set (default: a new certificate)")
	own.BoolVarP(&c.help, "help", "h", false, "print this help")
	own.BoolVar(&c.version, "version", false, "print the version and exit")
	own.Uint32VarP(&c.verbosity, "v", "v", 0, "log verbosity, a `number`")
	own.StringVar(&c.format, "logging-format", "text", "log `format`: text or json")
	own.Lookup("version").NoOptDefVal = "true"
	var err error
	if c.flags, err = newFlags(o, own); err != nil {
		return nil, err
	}
	for name, value := range defaults() {
		flag := c.flags.set.Lookup(name)
		if flag == nil || c.flags.ignored[name] {
			continue
		}
		var err error
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			err = list.Replace([]string{value}) // the first value of the command line replaces it
		} else {
			err = flag.Value.Set(value)
		}
		if err != nil {
			return nil, fmt.Errorf("set the default of --%s: %w", name, err)
		}
		flag.DefValue = value
	}
	return c, nil
}

// Main runs the server until ctx is done, and returns the exit code of the process.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := newCommand()
	if err == nil {
		err = c.flags.set.Parse(args)
	}
	if err == nil && len(c.flags.set.Args()) > 0 {
		err = fmt.Errorf("%q does not take any arguments, got %q", "kube-apiserver", c.flags.set.Args())
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "Error: %v\n", err)
		return 1
	case c.help:
		c.printHelp(stdout)
		return 0
	case c.version:
		fmt.Fprintf(stdout, "Kubernetes v%s+espalier\n", server.KubernetesVersion)
		return 0
	}
	if err := server.SetupLogging(stderr, c.format, c.verbosity); err != nil {
		fmt.Fprintf(stderr, "Error: %v\n", err)
		return 1
	}
	defer server.FlushLogs()
	if err := c.run(ctx); err != nil {
		klog.ErrorS(err, "command failed")
		return 1
	}
	return 0
}

func (c *command) printHelp(w io.Writer) {
	fmt.Fprint(w, `Espalier's API server with the command line of kube-apiserver, for envtest and similar programs.
No controllers run. "espalier serve --help" describes the server.

Usage:
  kube-apiserver [flags]
`)
	for _, name := range c.flags.sections.Order {
		title := strings.ReplaceAll(strings.ToUpper(name[:1])+name[1:], "-", " ")
		fmt.Fprintf(w, "\n%s flags:\n\n%s", title, c.flags.sections.FlagSets[name].FlagUsagesWrapped(helpWidth))
	}
}

// run starts the server and returns when it has stopped.
func (c *command) run(ctx context.Context) error {
	remove, err := c.complete()
	if err != nil {
		return err
	}
	defer remove()
	if names := c.flags.given(); len(names) > 0 {
		klog.InfoS(ineffective, "flags", strings.Join(names, " "))
	}
	for _, note := range c.notes {
		klog.InfoS(note)
	}
	o := c.options
	if err := o.Validate(); err != nil {
		return err
	}
	if err := checkPort(ctx, o); err != nil {
		return err
	}
	awaitEtcd(ctx, o.Etcd.URLs)
	s, err := server.Start(ctx, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // stopped while it was starting
	case err != nil:
		return err
	}
	klog.InfoS("The API server is ready", "url", s.URL())
	select {
	case <-ctx.Done():
		// The next signal kills the process, and then this is the last line of the log.
		klog.InfoS("The API server is stopping", "cause", context.Cause(ctx))
	case <-s.Done():
	}
	return s.Stop()
}

// complete checks the flags that kube-apiserver requires, and sets the options that depend on
// others. It returns a function that removes temporary files.
func (c *command) complete() (remove func(), err error) {
	var errs []error
	o := c.options
	if len(o.Etcd.URLs) == 0 {
		errs = append(errs, errors.New("--etcd-servers must be specified"))
	}
	issuer, key := c.flags.set.Changed("service-account-issuer"), c.flags.set.Changed("service-account-signing-key-file")
	if !issuer {
		errs = append(errs, errors.New("service-account-issuer is a required flag"))
	}
	if !issuer || !key {
		errs = append(errs, errors.New("--service-account-signing-key-file and --service-account-issuer are required flags"))
	}
	errs = append(errs, c.selectGates(), c.selectAnonymous())
	c.selectPlugins()
	c.selectModes()
	c.completeAudit()
	if err := utilerrors.NewAggregate(errs); err != nil {
		return nil, err
	}

	if c.certDir == "" {
		dir, err := os.MkdirTemp("", "kube-apiserver-")
		if err != nil {
			return nil, fmt.Errorf("create a directory for certificates: %w", err)
		}
		o.DataDir = dir
		return func() { _ = os.RemoveAll(dir) }, nil // the system cleans up what remains
	}
	// Servers may share the directory, but not the address. A server that was killed leaves the
	// directory to the next one.
	address := strings.NewReplacer(":", "_", ".", "_").Replace(o.BindAddress)
	o.DataDir = filepath.Join(c.certDir, fmt.Sprintf("espalier-%s-%d", address, o.SecurePort))
	if o.TLSCertFile == "" && o.TLSPrivateKeyFile == "" {
		cert, key := filepath.Join(c.certDir, "apiserver.crt"), filepath.Join(c.certDir, "apiserver.key")
		if exists(cert) && exists(key) {
			o.TLSCertFile, o.TLSPrivateKeyFile = cert, key
		}
	}
	return func() {}, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// completeAudit drops combinations of audit flags that kube-apiserver accepts and that record
// nothing.
func (c *command) completeAudit() {
	o := c.options
	if o.AuditPolicyFile == "" && (o.AuditLogPath != "" || o.AuditWebhookConfigFile != "") {
		c.notes = append(c.notes, "No audit policy file provided, no events will be recorded")
		o.AuditLogPath, o.AuditWebhookConfigFile = "", ""
	}
	if o.AuditLogPath == "" && o.AuditWebhookConfigFile == "" {
		o.AuditPolicyFile = ""
	}
}

// checkPort returns an error, with the words of kube-apiserver, if the port is not free.
func checkPort(ctx context.Context, o *server.Options) error {
	address := net.JoinHostPort(o.BindAddress, strconv.Itoa(o.SecurePort))
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("failed to create listener: failed to listen on %s: %w", address, err)
	}
	return l.Close()
}

// awaitEtcd waits until a member accepts connections, because etcd may be started at the same
// time. If none does, the server reports why.
func awaitEtcd(ctx context.Context, urls []string) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	for {
		for _, url := range urls {
			network, address := "tcp", url
			if rest, ok := strings.CutPrefix(url, "unix://"); ok {
				network, address = "unix", rest
			} else if _, rest, ok := strings.Cut(url, "://"); ok {
				address = rest
			}
			var dialer net.Dialer
			if conn, err := dialer.DialContext(ctx, network, strings.TrimSuffix(address, "/")); err == nil {
				_ = conn.Close()
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(etcdPoll):
		}
	}
}
