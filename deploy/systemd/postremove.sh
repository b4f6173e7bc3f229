#!/bin/sh
# Runs after the package is removed. The data in /var/lib/espalier and the user stay, also on purge:
# they are the only copy of the objects. Remove them yourself when you do not need them any more.
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
