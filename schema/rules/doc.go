// Package rules compiles and evaluates x-kubernetes-validations.
package rules

import (
	_ "github.com/google/cel-go/cel"
	_ "github.com/google/cel-go/checker"
	_ "github.com/google/cel-go/interpreter"
	_ "k8s.io/apiserver/pkg/apis/cel"
	_ "k8s.io/apiserver/pkg/cel"
	_ "k8s.io/apiserver/pkg/cel/common"
	_ "k8s.io/apiserver/pkg/cel/environment"
	_ "k8s.io/apiserver/pkg/cel/library"
	_ "k8s.io/apiserver/pkg/warning"
)
