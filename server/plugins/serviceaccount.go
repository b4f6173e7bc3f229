package plugins

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/storage/names"

	podrules "espalier.dev/kinds/pods"
	"espalier.dev/server/ids"
	"espalier.dev/server/tokens"
)

const (
	// tokenVolume is the prefix of the name of the volume with the token, and tokenPath is where
	// containers find it.
	tokenVolume = "kube-api-access-"
	tokenPath   = "/var/run/secrets/kubernetes.io/serviceaccount"
	// mountableSecrets is the annotation of an account whose pods may use only its own secrets.
	mountableSecrets = "kubernetes.io/enforce-mountable-secrets"
	// accountWait is how long a pod waits for the default account of a new namespace, which a
	// controller creates, and accountPoll the interval of checks.
	accountWait = 2 * time.Second
	accountPoll = 50 * time.Millisecond
)

var serviceAccounts = schema.GroupResource{Resource: "serviceaccounts"}

// serviceAccount gives pods a service account and its token, and rejects those whose account does
// not exist.
type serviceAccount struct {
	*admission.Handler
	objects Lister
	// volumes makes the names of volumes.
	volumes names.NameGenerator
}

var (
	_ admission.MutationInterface   = &serviceAccount{}
	_ admission.ValidationInterface = &serviceAccount{}
)

func newServiceAccount(objects Lister, source *ids.Source) *serviceAccount {
	return &serviceAccount{admission.NewHandler(admission.Create, admission.Update), objects,
		source.Names(schema.GroupResource{Resource: "volumes"})}
}

// podOf returns the pod of a request, or nil if the plugin does not handle it.
func (p *serviceAccount) podOf(a admission.Attributes) *corev1.Pod {
	if a.GetResource().GroupResource() != pods || a.GetSubresource() != "" && a.GetSubresource() != "ephemeralcontainers" {
		return nil
	}
	pod, _ := a.GetObject().(*corev1.Pod)
	return pod
}

// Admit implements admission.MutationInterface.
func (p *serviceAccount) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	pod := p.podOf(a)
	if pod == nil || a.GetOperation() != admission.Create {
		return nil
	}
	if !podrules.IsMirror(&pod.ObjectMeta) {
		podrules.SetDefaultAccount(pod)
		pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
		account, err := p.account(ctx, a, pod)
		if err != nil {
			return err
		}
		if automounts(account, pod) {
			mountToken(pod, p.volumes)
		}
		if len(pod.Spec.ImagePullSecrets) == 0 {
			pod.Spec.ImagePullSecrets = slices.Clone(account.ImagePullSecrets)
		}
	}
	return p.Validate(ctx, a, o)
}

// account returns the service account of a pod.
func (p *serviceAccount) account(ctx context.Context, a admission.Attributes, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
	name := pod.Spec.ServiceAccountName
	if name == "" {
		return nil, forbidden(a, "no service account specified for pod %s/%s", a.GetNamespace(), pod.Name)
	}
	account, err := p.find(ctx, a.GetNamespace(), name)
	if err != nil {
		return nil, forbidden(a, "error looking up service account %s/%s: %w", a.GetNamespace(), name, err)
	}
	return account, nil
}

// find reads a service account. It waits for the default one if its namespace exists.
func (p *serviceAccount) find(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	if wrong := content.IsPathSegmentName(name); len(wrong) > 0 {
		return nil, fmt.Errorf("invalid resource name %q: %v", name, wrong)
	}
	account, err := get[*corev1.ServiceAccount](ctx, p.objects, serviceAccounts, namespace, name)
	if err == nil || !errors.IsNotFound(err) {
		return account, err
	}
	missing := errors.NewNotFound(schema.GroupResource{Resource: "serviceaccount"}, name)
	if name != podrules.DefaultAccount {
		return nil, missing
	}
	if _, err := p.objects.Get(ctx, namespaces, "", namespace); err != nil {
		return nil, missing
	}
	ticker := time.NewTicker(accountPoll)
	defer ticker.Stop()
	end := time.NewTimer(accountWait)
	defer end.Stop()
	for {
		select {
		case <-ticker.C:
		case <-end.C:
			return nil, missing
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		account, err := get[*corev1.ServiceAccount](ctx, p.objects, serviceAccounts, namespace, name)
		if err == nil || !errors.IsNotFound(err) {
			return account, err
		}
	}
}

// automounts reports whether the containers of a pod get the token.
func automounts(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	if wanted := pod.Spec.AutomountServiceAccountToken; wanted != nil {
		return *wanted
	}
	wanted := account.AutomountServiceAccountToken
	return wanted == nil || *wanted
}

// mountToken mounts the volume with the token in all containers that have nothing at its path.
func mountToken(pod *corev1.Pod, volumes names.NameGenerator) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return strings.HasPrefix(v.Name, tokenVolume) })
	name := ""
	if i >= 0 {
		name = pod.Spec.Volumes[i].Name
	} else {
		name = volumes.GenerateName(tokenVolume)
	}
	mounted := false
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tokenPath }) {
				continue
			}
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: tokenPath})
			mounted = true
		}
	}
	if i < 0 && mounted {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: tokenSources()}})
	}
}

// tokenSources returns what the volume with the token has: the token, the CA of the server, and
// the namespace.
func tokenSources() *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{
		DefaultMode: new(corev1.ProjectedVolumeSourceDefaultMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token",
				ExpirationSeconds: new(int64(tokens.ProjectedSeconds))}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{
				Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace",
					FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}},
			}},
		},
	}
}

// Validate implements admission.ValidationInterface.
func (p *serviceAccount) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := p.podOf(a)
	if pod == nil {
		return nil
	}
	ephemeral := a.GetOperation() == admission.Update && a.GetSubresource() == "ephemeralcontainers"
	switch {
	case !ephemeral && a.GetOperation() != admission.Create:
		return nil
	case !ephemeral && podrules.IsMirror(&pod.ObjectMeta):
		return validateMirror(a, pod)
	}
	account, err := p.account(ctx, a, pod)
	if err != nil {
		return err
	}
	if enforced, _ := strconv.ParseBool(account.Annotations[mountableSecrets]); !enforced {
		return nil
	}
	if ephemeral {
		for i := range pod.Spec.EphemeralContainers {
			c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			if err := checkEnvironment("ephemeral container", &c, account); err != nil {
				return admission.NewForbidden(a, err)
			}
		}
		return nil
	}
	if err := checkSecrets(pod, account); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

// validateMirror rejects mirror pods that use accounts or secrets: a kubelet runs the pod without
// asking, so it could read all of them.
func validateMirror(a admission.Attributes, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return forbidden(a, "a mirror pod may not reference service accounts")
	}
	if slices.ContainsFunc(secretsOf(&pod.Spec), func(name string) bool { return name != "" }) {
		return forbidden(a, "a mirror pod may not reference secrets")
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources,
			func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil }) {
			return forbidden(a, "a mirror pod may not use ServiceAccountToken volume projections")
		}
	}
	return nil
}

// allows reports whether a service account has a secret.
func allows(account *corev1.ServiceAccount, name string) bool {
	return slices.ContainsFunc(account.Secrets, func(s corev1.ObjectReference) bool { return s.Name == name })
}

// checkSecrets returns an error if a pod uses secrets that its service account does not have.
func checkSecrets(pod *corev1.Pod, account *corev1.ServiceAccount) error {
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil && !allows(account, v.Secret.SecretName) {
			return fmt.Errorf("volume with secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret", v.Secret.SecretName, account.Name)
		}
	}
	for i := range pod.Spec.InitContainers {
		if err := checkEnvironment("init container", &pod.Spec.InitContainers[i], account); err != nil {
			return err
		}
	}
	for i := range pod.Spec.Containers {
		if err := checkEnvironment("container", &pod.Spec.Containers[i], account); err != nil {
			return err
		}
	}
	for i, ref := range pod.Spec.ImagePullSecrets {
		if !slices.Contains(account.ImagePullSecrets, ref) {
			return fmt.Errorf(`imagePullSecrets[%d].name="%s" is not allowed because service account %s does not reference that imagePullSecret`, i, ref.Name, account.Name)
		}
	}
	return nil
}

// checkEnvironment returns an error if the environment of a container uses secrets that the
// service account does not have.
func checkEnvironment(kind string, c *corev1.Container, account *corev1.ServiceAccount) error {
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && !allows(account, e.ValueFrom.SecretKeyRef.Name) {
			return fmt.Errorf("%s %s with envVar %s referencing secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret", kind, c.Name, e.Name, e.ValueFrom.SecretKeyRef.Name, account.Name)
		}
	}
	for _, e := range c.EnvFrom {
		if e.SecretRef != nil && !allows(account, e.SecretRef.Name) {
			return fmt.Errorf("%s %s with envFrom referencing secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret", kind, c.Name, e.SecretRef.Name, account.Name)
		}
	}
	return nil
}

// secretsOf returns the names of all secrets that a pod uses; they may be empty.
func secretsOf(spec *corev1.PodSpec) (found []string) {
	local := func(ref *corev1.LocalObjectReference) {
		if ref != nil {
			found = append(found, ref.Name)
		}
	}
	for i := range spec.ImagePullSecrets {
		local(&spec.ImagePullSecrets[i])
	}
	containers := slices.Concat(spec.InitContainers, spec.Containers)
	for _, c := range spec.EphemeralContainers {
		containers = append(containers, corev1.Container(c.EphemeralContainerCommon))
	}
	for _, c := range containers {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				local(&e.ValueFrom.SecretKeyRef.LocalObjectReference)
			}
		}
		for _, e := range c.EnvFrom {
			if e.SecretRef != nil {
				local(&e.SecretRef.LocalObjectReference)
			}
		}
	}
	for _, v := range spec.Volumes {
		switch {
		case v.AzureFile != nil:
			found = append(found, v.AzureFile.SecretName)
		case v.CephFS != nil:
			local(v.CephFS.SecretRef)
		case v.Cinder != nil:
			local(v.Cinder.SecretRef)
		case v.FlexVolume != nil:
			local(v.FlexVolume.SecretRef)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.Secret != nil {
					local(&s.Secret.LocalObjectReference)
				}
			}
		case v.RBD != nil:
			local(v.RBD.SecretRef)
		case v.Secret != nil:
			found = append(found, v.Secret.SecretName)
		case v.ScaleIO != nil:
			local(v.ScaleIO.SecretRef)
		case v.ISCSI != nil:
			local(v.ISCSI.SecretRef)
		case v.StorageOS != nil:
			local(v.StorageOS.SecretRef)
		case v.CSI != nil:
			local(v.CSI.NodePublishSecretRef)
		}
	}
	return found
}
