module espalier.dev/test/cmd

go 1.26.0

replace espalier.dev => ../..

require espalier.dev v0.0.0

require golang.org/x/sys v0.49.0 // indirect
