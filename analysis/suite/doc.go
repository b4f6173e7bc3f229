// Package suite runs test suites for CustomResourceDefinitions: objects that must be
// accepted, objects that must be rejected and why, updates, and what is stored in the
// end. What it asks is the engine itself, so the answers are a server's.
//
// A suite is a YAML document next to the definition that it tests:
//
//	apiVersion: espalier.dev/v1
//	kind: TestSuite
//	name: CronTab                  # what reports call it; the file's name if absent
//	crd: crontab-crd.yaml          # the definition: a file, or a list of files,
//	                               # relative to the suite; not needed if it is in the
//	                               # same file, or named on the command line
//	semantics: kubernetes          # or kep; what the command line says if absent
//
//	base:                          # an object that cases change
//	  spec: {cronSpec: "0 * * * *", image: example}
//
//	valid:                         # must be accepted
//	- name: the base as it is      # without an object, it is the base
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
//	  errors:                      # exactly the reasons; any will do if absent
//	  - path: spec.image           # where,
//	    message: Required value    # a part of the message,
//	    rule: required             # the keyword or the rule in CEL: any of the three
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
// An object may leave out apiVersion, kind and metadata.name: they become those of the
// definition's storage version and "test". Where an object is expected, a string
// names a file, relative to the suite. What a server makes up (metadata.uid,
// generation, times and so on) is never compared; a namespace or name only if it is
// expected. An object of valid that loses fields fails unless pruned or stored say
// so. Keys that are not in this list are errors.
//
// The format of the suites in OpenShift's api repository is read as well: documents
// with crdName and tests, in which onCreate and onUpdate list cases of initial,
// updated, expected, expectedError, expectedStatusError and initialCRDPatches.
package suite
