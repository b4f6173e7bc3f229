package builtin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/internal/gomod"
	"espalier.dev/kinds"
)

// Scheme has the Go types of all kinds.
var Scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := kinds.AddToScheme(s); err != nil {
		panic(err)
	}
	return s
}()

// types is what the generator knows about the Go types of objects.
type types struct {
	// fields are the names of the fields of each type that the reference knows.
	fields map[string][]string
	// constants are the values of the constants of each string type.
	constants map[string][]string
}

// newTypes asks the reference for its fields, and reads the constants from the source of
// k8s.io/api.
func newTypes(ref *Reference) (*types, error) {
	a, err := ref.Ask(&Request{Op: "fields"})
	if err != nil {
		return nil, err
	}
	t := &types{fields: a.Fields, constants: maps.Clone(texts)}
	dir, err := gomod.Dir("", "k8s.io/api")
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(dir + "/*/v[12]/*types.go")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if err := t.readConstants(name); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// readConstants adds the constants of a file that have a named string type.
func (t *types) readConstants(name string) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := filepath.Dir(name)
	pkg := "k8s.io/api/" + filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			v := spec.(*ast.ValueSpec)
			typ, ok := v.Type.(*ast.Ident)
			if !ok || len(v.Values) != 1 {
				continue
			}
			lit, ok := v.Values[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				continue
			}
			value, err := strconv.Unquote(lit.Value)
			if err != nil {
				return err
			}
			key := pkg + "." + typ.Name
			if !slices.Contains(t.constants[key], value) {
				t.constants[key] = append(t.constants[key], value)
			}
		}
	}
	return nil
}

func typeName(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// structField is a field of a JSON object.
type structField struct {
	name string
	typ  reflect.Type
}

// structFields returns the fields of a struct that the reference knows, with those of embedded
// structs.
func (t *types) structFields(typ reflect.Type) []structField {
	var out []structField
	known, listed := t.fields[typeName(typ)]
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			if f.Name != "TypeMeta" {
				out = append(out, t.structFields(f.Type)...)
			}
			continue
		}
		if name == "" || name == "-" || name == "managedFields" || strings.Contains(options, "inline") {
			continue
		}
		if listed && !slices.Contains(known, name) {
			continue
		}
		out = append(out, structField{name, f.Type})
	}
	return out
}

// newFields returns the fields that the reference does not know, of all types that a type
// consists of.
func (t *types) newFields(typ reflect.Type, seen map[reflect.Type]bool, add func(name string)) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		t.newFields(typ.Elem(), seen, add)
	case reflect.Struct:
		if seen[typ] {
			return
		}
		seen[typ] = true
		known, listed := t.fields[typeName(typ)]
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && name != "-" && listed && !slices.Contains(known, name) {
				add(typeName(typ) + "." + name)
				continue
			}
			t.newFields(f.Type, seen, add)
		}
	}
}

// FieldsNewIn137 are the fields of k8s.io/api that the reference does not know. Cases do not have
// them, so that rules about them are not compared.
var FieldsNewIn137 = []string{
	"k8s.io/api/autoscaling/v2.HorizontalPodAutoscalerCondition.observedGeneration",
	"k8s.io/api/batch/v1.JobSpec.scheduling",
	"k8s.io/api/core/v1.ClusterTrustBundleProjection.user",
	"k8s.io/api/core/v1.ConfigMapVolumeSource.defaultUser",
	"k8s.io/api/core/v1.DownwardAPIVolumeFile.user",
	"k8s.io/api/core/v1.DownwardAPIVolumeSource.defaultUser",
	"k8s.io/api/core/v1.EmptyDirVolumeSource.mode",
	"k8s.io/api/core/v1.GRPCAction.mode",
	"k8s.io/api/core/v1.HTTPGetAction.protocol",
	"k8s.io/api/core/v1.KeyToPath.user",
	"k8s.io/api/core/v1.NodeAllocatableResourceClaimStatus.mapping",
	"k8s.io/api/core/v1.NodeAllocatableResourceClaimStatus.overhead",
	"k8s.io/api/core/v1.NodeSpec.podPreemptionPolicy",
	"k8s.io/api/core/v1.NodeSystemInfo.runningInUserNamespace",
	"k8s.io/api/core/v1.PersistentVolumeClaimStatus.healthStatus",
	"k8s.io/api/core/v1.PodCertificateProjection.user",
	"k8s.io/api/core/v1.PodSpec.evictionResponders",
	"k8s.io/api/core/v1.PodStatus.volumeHealth",
	"k8s.io/api/core/v1.ProjectedVolumeSource.defaultUser",
	"k8s.io/api/core/v1.SecretVolumeSource.defaultUser",
	"k8s.io/api/core/v1.ServiceAccountTokenProjection.user",
	"k8s.io/api/core/v1.VolumeMount.bindMountOptions",
	"k8s.io/api/resource/v1.Device.nodeAllocatableResources",
	"k8s.io/api/resource/v1.DeviceCounterConsumption.compatibilityGroups",
	"k8s.io/api/resource/v1.DeviceRequestAllocationResult.skipNodeOperations",
	"k8s.io/api/resource/v1.DeviceSubRequest.derivedAttributes",
	"k8s.io/api/resource/v1.ExactDeviceRequest.derivedAttributes",
	"k8s.io/api/resource/v1.ResourceSliceSpec.partitionTypeAttribute",
	"k8s.io/api/resource/v1.ResourceSliceSpec.skipNodeOperations",
	"k8s.io/api/storage/v1.CSINode.status",
}

// NewFields returns the fields of kinds that the reference does not know, sorted.
func (r *Runner) NewFields(kinds []*Kind) []string {
	var out []string
	seen := map[reflect.Type]bool{}
	for _, k := range kinds {
		r.gen.newFields(k.goType, seen, func(name string) { out = append(out, name) })
	}
	slices.Sort(out)
	return out
}
