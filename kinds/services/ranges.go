package services

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Defaults of --service-cluster-ip-range and --service-node-port-range.
const (
	DefaultIPRange   = "10.0.0.0/24"
	DefaultPortRange = "30000-32767"
)

// Allocator proposes cluster IPs and node ports for services. It has no state: what is free
// follows from the stored services.
//
// IPAddresses follow from the services: the write of a service creates and deletes them in the same
// transaction. One that exists without a service, because a client has created it, makes its IP
// taken, too.
//
// Two writes must not take the same value, in one server or in several. The caller reads the
// stored services at some revision, calls [Allocator.Begin], and writes the service in a
// transaction with the condition and the operation of [Guard]: every write that takes a value
// also writes one key, the guard, and succeeds only if nobody has written the guard after the
// revision at which the services were read. So no value has been taken between the reading and
// the write, and what was free is still free. A write that fails for this reason has changed
// nothing. It is repeated if its values are still free in newer services, which [Free] reports,
// and otherwise begins again. A write that only releases values needs no
// guard: it makes a proposal of another write at worst too careful. There is nothing to repair
// after a crash, because the transaction is the only write.
type Allocator struct {
	// families are the configured IP families, the primary one first.
	families []corev1.IPFamily
	ips      map[corev1.IPFamily]addresses
	ports    utilnet.PortRange
	// Random returns a number between 0 and n-1 for the choice of something with a name. Nil means a
	// random one.
	Random func(name string, n uint64) uint64
}

// Stored is what an allocation depends on.
type Stored struct {
	// Services are all stored services.
	Services iter.Seq[*corev1.Service]
	// HasAddress reports whether there is an IPAddress for an IP. Nil means that there are none.
	HasAddress func(netip.Addr) bool
	// Ranges returns the ranges of the stored ServiceCIDRs. Nil means that there are none.
	Ranges func() []netip.Prefix
}

// addresses are the usable addresses of a range: without the first one, and without the last
// one of IPv4.
type addresses struct {
	prefix      netip.Prefix
	first, last netip.Addr
	// size is the number of addresses, at most maxSize.
	size uint64
}

// maxSize limits the part of a range from which addresses are proposed.
const maxSize = 1 << 20

// NewAllocator returns an Allocator for the values of --service-cluster-ip-range and
// --service-node-port-range. Empty values mean the defaults.
func NewAllocator(ipRange, portRange string) (*Allocator, error) {
	if ipRange == "" {
		ipRange = DefaultIPRange
	}
	if portRange == "" {
		portRange = DefaultPortRange
	}
	ports, err := utilnet.ParsePortRange(portRange)
	if err != nil {
		return nil, fmt.Errorf("range of node ports: %w", err)
	}
	a := &Allocator{ips: map[corev1.IPFamily]addresses{}, ports: *ports}
	for text := range strings.SplitSeq(ipRange, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("range of cluster IPs: %w", err)
		}
		family := corev1.IPv4Protocol
		if prefix.Addr().Is6() {
			family = corev1.IPv6Protocol
		}
		if _, ok := a.ips[family]; ok {
			return nil, fmt.Errorf("range of cluster IPs: %s is a second range of %s", prefix, family)
		}
		if a.ips[family], err = newAddresses(prefix.Masked()); err != nil {
			return nil, err
		}
		a.families = append(a.families, family)
	}
	return a, nil
}

func newAddresses(prefix netip.Prefix) (r addresses, err error) {
	bits := prefix.Addr().BitLen() - prefix.Bits()
	r = addresses{prefix: prefix, first: prefix.Addr().Next(), last: prefix.Addr()}
	bytes := r.last.AsSlice()
	for i := range bits {
		bytes[len(bytes)-1-i/8] |= 1 << (i % 8)
	}
	r.last, _ = netip.AddrFromSlice(bytes)
	r.size = maxSize
	if bits < 20 {
		r.size = 1<<bits - 1
	}
	if prefix.Addr().Is4() {
		r.last = r.last.Prev()
		r.size--
	}
	if bits < 2 {
		return r, fmt.Errorf("range of cluster IPs: %s has too few addresses", prefix)
	}
	if prefix.Addr().Is6() && prefix.Bits() < 64 {
		return r, fmt.Errorf("range of cluster IPs: %s has more than 64 bits for addresses", prefix)
	}
	return r, nil
}

// Ranges returns the ranges of cluster IPs, the primary one first.
func (a *Allocator) Ranges() (cidrs []string) {
	for _, family := range a.families {
		cidrs = append(cidrs, a.ips[family].prefix.String())
	}
	return cidrs
}

// Prefixes returns the ranges of cluster IPs, the primary one first.
func (a *Allocator) Prefixes() (prefixes []netip.Prefix) {
	for _, family := range a.families {
		prefixes = append(prefixes, a.ips[family].prefix)
	}
	return prefixes
}

// First returns the address of the service kubernetes: the first one of the primary range.
func (a *Allocator) First() string { return a.ips[a.families[0]].first.String() }

var (
	errFull          = errors.New("range is full")
	errIPAllocated   = errors.New("provided IP is already allocated")
	errIPOutside     = errors.New("the provided network does not match the current range")
	errPortAllocated = errors.New("provided port is already allocated")
)

// taken are the values of stored services, and those that a write takes.
type taken struct {
	ips   map[netip.Addr]bool
	ports map[int32]bool
	// isAddress reports whether an IP has an IPAddress. It may be nil.
	isAddress func(netip.Addr) bool
}

func (t *taken) hasIP(ip netip.Addr) bool { return t.ips[ip] || t.isAddress != nil && t.isAddress(ip) }

// ClusterIPs returns the cluster IPs of a service.
func ClusterIPs(svc *corev1.Service) (ips []netip.Addr) {
	for _, ip := range slices.Concat(svc.Spec.ClusterIPs, []string{svc.Spec.ClusterIP}) {
		// None is no address.
		if addr, err := netip.ParseAddr(ip); err == nil && !slices.Contains(ips, addr.Unmap()) {
			ips = append(ips, addr.Unmap())
		}
	}
	return ips
}

func (t *taken) add(svc *corev1.Service) {
	for _, ip := range ClusterIPs(svc) {
		t.ips[ip] = true
	}
	for _, port := range append(nodePorts(svc), svc.Spec.HealthCheckNodePort) {
		t.ports[port] = true
	}
}

// Free reports whether the values that a service takes are not those of others. old is the service
// before the write, or nil for a create. stored are all stored services.
func Free(svc, old *corev1.Service, stored iter.Seq[*corev1.Service]) bool {
	wanted := &taken{ips: map[netip.Addr]bool{}, ports: map[int32]bool{}}
	wanted.add(svc)
	delete(wanted.ports, 0)
	if old != nil {
		had := &taken{ips: map[netip.Addr]bool{}, ports: map[int32]bool{}}
		had.add(old)
		maps.DeleteFunc(wanted.ips, func(ip netip.Addr, _ bool) bool { return had.ips[ip] })
		maps.DeleteFunc(wanted.ports, func(port int32, _ bool) bool { return had.ports[port] })
	}
	for other := range stored {
		used := &taken{ips: map[netip.Addr]bool{}, ports: map[int32]bool{}}
		used.add(other)
		for ip := range used.ips {
			if wanted.ips[ip] {
				return false
			}
		}
		for port := range used.ports {
			if wanted.ports[port] {
				return false
			}
		}
	}
	return true
}

// takeIP takes an address of one of the ranges, or any free one if it is empty. The first range is the
// first choice.
func (a *Allocator) takeIP(t *taken, ranges []addresses, ip string) (string, error) {
	if ip == "" {
		for _, r := range ranges {
			if i, err := a.pick("ip", r.size, 16, 256, func(i uint64) bool { return t.hasIP(r.at(i)) }); err == nil {
				t.ips[r.at(i)] = true
				return r.at(i).String(), nil
			}
		}
		return "", errFull
	}
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return "", err
	}
	addr = addr.Unmap()
	err = errIPOutside
	for _, r := range ranges {
		switch {
		case !r.prefix.Contains(addr):
		case addr.Less(r.first), r.last.Less(addr):
			err = fmt.Errorf("the provided IP (%v) is not in the valid range. The range of valid IPs is %s", addr, r.prefix)
		case t.hasIP(addr):
			return "", errIPAllocated
		default:
			t.ips[addr] = true
			return ip, nil
		}
	}
	return "", err
}

// at returns the address with an index.
func (r addresses) at(i uint64) netip.Addr {
	bytes := r.first.AsSlice()
	for p := len(bytes) - 1; p >= 0 && i > 0; p-- {
		i += uint64(bytes[p])
		bytes[p] = byte(i)
		i >>= 8
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}

// takePort takes a port, or any free one if it is 0.
func (a *Allocator) takePort(t *taken, port int32) (int32, error) {
	if port == 0 {
		i, err := a.pick("port", uint64(a.ports.Size), 32, 128, func(i uint64) bool { return t.ports[int32(a.ports.Base)+int32(i)] })
		if err != nil {
			return 0, err
		}
		port = int32(a.ports.Base) + int32(i)
	}
	switch {
	case !a.ports.Contains(int(port)):
		return 0, fmt.Errorf("provided port is not in the valid range. The range of valid ports is %s", a.ports.String())
	case t.ports[port]:
		return 0, errPortAllocated
	}
	t.ports[port] = true
	return port, nil
}

// pick returns the index of a free value of a kind, at random. The first values of a range (a fraction of
// it, at least 16, at most limit) are the last choice, so that they are likely to be free for
// clients that ask for them.
func (a *Allocator) pick(of string, size, fraction, limit uint64, used func(uint64) bool) (uint64, error) {
	low := uint64(0)
	if size > 16 {
		low = min(max(16, size/fraction), limit)
	}
	for _, band := range [][2]uint64{{low, size}, {0, low}} {
		n := band[1] - band[0]
		if n == 0 {
			continue
		}
		start := rand.Uint64N(n)
		if a.Random != nil {
			start = a.Random(of, n)
		}
		for i := range n {
			if v := band[0] + (start+i)%n; !used(v) {
				return v, nil
			}
		}
	}
	return 0, errFull
}
