package arena

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"loadline/mem"
)

// VmHWM returns the most memory that has been resident in this process since its exec. It is the kernel's own mark: getrusage's
// ru_maxrss survives exec and may show a parent's.
func VmHWM() (mem.Bytes, error) { return statusField("VmHWM:") }

// VmRSS returns the memory that is resident in this process now.
func VmRSS() (mem.Bytes, error) { return statusField("VmRSS:") }

const statusPath = "/proc/self/status"

func statusField(name string) (mem.Bytes, error) {
	text, err := os.ReadFile(statusPath)
	if err != nil {
		return 0, fmt.Errorf("arena: %w", err)
	}
	return parseStatus(text, name)
}

// parseStatus finds the line "VmHWM:	    1234 kB", where kB means KiB.
func parseStatus(text []byte, name string) (mem.Bytes, error) {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) != 3 || string(fields[0]) != name || string(fields[2]) != "kB" {
			continue
		}
		n, err := strconv.ParseInt(string(fields[1]), 10, 53)
		if err != nil {
			return 0, fmt.Errorf("arena: %s: %s %w", statusPath, name, err)
		}
		return mem.Bytes(n) * mem.KiB, nil
	}
	return 0, fmt.Errorf("arena: %s: want a line %s, it has none", statusPath, name)
}
