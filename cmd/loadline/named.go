package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// gone tells whether nothing is at a path, where a link leads included.
func gone(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// isFile tells whether something other than a directory is at a path.
func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

// present refuses a path to read from that the command line gives and where nothing is; flag is empty for an argument. A path that no flag gave
// is not asked about.
func present(flag, path string) error {
	if path == "" || !gone(path) {
		return nil
	}
	return absent(flag, path, "check the path")
}

// absent is the error about a path where nothing is.
func absent(flag, path, try string) error {
	if flag != "" {
		flag += " "
	}
	return usage(try, "%s%s: no such file or directory", flag, path)
}

// absentModel is absent about a model. presets are what the verb takes in its place; what is named as on the hub can be fetched.
func absentModel(flag, path string, presets ...string) error {
	try := "check the path"
	owner, name, ok := strings.Cut(path, "/")
	switch {
	case ok && owner != "" && name != "" && !strings.Contains(name, "/") && !strings.HasPrefix(owner, ".") && gone(owner):
		try += ", or loadline pull " + path + " to fetch it from the hub"
	case !strings.ContainsAny(path, "./"):
		try = didYouMean(path, presets, "--preset ", try)
	}
	return absent(flag, path, try)
}
