// Package web holds the explorer: the page on which people try models, machines and settings, and see the bars of
// every rank under the load line. It is HTML, a style and a script, embedded as they are; they ask the server that
// delivers them and nobody else, so that the page works without a network.
//
// The page decides nothing: every number on it comes from the planner, by the server's two documents, /choices and
// /plan. What is chosen is in the page's address. The server is cmd/loadline's.
package web

import (
	"embed"
	"io/fs"
)

//go:embed page
var files embed.FS

// Page returns the page's files: index.html and what it names.
func Page() (fs.FS, error) { return fs.Sub(files, "page") }
