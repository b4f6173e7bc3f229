// Package suite runs test suites for CustomResourceDefinitions: objects that must be
// accepted, objects that must be rejected and why, updates, and the objects that are
// stored. It runs the same engine as the API server, so the results are the same.
//
// A suite is a YAML document next to the CRD that it tests:
//
//	apiVersion: espalier.dev/v1
//	kind: TestSuite
//	name: CronTab                  # name in reports; default: the file name
//	crd: crontab-crd.yaml          # the CRD: a file or a list of files,
//	                               # relative to the suite; not needed if it is in the
//	                               # same file, or named on the command line
//	semantics: kubernetes          # or kep; default: as on the command line
//
//	base:                          # an object that cases change
//	  spec: {cronSpec: "0 * * * *", image: example}
//
//	valid:                         # must be accepted
//	- name: the base as it is      # the default object is the base
//	- name: ten replicas
//	  with: {spec: {replicas: 10}} # a merge patch on the base (RFC 7386)
//	- name: an object of its own
//	  object: {spec: {cronSpec: "0 * * * *", image: other}}
//	  stored:                      # exactly what is stored
//	    spec: {cronSpec: "0 * * * *", image: other, replicas: 1, policy: Allow}
//	- name: unknown fields go
//	  with: {spec: {imgae: typo}}
//	  pruned: [spec.imgae]         # exactly the fields that are pruned
//	  defaulted: [spec.policy, spec.replicas] # exactly the fields that are filled in
//
//	invalid:                       # must be rejected
//	- name: no image
//	  with: {spec: {image: null}}
//	  errors:                      # exactly the reasons; default: any
//	  - path: spec.image           # where,
//	    message: Required value    # a part of the message,
//	    rule: required             # the keyword or the CEL rule: any of the three
//	- name: too many
//	  with: {spec: {replicas: 11}}
//	  errors: [less than or equal to 10] # a string is a part of the message
//
//	updates:                       # of a stored object
//	- name: the image stays
//	  old: {spec: {cronSpec: "0 * * * *", image: example, replicas: 2}} # the base if absent
//	  new: {spec: {cronSpec: "0 * * * *", image: other, replicas: 2}}   # or with, a patch on old
//	  errors: [the image cannot change]                                 # accepted if absent
//	- name: a status
//	  subresource: status          # a write to the status endpoint
//	  with: {status: {lastRun: "2020-01-01T00:00:00Z"}}
//
// A suite whose objects are of Kubernetes' own kinds needs no CRD; their apiVersion and kind are
// then required in the base. The caller has to provide an [Admitter].
//
// An object may omit apiVersion, kind and metadata.name: they default to those of the CRD's
// storage version and to "test". Where an object is expected, a string names a file,
// relative to the suite. Fields that the API server generates (metadata.uid, generation,
// timestamps and so on) are never compared. A namespace or name is compared only if the
// expected object has it. A case of valid that loses fields fails unless pruned or stored
// expects this. Unknown keys are errors.
//
// The format of the suites in OpenShift's api repository is supported as well: documents
// with crdName and tests, in which onCreate and onUpdate list cases with initial, updated,
// expected, expectedError, expectedStatusError and initialCRDPatches.
//
// A suite can name admission policies: policies lists files and directories with policies, their
// bindings, parameters and namespaces, and as has the user and the groups of the requests. Then
// changed lists exactly the fields that mutating policies change, warnings parts of exactly the
// warnings of validating policies, and the rule of an expected error can be the name of the policy
// that denies the request. An [Options].Policies evaluates them.
package suite
