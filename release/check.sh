#!/usr/bin/env bash
# Checks a release as its users get it: make release-check VERSION=v1.0.0 [PLATFORMS=linux/amd64] [COLD=1]
#
# It builds the release twice, from two clones in different directories, and compares them byte by
# byte. The second build takes compiled packages from the build cache of Go, so the comparison covers
# links and files. With COLD=1 it compiles everything again, into a build cache of its own. Then it
# installs the archive, the packages and the image for this machine into empty directories and runs
# the quick start of README.md in each of them, with nothing else there. What this machine cannot do is
# reported as skipped, with the reason. It changes nothing outside of a temporary directory.
set -uo pipefail

version=${1:?usage: check.sh VERSION [PLATFORMS]}
platforms=${2:-}
number=${version#v}
image=registry.example.com/espalier
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source=$PWD
work=$(mktemp -d)
dist=$work/one/dist/$version
arch=$(go env GOHOSTARCH)
here=${dist}/espalier_${number}_linux_${arch}.tar.gz
passed=() skipped=() failed=()

cleanup() {
  for pid in $(jobs -p); do kill "$pid" 2>/dev/null; done
  wait
  rm -rf "$work"
}
trap cleanup EXIT

# check NAME COMMAND…: runs COMMAND, which fails at the first command that fails.
check() {
  local name=$1 log=$work/log
  shift
  # In the background, because bash ignores set -e in a condition. For the same reason check must
  # not be part of one: see the array failed.
  (set -e; "$@") >"$log" 2>&1 &
  wait $!
  local rc=$?
  case $rc in
  0) passed+=("$name"); echo "ok       $name" ;;
  77) skipped+=("$name"); echo "skipped  $name: $(tail -n 1 "$log")" ;;
  *) failed+=("$name"); echo "FAILED   $name, exit code $rc:"; sed 's/^/  /' "$log" ;;
  esac
}

skip() { echo "$*"; exit 77; }
need() { for p in "$@"; do command -v "$p" >/dev/null || skip "$p is not installed"; done; }
need_root() { [ "$(id -u)" = 0 ] || skip "chroot needs root"; }
fails() { if "$@"; then echo "must fail: $*"; return 1; fi; }
# finds [FLAG] PATTERN prints its input and succeeds if it has the pattern. grep -q would end at the
# first match, and the program that writes fails then.
finds() { tee /dev/stderr | grep "$@" >/dev/null; }
need_file() { [ -e "$1" ] || skip "${1##*/} is not part of this release"; }

build() { # DIRECTORY
  "$work/release" build --source "$1" --version "$version" --output "$1/dist/$version" \
    --key "$work/key.pem" --image "$image" ${platforms:+--platforms "$platforms"}
}

build_twice() {
  (cd release && go build -o "$work/release" .)
  openssl genpkey -quiet -algorithm ed25519 -out "$work/key.pem" 2>/dev/null || openssl genpkey -algorithm ed25519 -out "$work/key.pem"
  git clone --quiet "$source" "$work/one"
  build "$work/one"
  # Another directory, time zone, umask, and settings that change what go build does.
  mkdir -p "$work/a/longer/path"
  git clone --quiet "$source" "$work/a/longer/path/two"
  (
    umask 077
    if [ -n "${COLD:-}" ]; then export GOCACHE=$work/cache; fi
    TZ=Asia/Tokyo GOFLAGS=-v GOAMD64=v3 build "$work/a/longer/path/two"
  )
  diff -r "$dist" "$work/a/longer/path/two/dist/$version"
}

# signatures verifies the release as README.md describes it, with the public key in the release.
signatures() {
  local fingerprint
  "$work/release" verify --key "$dist/release.pub" --version "$version" "$dist" | tee "$work/verify.out"
  need openssl sha256sum
  fingerprint=$(openssl pkey -in "$work/key.pem" -pubout -outform DER | sha256sum)
  grep -qx "${fingerprint%% *}" "$work/verify.out"
  cd "$dist"
  openssl pkeyutl -verify -pubin -inkey release.pub -rawin -in checksums.txt -sigfile checksums.txt.sig
  sha256sum --check --quiet checksums.txt
}

# validate ROOT PROGRAM EXAMPLES: the first part of the quick start, with paths in ROOT.
validate() {
  local out rc=0
  out=$(chroot "$1" "$2" validate --crd "$3/crd.yaml" -f "$3/hourly.yaml" 2>&1) || rc=$?
  echo "$out"
  [ $rc = 1 ]
  grep -q 'spec.schedule: Invalid value: "0 \* \* \*"' <<<"$out"
  chroot "$1" "$2" version -o json | finds "\"version\": \"$version\""
}

# serve ROOT COMMAND…: the second part of the quick start. COMMAND starts a server whose files are
# below ROOT.
serve() {
  local root=$1 pid out=$work/serve.out
  shift
  : >"$out"
  "$@" >"$out" &
  pid=$!
  # shellcheck disable=SC2064 # pid is local
  trap "kill $pid 2>/dev/null" EXIT
  for ((i = 0; i < 600; i++)); do
    ! grep -q 'export KUBECONFIG=' "$out" || break
    kill -0 $pid
    sleep 0.2
  done
  local kubeconfig
  kubeconfig=$root$(sed -n 's/.*export KUBECONFIG=//p' "$out")
  [ -f "$kubeconfig" ]
  if command -v kubectl >/dev/null; then
    local k=(kubectl --kubeconfig "$kubeconfig" --cache-dir "$work/kube")
    "${k[@]}" apply -f "$source/examples/crontab/crd.yaml"
    "${k[@]}" wait --for=condition=Established crd/crontabs.example.com --timeout=60s
    "${k[@]}" apply -f "$source/examples/crontab/nightly.yaml"
    "${k[@]}" get crontabs.example.com -A | finds nightly
    fails "${k[@]}" apply -f "$source/examples/crontab/hourly.yaml"
  else
    echo "kubectl is not installed: the server was only started"
  fi
  trap - EXIT
  kill $pid
  wait $pid
}

archive() {
  need_file "$here"
  need_root
  mkdir "$work/archive"
  tar -xzf "$here" -C "$work/archive"
  validate "$work/archive" /espalier /examples/crontab
  grep -q '^@codemirror/view ' "$work/archive/THIRD-PARTY-LICENSES"
  grep -qa cm-lineNumbers "$work/archive/espalier" # the editor of the web page
  serve "$work/archive" chroot "$work/archive" /espalier serve --data-dir /data --secure-port 0
}

archive_cli() {
  need_file "${here/espalier_/espalier-cli_}"
  need_root
  mkdir "$work/cli"
  tar -xzf "${here/espalier_/espalier-cli_}" -C "$work/cli"
  validate "$work/cli" /espalier /examples/crontab
}

static() {
  need_file "$here"
  need file
  mkdir "$work/static"
  tar -xzf "$here" -C "$work/static" espalier
  file "$work/static/espalier" | finds 'statically linked.*stripped'
}

deb() {
  need_file "$dist/espalier_${number}_${arch}.deb"
  need dpkg
  need_root
  local root=$work/deb
  mkdir -p "$root/var/lib/dpkg/"{info,updates}
  touch "$root/var/lib/dpkg/"{status,available}
  # Scripts run outside of the root, which has no shell, and know it from DPKG_ROOT.
  # espalier takes the place of espalier-cli, but not the other way round, which would remove a server.
  dpkg --root="$root" --force-script-chrootless --log=/dev/null --install "$dist/espalier-cli_${number}_${arch}.deb"
  dpkg --root="$root" --force-script-chrootless --log=/dev/null --install "$dist/espalier_${number}_${arch}.deb"
  fails dpkg --root="$root" --force-script-chrootless --log=/dev/null --install "$dist/espalier-cli_${number}_${arch}.deb"
  dpkg --root="$root" --status espalier | finds '^Status: install ok installed'
  dpkg --root="$root" --status espalier | finds ' /etc/default/espalier '
  [ -s "$root/usr/share/man/man1/espalier-validate.1.gz" ]
  if command -v systemd-sysusers >/dev/null; then grep -q '^espalier:' "$root/etc/passwd"; fi
  validate "$root" /usr/bin/espalier /usr/share/doc/espalier/examples/crontab
  serve "$root" chroot "$root" /usr/bin/espalier serve --data-dir /var/lib/espalier/data --secure-port 0
  dpkg --root="$root" --force-script-chrootless --log=/dev/null --purge espalier
  [ ! -e "$root/usr/bin/espalier" ]
  [ -d "$root/var/lib/espalier/data" ] # the data stays
}

rpm_package() {
  local machine=x86_64
  [ "$arch" = amd64 ] || machine=aarch64
  local file=$dist/espalier-${number}-1.$machine.rpm
  need_file "$file"
  need rpm
  need_root
  local root=$work/rpm
  mkdir "$root"
  rpm --root "$root" --initdb
  # The scripts need a shell, which the root does not have; deb runs the same scripts.
  rpm --root "$root" --noscripts --nodeps --install "$file"
  fails rpm --root "$root" --noscripts --install "${file/espalier-/espalier-cli-}"
  rpm --root "$root" --verify --nodeps --noscripts espalier
  rpm --root "$root" --query --configfiles espalier | finds -x /etc/default/espalier
  validate "$root" /usr/bin/espalier /usr/share/doc/espalier/examples/crontab
}

unit() {
  need systemd-analyze
  need_file "$here"
  mkdir "$work/unit"
  tar -xzf "$here" -C "$work/unit" espalier
  sed "s,/usr/bin/espalier,$work/unit/espalier," deploy/systemd/espalier.service >"$work/unit/espalier.service"
  local out
  out=$(systemd-analyze verify --man=no "$work/unit/espalier.service" 2>&1)
  echo "$out"
  fails grep -q espalier.service <<<"$out"
  systemd-analyze security --offline=true --threshold=30 "$work/unit/espalier.service" | tail -n 1
}

image() {
  need_file "$dist/espalier_${number}_oci.tar"
  need_root
  mkdir "$work/layout" "$work/image"
  tar -xf "$dist/espalier_${number}_oci.tar" -C "$work/layout"
  (cd release && go build -o "$work/unpack" ./unpack)
  "$work/unpack" "$work/layout" "$arch" root | tar -x -p --numeric-owner -C "$work/image"
  mapfile -t command < <("$work/unpack" "$work/layout" "$arch" command)
  [ "${command[0]}" = 65532:65532 ]
  # The image has no examples: users mount their files.
  mkdir "$work/image/work"
  cp examples/crontab/* "$work/image/work"
  validate "$work/image" /usr/bin/espalier /work
  serve "$work/image" chroot --userspec="${command[0]}" --groups= "$work/image" "${command[@]:1}" --secure-port 0
  [ "$(stat -c %u "$work/image/var/lib/espalier/data")" = 65532 ]
}

krew() {
  need_file "$dist/espalier.yaml"
  local v=v0.5.0
  mkdir "$work/krew-source" "$work/bin"
  (cd "$work/krew-source" && export GOFLAGS=-mod=mod && go mod init krew && go mod edit -require "sigs.k8s.io/krew@$v" &&
    go build -o "$work/bin/" sigs.k8s.io/krew/cmd/{krew,validate-krew-manifest}) >"$work/krew.log" 2>&1 ||
    skip "krew $v cannot be built here: $(tail -n 1 "$work/krew.log")"
  "$work/bin/validate-krew-manifest" -manifest "$dist/espalier.yaml" -skip-install
  need_file "${here/espalier_/espalier-cli_}"
  need git
  KREW_ROOT=$work/krew "$work/bin/krew" install --manifest "$dist/espalier.yaml" --archive "${here/espalier_/espalier-cli_}"
  "$work/krew/bin/kubectl-espalier" version | finds "$version"
}

homebrew() {
  need_file "$dist/espalier.rb"
  need ruby
  ruby -c "$dist/espalier.rb"
}

scoop() {
  need_file "$dist/espalier.json"
  need python3
  python3 -m json.tool "$dist/espalier.json"
}

chart() {
  need_file "$dist/espalier-chart-$number.tgz"
  # The version that test/helm tests with.
  (cd test/helm && go build -o "$work/helm" helm.sh/helm/v4/cmd/helm)
  "$work/helm" template espalier "$dist/espalier-chart-$number.tgz" >"$work/chart.yaml"
  grep -q "image: $image:$number\$" "$work/chart.yaml"
}

kubernetes() {
  local file=$dist/espalier-kubernetes-$number.yaml
  need_file "$file"
  grep -q "image: $image:$number\$" "$file"
  need_file "$here"
  mkdir "$work/kubernetes"
  tar -xzf "$here" -C "$work/kubernetes" espalier
  "$work/kubernetes/espalier" validate --semantics kubernetes --field-validation strict "$file"
}

check "two clones give the same bytes" build_twice
[ ${#failed[@]} = 0 ] || exit 1
check "signatures and checksums" signatures
check "static program" static
check "quick start: archive" archive
check "quick start: archive without the server" archive_cli
check "quick start: Debian package" deb
check "quick start: RPM package, without the server" rpm_package
check "quick start: image" image
check "systemd unit" unit
check "Krew manifest" krew
check "Homebrew formula" homebrew
check "Scoop manifest" scoop
check "Helm chart" chart
check "Kubernetes manifests" kubernetes
echo "${#passed[@]} passed, ${#skipped[@]} skipped, ${#failed[@]} failed"
[ ${#failed[@]} = 0 ]
