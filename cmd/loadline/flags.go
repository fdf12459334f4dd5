package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadline/internal/edits"
	"loadline/mem"
)

// sizeFlag is a flag that holds bytes.
type sizeFlag mem.Bytes

// String returns what Set reads; empty for zero, which stands for not set.
func (s *sizeFlag) String() string {
	if *s == 0 {
		return ""
	}
	return fmt.Sprint(int64(*s))
}

// Type is what --help calls the value.
func (s *sizeFlag) Type() string { return "SIZE" }

// Set reads a size as a user types it.
func (s *sizeFlag) Set(text string) error {
	n, err := mem.ParseBytes(text)
	if err == nil && n <= 0 {
		err = errors.New("want more than 0")
	}
	*s = sizeFlag(n)
	return err
}

// smallSizes says which sizes of a command line are so small that a unit may have been left out; empty for none.
func smallSizes(f *pflag.FlagSet) string {
	var small []string
	f.VisitAll(func(x *pflag.Flag) {
		if s, ok := x.Value.(*sizeFlag); ok && x.Changed && mem.Bytes(*s) < mem.MiB {
			small = append(small, fmt.Sprintf("--%s is %v", x.Name, mem.Bytes(*s)))
		}
	})
	if len(small) == 0 {
		return ""
	}
	return "a number without a unit, such as MiB, is bytes: " + strings.Join(small, ", ")
}

// choiceFlag is a flag that takes one of some words.
type choiceFlag struct {
	value   string
	choices []string
}

// String returns the word.
func (c *choiceFlag) String() string { return c.value }

// Type is what --help calls the value.
func (c *choiceFlag) Type() string { return strings.Join(c.choices, "|") }

// Set takes one of the words.
func (c *choiceFlag) Set(text string) error {
	for _, w := range c.choices {
		if w == text {
			c.value = text
			return nil
		}
	}
	return &choiceError{text, c.choices}
}

// choiceError says that a word is none of those that can be.
type choiceError struct {
	got     string
	choices []string
}

// Error returns one line.
func (e *choiceError) Error() string { return "want " + orList(e.choices) }

// lastList is a flag of a list of which the last one given counts, as of every other flag: pflag's own add up.
type lastList struct {
	pflag.Value
	pflag.SliceValue // the same
}

// Set implements pflag.Value.
func (l lastList) Set(text string) error {
	old := l.GetSlice()
	if err := l.Replace(nil); err != nil {
		return err
	}
	if err := l.Value.Set(text); err != nil {
		return cmp.Or(l.Replace(old), err)
	}
	return nil
}

// flagError turns an error of the flag parser into one of ours, with the nearest name that there is.
func flagError(c *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		value   *pflag.InvalidValueError
		none    *pflag.ValueRequiredError
		choice  *choiceError
	)
	help := c.CommandPath() + " --help"
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			return usage(help+" lists the flags", "there is no flag -%s", unknown.GetSpecifiedShortnames())
		}
		return unknownFlag(c.Flags(), name, "--", help)
	case errors.As(err, &value):
		name := value.GetFlag().Name
		if errors.As(err, &choice) {
			return usage(didYouMean(choice.got, choice.choices, "--"+name+" ", help), "--%s %s: %v", name, choice.got, choice)
		}
		return usage(help+" tells what --"+name+" takes", "--%s %s: %s", name, value.GetValue(), plainCause(value.Unwrap()))
	case errors.As(err, &none):
		return usage(help+" tells what --"+none.GetSpecifiedName()+" takes", "--%s: want a value", none.GetSpecifiedName())
	}
	return usage(help+" lists the flags", "%v", err)
}

// unknownFlag is the error about a name that is no flag's.
func unknownFlag(f *pflag.FlagSet, name, dashes, help string) error {
	var names []string
	f.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	what := "flag"
	if dashes == "" {
		what = "setting"
	}
	return usage(didYouMean(name, names, dashes, help+" lists the flags"), "there is no %s %s%s", what, dashes, name)
}

// plainCause says what is wrong with a value without the parser's own words.
func plainCause(err error) string {
	var number *strconv.NumError
	if !errors.As(err, &number) {
		return words(err)
	}
	switch {
	case errors.Is(number.Err, strconv.ErrRange):
		return "the number is out of range"
	case number.Func == "ParseUint":
		return "want a whole number of 0 or more"
	case number.Func == "ParseInt":
		return "want a whole number"
	case number.Func == "Atoi": // pflag's lists
		return "want whole numbers, with commas between"
	case number.Func == "ParseBool":
		return "want true or false"
	}
	return "want a number"
}

// orList is "a, b or c".
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// didYouMean advises the nearest of some names, or falls back.
func didYouMean(name string, names []string, before, fallback string) string {
	if n := nearest(name, names); n != "" {
		return before + n
	}
	return fallback
}

// nearest is the name that takes the fewest edits from name, empty if none is near; among equals the first.
func nearest(name string, names []string) string {
	best, at := "", max(2, len(name)/2)+1
	for _, n := range names {
		if d := edits.Distance(strings.ToLower(name), strings.ToLower(n)); d < at {
			best, at = n, d
		}
	}
	if best != "" {
		return best
	}
	for _, n := range names {
		if len(name) > 1 && (strings.HasPrefix(n, name) || strings.Contains(n, name)) {
			return n
		}
	}
	return ""
}
