package assist

import "strings"

// Function is a function or macro of CEL.
type Function struct {
	Name string
	// Receiver is the type of the value before the dot: string, list, map, int and so on, or any.
	// Functions without one are called by their name, which may have a dot itself.
	Receiver string
	// Signature has the parameters and the result, such as (string) bool.
	Signature string
	// Doc says what it does.
	Doc string
	// Macro is set for macros, whose parameters are expressions.
	Macro bool
}

// result returns the type of the result.
func (f *Function) result() string {
	_, result, _ := strings.Cut(f.Signature, ") ")
	return result
}

// Functions returns the functions and macros that rules of CRDs can use in the newest supported
// release of Kubernetes. Operators and conversions between numbers have no entries of their own.
func Functions() []Function {
	var all []Function
	for _, line := range strings.Split(strings.TrimSpace(functionTable), "\n") {
		signature, doc, _ := strings.Cut(line, " // ")
		f := Function{Doc: doc}
		signature, f.Macro = strings.CutPrefix(signature, "macro ")
		name, rest, _ := strings.Cut(signature, "(")
		f.Name, f.Signature = name, "("+rest
		if receiver, method, ok := strings.Cut(name, "::"); ok {
			f.Receiver, f.Name = receiver, method
		}
		all = append(all, f)
	}
	return all
}

// functionTable has a function on each line. A receiver is before ::.
const functionTable = `
macro has(field) bool // whether a field is set
macro list::all(x, predicate) bool // whether the predicate holds for all items
macro list::exists(x, predicate) bool // whether the predicate holds for an item
macro list::exists_one(x, predicate) bool // whether the predicate holds for exactly one item
macro list::existsOne(i, x, predicate) bool // whether the predicate holds for exactly one item
macro list::filter(x, predicate) receiver // the items for which the predicate holds
macro list::map(x, expression) list(dyn) // the results of the expression for all items
macro list::transformList(i, x, expression) list(dyn) // the results of the expression for all indexes and items
macro list::transformMap(i, x, expression) map(dyn) // a map of the results of the expression by index
macro list::transformMapEntry(i, x, expression) map(dyn) // a map of the entries that the expression returns
macro list::sortBy(x, expression) receiver // the items in the order of the results of the expression
macro map::all(key, predicate) bool // whether the predicate holds for all keys
macro map::exists(key, predicate) bool // whether the predicate holds for a key
macro map::exists_one(key, predicate) bool // whether the predicate holds for exactly one key
macro map::existsOne(key, value, predicate) bool // whether the predicate holds for exactly one entry
macro map::filter(key, predicate) list(string) // the keys for which the predicate holds
macro map::map(key, expression) list(dyn) // the results of the expression for all keys
macro map::transformList(key, value, expression) list(dyn) // the results of the expression for all entries
macro map::transformMap(key, value, expression) map(dyn) // the map with the results of the expression as values
macro map::transformMapEntry(key, value, expression) map(dyn) // a map of the entries that the expression returns
macro optional::optMap(x, expression) optional // the result of the expression, if there is a value
macro optional::optFlatMap(x, expression) optional // the optional result of the expression, if there is a value
list::size() int // the number of items
map::size() int // the number of entries
string::size() int // the number of characters
bytes::size() int // the number of bytes
size(value) int // the length of a string, list or map
type(value) type // the type of a value
dyn(value) dyn // the value without its type, for comparisons of different types
int(value) int // converts to an integer
uint(value) uint // converts to an unsigned integer
double(value) double // converts to a floating-point number
string(value) string // converts to a string
bytes(value) bytes // converts to bytes
bool(value) bool // converts to a boolean
duration(string) duration // parses a duration such as 1h30m
timestamp(string) timestamp // parses a time in RFC 3339
matches(string, pattern) bool // whether a regular expression matches
string::matches(pattern) bool // whether a regular expression (RE2) matches a part of the string
string::contains(string) bool // whether the string contains another
string::startsWith(string) bool // whether the string starts with another
string::endsWith(string) bool // whether the string ends with another
string::charAt(int) string // the character at an index
string::indexOf(string) int // the index of the first occurrence, or -1
string::lastIndexOf(string) int // the index of the last occurrence, or -1
string::lowerAscii() string // the string with ASCII letters in lower case
string::upperAscii() string // the string with ASCII letters in upper case
string::replace(old, new) string // the string with replaced parts
string::split(separator) list(string) // the parts between separators
string::substring(start, end) string // the part from an index to another
string::trim() string // the string without white space around it
string::format(list) string // the string with %s, %d and others replaced by the items
string::find(pattern) string // the first match of a regular expression
string::findAll(pattern) list(string) // all matches of a regular expression
string::reverse() string // the characters in reverse order
strings.quote(string) string // the string in quotes, with escapes
list::join(separator) string // the strings of a list, joined
list::isSorted() bool // whether the items are in order
list::sum() elem // the sum of the items
list::min() elem // the lowest item
list::max() elem // the highest item
list::indexOf(value) int // the index of the first equal item, or -1
list::lastIndexOf(value) int // the index of the last equal item, or -1
list::slice(start, end) receiver // the items from an index to another
list::flatten() list(dyn) // the items of the lists in the list
list::sort() receiver // the items in order
list::distinct() receiver // the items without repetitions
list::reverse() receiver // the items in reverse order
list::first() optional // the first item, if there is one
list::last() optional // the last item, if there is one
list::includes(value) bool // whether the list has an equal item, from Kubernetes 1.37 on
list::unwrapOpt() list(dyn) // the values of the optionals in the list
lists.range(int) list(int) // the integers from 0 up to, but not including, a number
sets.contains(list, sublist) bool // whether a list has all items of another
sets.equivalent(list, list) bool // whether two lists have the same items, in any order
sets.intersects(list, list) bool // whether two lists have a common item
timestamp::getFullYear(zone) int // the year
timestamp::getMonth(zone) int // the month, from 0
timestamp::getDate(zone) int // the day of the month, from 1
timestamp::getDayOfMonth(zone) int // the day of the month, from 0
timestamp::getDayOfWeek(zone) int // the day of the week, from 0 for Sunday
timestamp::getDayOfYear(zone) int // the day of the year, from 0
timestamp::getHours(zone) int // the hour
timestamp::getMinutes(zone) int // the minute
timestamp::getSeconds(zone) int // the second
timestamp::getMilliseconds(zone) int // the millisecond
duration::getHours() int // the duration in hours
duration::getMinutes() int // the duration in minutes
duration::getSeconds() int // the duration in seconds
duration::getMilliseconds() int // the milliseconds of the duration
url(string) url // parses a URL
isURL(string) bool // whether a string is a URL
url::getScheme() string // the scheme
url::getHost() string // the host with its port
url::getHostname() string // the host without its port
url::getPort() string // the port
url::getEscapedPath() string // the path
url::getQuery() map(dyn) // the query parameters
quantity(string) quantity // parses a quantity such as 100m or 1Gi
isQuantity(string) bool // whether a string is a quantity
quantity::sign() int // 1, 0 or -1
quantity::isInteger() bool // whether asInteger succeeds
quantity::asInteger() int // the quantity as an integer
quantity::asApproximateFloat() double // the quantity as a floating-point number
quantity::add(quantity) quantity // the sum
quantity::sub(quantity) quantity // the difference
quantity::isGreaterThan(quantity) bool // whether it is greater
quantity::isLessThan(quantity) bool // whether it is less
quantity::compareTo(quantity) int // 1, 0 or -1
ip(string) ip // parses an IP address
isIP(string) bool // whether a string is an IP address
ip.isCanonical(string) bool // whether an IP address is in canonical form
ip::family() int // 4 or 6
ip::isUnspecified() bool // whether it is 0.0.0.0 or ::
ip::isLoopback() bool // whether it is a loopback address
ip::isLinkLocalMulticast() bool // whether it is a link-local multicast address
ip::isLinkLocalUnicast() bool // whether it is a link-local unicast address
ip::isGlobalUnicast() bool // whether it is a global unicast address
cidr(string) cidr // parses a network such as 10.0.0.0/8
isCIDR(string) bool // whether a string is a network
cidr::containsIP(ip) bool // whether an address is in the network
cidr::containsCIDR(cidr) bool // whether another network is in the network
cidr::ip() ip // the address of the network
cidr::masked() cidr // the network without the bits of hosts
cidr::prefixLength() int // the length of the prefix
semver(string) semver // parses a semantic version
isSemver(string) bool // whether a string is a semantic version
semver::major() int // the major version
semver::minor() int // the minor version
semver::patch() int // the patch version
semver::isGreaterThan(semver) bool // whether it is greater
semver::isLessThan(semver) bool // whether it is less
semver::compareTo(semver) int // 1, 0 or -1
format.named(string) optional // the format with a name, if it exists
format.dns1123Label() format // the format of a DNS label
format.dns1123Subdomain() format // the format of a DNS subdomain
format.dns1035Label() format // the format of a DNS label that starts with a letter
format.dns1123LabelPrefix() format // the format of the start of a DNS label
format.dns1123SubdomainPrefix() format // the format of the start of a DNS subdomain
format.dns1035LabelPrefix() format // the format of the start of a DNS label that starts with a letter
format.qualifiedName() format // the format of a name with an optional domain
format.labelValue() format // the format of the value of a label
format.uri() format // the format of a URI
format.uuid() format // the format of a UUID
format.byte() format // the format of base64
format.date() format // the format of a date
format.datetime() format // the format of a date with a time
format::validate(string) optional // the errors of a string, if it has some
optional.of(value) optional // an optional with a value
optional.unwrap(list) list(dyn) // the values of the optionals in a list
optional.none() optional // an optional without a value
optional.ofNonZeroValue(value) optional // an optional with a value that is not empty
optional::hasValue() bool // whether there is a value
optional::value() dyn // the value
optional::or(optional) optional // the value of the first optional that has one
optional::orValue(value) dyn // the value, or another one
`
