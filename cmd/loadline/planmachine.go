package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/spf13/pflag"

	"loadline/internal/regular"
	"loadline/mem"
	"loadline/planner/hardware"
	"loadline/planner/search"
)

// maxMachineBytes and maxMachines bound the file that --hardware-file names.
const (
	maxMachineBytes = 64 << 10
	maxMachines     = 256
)

// machineFlags are where machines are described, and what they have beside their cards.
type machineFlags struct {
	file  string           // a user's machines
	known *search.Machines // as read; nil before
	from  string           // the file that was read; empty before, and without one
}

func (m *machineFlags) register(f *pflag.FlagSet) {
	f.StringVar(&m.file, "hardware-file", "", "YAML `FILE` that describes machines, for --hardware to name; of one machine alone it is the --hardware")
}

// machines are the built-in cards and those of --hardware-file. A --hardware that is the name of such a file stands for the machine in it.
func (h *hardwareFlags) machines() (*search.Machines, error) {
	if h.known != nil {
		return h.known, nil
	}
	table, err := hardware.Load()
	if err != nil {
		return nil, err
	}
	all := search.NewMachines(table)
	path := h.file
	if ext := strings.ToLower(filepath.Ext(h.hardware)); ext == ".yaml" || ext == ".yml" {
		if path != "" && path != h.hardware {
			return nil, usage("give one of them", "--hardware %s names a file, and there is also --hardware-file %s", h.hardware, path)
		}
		path, h.hardware = h.hardware, ""
	}
	if path != "" {
		if all, err = readMachines(path, all); err != nil {
			return nil, err
		}
		h.from = path
		if names := all.Own(); h.hardware == "" && len(names) == 1 {
			h.hardware = names[0]
		} else if h.hardware == "" {
			return nil, usage("--hardware "+names[0], "%s describes %d machines, %s: which is meant?", path, len(names), strings.Join(names[:min(8, len(names))], ", "))
		}
	}
	h.known = all
	return all, nil
}

// around sets what flags say of a machine beside its cards.
func (h *hardwareFlags) around(m *search.Machine) {
	if h.hostMemory > 0 {
		m.Host = mem.Bytes(h.hostMemory)
	}
	if h.nvme > 0 {
		m.NVMe = mem.Bytes(h.nvme)
	}
}

// readMachines reads a file of one machine, or of a list of them under the key hardware.
func readMachines(path string, all *search.Machines) (*search.Machines, error) {
	bad := func(try, format string, args ...any) error {
		return usage(try, "%s: %s", path, fmt.Sprintf(format, args...))
	}
	const example = "write `like: H100-SXM-80GB`, `name: MINE` and what is different, or name, memory, bandwidth_gbs and bf16_tflops"
	if err := present("--hardware-file", path); err != nil {
		return nil, err
	}
	body, err := regular.ReadAll(path, maxMachineBytes)
	if err != nil {
		return nil, advise(fmt.Errorf("--hardware-file: %w", err), "name a short YAML file")
	}
	fields, err := yaml.Parser().Unmarshal(body)
	if err != nil {
		return nil, bad(example, "%v", err)
	}
	list := []any{fields}
	if v, ok := fields["hardware"]; ok {
		several, isList := v.([]any)
		if !isList || len(several) == 0 || len(several) > maxMachines || len(fields) > 1 {
			return nil, bad(example, "hardware: want a list of 1 to %d machines, and nothing beside it", maxMachines)
		}
		list = several
	}
	for i, x := range list {
		one, ok := x.(map[string]any)
		if !ok || len(one) == 0 {
			return nil, bad(example, "machine %d: want settings, one `name: value` a line", i+1)
		}
		next, err := all.With(one)
		var (
			no      *search.Invalid
			unknown *hardware.UnknownError
		)
		switch {
		case errors.As(err, &no) && no.Nearest != "":
			return nil, bad("write "+nearestLine(no), "machine %d: %s: got %s: %s; the nearest valid value is %s", i+1, no.What, no.Got, no.Why, no.Nearest)
		case errors.As(err, &no):
			return nil, bad(example, "machine %d: %s: got %s: %s", i+1, no.What, no.Got, no.Why)
		case errors.As(err, &unknown):
			return nil, bad("write like: "+unknown.Nearest, "machine %d: like: no card has the name %q; the nearest is %s", i+1, unknown.Name, unknown.Nearest)
		case err != nil:
			return nil, bad(example, "machine %d: %s", i+1, words(err))
		}
		all = next
	}
	return all, nil
}

// nearestLine is the line of a file that would be valid.
func nearestLine(no *search.Invalid) string {
	if no.What == "the file" || strings.Contains(no.Nearest, ": ") {
		return no.Nearest
	}
	return no.What + ": " + no.Nearest
}
