// Command cmd builds flavors of the program espalier for tests, unless they are built already, and prints their paths.
// Without -o they are those that tests find: in ESPALIER_BIN or in the user's cache.
//
//	go run ./internal/program/cmd -o bin espalier espalier-cli
package main

import (
	"flag"
	"fmt"
	"os"

	"espalier.dev/internal/program"
)

func main() {
	dir := flag.String("o", "", "the `directory` of the programs")
	flag.Parse()
	for _, name := range flag.Args() {
		if _, ok := program.Flavors[program.Flavor(name)]; !ok {
			fmt.Fprintf(os.Stderr, "%q is no flavor of the program\n", name)
			os.Exit(2)
		}
		find := program.Find
		if *dir != "" {
			find = func(f program.Flavor) (string, error) { return program.Build(*dir, f) }
		}
		path, err := find(program.Flavor(name))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(path)
	}
}
