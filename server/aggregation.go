package server

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"espalier.dev/server/aggregator"
	"espalier.dev/server/definitions"
	"espalier.dev/server/pki"
	"espalier.dev/server/publish"
	"espalier.dev/server/webhooks"
)

// proxyConfig returns the configuration of the certificate with which the server proxies requests.
func proxyConfig(o *Options) pki.Config {
	c := pkiConfig(o)
	c.Dir = filepath.Join(c.Dir, "front-proxy")
	return c
}

// ensureProxy creates or renews the server's own client certificate for extension servers, if it uses one,
// and reports whether it has changed.
func (id *identity) ensureProxy() (changed bool, err error) {
	if id.proxyConfig == nil {
		return false, nil
	}
	p, err := pki.EnsureProxy(*id.proxyConfig)
	if err != nil {
		return false, err
	}
	old := id.proxy.Swap(p)
	return old != nil && string(old.Client.Cert) != string(p.Client.Cert), nil
}

// newAggregator returns what proxies requests to other servers, and adds its controllers.
func newAggregator(f *foundation, defs *definitions.Definitions, published []publish.Fixed) (*aggregator.Aggregator, error) {
	elsewhere, err := webhooks.ParseServices(f.options.ServiceResolver)
	if err != nil {
		return nil, fmt.Errorf("--service-resolver: %w", err)
	}
	var own []runtimeschema.GroupVersion
	for _, p := range published {
		for _, v := range p.Definition.Versions() {
			if gv := v.GroupVersionKind().GroupVersion(); v.Served() && !slices.Contains(own, gv) {
				own = append(own, gv)
			}
		}
	}
	config := aggregator.Config{
		Store: f.db.store, Objects: f.stored,
		Services: f.network.Services(), Elsewhere: elsewhere, Dial: aggregator.Closing(f.network.Dial),
		Certificate: func() (cert, key []byte) {
			p := f.identity.proxy.Load()
			return p.Client.Cert, p.Client.Key
		},
		Loopback: f.config.LoopbackClientConfig,
		Own:      own, Catalog: defs.Catalog,
		Timeout:  f.options.RequestTimeout,
		MaxReads: f.options.MaxRequestsInFlight, MaxWrites: f.options.MaxMutatingRequestsInFlight, Mutates: mutates,
		Serializer: f.codecs, Drained: f.config.DrainedNotify(),
		Passive: f.options.past() > 0,
	}
	var notifier dynamiccertificates.Notifier = f.identity
	if f.options.ProxyClientCertFile != "" {
		files, err := dynamiccertificates.NewDynamicServingContentFromFiles("aggregator-proxy-cert", f.options.ProxyClientCertFile,
			f.options.ProxyClientKeyFile)
		if err != nil {
			return nil, fmt.Errorf("read --proxy-client-cert-file and --proxy-client-key-file: %w", err)
		}
		config.Certificate, notifier = files.CurrentCertKeyContent, files
		f.controllers.add(controller{name: "proxy-certificate", run: func(ctx context.Context) error {
			files.Run(ctx, 1)
			return nil
		}})
	}
	a := aggregator.New(config)
	notifier.AddListener(a)
	defs.Subscribe(a.Changed)
	f.controllers.add(controller{name: "apiservices", synced: a.Loaded(), run: a.Run})
	if !config.Passive {
		f.controllers.add(controller{name: "aggregation", run: a.RunControllers})
	}
	return a, nil
}

// trust returns the data of the config map from which extension servers learn whom to believe: users by
// their certificates, and proxies, this server among them, that send the names of users.
func trust(f *foundation) (map[string]string, error) {
	data := map[string]string{"client-ca-file": string(f.authentication.ClientCAs())}
	var bundle []byte
	users, uids, groups, extras := []string{"X-Remote-User"}, []string{"X-Remote-Uid"}, []string{"X-Remote-Group"}, []string{"X-Remote-Extra-"}
	names := []string{}
	if p := f.identity.proxy.Load(); p != nil {
		bundle, names = p.CA.Cert, append(names, pki.ProxyUser)
	}
	if p := f.authentication.Proxy; p != nil {
		bundle = slices.Concat(bundle, p.CAContentProvider.CurrentCABundleContent())
		users, uids = union(users, p.UsernameHeaders.Value()), union(uids, p.UIDHeaders.Value())
		groups, extras = union(groups, p.GroupHeaders.Value()), union(extras, p.ExtraHeaderPrefixes.Value())
		if allowed := p.AllowedClientNames.Value(); len(allowed) > 0 {
			names = union(names, allowed)
		} else {
			names = []string{} // all names
		}
	}
	if len(bundle) == 0 {
		return data, nil
	}
	data["requestheader-client-ca-file"] = string(bundle)
	for key, list := range map[string][]string{
		"requestheader-username-headers": users, "requestheader-uid-headers": uids, "requestheader-group-headers": groups,
		"requestheader-extra-headers-prefix": extras, "requestheader-allowed-names": names,
	} {
		text, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		data[key] = string(text)
	}
	return data, nil
}

// union returns the elements of both lists.
func union(a, b []string) []string {
	for _, one := range b {
		if !slices.Contains(a, one) {
			a = append(a, one)
		}
	}
	return a
}
