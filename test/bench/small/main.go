// Command small compares the program without the server with the complete one: its size, and the
// time that it takes to start. It prints medians, and ratios.
//
// Usage: small [-n runs] espalier-binary small-binary
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

func main() {
	n := flag.Int("n", 31, "number of runs of each command")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: small [-n runs] espalier-binary small-binary")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Arg(1), *n); err != nil {
		fmt.Fprintln(os.Stderr, "small:", err)
		os.Exit(1)
	}
}

func run(complete, small string, n int) error {
	fmt.Printf("medians of %d runs          complete     small   ratio\n", n)
	var sizes [2]float64
	for i, program := range []string{complete, small} {
		info, err := os.Stat(program)
		if err != nil {
			return err
		}
		sizes[i] = float64(info.Size()) / 1e6
	}
	line("size in MB", sizes)
	for _, command := range []string{"version", "lint --rules", "explain deployments.spec"} {
		wall, cpu, err := measure([]string{complete, small}, strings.Fields(command), n)
		if err != nil {
			return err
		}
		line(command+", ms", wall)
		line("  CPU time, ms", cpu)
	}
	return nil
}

func line(name string, values [2]float64) {
	fmt.Printf("  %-26s %8.1f  %8.1f  %6.2f\n", name, values[0], values[1], values[1]/values[0])
}

// measure runs a command with both programs, one after the other, so that the load of the machine
// affects both, and returns the medians of their times in milliseconds.
func measure(programs, args []string, n int) (wall, cpu [2]float64, err error) {
	var walls, cpus [2][]time.Duration
	for range n {
		for i, program := range programs {
			c := exec.Command(program, args...)
			begin := time.Now()
			if err := c.Run(); err != nil {
				return wall, cpu, fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
			}
			walls[i] = append(walls[i], time.Since(begin))
			cpus[i] = append(cpus[i], c.ProcessState.UserTime()+c.ProcessState.SystemTime())
		}
	}
	for i := range programs {
		wall[i], cpu[i] = median(walls[i]), median(cpus[i])
	}
	return wall, cpu, nil
}

// median returns the median of times in milliseconds.
func median(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2]) / float64(time.Millisecond)
}
