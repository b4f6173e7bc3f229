module espalier.dev/site

go 1.26.0

replace espalier.dev => ..

require espalier.dev v0.0.0

require golang.org/x/net v0.61.0
