// Package generate compiles what espalier generate writes with the compilers of the target
// languages, for all structural CRDs of the corpus. controller-gen derives schemas from the Go
// types again.
//
//	go test ./...                                                a part of the corpus
//	ESPALIER_WHOLE_CORPUS=1 go test -timeout 0 -v ./...          all of it, with counts: make generate-corpus
package generate
