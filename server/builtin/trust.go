package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// ensureTrust adds to a stored config map what extension servers must know about this server, in addition
// to what it has: each of several servers may have a CA of its own, and all of them are trusted. A config
// map that is not stored yet is left alone.
func (h *Handler) ensureTrust(ctx context.Context, wanted *corev1.ConfigMap) error {
	e, err := h.endpointOf(wanted)
	if err != nil {
		return err
	}
	entry := h.objects.Get(e.prefix.Key(wanted.Namespace, wanted.Name))
	if entry == nil {
		return nil // it was just created
	}
	obj, err := e.decode(entry)
	if err != nil {
		return nil // the key that it is encrypted with may be missing: it stays as it is
	}
	if have, ok := obj.(*corev1.ConfigMap); !ok || !addTrust(have, wanted.Data) {
		return nil
	}
	ctx = apirequest.WithNamespace(ctx, wanted.Namespace)
	_, _, err = e.storage.Update(ctx, wanted.Name, rest.DefaultUpdatedObjectInfo(nil,
		func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			changed := old.DeepCopyObject().(*corev1.ConfigMap)
			addTrust(changed, wanted.Data)
			return changed, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

// addTrust adds the certificates and names that a config map lacks, and reports whether there are any.
func addTrust(m *corev1.ConfigMap, wanted map[string]string) (changed bool) {
	for name, value := range wanted {
		have, ok := m.Data[name]
		merged := value
		switch {
		case !ok:
		case strings.HasSuffix(name, "-ca-file"):
			merged = joinCertificates(have, value)
		default:
			merged = joinLists(have, value)
		}
		if !ok || merged != have {
			if m.Data == nil {
				m.Data = map[string]string{}
			}
			m.Data[name] = merged
			changed = true
		}
	}
	return changed
}

// joinCertificates appends the certificates that a bundle lacks.
func joinCertificates(bundle, more string) string {
	known := map[string]bool{}
	for rest := []byte(bundle); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		known[string(block.Bytes)] = true
	}
	out := bytes.NewBufferString(bundle)
	for rest := []byte(more); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out.String()
		}
		if known[string(block.Bytes)] {
			continue
		}
		if out.Len() > 0 && !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
			out.WriteByte('\n')
		}
		out.Write(pem.EncodeToMemory(block))
	}
}

// joinLists appends the elements that a list in JSON lacks. In the list of names, none means all.
func joinLists(list, more string) string {
	var have, add []string
	if json.Unmarshal([]byte(list), &have) != nil || json.Unmarshal([]byte(more), &add) != nil || len(have) == 0 {
		return list
	}
	complete := true
	for _, one := range add {
		if !slices.Contains(have, one) {
			have = append(have, one)
			complete = false
		}
	}
	text, err := json.Marshal(have)
	if err != nil || complete {
		return list
	}
	return string(text)
}
