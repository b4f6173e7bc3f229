module espalier.dev/test/envtest

go 1.26.0
