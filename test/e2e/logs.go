package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

// unwanted are texts that the log of the server must not have.
var unwanted = []string{"DATA RACE", "[SHOULD NOT HAPPEN]", "panic:", "Observed a panic", "fatal error:"}

// checkLogs returns an error for each line of a log that must not be there, up to a limit.
func checkLogs(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var problems []error
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 16<<20)
	for number := 1; scanner.Scan() && len(problems) < 20; number++ {
		for _, text := range unwanted {
			if strings.Contains(scanner.Text(), text) {
				problems = append(problems, fmt.Errorf("%s:%d: %s", path, number, scanner.Text()))
				break
			}
		}
	}
	return errors.Join(append(problems, scanner.Err())...)
}
