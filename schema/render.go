package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/internal/rx"
)

// FieldErrors returns the violations as kube-apiserver reports them: with the same
// fields, types, values and details.
func (vs Violations) FieldErrors() field.ErrorList { return vs.FieldErrorsIn(Kubernetes) }

// FieldErrorsIn returns the violations as FieldErrors does, but with the details that the
// semantics requires: those of Messages or those of kube-apiserver.
func (vs Violations) FieldErrorsIn(sem Semantics) field.ErrorList {
	documented := sem.SaysViolationsAsDocumented()
	var list field.ErrorList
	seen := map[string]bool{}
	vs.flatten(func(v *Violation) {
		if v.isSchema() {
			// kube-apiserver reports equal errors only once.
			text := v.message(v.name(), formKubernetes)
			if seen[text] {
				return
			}
			seen[text] = true
		}
		list = append(list, v.fieldError(documented))
	})
	return list
}

// Messages returns the violations in the form of the design document on validation,
// such as "data.foo in body should be at least 4 chars long".
func (vs Violations) Messages() []string {
	var list []string
	seen := map[string]bool{}
	vs.flatten(func(v *Violation) {
		text := v.message(v.Path.String(), formDocument)
		if !seen[text] {
			seen[text] = true
			list = append(list, text)
		}
	})
	return list
}

// String returns the violation as text, including the path.
func (v *Violation) String() string { return v.message(v.Path.String(), formDocument) }

// flatten visits the violations in the order in which they are reported. For a logical
// operator this includes those of the closest branch (for allOf: of all branches).
func (vs Violations) flatten(visit func(*Violation)) {
	for i := range vs {
		v := &vs[i]
		if v.Kind == AllOf {
			for _, branch := range v.Branches {
				branch.flatten(visit)
			}
		}
		visit(v)
		if v.Closest >= 0 && v.Closest < len(v.Branches) {
			v.Branches[v.Closest].flatten(visit)
		}
	}
}

// isSchema reports whether the violation is of a schema keyword, and not of metadata,
// list types or unions.
func (v *Violation) isSchema() bool {
	switch v.Kind {
	case DuplicateItem, NotAnObject, Metadata, UnionMembers, WrongDiscriminator, Scale, Rule, RulesSkipped, Builtin:
		return false
	}
	return true
}

// form is one of the two wordings of violations.
type form uint8

const (
	formKubernetes form = iota
	formDocument
)

// message returns the text of the violation for a value with the given name.
func (v *Violation) message(name string, f form) string {
	const in = " in body "
	should := func(format string, operand any) string { return name + in + fmt.Sprintf(format, operand) }
	switch v.Kind {
	case WrongType:
		return fmt.Sprintf("%s in body must be of type %s: %q", name, strings.Join(v.Want.Types, ","), v.Value)
	case WrongFormat:
		return fmt.Sprintf("%s in body must be of type %s: %q", name, v.Want.Format, v.Value)
	case Required:
		return name + in + "is required"
	case Enum:
		texts, more := enumTexts(v.Want.Allowed)
		return should("should be one of [%s]", strings.Join(texts, " ")) + more
	case MaxLength:
		return should("should be at most %d chars long", v.Want.Limit)
	case MinLength:
		return should("should be at least %d chars long", v.Want.Limit)
	case Pattern:
		if tooLong, ok := errors.AsType[*rx.TooLongError](v.Want.PatternErr); ok {
			return fmt.Sprintf("%s in body should match '%s', but %s", name, v.Want.Pattern, tooLong)
		}
		if v.Want.PatternErr != nil {
			return fmt.Sprintf("%s in body should match '%s, but pattern is invalid: %s'", name, v.Want.Pattern, v.Want.PatternErr)
		}
		return should("should match '%s'", v.Want.Pattern)
	case Maximum:
		if v.Want.Exclusive {
			return should("should be less than %v", v.bound())
		}
		return should("should be less than or equal to %v", v.bound())
	case Minimum:
		if v.Want.Exclusive {
			return should("should be greater than %v", v.bound())
		}
		return should("should be greater than or equal to %v", v.bound())
	case MultipleOf:
		return should("should be a multiple of %v", v.bound())
	case FactorNotPositive:
		return fmt.Sprintf("factor MultipleOf declared for %s must be positive: %v", name, v.bound())
	case NumberRange:
		return "Checked value " + v.numberType() + " in " + name
	case BadOperand:
		return v.operandName() + " value " + v.numberType() + " in " + name
	case MaxItems:
		return should("should have at most %d items", v.Want.Limit)
	case MinItems:
		return should("should have at least %d items", v.Want.Limit)
	case UniqueItems:
		return name + in + "shouldn't contain duplicates"
	case MaxProperties:
		return should("should have at most %d properties", v.Want.Limit)
	case MinProperties:
		return should("should have at least %d properties", v.Want.Limit)
	case ForbiddenField:
		return fmt.Sprintf("%s.%s in body is a forbidden property", name, v.Value)
	case AllOf:
		if f == formDocument {
			return "must validate all the schemas (allOf)"
		}
		rest := ""
		if v.Holding == 0 {
			rest = ". None validated"
		}
		return fmt.Sprintf("%q must validate all the schemas (allOf)%s", name, rest)
	case AnyOf:
		return fmt.Sprintf("%q must validate at least one schema (anyOf)", name)
	case OneOf:
		rest := "Found none valid"
		if v.Holding > 0 {
			rest = fmt.Sprintf("Found %d valid alternatives", v.Holding)
		}
		return fmt.Sprintf("%q must validate one and only one schema (oneOf). %s", name, rest)
	case Not:
		return fmt.Sprintf("%q must not validate the schema (not)", name)
	case Dependency:
		return fmt.Sprintf("%q has a dependency on %s", name, v.Want.Name)
	case AdditionalItems:
		return "array doesn't allow for additional items"
	}
	return v.fieldError(true).Error()
}

// name returns kube-apiserver's name of the value in messages.
func (v *Violation) name() string { return v.Path[v.namesFrom:].name() }

// numberType describes the number type of the schema, for values that it cannot
// represent.
func (v *Violation) numberType() string {
	c := v.Schema.program.nodes[v.Schema.index].checks
	if c.numberFormat != "" {
		return fmt.Sprintf("must be of type %s with format %s", c.numberType, c.numberFormat)
	}
	return fmt.Sprintf("must be of type %s (default format)", c.numberType)
}

// bound returns the bound as it is compared with the value: as an integer with an
// integer, as a float with a float.
func (v *Violation) bound() any {
	if _, isInt := v.Value.(int64); isInt {
		return int64(v.Want.Bound)
	}
	return v.Want.Bound
}

// operandName returns kube-apiserver's name of the operand of a BadOperand.
func (v *Violation) operandName() string {
	switch v.Want.Of {
	case Maximum:
		return "Maximum boundary"
	case Minimum:
		return "Minimum boundary"
	default:
		return "MultipleOf"
	}
}

// unionProblem describes the violation of a union.
func (v *Violation) unionProblem() string {
	if v.Kind == WrongDiscriminator {
		return fmt.Sprintf("must be %q, because %s is set", v.Want.Discriminator, v.Want.Member)
	}
	found := "none is"
	if n := len(v.Want.Set); n > 0 {
		found = fmt.Sprintf("there are %d", n)
	}
	return "exactly one of " + strings.Join(v.Want.Members, ", ") + " must be set, but " + found
}

// fieldError returns the violation as kube-apiserver reports it, with the message of the
// design document if documented is set.
func (v *Violation) fieldError(documented bool) *field.Error {
	detail := func() string {
		if documented {
			return v.String()
		}
		return v.message(v.name(), formKubernetes)
	}
	name, path := v.name(), v.Path[:v.namesFrom].FieldPath()
	switch v.Kind {
	case Metadata, Scale, Rule, Builtin:
		return v.Cause
	case RulesSkipped:
		return field.Invalid(nil, nil,
			"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")
	case DuplicateItem:
		return field.Duplicate(v.Path.FieldPath(), v.Value)
	case NotAnObject:
		return field.Invalid(v.Path.FieldPath(), v.Value, "must be an object for an array of list-type map")
	case UnionMembers:
		return field.Invalid(v.Path.FieldPath(), strings.Join(v.Want.Set, ", "), v.unionProblem())
	case WrongDiscriminator:
		return field.Invalid(v.Path.FieldPath(), v.Value, v.unionProblem())
	case NumberRange, BadOperand, AllOf, AnyOf, OneOf, Not, Dependency, AdditionalItems:
		// kube-apiserver has the path of these in the detail only.
		return field.Invalid(path, "", detail())
	}
	if trimmed := strings.TrimPrefix(name, "."); trimmed != "" {
		path = path.Child(trimmed)
	}
	switch v.Kind {
	case Required:
		if documented {
			return field.Required(path, detail())
		}
		return field.Required(path, "")
	case Enum:
		texts, more := enumTexts(v.Want.Allowed)
		err := field.NotSupported(path, v.Value, texts)
		if err.Detail += more; documented {
			err.Detail = detail()
		}
		return err
	case MaxLength:
		return field.TooLong(path, "", int(v.Want.Limit))
	case MaxItems, MaxProperties:
		return field.TooMany(path, int(v.Value.(int64)), int(v.Want.Limit))
	case WrongType, WrongFormat:
		return field.TypeInvalid(path, v.Value, detail())
	}
	value := v.Value
	switch v.Kind {
	case FactorNotPositive:
		value = v.bound()
	case UniqueItems:
		value = ""
	}
	return field.Invalid(path, value, detail())
}

// maxEnumText is the size of the allowed values that a message lists. The largest enums of CRDs in use have
// a few kilobytes.
const maxEnumText = 1 << 16

// enumTexts returns strings unchanged and all other values as JSON, and how many are left out.
func enumTexts(values []any) (texts []string, more string) {
	size := 0
	for i, v := range values {
		text, ok := v.(string)
		if !ok {
			encoded, _ := json.Marshal(v)
			text = string(encoded)
		}
		if size += len(text) + 1; size > maxEnumText {
			return texts, fmt.Sprintf(" and %d more", len(values)-i)
		}
		texts = append(texts, text)
	}
	return texts, ""
}
