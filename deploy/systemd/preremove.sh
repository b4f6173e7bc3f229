#!/bin/sh
# Runs before the package is removed. dpkg passes "remove" then, and rpm the number of packages of
# this name that are left: 0. On an upgrade nothing is stopped here: postinstall.sh restarts.
set -e
case "${1:-}" in
remove | 0)
	if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
		systemctl disable --now espalier.service || true
	fi
	;;
esac
