package core_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/core"
	"espalier.dev/kinds/kind/kindtest"
)

func named() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "a", Namespace: "b"} }

const badKey = `a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`

func TestConfigMaps(t *testing.T) {
	t.Parallel()
	rules := core.Rules()["configmaps"]
	valid := &corev1.ConfigMap{ObjectMeta: named()}
	create := kindtest.Create(t, rules, valid)
	if got := create(func(*corev1.ConfigMap) {}); got.Data == nil {
		t.Error("data has no default")
	}
	create(func(cm *corev1.ConfigMap) {
		cm.Data = map[string]string{"/": "", "a": ""}
		cm.BinaryData = map[string][]byte{"?": nil, "a": nil}
	},
		`data[/]: Invalid value: "/": `+badKey,
		`data[a]: Invalid value: "a": duplicate of key present in binaryData`,
		`binaryData[?]: Invalid value: "?": `+badKey)
	create(func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"a": strings.Repeat("x", 1<<20+1)} },
		`[]: Too long: may not be more than 1048576 bytes`)

	valid.Immutable = new(true)
	kindtest.Update(t, rules, "", valid)(func(cm *corev1.ConfigMap) {
		cm.Immutable = nil
		cm.Data = map[string]string{"a": "b"}
		cm.BinaryData = map[string][]byte{"b": nil}
	},
		"immutable: Forbidden: field is immutable when `immutable` is set",
		"data: Forbidden: field is immutable when `immutable` is set",
		"binaryData: Forbidden: field is immutable when `immutable` is set")
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	rules := core.Rules()["secrets"]
	valid := &corev1.Secret{ObjectMeta: named()}
	create := kindtest.Create(t, rules, valid)
	got := create(func(s *corev1.Secret) {
		s.StringData = map[string]string{"a": "x"}
		s.Data = map[string][]byte{"a": []byte("y")}
	})
	if got.Type != "Opaque" || got.StringData != nil || string(got.Data["a"]) != "x" {
		t.Errorf("got %+v", got)
	}
	create(func(s *corev1.Secret) { s.Data = map[string][]byte{"/": nil} }, `data[/]: Invalid value: "/": `+badKey)
	create(func(s *corev1.Secret) { s.Data = map[string][]byte{"a": make([]byte, 1<<20+1)} },
		`data: Too long: may not be more than 1048576 bytes`)
	for kind, want := range map[corev1.SecretType][]string{
		corev1.SecretTypeServiceAccountToken: {`metadata.annotations[kubernetes.io/service-account.name]: Required value`},
		corev1.SecretTypeDockercfg:           {`data[.dockercfg]: Required value`},
		corev1.SecretTypeDockerConfigJson:    {`data[.dockerconfigjson]: Required value`},
		corev1.SecretTypeBasicAuth:           {`data[username]: Required value`, `data[password]: Required value`},
		corev1.SecretTypeSSHAuth:             {`data[ssh-privatekey]: Required value`},
		corev1.SecretTypeTLS:                 {`data[tls.crt]: Required value`, `data[tls.key]: Required value`},
		"example.com/other":                  nil,
	} {
		create(func(s *corev1.Secret) { s.Type = kind }, want...)
	}
	create(func(s *corev1.Secret) {
		s.Type = corev1.SecretTypeDockercfg
		s.Data = map[string][]byte{".dockercfg": []byte("[]")}
	}, `data[.dockercfg]: Invalid value: "<secret contents redacted>": json: cannot unmarshal array into Go value of type map[string]interface {}`)
	create(func(s *corev1.Secret) {
		s.Type = corev1.SecretTypeBasicAuth
		s.Data = map[string][]byte{"password": nil}
	})

	update := kindtest.Update(t, rules, "", valid)
	update(func(s *corev1.Secret) { s.Type = "x" }, `type: Invalid value: "x": field is immutable`)
	update(func(s *corev1.Secret) { s.Data = map[string][]byte{"a": nil} })
	valid.Immutable = new(true)
	kindtest.Update(t, rules, "", valid)(func(s *corev1.Secret) {
		s.Immutable = new(false)
		s.Data = map[string][]byte{"a": nil}
	},
		"immutable: Forbidden: field is immutable when `immutable` is set",
		"data: Forbidden: field is immutable when `immutable` is set")

	valid.Type = corev1.SecretTypeTLS
	if got := rules.Main.Warnings(valid, nil); len(got) != 1 || got[0] != "tls: failed to find any PEM data in certificate input" {
		t.Errorf("got %q", got)
	}
}

func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	rules := core.Rules()["serviceaccounts"]
	valid := &corev1.ServiceAccount{ObjectMeta: named(), Secrets: []corev1.ObjectReference{{Name: "a", Kind: "Secret"}}}
	if got := kindtest.Create(t, rules, valid)(func(*corev1.ServiceAccount) {}); got.Secrets[0].Kind != "" || got.Secrets[0].Name != "a" {
		t.Errorf("got %+v", got.Secrets)
	}
	kindtest.Update(t, rules, "", valid)(func(sa *corev1.ServiceAccount) { sa.UID = "x" },
		`metadata.uid: Invalid value: "x": field is immutable`)
	warned := valid.DeepCopy()
	warned.Annotations = map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}
	if got := rules.Main.Warnings(warned, valid); len(got) != 1 {
		t.Errorf("got %q", got)
	}
	if got := rules.Main.Warnings(warned, warned); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}
