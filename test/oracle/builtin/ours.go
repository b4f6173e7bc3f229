package builtin

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/kind"
)

// requester is the user whose requests the reference runs.
var requester = &user.DefaultInfo{Name: "admin", Groups: []string{"system:masters", "system:authenticated"}}

// offline runs our rules without a server. The reference gives created objects the same values.
var offline = sync.OnceValue(func() *kinds.Offline {
	o, err := kinds.NewOffline(cel.New())
	if err != nil {
		panic(err)
	}
	return o
})

// recorder collects warnings.
type recorder []string

// AddWarning implements warning.Recorder.
func (r *recorder) AddWarning(_, text string) { *r = append(*r, text) }

// Ours answers a request with the rules of this project, in the way of the reference.
func Ours(k *Kind, req *Request) (a *Answer) {
	a = &Answer{}
	defer func() {
		if r := recover(); r != nil {
			a = &Answer{Panic: fmt.Sprint(r), Stack: string(debug.Stack())}
		}
	}()
	var warnings recorder
	obj, err := run(k, req, &warnings)
	a.Warnings = warnings
	if err == nil {
		a.Object, err = encode(obj, k.stored())
	}
	if err == nil {
		return a
	}
	a.Error = err.Error()
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

func encode(obj runtime.Object, gvk schema.GroupVersionKind) (json.RawMessage, error) {
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := json.Marshal(obj)
	return withoutClock(text), err
}

// decode decodes an object of a kind and fills in its defaults.
func decode(data []byte, gvk schema.GroupVersionKind) (kind.Object, error) {
	obj, _, err := offline().Decode(gvk, data)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind, gvk.Version, gvk.Kind, err))
	}
	return obj, nil
}

// run does what the API server does to an object before it is stored.
func run(k *Kind, req *Request, warnings *recorder) (kind.Object, error) {
	obj, err := decode(req.Object, k.requested())
	if err != nil {
		return nil, err
	}
	var old kind.Object
	if req.Op == "update" {
		if old, err = decode(req.Old, k.stored()); err != nil {
			return nil, err
		}
		if old.GetResourceVersion() == "" {
			old.SetResourceVersion("1")
		}
	}
	*warnings, err = offline().Write(kinds.OfflineWrite{
		Kind: k.requested(), Subresource: req.Subresource, Namespace: req.Namespace, Object: obj, Old: old, Requester: requester,
	})
	return obj, err
}
