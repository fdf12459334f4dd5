package main

import (
	"slices"
	"strings"
)

// innerPackages are those whose errors begin with a name that says nothing to who uses a verb. The others' names are words for what is read:
// a gguf file, a tokenizer.
func innerPackages() []string {
	return []string{
		"arena", "bounded", "bytesize", "checkpoint", "collective", "compile", "convert", "corpus", "cost", "cpu", "data", "device", "dtype", "eval", "far",
		"frameworks", "graph", "hardware", "hub", "kernel", "kvcache", "local", "logcheck", "mem", "model", "par", "planner", "pricing", "probe", "quant",
		"ref", "regular", "sample", "sched", "score", "search", "serve", "shape", "tensor", "tier", "train", "web", "weights", "whole", "writers",
	}
}

// words is an error as people are told it: what joins others says each once, and nothing begins with the name of an inner package.
func words(err error) string {
	text := err.Error()
	switch x := err.(type) {
	case interface{ Unwrap() []error }:
		var all []string
		for _, e := range x.Unwrap() {
			if w := words(e); !slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, w) }) {
				all = append(all, w)
			}
		}
		if len(all) > 0 && joins(text, x.Unwrap()) {
			return strings.Join(all, "\n")
		}
	case interface{ Unwrap() error }:
		inner := x.Unwrap()
		if inner == nil {
			break
		}
		if at := strings.LastIndex(text, inner.Error()); at >= 0 {
			return withoutPackage(text[:at]) + words(inner) + text[at+len(inner.Error()):]
		}
	}
	return withoutPackage(text)
}

// joins tells whether a text is those of errors, a line each: errors.Join's.
func joins(text string, errs []error) bool {
	var lines []string
	for _, e := range errs {
		lines = append(lines, e.Error())
	}
	return strings.Join(lines, "\n") == text
}

// withoutPackage leaves out the names of inner packages in front of a text.
func withoutPackage(s string) string {
	for {
		name, rest, ok := strings.Cut(s, ": ")
		if !ok || !slices.Contains(innerPackages(), name) {
			return s
		}
		s = rest
	}
}
