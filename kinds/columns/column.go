package columns

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"espalier.dev/kinds/kind"
)

// The texts of cells without a value.
const (
	none    = "<none>"
	unset   = "<unset>"
	unknown = "<unknown>"
)

// text returns a column of texts.
func text[T kind.Object](name, doc string, cell func(T) any) column {
	return newColumn("string", name, doc, cell)
}

// number returns a column of integers.
func number[T kind.Object](name, doc string, cell func(T) any) column {
	return newColumn("integer", name, doc, cell)
}

// flag returns a column of booleans.
func flag[T kind.Object](name, doc string, cell func(T) any) column {
	return newColumn("boolean", name, doc, cell)
}

func newColumn[T kind.Object](dataType, name, doc string, cell func(T) any) column {
	return column{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: name, Type: dataType, Description: doc},
		cell:                  func(obj kind.Object) any { return cell(obj.(T)) },
	}
}

// wide returns a column that only wide tables have.
func wide(c column) column {
	c.Priority = 1
	return c
}

// name is the column of the name.
func name() column {
	return nameWith(func(obj kind.Object) any { return obj.GetName() })
}

// nameWith is the column of the name if it shows more than that.
func nameWith[T kind.Object](cell func(T) any) column {
	c := text("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"], cell)
	c.Format = "name"
	return c
}

// marked returns a cell with the name, and a mark if one of the annotations makes the object
// the default of its kind.
func marked(annotations ...string) func(kind.Object) any {
	return func(obj kind.Object) any {
		if slices.ContainsFunc(annotations, func(a string) bool { return obj.GetAnnotations()[a] == "true" }) {
			return obj.GetName() + " (default)"
		}
		return obj.GetName()
	}
}

// age is the column of the time since the creation.
func age() column {
	return text("Age", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], func(obj kind.Object) any {
		return since(obj.GetCreationTimestamp().Time)
	})
}

// since returns the time since t, as people read it.
func since(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return duration.HumanDuration(time.Since(t))
}

// containers are the columns of the containers in a pod template.
func containers[T kind.Object](of func(T) []corev1.Container) (names, images column) {
	join := func(value func(corev1.Container) string) func(T) any {
		return func(obj T) any { return joined(of(obj), ",", value) }
	}
	return text("Containers", "Names of each container in the template.", join(func(c corev1.Container) string { return c.Name })),
		text("Images", "Images referenced by each container in the template.", join(func(c corev1.Container) string { return c.Image }))
}

// wideContainers are the same columns in wide tables, followed by others.
func wideContainers[T kind.Object](of func(T) []corev1.Container, others ...column) []column {
	names, images := containers(of)
	out := []column{wide(names), wide(images)}
	for _, c := range others {
		out = append(out, wide(c))
	}
	return out
}

// joined joins the texts of some values.
func joined[V any](values []V, separator string, text func(V) string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = text(v)
	}
	return strings.Join(texts, separator)
}

// few returns the first texts of a list, and how many there are beyond them. The texts are
// those of the list up to the limit at least.
func few(texts []string, separator string, limit, count int) string {
	if len(texts) > limit {
		texts = texts[:limit]
	}
	out := strings.Join(texts, separator)
	if count > limit {
		out += fmt.Sprintf(" + %d more...", count-limit)
	}
	return out
}

// or returns a text, or another one if it is empty.
func or[S ~string](s S, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return string(s)
}

// orElse returns what a pointer points to, or a text if it is nil.
func orElse[S ~string](s *S, otherwise string) string {
	if s == nil {
		return otherwise
	}
	return string(*s)
}

// count returns a cell with the length of a list.
func count[V any](values []V) any { return int64(len(values)) }
