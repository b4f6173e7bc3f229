package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"espalier.dev/internal/process/setup"
)

const (
	// members is the number of members of the etcd that several servers share.
	members = 3
	// seen is the number of writes that other servers are timed with, and seenPace the time between two.
	seen     = 500
	seenPace = 4 * time.Millisecond
)

// fleet is servers that share an etcd with several members.
type fleet struct {
	dir     string
	etcd    []*program
	urls    []string
	servers []*server
}

// scaled is what requests cost with a number of servers.
type scaled struct {
	Servers int `json:"servers"`
	// Read is a GET, which asks etcd for the newest revision, Cached one with resourceVersion=0, and Write a
	// CREATE.
	Read   operationCost `json:"read"`
	Cached operationCost `json:"cached"`
	Write  operationCost `json:"write"`
	// Visible50 and Visible99 are the median and the 99th percentile of the time from the response to a
	// CREATE until a watcher of another server has the event, in milliseconds.
	Visible50 float64 `json:"visible50,omitempty"`
	Visible99 float64 `json:"visible99,omitempty"`
}

// operationCost is the cost of a kind of request.
type operationCost struct {
	Rate float64 `json:"perSecond"`
	// Servers and Etcd are the CPU times of a request, in milliseconds, of all servers and of all members.
	Servers float64 `json:"msServers"`
	Etcd    float64 `json:"msEtcd"`
	// Messages is the number of gRPC messages that etcd sends and receives, and Peers the kilobytes that its
	// members send to each other.
	Messages float64 `json:"messages"`
	Peers    float64 `json:"kBPeers"`
}

// measureScale measures numbers of servers, one after the other, each on an etcd of its own.
func (b *bench) measureScale(ctx context.Context, counts []int) error {
	for _, n := range counts {
		fmt.Fprintf(os.Stderr, "%d servers on %d members of etcd\n", n, members)
		s, err := b.measureFleet(ctx, n)
		if err != nil {
			return fmt.Errorf("%d servers: %w", n, err)
		}
		b.scale = append(b.scale, s)
	}
	return nil
}

func (b *bench) measureFleet(ctx context.Context, n int) (_ scaled, err error) {
	result := scaled{Servers: n}
	f, err := b.startFleet(ctx, n)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	first := f.servers[0]
	for _, kind := range []string{mainKind, watchKind} {
		if err := first.createCRD(ctx, kind); err != nil {
			return result, err
		}
	}
	if _, err := first.fill(ctx, mainKind, "read", read); err != nil {
		return result, err
	}
	for _, s := range f.servers { // until each of them serves the CRDs and has the objects
		for _, path := range []string{collection(watchKind), fmt.Sprintf("%s/read-%07d", collection(mainKind), read-1)} {
			if err := s.await(ctx, func() error { _, err := s.get(ctx, path); return err }); err != nil {
				return result, err
			}
		}
	}
	for _, m := range []struct {
		cost    *operationCost
		prepare func(context.Context, *server) (operation, error)
	}{
		{&result.Read, getting("")},
		{&result.Cached, getting("?resourceVersion=0")},
		{&result.Write, func(_ context.Context, s *server) (operation, error) {
			buffers, stem := newBuffers(s), "create-"+strconv.Itoa(slices.Index(f.servers, s))
			return func(ctx context.Context, c, i int) error {
				return s.create(ctx, s.clients[c], mainKind, fmt.Sprintf("%s-%d", stem, i), &buffers[c])
			}, nil
		}},
	} {
		if *m.cost, err = f.measure(ctx, b.settings, m.prepare); err != nil {
			return result, err
		}
	}
	if n > 1 {
		result.Visible50, result.Visible99, err = f.measureVisible(ctx)
	}
	return result, err
}

// startFleet starts an etcd with several members, and servers on it, one after the other.
func (b *bench) startFleet(ctx context.Context, n int) (_ *fleet, err error) {
	f := &fleet{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.stop())
		}
	}()
	if f.dir, err = os.MkdirTemp(b.dir, "fleet-"); err != nil {
		return nil, err
	}
	var peers, cluster []string
	ports, err := setup.FreePorts(2 * members)
	if err != nil {
		return nil, err
	}
	for i := range members {
		f.urls = append(f.urls, "http://127.0.0.1:"+strconv.Itoa(ports[2*i]))
		peers = append(peers, "http://127.0.0.1:"+strconv.Itoa(ports[2*i+1]))
		cluster = append(cluster, fmt.Sprintf("etcd%d=%s", i, peers[i]))
	}
	for i := range members {
		name := "etcd" + strconv.Itoa(i)
		p, err := start(name, filepath.Join(f.dir, name+".log"), b.programs.etcd,
			"--name="+name, "--data-dir="+filepath.Join(f.dir, name), "--log-level=error", "--unsafe-no-fsync", "--max-txn-ops=1024",
			"--listen-client-urls="+f.urls[i], "--advertise-client-urls="+f.urls[i],
			"--listen-peer-urls="+peers[i], "--initial-advertise-peer-urls="+peers[i], "--initial-cluster="+strings.Join(cluster, ","))
		if err != nil {
			return nil, err
		}
		f.etcd = append(f.etcd, p)
	}
	for range n {
		dir, err := os.MkdirTemp(f.dir, "server-")
		if err != nil {
			return nil, err
		}
		s := &server{name: espalierName, dir: dir}
		f.servers = append(f.servers, s)
		// Each server prefers another member, as behind a load balancer.
		i := len(f.servers) % members
		if err := b.startOn(ctx, s, slices.Concat(f.urls[i:], f.urls[:i])...); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// stop ends the servers, and then etcd.
func (f *fleet) stop() error {
	var errs []error
	for _, s := range f.servers {
		errs = append(errs, s.stop())
	}
	for _, p := range f.etcd {
		errs = append(errs, p.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}

// measure measures requests that are spread over the servers. The medians of several turns count.
func (f *fleet) measure(ctx context.Context, settings settings, prepare func(context.Context, *server) (operation, error)) (operationCost, error) {
	ops := make([]operation, len(f.servers))
	for i, s := range f.servers {
		op, err := prepare(ctx, s)
		if err != nil {
			return operationCost{}, err
		}
		ops[i] = op
	}
	number := 0 // so that no two turns create the same objects
	var costs []operationCost
	for turn := -1; turn < settings.turns; turn++ { // the first turn warms up
		before, err := f.usage(ctx)
		if err != nil {
			return operationCost{}, err
		}
		l, err := spend(ctx, f.cpu, concurrency, settings.turn, 0, func(ctx context.Context, c, i int) error {
			return ops[c%len(ops)](ctx, c, number+i)
		})
		if err != nil {
			return operationCost{}, err
		}
		number += l.requests
		after, err := f.usage(ctx)
		if err != nil {
			return operationCost{}, err
		}
		if turn < 0 {
			continue
		}
		n := float64(max(1, l.requests))
		costs = append(costs, operationCost{
			Rate: n / l.elapsed.Seconds(), Servers: l.perRequest(), Etcd: (after.cpu - before.cpu).Seconds() * 1e3 / n,
			Messages: (after.messages - before.messages) / n, Peers: (after.peers - before.peers) / n / 1e3,
		})
	}
	return operationCost{
		Rate:     median(costs, func(c operationCost) float64 { return c.Rate }),
		Servers:  median(costs, func(c operationCost) float64 { return c.Servers }),
		Etcd:     median(costs, func(c operationCost) float64 { return c.Etcd }),
		Messages: median(costs, func(c operationCost) float64 { return c.Messages }),
		Peers:    median(costs, func(c operationCost) float64 { return c.Peers }),
	}, nil
}

// cpu returns the CPU time of all servers.
func (f *fleet) cpu() (time.Duration, error) {
	var processes []*program
	for _, s := range f.servers {
		processes = append(processes, s.process)
	}
	return total(processes)
}

// total returns the CPU time of processes.
func total(processes []*program) (time.Duration, error) {
	var sum time.Duration
	for _, p := range processes {
		d, err := p.cpu()
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

// usage is what the members of etcd have used since they started.
type usage struct {
	cpu time.Duration
	// messages is the number of gRPC messages with clients, and peers the bytes that members have sent to
	// each other.
	messages, peers float64
}

func (f *fleet) usage(ctx context.Context) (u usage, err error) {
	if u.cpu, err = total(f.etcd); err != nil {
		return u, err
	}
	for _, url := range f.urls {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
		if err != nil {
			return u, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return u, err
		}
		err = u.add(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return u, fmt.Errorf("metrics of etcd: %w", err)
		}
	}
	return u, nil
}

// add adds the metrics of a member.
func (u *usage) add(metrics io.Reader) error {
	lines := bufio.NewScanner(metrics)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		var sum *float64
		switch name {
		case "grpc_server_msg_received_total", "grpc_server_msg_sent_total":
			sum = &u.messages
		case "etcd_network_peer_sent_bytes_total":
			sum = &u.peers
		default:
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return err
		}
		*sum += v
	}
	return lines.Err()
}

// measureVisible creates objects with the first server, at a moderate pace, and measures after which time
// watchers of the other servers have them. It returns the median and the 99th percentile in milliseconds.
func (f *fleet) measureVisible(ctx context.Context) (half, most float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	others := f.servers[1:]
	arrived := make([]map[string]time.Time, len(others))
	failed := make(chan error, len(others))
	var group sync.WaitGroup
	defer group.Wait()
	for i, s := range others {
		arrived[i] = map[string]time.Time{}
		stream, err := s.openWatch(ctx, s.admin, "0")
		if err != nil {
			cancel()
			return 0, 0, err
		}
		group.Go(func() {
			_, err := follow(stream, "", func(line []byte) {
				if name := text(line, `"name":"`); strings.HasPrefix(name, "seen-") {
					arrived[i][name] = time.Now()
				}
				if len(arrived[i]) == seen {
					_ = stream.Close() // ends follow
				}
			})
			if len(arrived[i]) < seen {
				failed <- fmt.Errorf("a watcher has %d of %d events: %w", len(arrived[i]), seen, errors.Join(err, ctx.Err()))
			}
		})
	}
	responded := map[string]time.Time{}
	var buffer bytes.Buffer
	for i := range seen {
		name := fmt.Sprintf("seen-%04d", i)
		if err := f.servers[0].create(ctx, f.servers[0].clients[0], watchKind, name, &buffer); err != nil {
			cancel()
			return 0, 0, err
		}
		responded[name] = time.Now()
		time.Sleep(seenPace)
	}
	group.Wait()
	select {
	case err := <-failed:
		return 0, 0, err
	default:
	}
	var late []float64
	for _, times := range arrived {
		for name, at := range times {
			late = append(late, max(0, at.Sub(responded[name]).Seconds()*1e3)) // an event may precede the response
		}
	}
	slices.Sort(late)
	return late[len(late)/2], late[len(late)*99/100], nil
}

// printScale prints a line for each number of servers.
func printScale(out io.Writer, list []scaled) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "servers\trequest\t/s\tms CPU, servers\tms CPU, etcd\tmessages\tkB, members\tvisible p50, ms\tp99, ms\t")
	for _, s := range list {
		for _, r := range []struct {
			name string
			cost operationCost
		}{{"GET", s.Read}, {"GET rv=0", s.Cached}, {"CREATE", s.Write}} {
			visible, most := "", ""
			if r.name == "CREATE" && s.Servers > 1 {
				visible, most = number(&s.Visible50), number(&s.Visible99)
			}
			c := r.cost
			fmt.Fprintf(w, "%d\t%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s.Servers, r.name, c.Rate, number(&c.Servers), number(&c.Etcd),
				number(&c.Messages), number(&c.Peers), visible, most)
		}
	}
	_ = w.Flush() // to a terminal
}
