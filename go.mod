module espalier.dev

go 1.26.0

require sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730

require (
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/tools v0.52.0 // indirect
	k8s.io/apimachinery v0.37.2 // indirect
	k8s.io/kube-openapi v0.0.0-20260721132016-d427ff9ee9ad // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
)
