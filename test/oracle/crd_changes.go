package oracle

import "fmt"

// goodCA is an unused certificate, brokenCA is not a certificate; both are PEM in base64.
const (
	goodCA   = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJkRENDQVJ1Z0F3SUJBZ0lVTW5HRU1pOFIxN0hUOGNRT2NCNExudW10WXdJd0NnWUlLb1pJemowRUF3SXcKRHpFTk1Bc0dBMVVFQXd3RWRHVnpkREFnRncweU5qRXhNVFV3TXpFek5UWmFHQTh5TVRJMk1UQXlNakF6TVRNMQpObG93RHpFTk1Bc0dBMVVFQXd3RWRHVnpkREJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSEEwSUFCQVIwCnp4TGpocGM0SmRoQmJFM1AzMGk3SmNWelRVampUWFpVTFZ4eG90dURaZlpNSjMyU0dwSWF0cGszdm1mb0IvVGgKSlNTVDhBc1ZnOG1LSENpQTRIU2pVekJSTUIwR0ExVWREZ1FXQkJTa0hTZXVLV0VNajNHYlBMbUp3bzQ3M0o0egptREFmQmdOVkhTTUVHREFXZ0JTa0hTZXVLV0VNajNHYlBMbUp3bzQ3M0o0em1EQVBCZ05WSFJNQkFmOEVCVEFECkFRSC9NQW9HQ0NxR1NNNDlCQU1DQTBjQU1FUUNJQ3QvcGJQR0N4aDdIaU1QT25IMzFqR3Bxc2JadDdMdm9ESkQKK1VtaUxpYnpBaUFnenorS1VSSlZ0RldkYWJ6d0FEQTBIV1NzM05XZncvZ29EenJ4enRldE5BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
	brokenCA = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCm5vbnNlbnNlCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"
)

// crdChanges are the changes of a CRD outside of its schemas.
func crdChanges() []crdChange {
	labels := []any{"things", "Things", "", "a b", "-x", "thing", long(64), "ü", "x1"}
	paths := []any{".spec.replicas", ".status.replicas", "spec.replicas", "", ".", ".spec", ".metadata.x", ".spec.a[0]", ".status.selector", ".spec..x"}
	return []crdChange{
		{"group", inSpec(setOne("group", "example.com", "example.org", "nodots", "UPPER.com", "", "stable.k8s.io", "k8s.io", "x.kubernetes.io", "a..b"))},
		{"scope", inSpec(setOne("scope", "Cluster", "Namespaced", "cluster", ""))},
		{"preserveUnknownFields", inSpec(setOne("preserveUnknownFields", true, true, false))},
		{"plural", inNames(setOne("plural", labels...))},
		{"singular", inNames(setOne("singular", labels...))},
		{"kind", inNames(setOne("kind", "Thing", "Other", "thing", "ThingList", "", "A B", "Ä", long(64)))},
		{"listKind", inNames(setOne("listKind", "ThingList", "Thing", "Things", "", "a b"))},
		{"shortNames", inNames(setOne("shortNames", list("t"), list("t", "t"), list("A"), list(""), list()))},
		{"categories", inNames(setOne("categories", list("all"), list("ALL", "x"), list("")))},
		{"name", inMeta(setOne("name", "things.example.com", "other.example.com", "", "UPPER", "a b"))},
		{"annotations", inMeta(setOne("annotations", object("a", "b"), object("api-approved.kubernetes.io", "https://github.com/kubernetes/enhancements/pull/1111"),
			object("api-approved.kubernetes.io", "unapproved, for fun"), object("api-approved.kubernetes.io", "what"), object("api-approved.kubernetes.io", ""), object("bad key!", "x")))},
		{"protected", func(g *gen, crd, spec map[string]any) {
			spec["group"] = pick(g, []string{"k8s.io", "x.k8s.io", "kubernetes.io"})
		}},
		{"metadata", inMeta(func(g *gen, m map[string]any) {
			k := pick(g, []string{"labels", "finalizers", "generation", "ownerReferences", "uid", "generateName", "namespace"})
			if values := goodMeta[k]; g.chance(50) && len(values) > 0 {
				m[k] = cloneAny(pick(g, values))
			} else if values := badMeta[k]; len(values) > 0 {
				m[k] = cloneAny(pick(g, values))
			}
		})},
		{"established", inStatus(setOne("conditions", list(object("type", "Established", "status", "True")), list(object("type", "Established", "status", "False")),
			list(object("type", "NamesAccepted", "status", "True"), object("type", "Established", "status", "True"))))},
		{"storedVersions", inStatus(setOne("storedVersions", list("v1"), list("v1", "v2"), list("v2"), list("v0", "v1", "v0"), list(), list("v1beta1", "v1alpha1")))},
		{"acceptedNames", inStatus(setOne("acceptedNames", object("plural", "things", "kind", "Thing"), object("plural", "A", "kind", "a b", "listKind", "a b", "shortNames", list("-"))))},
		{"versions", func(g *gen, _, spec map[string]any) {
			vs, _ := spec["versions"].([]any)
			if len(vs) == 0 {
				spec["versions"] = list(object("name", "v1", "served", true, "storage", true))
				return
			}
			switch g.r.IntN(6) {
			case 0:
				spec["versions"] = vs[:len(vs)-1]
			case 1:
				spec["versions"] = append(vs, cloneAny(pick(g, vs)))
			case 2, 3:
				v := cloneAny(vs[0]).(map[string]any)
				v["name"], v["storage"] = pick(g, []string{"v2", "v1beta1", "v9"}), g.chance(20)
				spec["versions"] = append(vs, v)
			case 4:
				spec["versions"] = rotate(vs)
			case 5:
				spec["versions"] = list()
			}
		}},
		{"version name", inVersion(setOne("name", "v1", "v2", "V1", "", "1", "v1beta1", "a.b"))},
		{"served", inVersion(setOne("served", true, false))},
		{"storage", inVersion(setOne("storage", true, false))},
		{"deprecated", inVersion(func(g *gen, v map[string]any) {
			v["deprecated"] = g.chance(70)
			setOne("deprecationWarning", "old", "", long(256), long(257), "tab\there", "bell\u0007", "ünïcödé", "zero\u200bwidth", "\u00a0")(g, v)
		})},
		{"schema", inVersion(func(g *gen, v map[string]any) {
			switch g.r.IntN(4) {
			case 0:
				delete(v, "schema")
			case 1:
				v["schema"] = object()
			default:
				g.room = 15
				v["schema"] = object("openAPIV3Schema", g.rootSchema())
			}
		})},
		{"status subresource", inVersion(setOne("subresources", object("status", object()), object(), object("status", object(), "scale", object("specReplicasPath", ".spec.replicas", "statusReplicasPath", ".status.replicas"))))},
		{"scale", inVersion(func(g *gen, v map[string]any) {
			scale := object("specReplicasPath", pick(g, paths), "statusReplicasPath", pick(g, paths))
			if g.chance(50) {
				scale["labelSelectorPath"] = pick(g, paths)
			}
			v["subresources"] = object("scale", scale)
		})},
		{"columns", inVersion(func(g *gen, v map[string]any) {
			v["additionalPrinterColumns"] = repeat(g.r.IntN(3), func(int) any {
				return object("name", pick(g, []string{"A", "A", ""}), "type", pick(g, []string{"string", "integer", "date", "number", "boolean", "object", ""}),
					"format", pick(g, []string{"", "int32", "date-time", "name", "byte"}), "jsonPath", pick(g, paths), "priority", int64(g.r.IntN(2)))
			})
		})},
		{"selectableFields", inVersion(func(g *gen, v map[string]any) {
			var known []string
			if s := schemaOf(v["schema"]); s != nil {
				known = fieldPaths(s, "", 0)
			}
			n := g.r.IntN(4)
			if g.chance(20) {
				n = 7 + g.r.IntN(5)
			}
			v["selectableFields"] = repeat(n, func(i int) any {
				p := pick(g, []string{".spec.a", "", ".metadata.name", ".kind", "spec", ".a['b']", ".a[0]", ".", ".a.", "..", ".spec"})
				if len(known) > 0 && g.chance(80) {
					p = known[(i+g.r.IntN(2))%len(known)]
				}
				return object("jsonPath", p)
			})
		})},
		{"conversion", inSpec(func(g *gen, spec map[string]any) {
			c := object("strategy", pick(g, []string{"None", "Webhook", "Webhook", "Webhook", "", "webhook"}))
			if g.chance(85) {
				w := object("conversionReviewVersions", pick(g, []any{list("v1"), list("v1beta1", "v1"), list("v1", "v1"), list("v2"), list(), list("V1", "v1"), list("")}))
				if g.chance(90) {
					w["clientConfig"] = g.clientConfig()
				}
				c["webhook"] = w
			}
			spec["conversion"] = c
			if g.chance(10) {
				delete(spec, "conversion")
			}
		})},
		{"webhook certificates", inSpec(func(g *gen, spec map[string]any) {
			spec["conversion"] = object("strategy", "Webhook", "webhook", object("conversionReviewVersions", list("v1"), "clientConfig",
				object("url", "https://example.com/convert", "caBundle", pick(g, []string{goodCA, brokenCA, "bm8gcGVt", ""}))))
		})},
	}
}

// clientConfig generates the client configuration of a webhook.
func (g *gen) clientConfig() map[string]any {
	c := object()
	if g.chance(60) {
		c["url"] = pick(g, []string{"https://example.com/convert", "http://example.com", "https://", "https://u:p@example.com/x?y#z", "%zz", "", "example.com", "https://example.com:443/a/b"})
	}
	if g.chance(60) {
		s := object("name", pick(g, []string{"svc", "", "A B"}), "namespace", pick(g, []string{"default", ""}))
		if g.chance(50) {
			s["path"] = pick(g, []string{"/", "", "//", "convert", "/convert/", "/a//b", "/A", "/a/b", "x"})
		}
		if g.chance(50) {
			s["port"] = pick(g, []int64{443, 0, 65535, 65536, -1})
		}
		c["service"] = s
	}
	if g.chance(40) {
		c["caBundle"] = pick(g, []string{goodCA, brokenCA, "bm8gcGVt", "", "LS0tLS1CRUdJTiBYLS0tLS0KLS0tLS1FTkQgWC0tLS0tCg=="})
	}
	return c
}

// fieldPaths lists paths of fields that a schema specifies.
func fieldPaths(s map[string]any, prefix string, depth int) (out []string) {
	if depth > 3 {
		return nil
	}
	props, _ := s["properties"].(map[string]any)
	for _, name := range sortedKeys(props) {
		sub, ok := props[name].(map[string]any)
		if !ok {
			continue
		}
		path := fmt.Sprintf("%s.%s", prefix, name)
		out = append(append(out, path), fieldPaths(sub, path, depth+1)...)
	}
	if _, ok := s["additionalProperties"].(map[string]any); ok {
		out = append(out, prefix+".anything")
	}
	return out
}
