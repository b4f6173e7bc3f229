package golang

import (
	"fmt"
	"strings"
)

// deepCopies returns the file with the methods that copy values.
func (w *writer) deepCopies() string {
	var b strings.Builder
	b.WriteString(w.header(""))
	for _, s := range w.structs {
		copyMethods(&b, s.Name, s.Kind != nil, func() {
			if s.Kind != nil {
				b.WriteString("in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)\n")
			}
			for _, f := range s.fields {
				if f.of.shape != plain {
					copyValue(&b, "in."+f.name, "out."+f.name, f.of, 0)
				}
			}
			if s.open {
				copyValue(&b, "in."+s.unknown, "out."+s.unknown, &expression{"map[string]apiextensionsv1.JSON", mapping, jsonType}, 0)
			}
		})
		if s.Kind != nil {
			copyMethods(&b, s.list, true, func() {
				b.WriteString("in.ListMeta.DeepCopyInto(&out.ListMeta)\n")
				copyValue(&b, "in.Items", "out.Items", &expression{"[]" + s.Name, slice, &expression{text: s.Name, shape: deep}}, 0)
			})
		}
	}
	return b.String()
}

// copyMethods writes the methods of a type. copyFields writes what assignment does not copy.
func copyMethods(b *strings.Builder, name string, object bool, copyFields func()) {
	fmt.Fprintf(b, "\n// DeepCopyInto copies in to out, which must not be nil.\nfunc (in *%s) DeepCopyInto(out *%[1]s) {\n*out = *in\n", name)
	copyFields()
	b.WriteString("}\n")
	fmt.Fprintf(b, `
// DeepCopy returns a copy that shares nothing with in.
func (in *%s) DeepCopy() *%[1]s {
	if in == nil {
		return nil
	}
	out := new(%[1]s)
	in.DeepCopyInto(out)
	return out
}
`, name)
	if object {
		fmt.Fprintf(b, `
// DeepCopyObject returns a copy that shares nothing with in.
func (in *%s) DeepCopyObject() runtime.Object {
	if c := in.DeepCopy(); c != nil {
		return c
	}
	return nil
}
`, name)
	}
}

// copyValue writes statements that copy a value of type e from in to out, which already is a
// shallow copy. depth numbers the variables of nested loops.
func copyValue(b *strings.Builder, in, out string, e *expression, depth int) {
	switch e.shape {
	case plain:
		fmt.Fprintf(b, "%s = %s\n", out, in)
	case deep:
		fmt.Fprintf(b, "%s.DeepCopyInto(&%s)\n", in, out)
	case pointer:
		fmt.Fprintf(b, "if %s != nil {\n%s = new(%s)\n", in, out, e.elem.text)
		if e.elem.shape == deep {
			fmt.Fprintf(b, "%s.DeepCopyInto(%s)\n", in, out)
		} else {
			copyValue(b, "(*"+in+")", "*"+out, e.elem, depth)
		}
		b.WriteString("}\n")
	case slice:
		fmt.Fprintf(b, "if %s != nil {\n%s = make(%s, len(%s))\n", in, out, e.text, in)
		if e.elem.shape == plain {
			fmt.Fprintf(b, "copy(%s, %s)\n", out, in)
		} else {
			i := fmt.Sprintf("i%d", depth)
			fmt.Fprintf(b, "for %s := range %s {\n", i, in)
			copyValue(b, in+"["+i+"]", out+"["+i+"]", e.elem, depth+1)
			b.WriteString("}\n")
		}
		b.WriteString("}\n")
	case mapping:
		key, value, copied := fmt.Sprintf("key%d", depth), fmt.Sprintf("value%d", depth), fmt.Sprintf("copied%d", depth)
		fmt.Fprintf(b, "if %s != nil {\n%s = make(%s, len(%s))\nfor %s, %s := range %s {\n", in, out, e.text, in, key, value, in)
		if e.elem.shape == plain {
			fmt.Fprintf(b, "%s[%s] = %s\n", out, key, value)
		} else {
			fmt.Fprintf(b, "var %s %s\n", copied, e.elem.text)
			copyValue(b, value, copied, e.elem, depth+1)
			fmt.Fprintf(b, "%s[%s] = %s\n", out, key, copied)
		}
		b.WriteString("}\n}\n")
	}
}
