#!/bin/sh
# Runs after the package is installed or upgraded, by dpkg and by rpm.
#
# The service is neither enabled nor started, although Debian usually starts services: most
# installations want the command line, the port may belong to a kube-apiserver, and the first start
# creates a certificate authority. To start it: systemctl enable --now espalier
set -e

# dpkg sets DPKG_ROOT if it installs into another root without chroot.
root=${DPKG_ROOT:-}
if command -v systemd-sysusers >/dev/null 2>&1; then
	systemd-sysusers --root="$root/" espalier.conf
elif [ -z "$root" ] && ! getent passwd espalier >/dev/null 2>&1 && command -v useradd >/dev/null 2>&1; then
	useradd --system --user-group --home-dir /var/lib/espalier --no-create-home --shell /usr/sbin/nologin espalier
fi
if [ -z "$root" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	# On an upgrade, a service that runs continues with the new program.
	systemctl try-restart espalier.service || true
fi
