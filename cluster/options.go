package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"espalier.dev/cluster/internal/controlplane"
)

const help = `Run a simulated Kubernetes cluster: espalier serve, the real kube-controller-manager
and kube-scheduler, and kwok, which simulates nodes.

Deployments, Jobs, StatefulSets, DaemonSets and CronJobs get their pods, pods are scheduled and
become Running, those of Jobs succeed, and volume claims are bound. No containers run.

Usage:
  cluster [flags] [flags of espalier serve]

Examples:
  # Three nodes, on 127.0.0.1:6443; the data is in ./espalier-data
  cluster

  # A hundred nodes, and nothing is kept at the end
  cluster --nodes 100 --storage memory

Flags:
      --nodes number       number of nodes, 0 to 5000 (default 3)
      --stages file        file with stages of kwok, which say what happens to nodes, pods and other
                           objects. Those for nodes replace kwok's default ones for nodes,
                           and those for pods the default ones for pods
      --components file    binary of the module cluster/components (default: the environment
                           variable ESPALIER_CLUSTER_COMPONENTS, or it is built)
      --espalier file      binary of espalier (default: it is built)
  -h, --help               this text

All other flags are those of espalier serve: espalier serve --help.
`

// errHelp is returned if the help is requested.
var errHelp = errors.New("help requested")

// options are the flags.
type options struct {
	nodes      int
	stages     string
	components string
	espalier   string
	serve      []string // the flags of the server
}

// parse reads the arguments. Those that are not flags of the launcher are for the server.
func parse(args []string) (*options, error) {
	o := &options{nodes: 3, components: os.Getenv(controlplane.Variable)}
	texts := map[string]*string{"--stages": &o.stages, "--components": &o.components, "--espalier": &o.espalier}
	for i := 0; i < len(args); i++ {
		name, value, has := strings.Cut(args[i], "=")
		text := texts[name]
		switch {
		case name == "--help" || name == "-h":
			return nil, errHelp
		case name == "--nodes", text != nil:
			if !has {
				if i++; i == len(args) {
					return nil, fmt.Errorf("%s needs a value", name)
				}
				value = args[i]
			}
			if text == nil {
				n, err := strconv.Atoi(value)
				if err != nil || n < 0 || n > controlplane.MaxNodes {
					return nil, fmt.Errorf("--nodes is %q: must be a number, 0 to %d", value, controlplane.MaxNodes)
				}
				o.nodes = n
			} else if value == "" {
				return nil, fmt.Errorf("%s is empty: must be a file", name)
			} else {
				*text = value
			}
		default:
			o.serve = append(o.serve, args[i])
		}
	}
	return o, nil
}

// flag returns the value of a flag of the server, or a default one.
func (o *options) flag(name, otherwise string) string {
	value := otherwise
	for i, arg := range o.serve {
		if text, ok := strings.CutPrefix(arg, name+"="); ok {
			value = text
		} else if arg == name && i+1 < len(o.serve) {
			value = o.serve[i+1]
		}
	}
	return value
}

// controllers returns the values of the flag --controllers of the server. The flag may be repeated.
func (o *options) controllers() []string {
	values, found := []string{}, false
	for i, arg := range o.serve {
		text, ok := strings.CutPrefix(arg, "--controllers=")
		if !ok && arg == "--controllers" && i+1 < len(o.serve) {
			text, ok = o.serve[i+1], true
		}
		if found = found || ok; ok && text != "" {
			values = append(values, strings.Split(text, ",")...)
		}
	}
	if !found {
		return []string{"*"} // the default
	}
	return values
}

// dataDir returns the data directory of the server.
func (o *options) dataDir() string { return o.flag("--data-dir", "espalier-data") }

// logs returns the directory of the logs of the components.
func (o *options) logs() string {
	path := filepath.Join(o.dataDir(), "cluster")
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

// keys returns the files of the server that kube-controller-manager signs with. They exist when the server is ready.
func (o *options) keys() controlplane.Keys {
	k := controlplane.KeysIn(o.dataDir())
	k.CACert = o.flag("--ca-cert-file", k.CACert)
	k.CAKey = o.flag("--ca-key-file", k.CAKey)
	k.ServiceAccountKey = o.flag("--service-account-signing-key-file", k.ServiceAccountKey)
	return k
}
