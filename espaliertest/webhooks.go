package espaliertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"espalier.dev/api/manifest"
	"espalier.dev/internal/yamlx"
	"espalier.dev/server/pki"
)

// WebhookInstallOptions configures the webhooks of an [Environment]: their configurations, and
// the address and certificates with which the test serves them.
type WebhookInstallOptions struct {
	// Paths are files and directories with the configurations of webhooks.
	Paths []string
	// MutatingWebhooks and ValidatingWebhooks are configurations to install, in addition to
	// those of Paths.
	MutatingWebhooks   []*admissionv1.MutatingWebhookConfiguration
	ValidatingWebhooks []*admissionv1.ValidatingWebhookConfiguration

	// IgnoreSchemeConvertible sets the conversion webhook of all CRDs, even if the scheme does
	// not have their types.
	IgnoreSchemeConvertible bool
	// IgnoreErrorIfPathMissing skips paths that do not exist.
	IgnoreErrorIfPathMissing bool

	// LocalServingHost and LocalServingPort are the address on which the test serves webhooks.
	// By default, it is a free port of 127.0.0.1.
	LocalServingHost string
	LocalServingPort int
	// LocalServingCertDir is the directory with the serving certificate, tls.crt and tls.key,
	// and LocalServingCAData the CA that has signed it. Both are set by Start.
	LocalServingCertDir string
	LocalServingCAData  []byte
	// LocalServingHostExternalName is the host name in the URLs of webhooks, if it is not
	// LocalServingHost.
	LocalServingHostExternalName string

	// MaxTime is the maximum time of the installation. The default is a minute. PollInterval has
	// no effect: installed webhooks are called at once.
	MaxTime      time.Duration
	PollInterval time.Duration
}

// PrepWithoutInstalling chooses an address, makes certificates, and sets both in the
// configurations.
func (o *WebhookInstallOptions) PrepWithoutInstalling() error {
	if err := o.makeCertificate(); err != nil {
		return err
	}
	for _, path := range o.Paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && o.IgnoreErrorIfPathMissing {
			continue
		}
		if err := o.read(path); err != nil {
			return fmt.Errorf("read webhooks: %w", err)
		}
	}
	return o.ModifyWebhookDefinitions()
}

// makeCertificate makes the serving certificate of webhooks.
func (o *WebhookInstallOptions) makeCertificate() error {
	hosts := []string{"localhost", "127.0.0.1"}
	for _, host := range []string{o.LocalServingHost, o.LocalServingHostExternalName} {
		if host != "" {
			hosts = append(hosts, host)
		}
	}
	dir, err := os.MkdirTemp("", "envtest-serving-certs-")
	if err != nil {
		return fmt.Errorf("make a directory for the certificate of webhooks: %w", err)
	}
	o.LocalServingCertDir = dir
	bundle, err := pki.Ensure(pki.Config{Dir: filepath.Join(dir, "pki"), Hosts: hosts})
	if err != nil {
		return fmt.Errorf("make the certificate of webhooks: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), bundle.Serving.Cert, 0o600); err != nil {
		return fmt.Errorf("write the certificate of webhooks: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.key"), bundle.Serving.Key, 0o600); err != nil {
		return fmt.Errorf("write the certificate of webhooks: %w", err)
	}
	o.LocalServingCAData = bundle.CA.Cert
	return nil
}

// ModifyWebhookDefinitions sets the address and the CA in the configurations.
func (o *WebhookInstallOptions) ModifyWebhookDefinitions() error {
	address, err := o.address()
	if err != nil {
		return err
	}
	set := func(c *admissionv1.WebhookClientConfig) {
		c.CABundle = o.LocalServingCAData
		if c.Service != nil && c.Service.Path != nil {
			url := "https://" + address + "/" + strings.TrimPrefix(*c.Service.Path, "/")
			c.URL, c.Service = &url, nil
		}
	}
	for _, config := range o.MutatingWebhooks {
		for i := range config.Webhooks {
			set(&config.Webhooks[i].ClientConfig)
		}
	}
	for _, config := range o.ValidatingWebhooks {
		for i := range config.Webhooks {
			set(&config.Webhooks[i].ClientConfig)
		}
	}
	return nil
}

// address returns the host and port in the URLs of webhooks. It chooses a free port if there is
// none.
func (o *WebhookInstallOptions) address() (string, error) {
	if o.LocalServingHost == "" {
		o.LocalServingHost = "127.0.0.1"
	}
	if o.LocalServingPort == 0 {
		l, err := net.Listen("tcp", net.JoinHostPort(o.LocalServingHost, "0"))
		if err != nil {
			return "", fmt.Errorf("find a free port for webhooks: %w", err)
		}
		o.LocalServingPort = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return "", fmt.Errorf("find a free port for webhooks: %w", err)
		}
	}
	host := o.LocalServingHostExternalName
	if host == "" {
		host = o.LocalServingHost
	}
	return net.JoinHostPort(host, strconv.Itoa(o.LocalServingPort)), nil
}

// read adds the configurations in a file, or in the files of a directory.
func (o *WebhookInstallOptions) read(path string) error {
	return eachFile(path, func(name string, data []byte) error {
		reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := yamlx.CheckExpanded(document, yamlx.DefaultMaxDocument); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			var kind metav1.TypeMeta
			if err := yaml.Unmarshal(document, &kind); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			version := admissionv1.SchemeGroupVersion.String()
			switch {
			case kind.Kind == "MutatingWebhookConfiguration" && kind.APIVersion == version:
				config := &admissionv1.MutatingWebhookConfiguration{}
				err = yaml.Unmarshal(document, config)
				o.MutatingWebhooks = append(o.MutatingWebhooks, config)
			case kind.Kind == "ValidatingWebhookConfiguration" && kind.APIVersion == version:
				config := &admissionv1.ValidatingWebhookConfiguration{}
				err = yaml.Unmarshal(document, config)
				o.ValidatingWebhooks = append(o.ValidatingWebhooks, config)
			case strings.HasSuffix(kind.Kind, "WebhookConfiguration"):
				err = fmt.Errorf("%s of version %q: must be %s", kind.Kind, kind.APIVersion, version)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	})
}

// eachFile calls f with a file, or with the YAML and JSON files of a directory, without those of
// its subdirectories.
func eachFile(path string, f func(name string, data []byte) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	files := []string{path}
	if info.IsDir() {
		files = nil
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			switch filepath.Ext(e.Name()) {
			case ".json", ".yaml", ".yml":
				if !e.IsDir() {
					files = append(files, filepath.Join(path, e.Name()))
				}
			}
		}
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := f(file, data); err != nil {
			return err
		}
	}
	return nil
}

// readFlat returns the CRDs in a file, or in the files of a directory. Other objects are skipped.
func readFlat(path string) ([]*unstructured.Unstructured, error) {
	var crds []*unstructured.Unstructured
	err := eachFile(path, func(name string, data []byte) error {
		contents, err := manifest.Parse(name, data)
		if err != nil {
			return err
		}
		for _, c := range contents.CRDs {
			crd := &unstructured.Unstructured{}
			if err := crd.UnmarshalJSON(c.JSON); err != nil {
				return fmt.Errorf("%s: %w", c, err)
			}
			crds = append(crds, crd)
		}
		return nil
	})
	return crds, err
}

// Install installs the configurations. It prepares them if they are not yet.
func (o *WebhookInstallOptions) Install(config *rest.Config) error {
	if len(o.LocalServingCAData) == 0 {
		if err := o.PrepWithoutInstalling(); err != nil {
			return err
		}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if o.MaxTime == 0 {
		o.MaxTime = timeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.MaxTime)
	defer cancel()
	mutating, validating := client.AdmissionregistrationV1().MutatingWebhookConfigurations(),
		client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	for i, c := range o.MutatingWebhooks {
		if o.MutatingWebhooks[i], err = createOrReplace(ctx, mutating, c); err != nil {
			return fmt.Errorf("install %s: %w", c.Name, err)
		}
	}
	for i, c := range o.ValidatingWebhooks {
		if o.ValidatingWebhooks[i], err = createOrReplace(ctx, validating, c); err != nil {
			return fmt.Errorf("install %s: %w", c.Name, err)
		}
	}
	return nil
}

// writer is a typed client.
type writer[T metav1.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
}

// createOrReplace creates an object, or replaces the one with its name.
func createOrReplace[T metav1.Object](ctx context.Context, client writer[T], object T) (stored T, err error) {
	object.SetResourceVersion("")
	stored, err = client.Create(ctx, object, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return stored, err
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		old, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.SetResourceVersion(old.GetResourceVersion())
		stored, err = client.Update(ctx, object, metav1.UpdateOptions{})
		return err
	})
	return stored, err
}

// Cleanup removes the certificates.
func (o *WebhookInstallOptions) Cleanup() error {
	if o.LocalServingCertDir == "" {
		return nil
	}
	return os.RemoveAll(o.LocalServingCertDir)
}

// convert sets the conversion webhook of a CRD if the Go types of its kind implement conversions.
// If not, the CRD has none: the test does not serve it.
func (o *WebhookInstallOptions) convert(crd *unstructured.Unstructured, scheme *runtime.Scheme) error {
	if len(o.LocalServingCAData) == 0 {
		return nil
	}
	if preserve, _, _ := unstructured.NestedBool(crd.Object, "spec", "preserveUnknownFields"); preserve {
		return nil
	}
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	if !o.IgnoreSchemeConvertible && !convertible(scheme, runtimeschema.GroupKind{Group: group, Kind: kind}) {
		unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
		return nil
	}
	address, err := o.address()
	if err != nil {
		return err
	}
	return unstructured.SetNestedMap(crd.Object, map[string]any{
		"strategy": "Webhook",
		"webhook": map[string]any{
			"conversionReviewVersions": []any{"v1", "v1beta1"},
			"clientConfig": map[string]any{
				"url":      "https://" + address + "/convert",
				"caBundle": base64.StdEncoding.EncodeToString(o.LocalServingCAData),
			},
		},
	}, "spec", "conversion")
}

// convertible reports whether a scheme has a hub and other versions of a kind that convert to it,
// the interfaces of controller-runtime's package conversion.
func convertible(scheme *runtime.Scheme, kind runtimeschema.GroupKind) bool {
	hub, spoke := false, false
	for gvk, t := range scheme.AllKnownTypes() {
		if gvk.GroupKind() != kind {
			continue
		}
		pointer := reflect.PointerTo(t)
		_, isHub := pointer.MethodByName("Hub")
		_, to := pointer.MethodByName("ConvertTo")
		_, from := pointer.MethodByName("ConvertFrom")
		hub, spoke = hub || isHub, spoke || to && from
	}
	return hub && spoke
}
