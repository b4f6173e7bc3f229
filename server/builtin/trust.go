package builtin

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"espalier.dev/server/backend"
	"espalier.dev/server/pki"
)

// ensureTrust adds to a stored config map what extension servers must know about this server, in addition
// to what it has: each of several servers may have a CA of its own, and all of them are trusted.
func (h *Handler) ensureTrust(ctx context.Context, wanted *corev1.ConfigMap) error {
	e, err := h.endpointOf(wanted)
	if err != nil {
		return err
	}
	// Another server may have created it a moment ago: then it is not in memory yet.
	if entry := h.objects.Get(e.prefix.Key(wanted.Namespace, wanted.Name)); entry != nil {
		obj, err := e.decode(entry)
		if err != nil {
			return nil // the key that it is encrypted with may be missing: it stays as it is
		}
		if have, ok := obj.(*corev1.ConfigMap); !ok || !addTrust(have, wanted.Data) {
			return nil
		}
	}
	ctx = apirequest.WithNamespace(ctx, wanted.Namespace)
	_, _, err = e.storage.Update(ctx, wanted.Name, rest.DefaultUpdatedObjectInfo(nil,
		func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			changed := old.DeepCopyObject().(*corev1.ConfigMap)
			addTrust(changed, wanted.Data)
			return changed, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil // it was deleted, and is created again soon
	case err == nil || ctx.Err() != nil || backend.IsFull(err):
		return err
	default:
		// The server can do without: only other servers have to trust it.
		klog.FromContext(ctx).Error(err, "Cannot add the certificates of this server to those that extension servers trust",
			"configMap", klog.KObj(wanted))
		return nil
	}
}

// addTrust adds the certificates and names that a config map lacks, and reports whether there are any.
func addTrust(m *corev1.ConfigMap, wanted map[string]string) (changed bool) {
	for name, value := range wanted {
		have, ok := m.Data[name]
		merged := value
		switch {
		case !ok:
		case strings.HasSuffix(name, "-ca-file"):
			merged = joinCertificates(have, value, time.Now())
		case name == allowedNames:
			merged = joinNames(have, value)
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

// allowedNames is the list of proxies that may name users. An empty one allows all that have a certificate.
const allowedNames = "requestheader-allowed-names"

// joinNames allows what either list allows by name, and never all: with the certificates of both lists,
// that would be more than each of them allows.
func joinNames(list, more string) string {
	var have, add []string
	switch {
	case json.Unmarshal([]byte(list), &have) != nil || json.Unmarshal([]byte(more), &add) != nil:
		return list
	case len(have) == 0:
		return more
	case len(add) == 0:
		return joinLists(list, `["`+pki.ProxyUser+`"]`)
	}
	return joinLists(list, more)
}

// joinCertificates appends the certificates that a bundle lacks, and removes those that have expired.
func joinCertificates(bundle, more string, now time.Time) string {
	known := map[string]bool{}
	var out bytes.Buffer
	add := func(text string) {
		for rest := []byte(text); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				return
			}
			if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.After(c.NotAfter) || known[string(block.Bytes)] {
				continue
			}
			known[string(block.Bytes)] = true
			out.Write(pem.EncodeToMemory(block))
		}
	}
	add(bundle)
	add(more)
	if strings.TrimSpace(bundle) == strings.TrimSpace(out.String()) {
		return bundle
	}
	return out.String()
}

// joinLists appends the elements that a list in JSON lacks.
func joinLists(list, more string) string {
	var have, add []string
	if json.Unmarshal([]byte(list), &have) != nil || json.Unmarshal([]byte(more), &add) != nil {
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
