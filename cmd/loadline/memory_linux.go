package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"loadline/mem"
)

// availableMemory is the smaller of MemAvailable and what the control groups allow this process, versions 1 and 2
// (proc_meminfo(5), cgroups(7)).
func availableMemory() (mem.Bytes, string, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, "", fmt.Errorf("memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "MemAvailable:" {
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 52)
		if err != nil {
			return 0, "", fmt.Errorf("memory: MemAvailable: %w", err)
		}
		available, from := smallest(mem.Bytes(n)*mem.KiB, groupFiles())
		return available, from, nil
	}
	return 0, "", fmt.Errorf("memory: /proc/meminfo has no MemAvailable")
}

// groupFiles lists the files with the limits of this process's control groups and of all above them.
func groupFiles() []string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil // no control groups
	}
	var files []string
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		root, name := "", ""
		switch {
		case f[1] == "":
			root, name = "/sys/fs/cgroup", "memory.max"
		case f[1] == "memory":
			root, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for dir := filepath.Clean("/" + f[2]); ; dir = filepath.Dir(dir) {
			files = append(files, filepath.Join(root, dir, name))
			if dir == "/" {
				break
			}
		}
	}
	return files
}
