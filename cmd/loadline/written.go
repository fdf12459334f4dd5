package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// What a verb writes at its end it could fail to write after all its work. So the paths that its flags name are looked at before it begins,
// and a path that cannot be is an error of usage like any other value; that the disk is full is none. Nothing stays of what is tried.

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

// checkOutputs refuses a path to write that a verb's flags name and that cannot be, or that the command line has for something else as well.
func (a *app) checkOutputs(c *cobra.Command, args []string) error {
	var all []outputFlag
	for _, o := range outputFlags() {
		f := c.Flags().Lookup(o.flag)
		if f == nil || o.verb != "" && o.verb != c.CommandPath() {
			continue
		}
		path := f.Value.String()
		if f.Changed && path == "" {
			return usage("leave it out, or name a file or a directory as --help says", "--%s: the path is empty", o.flag)
		}
		if err := o.what.check("--"+o.flag, path); err != nil {
			return err
		}
		if path == "" {
			continue
		}
		if a.json && o.what.special && isStdout(path) {
			return usage("name another file, or leave out --json", "--%s %s: it is stdout, which has the document of --json", o.flag, path)
		}
		for _, p := range all {
			if samePath(path, c.Flags().Lookup(p.flag).Value.String()) {
				return usage("name two files", "--%s %s: it is also that of --%s", o.flag, path, p.flag)
			}
		}
		all = append(all, o)
	}
	for _, o := range all {
		if o.what.replaces {
			continue
		}
		path, read := c.Flags().Lookup(o.flag).Value.String(), ""
		for _, x := range args {
			if sameFile(path, x) {
				read = x
			}
		}
		c.Flags().Visit(func(f *pflag.Flag) {
			if x := f.Value.String(); !slices.ContainsFunc(all, func(o outputFlag) bool { return o.flag == f.Name }) && sameFile(path, x) {
				read = "--" + f.Name + " " + x
			}
		})
		if read != "" {
			return usage("name another file", "--%s %s: this file is to be read, as %s", o.flag, path, read)
		}
	}
	return nil
}

// sameFile tells whether two paths name one regular file.
func sameFile(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	x, err := os.Stat(a)
	if err != nil || !x.Mode().IsRegular() {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// samePath tells whether two paths are one, or name one regular file. Pipes and devices bear more than one writer.
func samePath(a, b string) bool {
	if sameFile(a, b) {
		return true
	}
	x, err := filepath.Abs(a)
	y, e := filepath.Abs(b)
	_, there := os.Stat(a)
	return err == nil && e == nil && x == y && there != nil
}

// isStdout tells whether a path names what stdout is, if that is no terminal or other device.
func isStdout(path string) bool {
	x, err := os.Stat(path)
	if err != nil || x.Mode()&fs.ModeDevice != 0 {
		return false
	}
	y, err := os.Stdout.Stat()
	return err == nil && os.SameFile(x, y)
}

// openStream opens what an output with special names, to write behind (os.O_APPEND) or in the place of (os.O_TRUNC) what is there. A pipe that
// nobody reads is refused after a moment, in which a reader that was started together with this process comes to open it.
func openStream(path string, how int) (*os.File, error) {
	const tries = 50
	for try := 1; ; try++ {
		flags := os.O_WRONLY | os.O_CREATE | how
		if st, err := os.Stat(path); err == nil && st.Mode()&fs.ModeNamedPipe != 0 {
			flags = os.O_WRONLY | unix.O_NONBLOCK // else open itself would wait
		}
		f, err := os.OpenFile(path, flags, 0o644)
		if !errors.Is(err, unix.ENXIO) {
			return f, err
		}
		if try == tries {
			return nil, usage("start what reads it first", "%s: nobody reads this pipe", path)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// unopened is the error about an output that a flag names and that could not be opened after all.
func unopened(flag string, err error) error {
	var u *usageError
	if errors.As(err, &u) {
		return usage(u.try, "%s %s", flag, u.text)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return usage("name a file that can be written", "%s: %v", flag, err)
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
		return tried(refuse, flag, filepath.Dir(path), false)
	case err == nil && o.directory:
		return tried(refuse, flag, path, false)
	case err == nil && st.Mode().IsRegular():
		return written(refuse, flag, path)
	case err == nil:
		return denied(refuse, path, unix.W_OK)
	case !gone(path): // it cannot be looked at
		return refuse("%v", bare(err))
	}
	if to := linked(path); to != path && !o.replaces { // to nothing yet
		if o.directory {
			return refuse("it is a link to %s, which is not there", to)
		}
		return o.check(strings.TrimSpace(flag+path+":"), to)
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
	return tried(refuse, flag, above, o.directory || above != filepath.Dir(path))
}

// tried refuses a directory in which nothing can be made: a file with something in it, or a directory. What it makes it removes.
func tried(refuse func(format string, args ...any) error, flag, dir string, directory bool) error {
	if err := denied(refuse, dir, unix.W_OK|unix.X_OK); err != nil {
		return err
	}
	const name = ".loadline-*"
	var made string
	var err error
	if directory {
		made, err = os.MkdirTemp(dir, name)
	} else {
		var f *os.File
		if f, err = os.CreateTemp(dir, name); err == nil {
			made = f.Name()
			_, err = f.Write(make([]byte, 4<<10))
			err = errors.Join(err, f.Close())
		}
	}
	if made != "" {
		err = errors.Join(err, os.Remove(made))
	}
	return unfit(refuse, flag, dir, "nothing can be made in "+dir+": ", err)
}

// written refuses a regular file that is there and cannot be written, such as one that is the kernel's.
func written(refuse func(format string, args ...any) error, flag, path string) error {
	if err := denied(refuse, path, unix.W_OK); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err == nil {
		if err = takes(f); err == nil {
			err = f.Close()
		}
	}
	return unfit(refuse, flag, path, "", err)
}

// unfit makes an error of err, about a path: one of usage, behind what, unless it is only space that is missing.
func unfit(refuse func(format string, args ...any) error, flag, path, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%s%s: %w", flag, path, bare(err))
	}
	return refuse("%s%v", what, bare(err))
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
