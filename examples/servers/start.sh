#!/usr/bin/env bash
# Runs three etcd members, three servers and a load balancer on this machine, until it is
# stopped. Needs etcd, espalier and haproxy in the PATH.
#
# usage: start.sh DIRECTORY [FLAG...]
#
# DIRECTORY is for the data, the logs and the process IDs. The flags are for the servers. PORT
# is the first of ten ports, 6440 by default; the load balancer listens on it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?usage: start.sh DIRECTORY [FLAG...]}
shift
port=${PORT:-6440}
mkdir -p "$dir"
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
trap 'exit 0' INT TERM

# run NAME COMMAND... runs a command in the background.
run() {
	local name=$1
	shift
	"$@" >"$dir/$name.log" 2>&1 &
	echo $! >"$dir/$name.pid"
}

# Three etcd members.
cluster=etcd1=http://127.0.0.1:$((port + 7)),etcd2=http://127.0.0.1:$((port + 8)),etcd3=http://127.0.0.1:$((port + 9))
for i in 1 2 3; do
	run etcd$i etcd --name etcd$i --data-dir "$dir/etcd$i" --initial-cluster "$cluster" \
		--listen-client-urls http://127.0.0.1:$((port + 3 + i)) --advertise-client-urls http://127.0.0.1:$((port + 3 + i)) \
		--listen-peer-urls http://127.0.0.1:$((port + 6 + i)) --initial-advertise-peer-urls http://127.0.0.1:$((port + 6 + i))
done
members=http://127.0.0.1:$((port + 4)),http://127.0.0.1:$((port + 5)),http://127.0.0.1:$((port + 6))

# Three servers. The first one creates the certificate authority and the key for tokens of service
# accounts, and the others use copies, so that the credentials of clients are valid everywhere.
for i in 1 2 3; do
	if [ $i -gt 1 ]; then
		mkdir -p "$dir/server$i/pki"
		cp -r "$dir"/server1/pki/ca.* "$dir"/server1/pki/service-accounts "$dir/server$i/pki"
	fi
	rm -f "$dir/server$i/kubeconfig"
	for _ in {1..20}; do # until the etcd cluster has a leader
		run server$i espalier serve --data-dir "$dir/server$i" --secure-port $((port + i)) --etcd-servers "$members" "$@"
		until [ -s "$dir/server$i/kubeconfig" ] || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
		[ ! -s "$dir/server$i/kubeconfig" ] || break
		sleep 0.5
	done
done

# A load balancer that uses the servers that are ready.
export BALANCER=$port SERVER1=$((port + 1)) SERVER2=$((port + 2)) SERVER3=$((port + 3))
run balancer haproxy -f "$here/haproxy.cfg"
sed "s/:$((port + 1))\$/:$port/" "$dir/server1/kubeconfig" >"$dir/kubeconfig.new"
mv "$dir/kubeconfig.new" "$dir/kubeconfig"
echo "ready: export KUBECONFIG=$dir/kubeconfig"
wait
