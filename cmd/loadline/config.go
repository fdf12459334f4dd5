package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"loadline/internal/regular"
)

// exclusive lists flags of which one at most may be set; one on the command line wins over another in a file.
func exclusive() [][]string { return [][]string{{"preset", "model"}} }

// readConfig sets flags that the command line left alone from the file that --config names. Keys are flags' names. positional says that
// the command line has a model as an argument.
func (a *app) readConfig(f *pflag.FlagSet, positional bool) error {
	if a.config == "" {
		return nil
	}
	if err := present("--config", a.config); err != nil {
		return err
	}
	if _, err := regular.ReadAll(a.config, maxConfigBytes); err != nil { // what follows reads all there is
		return usage("check that the file is there, and is short", "--config: %v", err)
	}
	k := koanf.New("\x00") // keys are never nested: a dot is part of a name
	if err := k.Load(file.Provider(a.config), yaml.Parser()); err != nil {
		return usage("check that the file is there and is YAML with one `name: value` a line", "--config %s: %v", a.config, err)
	}
	typed := map[string]bool{"model": positional}
	f.Visit(func(x *pflag.Flag) { typed[x.Name] = true })
	keys := k.Keys()
	slices.Sort(keys)
	for _, key := range keys {
		name, _, nested := strings.Cut(key, "\x00")
		x := f.Lookup(name)
		switch {
		case name == "config":
			return usage("put everything into one file", "--config %s: a config file cannot name another", a.config)
		case x == nil:
			return inFile(a.config, unknownFlag(f, name, "", "loadline --help"))
		case nested:
			return usage(fmt.Sprintf("write %s: VALUE", name), "--config %s: %s: want a value, it has settings below it", a.config, name)
		case typed[name] || replaced(typed, name):
			continue
		}
		if err := setFromFile(f, name, k.Get(key)); err != nil {
			return inFile(a.config, err)
		}
	}
	return nil
}

// replaced tells whether one of the flags that were typed excludes name.
func replaced(typed map[string]bool, name string) bool {
	for _, group := range exclusive() {
		if slices.Contains(group, name) && slices.ContainsFunc(group, func(other string) bool { return other != name && typed[other] }) {
			return true
		}
	}
	return false
}

// setFromFile sets a flag from a YAML value, as if it had been typed. Of a list, a flag that may be given more than once takes each
// item, and any other takes them with commas between.
func setFromFile(f *pflag.FlagSet, name string, value any) error {
	x := f.Lookup(name)
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	var words []string
	for _, v := range list {
		if v == nil {
			return usage(fmt.Sprintf("write %s: VALUE, or leave the line out", name), "%s: want a value", name)
		}
		words = append(words, fmt.Sprint(v))
	}
	x.Changed = true
	if s, ok := x.Value.(pflag.SliceValue); ok {
		if err := s.Replace(words); err != nil {
			return usage("write a list of values as the flag takes it", "%s: %s: %s", name, strings.Join(words, ","), plainCause(err))
		}
		return nil
	}
	text := strings.Join(words, ",")
	if err := x.Value.Set(text); err != nil {
		return usage("write a value as the flag takes it", "%s: %s: %s", name, text, plainCause(err))
	}
	return nil
}

// inFile says which file an error is about.
func inFile(path string, err error) error {
	return usage(advice(err), "--config %s: %v", path, err)
}
