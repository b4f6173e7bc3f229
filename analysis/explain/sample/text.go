package sample

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// text generates a string.
func text(n *need, variation int) string {
	first := ""
	for _, s := range texts(n, variation) {
		s = n.fit(s)
		if n.takes(s) {
			return s
		}
		if first == "" {
			first = s
		}
	}
	return first
}

// texts returns candidate strings, the most likely first.
func texts(n *need, variation int) (list []string) {
	for _, f := range n.formats {
		if s, ok := ofFormat(f, variation); ok {
			list = append(list, s)
		}
	}
	suffix := ""
	if variation > 0 {
		suffix = fmt.Sprint(variation + 1)
	}
	list = append(list, "example"+suffix)
	if variation == 0 {
		list = append(list, dictionary()...)
	}
	for i, p := range n.patterns {
		found := matching(p, n.minLength, variation)
		list = append(list, found...)
		// A match of one pattern followed by a match of another may match both.
		for _, q := range n.patterns[:i] {
			for _, other := range matching(q, n.minLength, variation) {
				for _, s := range found[:min(len(found), 4)] {
					list = append(list, other+s, s+other, other+"example"+s, s+"example"+other)
				}
			}
		}
	}
	// A string with a suffix may no longer match a pattern. Then a plain one may.
	return append(list, dictionary()...)
}

// dictionary returns strings of the kinds that fields of resources often contain.
func dictionary() []string {
	return []string{
		"example", "Example", "EXAMPLE", "example.com", "example.com/example", "https://example.com",
		"192.0.2.1", "192.0.2.0/24", "2001:db8::1", "2001:db8::/32",
		"1", "10", "1h", "1s", "10m", "1Gi", "100m", "50%", "80", "80/TCP", "v1", "v1.0.0", "1.0.0", "a", "A", "/example", "/", "*",
		"2006-01-02T15:04:05Z", "2006-01-02", "15:04", "@hourly", "* * * * *", "00:00:5e:00:53:01", "example@example.com",
		"arn:aws:iam::123456789012:role/example", "us-east-1", "us-east-1a", "ami-0123456789abcdef0", "vpc-0123456789abcdef0",
		"6ba7b810-9dad-41d1-80b4-00c04fd430c8", "sha256:" + strings.Repeat("0123456789abcdef", 4), strings.Repeat("0123456789abcdef", 4),
		"example.com/example@sha256:" + strings.Repeat("0123456789abcdef", 4), "projects/example/locations/example", "ZXhhbXBsZQ==", "",
	}
}

// takes reports whether a string meets the needs.
func (n *need) takes(s string) bool {
	if length := int64(utf8.RuneCountInString(s)); length < n.minLength || length > n.maxLength {
		return false
	}
	for _, p := range n.patterns {
		if re, err := regexp.Compile(p); err != nil || !re.MatchString(s) {
			return false
		}
	}
	for _, f := range n.formats {
		if strfmt.Default.ContainsName(f) && !strfmt.Default.Validates(f, s) {
			return false
		}
	}
	return true
}

// fit pads or cuts a plain string to the allowed length.
func (n *need) fit(s string) string {
	if len(n.patterns) > 0 || len(n.formats) > 0 {
		return s
	}
	for length := utf8.RuneCountInString(s); int64(length) < n.minLength && length < maxText; length++ {
		s += string('a' + rune(length%26))
	}
	if n.maxLength < int64(len(s)) && n.maxLength >= 0 {
		s = s[:n.maxLength]
	}
	return s
}

// ofFormat returns a string of a format. The addresses and names are reserved for
// documentation.
func ofFormat(format string, variation int) (string, bool) {
	i := variation % 200
	switch strings.ReplaceAll(format, "-", "") {
	case "bsonobjectid":
		return fmt.Sprintf("507f1f77bcf86cd7994390%02x", i), true
	case "email":
		return fmt.Sprintf("example%d@example.com", i), true
	case "hostname":
		return fmt.Sprintf("host%d.example.com", i), true
	case "uuid", "uuid4":
		return fmt.Sprintf("6ba7b810-9dad-41d1-80b4-00c04fd430%02x", i), true
	case "uuid3":
		return fmt.Sprintf("6ba7b810-9dad-31d1-80b4-00c04fd430%02x", i), true
	case "uuid5":
		return fmt.Sprintf("6ba7b810-9dad-51d1-80b4-00c04fd430%02x", i), true
	case "date":
		return fmt.Sprintf("%d-01-02", 2006+i), true
	case "datetime":
		return fmt.Sprintf("%d-01-02T15:04:05Z", 2006+i), true
	case "duration":
		return fmt.Sprintf("%dh", i+1), true
	case "uri", "url", "urireference":
		return fmt.Sprintf("https://example.com/%d", i), true
	case "ipv4", "ip":
		return fmt.Sprintf("192.0.2.%d", i+1), true
	case "ipv6":
		return fmt.Sprintf("2001:db8::%x", i+1), true
	case "cidr":
		return fmt.Sprintf("192.0.2.%d/32", i+1), true
	case "mac":
		return fmt.Sprintf("00:00:5e:00:53:%02x", i), true
	case "isbn", "isbn10":
		return "0321751043", true
	case "isbn13":
		return "9780321751041", true
	case "creditcard":
		return "4111111111111111", true
	case "ssn":
		return fmt.Sprintf("111-22-3%03d", i), true
	case "hexcolor":
		return fmt.Sprintf("#0000%02x", i), true
	case "rgbcolor":
		return fmt.Sprintf("rgb(0,0,%d)", i), true
	case "byte":
		return "ZXhhbXBsZQ==", true
	case "k8sshortname", "k8slongname":
		return fmt.Sprintf("example%d", i), true
	}
	return "", false
}
