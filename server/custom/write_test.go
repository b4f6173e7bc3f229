package custom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/backend"
	"espalier.dev/server/etcd"
	serverrest "espalier.dev/server/rest"
	"espalier.dev/store"
)

const widgetCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com","uid":"u"},"spec":{
	"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"versions":[
	{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{"size":{"type":"integer","minimum":0},"ratio":{"type":"number"},"name":{"type":"string","default":"x"},
			"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
			"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["id"],"items":{"type":"object","required":["id"],"properties":{"id":{"type":"string"},"n":{"type":"integer"}}}},
			"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
		"status":{"type":"object","default":{"phase":"new"},"properties":{"phase":{"type":"string"}}}}}}},
	{"name":"v2","served":true,"storage":false,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{"size":{"type":"integer"}}},"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]},
	"status":{"acceptedNames":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"storedVersions":["v1"],
	"conditions":[{"type":"Established","status":"True"},{"type":"NamesAccepted","status":"True"}]}}`

// fixedSource has one CRD.
type fixedSource struct{ catalog *crd.Catalog }

func (s fixedSource) Catalog() *crd.Catalog               { return s.catalog }
func (fixedSource) Refresh(context.Context, string) error { return nil }

// plainStorage stores the objects in etcd with the storage of k8s.io/apiserver.
type plainStorage struct{ endpoint string }

func (s plainStorage) GetRESTOptions(gr runtimeschema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	c := storagebackend.NewDefaultConfig("/registry", nil)
	c.Transport.ServerList = []string{s.endpoint}
	return generic.RESTOptions{StorageConfig: c.ForResource(gr), Decorator: generic.UndecoratedStorage, ResourcePrefix: gr.Group + "/" + gr.Resource, DeleteCollectionWorkers: 1}, nil
}

// sharedStorage stores the objects in etcd with the storage of this server.
type sharedStorage struct {
	plainStorage
	backend *backend.Backend
}

func (s sharedStorage) GetRESTOptions(gr runtimeschema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := s.plainStorage.GetRESTOptions(gr, example)
	o.Decorator = func(c *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error), newFunc, _ func() runtime.Object,
		_ apistorage.AttrFunc, _ apistorage.IndexerFuncs, _ *cache.Indexers) (apistorage.Interface, factory.DestroyFunc, error) {
		return s.backend.New(backend.Config{Resource: c.GroupResource, Codec: c.Codec, Prefix: prefix, New: newFunc, UnlimitedAtZero: true}), func() {}, nil
	}
	return o, err
}

// recordingPlugin is an admission plugin that changes some objects and rejects others.
type recordingPlugin struct{}

func (recordingPlugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

func (recordingPlugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	m, err := metaOf(a.GetObject())
	if err != nil {
		return err
	}
	labels := m.GetLabels()
	if labels["mutate"] == "" {
		return nil
	}
	labels["mutated"] = fmt.Sprint(strings.ToLower(string(a.GetOperation())), a.GetOldObject() != nil, a.GetName() == m.GetName(), a.IsDryRun(), a.GetUserInfo().GetName(), a.GetSubresource())
	m.SetLabels(labels)
	if labels["mutate"] == "managedFields" {
		m.SetManagedFields([]metav1.ManagedFieldsEntry{{Operation: "Nonsense"}})
	}
	if labels["mutate"] == "owners" {
		o := metav1.OwnerReference{APIVersion: "v1", Kind: "A", Name: "a", UID: "7"}
		m.SetOwnerReferences([]metav1.OwnerReference{o, o})
	}
	return nil
}

func (recordingPlugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	m, err := metaOf(a.GetObject())
	if err != nil {
		return err
	}
	options, err := json.Marshal(a.GetOperationOptions())
	if err != nil {
		return err
	}
	if m.GetLabels()["reject"] != "" {
		return admission.NewForbidden(a, fmt.Errorf("%s %s %v %v %v", a.GetOperation(), a.GetName(), a.IsDryRun(), a.GetOldObject() != nil, string(options)))
	}
	return nil
}

func metaOf(obj runtime.Object) (metav1.Object, error) {
	m, ok := obj.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", obj)
	}
	return m, nil
}

// stockHandler serves writes with the handlers of k8s.io/apiserver.
func stockHandler(h *Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r, _ := apirequest.RequestInfoFrom(req.Context())
		v, err := h.find(req.Context(), r)
		if err != nil || v == nil {
			h.fail(w, req, r, err)
			return
		}
		s, err := h.acquire(v.Definition())
		if err != nil {
			h.fail(w, req, r, err)
			return
		}
		defer s.requests.Release()
		e, err := s.endpoint(r.APIVersion)
		if err != nil {
			h.fail(w, req, r, err)
			return
		}
		if sent, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type")); !e.serializer.supports(sent) && r.Verb != "patch" {
			h.ServeHTTP(w, req)
			return
		}
		req = req.WithContext(withOutcome(req.Context()))
		endpoint := &serverrest.Endpoint{Kind: e.scope.Kind.GroupKind(), Admission: &creationGate{Interface: h.config.Admission(), serving: s}, PatchTypes: e.patchMediaTypes()}
		scope, storage := e.scope, rest.Patcher(e.storage)
		if r.Subresource == "status" {
			scope, storage = e.statusScope, e.status
		}
		endpoint.Scope, _ = e.replacing(req.Context(), scope, r)
		switch r.Verb {
		case "create":
			endpoint.Handler(r.Verb, serverrest.Storage{Writes: e.storage})(w, req)
		case "update":
			endpoint.Subresource(r.Verb, storage, nil)(w, req)
		case "patch":
			if patch := types.PatchType(serverrest.MediaType(req)); patch == types.ApplyYAMLPatchType {
				req = serverrest.WithPatch(req, patch, nil, v.Definition().Semantics().RefusesContradictions())
			}
			decoding := &contradictionRecorder{NegotiatedSerializer: endpoint.Scope.Serializer}
			endpoint.Scope.Serializer = decoding
			endpoint.Subresource(r.Verb, contradictionPatcher{storage, decoding}, nil)(w, req)
		default:
			h.ServeHTTP(w, req)
		}
	})
}

// contradictionRecorder records whether what was decoded last contradicts the types of the schema.
// The handler of k8s.io/apiserver keeps only the text of the error.
type contradictionRecorder struct {
	runtime.NegotiatedSerializer
	found *schema.ContradictionError
}

func (r *contradictionRecorder) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return recordingDecoder{r.NegotiatedSerializer.DecoderToVersion(d, gv), r}
}

type recordingDecoder struct {
	runtime.Decoder
	recorder *contradictionRecorder
}

func (d recordingDecoder) Decode(data []byte, defaults *runtimeschema.GroupVersionKind, into runtime.Object) (runtime.Object, *runtimeschema.GroupVersionKind, error) {
	obj, gvk, err := d.Decoder.Decode(data, defaults, into)
	d.recorder.found = nil
	_ = errors.As(err, &d.recorder.found)
	return obj, gvk, err
}

// contradictionPatcher is a storage for which a patch that contradicts the types of the schema is
// malformed, not invalid.
type contradictionPatcher struct {
	rest.Patcher
	decoding *contradictionRecorder
}

func (p contradictionPatcher) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, created, err := p.Patcher.Update(ctx, name, info, create, update, force, o)
	if err != nil && p.decoding.found != nil {
		err = apierrors.NewBadRequest(p.decoding.found.Error())
	}
	return obj, created, err
}

// newWriteServers returns the handler under test on the storage of this server, and the one of
// k8s.io/apiserver on its own storage, in one etcd.
func newWriteServers(t *testing.T, semantics schema.Semantics, plugins ...admission.Interface) (own, stock http.Handler) {
	t.Helper()
	plain := newPlainStorage(t)
	client, err := etcd.Connect(t.Context(), etcd.Endpoints{URLs: []string{plain.endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	st, err := store.Open(store.Config{Client: client, Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	<-st.Loaded()
	source := fixedSource{crd.NewCatalog(newWidgets(t, widgetCRD, semantics))}
	shared := sharedStorage{plain, backend.New(st, nil)}
	return asTester(newWriteHandler(t, source, st, shared, plugins...)), asTester(stockHandler(newWriteHandler(t, source, nil, plain, plugins...)))
}

// newPlainStorage starts an etcd.
func newPlainStorage(t *testing.T) plainStorage {
	t.Helper()
	member, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	return plainStorage{member.Endpoint()}
}

func newWidgets(t *testing.T, text string, semantics schema.Semantics) *crd.Definition {
	t.Helper()
	c, err := codec.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	d, err := crd.New(c, crd.Options{Semantics: semantics})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newWriteHandler(t *testing.T, source Source, st *store.Store, o generic.RESTOptionsGetter, plugins ...admission.Interface) *Handler {
	t.Helper()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, runtimeschema.GroupVersion{Version: "v1"})
	h, err := New(Config{
		Source: source, Store: st, Storage: func(*crd.Definition) generic.RESTOptionsGetter { return o },
		Admission: func() admission.Interface { return admission.NewChainHandler(plugins...) }, Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(), Scheme: scheme,
		NotFound: http.NotFoundHandler(), RequestTimeout: time.Minute, MaxRequestBodyBytes: 3 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// asTester adds what the filters of the server add to the context of a request.
func asTester(h http.Handler) http.Handler {
	h = filters.WithWarningRecorder(h)
	h = filters.WithRequestInfo(h, &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")})
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h.ServeHTTP(w, req.WithContext(apirequest.WithUser(req.Context(), &user.DefaultInfo{Name: "tester"})))
	})
}

// writeRequest is a request to both handlers. NS, UID and RV stand for the namespace of the
// handler, and for the UID and the resourceVersion of its object.
type writeRequest struct {
	method, path, query, contentType, accept, body string
	audit                                          auditinternal.Level
}

// auditRecorder keeps the objects of an audit event.
type auditRecorder struct{ text string }

func (r *auditRecorder) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, e := range events {
		for _, o := range []*runtime.Unknown{e.RequestObject, e.ResponseObject} {
			if o != nil {
				r.text += string(o.Raw) + "\n"
			}
		}
		if e.ObjectRef != nil {
			e.ObjectRef.ResourceVersion = ""
		}
		r.text += fmt.Sprintln(e.ObjectRef, e.Annotations)
	}
	return true
}

// side is one of the handlers that are compared, with the state of its objects.
type side struct {
	handler       http.Handler
	namespace     string
	uid, version  string
	code          int
	body, warning string
	mediaType     string
	audited       string
}

var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
var uids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
var versions = regexp.MustCompile(`(resourceVersion\\*"?:\s*\\*")\d+`)
var generated = regexp.MustCompile(`gen-[a-z0-9]{5}`)

// typedErrors have a random order.
var typedErrors = regexp.MustCompile(`failed to create typed patch object.*`)
var ages = regexp.MustCompile(`"\d+s"`)
var hexBody = regexp.MustCompile(`\([0-9a-f]{60} \.\.\.\)`)

func (s *side) send(r writeRequest) {
	fill := strings.NewReplacer("NS", s.namespace, "UID", s.uid, "RV", s.version).Replace
	req := httptest.NewRequest(r.method, fill(r.path)+r.query, strings.NewReader(fill(r.body)))
	req.Header.Set("User-Agent", "tester/1")
	for name, value := range map[string]string{"Content-Type": r.contentType, "Accept": r.accept} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	ctx := audit.WithAuditContext(req.Context())
	recorder := &auditRecorder{}
	if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: r.audit}, recorder); err != nil {
		panic(err) // a level that does not exist
	}
	s.handler.ServeHTTP(w, req.WithContext(ctx))
	audit.AuditContextFrom(ctx).ProcessEventStage(ctx, auditinternal.StageResponseComplete)
	body := w.Body.String()
	s.code, s.mediaType, s.warning = w.Code, w.Header().Get("Content-Type"), strings.Join(w.Header().Values("Warning"), "\n")
	var obj struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	if r.query == "" && json.Unmarshal([]byte(body), &obj) == nil && obj.Metadata.UID != "" {
		s.uid, s.version = obj.Metadata.UID, obj.Metadata.ResourceVersion
	}
	s.body, s.audited, s.warning = s.normalize(body), s.normalize(recorder.text), s.normalize(s.warning)
}

// normalize replaces what differs between the handlers or is random.
func (s *side) normalize(text string) string {
	text = strings.ReplaceAll(text, s.namespace, "NS")
	text = times.ReplaceAllString(uids.ReplaceAllString(text, "UID"), "TIME")
	text = generated.ReplaceAllString(versions.ReplaceAllString(text, "${1}RV"), "GENERATED")
	text = strings.ReplaceAll(text, "handlers.jsonPatchOp", "custom.jsonPatchOperation") // Go types in errors
	text = hexBody.ReplaceAllString(ages.ReplaceAllString(text, "AGE"), "(HEX)")
	text = typedErrors.ReplaceAllString(text, "TYPED")
	if strings.Contains(text, "FieldManagerConflict") {
		text = sortedParts(text) // the causes of conflicts have a random order
	}
	return text
}

// like reports whether two responses are equal. The order of managedFields does not count: it
// depends on the second in which an entry was written.
func (s *side) like(o *side) bool {
	return s.code == o.code && s.warning == o.warning && s.mediaType == o.mediaType && sameTrees(s.body, o.body) &&
		slices.EqualFunc(strings.Split(s.audited, "\n"), strings.Split(o.audited, "\n"), sameTrees)
}

// sameTrees reports whether two texts are equal, or are JSON or YAML that differs in the order
// of managedFields alone, which errors may quote.
func sameTrees(a, b string) bool {
	if a == b || len(a) != len(b) {
		return a == b
	}
	var trees [2]any
	for i, text := range []string{a, b} {
		if err := yaml.Unmarshal([]byte(text), &trees[i]); err != nil {
			return false
		}
		trees[i] = sortEntries(trees[i])
	}
	return reflect.DeepEqual(trees[0], trees[1])
}

// sortEntries returns a tree in which all managedFields are sorted.
func sortEntries(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			v[name] = sortEntries(child)
			if entries, ok := child.([]any); ok && name == "managedFields" {
				slices.SortFunc(entries, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
	case []any:
		for i, child := range v {
			v[i] = sortEntries(child)
		}
	case string:
		if strings.Contains(v, "managedFields") {
			return sortedParts(v)
		}
	}
	return v
}

// sortedParts returns the parts of a text in JSON in a fixed order.
func sortedParts(text string) string {
	parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("{},\n", r) })
	slices.Sort(parts)
	return strings.Join(parts, "\n")
}

// TestWritesLikeStock sends generated requests to the handlers for writes and to those of
// k8s.io/apiserver, and compares the responses. ESPALIER_WRITES_SEED is the seed of the generator.
func TestWritesLikeStock(t *testing.T) {
	steps, seed := 1500, uint64(1)
	if testing.Short() {
		steps = 300
	}
	if text := os.Getenv("ESPALIER_WRITES_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	for _, semantics := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		for _, plugins := range [][]admission.Interface{nil, {recordingPlugin{}}} {
			t.Run(fmt.Sprintf("%s, %d plugins", semantics, len(plugins)), func(t *testing.T) {
				t.Parallel()
				ownHandler, stockHandler := newWriteServers(t, semantics, plugins...)
				own, stock := &side{handler: ownHandler, namespace: "nsown"}, &side{handler: stockHandler, namespace: "nsref"}
				rnd := rand.New(rand.NewPCG(seed, uint64(len(plugins))))
				codes := map[int]int{}
				var r writeRequest
				for i := range steps {
					// Applies are repeated: the server remembers those that have changed nothing.
					if r.contentType != "application/apply-patch+yaml" || rnd.IntN(3) == 0 {
						r = generateWrite(rnd)
					}
					if semantics.DropsAppliedNulls() && r.contentType == "application/apply-patch+yaml" {
						// k8s.io/apiserver rejects them. TestNulls is about them.
						r.body = strings.NewReplacer(`"size":null`, `"size":1`, `"name":null`, `"name":"n"`).Replace(r.body)
					}
					own.send(r)
					stock.send(r)
					for again := 0; stock.code >= http.StatusBadRequest && own.code == stock.code && own.body != stock.body && again < 100; again++ {
						stock.send(r) // which of several errors is reported depends on the order of maps
					}
					codes[stock.code]++
					if !own.like(stock) {
						t.Fatalf("seed %d, step %d: %s %s%s, Content-Type %q, Accept %q\n%s\n\nown:   %d %s %s\n%s\n\nstock: %d %s %s\n%s\n\naudit:\n%s\n\n%s", seed, i, r.method, r.path, r.query, r.contentType, r.accept, r.body,
							own.code, own.mediaType, own.warning, own.body, stock.code, stock.mediaType, stock.warning, stock.body, own.audited, stock.audited)
					}
				}
				for _, code := range []int{200, 201, 400, 404, 409, 415, 422} {
					if codes[code] == 0 {
						t.Errorf("no request had the code %d: %v", code, codes)
					}
				}
				t.Logf("codes: %v", codes)
			})
		}
	}
}

func pick[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

// often returns the first value in most cases, and one of the others in a few.
func often[T any](rnd *rand.Rand, first T, others ...T) T {
	if rnd.IntN(10) < 8 {
		return first
	}
	return pick(rnd, others...)
}

func generateWrite(rnd *rand.Rand) writeRequest {
	name := pick(rnd, "a", "b", "c")
	version := often(rnd, "v1", "v2")
	collection := "/apis/example.com/" + version + "/namespaces/NS/widgets"
	r := writeRequest{
		path:   collection + "/" + name,
		audit:  often(rnd, auditinternal.LevelNone, auditinternal.LevelMetadata, auditinternal.LevelRequest, auditinternal.LevelRequestResponse),
		accept: often(rnd, "application/json", "", "*/*", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf", "application/cbor", "text/plain"),
		query: often(rnd, "", "?dryRun=All", "?dryRun=None", "?fieldValidation=Strict", "?fieldValidation=Ignore", "?fieldValidation=Warn", "?fieldValidation=Odd", "?fieldManager=m", "?fieldManager="+strings.Repeat("m", 200),
			"?pretty=true", "?force=true", "?fieldManager=m&force=true", "?timeout=5s", "?dryRun=All&fieldValidation=Strict", "?export=true&pretty=1", "?includeObject=Object", "?includeObject=Odd", "?%zz"),
	}
	switch rnd.IntN(31) {
	case 0, 1, 2, 3, 4:
		// The stock handlers also create objects by a POST to the path of another one.
		r.method, r.path, r.body = http.MethodPost, collection, generateObject(rnd, version, name)
		r.contentType = bodyType(rnd, &r.body)
	case 5, 6, 7, 8, 9, 10, 11, 12:
		r.method, r.body = http.MethodPut, generateObject(rnd, version, name)
		r.path += often(rnd, "", "/status")
		r.contentType = bodyType(rnd, &r.body)
	case 13, 14, 15, 16:
		r.method, r.contentType, r.body = http.MethodPatch, "application/json-patch+json", pick(rnd,
			`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`, `[{"op":"replace","path":"/spec/size","value":3}]`, `[{"op":"test","path":"/spec/size","value":99}]`, `{}`, `[`, `[]`, `[{"op":"nonsense"}]`,
			`[{"op":"add","path":"/spec/odd","value":1,"extra":1}]`, `[{"op":"add","path":"/spec/odd","value":1,"value":2}]`, `[{"op":"add","path":"/spec/size","value":"x"}]`, `[{"op":"remove","path":"/metadata/name"}]`,
			`[{"op":"replace","path":"/metadata/resourceVersion","value":"1"}]`, `[{"op":"replace","path":"/metadata/namespace","value":"other"}]`, `[{"op":"remove","path":"/kind"}]`, `[{"op":"replace","path":"/kind","value":"Other"}]`,
			`[{"op":"remove","path":"/apiVersion"}]`, `[{"op":"add","path":"/metadata/finalizers","value":["example.com/f"]}]`, `[{"op":"remove","path":"/metadata/finalizers"}]`, `[`+strings.Repeat(`{"op":"test","path":"/kind","value":"Widget"},`, 10000)+`{"op":"test","path":"/kind","value":"Widget"}]`)
		r.path += often(rnd, "", "/status")
	case 17, 18, 19, 20, 21, 22:
		r.method, r.contentType, r.body = http.MethodPatch, often(rnd, "application/merge-patch+json", "application/merge-patch+json; charset=utf-8", "application/strategic-merge-patch+json", "application/json", ""), pick(rnd,
			`{"spec":{"size":1}}`, `{"spec":{"size":2,"odd":1}}`, `{"spec":{"size":2,"size":3}}`, `{"spec":{"size":-1}}`, `{"spec":{"size":"x"}}`, `{"spec":null}`, `{}`, `[]`, `null`, `"x"`, `{`, `{"metadata":{"name":"z"}}`, `{"metadata":{"uid":"z"}}`,
			`{"metadata":{"resourceVersion":"1"}}`, `{"metadata":{"resourceVersion":"RV"}}`, `{"metadata":{"resourceVersion":"x"}}`, `{"metadata":{"labels":{"a":"`+fmt.Sprint(rnd.IntN(3))+`"}}}`, `{"metadata":{"labels":{"-":"-"}}}`, `{"status":{"phase":"p"}}`,
			`{"metadata":{"managedFields":[]}}`, `{"metadata":{"managedFields":[{}]}}`, `{"metadata":{"managedFields":[{"operation":"x"}]}}`, `{"metadata":{"labels":{"reject":"1"}}}`, `{"metadata":{"labels":{"mutate":"1"}}}`, `{"metadata":null}`, `{"metadata":{"generation":9}}`,
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a","uid":"1"},{"apiVersion":"v1","kind":"A","name":"a","uid":"1"}]}}`, `{"metadata":{"finalizers":["example.com/f"]}}`, `{"metadata":{"finalizers":null}}`, `{"metadata":{"finalizers":["bad"]}}`)
		r.path += often(rnd, "", "/status")
	case 23, 24, 25, 26, 27:
		r.method, r.contentType, r.body = http.MethodPatch, "application/apply-patch+yaml", generateApplied(rnd, version, name)
		if r.query == "" {
			r.query = often(rnd, "?fieldManager=m", "?fieldManager=n", "?fieldManager=m&fieldValidation=Strict", "?fieldManager=n&force=true")
		}
		r.path += often(rnd, "", "/status")
	case 28:
		r.method, r.contentType, r.body, r.accept = http.MethodDelete, "", "", ""
		r.query = ""
	case 29, 30:
		r.method, r.query = http.MethodGet, "" // what the writes have left
	}
	return r
}

// bodyType returns the media type of a body, and changes the body to that type.
func bodyType(rnd *rand.Rand, body *string) string {
	t := often(rnd, "application/json", "", "application/json; charset=utf-8", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor", "text/plain", "///")
	if t == "application/yaml" && rnd.IntN(2) == 0 {
		*body = pick(rnd, "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  size: 1\n  size: 2\n", "a: b: c", "- a", "", "kind: Widget\napiVersion: example.com/v1\nmetadata: {name: b, resourceVersion: \"RV\"}\nspec: {odd: 1}")
	}
	return t
}

func generateObject(rnd *rand.Rand, version, name string) string {
	if rnd.IntN(12) == 0 {
		return pick(rnd, "", "{", "null", "[]", `"x"`, "{}", `{"kind":"Widget"}`, `{"apiVersion":"example.com/v1"}`, `{"apiVersion":"a/b/c","kind":"Widget"}`, `{"apiVersion":1,"kind":"Widget"}`, `x: y`)
	}
	metadata := []string{fmt.Sprintf(`"name":%q`, often(rnd, name, "", "other", "Bad_Name", "a/b"))}
	if rnd.IntN(10) < 8 {
		metadata = append(metadata, fmt.Sprintf(`"resourceVersion":%q`, often(rnd, "RV", "1", "0", "", "x", "999999")))
	}
	if rnd.IntN(4) == 0 {
		metadata = append(metadata, pick(rnd, `"namespace":"NS"`, `"namespace":"other"`, `"uid":"UID"`, `"uid":"00000000-0000-0000-0000-000000000000"`, `"labels":{"a":"b"}`, `"labels":{"a":1}`, `"labels":{"-":"-"}`, `"odd":1`, `"generation":7`,
			`"creationTimestamp":"2020-01-01T00:00:00Z"`, `"creationTimestamp":"yesterday"`, `"deletionTimestamp":"2020-01-01T00:00:00Z"`, `"managedFields":[]`, `"managedFields":[{"manager":"x","operation":"Update","apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]`,
			`"managedFields":[{"operation":"Odd"}]`, `"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a","uid":"1"},{"apiVersion":"v1","kind":"A","name":"a","uid":"1"}]`, `"ownerReferences":[{"kind":"A"}]`, `"finalizers":["example.com/f"]`, `"finalizers":["bad"]`,
			`"annotations":{"Bad Key":"x"}`, `"generateName":"gen-"`, `"labels":{"mutate":"1"}`, `"labels":{"mutate":"managedFields"}`, `"labels":{"mutate":"owners"}`, `"labels":{"reject":"1"}`))
	}
	if rnd.IntN(15) == 0 {
		metadata = []string{`"generateName":"gen-"`}
	}
	spec := []string{fmt.Sprintf(`"size":%s`, often(rnd, fmt.Sprint(rnd.IntN(3)), `"x"`, "-1", "1.5", "1.0", "null", "true", "99999999999999999999"))}
	if rnd.IntN(3) == 0 {
		spec = append(spec, pick(rnd, `"odd":1`, `"size":7`, `"tags":["a","b"]`, `"tags":["a","a"]`, `"tags":"a"`, `"parts":[{"id":"a"},{"id":"a"}]`, `"parts":[{"id":"a","n":1}]`, `"parts":[{}]`, `"free":{"x":{"y":[1,2.5,"<&>"]}}`, `"ratio":1.0`, `"name":null`))
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{%s},"spec":{%s}%s}`, often(rnd, "example.com/"+version, "example.com/v1", "example.com/v3", "other/v1", "v1"), often(rnd, "Widget", "Gadget"),
		strings.Join(metadata, ","), strings.Join(spec, ","), often(rnd, `,"status":{"phase":"p"}`, `,"status":"x"`, `,"odd":1`, ``))
}

func generateApplied(rnd *rand.Rand, version, name string) string {
	return pick(rnd,
		generateObject(rnd, version, name),
		fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Widget","metadata":{"name":%q},"spec":{"size":%d}}`, version, name, rnd.IntN(3)),
		fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Widget","metadata":{"name":%q},"spec":{"ratio":%s}}`, version, name, pick(rnd, "1.0", "2", "1e3", "0.5", "1e21", "-0.0", "18446744073709551615")),
		fmt.Sprintf("apiVersion: example.com/%s\nkind: Widget\nmetadata:\n  name: %s\nspec:\n  size: %d\n  tags: [x, \"%d\"]\n", version, name, rnd.IntN(3), rnd.IntN(3)),
		fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Widget","metadata":{"name":%q,"labels":{},"annotations":null,"finalizers":[]},"spec":{"size":%d}}`, version, name, rnd.IntN(3)),
		fmt.Sprintf("apiVersion: example.com/%s\nkind: Widget\nmetadata:\n  name: %s\nspec:\n  size: 1\n  size: 2\n", version, name),
		fmt.Sprintf("apiVersion: example.com/%s\nkind: Widget\nmetadata: &m\n  name: %s\nspec:\n  parts:\n  - id: a\n    n: %d\n---\nx: y", version, name, rnd.IntN(3)),
		fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Widget","metadata":{"name":%q},"spec":{"size":1,"size":2,"parts":[{"id":"a","id":"b"}]}}`, version, name),
		"{a: b", "a: b: c", "", "null", "- x", "x", "{}", "{x: y}", "\t", `{"a":1}}`)
}
