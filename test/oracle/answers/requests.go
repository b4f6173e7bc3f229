package answers

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Media types.
const (
	jsonType        = "application/json"
	yamlType        = "application/yaml"
	protobufType    = "application/vnd.kubernetes.protobuf"
	jsonPatch       = "application/json-patch+json"
	mergePatch      = "application/merge-patch+json"
	strategicPatch  = "application/strategic-merge-patch+json"
	applyPatch      = "application/apply-patch+yaml"
	tableType       = "application/json;as=Table;v=v1;g=meta.k8s.io"
	metadataType    = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	metadataOfLists = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// Request is a request to a server.
type Request struct {
	// ID is the name of the request in the files.
	ID          string
	Method      string
	Path        string
	Accept      string
	ContentType string
	Body        string
}

// requests collects the requests about a subject.
type requests struct {
	subject
	id  string
	all []Request
}

// Requests returns all requests, in their order.
func Requests() ([]Request, error) {
	all := general()
	subjects, err := subjects()
	if err != nil {
		return nil, err
	}
	for _, s := range subjects {
		r := &requests{subject: s, id: s.apiVersion() + "/" + s.Resource}
		r.create()
		r.read()
		r.list()
		r.broken()
		r.fields()
		r.update()
		r.patch()
		r.apply()
		r.methods()
		r.subresources()
		r.remove()
		all = append(all, r.all...)
	}
	seen := map[string]bool{}
	for _, r := range all {
		if seen[r.ID] {
			return nil, fmt.Errorf("two requests are named %q", r.ID)
		}
		seen[r.ID] = true
	}
	return all, nil
}

func (r *requests) add(id, method, path, contentType, body string) {
	r.all = append(r.all, Request{ID: r.id + " " + id, Method: method, Path: path, ContentType: contentType, Body: body})
}

// item is the path of the object, and of a part of it.
func (r *requests) item(parts ...string) string {
	return strings.Join(append([]string{r.collection(), r.name()}, parts...), "/")
}

func (r *requests) create() {
	r.add("create", "POST", r.collection(), jsonType, text(r.Object))
	r.add("create again", "POST", r.collection(), jsonType, text(r.Object))
	r.add("create in YAML, dry run", "POST", r.collection()+"?dryRun=All", yamlType, text(r.with(map[string]any{"metadata.name": r.name() + "-yaml"})))
}

// accepted are media types that clients ask for.
func accepted() map[string]string {
	return map[string]string{
		"JSON": jsonType, "YAML": yamlType, "protobuf": protobufType, "table": tableType, "metadata": metadataType, "list of metadata": metadataOfLists,
		"any": "*/*", "any application": "application/*", "text": "text/plain", "HTML": "text/html", "CBOR": "application/cbor",
		"table or JSON": tableType + ",application/json", "old table": "application/json;as=Table;v=v1alpha1;g=meta.k8s.io",
		"bad conversion": "application/json;as=Nothing;v=v1;g=meta.k8s.io", "quality": "application/yaml;q=0.1,application/json;q=0.9", "broken": ";;",
		"pretty": "application/json;pretty=1", "table of protobuf": protobufType + ";as=Table;v=v1;g=meta.k8s.io", "text or JSON": "text/plain, application/json",
	}
}

func (r *requests) read() {
	for _, name := range slices.Sorted(maps.Keys(accepted())) {
		for what, path := range map[string]string{"": r.item(), " of a list": r.collection() + "?fieldSelector=metadata.name%3D" + r.name()} {
			r.all = append(r.all, Request{ID: r.id + " get as " + name + what, Method: "GET", Path: path, Accept: accepted()[name]})
		}
	}
	slices.SortStableFunc(r.all[len(r.all)-2*len(accepted()):], func(a, b Request) int { return strings.Compare(a.ID, b.ID) })
	r.all = append(r.all, Request{ID: r.id + " get missing as a table", Method: "GET", Path: r.collection() + "/missing", Accept: tableType})
	r.add("get missing", "GET", r.collection()+"/missing", "", "")
	for _, query := range []string{"resourceVersion=0", "resourceVersion=1", "resourceVersion=x", "resourceVersion=-1", "pretty=true", "includeObject=None", "includeObject=x",
		"resourceVersionMatch=Exact", "watch=x", "limit=1", "fieldSelector=a%3Db", "export=true"} {
		r.add("get ?"+query, "GET", r.item()+"?"+query, "", "")
	}
	r.add("head", "HEAD", r.item(), "", "")
	r.add("get with a slash", "GET", r.item()+"/", "", "")
	r.add("get an escaped name", "GET", r.collection()+"/a%2Fb", "", "")
	r.add("get a strange name", "GET", r.collection()+"/A_B", "", "")
}

func (r *requests) list() {
	for _, query := range []string{
		"labelSelector=a", "labelSelector=a%3Db", "labelSelector=a%3Db%3Dc", "labelSelector=a+in+(b", "labelSelector=!a", "labelSelector=a%3E1", "labelSelector=a%3Ex", "labelSelector=-%3Da", "labelSelector=a+notin+(b,c)",
		"fieldSelector=metadata.name%3Dnone", "fieldSelector=metadata.name!%3D" + r.name() + ",metadata.name!%3Dx&labelSelector=none", "fieldSelector=metadata.namespace%3Dnone", "fieldSelector=spec.nothing%3Da", "fieldSelector=a", "fieldSelector=status.phase%3Dx",
		"fieldSelector=spec.nodeName%3Da", "fieldSelector=type%3Da", "fieldSelector=spec.color%3Dred", "fieldSelector=spec.unschedulable%3Dx", "fieldSelector=metadata.name%3D" + r.name() + "&labelSelector=none",
		"limit=-1", "limit=x", "limit=1&labelSelector=none", "continue=x", "continue=x&resourceVersion=1", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi94In0",
		"resourceVersion=x", "resourceVersion=-1", "resourceVersion=0&labelSelector=none", "resourceVersion=0&resourceVersionMatch=Exact", "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=x&resourceVersion=1",
		"resourceVersion=1&resourceVersionMatch=Exact&labelSelector=none", "resourceVersion=0&resourceVersionMatch=NotOlderThan&labelSelector=none", "resourceVersion=1&resourceVersionMatch=NotOlderThan&continue=x",
		"timeoutSeconds=x", "timeoutSeconds=-1&labelSelector=none", "watch=0&labelSelector=none", "watch=1&resourceVersion=x", "watch=1&continue=x", "watch=1&limit=x", "watch=1&resourceVersionMatch=Exact", "watch=1&resourceVersionMatch=NotOlderThan",
		"watch=1&sendInitialEvents=true", "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", "watch=1&sendInitialEvents=x", "sendInitialEvents=true", "watch=1&fieldSelector=spec.nothing%3Da", "watch=1&labelSelector=a%3Db%3Dc",
		"allowWatchBookmarks=x", "pretty=1&labelSelector=none", "shardSelector=x",
	} {
		r.add("list ?"+query, "GET", r.collection()+"?"+query, "", "")
	}
	if strings.Contains(r.collection(), "/namespaces/") {
		r.add("list all namespaces", "GET", r.prefix()+"/"+r.Resource+"?labelSelector=none", "", "")
		r.add("create in all namespaces", "POST", r.prefix()+"/"+r.Resource, jsonType, text(r.Object))
		r.add("delete in all namespaces", "DELETE", r.prefix()+"/"+r.Resource+"?dryRun=All", "", "")
		r.add("get without a namespace", "GET", r.prefix()+"/"+r.Resource+"/"+r.name(), "", "")
		r.add("list in a namespace that does not exist", "GET", r.prefix()+"/namespaces/missing/"+r.Resource, "", "")
		r.add("create in a namespace that does not exist", "POST", r.prefix()+"/namespaces/missing/"+r.Resource, jsonType, text(r.with(map[string]any{"metadata.namespace": nil})))
		r.add("create in another namespace", "POST", r.collection(), jsonType, text(r.with(map[string]any{"metadata.namespace": "other"})))
		r.add("watch path without a name", "GET", strings.Replace(r.collection(), r.prefix(), r.prefix()+"/watch", 1)+"?resourceVersion=x", "", "")
	} else {
		r.add("create in a namespace", "POST", r.prefix()+"/namespaces/answers/"+r.Resource, jsonType, text(r.Object))
		r.add("get in a namespace", "GET", r.prefix()+"/namespaces/answers/"+r.Resource+"/"+r.name(), "", "")
		r.add("create with a namespace", "POST", r.collection()+"?dryRun=All", jsonType, text(r.with(map[string]any{"metadata.namespace": "answers", "metadata.name": r.name() + "-ns"})))
	}
	r.add("watch path", "GET", strings.Replace(r.item(), r.prefix(), r.prefix()+"/watch", 1)+"?resourceVersion=x", "", "")
}

// bodies are bodies that no server accepts, by name.
func (r *requests) bodies() map[string][2]string {
	changed := func(changes map[string]any) string { return text(r.with(changes)) }
	return map[string][2]string{
		"empty":                  {jsonType, ""},
		"object without fields":  {jsonType, "{}"},
		"array":                  {jsonType, "[]"},
		"array of objects":       {jsonType, "[" + text(r.Object) + "]"},
		"string":                 {jsonType, `"a"`},
		"number":                 {jsonType, "1"},
		"null":                   {jsonType, "null"},
		"broken JSON":            {jsonType, `{"apiVersion":`},
		"two objects":            {jsonType, "{}{}"},
		"broken YAML":            {yamlType, "a: [b\n"},
		"two documents":          {yamlType, "a: b\n---\na: b\n"},
		"YAML as JSON":           {jsonType, "a: b\n"},
		"only a kind":            {jsonType, text(map[string]any{"kind": r.kind()})},
		"only an apiVersion":     {jsonType, text(map[string]any{"apiVersion": r.apiVersion()})},
		"only kind Foo":          {jsonType, `{"kind":"Foo"}`},
		"only a name":            {jsonType, `{"metadata":{"name":"x"}}`},
		"unknown kind":           {jsonType, changed(map[string]any{"kind": "Foo"})},
		"no kind":                {jsonType, changed(map[string]any{"kind": nil})},
		"unknown version":        {jsonType, changed(map[string]any{"apiVersion": "example.com/v7"})},
		"malformed apiVersion":   {jsonType, changed(map[string]any{"apiVersion": "a/b/c"})},
		"no apiVersion":          {jsonType, changed(map[string]any{"apiVersion": nil})},
		"kind of type number":    {jsonType, changed(map[string]any{"kind": 1})},
		"Secret":                 {jsonType, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`},
		"list":                   {jsonType, text(map[string]any{"apiVersion": r.apiVersion(), "kind": r.kind() + "List", "items": []any{}})},
		"metadata string":        {jsonType, changed(map[string]any{"metadata": "x"})},
		"name number":            {jsonType, changed(map[string]any{"metadata.name": 1})},
		"labels array":           {jsonType, changed(map[string]any{"metadata.labels": []any{}})},
		"spec string":            {jsonType, changed(map[string]any{"spec": "x"})},
		"spec array":             {jsonType, changed(map[string]any{"spec": []any{1}})},
		"no content type":        {"", text(r.Object)},
		"text":                   {"text/plain", text(r.Object)},
		"form":                   {"application/x-www-form-urlencoded", "a=b"},
		"broken content type":    {";;", text(r.Object)},
		"JSON with a charset":    {"application/json; charset=utf-8", "{}"},
		"a patch":                {mergePatch, "{}"},
		"protobuf without magic": {protobufType, "x"},
		"empty protobuf":         {protobufType, "k8s\x00"},
		"JSON as protobuf":       {protobufType, text(r.Object)},
		"JSON as CBOR":           {"application/cbor", text(r.Object)},
		"deep nesting":           {jsonType, strings.Repeat("[", 20000)},
		"large number":           {jsonType, `{"apiVersion":"` + r.apiVersion() + `","kind":"` + r.kind() + `","metadata":{"generation":99999999999999999999999}}`},
		"invalid UTF-8":          {jsonType, "{\"a\":\"\xff\"}"},
	}
}

// someBodies are names of bodies that are sent with more methods.
var someBodies = []string{"array", "broken JSON", "text", "protobuf without magic", "unknown kind", "unknown version", "only kind Foo", "Secret", "spec string", "metadata string", "no kind", "no apiVersion",
	"no content type", "only a kind", "object without fields", "empty"}

func (r *requests) broken() {
	bodies := r.bodies()
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		r.add("create from "+name, "POST", r.collection()+"?dryRun=All", bodies[name][0], bodies[name][1])
	}
	for _, name := range someBodies {
		r.add("put "+name, "PUT", r.item()+"?dryRun=All", bodies[name][0], bodies[name][1])
	}
}

// fields sends objects with other fields, and other parameters of a request.
func (r *requests) fields() {
	long := strings.Repeat("a", 254)
	for _, c := range []struct {
		id      string
		query   string
		changes map[string]any
	}{
		{"without a name", "", map[string]any{"metadata.name": nil}},
		{"without metadata", "", map[string]any{"metadata": nil}},
		{"with an empty name", "", map[string]any{"metadata.name": ""}},
		{"with capitals", "", map[string]any{"metadata.name": "Answers"}},
		{"with a slash", "", map[string]any{"metadata.name": "a/b"}},
		{"with a percent sign", "", map[string]any{"metadata.name": "a%b"}},
		{"named with a dot", "", map[string]any{"metadata.name": "."}},
		{"with a long name", "", map[string]any{"metadata.name": long}},
		{"with a bad generateName", "", map[string]any{"metadata.name": nil, "metadata.generateName": "A_"}},
		{"with a bad label", "", map[string]any{"metadata.labels": map[string]any{"a b": "c"}}},
		{"with a bad value of a label", "", map[string]any{"metadata.labels": map[string]any{"a": "-x"}}},
		{"with a bad annotation", "", map[string]any{"metadata.annotations": map[string]any{"a b": "c"}}},
		{"with a long annotation", "", map[string]any{"metadata.annotations": map[string]any{"a": strings.Repeat("x", 262145)}}},
		{"with a bad finalizer", "", map[string]any{"metadata.finalizers": []any{"a b"}}},
		{"with a finalizer without a domain", "", map[string]any{"metadata.name": r.name() + "-f", "metadata.finalizers": []any{"a"}}},
		{"with a bad owner", "", map[string]any{"metadata.ownerReferences": []any{map[string]any{"kind": "Pod"}}}},
		{"with two controllers", "", map[string]any{"metadata.ownerReferences": []any{
			map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "a", "controller": true}, map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "b", "controller": true}}}},
		{"with a UID", "", map[string]any{"metadata.name": r.name() + "-u", "metadata.uid": "x"}},
		{"with a resourceVersion", "", map[string]any{"metadata.name": r.name() + "-r", "metadata.resourceVersion": "5"}},
		{"with resourceVersion 0", "", map[string]any{"metadata.name": r.name() + "-r", "metadata.resourceVersion": "0"}},
		{"with a generation", "", map[string]any{"metadata.name": r.name() + "-g", "metadata.generation": 7}},
		{"with a deletionTimestamp", "", map[string]any{"metadata.name": r.name() + "-d", "metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}},
		{"with a bad timestamp", "", map[string]any{"metadata.creationTimestamp": "x"}},
		{"with bad managedFields", "", map[string]any{"metadata.name": r.name() + "-m", "metadata.managedFields": []any{map[string]any{"manager": "a", "operation": "x"}}}},
		{"with status", "", map[string]any{"metadata.name": r.name() + "-s", "status": map[string]any{}}},
		{"with an unknown field", "", map[string]any{"metadata.name": r.name() + "-n", "unknown": 1, "spec.unknown": 1}},
		{"with an unknown field, strict", "&fieldValidation=Strict", map[string]any{"metadata.name": r.name() + "-n", "unknown": 1, "metadata.unknown": 1}},
		{"with an unknown field, warn", "&fieldValidation=Warn", map[string]any{"metadata.name": r.name() + "-n", "unknown": 1, "metadata.unknown": 1}},
		{"with an unknown field, ignore", "&fieldValidation=Ignore", map[string]any{"metadata.name": r.name() + "-n", "unknown": 1}},
		{"with an unknown validation", "&fieldValidation=x", map[string]any{"metadata.name": r.name() + "-n"}},
		{"with two dry runs", "&dryRun=x", map[string]any{"metadata.name": r.name() + "-n"}},
		{"with a long field manager", "&fieldManager=" + strings.Repeat("a", 129), map[string]any{"metadata.name": r.name() + "-n"}},
		{"with a bad field manager", "&fieldManager=a%07", map[string]any{"metadata.name": r.name() + "-n"}},
		{"with a field manager", "&fieldManager=a", map[string]any{"metadata.name": r.name() + "-n"}},
		{"without a spec", "", map[string]any{"metadata.name": r.name() + "-n", "spec": nil}},
		{"with an empty spec", "", map[string]any{"metadata.name": r.name() + "-n", "spec": map[string]any{}}},
		{"with a number for a spec", "", map[string]any{"metadata.name": r.name() + "-n", "spec": 5}},
		{"with null labels", "", map[string]any{"metadata.name": r.name() + "-n", "metadata.labels": map[string]any{"a": true}}},
	} {
		r.add("create "+c.id, "POST", r.collection()+"?dryRun=All"+c.query, jsonType, text(r.with(c.changes)))
	}
	r.add("create with a duplicate, strict", "POST", r.collection()+"?dryRun=All&fieldValidation=Strict", jsonType, strings.Replace(text(r.with(map[string]any{"metadata.name": r.name() + "-n"})), "{", `{"apiVersion":"x",`, 1))
	r.add("create with a duplicate", "POST", r.collection()+"?dryRun=All", jsonType, strings.Replace(text(r.with(map[string]any{"metadata.name": r.name() + "-n"})), "{", `{"kind":"x",`, 1))
	r.add("create with a field in capitals, strict", "POST", r.collection()+"?dryRun=All&fieldValidation=Strict", jsonType, strings.Replace(text(r.with(map[string]any{"metadata.name": r.name() + "-n"})), `"metadata"`, `"Metadata"`, 1))
	r.add("create with dryRun=x", "POST", r.collection()+"?dryRun=x", jsonType, text(r.Object))
	r.add("create with an empty dryRun", "POST", r.collection()+"?dryRun=", jsonType, text(r.Object))
}

func (r *requests) update() {
	put := func(id, query string, changes map[string]any) {
		r.add("put "+id, "PUT", r.item()+query, jsonType, text(r.with(changes)))
	}
	put("the same", "", nil)
	put("another name", "", map[string]any{"metadata.name": "other"})
	put("without a name", "?dryRun=All", map[string]any{"metadata.name": nil})
	put("another UID", "", map[string]any{"metadata.uid": "x"})
	put("an old resourceVersion", "", map[string]any{"metadata.resourceVersion": "1"})
	put("a bad resourceVersion", "", map[string]any{"metadata.resourceVersion": "x"})
	put("a deletionTimestamp", "?dryRun=All", map[string]any{"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})
	put("labels", "", map[string]any{"metadata.labels": map[string]any{"answers": "put"}})
	put("bad labels", "", map[string]any{"metadata.labels": map[string]any{"a b": "c"}})
	put("an unknown field, strict", "?fieldValidation=Strict", map[string]any{"unknown": 1})
	put("no spec", "?dryRun=All", map[string]any{"spec": nil})
	put("dryRun=x", "?dryRun=x", nil)
	r.add("put missing", "PUT", r.collection()+"/missing", jsonType, text(r.with(map[string]any{"metadata.name": "missing", "metadata.resourceVersion": "1"})))
	r.add("put missing with a UID", "PUT", r.collection()+"/missing", jsonType, text(r.with(map[string]any{"metadata.name": "missing", "metadata.uid": "x", "metadata.resourceVersion": "1"})))
}

func (r *requests) patch() {
	for _, c := range []struct{ id, contentType, body string }{
		{"empty", jsonPatch, "[]"}, {"test that fails", jsonPatch, `[{"op":"test","path":"/metadata/name","value":"x"}]`},
		{"missing path", jsonPatch, `[{"op":"remove","path":"/nothing"}]`}, {"missing parent", jsonPatch, `[{"op":"add","path":"/a/b/c","value":1}]`},
		{"unknown operation", jsonPatch, `[{"op":"x","path":"/a"}]`}, {"object", jsonPatch, `{"a":1}`}, {"broken", jsonPatch, `[{`}, {"no body", jsonPatch, ``},
		{"bad pointer", jsonPatch, `[{"op":"add","path":"a","value":1}]`}, {"index", jsonPatch, `[{"op":"add","path":"/metadata/finalizers/5","value":"a/b"}]`},
		{"label", jsonPatch, `[{"op":"add","path":"/metadata/annotations","value":{"answers":"json"}}]`}, {"name", jsonPatch, `[{"op":"replace","path":"/metadata/name","value":"x"}]`},
		{"kind", jsonPatch, `[{"op":"replace","path":"/kind","value":"x"}]`}, {"no kind", jsonPatch, `[{"op":"remove","path":"/kind"}]`}, {"root", jsonPatch, `[{"op":"replace","path":"","value":{}}]`},
		{"metadata number", jsonPatch, `[{"op":"replace","path":"/metadata","value":1}]`}, {"unknown field", jsonPatch, `[{"op":"add","path":"/unknown","value":1}]`},
		{"too many", jsonPatch, "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"x"},`, 10001), ",") + "]"},
		{"empty", mergePatch, "{}"}, {"array", mergePatch, "[]"}, {"broken", mergePatch, "{"}, {"null", mergePatch, "null"}, {"no body", mergePatch, ""}, {"string", mergePatch, `"a"`},
		{"label", mergePatch, `{"metadata":{"annotations":{"answers":"merge"}}}`}, {"name", mergePatch, `{"metadata":{"name":"x"}}`}, {"namespace", mergePatch, `{"metadata":{"namespace":"x"}}`},
		{"kind", mergePatch, `{"kind":"x"}`}, {"apiVersion", mergePatch, `{"apiVersion":"x/v1"}`}, {"UID", mergePatch, `{"metadata":{"uid":"x"}}`}, {"resourceVersion", mergePatch, `{"metadata":{"resourceVersion":"1"}}`},
		{"labels string", mergePatch, `{"metadata":{"labels":"x"}}`}, {"bad label", mergePatch, `{"metadata":{"labels":{"a b":"c"}}}`}, {"spec number", mergePatch, `{"spec":1}`}, {"spec null", mergePatch, `{"spec":null}`},
		{"unknown field", mergePatch, `{"unknown":1,"spec":{"unknown":1}}`}, {"duplicate", mergePatch, `{"metadata":{},"metadata":{}}`}, {"finalizer", mergePatch, `{"metadata":{"finalizers":["a b"]}}`},
		{"empty", strategicPatch, "{}"}, {"array", strategicPatch, "[]"}, {"broken", strategicPatch, "{"}, {"label", strategicPatch, `{"metadata":{"annotations":{"answers":"strategic"}}}`},
		{"unknown directive", strategicPatch, `{"$patch":"x"}`}, {"delete", strategicPatch, `{"$patch":"delete"}`}, {"replace", strategicPatch, `{"metadata":{"labels":{"$patch":"replace","a":"b"}}}`},
		{"retain keys", strategicPatch, `{"$retainKeys":["a"],"b":1}`}, {"delete from list", strategicPatch, `{"$deleteFromPrimitiveList/x":["a"]}`}, {"order", strategicPatch, `{"$setElementOrder/x":["a"]}`}, {"owner without a key", strategicPatch, `{"metadata":{"ownerReferences":[{"kind":"x"}]}}`},
		{"labels string", strategicPatch, `{"metadata":{"labels":"x"}}`}, {"spec number", strategicPatch, `{"spec":1}`},
		{"as JSON", jsonType, "{}"}, {"as text", "text/plain", "{}"}, {"without a content type", "", "{}"}, {"as YAML", yamlType, "a: b"},
	} {
		kind := strings.TrimSuffix(strings.TrimPrefix(c.contentType, "application/"), "+json")
		query := "?dryRun=All"
		if c.id == "label" {
			query = ""
		}
		r.add("patch "+kind+" "+c.id, "PATCH", r.item()+query, c.contentType, c.body)
	}
	r.add("patch unknown field, strict", "PATCH", r.item()+"?dryRun=All&fieldValidation=Strict", mergePatch, `{"unknown":1}`)
	r.add("patch unknown field, warn", "PATCH", r.item()+"?dryRun=All&fieldValidation=Warn", mergePatch, `{"unknown":1}`)
	r.add("patch unknown validation", "PATCH", r.item()+"?fieldValidation=x", mergePatch, `{}`)
	r.add("patch with force", "PATCH", r.item()+"?force=true", mergePatch, `{}`)
	r.add("patch dryRun=x", "PATCH", r.item()+"?dryRun=x", mergePatch, `{}`)
	for name, contentType := range map[string]string{"json": jsonPatch, "merge": mergePatch, "strategic": strategicPatch} {
		body := "{}"
		if name == "json" {
			body = "[]"
		}
		r.add("patch missing "+name, "PATCH", r.collection()+"/missing", contentType, body)
	}
	slices.SortStableFunc(r.all[len(r.all)-3:], func(a, b Request) int { return strings.Compare(a.ID, b.ID) })
}

func (r *requests) apply() {
	own := func(changes map[string]any) string {
		object := map[string]any{"apiVersion": r.apiVersion(), "kind": r.kind(), "metadata": map[string]any{"name": r.name()}}
		changed := subject{r.Resource, object}.with(changes)
		return text(changed)
	}
	for _, c := range []struct{ id, query, body string }{
		{"without a manager", "", own(nil)},
		{"an annotation", "?fieldManager=one", own(map[string]any{"metadata.annotations": map[string]any{"applied": "one"}})},
		{"a conflict", "?fieldManager=two", own(map[string]any{"metadata.annotations": map[string]any{"applied": "two"}})},
		{"with force", "?fieldManager=two&force=true", own(map[string]any{"metadata.annotations": map[string]any{"applied": "two"}})},
		{"with force=x", "?fieldManager=two&force=x", own(nil)},
		{"the same", "?fieldManager=two", own(map[string]any{"metadata.annotations": map[string]any{"applied": "two"}})},
		{"nothing", "?fieldManager=two", own(nil)},
		{"another name", "?fieldManager=one&dryRun=All", own(map[string]any{"metadata.name": "other"})},
		{"another kind", "?fieldManager=one&dryRun=All", own(map[string]any{"kind": "Foo"})},
		{"another version", "?fieldManager=one&dryRun=All", own(map[string]any{"apiVersion": "example.com/v7"})},
		{"no kind", "?fieldManager=one&dryRun=All", own(map[string]any{"kind": nil})},
		{"no apiVersion", "?fieldManager=one&dryRun=All", own(map[string]any{"apiVersion": nil})},
		{"a UID", "?fieldManager=one&dryRun=All", own(map[string]any{"metadata.uid": "x"})},
		{"a resourceVersion", "?fieldManager=one&dryRun=All", own(map[string]any{"metadata.resourceVersion": "1"})},
		{"managedFields", "?fieldManager=one&dryRun=All", own(map[string]any{"metadata.managedFields": []any{map[string]any{"manager": "x"}}})},
		{"an unknown field", "?fieldManager=one&dryRun=All", own(map[string]any{"unknown": 1})},
		{"an unknown field, strict", "?fieldManager=one&dryRun=All&fieldValidation=Strict", own(map[string]any{"unknown": 1})},
		{"a wrong type", "?fieldManager=one&dryRun=All", own(map[string]any{"metadata.labels": "x"})},
		{"a wrong spec", "?fieldManager=one&dryRun=All", own(map[string]any{"spec": "x"})},
		{"broken YAML", "?fieldManager=one&dryRun=All", "a: [b"},
		{"two documents", "?fieldManager=one&dryRun=All", own(nil) + "\n---\n" + own(nil)},
		{"a duplicate", "?fieldManager=one&dryRun=All", "apiVersion: " + r.apiVersion() + "\nkind: " + r.kind() + "\nkind: " + r.kind() + "\nmetadata: {name: " + r.name() + "}\n"},
		{"an array", "?fieldManager=one&dryRun=All", "[]"},
		{"no body", "?fieldManager=one&dryRun=All", ""},
		{"a string", "?fieldManager=one&dryRun=All", "a"},
		{"a bad manager", "?fieldManager=a%07&dryRun=All", own(nil)},
	} {
		r.add("apply "+c.id, "PATCH", r.item()+c.query, applyPatch, c.body)
	}
	r.add("apply missing", "PATCH", r.collection()+"/missing?fieldManager=one&dryRun=All", applyPatch, text(r.with(map[string]any{"metadata.name": "missing"})))
	r.add("apply missing with a UID", "PATCH", r.collection()+"/missing?fieldManager=one&dryRun=All", applyPatch, text(r.with(map[string]any{"metadata.name": "missing", "metadata.uid": "x"})))
	r.add("get managed fields", "GET", r.item(), "", "")
}

func (r *requests) methods() {
	for _, method := range []string{"POST", "OPTIONS", "TRACE", "CONNECTED"} {
		r.add(method+" the object", method, r.item(), jsonType, text(r.Object))
	}
	for _, method := range []string{"PUT", "PATCH", "OPTIONS", "HEAD", "TRACE"} {
		r.add(method+" the collection", method, r.collection(), jsonType, text(r.Object))
	}
}

func (r *requests) subresources() {
	for _, sub := range []string{"status", "scale", "nothing", "finalize", "approval", "binding", "eviction", "token", "ephemeralcontainers", "resize", "log", "proxy", "status/more"} {
		path := r.item(strings.Split(sub, "/")...)
		r.add("get "+sub, "GET", path, "", "")
		r.add("put "+sub, "PUT", path+"?dryRun=All", jsonType, text(r.Object))
		r.add("post "+sub, "POST", path+"?dryRun=All", jsonType, "{}")
		r.add("delete "+sub, "DELETE", path+"?dryRun=All", "", "")
		r.add("patch "+sub, "PATCH", path+"?dryRun=All", mergePatch, `{"metadata":{"annotations":{"answers":"`+url.PathEscape(sub)+`"}}}`)
	}
	missing := r.collection() + "/missing/"
	for _, sub := range []string{"status", "scale", "nothing"} {
		r.add("get "+sub+" of missing", "GET", missing+sub, "", "")
		r.add("patch "+sub+" of missing", "PATCH", missing+sub, mergePatch, "{}")
	}
	r.add("apply status", "PATCH", r.item("status")+"?fieldManager=one&dryRun=All", applyPatch, text(map[string]any{"apiVersion": r.apiVersion(), "kind": r.kind(), "status": map[string]any{}}))
}

func (r *requests) remove() {
	for _, c := range []struct{ id, query, body string }{
		{"with a UID", "", `{"preconditions":{"uid":"x"}}`}, {"with a resourceVersion", "", `{"preconditions":{"resourceVersion":"1"}}`},
		{"with a bad policy", "", `{"propagationPolicy":"x"}`}, {"with two policies", "", `{"propagationPolicy":"Orphan","orphanDependents":true}`},
		{"with a bad period", "?dryRun=All", `{"dryRun":["All"],"gracePeriodSeconds":"x"}`}, {"with a negative period", "?dryRun=All", `{"dryRun":["All"],"gracePeriodSeconds":-1}`},
		{"with an unknown field", "?dryRun=All", `{"dryRun":["All"],"unknown":1}`}, {"with dryRun=x", "", `{"dryRun":["x"]}`}, {"with options of another kind", "?dryRun=All", `{"apiVersion":"v1","kind":"Pod"}`},
		{"with options", "?dryRun=All", `{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"],"propagationPolicy":"Background"}`}, {"with options of meta", "?dryRun=All", `{"apiVersion":"meta.k8s.io/v1","kind":"DeleteOptions","dryRun":["All"]}`},
		{"with unsafe options", "?dryRun=All", `{"dryRun":["All"],"ignoreStoreReadErrorWithClusterBreakingPotential":true}`},
		{"with parameters", "?dryRun=All&propagationPolicy=Foreground&gracePeriodSeconds=5", ``}, {"with bad parameters", "?propagationPolicy=x", ``}, {"with a bad period as a parameter", "?gracePeriodSeconds=x", ``},
		{"in the foreground, dry run", "?dryRun=All", `{"dryRun":["All"],"propagationPolicy":"Foreground"}`}, {"as an orphan, dry run", "?dryRun=All", `{"dryRun":["All"],"propagationPolicy":"Orphan"}`},
	} {
		r.add("delete "+c.id, "DELETE", r.item()+c.query, jsonType, c.body)
	}
	for _, query := range []string{"dryRun=All&labelSelector=none", "labelSelector=a%3Db%3Dc", "fieldSelector=spec.nothing%3Da", "dryRun=x", "limit=x", "continue=x&dryRun=All", "labelSelector=none&resourceVersion=x"} {
		r.add("delete collection ?"+query, "DELETE", r.collection()+"?"+query, "", "")
	}
	r.add("delete collection with a broken body", "DELETE", r.collection()+"?dryRun=All", jsonType, "{")
	// Servers ignore parameters beside a body: some of these delete the object.
	bodies := r.bodies()
	for _, name := range someBodies {
		r.add("delete with "+name, "DELETE", r.item()+"?dryRun=All", bodies[name][0], bodies[name][1])
	}
	r.add("delete missing", "DELETE", r.collection()+"/missing", "", "")
	r.add("delete", "DELETE", r.item(), "", "")
	r.add("delete again", "DELETE", r.item(), "", "")
	r.add("get deleted", "GET", r.item(), "", "")
}
