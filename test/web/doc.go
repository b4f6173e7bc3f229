// Package web tests the web page in Chromium, as a user operates it. The tests are skipped where there
// is no browser.
package web
