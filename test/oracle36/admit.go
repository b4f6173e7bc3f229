package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/plugin/pkg/admission/alwayspullimages"
	"k8s.io/kubernetes/plugin/pkg/admission/antiaffinity"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/extendedresourcetoleration"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/namespace/exists"
	"k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass"
	"k8s.io/kubernetes/plugin/pkg/admission/network/denyserviceexternalips"
	"k8s.io/kubernetes/plugin/pkg/admission/nodetaint"
	"k8s.io/kubernetes/plugin/pkg/admission/podnodeselector"
	"k8s.io/kubernetes/plugin/pkg/admission/podresize"
	"k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/podtopologylabels"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
	"k8s.io/kubernetes/plugin/pkg/admission/security/podsecurity"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageclass/setdefault"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageobjectinuseprotection"
)

var plugins = newPlugins()

func newPlugins() *admission.Plugins {
	p := admission.NewPlugins()
	for _, register := range []func(*admission.Plugins){
		alwayspullimages.Register, antiaffinity.Register, denyserviceexternalips.Register, exists.Register, extendedresourcetoleration.Register,
		lifecycle.Register, podnodeselector.Register, podresize.Register, podsecurity.Register, podtolerationrestriction.Register,
		podtopologylabels.Register, resize.Register, defaulttolerationseconds.Register, limitranger.Register, defaultingressclass.Register, nodetaint.Register, priority.Register,
		runtimeclass.Register, serviceaccount.Register, setdefault.Register, storageobjectinuseprotection.Register,
	} {
		register(p)
	}
	return p
}

// admit runs one admission plugin on an object: its mutation, then its validation.
func admit(req *request) (answer, error) {
	c, err := newCall(req, strings.ToLower(req.Operation))
	if err != nil {
		return answer{}, err
	}
	client, err := kubernetes.NewForConfig(&restclient.Config{Host: "http://localhost", Transport: nothing{}})
	if err != nil {
		return answer{}, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	if err := addExisting(factory, req.Existing); err != nil {
		return answer{}, err
	}
	stop := make(chan struct{})
	defer close(stop)
	var config io.Reader
	if req.Configuration != "" {
		config = strings.NewReader(req.Configuration)
	}
	effective := compatibility.DefaultKubeEffectiveVersionForTest()
	plugin, err := plugins.InitPlugin(req.Plugin, config, initializer.New(client, nil, factory, nil, utilfeature.DefaultFeatureGate, effective, stop, nil))
	if err != nil {
		return answer{}, err
	}
	if p, ok := plugin.(interface{ SetReadyFunc(admission.ReadyFunc) }); ok {
		p.SetReadyFunc(func() bool { return true })
	}
	var obj, old runtime.Object
	var name string
	if len(req.Object) > 0 {
		if obj, err = c.decodeNew(req.Object); err != nil {
			return c.answer(nil, err)
		}
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return answer{}, err
		}
		c.inNamespaceOf(req, accessor)
		name = accessor.GetName()
		if c.strategy.NamespaceScoped() && accessor.GetNamespace() == "" {
			accessor.SetNamespace(req.Namespace)
		}
	}
	if len(req.Old) > 0 {
		if old, err = c.decodeStored(req.Old); err != nil {
			return answer{}, fmt.Errorf("old: %w", err)
		}
	}
	err = c.runPlugin(req, plugin, obj, old, name)
	if err != nil || obj == nil {
		a, _ := c.answer(obj, err)
		return a, nil
	}
	return c.answer(obj, nil)
}

func (c *call) runPlugin(req *request, plugin admission.Interface, obj, old runtime.Object, name string) error {
	operation := admission.Operation(req.Operation)
	if !plugin.Handles(operation) {
		return nil
	}
	options := map[admission.Operation]runtime.Object{
		admission.Create: &metav1.CreateOptions{}, admission.Update: &metav1.UpdateOptions{}, admission.Delete: &metav1.DeleteOptions{},
	}[operation]
	user, _ := genericapirequest.UserFrom(c.ctx)
	attributes := admission.NewAttributesRecord(obj, old, c.gvr.GroupVersion().WithKind(c.kind), req.Namespace, name, c.gvr, req.Subresource, operation, options, false, user)
	scheme := admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)
	if p, ok := plugin.(admission.MutationInterface); ok {
		if err := p.Admit(c.ctx, attributes, scheme); err != nil {
			return err
		}
	}
	if p, ok := plugin.(admission.ValidationInterface); ok {
		return p.Validate(c.ctx, attributes, scheme)
	}
	return nil
}

// addExisting adds objects to the informers that list them.
func addExisting(factory informers.SharedInformerFactory, objects []json.RawMessage) error {
	for _, data := range objects {
		obj, gvk, err := legacyscheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			return fmt.Errorf("existing: %w", err)
		}
		legacyscheme.Scheme.Default(obj)
		gvr, err := resourceOf(*gvk)
		if err != nil {
			return err
		}
		informer, err := factory.ForResource(gvr)
		if err != nil {
			return err
		}
		if err := informer.Informer().GetIndexer().Add(obj); err != nil {
			return err
		}
	}
	return nil
}

func resourceOf(gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	for gr, r := range resources {
		if gr.Group == gvk.Group && r.kind == gvk.Kind {
			return gr.WithVersion(gvk.Version), nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("unknown kind %s", gvk)
}

// nothing is a server without objects: plugins that do not find an object in their informers
// ask the server.
type nothing struct{}

// RoundTrip implements http.RoundTripper.
func (nothing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return nil, errors.New("only reads are answered")
	}
	body, code := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"not found","code":404}`, http.StatusNotFound
	if strings.HasSuffix(req.URL.Path, "/limitranges") {
		body, code = `{"kind":"LimitRangeList","apiVersion":"v1","items":[]}`, http.StatusOK
	}
	return &http.Response{
		StatusCode: code, Request: req, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader([]byte(body))),
	}, nil
}
