package audit

import (
	"espalier.dev/analysis"
	"espalier.dev/crd/compliance"
)

// RuleID returns the ID of the rule for problems of a kind.
func RuleID(k compliance.Kind) string {
	switch k {
	case compliance.Unspecified:
		return "stored-unspecified"
	case compliance.Contradiction:
		return "stored-contradiction"
	case compliance.Invalid:
		return "stored-invalid"
	case compliance.Malformed:
		return "stored-malformed"
	case compliance.OtherVersion:
		return "stored-version"
	}
	return "stored-unreadable"
}

func severity(k compliance.Kind) analysis.Severity {
	switch k {
	case compliance.Unspecified, compliance.Malformed:
		return analysis.Warning
	case compliance.OtherVersion:
		return analysis.Info
	}
	return analysis.Error
}

// Rules returns the rules of the findings.
func Rules() (rules []analysis.Rule) {
	texts := map[compliance.Kind][2]string{
		compliance.Unspecified: {"Stored objects have a field that the CRD does not specify.",
			"The field is not served. Remove it with espalier migrate before a CRD specifies it."},
		compliance.Contradiction: {"Stored objects have a value of another type than the CRD requires.",
			"Correct the objects, or the type in the CRD."},
		compliance.Invalid: {"Stored objects are no longer valid.",
			"Correct the objects: the API server rejects changes of these values, and of objects with rules that fail."},
		compliance.Malformed: {"A part of stored objects is dropped when they are read.",
			"Write the objects again, for example with espalier migrate."},
		compliance.OtherVersion: {"Objects are stored in another version than the storage version.",
			"Write the objects again, for example with espalier migrate."},
		compliance.Unreadable: {"A stored value is no object of the CRD.", "Repair or delete the value in etcd."},
	}
	for _, k := range compliance.Kinds() {
		rules = append(rules, analysis.Rule{ID: RuleID(k), Severity: severity(k), Summary: texts[k][0], Help: texts[k][1]})
	}
	return rules
}
