package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// What a verb writes at its end it could fail to write after all its work. So the paths that its flags name are looked at before it begins,
// and a path that cannot be is an error of usage like any other value. Nothing is made here.

// output is what is written at a path: a regular file in a directory that is there, unless its fields say otherwise.
type output struct {
	directory bool // it is a directory
	special   bool // a pipe or a device will do too
	makes     bool // directories above it are made
	replaces  bool // it takes its name when it is whole, so that a file that is there need not be writable
}

// outputFlag is a flag that names what a verb writes.
type outputFlag struct {
	verb, flag string // the verb's whole name; empty is every verb
	what       output
}

// outputFlags lists them all but --tier, see trainFlags.tiers, and --profile, which plan check --learn writes.
func outputFlags() []outputFlag {
	stream, directory := output{special: true}, output{directory: true, makes: true}
	return []outputFlag{
		{"", "events", stream},
		{"loadline train", "out", directory},
		{"loadline plan", "program", output{}}, {"loadline plan", "html", output{}}, {"loadline plan", "write-config", directory},
		{"loadline plan score", "write", directory},
		{"loadline bench", "cpuprofile", stream}, {"loadline bench train", "cpuprofile", stream}, {"loadline bench cost", "write", output{makes: true, replaces: true}},
		{"loadline pull", "out", output{replaces: true}},
	}
}

// checkOutputs refuses a path to write that a verb's flags name and that cannot be.
func checkOutputs(c *cobra.Command) error {
	for _, o := range outputFlags() {
		f := c.Flags().Lookup(o.flag)
		if f == nil || o.verb != "" && o.verb != c.CommandPath() {
			continue
		}
		if err := o.what.check("--"+o.flag, f.Value.String()); err != nil {
			return err
		}
	}
	return nil
}

// check refuses a path that cannot be written; flag is empty for an argument. An empty path is none.
func (o output) check(flag, path string) error {
	if path == "" {
		return nil
	}
	if flag != "" {
		flag += " "
	}
	elsewhere := "name a file that can be written"
	if o.directory {
		elsewhere = "name a directory that can be written"
	}
	refuse := func(format string, args ...any) error {
		return usage(elsewhere, "%s%s: "+format, append([]any{flag, path}, args...)...)
	}
	st, err := os.Stat(path)
	switch {
	case err == nil && o.directory && !st.IsDir():
		return refuse("it is not a directory")
	case err == nil && !o.directory && st.IsDir():
		return refuse("it is a directory")
	case err == nil && !o.directory && !o.special && !st.Mode().IsRegular():
		return refuse("%v", bare(checkRegular(path)))
	case err == nil && o.replaces:
		return nil
	case err == nil && o.directory:
		return denied(refuse, path, unix.W_OK|unix.X_OK)
	case err == nil:
		return denied(refuse, path, unix.W_OK)
	case !gone(path): // it cannot be looked at
		return refuse("%v", bare(err))
	}
	above := filepath.Dir(path)
	for o.makes && gone(above) && above != filepath.Dir(above) {
		above = filepath.Dir(above)
	}
	switch st, err := os.Stat(above); {
	case gone(above):
		elsewhere = "make that directory first, or name a file elsewhere"
		return refuse("there is no directory %s", above)
	case err != nil:
		return refuse("%s: %v", above, bare(err))
	case !st.IsDir():
		return refuse("%s is not a directory", above)
	}
	return denied(refuse, above, unix.W_OK|unix.X_OK)
}

// denied refuses what this user may not do with what is at a path.
func denied(refuse func(format string, args ...any) error, path string, mode uint32) error {
	if err := unix.Access(path, mode); err != nil {
		return refuse("%s: %v", path, err)
	}
	return nil
}

// bare is an error about a path without the path and what was done to it.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
