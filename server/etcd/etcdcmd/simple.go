package etcdcmd

import (
	"context"
	"flag"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"go.etcd.io/etcd/pkg/v3/osutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"espalier.dev/server/etcd"
)

// simple returns the configuration of a member if the command line has only the flags that
// envtest passes. Otherwise it returns nil, and etcd has to read the flags, the environment and
// the configuration file, and report mistakes.
func simple(args, environ []string) *embed.Config {
	if slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, "ETCD_") }) {
		return nil
	}
	c := embed.NewConfig()
	c.ElectionMs = 5 * c.TickMs // the minimum, for the case that the first election fails
	initial := c.InitialCluster
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&c.Dir, "data-dir", "", "")
	flags.BoolVar(&c.UnsafeNoFsync, "unsafe-no-fsync", false, "")
	urls := map[string]*[]url.URL{
		"advertise-client-urls": &c.AdvertiseClientUrls,
		"listen-client-urls":    &c.ListenClientUrls,
		"listen-peer-urls":      &c.ListenPeerUrls,
	}
	for name, to := range urls {
		flags.Func(name, "", func(value string) error {
			u, err := url.Parse(value)
			if err == nil {
				*to = []url.URL{*u} // the last value counts
			}
			return err
		})
	}
	if len(args) < 2 || flags.Parse(args[1:]) != nil || flags.NArg() > 0 {
		return nil
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, to := range urls {
		// Several URLs are left to etcd, and so are mistakes.
		if u := (*to)[0]; !given[name] || u.Scheme != "http" || u.Host == "" || u.Path != "" || strings.Contains(u.Host, ",") {
			return nil
		}
	}
	entries, err := os.ReadDir(c.Dir)
	if c.Dir == "" || err != nil && !os.IsNotExist(err) || slices.ContainsFunc(entries,
		func(e os.DirEntry) bool { return e.Name() != "member" }) {
		return nil
	}
	if _, err := c.UpdateDefaultClusterFromName(initial); err != nil || c.Validate() != nil {
		return nil
	}
	return c
}

// run runs the member until the process gets a signal. It returns if the member does not start:
// then etcd tries the same, and reports why.
func run(c *embed.Config) {
	grpc.EnableTracing = false
	log := c.GetLogger()
	c.SetupGlobalLoggers()
	e, err := embed.StartEtcd(c)
	if err != nil {
		log.Warn("failed to start", zap.Error(err))
		return
	}
	osutil.RegisterInterruptHandler(e.Close)
	// If it has stopped, the channels below say so.
	_ = etcd.Elect(context.Background(), e.Server)
	osutil.HandleInterrupts(log)
	select {
	case err := <-e.Err():
		log.Fatal("listener failed", zap.Error(err))
	case <-e.Server.StopNotify():
	}
	osutil.Exit(0)
}
