package openapi

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
)

// resource is a resource with its paths.
type resource struct {
	kind       runtimeschema.GroupVersionKind
	plural     string
	listKind   string
	namespaced bool
	status     bool
	scale      bool
	// object and list are the names of the definitions of an object and of a list.
	object, list string
}

// route is one operation on one path: a common.Route.
type route struct {
	method, path, verb, operation, description string

	params    []common.Parameter
	consumes  []string
	produces  []string
	metadata  map[string]any
	reads     any
	responses []common.StatusCodeResponse
}

func (r *route) Method() string                                   { return r.method }
func (r *route) Path() string                                     { return r.path }
func (r *route) OperationName() string                            { return r.operation }
func (r *route) Parameters() []common.Parameter                   { return r.params }
func (r *route) Description() string                              { return r.description }
func (r *route) Consumes() []string                               { return r.consumes }
func (r *route) Produces() []string                               { return r.produces }
func (r *route) Metadata() map[string]any                         { return r.metadata }
func (r *route) RequestPayloadSample() any                        { return r.reads }
func (r *route) ResponsePayloadSample() any                       { return nil }
func (r *route) StatusCodeResponses() []common.StatusCodeResponse { return r.responses }

// routes is a common.RouteContainer.
type routes []common.Route

func (routes) RootPath() string                   { return "" }
func (routes) PathParameters() []common.Parameter { return nil }
func (r routes) Routes() []common.Route           { return r }

// response is a common.StatusCodeResponse.
type response struct {
	code  int
	model any
}

func (r response) Code() int       { return r.code }
func (r response) Message() string { return http.StatusText(r.code) }
func (r response) Model() any      { return r.model }

// param is a common.Parameter.
type param struct {
	kind                        common.ParameterKind
	name, description, dataType string
	required                    bool
}

func (p param) Name() string               { return p.name }
func (p param) Description() string        { return p.description }
func (p param) Required() bool             { return p.required }
func (p param) Kind() common.ParameterKind { return p.kind }
func (p param) DataType() string           { return p.dataType }
func (p param) AllowMultiple() bool        { return false }

// model is the name of a definition, used instead of a value of a Go type.
type model string

// OpenAPIModelName returns the name.
func (m model) OpenAPIModelName() string { return string(m) }

var _ util.OpenAPIModelNamer = model("")

// routes returns all operations on a resource.
func (r *resource) routes() routes {
	object, list := model(r.object), model(r.list)
	root := "/apis/" + r.kind.Group + "/" + r.kind.Version + "/"
	collection, scope := root+r.plural, ""
	var out routes
	if r.namespaced {
		all := r.route(http.MethodGet, collection, "list", "list", "", list)
		all.operation = "list" + r.kind.Kind + "ForAllNamespaces"
		out = append(out, all)
		collection, scope = root+"namespaces/{namespace}/"+r.plural, "Namespaced"
	}
	add := func(method, path, action, verb, subresource string, reads, returns any) {
		rt := r.route(method, path, action, verb, subresource, returns)
		rt.operation = verb + scope + r.kind.Kind +
			strings.ToUpper(subresource[:min(1, len(subresource))]) + subresource[min(1, len(subresource)):]
		if reads != nil {
			rt.read(reads, true)
		}
		out = append(out, rt)
	}
	add(http.MethodGet, collection, "list", "list", "", nil, list)
	add(http.MethodPost, collection, "post", "create", "", object, object)
	add(http.MethodDelete, collection, "deletecollection", "deletecollection", "", nil, metav1.Status{})

	one := collection + "/{name}"
	add(http.MethodGet, one, "get", "read", "", nil, object)
	add(http.MethodPut, one, "put", "replace", "", object, object)
	add(http.MethodDelete, one, "delete", "delete", "", nil, metav1.Status{})
	add(http.MethodPatch, one, "patch", "patch", "", metav1.Patch{}, object)
	subresource := func(name string, object any) {
		add(http.MethodGet, one+"/"+name, "get", "read", name, nil, object)
		add(http.MethodPut, one+"/"+name, "put", "replace", name, object, object)
		add(http.MethodPatch, one+"/"+name, "patch", "patch", name, metav1.Patch{}, object)
	}
	if r.status {
		subresource("status", object)
	}
	if r.scale {
		subresource("scale", autoscalingv1.Scale{})
	}
	return out
}

// route returns one operation, without its body and query parameters.
func (r *resource) route(method, path, action, verb, subresource string, returns any) *route {
	out := &route{
		method:      method,
		path:        path,
		verb:        verb,
		description: describe(verb, subresource, r.kind.Kind),
		consumes:    []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML},
		produces:    []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML},
		metadata: map[string]any{
			"x-kubernetes-group-version-kind": metav1.GroupVersionKind{Group: r.kind.Group, Version: r.kind.Version, Kind: r.kind.Kind},
			"x-kubernetes-action":             action,
		},
		params: []common.Parameter{param{
			kind: common.QueryParameterKind, name: "pretty", dataType: "string",
			description: "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or command-line HTTP tool (curl and wget).",
		}},
		responses: []common.StatusCodeResponse{response{http.StatusOK, returns}},
	}
	inPath := func(name, description string) {
		if strings.Contains(path, "{"+name+"}") {
			out.params = append(out.params, param{kind: common.PathParameterKind, name: name,
				description: description, dataType: "string", required: true})
		}
	}
	inPath("namespace", "object name and auth scope, such as for teams and projects")
	inPath("name", "name of the "+r.kind.Kind)
	also := func(code int) { out.responses = append(out.responses, response{code, returns}) }
	switch action {
	case "get":
		out.options(metav1.GetOptions{})
	case "list", "deletecollection":
		out.options(metav1.ListOptions{})
	case "put":
		out.options(metav1.UpdateOptions{})
		also(http.StatusCreated)
	case "patch":
		out.options(metav1.PatchOptions{})
		out.consumes = []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}
	case "post":
		out.options(metav1.CreateOptions{})
		also(http.StatusAccepted)
		also(http.StatusCreated)
	case "delete":
		out.options(metav1.DeleteOptions{})
		out.read(metav1.DeleteOptions{}, false)
		also(http.StatusAccepted)
	}
	return out
}

// read sets the body of a request.
func (r *route) read(sample any, required bool) {
	r.reads = sample
	r.params = append(r.params, param{kind: common.BodyParameterKind, name: "body", required: required})
}

// options adds the fields of a type as query parameters, as far as a query can express
// them.
func (r *route) options(options interface{ SwaggerDoc() map[string]string }) {
	t := reflect.TypeOf(options)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		of := f.Type
		if of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		var dataType string
		switch of.Kind() {
		case reflect.Bool:
			dataType = "boolean"
		case reflect.Int64:
			dataType = "integer"
		case reflect.String:
			dataType = "string"
		default:
			continue
		}
		r.params = append(r.params, param{
			kind: common.QueryParameterKind, name: name, description: options.SwaggerDoc()[name], dataType: dataType,
		})
	}
}

// describe returns the description of an operation.
func describe(verb, subresource, kind string) string {
	of := ""
	if subresource != "" {
		of = " " + subresource + " of"
	}
	switch verb {
	case "list":
		return "list" + of + " objects of kind " + kind
	case "create", "delete":
		return verb + of + article(kind) + kind
	case "deletecollection":
		return "delete collection of " + kind
	case "patch":
		verb = "partially update"
	}
	return verb + of + " the specified " + kind
}

// article returns the article in front of a kind, if it is singular.
func article(kind string) string {
	switch {
	case strings.HasSuffix(kind, "s") && !strings.HasSuffix(kind, "ss"):
		return " "
	case strings.ContainsRune("AEIOUaeiou", rune((kind + " ")[0])):
		return " an "
	default:
		return " a "
	}
}

// operationID returns a name for an operation that is unique across all groups, and the
// tag that the operations of a group and version share.
func operationID(r common.Route) (string, []string, error) {
	parts := strings.Split(strings.Trim(r.Path(), "/"), "/") // apis, group, version, …
	if parts[0] == "api" {
		parts = slices.Insert(parts, 1, "core")
	}
	group := strings.TrimSuffix(parts[1], ".k8s.io")
	verb := strings.TrimSuffix(r.(*route).verb, "collection")
	name := strings.TrimPrefix(r.OperationName(), verb)
	id := verb + camel(group, true) + camel(parts[2], true) + camel(name, true)
	return id, []string{camel(group, false) + "_" + camel(parts[2], false)}, nil
}

// camel removes the characters that a name cannot have, and capitalizes the character
// after each gap and, if first is true, the first one.
func camel(s string, first bool) string {
	var b strings.Builder
	capital := first
	for i, r := range s {
		switch {
		case !unicode.IsLetter(r) && r != '_' && (i == 0 || !unicode.IsDigit(r)):
			capital = true
		case capital:
			b.WriteRune(unicode.ToUpper(r))
			capital = false
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
