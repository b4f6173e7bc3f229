package resource

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// unlimited is the size of lists and maps without a limit.
const unlimited = -1

// tooMany rejects lists and maps that are too large. Their elements are not checked, so that a
// large object takes no time.
func tooMany(size, limit int, path *field.Path) field.ErrorList {
	if limit == unlimited || size <= limit {
		return nil
	}
	return field.ErrorList{field.TooMany(path, size, limit)}
}

// checkList checks the items of a list with a limited size.
func checkList[T any](items []T, limit int, path *field.Path, check func(*T, *field.Path) field.ErrorList) field.ErrorList {
	errs := tooMany(len(items), limit, path)
	if len(errs) > 0 {
		return errs
	}
	for i := range items {
		errs = append(errs, check(&items[i], path.Index(i))...)
	}
	return errs
}

// checkSet is like checkList for a list whose items have different keys.
func checkSet[T any, K comparable](items []T, limit int, path *field.Path, key func(*T) K, check func(*T, *field.Path) field.ErrorList) field.ErrorList {
	if errs := tooMany(len(items), limit, path); len(errs) > 0 {
		return errs
	}
	errs := checkList(items, limit, path, check)
	seen := sets.Set[K]{}
	for i := range items {
		k := key(&items[i])
		if seen.Has(k) {
			errs = append(errs, field.Duplicate(path.Index(i), k))
		}
		seen.Insert(k)
	}
	return errs
}

// itself is the key of a set of texts.
func itself(text *string) string { return *text }

// checkMap checks the keys and values of a map with a limited size. Errors of values show at most
// shown bytes of their key.
func checkMap[K ~string, V any](m map[K]V, limit, shown int, path *field.Path,
	key func(string, *field.Path) field.ErrorList, value func(V, *field.Path) field.ErrorList) field.ErrorList {
	errs := tooMany(len(m), limit, path)
	if len(errs) > 0 {
		return errs
	}
	for _, k := range rules.Keys(m) {
		errs = append(errs, key(string(k), path)...)
		errs = append(errs, value(m[k], path.Key(shortened(string(k), shown)))...)
	}
	return errs
}

// shortened replaces the middle of a text that is longer than limit.
func shortened(text string, limit int) string {
	const ellipsis = "..."
	if len(text) <= limit {
		return text
	}
	kept := limit - len(ellipsis)
	return text[:(kept+1)/2] + ellipsis + text[len(text)-kept/2:]
}
