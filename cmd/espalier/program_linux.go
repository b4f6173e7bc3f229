package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// releaseProgram unmaps the pages of the program that it has used so far. Most of the program is
// for other commands, or for the start, and the memory of a process includes all pages of its
// program that it has ever read. Pages that are used again come from the page cache. It has no
// effect if the system does not tell which pages these are.
func releaseProgram() {
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer file.Close()
	self, err := os.Executable()
	if err != nil {
		return
	}
	var start, end uintptr // of the current mapping, if it is one of the program
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 6 && strings.Contains(fields[0], "-"):
			start, end = 0, 0
			if fields[5] != self || strings.Contains(fields[1], "w") {
				continue // other files, and pages that can be changed
			}
			from, to, _ := strings.Cut(fields[0], "-")
			start, end = address(from), address(to)
		case len(fields) == 3 && fields[0] == "Anonymous:":
			// Changed pages are not in the file.
			if start < end && fields[1] == "0" {
				_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED) // only saves memory
			}
			start, end = 0, 0
		case len(fields) > 0 && !strings.HasSuffix(fields[0], ":"):
			start, end = 0, 0 // a mapping without a file
		}
	}
}

func address(text string) uintptr {
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0
	}
	return uintptr(n)
}
