package compliance

// Plural is the name of the resource of a server that lists the stored objects that do not comply,
// and Group is its group.
const (
	Group  = "inspect.espalier.dev"
	Plural = "noncompliantobjects"
)

// NoncompliantObject is an object of that resource, without its metadata.
type NoncompliantObject struct {
	// CRD is the name of the CRD.
	CRD    string       `json:"crd"`
	Object StoredObject `json:"object"`
	// ProblemCount is the number of problems. Truncated is set if it is more than those listed.
	ProblemCount int64           `json:"problemCount"`
	Problems     []StoredProblem `json:"problems"`
	Truncated    bool            `json:"truncated,omitempty"`
}

// StoredObject identifies a stored object.
type StoredObject struct {
	// APIVersion is empty if it cannot be read.
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// StoredProblem is a problem of a stored object.
type StoredProblem struct {
	// Reason is the kind of the problem, in upper camel case.
	Reason string `json:"reason"`
	// Path is empty if the whole object is the problem.
	Path string `json:"path,omitempty"`
	// Version is the version whose schema decides. It may be empty.
	Version string `json:"version,omitempty"`
	Message string `json:"message"`
}
