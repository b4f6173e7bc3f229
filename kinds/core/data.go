package core

import (
	"crypto/tls"
	"encoding/json"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

func configMaps() kind.Rules {
	return kind.Rules{
		Default: kind.On(func(cm *corev1.ConfigMap) {
			if cm.Data == nil {
				cm.Data = map[string]string{}
			}
		}),
		Main: kind.Write{Validate: kind.Check(validateConfigMap)},
	}
}

func validateConfigMap(cm, old *corev1.ConfigMap) (errs field.ErrorList) {
	data, binary := field.NewPath("data"), field.NewPath("binaryData")
	if old != nil {
		errs = append(errs, rules.ObjectMetaUpdate(&cm.ObjectMeta, &old.ObjectMeta, metadata())...)
		if isTrue(old.Immutable) {
			if !isTrue(cm.Immutable) {
				errs = append(errs, immutableData(field.NewPath("immutable")))
			}
			if !reflect.DeepEqual(cm.Data, old.Data) {
				errs = append(errs, immutableData(data))
			}
			if !reflect.DeepEqual(cm.BinaryData, old.BinaryData) {
				errs = append(errs, immutableData(binary))
			}
		}
	}
	errs = append(errs, rules.ObjectMeta(&cm.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, metadata())...)
	size := 0
	for _, key := range rules.Keys(cm.Data) {
		errs = append(errs, rules.Invalid(key, data.Key(key), validation.IsConfigMapKey(key))...)
		if _, ok := cm.BinaryData[key]; ok {
			errs = append(errs, field.Invalid(data.Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(cm.Data[key])
	}
	for _, key := range rules.Keys(cm.BinaryData) {
		errs = append(errs, rules.Invalid(key, binary.Key(key), validation.IsConfigMapKey(key))...)
		size += len(cm.BinaryData[key])
	}
	if size > maxData {
		errs = append(errs, field.TooLong(field.NewPath(""), "", maxData))
	}
	return errs
}

func secrets() kind.Rules {
	return kind.Rules{
		Default: kind.On(defaultSecret),
		Main: kind.Write{
			Prepare: kind.Change(func(s, old *corev1.Secret) {
				if old != nil {
					rules.SetDefault(&s.Type, old.Type)
				}
			}),
			Validate: kind.Check(validateSecret),
			Warnings: kind.Warn(warnSecret),
		},
		Fields: func(obj kind.Object) fields.Set {
			return fields.Set{"type": string(obj.(*corev1.Secret).Type)}
		},
	}
}

// defaultSecret sets the type, and moves stringData, which is never stored, to data.
func defaultSecret(s *corev1.Secret) {
	rules.SetDefault(&s.Type, corev1.SecretTypeOpaque)
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

func validateSecret(s, old *corev1.Secret) (errs field.ErrorList) {
	data := field.NewPath("data")
	if old != nil {
		errs = append(errs, rules.ObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta, metadata())...)
		errs = append(errs, rules.Immutable(s.Type, old.Type, field.NewPath("type"))...)
		if isTrue(old.Immutable) {
			if !isTrue(s.Immutable) {
				errs = append(errs, immutableData(field.NewPath("immutable")))
			}
			if !reflect.DeepEqual(s.Data, old.Data) {
				errs = append(errs, immutableData(data))
			}
		}
	}
	errs = append(errs, rules.ObjectMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, metadata())...)
	size := 0
	for _, key := range rules.Keys(s.Data) {
		errs = append(errs, rules.Invalid(key, data.Key(key), validation.IsConfigMapKey(key))...)
		size += len(s.Data[key])
	}
	if size > maxData {
		errs = append(errs, field.TooLong(data, "", maxData))
	}
	return append(errs, secretType(s, data)...)
}

// secretType validates that a secret has the data of its type.
func secretType(s *corev1.Secret, data *field.Path) (errs field.ErrorList) {
	require := func(keys ...string) {
		for _, key := range keys {
			if _, ok := s.Data[key]; !ok {
				errs = append(errs, field.Required(data.Key(key), ""))
			}
		}
	}
	requireJSON := func(key string) {
		require(key)
		var object map[string]any
		if value, ok := s.Data[key]; ok {
			if err := json.Unmarshal(value, &object); err != nil {
				errs = append(errs, field.Invalid(data.Key(key), "<secret contents redacted>", err.Error()))
			}
		}
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(metadata().Child("annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	case corev1.SecretTypeDockercfg:
		requireJSON(corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		requireJSON(corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		require(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		if len(errs) < 2 {
			// One of them is enough.
			return nil
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(data.Key(corev1.SSHAuthPrivateKey), ""))
		}
	case corev1.SecretTypeTLS:
		require(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return errs
}

func warnSecret(s, _ *corev1.Secret) []string {
	if s.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

func serviceAccounts() kind.Rules {
	const enforceMountable = "kubernetes.io/enforce-mountable-secrets"
	return kind.Rules{Main: kind.Write{
		Prepare: kind.Change(func(sa, _ *corev1.ServiceAccount) {
			for i, secret := range sa.Secrets {
				sa.Secrets[i] = corev1.ObjectReference{Name: secret.Name}
			}
		}),
		Validate: kind.Check(func(sa, old *corev1.ServiceAccount) (errs field.ErrorList) {
			if old != nil {
				errs = rules.ObjectMetaUpdate(&sa.ObjectMeta, &old.ObjectMeta, metadata())
			}
			return append(errs, rules.ObjectMeta(&sa.ObjectMeta, true, apivalidation.ValidateServiceAccountName, metadata())...)
		}),
		Warnings: kind.Warn(func(sa, old *corev1.ServiceAccount) []string {
			if old != nil {
				if _, ok := old.Annotations[enforceMountable]; ok {
					return nil
				}
			}
			if _, ok := sa.Annotations[enforceMountable]; ok {
				return []string{"metadata.annotations[" + enforceMountable +
					"]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
			}
			return nil
		}),
	}}
}

func isTrue(b *bool) bool { return b != nil && *b }
