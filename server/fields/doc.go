// Package fields implements the field management of server-side apply for custom resources.
package fields
