package rules_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/rules"
)

func TestResources(t *testing.T) {
	t.Parallel()
	path := field.NewPath("f")
	for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu", "kubernetes.io/x"} {
		kindtest.Errors(t, rules.ContainerResourceName(name, path))
	}
	kindtest.Errors(t, rules.ContainerResourceName("pods", path), `f: Invalid value: "pods": must be a standard resource for containers`)
	kindtest.Errors(t, rules.ContainerResourceName("x", path),
		`f: Invalid value: "x": must be a standard resource type or fully qualified`,
		`f: Invalid value: "x": must be a standard resource for containers`)
	kindtest.Errors(t, rules.ContainerResourceName("requests.a/b", path), `f: Invalid value: "requests.a/b": doesn't follow extended resource name standard`)
	kindtest.Errors(t, rules.ResourceQuantity("example.com/gpu", resource.MustParse("-1500m"), path),
		`f: Invalid value: "-1500m": must be greater than or equal to 0`,
		`f: Invalid value: "-1500m": must be an integer`)
	kindtest.Errors(t, rules.PositiveQuantity(resource.MustParse("0"), path), `f: Invalid value: "0": must be greater than zero`)
	kindtest.Errors(t, rules.HugePages("hugepages-2Mi", resource.MustParse("4Mi"), path))
	kindtest.Errors(t, rules.HugePages("hugepages-2Mi", resource.MustParse("3Mi"), path), `f: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi`)
	kindtest.Errors(t, rules.HugePages("hugepages-x", resource.MustParse("3Mi"), path), `f: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-x`)

	list := corev1.ResourceList{"cpu": resource.MustParse("1500u")}
	rules.RoundUp(list)
	if got := list["cpu"]; got.String() != "2m" {
		t.Errorf("1500u is rounded to %s", got.String())
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	path := field.NewPath("spec")
	block, snapshots := corev1.PersistentVolumeMode("x"), "snapshot.storage.k8s.io"
	class := "Fast"
	spec := &corev1.PersistentVolumeClaimSpec{
		AccessModes:      []corev1.PersistentVolumeAccessMode{"x", corev1.ReadWriteOncePod, corev1.ReadWriteOnce},
		VolumeMode:       &block,
		StorageClassName: &class,
		DataSource:       &corev1.TypedLocalObjectReference{Kind: "Pod"},
		DataSourceRef:    &corev1.TypedObjectReference{APIGroup: &snapshots, Kind: "VolumeSnapshot", Name: "a"},
	}
	kindtest.Errors(t, rules.ClaimSpec(spec, path, rules.ClaimOptions{}),
		`spec.accessModes: Unsupported value: "x": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`,
		`spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes`,
		`spec.resources[storage]: Required value`,
		`spec.storageClassName: Invalid value: "Fast": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`spec.volumeMode: Unsupported value: "x": supported values: "Block", "Filesystem"`,
		`spec.dataSource.name: Required value`,
		`spec.dataSource: Invalid value: "Pod": must be 'PersistentVolumeClaim' when referencing the default apiGroup`,
		`spec: Invalid value: {}: must match dataSourceRef`,
	)
	spec = &corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
	rules.DefaultClaimSpec(spec)
	kindtest.Errors(t, rules.ClaimSpec(spec, path, rules.ClaimOptions{}))
	if *spec.VolumeMode != corev1.PersistentVolumeFilesystem {
		t.Errorf("the default volume mode is %s", *spec.VolumeMode)
	}
}

func TestNodeSelectors(t *testing.T) {
	t.Parallel()
	path := field.NewPath("f")
	kindtest.Errors(t, rules.NodeSelector(&corev1.NodeSelector{}, false, path), `f.nodeSelectorTerms: Required value: must have at least one node selector term`)
	selector := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "a", Operator: corev1.NodeSelectorOpIn},
			{Key: "a", Operator: corev1.NodeSelectorOpExists, Values: []string{"b"}},
			{Key: "a", Operator: corev1.NodeSelectorOpGt},
			{Key: "a", Operator: "x"},
		},
		MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"node"}},
			{Key: "metadata.uid", Operator: corev1.NodeSelectorOpExists},
		},
	}}}
	kindtest.Errors(t, rules.NodeSelector(selector, false, path),
		"f.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
		"f.nodeSelectorTerms[0].matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
		"f.nodeSelectorTerms[0].matchExpressions[2].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
		`f.nodeSelectorTerms[0].matchExpressions[3].operator: Invalid value: "x": not a valid selector operator`,
		`f.nodeSelectorTerms[0].matchFields[1].operator: Invalid value: "Exists": not a valid selector operator`,
		`f.nodeSelectorTerms[0].matchFields[1].key: Invalid value: "metadata.uid": not a valid field selector key`)
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	path := field.NewPath("f")
	kindtest.Errors(t, rules.RelativeFile("/../x", path), `f: Invalid value: "/../x": must be a relative path`, `f: Invalid value: "/../x": must not contain '..'`)
	kindtest.Errors(t, rules.RelativeFile("..x", path), `f: Invalid value: "..x": must not start with '..'`)
	kind := corev1.HostPathType("x")
	kindtest.Errors(t, rules.HostPath(&corev1.HostPathVolumeSource{Path: "a/..", Type: &kind}, path),
		`f.path: Invalid value: "a/..": must not contain '..'`,
		`f.type: Unsupported value: "x": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"`)
	kindtest.Errors(t, rules.NFS(&corev1.NFSVolumeSource{}, path), `f.server: Required value`, `f.path: Required value`, `f.path: Invalid value: "": must be an absolute path`)
	kindtest.Errors(t, rules.ISCSIName("eui.0123", path), `f: Invalid value: "eui.0123": must be valid format`)
	kindtest.Errors(t, rules.ISCSIName("x", path), `f: Invalid value: "x": must be valid format starting with iqn, eui, or naa`)
	kindtest.Errors(t, rules.ISCSIName("iqn.2001-04.com.example:storage.kube.sys1.xyz", path))
	managed := corev1.AzureManagedDisk
	kindtest.Errors(t, rules.AzureDisk(&corev1.AzureDiskVolumeSource{DiskName: "a", DataDiskURI: "https://b", Kind: &managed}, path),
		`f.diskURI: Unsupported value: "https://b": supported values: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"`)
	kindtest.Errors(t, rules.CSIDriverName("", path), `f: Required value`)
	kindtest.Errors(t, rules.FlexOptions(map[string]string{"a.k8s.io/b": "", "c": ""}, path), `f[a.k8s.io/b]: Invalid value: "a.k8s.io/b": kubernetes.io and k8s.io namespaces are reserved`)
}
