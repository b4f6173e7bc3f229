module espalier.dev/test/cmd

go 1.26.0
