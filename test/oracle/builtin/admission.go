package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"espalier.dev/kinds/kind"
	"espalier.dev/server/plugins"
	"espalier.dev/server/quota"
)

// referenceVersion is the version of the reference, which some plugins depend on.
const referenceVersion = "1.36"

// Scenario is a set of similar cases for an admission plugin.
type Scenario struct {
	// Plugin is its name, or quota for the charges of resource quotas.
	Plugin string
	// Kind is the name of the kind of the object.
	Kind string
	// Subresources are those of updates, and Creates is set if objects are created.
	Subresources []string
	Creates      bool
	// Existing are objects in YAML that may exist.
	Existing []string
	// Configurations are those that the plugin may have.
	Configurations []string
	// Fields are values in YAML that fields may have, by their path, in which ~ stands for a
	// slash in a name. An empty text removes the field.
	Fields map[string][]string
	// Plain objects have only these values, and no random ones.
	Plain bool
}

// Name names the scenario in tests.
func (s *Scenario) Name() string { return s.Plugin + "-" + s.Kind }

// AdmissionSummary is the result of a run of a scenario.
type AdmissionSummary struct {
	Cases, Accepted, Skipped int
	// Differences are the first ones, and Different is their number.
	Differences []string
	Different   int
}

func (s *AdmissionSummary) String() string {
	return fmt.Sprintf("%d cases: %d accepted, %d without an answer of the reference; %d different", s.Cases, s.Accepted, s.Skipped, s.Different)
}

// maxDifferences is the number of differences that are shown.
const maxDifferences = 5

// RunAdmission runs n cases of a scenario.
func (r *Runner) RunAdmission(s *Scenario, kinds []*Kind, seeds map[string][]map[string]any, first, n int) (*AdmissionSummary, error) {
	i := slices.IndexFunc(kinds, func(k *Kind) bool { return k.Name == s.Kind })
	if i < 0 {
		return nil, fmt.Errorf("unknown kind %s", s.Kind)
	}
	sum := &AdmissionSummary{}
	for number := first; number < first+n; number++ {
		req, err := r.admissionCase(s, kinds[i], SeedsOf(seeds, kinds[i]), number)
		if err != nil {
			return nil, err
		}
		if err := r.compareAdmission(s, kinds, kinds[i], req, number, sum); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// admissionCase makes a request.
func (r *Runner) admissionCase(s *Scenario, k *Kind, seeds []map[string]any, number int) (*Request, error) {
	h := fnv.New64a()
	h.Write([]byte(s.Name()))
	rnd := rand.New(rand.NewPCG(h.Sum64()^r.Seed, uint64(number)))
	if len(seeds) == 0 {
		return nil, fmt.Errorf("%s: there are no seeds", k.Name)
	}
	req := &Request{Op: "admit", Plugin: s.Plugin, Operation: "CREATE", APIVersion: k.requested().GroupVersion().String(), Resource: k.Resource.Resource}
	if s.Plugin == "quota" {
		req.Op, req.Plugin = "quota", ""
	}
	if k.Namespaced {
		req.Namespace = "default"
	}
	object := func() (map[string]any, error) {
		obj := deepCopy(pick(rnd, seeds)).(map[string]any)
		delete(obj, "status")
		if !s.Plain {
			for range rnd.IntN(3) {
				r.gen.mutate(rnd, obj, k.goType)
			}
		}
		return obj, s.set(rnd, obj)
	}
	obj, err := object()
	if err != nil {
		return nil, err
	}
	if !s.Creates || len(s.Subresources) > 0 && rnd.IntN(2) == 0 {
		req.Operation = "UPDATE"
		req.Subresource = pick(rnd, s.Subresources)
		old := deepCopy(obj).(map[string]any)
		if err := s.set(rnd, old); err != nil {
			return nil, err
		}
		if m, ok := old["metadata"].(map[string]any); ok {
			m["resourceVersion"] = "5"
		}
		if req.Old, err = json.Marshal(old); err != nil {
			return nil, err
		}
	}
	if req.Object, err = json.Marshal(obj); err != nil {
		return nil, err
	}
	for _, text := range s.Existing {
		if rnd.IntN(4) == 0 {
			continue
		}
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return nil, err
		}
		req.Existing = append(req.Existing, data)
	}
	if len(s.Configurations) > 0 {
		req.Configuration = pick(rnd, s.Configurations)
	}
	return req, nil
}

// set sets some of the fields of an object.
func (s *Scenario) set(rnd *rand.Rand, obj map[string]any) error {
	paths := make([]string, 0, len(s.Fields))
	for path := range s.Fields {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		if rnd.IntN(2) == 0 {
			continue
		}
		text := pick(rnd, s.Fields[path])
		var value any
		if text != "" {
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		parts := strings.Split(path, "/")
		for i := range parts {
			parts[i] = strings.ReplaceAll(parts[i], "~", "/")
		}
		setField(obj, parts, value)
	}
	return nil
}

// setField sets a field, or removes it if the value is nil. Elements of lists have numbers.
func setField(v any, path []string, value any) {
	switch v := v.(type) {
	case map[string]any:
		if len(path) == 1 && value == nil {
			delete(v, path[0])
			return
		}
		if len(path) == 1 {
			v[path[0]] = value
			return
		}
		switch v[path[0]].(type) {
		case map[string]any, []any:
		default:
			if _, err := strconv.Atoi(path[1]); value == nil || err == nil {
				return
			}
			v[path[0]] = map[string]any{}
		}
		setField(v[path[0]], path[1:], value)
	case []any:
		if i, err := strconv.Atoi(path[0]); err == nil && i < len(v) && len(path) > 1 {
			setField(v[i], path[1:], value)
		}
	}
}

var rejectedName = regexp.MustCompile(`^(resource name may not be empty|invalid resource name ".*)`)

// generated are names with a random end.
var generated = regexp.MustCompile(`"(kube-api-access)-[a-z0-9]{5}"`)

// compareAdmission runs a case on both sides.
func (r *Runner) compareAdmission(s *Scenario, kinds []*Kind, k *Kind, req *Request, number int, sum *AdmissionSummary) error {
	theirs, err := r.ref.Ask(req)
	if errors.Is(err, errBadRequest) {
		theirs, err = &Answer{Reason: "BadRequest"}, nil
	}
	if err != nil {
		return fmt.Errorf("case %d: %w", number, err)
	}
	sum.Cases++
	// Plugins of the reference ask an API server if they do not find an object. The client rejects
	// names before it asks, which is not forbidden then, but an internal error.
	if theirs.Panic != "" || theirs.Reason == "BadRequest" || rejectedName.MatchString(theirs.Error) {
		sum.Skipped++
		return nil
	}
	mine := func() (string, error) {
		ours := oursAdmitted(kinds, k, req)
		ours.Object, theirs.Object = generated.ReplaceAll(ours.Object, []byte(`"$1-x"`)), generated.ReplaceAll(theirs.Object, []byte(`"$1-x"`))
		return s.difference(k, ours, theirs)
	}
	text, err := mine()
	// Both sides iterate over maps.
	for range manyAttempts {
		if text == "" || err != nil {
			break
		}
		if Live() {
			if theirs, err = r.ref.AskAgain(req); err != nil {
				return err
			}
		}
		text, err = mine()
	}
	if err != nil {
		return fmt.Errorf("case %d: %w", number, err)
	}
	if theirs.Error == "" {
		sum.Accepted++
	}
	if text != "" {
		sum.Different++
		if len(sum.Differences) < maxDifferences {
			data, _ := json.Marshal(req)
			sum.Differences = append(sum.Differences, fmt.Sprintf("case %d: %s\n%.3000s", number, text, data))
		}
	}
	return nil
}

// difference describes the difference between two answers.
func (s *Scenario) difference(k *Kind, ours, theirs *Answer) (string, error) {
	if s.Plugin == "quota" && ours.Error == "" && theirs.Error == "" && ours.Panic == "" {
		a, err := parse(ours.Object)
		if err != nil {
			return "", err
		}
		b, err := parse(theirs.Object)
		if err != nil {
			return "", err
		}
		var lines []string
		compareValues(a, b, "", func(path, sign string, v any) { lines = append(lines, fmt.Sprint(sign, " ", path, ": ", v)) })
		return strings.Join(lines, "\n"), nil
	}
	d, err := compare(k, ours, theirs)
	if d == nil || err != nil {
		return "", err
	}
	return strings.Join(d.Lines, "\n"), nil
}

// existing are the objects that exist, by resource.
type existing map[schema.GroupResource][]kind.Object

func newExisting(kinds []*Kind, all []json.RawMessage) (existing, error) {
	e := existing{}
	for _, data := range all {
		var t struct{ APIVersion, Kind string }
		if err := json.Unmarshal(data, &t); err != nil {
			return nil, err
		}
		gvk := schema.FromAPIVersionAndKind(t.APIVersion, t.Kind)
		i := slices.IndexFunc(kinds, func(k *Kind) bool { return k.requested() == gvk })
		if i < 0 {
			return nil, fmt.Errorf("unknown kind %s", gvk)
		}
		obj, err := decode(data, gvk)
		if err != nil {
			return nil, err
		}
		gr := schema.GroupResource{Group: gvk.Group, Resource: kinds[i].Resource.Resource}
		e[gr] = append(e[gr], obj)
	}
	return e, nil
}

// Get implements the Lister of the plugins.
func (e existing) Get(_ context.Context, r schema.GroupResource, namespace, name string) (runtime.Object, error) {
	for _, obj := range e[r] {
		if obj.GetNamespace() == namespace && obj.GetName() == name {
			return obj, nil
		}
	}
	if r.Group == "" && r.Resource == "namespaces" {
		// The reference asks a server that answers with this text.
		err := apierrors.NewNotFound(r, name)
		err.ErrStatus.Message = "not found"
		return nil, err
	}
	return nil, apierrors.NewNotFound(r, name)
}

// List implements the Lister of the plugins.
func (e existing) List(_ context.Context, r schema.GroupResource, namespace string) (all []runtime.Object, _ error) {
	for _, obj := range e[r] {
		if namespace == "" || obj.GetNamespace() == namespace {
			all = append(all, obj)
		}
	}
	return all, nil
}

// oursAdmitted answers a request for admission with the plugins of this project.
func oursAdmitted(kinds []*Kind, k *Kind, req *Request) (a *Answer) {
	a = &Answer{}
	defer func() {
		if r := recover(); r != nil {
			a = &Answer{Panic: fmt.Sprint(r), Stack: string(debug.Stack())}
		}
	}()
	var warnings recorder
	object, err := admitted(kinds, k, req, &warnings)
	a.Object, a.Warnings = object, warnings
	if err == nil {
		return a
	}
	a.Object, a.Error = nil, err.Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		a.Error, a.Reason = s.Message, string(s.Reason)
		if s.Details != nil {
			for _, c := range s.Details.Causes {
				a.Errors = append(a.Errors, Cause{Type: string(c.Type), Field: c.Field, Message: c.Message})
			}
		}
	}
	return a
}

func admitted(kinds []*Kind, k *Kind, req *Request, warnings *recorder) (json.RawMessage, error) {
	objects, err := newExisting(kinds, req.Existing)
	if err != nil {
		return nil, err
	}
	obj, err := decode(req.Object, k.requested())
	if err != nil {
		return nil, err
	}
	if k.Namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(req.Namespace)
	}
	var old runtime.Object
	if len(req.Old) > 0 {
		if old, err = decode(req.Old, k.stored()); err != nil {
			return nil, err
		}
	}
	gvr := schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource.Resource}
	a := admission.NewAttributesRecord(obj, old, k.requested(), req.Namespace, obj.GetName(), gvr, req.Subresource, admission.Operation(req.Operation), nil, false, requester)
	if req.Op == "quota" {
		return charged(objects, a)
	}
	all := plugins.All()
	i := slices.IndexFunc(all, func(p plugins.Plugin) bool { return p.Name == req.Plugin })
	if i < 0 {
		return nil, fmt.Errorf("there is no plugin %s", req.Plugin)
	}
	plugin, err := all[i].New(plugins.Config{Objects: objects, Configuration: []byte(req.Configuration), Version: version.MustParse(referenceVersion)})
	if err != nil {
		return nil, err
	}
	ctx := warning.WithWarningRecorder(klog.NewContext(context.Background(), klog.Logger{}), warnings)
	if plugin.Handles(a.GetOperation()) {
		if p, ok := plugin.(admission.MutationInterface); ok {
			if err := p.Admit(ctx, a, nil); err != nil {
				return nil, err
			}
		}
		if p, ok := plugin.(admission.ValidationInterface); ok {
			if err := p.Validate(ctx, a, nil); err != nil {
				return nil, err
			}
		}
	}
	return encode(obj, k.stored())
}

// charged charges a request to the quotas that exist, and counts what other objects use.
func charged(objects existing, a admission.Attributes) (json.RawMessage, error) {
	list := func(r schema.GroupResource, namespace string) ([]runtime.Object, error) {
		return objects.List(context.Background(), r, namespace)
	}
	count := func(r schema.GroupResource, namespace string) (int64, error) {
		all, err := list(r, namespace)
		return int64(len(all)), err
	}
	registry := generic.NewRegistry(nil)
	for _, name := range []string{"pods", "services", "persistentvolumeclaims", "resourceclaims.resource.k8s.io", "configmaps", "secrets", "replicationcontrollers", "resourcequotas", a.GetResource().GroupResource().String()} {
		registry.Add(quota.Evaluator(schema.ParseGroupResource(name), list, count))
	}
	stored, err := list(schema.GroupResource{Resource: "resourcequotas"}, "")
	if err != nil {
		return nil, err
	}
	var quotas []corev1.ResourceQuota
	for _, obj := range stored {
		quotas = append(quotas, *obj.(*corev1.ResourceQuota))
	}
	slices.SortFunc(quotas, func(a, b corev1.ResourceQuota) int { return strings.Compare(a.Name, b.Name) })
	next, err := resourcequota.CheckRequest(quotas, a, registry.Get(a.GetResource().GroupResource()), nil)
	if err != nil {
		return nil, err
	}
	type usage struct {
		Name string              `json:"name"`
		Used corev1.ResourceList `json:"used"`
	}
	var out struct {
		Charged []usage `json:"charged"`
		Counted []usage `json:"counted"`
	}
	for _, q := range next {
		out.Charged = append(out.Charged, usage{q.Name, q.Status.Used})
		used, err := quotav1.CalculateUsage(a.GetNamespace(), q.Spec.Scopes, q.Spec.Hard, registry, q.Spec.ScopeSelector)
		if err != nil {
			return nil, err
		}
		out.Counted = append(out.Counted, usage{q.Name, used})
	}
	return json.Marshal(out)
}
