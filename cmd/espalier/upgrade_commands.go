package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"espalier.dev/analysis/upgrade"
	"espalier.dev/cmd/espalier/internal/helm"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/shell"
	"espalier.dev/server/keys"
)

// commands returns the commands of an action that depend on the arguments.
func (u *upgrader) commands(a upgrade.Action) []string {
	switch a {
	case upgrade.CorrectNew:
		return []string{"espalier lint " + u.readFlags() + shell.Quote(u.newPath)}
	case upgrade.Apply:
		return u.apply()
	case upgrade.Audit:
		return []string{u.audit()}
	case upgrade.Correct, upgrade.ChangeVersion, upgrade.ChangeVersionAfter:
		if u.source == nil {
			return []string{u.audit()}
		}
	}
	return nil
}

// clusterFlags returns the flags that name the cluster for kubectl and espalier.
func (u *upgrader) clusterFlags() string {
	return flagText("--kubeconfig", u.flags.cluster.Kubeconfig) + flagText("--context", u.flags.cluster.Context)
}

// storedFlags returns the flags that name the stored data for espalier migrate.
func (u *upgrader) storedFlags() string {
	e := &u.flags.etcd
	if u.named != "--snapshot" && u.named != "--etcd-servers" {
		return ""
	}
	flags := flagText("--snapshot", e.Snapshot) + flagText("--etcd-servers", strings.Join(e.Endpoints.URLs, ",")) +
		flagText("--etcd-cafile", e.Endpoints.CAFile) + flagText("--etcd-certfile", e.Endpoints.CertFile) + flagText("--etcd-keyfile", e.Endpoints.KeyFile) +
		flagText("--encryption-provider-config", e.EncryptionConfig)
	if e.SkipChecksum {
		flags += " --skip-hash-check"
	}
	if e.Prefix != keys.DefaultPrefix {
		flags += flagText("--etcd-prefix", e.Prefix)
	}
	return flags
}

// readFlags returns the flags that read the new release as this run does, with a space after each.
func (u *upgrader) readFlags() (flags string) {
	if u.objects.Recursive {
		flags += "-R "
		switch u.newForm {
		case input.Chart:
			flags += "--helm "
		case input.Kustomization:
			flags += "--kustomize "
		}
	}
	if r := u.objects.Helm; r != nil && u.newForm == input.Chart {
		if r.Network {
			flags += "--helm-network "
		}
		if r.Release != helm.DefaultRelease {
			flags += "--helm-release " + shell.Quote(r.Release) + " "
		}
		if r.Namespace != helm.DefaultNamespace {
			flags += "--helm-namespace " + shell.Quote(r.Namespace) + " "
		}
		for _, file := range r.Values {
			flags += "--helm-values " + shell.Quote(file) + " "
		}
		for _, value := range r.Set {
			flags += "--helm-set " + shell.Quote(value) + " "
		}
	}
	return flags
}

// apply returns the commands that apply the new CRDs.
func (u *upgrader) apply() (commands []string) {
	if u.ambiguous != nil && u.newForm == input.Plain && len(u.checkedFiles()) == 0 {
		return nil
	}
	apply := "kubectl" + u.clusterFlags() + " apply --server-side --force-conflicts"
	place, recursive := shell.Quote(u.newPath), u.objects.Recursive
	if input.IsGit(u.newPath) {
		rev, file, err := input.ParseGit(u.newPath)
		if err != nil {
			return nil // it could not have been read
		}
		object := shell.Quote(rev + ":" + file)
		if isFile := path.Ext(file) != "" && slices.Contains(manifestExtensions(), path.Ext(file)[1:]); isFile {
			return []string{fmt.Sprintf("git show %s | %s -f -", object, apply)}
		}
		place, recursive = `"$new"`, true
		// In a subdirectory, git archive would leave out the rest of the tree. A kustomization may
		// load what is beside it.
		switch {
		case u.newForm == input.Chart && helm.IsArchive(file):
			place = `"$new/chart.tgz"`
			commands = append(commands, fmt.Sprintf(`new=$(mktemp -d) && git show %s > "$new/chart.tgz"`, object))
		case u.newForm == input.Kustomization && !strings.HasPrefix(file, "."):
			place = `"$new"/` + shell.Quote(file)
			object = shell.Quote(rev + ":")
			fallthrough
		default:
			commands = append(commands, fmt.Sprintf(
				`new=$(mktemp -d) && git -C "$(git rev-parse --show-toplevel)" archive "$(git rev-parse %s)" | tar -x -C "$new"`, object))
		}
	}
	switch {
	case u.newForm == input.Chart:
		return append(commands, u.applyChart(apply, place)...)
	case u.newForm == input.Kustomization:
		return append(commands, apply+" -k "+place)
	case u.ambiguous != nil:
		return append(commands, apply+u.applied(place))
	case recursive:
		apply += " -R"
	}
	return append(commands, apply+" -f "+place)
}

// applied returns the flags that name the checked files of the new release. place is where its directory is
// if it comes from a revision.
func (u *upgrader) applied(place string) (flags string) {
	for _, file := range u.checkedFiles() {
		below, inside := strings.CutPrefix(file, strings.TrimSuffix(u.newPath, "/")+"/")
		if inside && input.IsGit(u.newPath) {
			flags += " -f " + place + "/" + shell.Quote(below)
		} else {
			flags += " -f " + shell.Quote(file)
		}
	}
	return flags
}

// checkedFiles returns the files of the new release without those that have a CRD which another document has too.
func (u *upgrader) checkedFiles() []string {
	return slices.DeleteFunc(slices.Clone(u.files), func(file string) bool { return u.ambiguous[file] })
}

// applyChart returns the commands that apply a chart. Helm does not update CRDs that are not
// templates.
func (u *upgrader) applyChart(apply, place string) (commands []string) {
	for _, p := range u.pairs {
		if p.new != nil && p.new.item != nil && !p.new.item.Rendered() {
			commands = append(commands, "helm show crds "+place+" | "+apply+" -f -")
			break
		}
	}
	release, r := "RELEASE", u.objects.Helm
	if r != nil && r.Release != helm.DefaultRelease {
		release = shell.Quote(r.Release)
	}
	command := "helm upgrade " + release + " " + place + flagText("--kubeconfig", u.flags.cluster.Kubeconfig) + flagText("--kube-context", u.flags.cluster.Context)
	if r != nil {
		if r.Namespace != helm.DefaultNamespace {
			command += flagText("--namespace", r.Namespace)
		}
		for _, file := range r.Values {
			command += flagText("--values", file)
		}
		for _, value := range r.Set {
			command += flagText("--set", value)
		}
	}
	return append(commands, command)
}

// audit returns the command that inspects the objects after the upgrade.
func (u *upgrader) audit() string {
	switch u.named {
	case "--from-cluster":
		return "espalier audit --from-cluster" + u.clusterFlags()
	case "--snapshot":
		return "espalier audit" + u.storedFlags() + " # of after the upgrade"
	case "--etcd-servers":
		return "espalier audit" + u.storedFlags()
	case "--dump":
		return "espalier audit --dump " + shell.Quote(u.flags.dump) + " # of after the upgrade"
	}
	var paths []string
	for _, path := range u.objects.Paths {
		paths = append(paths, shell.Quote(path))
	}
	crds := " --crd " + shell.Quote(u.newPath)
	if checked := u.checkedFiles(); u.ambiguous != nil && len(checked) > 0 {
		crds = ""
		for _, file := range checked {
			crds += " --crd " + shell.Quote(file)
		}
	}
	return strings.TrimSuffix("espalier validate "+u.readFlags(), " ") + crds + " " + strings.Join(paths, " ")
}

// flagText returns a flag with its value and a space before it, or nothing without a value.
func flagText(name, value string) string {
	if value == "" {
		return ""
	}
	return " " + name + " " + shell.Quote(value)
}
