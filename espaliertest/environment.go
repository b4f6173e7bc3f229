package espaliertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Environment has the fields and methods of the Environment of controller-runtime's package
// envtest. To replace envtest in a test, change one import:
//
//	import envtest "espalier.dev/espaliertest"
//
// It runs a server in the process of the test instead of the programs kube-apiserver and etcd.
// As with envtest, no controllers run. These parts differ:
//   - CRDs accepts CRDs of any type, because this package does not depend on
//     k8s.io/apiextensions-apiserver. It does not have the installed CRDs afterwards.
//   - ControlPlane only has the flags of the API server.
//   - Users have no method Kubectl.
//   - The fields about binaries have no effect.
//
// The zero value is ready to use.
type Environment struct {
	// ControlPlane configures the flags of the API server.
	ControlPlane ControlPlane

	// Scheme has the Go types of custom resources. CRDs whose types implement conversions, as
	// defined by controller-runtime, get a conversion webhook. Nil means the scheme of client-go.
	Scheme *runtime.Scheme

	// Config is the configuration of an administrator's client. Start sets it. If
	// UseExistingCluster is set, it selects the cluster.
	Config *rest.Config
	// KubeConfig is the same as a kubeconfig file. Start sets it, but not in a bubble of testing/synctest.
	KubeConfig []byte

	// CRDInstallOptions configures the installation of CRDs.
	CRDInstallOptions CRDInstallOptions
	// WebhookInstallOptions configures the installation of webhooks.
	WebhookInstallOptions WebhookInstallOptions
	// ErrorIfCRDPathMissing makes Start fail if a path of CRDs does not exist.
	ErrorIfCRDPathMissing bool
	// CRDs is a slice of CRDs to install, of any type that [Server.InstallCRDs] accepts as an
	// object, in addition to those of CRDInstallOptions.
	CRDs any
	// CRDDirectoryPaths are files and directories with CRDs to install, in addition to those
	// of CRDInstallOptions.
	CRDDirectoryPaths []string

	// UseExistingCluster makes Start use the cluster of Config, or that of the current
	// kubeconfig, instead of a new server. If it is nil, the environment variable
	// USE_EXISTING_CLUSTER decides.
	UseExistingCluster *bool

	// ControlPlaneStartTimeout is the maximum time of the start. The default is a minute.
	ControlPlaneStartTimeout time.Duration

	// The following fields have no effect: there are no binaries, and a server that stops does
	// not wait for clients.

	DownloadBinaryAssets         bool
	DownloadBinaryAssetsVersion  string
	DownloadBinaryAssetsIndexURL string
	BinaryAssetsDirectory        string
	ControlPlaneStopTimeout      time.Duration
	AttachControlPlaneOutput     bool

	server *Server
}

// CRDInstallOptions configures the installation of CRDs.
type CRDInstallOptions struct {
	// Scheme is that of the Environment by default.
	Scheme *runtime.Scheme
	// Paths are files and directories with CRDs.
	Paths []string
	// CRDs is a slice of CRDs of any type.
	CRDs any
	// ErrorIfPathMissing makes the installation fail if a path does not exist.
	ErrorIfPathMissing bool
	// MaxTime is the maximum time to wait until the CRDs are served. The default is a minute.
	MaxTime time.Duration
	// PollInterval has no effect: the installation waits for events.
	PollInterval time.Duration
	// CleanUpAfterUse deletes the CRDs at the end.
	CleanUpAfterUse bool
	// WebhookOptions has the address and the CA for conversion webhooks. That of the Environment
	// is set by it.
	WebhookOptions WebhookInstallOptions
}

// User is a user to add to an Environment.
type User struct {
	Name   string
	Groups []string
}

// AuthenticatedUser is a user that was added.
type AuthenticatedUser struct{ config *rest.Config }

// Config returns a client configuration of the user.
func (u *AuthenticatedUser) Config() *rest.Config { return u.config }

// KubeConfig returns the contents of a kubeconfig file of the user.
func (u *AuthenticatedUser) KubeConfig() ([]byte, error) { return KubeConfigFromREST(u.config) }

// Start starts a server and installs CRDs and webhooks. It returns the configuration of an
// administrator's client. The caller must call Stop, also if Start fails.
func (e *Environment) Start() (*rest.Config, error) {
	if err := e.connect(); err != nil {
		return nil, err
	}
	if len(e.KubeConfig) == 0 && e.Config.Dial == nil {
		var err error
		if e.KubeConfig, err = KubeConfigFromREST(e.Config); err != nil {
			return nil, err
		}
	}
	if e.Scheme == nil {
		e.Scheme = scheme.Scheme
	}
	if err := e.WebhookInstallOptions.PrepWithoutInstalling(); err != nil {
		return nil, err
	}
	o := &e.CRDInstallOptions
	if o.Scheme == nil {
		o.Scheme = e.Scheme
	}
	crds, err := join(o.CRDs, e.CRDs)
	if err != nil {
		return nil, err
	}
	o.CRDs = crds
	o.Paths = append(o.Paths, e.CRDDirectoryPaths...)
	o.ErrorIfPathMissing = o.ErrorIfPathMissing || e.ErrorIfCRDPathMissing
	o.WebhookOptions = e.WebhookInstallOptions
	if _, err := InstallCRDs(e.Config, *o); err != nil {
		return e.Config, fmt.Errorf("install CRDs: %w", err)
	}
	if err := e.WebhookInstallOptions.Install(e.Config); err != nil {
		return nil, fmt.Errorf("install webhooks: %w", err)
	}
	return e.Config, nil
}

// connect starts a server, or finds the existing cluster, and sets Config.
func (e *Environment) connect() error {
	if e.existing() {
		if e.Config != nil {
			return nil
		}
		loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil)
		config, err := loader.ClientConfig()
		if err != nil {
			return fmt.Errorf("find the existing cluster: %w", err)
		}
		e.Config = config
		return nil
	}
	if e.server != nil {
		return errors.New("the environment is started already")
	}
	server, err := Run(WithoutControllers(), e.ControlPlane.GetAPIServer().flags(), func(s *settings) {
		if e.ControlPlaneStartTimeout > 0 {
			s.timeout = e.ControlPlaneStartTimeout
		}
	})
	if err != nil {
		return err
	}
	e.server = server
	e.Config, e.KubeConfig = server.Config(), nil // those of an earlier start are of another server
	// As in envtest.
	e.Config.QPS, e.Config.Burst = 1000, 2000
	return nil
}

func (e *Environment) existing() bool {
	if e.UseExistingCluster != nil {
		return *e.UseExistingCluster
	}
	existing, _ := strconv.ParseBool(os.Getenv("USE_EXISTING_CLUSTER")) // anything else is false, as in envtest
	return existing
}

// Stop stops the server and removes its files.
func (e *Environment) Stop() error {
	var errs []error
	if e.CRDInstallOptions.CleanUpAfterUse && e.Config != nil && (e.server != nil || e.existing()) {
		errs = append(errs, UninstallCRDs(e.Config, e.CRDInstallOptions))
	}
	errs = append(errs, e.WebhookInstallOptions.Cleanup())
	if e.server != nil {
		errs = append(errs, e.server.Stop())
		e.server = nil
	}
	return errors.Join(errs...)
}

// AddUser adds a user with a client certificate. The settings of base, such as its rate limit,
// are those of the returned configuration; it may be nil.
func (e *Environment) AddUser(user User, base *rest.Config) (*AuthenticatedUser, error) {
	if e.server == nil {
		return nil, errors.New("add a user: the environment has no server: call Start before")
	}
	config, err := e.server.server.UserConfig(user.Name, user.Groups...)
	if err != nil {
		return nil, fmt.Errorf("add the user %q: %w", user.Name, err)
	}
	if base != nil {
		merged := rest.CopyConfig(base)
		merged.Host, merged.TLSClientConfig = config.Host, config.TLSClientConfig
		if config.Dial != nil {
			merged.Dial = config.Dial
		}
		config = merged
	}
	return &AuthenticatedUser{config: config}, nil
}

// Server returns the server, for [Server.Reset] and others. It is nil before Start, and with an
// existing cluster.
func (e *Environment) Server() *Server { return e.server }

// KubeConfigFromREST returns the contents of a kubeconfig file.
func KubeConfigFromREST(config *rest.Config) ([]byte, error) {
	if config.Dial != nil {
		return nil, errors.New("a client configuration with Dial, such as that of a server in a bubble of testing/synctest, cannot be a kubeconfig: use the configuration itself")
	}
	const name = "envtest"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{
		Server: config.Host, CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile,
		InsecureSkipTLSVerify: config.Insecure, TLSServerName: config.ServerName,
	}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientCertificate: config.CertFile,
		ClientKeyData: config.KeyData, ClientKey: config.KeyFile,
		Token: config.BearerToken, TokenFile: config.BearerTokenFile, Username: config.Username, Password: config.Password,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	return clientcmd.Write(*file)
}

// InstallCRDs installs CRDs, and returns them when they are served.
func InstallCRDs(config *rest.Config, o CRDInstallOptions) ([]*unstructured.Unstructured, error) {
	crds, err := o.read()
	if err != nil || len(crds) == 0 {
		return nil, err
	}
	if o.Scheme == nil {
		o.Scheme = scheme.Scheme
	}
	for _, crd := range crds {
		if err := o.WebhookOptions.convert(crd, o.Scheme); err != nil {
			return nil, err
		}
	}
	if o.MaxTime == 0 {
		o.MaxTime = timeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.MaxTime)
	defer cancel()
	return crds, install(ctx, config, crds)
}

// UninstallCRDs deletes CRDs.
func UninstallCRDs(config *rest.Config, o CRDInstallOptions) error {
	crds, err := o.read()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for _, crd := range crds {
		if err := client.Resource(crdResource("v1")).Delete(ctx, crd.GetName(),
			metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("uninstall %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// read returns the CRDs of the options.
func (o *CRDInstallOptions) read() ([]*unstructured.Unstructured, error) {
	sources, err := elements(o.CRDs)
	if err != nil {
		return nil, err
	}
	for _, path := range o.Paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !o.ErrorIfPathMissing {
			continue
		}
		found, err := readFlat(path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		for _, crd := range found {
			sources = append(sources, crd)
		}
	}
	return readCRDs(sources)
}

// elements returns the elements of a slice of any type; nil has none.
func elements(slice any) ([]any, error) {
	if slice == nil {
		return nil, nil
	}
	v := reflect.ValueOf(slice)
	if v.Kind() != reflect.Slice || v.Type().Elem().Kind() == reflect.Uint8 {
		return nil, fmt.Errorf("the field CRDs is of type %T: must be a slice of CRDs", slice)
	}
	var out []any
	for i := range v.Len() {
		out = append(out, v.Index(i).Interface())
	}
	return out, nil
}

// join returns the elements of both slices.
func join(a, b any) (any, error) {
	first, err := elements(a)
	if err != nil {
		return nil, err
	}
	second, err := elements(b)
	return append(first, second...), err
}
