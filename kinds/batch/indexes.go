package batch

import (
	"fmt"
	"strconv"
	"strings"
)

// interval is a range of indexes of pods, both inclusive.
type interval struct{ first, last int32 }

// intervals are ranges in increasing order.
type intervals []interval

func (list intervals) total() (sum int32) {
	for _, i := range list {
		sum += i.last - i.first + 1
	}
	return sum
}

// parseIndexes parses a list such as "1,3-5,7" of indexes below the number of completions. It
// returns no indexes with an error.
func parseIndexes(text string, completions int32) (list intervals, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		i, err := parseInterval(part, completions)
		if err != nil {
			return nil, err
		}
		if n := len(list); n > 0 && list[n-1].last >= i.first {
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", list[n-1].last, i.first)
		}
		list = append(list, i)
	}
	return list, nil
}

func parseInterval(text string, completions int32) (interval, error) {
	first, last, isRange := strings.Cut(text, "-")
	if strings.Contains(last, "-") {
		return interval{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	x, err := parseIndex(first, completions)
	if err != nil || !isRange {
		return interval{x, x}, err
	}
	y, err := parseIndex(last, completions)
	if err != nil {
		return interval{}, err
	}
	if x >= y {
		return interval{}, fmt.Errorf("non-increasing order, previous: %d, current: %d", x, y)
	}
	return interval{x, y}, nil
}

func parseIndex(text string, completions int32) (int32, error) {
	index, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("cannot convert string to integer for index: %q", text)
	}
	if index >= int(completions) {
		return 0, fmt.Errorf("too large index: %q", text)
	}
	return int32(index), nil
}

// overlap returns the first index that is in two lists. Parts that cannot be parsed are skipped:
// they are errors of their own.
func overlap(a, b string, completions int32) (index int32, ok bool) {
	if a == "" || b == "" {
		return 0, false
	}
	parse := func(text string) (list intervals) {
		for part := range strings.SplitSeq(text, ",") {
			if i, err := parseInterval(part, completions); err == nil {
				list = append(list, i)
			}
		}
		return list
	}
	for x, y := parse(a), parse(b); len(x) > 0 && len(y) > 0; {
		if x[0].first <= y[0].last && y[0].first <= x[0].last {
			return max(x[0].first, y[0].first), true
		}
		if x[0].first <= y[0].first {
			x = x[1:]
		} else {
			y = y[1:]
		}
	}
	return 0, false
}
